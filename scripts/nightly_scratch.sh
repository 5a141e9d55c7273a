#!/bin/bash
# Large programs and crashes in scratch mounts: databases whose daemon is killed, power losses, disks
# and quotas with no room left, and programs that try file systems. Needs root and a network.
#
#     scripts/nightly_scratch.sh [SECTION...]     default: all of them
#
# Sections: sqlite powerloss fsx fio stress database full git build. Each has a store of its own and
# takes a few minutes; build takes longer. Exit status: 0 when all of them passed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

install_all
install_test_tools
build --bins

# install_programs PROGRAM:PACKAGE...: those that are not there.
install_programs() {
    local program missing=()
    for program in "$@"; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
    done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || install_packages postgresql
install_programs fio:fio stress-ng:stress-ng sqlite3:sqlite3 setquota:quota mkfs.btrfs:btrfs-progs rsync:rsync
PATH=$(printf '%s:' /usr/lib/postgresql/*/bin)$PATH

work=$(mktemp -d "${TMPDIR:-/var/tmp}/arrayfs-scratch.XXXXXX")
chmod 755 "$work"

# Mounts in mounts come later in the table.
leave() {
    local mounted where
    mounted=$(awk -v here="$work/" 'index($5, here) == 1 { print $5 }' /proc/self/mountinfo | tac)
    while read -r where; do
        [ -z "$where" ] || arrayfs umount "$where" 2>/dev/null || umount -l "$where"
    done <<<"$mounted"
    rm -rf --one-file-system "$work"
}
trap leave EXIT

# mount_store NAME [OPTIONS]: a new store, mounted at $mount; beside it the same without arrayfs is
# $plain.
mount_store() {
    store=$work/$1.store mount=$work/$1 plain=$work/$1.plain
    mkdir "$store" "$mount" "$plain"
    chmod 755 "$store" "$plain"
    arrayfs mount -o "scratch,allow_other${2:+,$2}" "$store" "$mount"
}

# What was written is sound, and gone from the disk.
leave_store() {
    arrayfs umount "$mount"
    arrayfs verify "$store" >/dev/null
    rm -rf "$store" "$plain"
}

crashes() {
    mkdir "$work/$1"
    "$ARRAYFS_PYTHON" -B scripts/nightly_scratch.py "$1" "$work/$1"
}

sqlite() { crashes sqlite; }
powerloss() { crashes powerloss; }
full() { crashes full; }

# Every operation that fsx knows, with many seeds and with one for long.
fsx() {
    mount_store fsx
    local seed
    for seed in {1..50}; do
        one_fsx "$seed" 2000
    done
    one_fsx 51 100000
    leave_store
}

one_fsx() {
    "$root/target/tools/bin/fsx" -f mount-tests/posix/fsx.toml -S "$1" -N "$2" -P "$work" "$mount/fsx-$1" >"$work/fsx.log" 2>&1 ||
        { tail -n 30 "$work/fsx.log" && die "fsx: seed $1, $2 operations"; }
    rm "$mount/fsx-$1"
}

# What fio writes it reads back and compares, also after the store has been mounted again.
fio_section() {
    local engine direct kind
    mount_store fio
    for engine in sync libaio mmap; do
        for direct in 0 1; do
            [ "$engine$direct" = mmap1 ] && continue
            for kind in randrw randwrite; do
                one_fio "$engine" "$direct" "$kind"
            done
        done
    done
    arrayfs umount "$mount"
    arrayfs mount -o scratch,allow_other "$store" "$mount"
    # Not of blocks of any size: after those fio expects bytes behind the end, on any file system.
    one_fio libaio 1 randwrite --verify_only
    one_fio mmap 0 randwrite --verify_only
    leave_store
}

one_fio() {
    local aligned=()
    # Blocks of any size where the engine takes them.
    [ "$1" = mmap ] || [ "$2" = 1 ] || aligned=(--bs_unaligned)
    fio --name="$1-$2-$3" --directory="$mount" --size=24M --numjobs=4 --group_reporting --ioengine="$1" --direct="$2" \
        --rw="$3" --bsrange=4k-128k --iodepth=8 --verify=crc32c --verify_fatal=1 --randseed=7 \
        --buffer_compress_percentage=40 --fsync=100 --fallocate=none --verify_state_save=0 "${aligned[@]}" "${@:4}" >"$work/fio.log" 2>&1 ||
        { tail -n 30 "$work/fio.log" && die "fio: $*"; }
}

# Of stress-ng's file system stressors those that try what a file system does for files. Not tried:
#   bind-mount binderfs procfs     other file systems
#   eventfd dup ioprio pipe        no file system
#   chattr inode-flags fiemap file-ioctl verity    ioctls, of which FUSE passes none to arrayfs
stressors=(access chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify fallocate fanotify
    fcntl filename flock fpunch fsize fstat getdent handle hdd inotify io iomix lease link locka
    lockf lockofd mknod open rename symlink sync-file touch utime xattr
    aio mmapfork msync readahead revio seek sendfile splice unlink)

# A stressor that fails has to fail on the file system below as well.
stress() {
    mount_store stress
    local stressor worse=()
    for stressor in "${stressors[@]}"; do
        one_stressor "$stressor" "$mount" && continue
        if one_stressor "$stressor" "$plain"; then
            worse+=("$stressor")
            one_stressor "$stressor" "$mount" || cat "$work/stress.log"
        else
            say "$stressor fails on a disk as well"
        fi
    done
    leave_store
    [ ${#worse[@]} = 0 ] || die "stress-ng: these fail in the mount alone: ${worse[*]}"
}

# Not done (3) and no such stressor (1) do not count.
one_stressor() {
    local status=0
    stress-ng "--$1" 2 -t 3s --verify --temp-path "$2" --oomable >"$work/stress.log" 2>&1 || status=$?
    case $status in
    0) return 0 ;;
    3 | 4) say "$1 tries nothing here: $(grep -m 1 "$1" "$work/stress.log")" ;;
    *) grep -q 'unrecognized option' "$work/stress.log" ;;
    esac
}

as_postgres() {
    setpriv --reuid=postgres --regid=postgres --init-groups env PATH="$PATH" "$@"
}

server() {
    as_postgres pg_ctl -D "$mount/database" -l "$work/postgres/log" -o "-k $work/postgres -h ''" -w "$@"
}

transactions() {
    as_postgres psql -h "$work/postgres" -qtA -c 'SELECT count(*) FROM pgbench_history' postgres
}

# A server whose disk goes away, and which is killed itself, finds all that it has acknowledged.
database() {
    mount_store database
    mkdir "$mount/database" "$work/postgres"
    chown postgres: "$mount/database" "$work/postgres"
    as_postgres initdb --auth=trust --data-checksums -D "$mount/database" >/dev/null
    server start >/dev/null
    as_postgres pgbench -h "$work/postgres" -q -i -s 5 postgres 2>/dev/null
    local round before after running killed children
    for round in 1 2 3; do
        as_postgres pgbench -h "$work/postgres" -T 60 -c 4 postgres >/dev/null 2>&1 &
        running=$!
        sleep 20
        before=$(transactions)
        # Its children hold locks for each other, and are its own to end.
        killed=$(head -1 "$mount/database/postmaster.pid")
        mapfile -t children < <(pgrep -P "$killed")
        kill -9 "$(daemon)"
        kill -9 "$killed" "${children[@]}" 2>/dev/null || true
        wait "$running" || true
        arrayfs umount "$mount" || true
        arrayfs mount -o scratch,allow_other "$store" "$mount"
        until server start >/dev/null 2>&1; do sleep 0.2; done
        after=$(transactions)
        say "round $round: $before transactions before, $after after the crash"
        [ "$after" -ge "$before" ]
        as_postgres pg_amcheck -h "$work/postgres" --install-missing --heapallindexed postgres 2>/dev/null
    done
    server stop >/dev/null
    as_postgres pg_checksums --check -D "$mount/database" >/dev/null
    leave_store
}

daemon() {
    arrayfs status --json "$mount" | "$ARRAYFS_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)[0]["daemon"]["pid"])'
}

# A repository that grows, an archive of many files, a copy that is made again.
git_section() {
    mount_store git
    local n
    git clone --quiet . "$mount/clone"
    git -C "$mount/clone" config user.email nobody@example.com
    git -C "$mount/clone" config user.name Nobody
    for n in {1..50}; do
        head -c $((n * 1000)) /dev/urandom >"$mount/clone/noise-$n"
        seq "$n" $((n * 100)) >"$mount/clone/numbers-$((n % 7))"
        git -C "$mount/clone" add -A
        git -C "$mount/clone" commit --quiet -m "commit $n"
    done
    git -C "$mount/clone" gc --quiet --prune=now
    git -C "$mount/clone" fsck --full --strict >/dev/null
    [ "$(git -C "$mount/clone" status --short)" = "" ]

    mkdir -p "$plain/tree"
    for n in {0..49}; do
        mkdir "$plain/tree/$n"
        seq -f "$plain/tree/$n/%g" 100 | xargs -I {} sh -c 'seq "$1" >"$2"' sh $((n * 37)) {}
    done
    ln -s 0/1 "$plain/tree/link"
    ln "$plain/tree/1/1" "$plain/tree/2/other"
    tar -C "$plain" -cf "$work/tree.tar" tree
    tar -C "$mount" -xpf "$work/tree.tar"
    diff -r "$plain/tree" "$mount/tree"
    tar -C "$mount" -cf "$mount/again.tar" tree
    tar -C "$plain" --compare -f "$mount/again.tar"
    rsync -aHX "$plain/tree/" "$mount/copy/"
    [ "$(rsync -aHXi --modify-window=-1 "$plain/tree/" "$mount/copy/")" = "" ]

    # The same from the disk, when all is stored.
    arrayfs umount "$mount"
    arrayfs mount -o scratch,allow_other "$store" "$mount"
    diff -r "$plain/tree" "$mount/tree"
    [ "$(rsync -aHXi --modify-window=-1 "$plain/tree/" "$mount/copy/")" = "" ]
    git -C "$mount/clone" fsck --full --strict >/dev/null
    [ "$(git -C "$mount/clone" status --short)" = "" ]
    leave_store
    rm "$work/tree.tar"
}

# Its own tests are the proof that it was built right; here it says its version, and a second build
# finds nothing to do.
build_itself() {
    mount_store build
    git clone --quiet . "$mount/arrayfs"
    (cd "$mount/arrayfs" && CARGO_TARGET_DIR=$mount/target nice -n 19 cargo build --quiet --locked)
    "$mount/target/debug/arrayfs" --version
    (cd "$mount/arrayfs" && [ "$(CARGO_TARGET_DIR=$mount/target cargo build --locked 2>&1 | grep -c Compiling)" = 0 ])
    leave_store
}

for what in "${@:-sqlite powerloss fsx fio stress database full git build}"; do
    for one in $what; do
        say "$one"
        case $one in
        sqlite | powerloss | fsx | stress | database | full) "$one" ;;
        fio | git) "${one}_section" ;;
        build) build_itself ;;
        *) die "usage: scripts/nightly_scratch.sh [sqlite] [powerloss] [fsx] [fio] [stress] [database] [full] [git] [build]" ;;
        esac
    done
done
say "scratch mounts: passed"
