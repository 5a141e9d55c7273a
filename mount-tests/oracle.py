#!/usr/bin/env python3
"""The real libraries as oracles of the mount (see oracles.rs).

    oracle.py write LIBRARY SEED SOURCE EXPECTED    containers of random data into SOURCE, what they hold
                                                    into EXPECTED
    oracle.py compare EXPECTED MOUNT                every array through the mount, raw and as .npy

LIBRARY is bpcells, bloscpack, h5py, netcdf, binsparse, anndata, zarr or daphne (which has no library: a
small writer of its own). EXPECTED has a file CONTAINER/ARRAY.npy for every array.
"""
import collections
import collections.abc
import importlib
import os
import pathlib
import re
import sys

import numpy as np

# bloscpack 0.16 wants it where it was before Python 3.10.
collections.MutableMapping = collections.abc.MutableMapping


def expect(expected, container, name, values):
    path = expected / container / f"{name}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def write_bpcells(random, source, expected):
    for number in range(12):
        write_matrix(random, source, expected, f"matrix-{number}")
    for number in range(4):
        write_fragments(random, source, expected, f"fragments-{number}")


def write_matrix(random, source, expected, name):
    import scipy.sparse as sp
    from bpcells.experimental import DirMatrix

    rows, columns = (int(n) for n in random.integers(1, 3000, 2))
    density = float(random.choice([0.0005, 0.02, 0.2]))
    matrix = sp.random(rows, columns, density, format="csc", random_state=random)
    most = int(random.choice([2, 300, 1 << 20, 1 << 32]))
    matrix.data = random.integers(0, most, matrix.nnz).astype(np.uint32)
    if random.integers(2):
        matrix = matrix.tocsr()
        order = "row"
    else:
        order = "col"
    matrix.sort_indices()
    DirMatrix.from_scipy_sparse(matrix, str(source / name))
    expect(expected, name, "val", matrix.data)
    expect(expected, name, "index", matrix.indices.astype("<u4"))
    expect(expected, name, "idxptr", matrix.indptr.astype("<u8"))
    expect(expected, name, "shape", np.array(matrix.shape, "<u4"))
    expect(expected, name, "storage_order", np.frombuffer(f"{order}\n".encode(), "u1"))


def write_fragments(random, source, expected, name):
    from bpcells.experimental import import_10x_fragments

    starts, ends, cells, pointers = [], [], [], [0]
    for _ in range(int(random.integers(1, 6))):
        count = int(random.integers(1, 3000))
        start = np.sort(random.integers(0, 1 << 28, count))
        starts.append(start)
        ends.append(start + random.geometric(1 / 200, count))
        cells.append(random.integers(0, 300, count))
        pointers.append(pointers[-1] + count)
    table = source.parent / f"{name}.tsv"
    with open(table, "w") as out:
        for chromosome, columns in enumerate(zip(starts, ends, cells)):
            for start, end, cell in zip(*columns):
                print(f"chr{chromosome}", start, end, f"cell-{cell}", 1, sep="\t", file=out)
    import_10x_fragments(str(table), str(source / name))
    expect(expected, name, "start", np.concatenate(starts).astype("<u4"))
    expect(expected, name, "end", np.concatenate(ends).astype("<u4"))
    expect(expected, name, "chr_ptr", np.repeat(pointers, 2)[1:-1].astype("<u8"))
    # Cells are numbered as they come.
    _, first, number = np.unique(np.concatenate(cells), return_index=True, return_inverse=True)
    rank = np.empty(len(first), "<u4")
    rank[np.argsort(first)] = np.arange(len(first))
    expect(expected, name, "cell", rank[number])
    names = np.concatenate(cells)[np.sort(first)]
    text = "".join(f"cell-{cell}\n" for cell in names)
    expect(expected, name, "cell_names", np.frombuffer(text.encode(), "u1"))
    text = "".join(f"chr{chromosome}\n" for chromosome in range(len(starts)))
    expect(expected, name, "chr_names", np.frombuffer(text.encode(), "u1"))


def write_bloscpack(random, source, expected):
    for number in range(30):
        write_packed_bytes(random, source, expected, f"bytes-{number}.blp")
    for number in range(25):
        write_packed_array(random, source, expected, f"array-{number}.blp")
    for number in range(10):
        write_appended(random, source, expected, f"appended-{number}.blp")


def blosc_args(random, typesize):
    from bloscpack.args import BloscArgs

    codec = str(random.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]))
    return BloscArgs(typesize, int(random.integers(10)), int(random.integers(3)), codec)


