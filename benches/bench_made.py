"""Figures on new containers: an HDF5 file by `cp -r` of what the mount shows of another, against h5py doing that."""
import shutil

from bench_measure import DATA, python, timed, warm
from bench_places import empty, on_disk

COPY = """import h5py, os
t = time.perf_counter()
with h5py.File(FROM) as file, h5py.File(TO, "w") as new:
    for name, item in file.items():
        new.create_dataset(name, data=item[()], chunks=item.chunks, compression=item.compression,
                           compression_opts=item.compression_opts, shuffle=item.shuffle, maxshape=item.maxshape)
    new.attrs.update(file.attrs)
fd = os.open(TO, os.O_RDONLY)
os.fsync(fd)
print(time.perf_counter() - t)"""

SYNC = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)"


def hdf5(bench):
    """A Binsparse CSR, gzip 1 + shuffle, copied as a directory within one mount, until fsync of it returns."""
    ours, theirs = [], []
    with on_disk(bench) as disk:
        for _ in range(bench.rounds):
            source = empty(disk / "source")
            shutil.copy(DATA / "shuffle.h5", source / "m.h5")
            warm(source)
            theirs.append(python(f"FROM, TO = {str(source / 'm.h5')!r}, {str(disk / 'other.h5')!r}\n{COPY}"))
            with bench.mounted(source, "-o", "rw") as mnt:
                copy = f"cp -r {mnt}/m.h5 {mnt}/new.h5 && python3 -c '{SYNC}' {mnt}/new.h5"
                ours.append(timed("bash", "-c", copy))
            (disk / "other.h5").unlink()
        bench.speed("a new HDF5 file by cp -r of a Binsparse CSR, gzip 1 + shuffle, against h5py", ours, theirs, 1.7)


FIGURES = {"make-h5": hdf5}
