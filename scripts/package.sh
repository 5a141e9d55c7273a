#!/bin/bash
# Makes packages in target/packages: a Debian package, a tarball with a static program, and a wheel
# of the same program.
#
#     scripts/package.sh [--built] [deb] [tarball] [wheel]       default: all three
#
# Installs what is missing (apt, crates.io, PyPI), builds what they are made of, and says what it
# does. --built: makes them of target/release/arrayfs as it is, whatever that is linked with; for
# tests. What it makes is for the machine that it runs on: x86_64 or aarch64.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

cargo_deb_pinned=3.8.0
maturin_pinned=1.16.0
wheel_pinned=0.48.0
packages=$root/target/packages
files=$packages/files
built=
wanted=()
for argument in "$@"; do
    case $argument in
    --built) built=1 ;;
    deb | tarball | wheel) wanted+=("$argument") ;;
    *) die "usage: scripts/package.sh [--built] [deb] [tarball] [wheel]" ;;
    esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=(deb tarball wheel)

machine=$(uname -m)
case $machine in
x86_64 | aarch64) ;;
*) die "packages are made for x86_64 and aarch64, this is $machine" ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Of the commit, so that the same source makes the same package.
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH=$when

# target_directory: where cargo builds.
target_directory() { printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}"; }

# generate PROGRAM: pages, completions and what else belongs into packages, in $files.
generate() {
    rm -rf "$files"
    mkdir -p "$files"
    "$1" generate man "$files/man"
    "$1" generate completions "$files/completions"
    ln -s ../bin/arrayfs "$files/mount.fuse.arrayfs"
    ln -s ../bin/arrayfs "$files/mount.arrayfs"
    ln -s ../bin/arrayfs "$files/umount.fuse.arrayfs"
    gzip -9nc CHANGELOG.md >"$files/changelog.gz"
    cat >"$files/changelog.Debian" <<EOF
arrayfs ($version-1) unstable; urgency=medium

  * See /usr/share/doc/arrayfs/changelog.gz.

 -- The arrayfs authors <arrayfs@example.org>  $(LC_ALL=C date -uR -d "@$when")
EOF
}

make_deb() {
    local profile=(--profile dist) program
    [ -z "$built" ] || profile=(--profile release)
    install_tool cargo-deb "$cargo_deb_pinned" --debug
    # dpkg-shlibdeps finds out which libc6 the program needs; binutils strip it.
    install_packages dpkg-dev binutils
    if [ -z "$built" ]; then
        say "building for the Debian package: cargo build --profile dist"
        cargo build --locked --profile dist --package arrayfs --bin arrayfs </dev/null
    fi
    program=$(target_directory)/${profile[1]}/arrayfs
    generate "$program"
    say "making the Debian package"
    rm -f "$packages"/arrayfs_*.deb
    "$root/target/tools/bin/cargo-deb" --quiet --no-build --strip "${profile[@]}" --deb-revision 1 \
        --output "$packages/" </dev/null
}

# The program of the tarball and the wheel: built once.
#
# With glibc, and not with musl: it chooses memcpy and memcmp for the processor that it finds, and
# those of musl are several times as slow (docs/benchmarks.md). That nothing of it is loaded at run
# time is no loss, since arrayfs asks for no users' names and no hosts. Everything but arrayfs itself
# is what the Debian package is built of, too.
build_static() {
    [ -z "${static:-}" ] || return 0
    if [ -n "$built" ]; then
        static=$(target_directory)/release/arrayfs
    else
        say "building the static program: cargo rustc --profile dist, with crt-static"
        cargo rustc --locked --profile dist --package arrayfs --bin arrayfs \
            -- -C target-feature=+crt-static </dev/null
        # Another build puts its program at the same place.
        static=$packages/arrayfs-static
        cp "$(target_directory)/dist/arrayfs" "$static"
        is_static "$static" || die "$static is not static"
    fi
    generate "$static"
}

# is_static PROGRAM: it asks for no loader and no library.
is_static() { ! readelf -lW "$1" | grep -q 'INTERP' && ! readelf -dW "$1" | grep -q 'NEEDED'; }

