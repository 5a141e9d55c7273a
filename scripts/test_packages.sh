#!/bin/bash
# Tries the packages in target/packages, which scripts/package.sh makes. Each is installed where
# nothing else is, used, and removed.
#
#     scripts/test_packages.sh [pages] [completions] [deb] [wheel] [tarball]       default: all
#
# pages, completions: what the Debian package has of them is accepted by man, mandoc and shells, as
# far as these are installed. deb: in a bare root of the running Debian (made once by debootstrap,
# in target/root; the first time takes a minute), with an upgrade and a removal under a running
# mount; needs root and /dev/fuse. wheel: in a new virtual environment. tarball: below a prefix.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

packages=$root/target/packages
scratch=$(mktemp -d "${TMPDIR:-/tmp}/arrayfs-packages.XXXXXX")
chmod 755 "$scratch"

clean_up() {
    local path
    # Mounts within a root first, then what has been mounted for it.
    awk -v at="$scratch/" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r path; do umount -l "$path" 2>/dev/null || true; done
    rm -rf --one-file-system "$scratch"
}
trap clean_up EXIT

# one PATTERN: the only package of this name.
one() {
    local found=("$packages"/$1)
    [ ${#found[@]} = 1 ] && [ -f "${found[0]}" ] ||
        die "one target/packages/$1 is expected; scripts/package.sh makes it"
    printf '%s\n' "${found[0]}"
}

# equal WHAT FOUND EXPECTED
equal() { [ "$2" = "$3" ] || die "$1: found '$2', expected '$3'"; }

# The Debian package's files, unpacked in $scratch/deb.
unpack_deb() {
    [ -d "$scratch/deb" ] || dpkg-deb -x "$(one 'arrayfs_*.deb')" "$scratch/deb"
}

try_pages() {
    unpack_deb
    local page plain said
    command -v mandoc >/dev/null || say "no mandoc here: pages are looked at by man alone"
    for page in "$scratch"/deb/usr/share/man/man?/*.gz; do
        plain=$scratch/$(basename "$page" .gz)
        gzip -dc "$page" >"$plain"
        if command -v mandoc >/dev/null; then
            # Warnings are mistakes; styles are a matter of taste.
            said=$(mandoc -T lint -W warning "$plain" || true)
            equal "mandoc -T lint $(basename "$plain")" "$said" ''
        fi
        if command -v man >/dev/null; then
            said=$(MANROFFSEQ='' LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$plain" 2>&1 >/dev/null)
            equal "man --warnings $(basename "$plain")" "$said" ''
        fi
    done
    # Each command that the help has.
    for page in arrayfs.1 arrayfs-mount.1 arrayfs-stage-discard.1 mount.fuse.arrayfs.8 umount.fuse.arrayfs.8; do
        [ -s "$scratch/$page" ] || die "there is no page $page"
    done
}

try_completions() {
    unpack_deb
    local share=$scratch/deb/usr/share said
    # shellcheck disable=SC2016
    said=$(bash -c '. "$1"; COMP_WORDS=(arrayfs pack --codec "") COMP_CWORD=3; complete -p arrayfs
        _arrayfs arrayfs "" --codec; echo "${COMPREPLY[*]}"' bash "$share/bash-completion/completions/arrayfs")
    case $said in
    *'_arrayfs'*zstd*) ;;
    *) die "bash completes nothing: $said" ;;
    esac
    if command -v zsh >/dev/null; then
        # shellcheck disable=SC2016
        said=$(zsh -f -c 'fpath=("$1" $fpath); autoload -Uz compinit; compinit -u -d "$2"; whence -w _arrayfs; echo $_comps[arrayfs]
            autoload +X _arrayfs' zsh "$share/zsh/vendor-completions" "$scratch/zcompdump")
        equal "zsh completes" "$said" $'_arrayfs: function\n_arrayfs'
    fi
    if command -v fish >/dev/null; then
        # shellcheck disable=SC2016
        said=$(HOME=$scratch fish --no-config -c 'source $argv[1]; complete -C "arrayfs pack --codec "' \
            "$share/fish/vendor_completions.d/arrayfs.fish" | cut -f 1 | grep -cx -e zstd -e lz4)
        equal "fish completes codecs" "$said" 2
    fi
}

# use PROGRAM: what a new installation is tried with. The mount is unmounted before it returns.
use() {
    local source=$scratch/source mountpoint=$scratch/mnt
    mkdir -p "$source" "$mountpoint"
    cp mount-tests/golden/bloscpack/sources/codec-lz4-sh1.blp "$source/x.blp"
    "$1" --version | grep -q '^HDF5: [0-9]' || die "--version does not say which HDF5"
    equal "arrayfs ls" "$("$1" ls "$source")" "$source/x.blp/data"
    "$1" verify "$source" >/dev/null
    if [ -c /dev/fuse ]; then
        "$1" mount -o ro "$source" "$mountpoint"
        "$1" cat "$source/x.blp" data | cmp - "$mountpoint/x.blp/data"
        "$1" umount "$mountpoint"
    fi
}

try_wheel() {
    local venv=$scratch/venv wheel
    wheel=$(one 'arrayfs-*.whl')
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-index "$wheel" </dev/null
    use "$venv/bin/arrayfs"
    [ -s "$venv/share/man/man1/arrayfs.1" ] || die "the wheel has no pages"
    "$venv/bin/pip" uninstall -q -y arrayfs
    equal "left by pip" "$(find "$venv" -name '*arrayfs*')" ''
}

try_tarball() {
    local tarball size program=$scratch/prefix/bin/arrayfs
    tarball=$(one 'arrayfs-*.tar.gz')
    mkdir -p "$scratch/prefix"
    tar -C "$scratch/prefix" --strip-components=1 -xf "$tarball"
    ! ldd "$program" 2>&1 | grep -q '=>' || die "$program asks for libraries"
    size=$(stat -c %s "$tarball")
    [ "$size" -le 12000000 ] || die "$tarball has $size bytes"
    use "$program"
    # A root with nothing but /proc and /dev: no loader, no library, no /etc.
    [ "$(id -u)" = 0 ] || return 0
    mkdir -p "$scratch/bare/data" "$scratch/bare/proc" "$scratch/bare/dev"
    cp "$program" "$scratch/bare/"
    cp mount-tests/golden/bloscpack/sources/codec-lz4-sh1.blp "$scratch/bare/data/x.blp"
    mount -t proc proc "$scratch/bare/proc"
    mount --bind /dev "$scratch/bare/dev"
    equal "in a bare root" "$(chroot "$scratch/bare" /arrayfs ls /data)" /data/x.blp/data
    # HDF5 in a process of its own.
    cp mount-tests/golden/binsparse/sources/gzip1-shuffle.h5 "$scratch/bare/data/"
    chroot "$scratch/bare" /arrayfs verify /data >/dev/null
}

# A root of the running Debian in $scratch/root, with what the package depends on, /dev and /proc.
make_root() {
    local codename made=$root/target/root
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ -n "$codename" ] || die "this is no Debian that debootstrap knows"
    if [ ! -f "$made/$codename.tar" ]; then
        install_packages debootstrap
        say "making a bare root of $codename in target/root"
        mkdir -p "$made"
        debootstrap --variant=minbase --include=fuse3 "$codename" "$scratch/made" >"$scratch/debootstrap.log" 2>&1 ||
            die "debootstrap: $(tail -n 3 "$scratch/debootstrap.log")"
        tar -C "$scratch/made" -cf "$made/$codename.tar.new" .
        mv "$made/$codename.tar.new" "$made/$codename.tar"
        rm -rf "$scratch/made"
    fi
    mkdir "$scratch/root"
    tar -C "$scratch/root" -xf "$made/$codename.tar"
    mount -t proc proc "$scratch/root/proc"
    mount --bind /dev "$scratch/root/dev"
}

within() { chroot "$scratch/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

# Everything that is there, but for what apt and dpkg note down and the mount.
listed() {
    (cd "$scratch/root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/log \
        -o -path ./var/cache -o -path ./tmp -o -path ./run -o -path ./dev -o -path ./proc \) -prune -o -print | sort)
}

# same_but_newer DEB: the same package with a higher revision, in the root's /tmp.
same_but_newer() {
    dpkg-deb -R "$1" "$scratch/newer"
    sed -i 's/^\(Version: .*\)-1$/\1-2/' "$scratch/newer/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$scratch/newer" "$scratch/root/tmp/newer.deb" >/dev/null
}

try_deb() {
    local deb before pid
    deb=$(one 'arrayfs_*.deb')
    if [ "$(id -u)" != 0 ] || [ ! -c /dev/fuse ]; then
        say "no root or no /dev/fuse: the Debian package is not installed"
        return 0
    fi
    make_root
    before=$scratch/before
    install -m 644 "$deb" "$scratch/root/tmp/arrayfs.deb"
    case $(dpkg-deb -f "$deb" Depends) in
    *fuse3*libc6* | *libc6*fuse3*) ;;
    *) die "it depends on: $(dpkg-deb -f "$deb" Depends)" ;;
    esac
    listed >"$before"
    say "installing the Debian package in a bare root"
    within dpkg -i /tmp/arrayfs.deb >/dev/null
    within test -x /sbin/mount.fuse.arrayfs || die "mount(8) finds no mount.fuse.arrayfs"
    within test -x /sbin/umount.fuse.arrayfs || die "umount(8) finds no umount.fuse.arrayfs"

    mkdir -p "$scratch/root/tmp/data" "$scratch/root/tmp/mnt"
    cp mount-tests/golden/bloscpack/sources/codec-lz4-sh1.blp "$scratch/root/tmp/data/x.blp"
    cp mount-tests/golden/binsparse/sources/gzip1-shuffle.h5 "$scratch/root/tmp/data/later.h5"
    within mount -t fuse.arrayfs /tmp/data /tmp/mnt -o ro
    pid=$(daemon)
    within umount -c /tmp/mnt
    # One that has ended may still wait for its parent to look.
    grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" &&
        die "umount(8) has not waited for the daemon"
    within mount -t arrayfs /tmp/data /tmp/mnt -o ro
    within umount -c /tmp/mnt
    within mount -t fuse.arrayfs /tmp/data /tmp/mnt -o ro
    pid=$(daemon)
    within cat /tmp/mnt/x.blp/data >"$scratch/plain"

    say "upgrading it under a mount"
    same_but_newer "$deb"
    within dpkg -i /tmp/newer.deb >/dev/null
    equal "the version" "$(within dpkg-query -W -f '${Version}' arrayfs)" \
        "$(dpkg-deb -f "$deb" Version | sed 's/-1$/-2/')"
    still_serves "$pid"
    # Its own program is gone by now; a process of it is started nevertheless.
    within ls /tmp/mnt/later.h5/ >/dev/null

    say "removing it under a mount"
    within dpkg --purge arrayfs >/dev/null
    still_serves "$pid"
    within umount /tmp/mnt
    tail --pid="$pid" -f /dev/null
    listed | diff "$before" - || die "it has left files behind"
}

daemon() {
    within arrayfs status --json /tmp/mnt | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1
}

# still_serves PID: the daemon that there was.
still_serves() {
    [ -d "/proc/$1" ] || die "the daemon has ended"
    within cat /tmp/mnt/x.blp/data | cmp - "$scratch/plain"
}

[ $# -gt 0 ] || set -- pages completions deb wheel tarball
for what in "$@"; do
    say "packages: $what"
    case $what in
    pages | completions | deb | wheel | tarball) "try_$what" ;;
    *) die "usage: scripts/test_packages.sh [pages] [completions] [deb] [wheel] [tarball]" ;;
    esac
done
say "packages: passed"
