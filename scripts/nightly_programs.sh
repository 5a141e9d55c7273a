#!/bin/bash
# Large programs at work in an ordinary directory of a writable mount: packages for Python, a
# database whose server is killed, and a build of arrayfs itself. Needs root and a network.
#
#     scripts/nightly_programs.sh [packages] [database] [build]      default: all of them
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

install_all
build --bins
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || install_packages postgresql
PATH=$(printf '%s:' /usr/lib/postgresql/*/bin)$PWD/target/release:$PATH

work=$(mktemp -d target/programs.XXXXXX)
chmod 755 "$work"
mkdir "$work/source" "$work/mount"
mount=$PWD/$work/mount
arrayfs mount -o rw,allow_other "$work/source" "$mount"
leave() {
    arrayfs umount "$mount" && rm -rf "$work"
}
trap leave EXIT

# What a program installs and another one then imports.
packages() {
    "$ARRAYFS_PYTHON" -m venv "$mount/venv"
    "$mount/venv/bin/pip" install --quiet numpy
    "$mount/venv/bin/python" -c 'import numpy; assert numpy.arange(1000).sum() == 499500'
}

as_postgres() {
    setpriv --reuid=postgres --regid=postgres --init-groups env PATH="$PATH" "$@"
}

server() {
    as_postgres pg_ctl -D "$mount/database" -l "$mount/database/log" -o "-k $mount/database -h ''" -w "$@"
}

# A server that is killed while it is written to finds all that it has acknowledged.
database() {
    local here=(-h "$mount/database")
    mkdir "$mount/database"
    chown postgres: "$mount/database"
    as_postgres initdb --data-checksums -D "$mount/database" >/dev/null
    server start >/dev/null
    as_postgres pgbench "${here[@]}" -q -i -s 5 postgres 2>/dev/null
    as_postgres pgbench "${here[@]}" -T 40 -c 4 postgres >/dev/null 2>&1 &
    local running=$! before
    until before=$(transactions) && [ "$before" -gt 1000 ]; do sleep 0.2; done
    kill -9 "$(head -1 "$mount/database/postmaster.pid")"
    wait "$running" || true
    # The killed server's children are on their way out.
    until server start >/dev/null 2>&1; do sleep 0.2; done
    [ "$(transactions)" -ge "$before" ]
    as_postgres pg_amcheck "${here[@]}" --install-missing --heapallindexed postgres
    server stop >/dev/null
}

transactions() {
    as_postgres psql "${here[@]}" -qtA -c 'SELECT count(*) FROM pgbench_history' postgres
}

# Its own tests are the proof that it was built right; here it says its version.
build_itself() {
    git clone --quiet . "$mount/arrayfs"
    (cd "$mount/arrayfs" && CARGO_TARGET_DIR=$mount/target cargo build --quiet --locked)
    "$mount/target/debug/arrayfs" --version
}

for what in "${@:-packages database build}"; do
    for one in $what; do
        say "$one"
        case $one in
        packages | database) "$one" ;;
        build) build_itself ;;
        *) die "usage: scripts/nightly_programs.sh [packages] [database] [build]" ;;
        esac
    done
done
say "programs in a mount: passed"
