"""Figures on BPCells: against the minimal server, tmpfs and bpcells; BP-128 alone; opening."""
import json
import pathlib
import shutil
import statistics
import subprocess
import time

from bench_measure import DATA, ROOT, Times, dd, python, show, warm


def bpcells(bench):
    """val and index of 20 million entries: the first read, and the second one."""
    warm(DATA / "matrix")
    decoded = bench.scratch / "decoded"
    decoded.mkdir()
    names = ["val", "index"]
    with bench.mounted(DATA / "matrix") as mnt:
        for name in names:
            shutil.copyfile(mnt / name, decoded / name)
    first = {name: Times() for name in names}
    again, minimal, tmpfs = ({name: [] for name in names} for _ in range(3))
    for _ in range(2 * bench.rounds):
        with bench.minimal(decoded) as mnt:
            for name in names:
                minimal[name].append(dd(mnt / name))
        with bench.mounted(DATA / "matrix") as mnt:
            for name in names:
                bench.read(mnt, [name], first[name])
            for name in names:
                again[name].append(dd(mnt / name))
                tmpfs[name].append(dd(decoded / name))
    for name in names:
        bench.speed(f"BPCells {name}, first read, against the minimal server", first[name], minimal[name], 0.80)
    for name in names:
        bench.speed(f"BPCells {name}, read again, against tmpfs", again[name], tmpfs[name], 0.90)
    shutil.rmtree(decoded)


def decode(bench):
    """BP-128 alone, by Criterion: one thread."""
    quick = ["--warm-up-time", "0.5", "--measurement-time", "1"] if bench.quick else []
    subprocess.run(["cargo", "bench", "--locked", "--bench", "bp128", "--", "--noplot", *quick, "val|index"],
                   cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    speeds = criterion(ROOT / "target/criterion")
    avx2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()
    for name in ["val m1", "index d1z"]:
        for how in ["blocks", "whole"]:
            (ours, best), (scalar, scalar_best) = speeds[f"{name}/decode/{how}"], speeds[f"{name}/scalar/{how}"]
            place = {"blocks": "into one 256 KiB block", "whole": "into 80 MB"}[how]
            if avx2:
                bench.add(f"BP-128 {name}, {place}", f"{ours:.1f} GB/s", ">= 8 GB/s", ours >= 8, "one thread, AVX2",
                          f"{best:.1f} GB/s")
            bench.add(f"BP-128 {name}, {place}, against scalar", f"{ours / scalar:.1f}", ">= 3", ours / scalar >= 3,
                      f"{ours:.1f} against {scalar:.1f} GB/s", f"{best / scalar_best:.1f}")
        encoding = f"encode {name}"
        (ours, best), (scalar, _) = speeds[f"{encoding}/encode/block"], speeds[f"{encoding}/scalar/block"]
        if avx2:
            bench.add(f"BP-128 {encoding}, 256 KiB in cache", f"{ours:.1f} GB/s", ">= 4 GB/s", ours >= 4,
                      f"one thread, AVX2; scalar {scalar:.1f} GB/s", f"{best:.1f} GB/s")


def numpy(bench):
    """val, index and idxptr in NumPy, against what bpcells makes of them."""
    warm(DATA / "matrix")
    peer = f"""from bpcells.experimental import DirMatrix
m = DirMatrix({str(DATA / "matrix")!r}); m.threads = THREADS
t = time.perf_counter(); a = m[:, :]; print(time.perf_counter() - t)"""
    mine = f"""import numpy as np
t = time.perf_counter(); a = [np.fromfile({str(bench.mountpoint)!r} + "/" + n, d)
    for n, d in (("val", "u4"), ("index", "u4"), ("idxptr", "u8"))]; print(time.perf_counter() - t)"""
    ours, one, two = [], [], []
    for _ in range(bench.rounds):
        with bench.mounted(DATA / "matrix"):
            ours.append(python(mine))
        one.append(python(peer.replace("THREADS", "1")))
        two.append(python(peer.replace("THREADS", "2")))
    bench.speed("NumPy through the mount, against DirMatrix[:, :]", ours, one, 20,
                f"; with two threads {show(two)}")


def opening(bench):
    """From `arrayfs mount` to the first 4 KiB, with ten times as many entries."""
    for name in ["val", "index"]:
        small, large = [], []
        for _ in range(4 * bench.rounds):
            small.append(open_once(bench, DATA / "matrix", name))
            large.append(open_once(bench, DATA / "matrix10", name))
        bench.slowness(f"mount to first 4 KiB of {name}, 200 against 20 million entries", large, small, 1.5)


def open_once(bench, source, name, *options):
    start = time.perf_counter()
    with bench.mounted(source, *options) as mnt:
        with open(mnt / name, "rb", buffering=0) as file:
            file.read(4096)
        return time.perf_counter() - start


def criterion(directory):
    """GB/s of each benchmark: median and best sample."""
    speeds = {}
    for description in directory.rglob("new/benchmark.json"):
        about = json.loads(description.read_text())
        sample = json.loads((description.parent / "sample.json").read_text())
        times = [time / iterations for time, iterations in zip(sample["times"], sample["iters"])]
        size = about["throughput"]["Bytes"]
        speeds[about["full_id"]] = size / statistics.median(times), size / min(times)
    return speeds


FIGURES = {"bpcells": bpcells, "decode": decode, "numpy": numpy, "opening": opening}
