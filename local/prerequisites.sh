#!/bin/sh
# Says what is missing on this machine, and how to get it; silent if all is there.
set -u
missing=0
need() {
    echo "missing: $1" >&2
    echo "         $2" >&2
    missing=1
}
command -v cargo >/dev/null 2>&1 || need "Rust (cargo)" "https://rustup.rs, then a new shell"
command -v cc >/dev/null 2>&1 || need "a C compiler (cc), for TLS and zstd" "Debian and Ubuntu: sudo apt-get install build-essential"
command -v python3 >/dev/null 2>&1 || need "Python 3.10 or newer" "Debian and Ubuntu: sudo apt-get install python3 python3-venv"
engine=${PLANGATE_ENGINE:-}
if [ -n "$engine" ]; then
    command -v "$engine" >/dev/null 2>&1 || need "the engine that PLANGATE_ENGINE names, \`$engine\`" "install it, or unset PLANGATE_ENGINE"
elif ! command -v tofu >/dev/null 2>&1 && ! command -v terraform >/dev/null 2>&1; then
    need "an engine: \`tofu\` or \`terraform\`" "https://opentofu.org/docs/intro/install, or set PLANGATE_ENGINE to an engine's path"
fi
exit $missing
