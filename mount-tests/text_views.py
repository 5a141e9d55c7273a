#!/usr/bin/env python3
"""Texts as NumPy's arrays of fixed width, for the tests in text_views.rs.

    text_views.py write SOURCE           containers with texts of every kind
    text_views.py compare SOURCE MOUNT   each view is what the format's own library reads
    text_views.py h5 FILE VALUE...       a file with the text 'names'
    text_views.py load VIEW VALUE...     what a view holds, as text
"""
import collections
import collections.abc
import pathlib
import sys

import numpy as np

# bloscpack 0.16 wants it where it was before Python 3.10.
collections.MutableMapping = collections.abc.MutableMapping

TEXTS = {
    "ascii": ["a", "bcd", "", "long value"],
    "planes": [["größe", "x"], ["🦀 crab", "y z"]],
    "feeds": ["a\nb", "c", "\n", "", "größe\n"],
    "nuls": ["a\0\0", "b\0c", "\0"],
    "scalar": "hello",
    "empty": [],
    "nothing": ["", ""],
    "bytes": [b"\xff\xfe", b"a"],
}


def h5(path):
    import h5py

    with h5py.File(path, "w") as file:
        for name, values in TEXTS.items():
            # libhdf5 ends what it is given at the first NUL.
            values = ["a", "b", ""] if name == "nuls" else values
            if name != "scalar":
                values = np.array(values, object)
            file.create_dataset(name, data=values, dtype=h5py.string_dtype())
        many = np.array([f"name {number} {'ü' * (number % 7)}" for number in range(30_000)], object)
        file.create_dataset("group/many", data=many, chunks=(1000,), compression="gzip", dtype=h5py.string_dtype())
        file["fixed"] = np.array([[b"a", b"bcd"]], "S5")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        kind = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        small = h5py.h5d.create(file.id, b"compact", kind, space, compact)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(["one", "t\nwo", "größe"], object))


def netcdf(path):
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("n", 4)
        names = file.createVariable("names", str, ("n",))
        for number, name in enumerate(["alpha", "β", "", "delta"]):
            names[number] = name


def anndata_file(path):
    import anndata
    import pandas as pd

    names = pd.Index([f"cell-{number}" for number in range(50)])
    kinds = pd.Categorical(["T", "B"] * 25)
    obs = pd.DataFrame({"kind": kinds, "note": [f"nöte {n}" for n in range(50)]}, index=names)
    anndata.AnnData(X=np.eye(50, 3, dtype="f4"), obs=obs).write_h5ad(path)


def bpcells_directory(path):
    import scipy.sparse as sp
    from bpcells.experimental import DirMatrix

    DirMatrix.from_scipy_sparse(sp.eye(20, 10, format="csc", dtype=np.uint32), str(path))
    (path / "row_names").write_text("".join(f"gene {number}\n" for number in range(20)))
    (path / "col_names").write_bytes("".join(f"zelle-ä{number}\r\n" for number in range(10)).encode())


def bloscpack_file(path):
    import bloscpack

    bloscpack.pack_ndarray_to_file(np.array(["größe", "x"]), str(path))


def write(source):
    h5(source / "texts.h5")
    netcdf(source / "texts.nc")
    anndata_file(source / "cells.h5ad")
    bpcells_directory(source / "matrix")
    bloscpack_file(source / "names.blp")


def as_numpy(values, shape):
    """An array of the bytes or texts of one width."""
    values = [value if isinstance(value, bytes) else value.encode() for value in values]
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        texts = None
    if texts and any(not text.isascii() for text in texts):
        return np.array(texts, f"U{max(map(len, texts), default=1) or 1}").reshape(shape)
    return np.array(values, f"S{max(map(len, values), default=1) or 1}").reshape(shape)


def expect(view, wanted):
    size = view.stat().st_size
    found = np.load(view)
    assert size == len(view.read_bytes()), f"{view}: its size is told as {size}"
    assert found.shape == wanted.shape, f"{view}: {found.shape} instead of {wanted.shape}"
    assert found.dtype == wanted.dtype, f"{view}: {found.dtype} instead of {wanted.dtype}"
    assert (found == wanted).all(), f"{view}: {found} instead of {wanted}"
    if wanted.size:
        assert (np.load(view, mmap_mode="r") == wanted).all(), view


def compare_h5(stored, shown):
    import h5py

    compared = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and h5py.check_string_dtype(item.dtype):
            values = np.asarray(item[()], object).reshape(-1).tolist()
            wanted = as_numpy(values, item.shape)
            if h5py.check_string_dtype(item.dtype).length:
                wanted = wanted.astype(item.dtype)
            expect(shown / "views" / f"{name}.npy", wanted)
            compared.append(name)

    with h5py.File(stored) as file:
        file.visititems(visit)
    return len(compared)


def compare(source, mount):
    import bloscpack
    import netCDF4

    compared = compare_h5(source / "texts.h5", mount / "texts.h5")
    compared += compare_h5(source / "cells.h5ad", mount / "cells.h5ad")
    with netCDF4.Dataset(source / "texts.nc") as file:
        expect(mount / "texts.nc/views/names.npy", as_numpy(list(file["names"][:]), (4,)))
    for name in ["row_names", "col_names"]:
        lines = (source / "matrix" / name).read_text(encoding="utf-8").splitlines()
        expect(mount / "matrix/views" / f"{name}.npy", as_numpy(lines, (len(lines),)))
    unpacked = bloscpack.unpack_ndarray_from_file(str(source / "names.blp"))
    expect(mount / "names.blp/views/data.npy", unpacked)
    print(compared, "texts compared")


def main(command, path, *values):
    path = pathlib.Path(path)
    if command == "write":
        write(path)
    elif command == "compare":
        compare(path, pathlib.Path(values[0]))
    elif command == "h5":
        import h5py

        with h5py.File(path, "w") as file:
            texts = np.array(values, object)
            file.create_dataset("names", data=texts, maxshape=(None,), chunks=(4,), dtype=h5py.string_dtype())
            file["other"] = np.arange(5)
    else:
        expect(path, as_numpy(values, (len(values),)))


if __name__ == "__main__":
    main(*sys.argv[1:])
