#!/usr/bin/env python3
"""Writes real containers with the formats' own packages, the same bytes every time.

    demo_data.py DIR

    DIR/counts         BPCells matrix: 30,000 genes, 10,000 cells, 20 million counts
    DIR/fragments      BPCells fragments: 200,000 on four chromosomes
    DIR/wave.blp       Bloscpack file: a NumPy array, 2000 x 2000 float64
    DIR/pbmc.h5        HDF5: a Binsparse matrix of a million counts, names, an array, the same fragments
    DIR/climate.nc     NetCDF classic (CDF-5): temperatures of 365 days, a record each
    DIR/ocean.nc       NetCDF-4: temperatures of 12 months, packed
    DIR/ratings.dbdf   DAPHNE CSRMatrix: a million rows and columns, nearly all in blocks without entries
    DIR/weights.dbdf   DAPHNE DenseMatrix: 2000 x 1000 float32, one half of it an empty block

DAPHNE has no Python package that writes its format; the other formats are written by theirs.
"""
import collections
import collections.abc
import json
import os
import struct
import sys

collections.MutableMapping = collections.abc.MutableMapping  # bloscpack 0.16 wants it where it was in Python 3.9

import bloscpack
import blosc
import h5py
import netCDF4
import numpy as np
import scipy.sparse
from bpcells.experimental import DirMatrix, import_10x_fragments

GENES, CELLS, PER_CELL, PATTERNS = 30_000, 10_000, 2_000, 200
DBDF_DENSE, DBDF_CSR = 1, 2  # data types of DAPHNE files, and types of their blocks (0: empty)
DBDF_VALUES = {"float32": 9, "float64": 10}


def small_counts(size, rng):
    """1 in half of the cases, 2 in a quarter, ... Integers only: the same on every machine."""
    bits = rng.integers(1, 1 << 16, size, dtype=np.uint16)
    values = np.ones(size, np.uint32)
    for bit in range(16):
        values += (bits & ((2 << bit) - 1)) == 0
    return values


def counts(path, rng):
    # Some genes are seen in nearly every cell, most in few.
    rarity = rng.permutation(GENES).astype(np.uint64) + np.uint64(1)
    patterns = [
        np.sort(np.argpartition(rng.integers(0, 1 << 32, GENES, dtype=np.uint64) * rarity, PER_CELL)[:PER_CELL])
        for _ in range(PATTERNS)
    ]
    rows = np.resize(np.concatenate(patterns), CELLS * PER_CELL).astype(np.int32)
    values = small_counts(CELLS * PER_CELL, rng)
    starts = np.arange(0, CELLS * PER_CELL + 1, PER_CELL, dtype=np.int32)
    DirMatrix.from_scipy_sparse(scipy.sparse.csc_matrix((values, rows, starts), shape=(GENES, CELLS)), path)


def fragments(path, rng):
    lines = []
    for chromosome in range(1, 5):
        start = np.sort(rng.integers(0, 100_000_000, 50_000))
        end = start + rng.integers(30, 600, start.size)
        cell = rng.integers(0, 5_000, start.size)
        lines += [f"chr{chromosome}\t{a}\t{b}\tcell{c}\t1\n" for a, b, c in zip(start, end, cell)]
    table = path + ".tsv"
    with open(table, "w") as file:
        file.writelines(lines)
    import_10x_fragments(table, path)
    os.unlink(table)


def wave(path, rng):
    blosc.set_nthreads(1)
    noise = rng.integers(0, 1 << 10, 4_000_000) / 2**20
    bloscpack.pack_ndarray_to_file((np.arange(4_000_000) / 4096 + noise).reshape(2000, 2000), path)


