#!/bin/bash
# Runs tests under checkers that see what tests alone do not.
#
#     scripts/checkers.sh [schedules | miri | address | thread] [TEST...]
#
# schedules: the cache, the budget and the stage's layers in thousands of orders of their threads
#            (shuttle); seconds, once it is built, and the default.
# miri:      the codecs without vector instructions, then what has them with AVX2, each step checked
#            for undefined behaviour; half an hour; needs the nightly toolchain, which is installed
#            where rustup can.
# address:   mounted tests with AddressSanitizer in the daemon, its workers and commands.
# thread:    the same with ThreadSanitizer; needs the nightly toolchain, too.
#
# TEST: names, as `cargo test` takes them; default: all. What has been run, and was found, stands in
# docs/benchmarks.md. Exit status: 0 when nothing was found.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

checker=${1:-schedules}
[ $# = 0 ] || shift
install_all
triple=$(rustc -vV | sed -n 's/^host: //p')

# install_nightly COMPONENT...
install_nightly() {
    command -v rustup >/dev/null || die "this needs a nightly toolchain, and there is no rustup"
    rustup component list --toolchain nightly 2>/dev/null | grep -q "installed" ||
        rustup toolchain install nightly --profile minimal
    rustup component add --toolchain nightly "$@"
}

# sanitized NAME CARGO... -- TEST...: mounted tests of programs that are built with a sanitizer.
#
# A process that stops at a finding ends its requests with an error, and the test fails.
sanitized() {
    local name=$1 cargo=()
    shift
    while [ "$1" != -- ]; do
        cargo+=("$1")
        shift
    done
    # Only unstable options of a compiler ask for sanitizers; a stable one has them, too.
    export RUSTFLAGS="-Zsanitizer=$name --cfg sanitized" RUSTC_BOOTSTRAP=1
    # gcc takes tables within functions of C for variables that end with them.
    [ "$name" = thread ] || export CFLAGS=-fno-sanitize-address-use-after-scope
    install_test_tools
    "${cargo[@]}" --locked --no-fail-fast --test mount-tests --target "$triple" \
        --target-dir "target/$name" "$@"
}

case $checker in
schedules)
    # One after the other: the threads of a test are taken turns with within one thread.
    cargo test --locked --workspace --lib --features schedules -- --test-threads 1 "${@:-schedules::}"
    ;;
miri)
    install_nightly miri rust-src
    # Files of failures are read and written; a few cases are enough where each takes seconds.
    export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2
    codecs=(cargo +nightly miri test --locked --package arrayfs-codec --lib)
    "${codecs[@]}" -- "$@"
    # It has the vector instructions that a program is compiled for, whatever the machine has.
    if [ "${triple%%-*}" = x86_64 ]; then
        [ $# != 0 ] || set -- shuffle bp128
        RUSTFLAGS=-Ctarget-feature=+avx2 "${codecs[@]}" --target-dir target/miri-avx2 -- "$@"
    fi
    ;;
address)
    export ASAN_OPTIONS=detect_odr_violation=0:detect_leaks=0:quarantine_size_mb=16
    sanitized address cargo test -- "$@"
    ;;
thread)
    install_nightly rust-src
    export TSAN_OPTIONS=halt_on_error=1
    sanitized thread cargo +nightly test -Zbuild-std -- "$@"
    ;;
*) die "usage: scripts/checkers.sh [schedules | miri | address | thread] [TEST...]" ;;
esac
