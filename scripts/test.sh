#!/bin/bash
# Installs what is missing and runs every check and test. The last line is the count.
#
#     scripts/test.sh [--quick]
#
# --quick: format, lints, and most tests that take no seconds, of the build that `cargo build` and
# `cargo test` make. Otherwise all of the release's. Of what takes
# long a sample is tried; scripts/nightly.sh tries all of it. Works without a terminal and without
# input. A larger golden corpus beside the checkout is used, if there is one. Exit status: 0 when
# everything passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

quick=
case "$*" in
'') build=release ;;
--quick) quick=1 build=debug ;;
*) die "usage: scripts/test.sh [--quick]" ;;
esac

[ "$quick" ] && profile=() || profile=(--release)
passed=0
failed=0
failures=()

# check NAME COMMAND...: counts as one test.
check() {
    local name=$1
    shift
    say "$name: $*"
    if "$@" </dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        failures+=("$name")
    fi
}

# count NAME STATUS LOG PATTERN: adds up the counts of the lines with this pattern; a command that
# failed without counting a failure counts as one.
count() {
    local name=$1 status=$2 log=$3 pattern=$4 p f
    p=$(sed -nE "s/$pattern/\\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }')
    f=$(sed -nE "s/$pattern/\\2/p" "$log" | awk '{ n += $1 } END { print n + 0 }')
    [ "$status" = 0 ] || [ "$f" -gt 0 ] || f=1
    [ "$status" != 0 ] || [ "$((p + f))" -gt 0 ] || f=1
    passed=$((passed + p))
    failed=$((failed + f))
    [ "$f" = 0 ] || failures+=("$name")
}

# logged LOG COMMAND...: shows and keeps the output, gives the status.
logged() {
    local log=$1
    shift
    "$@" </dev/null 2>&1 | tee "$log"
    return "${PIPESTATUS[0]}"
}

# run_tests NAME TARGET... -- ARGUMENT...: runs and counts tests, mounted ones in processes beside
# each other. How long each took stands in $scratch/times.
#
# Only an unstable option of the test programs tells times; they alone see that it is wanted, not
# what is built.
run_tests() {
    local name=$1 targets=() status=0 in_parts=
    local log=$scratch/${name// /-}.log
    shift
    case "$*" in *mount-tests*) in_parts=", 'mount-tests/in_parts.sh'" ;; esac
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        targets+=("$1")
        shift
    done
    say "$name"
    logged "$log" cargo test "${profile[@]}" --locked --no-fail-fast "${targets[@]}" \
        --config "target.'cfg(unix)'.runner = ['env', 'RUSTC_BOOTSTRAP=1'$in_parts]" \
        -- -Z unstable-options --report-time "${@:2}" || status=$?
    count "$name" $status "$log" '^test result: [^0-9]*([0-9]+) passed; ([0-9]+) failed.*'
    sed -nE "s/^test (.*) \.\.\. .*<([0-9.]+)s>\$/\2 s  \1/p" "$log" >>"$scratch/times"
}

# Files that will have to be cut soon: at 500 lines a test fails.
long_files() {
    say "files of more than 450 lines"
    find src mount-tests -name '*.rs' -exec wc -l {} + | awk '$1 > 450 && $2 != "total"' | sort -rn | sed -n 1,30p
}

slowest() {
    say "the slowest tests"
    # Reads to the end: a pipe that is closed early would end the script.
    sort -rn "$scratch/times" | sed -n 1,20p
}

# Everything that tests leave behind is found by these two: their directory and a mark in the
# environment.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/arrayfs-test.XXXXXX")
chmod 755 "$scratch"
export TMPDIR=$scratch
export ARRAYFS_TEST_RUN=$scratch

mounts_left() { awk -v at="$scratch/" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo; }

daemons_left() {
    local pid
    for pid in $(pgrep -x 'arrayfs(-hdf5)?' || true); do
        # It may have ended meanwhile.
        if grep -qzx "ARRAYFS_TEST_RUN=$scratch" "/proc/$pid/environ" 2>/dev/null; then
            echo "$pid"
        fi
    done
}

# A detached daemon may need a moment to end.
nothing_left() {
    local tries=50
    while [ -n "$(mounts_left)$(daemons_left)" ] && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    [ -z "$(mounts_left)$(daemons_left)" ] && return
    echo "mounts left behind: $(mounts_left | tr '\n' ' ')"
    echo "daemons left behind: $(daemons_left | tr '\n' ' ')"
    return 1
}

clean_up() {
    local path pid
    for pid in $(daemons_left); do kill -9 "$pid" 2>/dev/null || true; done
    for path in $(mounts_left | sort -r); do
        umount -l "$path" 2>/dev/null || fusermount3 -uz "$path" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap clean_up EXIT

install_all
install_test_tools

if cargo fmt --version >/dev/null 2>&1; then
    check format cargo fmt --all --check
else
    say "no rustfmt here: the format is not checked"
fi
if cargo clippy --version >/dev/null 2>&1; then
    check lints cargo clippy "${profile[@]}" --locked --workspace --all-targets -- -D warnings
else
    say "no clippy here: lints are not checked"
fi

# cargo-deny looks only at Cargo.lock and deny.toml, which change rarely, and takes longer to build
# than arrayfs. So only scripts/nightly.sh installs it, and looks at advisories, whose database is
# downloaded.
dependencies() {
    command -v cargo-deny >/dev/null || {
        say "no cargo-deny here: licences and sources are not checked (scripts/nightly.sh installs it)"
        return 0
    }
    check dependencies cargo deny --log-level error check bans licenses sources
}

# Other programs, random sessions, kills, copies of all that there is, many of anything: most of
# what takes seconds.
slow=(posix:: programs:: memory:: oracles:: worker:: corrupt:: killed model:: fsx round_trip orders:: little_memory
    everything_else_is_as_it_was many:: many_lines every_other_text blosc_chunks write_hdf5::sparse::
    write_hdf5::groups:: write_hdf5::made:: write_hdf5::names:: write_hdf5::room:: write_hdf5::held::
    write_bpcells::made:: write_bpcells::staged:: write_bpcells::turned:: write_daphne::made:: rsync
    write_bpcells::beside:: write_hdf5::text:: life_cycle::umount pack:: pack_tree:: show::tables full_disk::
    held_by_h5py:: write_hdf5::grown:: write_hdf5::interrupted:: paced:: whole_corpus a_daemon_that_is_stopped
    change::a_container_becomes the_library_reads real_program as_the_program_writes blocks_keep_their_cutting
    few_descriptors:: sparse_archives:: listing::a_directory_of_many emptied_while_it_is_listed
    renamed_over:: shapes:: an_array_is_named_as_ls top::a_daemon durability:: write_hdf5::carried::
    write_bloscpack::sharing:: a_few_seconds_later)
# The same of the libraries: a crash, a kill or a failure at every step, large files, whole corpora.
slow_units=(crash:: failing:: out_of_memory:: golden_containers due:: large:: random:: replay:: whichever_call_fails
    every_beginning retyped::a_mount_that in_sequence::tests chunk_table::tests packing_that_takes a_long_text_is_shown
    sessions::)

# Writes always, never mounts, or looks at processes and at what is not written: whether a run
# mounts read-only cannot matter to these; the whole corpus is read by its own program below.
writes=(structure:: who_writes:: writing:: model:: programs:: full_disk:: posix:: write_bloscpack:: write_bpcells::
    write_daphne:: write_hdf5:: write_netcdf:: corrupt::written memory::written_hdf5 memory::described
    foreign_logs:: pack:: scratch:: strays::)
any_mode=(blosc_chunks:: requests:: rights:: killed_daemon:: worker:: many:: umount_says_that umount_tells_of
    where_memory_is_refused metadata_that_inflate a_piece_for_every_byte verify_ends_with claims_of_gigabytes
    what_is_staged_is_settled directory_of_many_names of_the_whole_corpus)

[ "$quick" ] || dependencies
# Of the program that is tested; scripts/nightly.sh builds those that are handed out.
packages() {
    scripts/package.sh --built deb wheel && scripts/test_packages.sh pages completions deb wheel
}

# All at once keeps every core busy.
say "building what is tested"
cargo test "${profile[@]}" --locked --no-run --workspace --lib --bins --test mount-tests </dev/null
# The daemon that mounted tests start.
export PATH=$PWD/target/$build:$PATH
if [ "$quick" ]; then
    run_tests "unit tests that take no seconds" --workspace --lib --bins -- "${slow_units[@]/#/--skip=}"
    run_tests "mounted tests that take no seconds" --test mount-tests -- "${slow[@]/#/--skip=}"
else
    run_tests "unit tests" --workspace --lib --bins --
    run_tests "mounted tests" --test mount-tests --
    ARRAYFS_TEST_MODE=ro run_tests "mounted tests, read-only" --test mount-tests -- \
        "${writes[@]/#/--skip=}" "${any_mode[@]/#/--skip=}"
    check sessions "$ARRAYFS_PYTHON" scripts/sessions.py
    install_interpreters
    for name in recipes recipes_xarray; do
        say "$name"
        status=0
        logged "$scratch/$name.log" "$ARRAYFS_PYTHON" "scripts/$name.py" || status=$?
        count "$name" $status "$scratch/$name.log" '^([0-9]+) passed, ([0-9]+) failed.*'
    done
    check packages packages
    if [ -f ../shared/tools/check_golden.py ] && [ -d ../shared/golden ]; then
        say "golden corpus beside the checkout"
        status=0
        # Without a descriptor arrays are those of HDF5, whatever they are called.
        logged "$scratch/golden.log" "$ARRAYFS_PYTHON" ../shared/tools/check_golden.py \
            --skip '^bad-no-descriptor$' --bin target/release/arrayfs --root ../shared/golden || status=$?
        count "golden corpus" $status "$scratch/golden.log" '^([0-9]+) passed, ([0-9]+) failed.*'
        if [ -d ../shared/golden-zarr ]; then
            status=0
            logged "$scratch/golden-zarr.log" "$ARRAYFS_PYTHON" ../shared/tools/check_golden.py \
                --bin target/release/arrayfs --root ../shared/golden-zarr || status=$?
            count "golden corpus of Zarr" $status "$scratch/golden-zarr.log" \
                '^([0-9]+) passed, ([0-9]+) failed.*'
        fi
    fi
fi

check "nothing left behind" nothing_left

[ "$quick" ] || long_files
slowest
if [ ${#failures[@]} -gt 0 ]; then
    say "failed: ${failures[*]}"
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
