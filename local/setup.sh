#!/bin/sh
# Makes .venv in the repository with the packages of local/requirements.txt, pinned by hash. Does nothing if that is done already.
set -eu
cd "$(dirname "$0")/.."

need() {
    echo "error: $1" >&2
    echo "       on Debian or Ubuntu: sudo apt-get install $2" >&2
    exit 1
}

python=${PLANGATE_PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || need "python 3.10 or newer is missing" "python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || need "$python is older than 3.10; set PLANGATE_PYTHON to a newer one" "python3 python3-venv"
"$python" -c 'import venv, ensurepip' 2>/dev/null || need "$python has no venv module" "python3-venv"

# The stamp names what the environment was made from: the packages, the interpreter, and the place (a venv cannot be moved).
stamp=$("$python" - <<'PY'
import hashlib, pathlib, sys
digest = hashlib.sha256(pathlib.Path("local/requirements.txt").read_bytes())
digest.update(f"{sys.version_info[:3]}{pathlib.Path.cwd()}".encode())
print(digest.hexdigest())
PY
)
[ "$(cat .venv/plangate-stamp 2>/dev/null || true)" = "$stamp" ] && exit 0

echo "making .venv (once; a minute or two)"
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r local/requirements.txt
echo "$stamp" >.venv/plangate-stamp
