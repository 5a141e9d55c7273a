"""Figures on arrays that lie in their file as they are, rewritten as a whole: what it costs, and what the disk writes."""
import shutil

import numpy as np
from scipy.io import netcdf_file

from bench_hdf5 import ARRAYS
from bench_measure import ARRAYFS, DATA, python, timed, warm
from bench_places import empty, on_disk
from bench_write_hdf5 import REWRITE, code

SHAPE = 8192, 8192


def once(bench):
    """DAPHNE dense and a NetCDF classic variable, 512 MiB each: against the minimal server on the disk, and cp."""
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        shutil.copy(DATA / "dense.dbdf", source / "x.dbdf")
        with bench.mounted(source, "-o", "ro") as mnt:
            shutil.copy(mnt / "x.dbdf/values", disk / "raw")
        rewritten(bench, disk, "DAPHNE dense, 512 MiB", "x.dbdf", "values")
        variable(source / "x.nc", np.fromfile(disk / "raw").reshape(SHAPE))
        rewritten(bench, disk, "a NetCDF classic variable, 512 MiB", "x.nc", "x")


def variable(path, values):
    with netcdf_file(path, "w", version=2) as file:
        for name, length in zip("yz", SHAPE):
            file.createDimension(name, length)
        file.createVariable("x", "d", ("y", "z"))[:] = values


def rewritten(bench, disk, what, container, array):
    ours, minimal, copied = [], [], []
    raw, file = disk / "raw", disk / "source" / container
    for _ in range(bench.rounds):
        warm(raw)
        with bench.mounted(disk / "source", "-o", "rw,cache=1G") as mnt:
            ours.append(written(raw, f"{mnt}/{container}/{array}", f"{ARRAYFS} stage commit {mnt}/{container} && sync {file}"))
        with bench.minimal(empty(disk / "beside"), "--disk") as mnt:
            minimal.append(written(raw, f"{mnt}/x", f"sync {disk}/beside/x"))
        copied.append(timed("sh", "-c", f"cp {file} {disk / 'copy'} && sync {disk / 'copy'}"))
        (disk / "copy").unlink()
    bench.speed(f"{what}, rewritten and committed, against the minimal server writing to the disk", ours, minimal, 0.9)
    bench.speed(f"{what}, rewritten and committed, against cp and sync", ours, copied, 0.6)


def written(raw, to, afterwards):
    return timed("sh", "-c", f"dd if={raw} of={to} bs=1M conv=notrunc status=none && {afterwards}")


def synced(bench):
    """A Binsparse CSR without filters, all arrays rewritten with an fsync before each close, against h5py; bytes written."""
    ours, theirs, bytes_written = [], [], []
    with on_disk(bench) as disk:
        source, raw = empty(disk / "source"), empty(disk / "raw")
        file = source / "m.h5"
        shutil.copy(DATA / "contiguous.h5", file)
        with bench.mounted(source, "-o", "ro") as mnt:
            for name in ARRAYS:
                shutil.copy(mnt / "m.h5" / name, raw / name)
        for _ in range(bench.rounds):
            theirs.append(python(code(REWRITE, FROM=DATA / "contiguous.h5", TO=disk / "other.h5")))
            for times, flags in [(ours, "notrunc,fsync"), ([], "notrunc")]:
                warm(raw)
                with bench.mounted(source, "-o", "rw") as mnt:
                    before = disk_writes(bench)
                    copies = " && ".join(f"dd if={raw / name} of={mnt}/m.h5/{name} bs=1M conv={flags} status=none"
                                         for name in ARRAYS)
                    times.append(timed("sh", "-c", f"{copies} && {ARRAYFS} stage commit {mnt}/m.h5 && sync {file}"))
                    bytes_written.append((disk_writes(bench) - before) / file.stat().st_size)
    bench.speed("Binsparse CSR, contiguous, rewritten with an fsync before each close, against h5py", ours, theirs, 0.6)
    most = max(bytes_written)
    bench.add("bytes written to the disk when all its arrays are rewritten, against its size", f"{most:.2f}", "<= 1.1", most <= 1.1, "")


def disk_writes(bench):
    """Bytes that the daemon has had the disk write."""
    with open(f"/proc/{bench.status()['pid']}/io") as figures:
        return next(int(line.split()[1]) for line in figures if line.startswith("write_bytes"))


FIGURES = {"write-once": once, "write-csr-synced": synced}
