#!/bin/bash
# Makes docs/picture.png anew, the README's picture: installs what is missing, builds arrayfs, and
# runs the session that the picture shows.
#
#     scripts/picture.sh [OUT.png]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

pillow_pinned=13.0.0

install_all
install_packages gnuplot-nox fonts-dejavu-core
"$ARRAYFS_PYTHON" -c 'import PIL' 2>/dev/null ||
    "$root/target/venv/bin/pip" install -q --disable-pip-version-check "pillow==$pillow_pinned" </dev/null
build
"$ARRAYFS_PYTHON" scripts/picture.py "$@"
