"""Figures on writing HDF5 and DAPHNE: whole arrays, scattered values, records, rows; against h5py and cp."""
import os
import pathlib
import shutil
import threading
import time

import h5py
import numpy as np

from bench_hdf5 import ARRAYS
from bench_measure import ARRAYFS, DATA, MIB, peak_memory, python, timed, warm
from bench_places import empty, on_disk

REWRITE = """import h5py, os
with h5py.File(FROM) as file:
    arrays = {name: (item[()], item.chunks, item.compression, item.compression_opts, item.shuffle)
              for name, item in file.items() if isinstance(item, h5py.Dataset)}
t = time.perf_counter()
with h5py.File(TO, "w") as file:
    for name, (data, chunks, compression, level, shuffle) in arrays.items():
        file.create_dataset(name, data=data, chunks=chunks, compression=compression, compression_opts=level, shuffle=shuffle)
fd = os.open(TO, os.O_RDONLY)
os.fsync(fd)
print(time.perf_counter() - t)"""

ASSIGN = """import h5py, numpy as np, os
places = np.random.default_rng(7).integers(0, COUNT, 1000)
t = time.perf_counter()
with h5py.File(FILE, "r+") as file:
    for place in places:
        file["x"][place] += 1
fd = os.open(FILE, os.O_RDONLY)
os.fsync(fd)
print(time.perf_counter() - t)"""

SCATTER = """import numpy as np
places = np.random.default_rng(7).integers(0, COUNT, 1000)
t = time.perf_counter()
array = np.memmap(FILE, "f4", "r+")
for place in places:
    array[place] += 1
array.flush()
del array
print(time.perf_counter() - t)"""

ROWS_OURS = """import numpy as np
t = time.perf_counter()
array = np.memmap(FILE, "f4", "r+", shape=(ROWS, ROWS))
for row in range(ROWS):
    array[row] += 1
array.flush()
del array
print(time.perf_counter() - t)"""

ROWS_H5PY = """import h5py, numpy as np, os
t = time.perf_counter()
with h5py.File(FILE, "r+") as file:
    array = file["x"]
    for row in range(ROWS):
        array[row] = array[row] + 1
fd = os.open(FILE, os.O_RDONLY)
os.fsync(fd)
print(time.perf_counter() - t)"""


def code(program, **values):
    names = "".join(f"{name} = {str(value)!r}\n" if not isinstance(value, int) else f"{name} = {value}\n"
                    for name, value in values.items())
    return names + program


def rewritten(bench):
    """All arrays of a Binsparse CSR, gzip 1 + shuffle, written anew and committed, against h5py writing that file."""
    whole(bench, "shuffle", "gzip 1 + shuffle", 2.5)


def rewritten_plain(bench):
    """The same without filters and chunks."""
    whole(bench, "contiguous", "contiguous", 0.8)


def whole(bench, form, title, least):
    ours, theirs, size = [], [], []
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        file, raw = source / "m.h5", disk / "raw"
        shutil.copy(DATA / f"{form}.h5", file)
        empty(raw)
        with bench.mounted(source, "-o", "ro") as mnt:
            for name in ARRAYS:
                shutil.copy(mnt / "m.h5" / name, raw / name)
        for _ in range(bench.rounds):
            theirs.append(python(code(REWRITE, FROM=DATA / f"{form}.h5", TO=disk / "other.h5")))
            warm(raw)
            with bench.mounted(source, "-o", "rw") as mnt:
                copies = " && ".join(f"dd if={raw / name} of={mnt}/m.h5/{name} bs=1M conv=notrunc status=none"
                                     for name in ARRAYS)
                ours.append(timed("sh", "-c", f"{copies} && {ARRAYFS} stage commit {mnt}/m.h5 && sync {file}"))
            size.append(file.stat().st_size / (disk / "other.h5").stat().st_size)
    bench.speed(f"Binsparse CSR, {title}, all arrays rewritten and committed, against h5py", ours, theirs, least,
                f"; file {max(size):.3f} times as long")


