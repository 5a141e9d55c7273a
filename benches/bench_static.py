"""Compares two programs of the same source: how long each takes for the same work, and its size.

    target/venv/bin/python3 benches/bench_static.py [--rounds N] DYNAMIC STATIC

They take turns, round by round; the table has medians, their ratio, and that of the best times.
Commands are measured by the time that they take of the processors, which other work on the machine
changes less; a mount by the time that its reader waits. Data is made in /dev/shm.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time

import h5py
import numpy


def make_data(directory, program):
    """256 MiB as Bloscpack, lz4 and zstd, and 96 MiB in HDF5 with gzip and shuffle."""
    values = numpy.round(numpy.sin(numpy.arange(32 << 20) / 1e5) * 1000, 2)
    raw = os.path.join(directory, "raw")
    values.tofile(raw)
    for codec in ("lz4", "zstd"):
        packed = os.path.join(directory, f"{codec}.blp")
        subprocess.run([program, "pack", "--codec", codec, raw, packed], check=True)
    os.unlink(raw)
    with h5py.File(os.path.join(directory, "gzip.h5"), "w") as file:
        file.create_dataset("d", data=values[: 12 << 20], chunks=(1 << 17,),
                            compression="gzip", compression_opts=1, shuffle=True)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def of_processors(*command):
    """What a command takes of the processors, in seconds."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begin = used()
    run(*command)
    return used() - begin


def mounted(program, data, mountpoint):
    """The time of reading all arrays through a new mount."""
    run(program, "mount", "-o", "ro", data, mountpoint)
    paths = ["lz4.blp/data", "zstd.blp/data", "gzip.h5/d"]

    try:
        begin = time.perf_counter()
        for path in paths:
            run("dd", f"if={mountpoint}/{path}", "of=/dev/null", "bs=1M", "status=none")
        return time.perf_counter() - begin
    finally:
        run(program, "umount", mountpoint)


def figures(program, data, mountpoint):
    """Each figure's name and seconds."""
    path = lambda name: os.path.join(data, name)
    return {
        "cat, lz4": of_processors(program, "cat", path("lz4.blp"), "data"),
        "cat, zstd": of_processors(program, "cat", path("zstd.blp"), "data"),
        "cat, HDF5": of_processors(program, "cat", path("gzip.h5"), "d"),
        "verify": of_processors(program, "verify", data),
        "ls": of_processors(program, "ls", "-l", data),
        "a mount, read": mounted(program, data, mountpoint),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("programs", nargs=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as top:
        data, mountpoint = os.path.join(top, "data"), os.path.join(top, "mnt")
        os.mkdir(data)
        os.mkdir(mountpoint)
        make_data(data, arguments.programs[0])
        found = [[], []]
        for _ in range(arguments.rounds):
            for program, rounds in zip(arguments.programs, found):
                rounds.append(figures(program, data, mountpoint))
    print("load:", *(f"{load:.1f}" for load in os.getloadavg()))
    for program in arguments.programs:
        print(program, os.stat(program).st_size, "bytes")
    for name in found[0][0]:
        first, second = ([one[name] for one in rounds] for rounds in found)
        medians = statistics.median(first), statistics.median(second)
        print(f"{name:15} {medians[0]:.3f} s {medians[1]:.3f} s  "
              f"ratio {medians[0] / medians[1]:.2f}  of the best {min(first) / min(second):.2f}")


if __name__ == "__main__":
    main()
