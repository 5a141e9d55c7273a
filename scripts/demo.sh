#!/bin/bash
# Shows arrayfs at work: installs what is missing, builds, writes real containers, mounts them,
# looks at them.
#
#     scripts/demo.sh
#
# The commands are those of the sessions in README.md and docs/tour.md. Nothing is left behind but target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

install_all
build --bins
exec "$ARRAYFS_PYTHON" scripts/sessions.py --show
