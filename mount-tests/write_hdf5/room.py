#!/usr/bin/env python3
"""How much room a file takes when its chunks get other sizes again and again.

    room.py make PATH [KIND]                  a dataset of nine chunks, `x`: a kind of file, or of filters
    room.py change MOUNTED SEED TIMES         that often one of the nine chunks, from text to noise; each is a commit
    room.py assert PATH MOUNTED TIMES         at most TIMES the live bytes and 256 KiB, and the values as in the mount

Live is what the same values take in a new file.
"""
import os
import pathlib
import sys
import tempfile

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5f

import elements
import objects

CHUNK, CHUNKS, SLACK = 4000, 9, 256 << 10
KINDS = {
    "plain": {},
    "paged": dict(fs_strategy="page", fs_page_size=4096),
    "persisted": dict(fs_strategy="fsm", fs_persist=True, fs_threshold=1),
}
# Behind the last filter of these nothing may follow.
FILTERS = {
    "fletcher32": dict(compression="gzip", fletcher32=True),
    "zstd": hdf5plugin.Zstd(),
    "lzf": dict(compression="lzf"),
}


def make(path, kind="plain"):
    filters = FILTERS.get(kind, dict(compression="gzip"))
    with h5py.File(path, "w", libver="latest", **KINDS.get(kind, {})) as file:
        file["beside"] = np.arange(100)
        file.create_dataset("x", data=np.zeros(CHUNKS * CHUNK, "<i4"), chunks=(CHUNK,), **filters)


def change(mounted, seed, times):
    random = np.random.default_rng(int(seed))
    for _ in range(int(times)):
        noise = int(random.integers(CHUNK + 1))
        values = np.zeros(CHUNK, "<i4")
        values[:noise] = random.integers(-1 << 31, 1 << 31, noise)
        with open(mounted, "r+b", buffering=0) as file:
            file.seek(int(random.integers(CHUNKS)) * values.nbytes)
            assert file.write(values) == values.nbytes
        os.setxattr(pathlib.Path(mounted).parent, "user.arrayfs.commit", b"1")


def live(path):
    """What the same values take in a new file of the same kind."""
    with tempfile.TemporaryDirectory() as directory:
        packed = f"{directory}/packed.h5"
        with objects.opened(path) as file, h5py.File(h5f.create(packed.encode(), fcpl=file.id.get_create_plist())) as copy:
            for name, dataset in file.items():
                of = dataset.id
                made = h5d.create(copy.id, name.encode(), of.get_type(), of.get_space(), of.get_create_plist())
                elements.write(made, elements.read(of))
        return os.path.getsize(packed)


def at_most(path, mounted, times):
    with objects.opened(path) as file:
        assert (file["x"][:] == np.frombuffer(pathlib.Path(mounted).read_bytes(), "<i4")).all()
        assert (file["beside"][:] == np.arange(100)).all()
    size, needed = os.path.getsize(path), live(path)
    print(f"{path}: {size} bytes, {needed} of them live")
    assert size <= int(times) * needed + SLACK, f"{path}: {size} bytes, {needed} of them live"


if __name__ == "__main__":
    {"make": make, "change": change, "assert": at_most}[sys.argv[1]](*sys.argv[2:])
