#!/bin/bash
# Runs a test program in parts, several at once, each a process whose tests run one after another.
#
#     in_parts.sh PROGRAM ARGUMENT...
#
# Tests that run beside each other in one process disturb each other: a program that one of them
# starts has a copy of every file that the others have open, for a moment, and its end of it is a
# close. What a part prints is shown when it has ended. A `runner` of cargo's, used by
# scripts/test.sh. Exit status: 0 when all tests of all parts passed.
set -euo pipefail

program=$1
shift
at_once=$(($(nproc) * 2))
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run_part LIST ARGUMENT...: the tests whose names stand in this file.
run_part() {
    local list=$1 names
    shift
    mapfile -t names <"$list"
    "$program" "$@" --exact --test-threads 1 "${names[@]}" >"$list.log" 2>&1 </dev/null || touch "$scratch/failed"
    flock "$scratch" cat "$list.log"
}

"$program" "$@" --list --format terse 2>/dev/null | sed -n 's/: test$//p' >"$scratch/tests"
# Many enough that all end at the same time, of many enough tests that starting a part takes none.
parts=$(($(wc -l <"$scratch/tests") / 60 + at_once))
# One after the other in turn: those that take long lie beside each other.
split -n "r/$parts" "$scratch/tests" "$scratch/part."
for list in "$scratch"/part.??; do
    [ -s "$list" ] || continue
    [ "$(jobs -rp | wc -l)" -lt "$at_once" ] || wait -n || true
    run_part "$list" "$@" &
done
wait
[ ! -e "$scratch/failed" ]
