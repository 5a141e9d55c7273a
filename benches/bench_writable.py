"""Reading in a writable mount, against a read-only one: what the other figures read, in both by turns."""
import functools
import os
import subprocess

import bench_bloscpack
import bench_bpcells
import bench_hdf5
from bench_measure import DATA, busy, dd, run, show, timed, warm
from bench_places import AS_USER, on_disk, plain_user

MODES = ["rw", "ro"]


def read_rw(bench):
    """What the other figures read, in a writable mount, against a read-only one."""
    warm(DATA)
    daemon = lambda: bench.status()["pid"]
    for works in containers(500 if bench.quick else 2000):
        compare(bench, functools.partial(bench.mounted, DATA), works, daemon)
    opening(bench)
    with on_disk(bench) as disk:
        write_file(disk / "file")
        works = {"ordinary file, first read by root": lambda mnt: dd(mnt / "file")}
        compare(bench, functools.partial(bench.mounted, disk), works, daemon)
    with plain_user(bench) as user:
        write_file(user.source / "file")
        works = {"ordinary file, first read by a plain user": lambda mnt: user_dd(mnt / "file")}
        compare(bench, user.mounted, works)


def containers(reads):
    """Commands by title; those of one table are run in one mount, one after the other."""
    matrix = ["matrix/val", "matrix/index"]
    yield {"BPCells val and index, first read": dds(*matrix),
           "BPCells val and index, read again": dds(*matrix)}
    for codec in ["lz4", "blosclz", "zstd"]:
        yield {f"Bloscpack {codec}, first read": dds(f"{codec}.blp/data")}
    yield {f"Bloscpack zstd, {reads} random reads of 4 KiB": lambda mnt: bench_bloscpack.read_at_random(
        mnt / "zstd.blp/data", reads, os.O_DIRECT)}
    yield {"ls -l of 10,000 Bloscpack files": lambda mnt: timed("ls", "-l", mnt / "many"),
           "find through all of them": lambda mnt: timed("find", mnt / "many")}
    for form in ["shuffle", "gzip", "chunked", "contiguous"]:
        yield {f"Binsparse CSR, {form}, first read": dds(*(f"{form}.h5/{name}" for name in bench_hdf5.ARRAYS))}
    yield {"find -ls of 10,000 HDF5 datasets in one group": lambda mnt: timed("find", mnt / "many.h5", "-ls")}
    yield {"find -ls of 10,000 HDF5 datasets in 100 groups": lambda mnt: timed("find", mnt / "groups.h5", "-ls")}
    yield {"DAPHNE dense, first read": dds("dense.dbdf/values")}
    yield {"DAPHNE CSR in 1,000 sparse blocks, first read": dds("sparse.dbdf/values")}


def dds(*names):
    return lambda mnt: sum(dd(mnt / name) for name in names)


def compare(bench, mounted, works, daemon=None):
    """`daemon`: asks for its process, to tell the processor time of daemon and command too."""
    walls, used = ({(mode, title): [] for mode in MODES for title in works} for _ in range(2))
    for number in range(4 * bench.rounds):
        for mode in MODES if number % 2 else reversed(MODES):
            with mounted("-o", mode) as mnt:
                pid = daemon() if daemon else None
                for title, work in works.items():
                    before = busy(pid) if pid else 0
                    walls[mode, title].append(work(mnt))
                    used[mode, title].append(busy(pid) - before if pid else 0)
    for title in works:
        more = f"; processor time {show(used['rw', title])} against {show(used['ro', title])}" if daemon else ""
        report(bench, title, walls["rw", title], walls["ro", title], more)


def opening(bench):
    times = {mode: [] for mode in MODES}
    for number in range(4 * bench.rounds):
        for mode in MODES if number % 2 else reversed(MODES):
            times[mode].append(bench_bpcells.open_once(bench, DATA, "matrix/val", "-o", mode))
    report(bench, "mount to first 4 KiB of BPCells val", times["rw"], times["ro"])


def report(bench, title, writable, read_only, more=""):
    bench.speed(f"{title}: writable against read-only mount", writable, read_only, 0.95, more)


def write_file(path):
    """512 MiB that are no container of any format."""
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", "count=512", "status=none"], check=True)
    os.chmod(path, 0o644)
    run("sync", "-f", path)


def user_dd(path):
    return timed(*AS_USER, "dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none")


FIGURES = {"read-rw": read_rw}
