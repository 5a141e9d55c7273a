#!/bin/bash
# Tries what scripts/test.sh does not: all of what takes so long that only a sample of it is tried
# there (every state of the crash simulation, every kill, every seed), then property tests with
# random seeds and many cases, random containers, random operations in writable mounts; packages as
# they are handed out; and large programs at work in a mount (nightly_programs.sh), and in scratch
# mounts that are killed, lose power and fill up (nightly_scratch.sh).
#
#     scripts/nightly.sh [ROUNDS]        default 10
#
# What property tests find is kept in proptest-regressions/, to be committed: those cases are then
# tried first by every run. What mounted tests find is named by its seed. Exit status: 0 when every
# round passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

rounds=${1:-10}
case $rounds in
*[!0-9]* | "") die "usage: scripts/nightly.sh [ROUNDS]" ;;
esac
install_all
install_test_tools
build --bins

command -v cargo-deny >/dev/null || {
    say "installing cargo-deny"
    # Built without optimisation it is there in half the time, and fast enough.
    cargo install --quiet --debug cargo-deny --version 0.20.2 --locked </dev/null
}

# test_mounts ARGUMENT...: mounted tests, in processes beside each other.
test_mounts() {
    cargo test --release --locked --no-fail-fast --test mount-tests \
        --config "target.'cfg(unix)'.runner = ['mount-tests/in_parts.sh']" -- "$@" </dev/null
}

failed=()
say "dependencies"
cargo deny --log-level error check bans licenses sources || failed+=("cargo deny")
timeout 60 cargo deny --log-level error check advisories </dev/null ||
    say "advisories: not good, or the database cannot be reached; not counted"
say "packages, as they are handed out"
{ scripts/package.sh && scripts/test_packages.sh; } || failed+=("packages")
say "programs in a mount"
scripts/nightly_programs.sh || failed+=("nightly_programs.sh")
say "scratch mounts"
scripts/nightly_scratch.sh || failed+=("nightly_scratch.sh")
say "the whole"
ARRAYFS_TEST_WHOLE=1 cargo test --release --locked --no-fail-fast --workspace --lib </dev/null ||
    failed+=("lib, ARRAYFS_TEST_WHOLE=1")
ARRAYFS_TEST_WHOLE=1 test_mounts || failed+=("mount-tests, ARRAYFS_TEST_WHOLE=1")
for ((round = 1; round <= rounds; round++)); do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    say "round $round of $rounds: seed $seed"
    PROPTEST_RNG_SEED=$seed PROPTEST_CASES=${PROPTEST_CASES:-5000} \
        cargo test --release --locked --no-fail-fast --workspace --lib </dev/null || failed+=("lib, PROPTEST_RNG_SEED=$seed")
    ARRAYFS_TEST_SEED=$seed test_mounts corrupt:: oracles:: reading:: model:: write_bpcells::round_trip fsx ||
        failed+=("mount-tests, ARRAYFS_TEST_SEED=$seed")
done

git status --short proptest-regressions
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
say "$rounds rounds passed"
