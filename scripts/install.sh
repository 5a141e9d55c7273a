# Sourced by test.sh, demo.sh and bench.sh: installs what is missing to build and run arrayfs.
#
# Uses apt (as root, or through sudo) and pip; says what it does; does nothing when all is there.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rust_wanted=1.89

say() { printf '== %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo: $*"
    fi
}

# install_packages PACKAGE...: those that are not installed yet.
install_packages() {
    command -v dpkg-query >/dev/null || die "this script installs with apt, which is not here; install by hand: $*"
    local package missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing packages: ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

install_system() {
    # fuse3: mounting; gcc, libc6-dev: the C of zstd and libdeflate; attr: getfattr; python3-venv: the venv.
    install_packages fuse3 gcc libc6-dev attr python3 python3-venv ca-certificates procps
    [ -c /dev/fuse ] || die "/dev/fuse is missing: load the module (modprobe fuse), or in a container pass the device in"
}

rust_is_recent() {
    local have
    have=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || return 1
    [ -n "$have" ] && [ "$(printf '%s\n' "$rust_wanted" "$have" | sort -V | head -n 1)" = "$rust_wanted" ]
}

install_rust() {
    if [ -f "$HOME/.cargo/env" ]; then
        # shellcheck source=/dev/null
        . "$HOME/.cargo/env"
    fi
    rust_is_recent && return
    if ! command -v rustup >/dev/null && [ -n "$(apt-cache search --names-only '^rustup$' 2>/dev/null)" ]; then
        install_packages rustup
    fi
    command -v rustup >/dev/null || die "Rust $rust_wanted or newer is needed and there is no package of it here; see https://rustup.rs, then run this again"
    say "installing the stable Rust toolchain"
    rustup toolchain install stable --profile minimal --component rustfmt --component clippy
    rustup default stable
    rust_is_recent || die "cargo is older than Rust $rust_wanted although the stable toolchain is installed; is another one in front in PATH?"
}

# The real writers and readers, in target/venv.
install_python() {
    local venv=$root/target/venv wanted=$root/scripts/requirements.txt
    if ! cmp -s "$wanted" "$venv/installed.txt"; then
        say "installing Python packages in target/venv"
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" </dev/null
        cp "$wanted" "$venv/installed.txt"
    fi
    export ARRAYFS_PYTHON=$venv/bin/python3
}

# build [CARGO ARGUMENTS]: the release binary, at $root/target/release.
build() {
    say "building: cargo build --release $*"
    (cd "$root" && cargo build --release --locked "$@" </dev/null)
    export PATH=$root/target/release:$PATH
}

install_all() {
    install_system
    install_rust
    install_python
}