def sparse_rows(rows, columns, per_row, rng):
    """Pointers and column numbers of a CSR matrix: rows of about equal length, low columns more often than high ones."""
    more = rng.integers(0, per_row // 2, rows // 2)
    lengths = per_row + np.stack([more, -more], axis=1).ravel()
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    row = np.repeat(np.arange(rows), lengths)
    column = (rng.integers(0, 1 << 16, row.size) ** 2 * (columns - 2 * per_row)) >> 32
    column = np.sort(row * columns + column) - row * columns
    rank = np.arange(row.size) - pointers[row].astype(np.int64)
    return pointers, (column + rank).astype(np.uint32)


def binsparse_csr(group, columns, pointers, indices, values, **storage):
    """Chunks of 1 MiB, if there is to be storage other than contiguous."""
    arrays = {"pointers_to_1": pointers, "indices_1": indices, "values": values}
    for name, array in arrays.items():
        chunks = {"chunks": (min(array.size, (1 << 20) // array.itemsize),)} if storage else {}
        group.create_dataset(name, data=array, **chunks, **storage)
    descriptor = {"version": "0.1.0", "format": "CSR", "shape": [pointers.size - 1, columns],
                  "number_of_stored_values": values.size,
                  "data_types": {name: str(array.dtype) for name, array in arrays.items()}}
    group.attrs["binsparse"] = json.dumps({"binsparse": descriptor})


def bpcells_group(group, directory):
    """The arrays of a BPCells directory as R's BPCells puts them in HDF5 files."""
    kinds = {b"UINT32v1": "<u4", b"UINT64v1": "<u8"}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            data = file.read()
        if name == "version":
            group.attrs["version"] = data.decode().strip()
        elif data[:8] in kinds:
            group.create_dataset(name, data=np.frombuffer(data, kinds[data[:8]], offset=8), chunks=(1024,), maxshape=(None,))
        else:
            group.create_dataset(name, data=data.decode().splitlines(), dtype=h5py.string_dtype())


def pbmc(path, rng):
    cells, genes = 10_000, 20_000
    with h5py.File(path, "w") as file:
        pointers, indices = sparse_rows(cells, genes, 100, rng)
        values = small_counts(indices.size, rng).astype(np.float32)
        binsparse_csr(file.create_group("counts"), genes, pointers, indices, values,
                      compression="gzip", compression_opts=1, shuffle=True)
        bpcells_group(file.create_group("fragments"), os.path.join(os.path.dirname(path), "fragments"))
        names = [f"cell{i:05}" for i in rng.permutation(cells)]
        file.create_dataset("obs/barcode", data=names, dtype=h5py.string_dtype())
        file.create_dataset("obs/umap", data=(rng.integers(-4096, 4096, (cells, 2)) / 256).astype(np.float32))


def temperatures(times, latitudes, longitudes, rng):
    """Warm where the latitude is low, warmest in the middle of the year. Exact in float32."""
    season = 16 - np.abs(np.arange(times) * 64 // times - 32)
    cold = np.abs(np.linspace(-128, 128, latitudes)).astype(int) // 4
    noise = rng.integers(-64, 64, (times, latitudes, longitudes)) / 16
    return (296 + season[:, None, None] / 4 - cold[None, :, None] + noise).astype(np.float32)


def climate(path, rng):
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        for name, size in [("time", None), ("lat", 45), ("lon", 90)]:
            file.createDimension(name, size)
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-88, 88, 45)
        file.createVariable("lon", "f4", ("lon",))[:] = np.arange(90) * 4
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2025-01-01"
        time[:] = np.arange(365)
        t2m = file.createVariable("t2m", "f4", ("time", "lat", "lon"))
        t2m.units = "K"
        t2m[:] = temperatures(365, 45, 90, rng)


def ocean(path, rng):
    with netCDF4.Dataset(path, "w") as file:
        for name, size in [("month", 12), ("lat", 90), ("lon", 180)]:
            file.createDimension(name, size)
        sst = file.createVariable("sst", "i2", ("month", "lat", "lon"), zlib=True, complevel=1, chunksizes=(1, 90, 180))
        sst.units = "0.01 K"
        sst[:] = temperatures(12, 90, 180, rng) * 100


def dbdf(path, kind, shape, dtype, blocks):
    """A DAPHNE file; blocks are (row, column, rows, columns, block type, parts of what follows)."""
    with open(path, "wb") as file:
        file.write(struct.pack("<BBQQB", 1, kind, *shape, DBDF_VALUES[dtype]))
        for *place, parts in blocks:
            file.write(struct.pack("<QQIIB", *place))
            file.writelines(parts)


def dbdf_sparse(pointers, columns, values):
    """The parts of a sparse block: for each row the count of its entries, then pairs of column and value."""
    lengths = np.diff(pointers).astype(np.int64)
    words = values.view("<u4").reshape(values.size, -1)
    width = 1 + words.shape[1]
    entry = np.repeat(np.arange(lengths.size), lengths) + 1 + width * np.arange(values.size)
    body = np.empty(lengths.size + width * values.size, "<u4")
    body[np.arange(lengths.size) + width * pointers[:-1].astype(np.int64)] = lengths
    body[entry] = columns
    for word in range(words.shape[1]):
        body[entry + 1 + word] = words[:, word]
    return [struct.pack("<BQ", DBDF_VALUES[str(values.dtype)], values.size), body]


def ratings(path, rng):
    # Four by four blocks: those on the diagonal have entries.
    side = 250_000

    def blocks():
        for row in range(4):
            for column in range(4):
                parts, kind = [], 0
                if row == column:
                    pointers, columns = sparse_rows(side // 25, side, 5, rng)
                    pointers = np.concatenate([pointers, np.full(side - side // 25, pointers[-1])])  # the rest has none
                    values = (rng.integers(1, 11, columns.size) / 2).astype(np.float32)
                    parts, kind = dbdf_sparse(pointers, columns, values), 2
                yield row * side, column * side, side, side, kind, parts

    dbdf(path, DBDF_CSR, (4 * side, 4 * side), "float32", blocks())


def weights(path, rng):
    values = (rng.integers(-512, 512, (1000, 1000)) / 1024).astype("<f4")
    dense = [struct.pack("<B", DBDF_VALUES["float32"]), values]
    dbdf(path, DBDF_DENSE, (2000, 1000), "float32", [(0, 0, 1000, 1000, 1, dense), (1000, 0, 1000, 1000, 0, [])])


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    rng = np.random.default_rng(1)
    makers = {"counts": counts, "fragments": fragments, "wave.blp": wave, "pbmc.h5": pbmc, "climate.nc": climate,
              "ocean.nc": ocean, "ratings.dbdf": ratings, "weights.dbdf": weights}
    for name, make in makers.items():
        make(os.path.join(directory, name), rng)


if __name__ == "__main__":
    main()
