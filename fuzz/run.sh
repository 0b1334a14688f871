#!/usr/bin/env bash
# Fuzzes each target for a bounded time: fuzz/run.sh [SECONDS]. Fails at the first input that breaks one.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz --locked" >&2; exit 1; }

# The vectors are the seeds: each file under the name of its case.
for kind in document verdict policy; do
    mkdir -p "corpus/$kind"
    for file in ../vectors/*/"$kind".json; do
        cp "$file" "corpus/$kind/$(basename "$(dirname "$file")")"
    done
done
mkdir -p corpus/bundle
cp ../shared/bundle/tests/bundle/language/*.tf corpus/bundle/
tar --format=gnu -cf corpus/bundle/language.tar -C ../shared/bundle/tests/bundle/language .

for target in document verdict policy bundle; do
    echo "== $target, $seconds s"
    cargo fuzz run --sanitizer none "$target" -- -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
done
