#!/bin/bash
# Fuzzes arrayfs with libFuzzer, and keeps what was found.
#
#     scripts/fuzz.sh [--minutes N] [TARGET...]
#
# TARGET: one of `ls fuzz/fuzz_targets`, without the ending; default: all. --minutes: for each;
# default 30 for a format and 10 for anything else. Begins with fuzz/corpus and with seeds out of the
# golden containers. What it finds goes to fuzz/finds/TARGET, and the smallest inputs that reach as
# much of the code as all together to fuzz/corpus/TARGET.tar.gz; both are to be committed, and
# scripts/test.sh runs them. A line for each target says how much was tried. Exit status: 0 when
# nothing was found.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

formats=" bloscpack netcdf hdf5 daphne bpcells zarr zarr_zip "
minutes=
if [ "${1:-}" = --minutes ]; then
    minutes=${2:-}
    case $minutes in *[!0-9]* | "") die "usage: scripts/fuzz.sh [--minutes N] [TARGET...]" ;; esac
    shift 2
fi
targets=("$@")
if [ $# = 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || die "there is no target $target"
done

install_all
install_packages g++
command -v cargo-fuzz >/dev/null || {
    say "installing cargo-fuzz"
    cargo install --quiet --debug cargo-fuzz --version 0.13.2 --locked </dev/null
}
# A stable compiler can do all that fuzzers need, if it is told that it may.
export RUSTC_BOOTSTRAP=1
# Freed memory is kept from use for a while, to find what still uses it; not more than this. Tables
# that libdeflate has several times are none of our business.
export ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1:detect_odr_violation=0
# gcc takes tables within functions of C for variables that end with them.
export CFLAGS=-fno-sanitize-address-use-after-scope
work=target/fuzz/work
say "building"
cargo fuzz build -O --debug-assertions --target-dir target/fuzz

# Inputs that are larger show little more. A target may take 256 MiB and what it is allowed to
# decode: 64 MiB of a container, 4 MiB of a chunk. libhdf5 runs in circles in some files, and loses
# memory in others: a worker is limited from outside.
limits() {
    case $1 in
    hdf5) echo "-max_len=49152 -rss_limit_mb=320 -timeout=5 -detect_leaks=0" ;;
    bloscpack | netcdf | daphne | bpcells | zarr | zarr_zip) echo "-max_len=49152 -rss_limit_mb=320 -timeout=20" ;;
    *) echo "-max_len=4096 -rss_limit_mb=260 -timeout=5" ;;
    esac
}

# Pipes are read to the end: one that is closed early would end the script.
#
# minimise TARGET: the smallest corpus that reaches as much; packed, its largest inputs left out
# where there are too many for a repository.
minimise() {
    local target=$1 least=$work/$1/least kept=fuzz/corpus/$1.tar.gz most=100
    case $formats in *" $target "*) most=450 ;; esac
    rm -rf "$least"
    mkdir -p "$least" fuzz/corpus
    # shellcheck disable=SC2046
    "$program" -merge=1 $(limits "$target") "$least" "$work/$target/corpus" >"$work/$target/merge.log" 2>&1 ||
        say "$target: the corpus could not be minimised, see $work/$target/merge.log"
    while :; do
        # The same inputs make the same file.
        tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -C "$least" . | gzip -9n >"$kept"
        [ "$(du -k --apparent-size "$kept" | cut -f1)" -le $most ] && break
        find "$least" -type f -printf '%s %p\n' | sort -rn | sed -n 1,5p | cut -d ' ' -f 2- | xargs -d '\n' rm
    done
}

found=0
mkdir -p "$work"
python3 fuzz/seeds.py mount-tests/golden "$work/seeds"
for target in "${targets[@]}"; do
    corpus=$work/$target/corpus finds=$work/$target/finds log=$work/$target/log
    time=$minutes
    [ -n "$time" ] || case $formats in *" $target "*) time=30 ;; *) time=10 ;; esac
    rm -rf "$finds"
    mkdir -p "$corpus" "$finds" "$work/seeds/$target"
    [ ! -f "fuzz/corpus/$target.tar.gz" ] || tar -xzf "fuzz/corpus/$target.tar.gz" -C "$corpus"
    program=$(find target/fuzz -path "*/release/$target" -type f -perm -u+x -print -quit)
    say "$target: $time minutes"
    # shellcheck disable=SC2046
    "$program" -fork=1 -ignore_crashes=1 -ignore_ooms=1 -ignore_timeouts=1 \
        -max_total_time=$((60 * time)) $(limits "$target") -artifact_prefix="$finds/" \
        "$corpus" "$work/seeds/$target" >"$log" 2>&1 </dev/null || true
    count=$(find "$finds" -type f | wc -l)
    if [ "$count" -gt 0 ]; then
        mkdir -p "fuzz/finds/$target"
        cp "$finds"/* "fuzz/finds/$target/"
        found=$((found + count))
    fi
    minimise "$target"
    executions=$(grep -oE '^#[0-9]+' "$log" | tail -n 1 | tr -d '#' || true)
    reached=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d ' ' -f 2 || true)
    printf '%-16s %3d minutes %12s executions %7s edges %5d finds\n' \
        "$target" "$time" "${executions:-0}" "${reached:-0}" "$count" | tee -a "$work/told"
done
[ $found = 0 ] || die "$found finds in fuzz/finds"