def scattered(bench):
    """1,000 random changes through mmap in 512 MiB of gzip 1 + shuffle: chunks of 64 KiB against cp, of 1 MiB against h5py."""
    for chunk, most in [(64 << 10, None), (1 << 20, 4)]:
        ours, theirs = [], []
        with on_disk(bench) as disk:
            source = empty(disk / "source")
            file = source / "x.h5"
            count = dataset(file, (128 << 20,), (chunk // 4,))
            for _ in range(bench.rounds):
                with bench.mounted(source, "-o", "rw") as mnt:
                    warm(file)
                    ours.append(python(code(SCATTER, FILE=mnt / "x.h5/x", COUNT=count)) + committed(mnt))
                if most is None:
                    theirs.append(timed("sh", "-c", f"cp {file} {disk / 'copy'} && sync -f {disk / 'copy'}"))
                else:
                    theirs.append(python(code(ASSIGN, FILE=file, COUNT=count)))
        if most is None:
            bench.slowness("1,000 random changes in HDF5 chunks of 64 KiB, against cp and sync", ours, theirs, 3)
        else:
            bench.speed("1,000 random changes in HDF5 chunks of 1 MiB, against h5py", ours, theirs, most)


def rows(bench):
    """Row by row through a memmap of a dataset in chunks of (100, 100), against h5py."""
    ours, theirs, size = [], [], 4000
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        file = source / "x.h5"
        dataset(file, (size, size), (100, 100))
        for _ in range(bench.rounds):
            with bench.mounted(source, "-o", "rw") as mnt:
                ours.append(python(code(ROWS_OURS, FILE=mnt / "x.h5/x", ROWS=size)) + committed(mnt))
            theirs.append(python(code(ROWS_H5PY, FILE=file, ROWS=size)))
    bench.speed("row by row through chunks of (100, 100), written, against h5py", ours, theirs, 2)


def dense(bench):
    """DAPHNE dense of 512 MiB, rewritten and committed, against cp of the file and sync."""
    ours, theirs = [], []
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        file = source / "x.dbdf"
        shutil.copy(DATA / "dense.dbdf", file)
        raw = disk / "raw"
        with bench.mounted(source, "-o", "ro") as mnt:
            shutil.copy(mnt / "x.dbdf/values", raw)
        for _ in range(bench.rounds):
            warm(raw)
            with bench.mounted(source, "-o", "rw,cache=1G") as mnt:
                ours.append(timed("sh", "-c", f"dd if={raw} of={mnt}/x.dbdf/values bs=1M conv=notrunc status=none "
                                  f"&& {ARRAYFS} stage commit {mnt}/x.dbdf && sync -f {file}"))
            theirs.append(timed("sh", "-c", f"cp {file} {disk / 'copy'} && sync -f {disk / 'copy'}"))
    mebibytes = raw_size(DATA / "dense.dbdf") // MIB
    bench.speed(f"DAPHNE dense, {mebibytes} MiB rewritten and committed, against cp and sync", ours, theirs, 0.7)


def memory(bench):
    """Peak memory while 4 GiB are rewritten under cache=256M: in chunks of 1 MiB, of 64 MiB, and of which a band has 512 MiB."""
    shapes = {"chunks of 1 MiB": ((4096 * MIB,), (MIB,)), "chunks of 64 MiB": ((4096 * MIB,), (64 * MIB,)),
              "bands of 512 MiB": ((8192, 512 << 10), (1024, 1024))}
    for name, (shape, chunks) in shapes.items():
        with on_disk(bench) as disk:
            source = empty(disk / "source")
            with h5py.File(source / "x.h5", "w") as file:
                file.create_dataset("x", shape, "u1", chunks=chunks, compression="gzip", compression_opts=1, shuffle=True)
            with bench.mounted(source, "-o", "rw,cache=256M") as mnt:
                pid = bench.status()["pid"]
                with WorkersMemory(pid) as workers:
                    begun = time.perf_counter()
                    part = np.arange(8 * MIB // 4, dtype="u4").tobytes()
                    with open(mnt / "x.h5/x", "r+b") as file:
                        for _ in range(512):
                            file.write(part)
                    os.setxattr(mnt, "user.arrayfs.commit", b"1")
                    seconds = time.perf_counter() - begun
                state = os.getxattr(mnt / "x.h5", "user.arrayfs.state")
                if state != b"clean":
                    raise RuntimeError(f"{name}: {state.decode()}")
                peak = peak_memory(pid)
        for what, found, most in [("daemon", peak, 320), ("workers", workers.peak, 64)]:
            bench.add(f"Peak memory while 4 GiB of HDF5 are rewritten in {name}, cache=256M, {what}", f"{found / MIB:.0f} MiB",
                      f"<= {most} MiB", found <= most * MIB, f"{seconds:.1f} s")


class WorkersMemory:
    """The most that the processes below a daemon have at one time, looked at again and again."""

    def __init__(self, pid):
        self.pid, self.peak, self.over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def look(self):
        while not self.over.wait(0.02):
            children = pathlib.Path(f"/proc/{self.pid}/task").glob("*/children")
            self.peak = max(self.peak, sum(map(resident, " ".join(map(read, children)).split())))


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def resident(pid):
    """Bytes that a process has for itself: not those of files, which it shares with the daemon."""
    fields = dict(line.split(":", 1) for line in read(pathlib.Path(f"/proc/{pid}/status")).splitlines())
    return int(fields.get("RssAnon", "0 kB").split()[0]) * 1024


def committed(mnt):
    """A mapping is committed when it ends, which nobody waits for."""
    return timed(ARRAYFS, "stage", "commit", mnt / "x.h5")


def raw_size(path):
    return os.stat(path).st_size


def dataset(path, shape, chunks):
    """Random floats of few digits, gzip 1 + shuffle; says how many there are."""
    generator = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", shape, "f4", chunks=chunks, compression="gzip", compression_opts=1, shuffle=True)
        step = max(chunks[0], (16 << 20) // max(1, int(np.prod(shape[1:]))) // chunks[0] * chunks[0])
        for at in range(0, shape[0], step):
            part = (min(step, shape[0] - at), *shape[1:])
            made[at:at + part[0]] = generator.integers(0, 1000, part).astype("f4") / 8
    return int(np.prod(shape))


FIGURES = {"write-csr": rewritten, "write-csr-plain": rewritten_plain, "write-scattered": scattered, "write-rows": rows,
           "write-dense": dense, "write-hdf5-memory": memory}
