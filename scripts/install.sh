# Sourced by test.sh, demo.sh, benches/bench.sh, package.sh and others: installs what is missing to build and run arrayfs.
#
# Uses apt (as root, or through sudo) and pip; says what it does; does nothing when all is there.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rust_wanted=1.89
cmake_wanted=3.26 # of the HDF5 that is linked in
cmake_pinned=4.4.4 # from PyPI, where apt has an older one
pjdfstest_pinned=0.2.2
fsx_pinned=0.3.2

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

# at_least WANTED HAVE: compares version numbers; false when there is none.
at_least() {
    [ -n "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
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
    # fuse3: mounting; gcc, libc6-dev, make: the C of HDF5, zstd and libdeflate; attr: getfattr;
    # python3-venv: the venv.
    install_packages fuse3 gcc libc6-dev make attr python3 python3-venv ca-certificates procps
    [ -c /dev/fuse ] || die "/dev/fuse is missing: load the module (modprobe fuse), or in a container pass the device in"
}

rust_is_recent() {
    at_least "$rust_wanted" "$(cargo --version 2>/dev/null | cut -d ' ' -f 2)"
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

# bpcells_from_source PYTHON: what bpcells needs where it has no wheel, from Python 3.13 on.
bpcells_from_source() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 13))' || return 0
    install_packages g++ python3-dev libhdf5-dev libhwy-dev zlib1g-dev
    export CPATH=/usr/include/hdf5/serial${CPATH:+:$CPATH}
    local library
    library=/usr/lib/$(gcc -print-multiarch)/hdf5/serial
    export LIBRARY_PATH=$library${LIBRARY_PATH:+:$LIBRARY_PATH}
}

# The real writers and readers, in target/venv.
install_python() {
    local venv=$root/target/venv wanted=$root/scripts/requirements.txt
    if ! cmp -s "$wanted" "$venv/installed.txt"; then
        say "installing Python packages in target/venv"
        rm -rf "$venv"
        python3 -m venv "$venv"
        (
            bpcells_from_source "$venv/bin/python3"
            "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" </dev/null
        )
        cp "$wanted" "$venv/installed.txt"
    fi
    export ARRAYFS_PYTHON=$venv/bin/python3
}

cmake_is_recent() {
    at_least "$cmake_wanted" "$("$1" --version 2>/dev/null | sed -n 's/^cmake version //p')"
}

# install_tool NAME VERSION [ARGUMENT...]: a program from crates.io, in target/tools.
install_tool() {
    local tools=$root/target/tools
    grep -q "^\"$1 $2 " "$tools/.crates.toml" 2>/dev/null && [ -x "$tools/bin/$1" ] && return
    say "installing $1 $2 in target/tools"
    cargo install --quiet --locked --root "$tools" "$1" --version "$2" "${@:3}" </dev/null
}

# What mounted tests use of others: test suites of file systems, and programs that write to files in
# every way.
install_test_tools() {
    local program missing=()
    for program in git:git rsync:rsync vim.tiny:vim-tiny ar:binutils setpriv:util-linux setfacl:acl mkfs.xfs:xfsprogs gfortran:gfortran h5diff:hdf5-tools; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
    done
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
    # Built without optimisation it is there in half the time, and fast enough; fsx is not.
    install_tool pjdfstest "$pjdfstest_pinned" --debug
    install_tool fsx "$fsx_pinned"
}

# What docs/recipes.md is run with: about a minute, 110 MB to download, 320 MB on the disk. What cannot
# be installed here leaves recipes that are not run, which their test says.
install_interpreters() {
    local package packages=(jq gnuplot-nox r-base-core r-cran-matrix r-cran-jsonlite octave)
    (install_packages "${packages[@]}") && return
    for package in "${packages[@]}"; do
        (install_packages "$package") || say "no $package here: its recipes are not run"
    done
}

# For HDF5's build: one that is there, else apt's, else PyPI's in target/venv.
install_cmake() {
    cmake_is_recent "${CMAKE:-cmake}" && return
    local apt pip=$root/target/venv/bin/cmake
    apt=$(LC_ALL=C apt-cache policy cmake 2>/dev/null | sed -n 's/^ *Candidate: //p')
    if at_least "$cmake_wanted" "$apt"; then
        install_packages cmake
        unset CMAKE
        cmake_is_recent cmake && return
    fi
    if ! cmake_is_recent "$pip"; then
        say "installing cmake $cmake_pinned in target/venv: apt has ${apt:-none}, $cmake_wanted is needed"
        "$root/target/venv/bin/pip" install -q --disable-pip-version-check "cmake==$cmake_pinned" </dev/null
    fi
    export CMAKE=$pip
    say "to call cargo yourself: export CMAKE=$pip"
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
    install_cmake
}
