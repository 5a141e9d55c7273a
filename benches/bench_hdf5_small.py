"""Figures on small changes of large HDF5 files: what a commit costs that changes little."""
import contextlib
import os
import pathlib
import random
import tempfile
import time

import h5py
import netCDF4
import numpy as np

from bench_measure import ARRAYFS, MIB, timed
from bench_places import empty, on_disk


@contextlib.contextmanager
def in_memory(bench):
    with tempfile.TemporaryDirectory(dir=bench.scratch) as directory:
        yield pathlib.Path(directory)


def change(path, size):
    """Seconds to change 4 bytes, close, and read what lies around them."""
    at = random.randrange(size // 4) * 4
    begun = time.perf_counter()
    file = os.open(path, os.O_RDWR)
    os.pwrite(file, random.randbytes(4), at)
    os.close(file)
    file = os.open(path, os.O_RDONLY)
    os.pread(file, 4096, at // 4096 * 4096)
    os.close(file)
    return time.perf_counter() - begun


def changes(bench, path, size):
    """Of several changes that the close has committed: after a slow commit it leaves the next ones staged for a while,
    which would measure nothing."""
    taken = []
    for _ in range(3 * bench.rounds):
        seconds = change(path, size)
        while not is_clean(path.parent):
            settled(path.parent)
            seconds = change(path, size)
        taken.append(seconds)
        time.sleep(11 * taken[-1])
    return taken


def is_clean(container):
    return os.getxattr(container, "user.arrayfs.state") == b"clean"


def settled(container):
    """Commits what is staged, and waits until the next close commits again."""
    time.sleep(11 * timed(ARRAYFS, "stage", "commit", container))


def chunks(bench):
    """One change and close in a dataset of 1,000,000 chunks against one of 100, in place, next read included."""
    for place, where, most in [(on_disk, "on disk", 2), (in_memory, "in memory", 10)]:
        for form, settings in [("plain", {}), ("gzip 1", {"compression": "gzip", "compression_opts": 1})]:
            with place(bench) as ground:
                source, times = empty(ground / "source"), []
                for count in [1_000_000, 100]:
                    with h5py.File(source / f"{count}.h5", "w", libver="latest") as file:
                        made = file.create_dataset("x", (count * 64,), "i4", chunks=(64,), maxshape=(None,), **settings)
                        made[:] = np.random.default_rng(1).integers(0, 1000, count * 64)
                with bench.mounted(source, "-o", "rw,commit=inplace") as mnt:
                    for count in [1_000_000, 100]:
                        change(mnt / f"{count}.h5/x", count * 256)
                        times.append(changes(bench, mnt / f"{count}.h5/x", count * 256))
                name = f"one change in 1,000,000 HDF5 chunks, {form}, {where}, against one in 100"
                bench.slowness(name, *times, most)


def datasets(bench):
    """One change in a file of 10,000 datasets: replaced, against cp and sync of it; in place, against one of 10; all of
    them written one after another."""
    with on_disk(bench) as ground:
        source, times = empty(ground / "source"), []
        for count in [10_000, 10]:
            with h5py.File(source / f"{count}.h5", "w") as file:
                for number in range(count):
                    data = np.arange(number, number + 100, dtype="i4")
                    file.create_dataset(f"x{number}", data=data, chunks=(100,), compression="gzip")
        with bench.mounted(source, "-o", "rw") as mnt:
            replaced, copied = [], []
            change_and_sync(mnt / "10000.h5", "x3", 400)
            for _ in range(3 * bench.rounds):
                replaced.append(change_and_sync(mnt / "10000.h5", "x3", 400))
                copied.append(timed("sh", "-c", f"cp {source}/10000.h5 {ground}/copy && sync -f {ground}/copy"))
            bench.slowness("one change in a file of 10,000 HDF5 datasets, replaced, against cp and sync", replaced, copied, 1.3)
        with bench.mounted(source, "-o", "rw,commit=inplace") as mnt:
            for count in [10_000, 10]:
                change(mnt / f"{count}.h5/x3", 400)
                times.append(changes(bench, mnt / f"{count}.h5/x3", 400))
        bench.slowness("one change in a file of 10,000 HDF5 datasets, in place, against one of 10", *times, 3)
        begun = time.perf_counter()
        with bench.mounted(source, "-o", "rw") as mnt:
            for number in range(10_000):
                with open(mnt / f"10000.h5/x{number}", "wb") as file:
                    file.write(random.randbytes(400))
        taken = time.perf_counter() - begun
        bench.add("10,000 HDF5 datasets written one after another", f"{taken:.1f} s", "<= 60 s", taken <= 60, "unmounting included")


def change_and_sync(container, array, size):
    """Seconds to change 4 bytes, close, and have that committed: where a commit copies the file, a close puts it off."""
    begun = time.perf_counter()
    change(container / array, size)
    directory = os.open(container, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    taken = time.perf_counter() - begun
    assert is_clean(container)
    return taken


def records(bench):
    """A record of 1 MiB appended to a NetCDF-4 file, in place: to 1 GiB against 64 MiB; against write + fsync of 1 MiB."""
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    noise = np.random.default_rng(1).integers(0, 1 << 20, (16, MIB // 4)).astype("f4")
    smooth = np.round(100 * np.sin(np.linspace(0, 1600, 16 * MIB // 4))).astype("f4").reshape(16, -1)
    files = {"large": (1024, noise, packed), "small": (64, noise, packed),
             "unfiltered": (64, smooth, {}), "smooth": (64, smooth, packed)}
    with on_disk(bench) as ground:
        source, times = empty(ground / "source"), {}
        for name, (mebibytes, data, how) in files.items():
            with netCDF4.Dataset(source / f"{name}.nc", "w") as file:
                file.createDimension("time", None)
                file.createDimension("x", MIB // 4)
                made = file.createVariable("v", "f4", ("time", "x"), **how)
                for at in range(0, mebibytes, 16):
                    made[at:at + 16] = data
        with bench.mounted(source, "-o", "rw,commit=inplace") as mnt:
            for name, (_, data, _) in files.items():
                record, taken, container = data[3].tobytes(), [], mnt / f"{name}.nc"
                append(container / "v", record)
                while len(taken) < 3 * bench.rounds:
                    seconds = append(container / "v", record)
                    if is_clean(container):
                        taken.append(seconds)
                        time.sleep(11 * seconds)
                    else:
                        settled(container)
                times[name] = taken
        bench.slowness("a record of 1 MiB appended to a NetCDF-4 file of 1 GiB, against 64 MiB", times["large"], times["small"], 1.3)
        written = []
        for number in range(3 * bench.rounds):
            begun = time.perf_counter()
            with open(ground / f"raw{number}", "wb") as file:
                file.write(smooth[3].tobytes())
                file.flush()
                os.fsync(file.fileno())
            written.append(time.perf_counter() - begun)
        for name, what, most in [("unfiltered", "no filter", 4), ("smooth", "gzip 1 and shuffle of smooth data", 6)]:
            bench.slowness(f"the same, {what}, against write and fsync of 1 MiB", times[name], written, most)


def append(path, record):
    begun = time.perf_counter()
    with open(path, "ab") as file:
        file.write(record)
    return time.perf_counter() - begun


FIGURES = {"write-one-chunk": chunks, "write-one-dataset": datasets, "write-record": records}