def bloscpack_args(random, offsets=None):
    from bloscpack.args import BloscpackArgs

    names = ["None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
    offsets = bool(random.integers(2)) if offsets is None else offsets
    return BloscpackArgs(offsets=offsets, checksum=str(random.choice(names)), max_app_chunks=30 if offsets else 0)


def some_bytes(random, most):
    """Runs, counts and noise."""
    count = int(random.integers(1, most))
    kind = random.integers(3)
    if kind == 0:
        return random.bytes(count)
    if kind == 1:
        return np.repeat(random.integers(0, 256, count // 50 + 1).astype("u1"), 50)[:count].tobytes()
    return np.cumsum(random.integers(0, 9, count // 8 + 1)).astype("<i8").tobytes()[:count]


def write_packed_bytes(random, source, expected, name):
    import bloscpack

    plain = some_bytes(random, 3_000_000)
    metadata = {"seed": "ä", "numbers": [1, 2.5, None]} if random.integers(2) else None
    chunk = int(random.integers(1000, 1 << 20))
    bloscpack.pack_bytes_to_file(
        plain,
        str(source / name),
        chunk_size=chunk,
        metadata=metadata,
        blosc_args=blosc_args(random, int(random.integers(1, 33))),
        bloscpack_args=bloscpack_args(random),
    )
    expect(expected, name, "data", np.frombuffer(plain, "u1"))


def write_packed_array(random, source, expected, name):
    import bloscpack

    dtype = np.dtype(str(random.choice(["<i2", "<u4", "<i8", "<f4", "<f8", ">f8", "|b1", "|u1", "<c8", "<M8[s]"])))
    shape = tuple(int(n) for n in random.integers(1, 80, int(random.integers(1, 4))))
    count = int(np.prod(shape))
    values = np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)
    if dtype == bool:
        values = random.integers(0, 2, shape).astype(bool)
    if random.integers(2):
        values = np.asfortranarray(values)
    chunk = int(random.integers(10, 5000)) * dtype.itemsize
    bloscpack.pack_ndarray_to_file(
        values,
        str(source / name),
        chunk_size=chunk,
        blosc_args=blosc_args(random, dtype.itemsize),
        bloscpack_args=bloscpack_args(random),
    )
    expect(expected, name, "data", values)


def write_appended(random, source, expected, name):
    import bloscpack
    from bloscpack.append import append

    parts = [some_bytes(random, 100_000) for _ in range(int(random.integers(2, 6)))]
    path, more = source / name, source.parent / "more"
    bloscpack.pack_bytes_to_file(
        parts[0],
        str(path),
        chunk_size=max(1, len(parts[0]) // 2),
        blosc_args=blosc_args(random, 4),
        bloscpack_args=bloscpack_args(random, offsets=True),
    )
    plain = parts[0]
    for part in parts[1:]:
        more.write_bytes(part)
        try:
            append(str(path), str(more), blosc_args=blosc_args(random, int(random.integers(1, 17))))
        except bloscpack.exceptions.NotEnoughSpace:
            break
        plain += part
    expect(expected, name, "data", np.frombuffer(plain, "u1"))


def compare(expected, mount):
    """Bit by bit: a NaN is as good as any other number here."""
    compared, faults = 0, []
    for path in sorted(expected.rglob("*.npy")):
        name = path.relative_to(expected).with_suffix("")
        wanted = np.load(path)
        order = "F" if wanted.flags.f_contiguous and not wanted.flags.c_contiguous else "C"
        try:
            raw = (mount / name).read_bytes()
            if raw != wanted.tobytes(order):
                faults.append(f"{name}: {len(raw)} bytes differ from {wanted.nbytes}")
            compared += 1
            if name.name == "storage_order" or name.name == "labels":
                continue
            if os.getxattr(mount / name, "user.arrayfs.dtype") == b"str":
                faults.extend(compare_text(view_of(mount, name), wanted))
            else:
                faults.extend(compare_view(view_of(mount, name), wanted))
        except OSError as fault:
            faults.append(f"{name}: {fault}")
    print(compared, "arrays compared")
    print("\n".join(faults))
    return 1 if faults else 0


def view_of(mount, name):
    """In the innermost container around an array."""
    around = next(up for up in name.parents if (mount / up / "views").exists())
    return mount / around / "views" / f"{name.relative_to(around)}.npy"


def compare_view(path, wanted):
    found = np.load(path, mmap_mode="r") if wanted.size else np.load(path)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return [f"{path}: {found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"]
    return [] if found.tobytes() == wanted.tobytes() else [f"{path}: the values differ"]


def compare_text(path, wanted):
    """The values of a text, all of one width, are its lines but for NULs at their ends."""
    found = np.load(path, mmap_mode="r") if path.stat().st_size else np.load(path)
    values = found.reshape(-1).tolist()
    values = [value.encode() if isinstance(value, str) else value for value in values]
    lines = b"".join(value + b"\n" for value in values)
    same = lines == re.sub(rb"\0+(\n|$)", rb"\1", wanted.tobytes())
    return [] if found.dtype.kind in "SU" and same else [f"{path}: the texts differ"]


def main(command, *arguments):
    if command == "compare":
        return compare(*map(pathlib.Path, arguments))
    library, seed, source, expected = arguments
    source, expected = pathlib.Path(source), pathlib.Path(expected)
    source.mkdir(parents=True)
    random = np.random.default_rng(int(seed))
    if library in ("bpcells", "bloscpack"):
        {"bpcells": write_bpcells, "bloscpack": write_bloscpack}[library](random, source, expected)
        return 0
    module = importlib.import_module(f"oracle_{library}" if library in ("daphne", "zarr") else "oracle_hdf5")
    getattr(module, f"write_{library}")(random, source, expected, expect)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
