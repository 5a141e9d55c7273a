#!/bin/bash
# Measures arrayfs against what it is compared with, and prints each ratio with its target.
#
#     benches/bench.sh [--quick] [--rounds N] [FIGURE ...]       figures: benches/bench.sh --list
#
# Installs what is missing, builds, makes data once (in target/bench, or $ARRAYFS_BENCH_DIR). Needs
# root and 2 GiB of free memory in /dev/shm. docs/benchmarks.md says what each figure means.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

install_all
"$ARRAYFS_PYTHON" -c "import fsspec, aiohttp" 2>/dev/null || "$ARRAYFS_PYTHON" -m pip install -q fsspec==2026.9.0 aiohttp==3.14.5
command -v mkfs.btrfs >/dev/null || install_packages btrfs-progs
build --bins --example minimal-server --example delay-proxy
exec "$ARRAYFS_PYTHON" benches/bench.py "$@"
