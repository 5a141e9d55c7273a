#!/usr/bin/env python3
"""Writes containers as people do: created, closed, opened again and extended. For the tests in
programs/writers.rs.

    write_here.py LIBRARY DIRECTORY          write, and read back in several steps
    write_here.py check LIBRARY DIRECTORY    what was written is there, as ordinary files

LIBRARY is h5py (x.h5), bloscpack (x.blp) or bpcells (matrix/).
"""
import collections
import collections.abc
import pathlib
import sys

import numpy as np

# bloscpack 0.16 wants it where it was before Python 3.10.
collections.MutableMapping = collections.abc.MutableMapping

NUMBERS = np.arange(200_000, dtype="<i8")


def h5py_write(directory):
    import h5py

    path = directory / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("numbers", data=NUMBERS, maxshape=(None,), chunks=(10_000,), compression="gzip")
    for _ in range(2):
        with h5py.File(path, "a") as file:
            numbers = file["numbers"]
            numbers.resize(len(numbers) + len(NUMBERS), axis=0)
            numbers[-len(NUMBERS):] = NUMBERS
            numbers.attrs["lengthened"] = True
        with h5py.File(path, "r") as file:
            assert (file["numbers"][-len(NUMBERS):] == NUMBERS).all()
    with h5py.File(path, "r+") as file:
        file["group/more"] = NUMBERS[:10]
        del file["group/more"]
        file["group/other"] = NUMBERS[:20]


def h5py_check(directory):
    import h5py

    with h5py.File(directory / "x.h5", "r") as file:
        assert (file["numbers"][:] == np.tile(NUMBERS, 3)).all()
        assert (file["group/other"][:] == NUMBERS[:20]).all()


def bloscpack_write(directory):
    import bloscpack
    from bloscpack.append import append
    from bloscpack.args import BloscArgs, BloscpackArgs

    path = directory / "x.blp"
    options = {
        "chunk_size": 100_000,
        "blosc_args": BloscArgs(8, 5, 1, "zlib"),
        "bloscpack_args": BloscpackArgs(offsets=True, max_app_chunks=100),
    }
    bloscpack.pack_bytes_to_file(NUMBERS.tobytes(), str(path), **options)
    plain = directory / "plain"
    plain.write_bytes(NUMBERS.tobytes())
    append(str(path), str(plain))
    bloscpack_check(directory)


def bloscpack_check(directory):
    import bloscpack

    bytes_found, _ = bloscpack.unpack_bytes_from_file(str(directory / "x.blp"))
    assert bytes_found == NUMBERS.tobytes() * 2


def matrix():
    import scipy.sparse as sp

    made = sp.random(2000, 800, 0.05, format="csc", random_state=np.random.default_rng(3))
    made.data = np.arange(1, made.nnz + 1, dtype=np.uint32)
    made.sort_indices()
    return made


def bpcells_write(directory):
    from bpcells.experimental import DirMatrix

    DirMatrix.from_scipy_sparse(matrix(), str(directory / "matrix"))
    bpcells_check(directory)


def bpcells_check(directory):
    from bpcells.experimental import DirMatrix

    found = DirMatrix(str(directory / "matrix"))[:, :]
    assert (found != matrix()).nnz == 0


def main(*arguments):
    *check, library, directory = arguments
    globals()[f"{library}_{'check' if check else 'write'}"](pathlib.Path(directory))


main(*sys.argv[1:])
