#!/usr/bin/env python3
"""Measures the figures of docs/benchmarks.md. Run it through benches/bench.sh, which builds and makes the data.

    bench.py [--quick] [--rounds N] [--list] [FIGURE ...]

The two sides of a ratio take turns, because the machine may be noisy; a ratio is that of the medians, and the
ratio of the best times stands beside it. The table at the end is Markdown. A target that is missed is told in the
table, not by the exit status.
"""
import argparse
import datetime
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing but target/ is left behind
import bench_bloscpack
import bench_bpcells
import bench_daphne
import bench_hdf5
import bench_hdf5_small
import bench_made
import bench_matrices
import bench_remote
import bench_scratch
import bench_staged
import bench_writable
import bench_written_once
import bench_write
import bench_write_hdf5
from bench_measure import DATA, ROOT, Bench
from bench_places import own_mounts

FIGURES = (bench_bpcells.FIGURES | bench_bloscpack.FIGURES | bench_hdf5.FIGURES | bench_daphne.FIGURES
           | bench_write.FIGURES | bench_writable.FIGURES | bench_staged.FIGURES
           | bench_matrices.FIGURES | bench_write_hdf5.FIGURES | bench_hdf5_small.FIGURES
           | bench_written_once.FIGURES | bench_made.FIGURES | bench_scratch.FIGURES
           | bench_remote.FIGURES)


def machine():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    name = model.group(1) if model else platform.machine()
    return f"{os.cpu_count()} cores, {name}, Linux {platform.release()}; load at the end {os.getloadavg()[1]:.1f}"


def print_table(rows):
    print(f"\nMeasured on {datetime.date.today()}; {machine()}.\n")
    print("| figure | median | best | target | | details |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row.name} | {row.figure} | {row.best} | {row.target} | {'yes' if row.good else '**no**'} | {row.details} |")
    print(f"\n{sum(row.good for row in rows)} of {len(rows)} targets reached")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help="of each comparison; default 7, with --quick 3")
    parser.add_argument("--list", action="store_true", help="the names of the figures")
    parser.add_argument("figures", nargs="*", metavar="FIGURE")
    arguments = parser.parse_args()
    if arguments.list:
        for name, figure in FIGURES.items():
            print(f"{name:16} {figure.__doc__}")
        return
    for name in arguments.figures:
        if name not in FIGURES:
            parser.error(f"no figure {name}; there are: {', '.join(FIGURES)}")
    if os.geteuid() != 0:
        sys.exit("bench.py: run as root: the minimal server mounts by itself")
    subprocess.run([sys.executable, ROOT / "benches/bench_data.py", DATA], check=True)
    own_mounts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench.py: terminated"))
    bench = Bench(arguments.rounds or (3 if arguments.quick else 7), arguments.quick)
    try:
        for name in arguments.figures or FIGURES:
            FIGURES[name](bench)
    finally:
        bench.clean_up()
    print_table(bench.rows)


if __name__ == "__main__":
    main()