# put_shared DIRECTORY: pages and completions as they lie below a prefix's share.
put_shared() {
    install -D -m 644 -t "$1/man/man1" "$files"/man/*.1
    install -D -m 644 -t "$1/man/man8" "$files"/man/*.8
    install -D -m 644 -t "$1/bash-completion/completions" "$files/completions/bash/arrayfs"
    install -D -m 644 -t "$1/fish/vendor_completions.d" "$files/completions/fish/arrayfs.fish"
    install -D -m 644 -t "$1/zsh/site-functions" "$files/completions/zsh/_arrayfs"
}

# put_program DIRECTORY: without what only debuggers want.
put_program() {
    mkdir -p "$1"
    strip -o "$1/arrayfs" "$static"
    chmod 755 "$1/arrayfs"
}

# A prefix: tar -C /usr/local --strip-components=1 -xf FILE.
make_tarball() {
    install_packages binutils
    build_static
    local name=arrayfs-$version-$machine-linux
    local top=$packages/tarball/$name
    say "making the tarball"
    rm -rf "$packages/tarball"
    put_program "$top/bin"
    mkdir -p "$top/sbin" "$top/lib/systemd/system"
    ln -s ../bin/arrayfs "$top/sbin/mount.fuse.arrayfs"
    ln -s ../bin/arrayfs "$top/sbin/mount.arrayfs"
    ln -s ../bin/arrayfs "$top/sbin/umount.fuse.arrayfs"
    put_shared "$top/share"
    sed 's,/usr/bin/,/usr/local/bin/,' packaging/arrayfs@.service >"$top/lib/systemd/system/arrayfs@.service"
    install -D -m 644 -t "$top/share/doc/arrayfs" README.md SECURITY.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE packaging/copyright
    install -D -m 644 -t "$top/share/doc/arrayfs/docs" docs/*.md
    tar -C "$packages/tarball" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" \
        -cf - "$name" | gzip -9n >"$packages/$name.tar.gz"
    rm -rf "$packages/tarball"
}

# pip_install NAME VERSION: into target/venv, if it is not there.
pip_install() {
    local pip=$root/target/venv/bin/pip
    "$pip" list --format=freeze --disable-pip-version-check 2>/dev/null | grep -qx "$1==$2" && return
    say "installing $1 $2 in target/venv"
    "$pip" install -q --disable-pip-version-check "$1==$2" </dev/null
}

# maturin builds with cargo; what has been built already it is told about by a program that stands
# in for cargo.
built_cargo() {
    local stand_in=$packages/cargo
    cat >"$stand_in" <<EOF
#!/bin/sh
case "\$*" in
*--message-format*)
    id=\$("$(command -v cargo)" pkgid)
    printf '%s\n' "{\"reason\":\"compiler-artifact\",\"package_id\":\"\$id\",\"manifest_path\":\"$root/Cargo.toml\",\"target\":{\"kind\":[\"bin\"],\"crate_types\":[\"bin\"],\"name\":\"arrayfs\",\"src_path\":\"$root/src/main.rs\",\"edition\":\"2024\",\"doc\":true,\"doctest\":false,\"test\":true},\"profile\":{\"opt_level\":\"3\",\"debuginfo\":0,\"debug_assertions\":false,\"overflow_checks\":false,\"test\":false},\"features\":[],\"filenames\":[\"$static\"],\"executable\":\"$static\",\"fresh\":true}" \\
        '{"reason":"build-finished","success":true}'
    ;;
*) exec "$(command -v cargo)" "\$@" ;;
esac
EOF
    chmod 755 "$stand_in"
    printf '%s\n' "$stand_in"
}

make_wheel() {
    install_packages binutils
    build_static
    pip_install maturin "$maturin_pinned"
    pip_install wheel "$wheel_pinned"
    local bin=$root/target/venv/bin work=$packages/wheel stand_in inside
    say "making the wheel"
    rm -rf "$work"
    mkdir -p "$work/out"
    stand_in=$(built_cargo)
    CARGO=$stand_in "$bin/maturin" build --quiet --profile dist --locked --strip false \
        --compatibility linux --out "$work/out" </dev/null
    "$bin/python3" -m wheel unpack --dest "$work" "$work"/out/*.whl >/dev/null
    inside=$work/arrayfs-$version
    put_program "$inside/arrayfs-$version.data/scripts"
    put_shared "$inside/arrayfs-$version.data/data/share"
    tag_wheel "$inside/arrayfs-$version.dist-info/WHEEL"
    rm -f "$packages"/arrayfs-*.whl
    "$bin/python3" -m wheel pack --dest-dir "$packages" "$inside" >/dev/null
    rm -rf "$work" "$stand_in"
}

# tag_wheel FILE: which machines it is for. A static program asks for no library, so it runs with
# the oldest of either kind; another one only here.
tag_wheel() {
    is_static "$static" || return 0
    sed -i '/^Tag: /d' "$1"
    printf 'Tag: py3-none-%s\n' "manylinux2014_$machine" "musllinux_1_1_$machine" >>"$1"
}

install_system
install_rust
install_python
install_cmake
mkdir -p "$packages"
for kind in "${wanted[@]}"; do
    "make_$kind"
done
say "in target/packages:"
(cd "$packages" && find . -maxdepth 1 -type f \( -name '*.deb' -o -name '*.tar.gz' -o -name '*.whl' \) -printf '%f  %s bytes\n' | sort)
