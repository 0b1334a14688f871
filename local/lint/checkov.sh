#!/bin/sh
# checkov over the templates, in an environment of its own. What it may find is in templates.py, with the reasons.
set -eu
cd "$(dirname "$0")/../.."
home=local/lint/.checkov
# Made anew where the pinned packages, the interpreter or the place is another.
stamp=$(.venv/bin/python -c 'import hashlib, pathlib, sys; print(hashlib.sha256(pathlib.Path("local/lint/checkov.txt").read_bytes() + f"{sys.version_info[:3]}{pathlib.Path.cwd()}".encode()).hexdigest())')
if [ "$(cat "$home/stamp" 2>/dev/null || true)" != "$stamp" ]; then
    echo "making $home (once; a minute or two)" >&2
    rm -rf "$home"
    .venv/bin/python -m venv "$home"
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r local/lint/checkov.txt
    echo "$stamp" >"$home/stamp"
fi
found=$(mktemp)
trap 'rm -f "$found"' EXIT
# Nothing is fetched: neither rules nor modules. An exit code other than 0 only says that something was found.
"$home/bin/checkov" --directory infra --framework cloudformation --skip-download --quiet --compact --soft-fail --output json >"$found"
.venv/bin/python -m local.lint.templates "$found"
