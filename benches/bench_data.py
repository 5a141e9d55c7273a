#!/usr/bin/env python3
"""Writes the containers that bench.py reads, with the formats' own packages; what is there already is kept.

    bench_data.py DIR

    DIR/matrix         BPCells matrix: 30,000 x 10,000, 20 million counts
    DIR/matrix10       the same ten times, side by side
    DIR/fragments      BPCells fragments: 2 million
    DIR/CODEC.blp      512 MiB of float64 with twelve noisy low bits: lz4, blosclz, zstd
    DIR/far/           1 GiB of such numbers: contiguous.h5, shuffle.h5 (gzip 1, chunks of 1 MiB), zstd.blp
    DIR/frames.h5      500 frames of 512 x 512 float64, each in 16 chunks, gzip 1
    DIR/many/          10,000 small Bloscpack files
    DIR/FORM.h5        Binsparse CSR, 200,000 x 33,000, 20 million counts: shuffle, gzip, chunked, contiguous
    DIR/many.h5        HDF5: 10,000 small datasets in one group
    DIR/groups.h5      the same in 100 groups
    DIR/dense.dbdf     DAPHNE DenseMatrix: 8192 x 8192 float64 in one block
    DIR/sparse.dbdf    DAPHNE CSRMatrix: 20 million float64 in 1,000 sparse blocks, one below the other
"""
import collections
import collections.abc
import functools
import os
import pathlib
import shutil
import struct
import sys

collections.MutableMapping = collections.abc.MutableMapping  # bloscpack 0.16 wants it where it was in Python 3.9

import bloscpack
import blosc
import h5py
import numpy as np
from bpcells.experimental import DirMatrix, import_10x_fragments

sys.dont_write_bytecode = True  # nothing but target/ is left behind
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import demo_data

LEVELS = {"lz4": 5, "blosclz": 7, "zstd": 2}
MANY = 10_000
FORMS = {"shuffle": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
         "gzip": {"compression": "gzip", "compression_opts": 1},
         "chunked": {"compression": None},
         "contiguous": {}}


def matrix(path):
    demo_data.counts(path, np.random.default_rng(3))


def matrix10(path):
    one = DirMatrix(os.path.join(os.path.dirname(path), "matrix"))
    DirMatrix.from_hstack([one] * 10, path)


def fragments(path):
    rng = np.random.default_rng(3)
    table = path + ".tsv"
    with open(table, "w") as file:
        for chromosome in range(1, 21):
            start = np.sort(rng.integers(0, 100_000_000, 100_000))
            end = start + rng.geometric(1 / 200, start.size)
            cell = rng.integers(0, 5_000, start.size)
            file.writelines(f"chr{chromosome}\t{a}\t{b}\tcell{c}\t1\n" for a, b, c in zip(start, end, cell))
    import_10x_fragments(table, path)
    os.unlink(table)


def floats(parts=32):
    """Of 16 MiB each."""
    rng = np.random.default_rng(1)
    for i in range(parts):
        part = np.linspace(i, i + 1, (16 << 20) // 8)
        bits = part.view("<u8")
        bits ^= rng.integers(0, 1 << 12, bits.size, dtype="u8")
        yield part


def packed(codec, parts=32):
    def write(path):
        raw = path + ".raw"
        with open(raw, "wb") as file:
            for part in floats(parts):
                part.tofile(file)
        arguments = bloscpack.BloscArgs(typesize=8, clevel=LEVELS[codec], cname=codec)
        bloscpack.pack_file_to_file(raw, path, blosc_args=arguments)
        os.unlink(raw)
    return write


def far(path):
    parts = 64
    os.mkdir(path)
    packed("zstd", parts)(os.path.join(path, "zstd.blp"))
    for form in ["contiguous", "shuffle"]:
        how = {**FORMS[form], "chunks": (1 << 17,)} if FORMS[form] else {}
        with h5py.File(os.path.join(path, f"{form}.h5"), "w") as file:
            values = file.create_dataset("values", (parts << 21,), "<f8", **how)
            for number, part in enumerate(floats(parts)):
                values[number << 21:number + 1 << 21] = part


def frames(path):
    with h5py.File(path, "w") as file:
        values = file.create_dataset("frames", (500, 512, 512), "<f8", chunks=(1, 128, 128), **FORMS["shuffle"])
        for number, part in enumerate(floats(63)):
            frames = part.reshape(8, 512, 512)[:500 - 8 * number]
            values[8 * number:8 * number + len(frames)] = frames


def many(path):
    os.mkdir(path)
    first = os.path.join(path, "00000.blp")
    bloscpack.pack_bytes_to_file(np.arange(1000.0).tobytes(), first)
    for i in range(1, MANY):
        shutil.copyfile(first, os.path.join(path, f"{i:05}.blp"))


@functools.cache
def single_cell():
    rng = np.random.default_rng(3)
    pointers, indices = demo_data.sparse_rows(200_000, 33_000, 100, rng)
    return pointers, indices, demo_data.small_counts(indices.size, rng).astype(np.float32)


def csr(form):
    def write(path):
        with h5py.File(path, "w") as file:
            demo_data.binsparse_csr(file, 33_000, *single_cell(), **FORMS[form])
    return write


def datasets(name):
    def write(path):
        with h5py.File(path, "w") as file:
            for i in range(MANY):
                file.create_dataset(name.format(i // 100, i), data=np.arange(100, dtype="f4"))
    return write


def dense(path):
    parts = [struct.pack("<B", demo_data.DBDF_VALUES["float64"]), *floats()]
    demo_data.dbdf(path, demo_data.DBDF_DENSE, (8192, 8192), "float64", [(0, 0, 8192, 8192, 1, parts)])


def sparse(path):
    rng = np.random.default_rng(3)

    def blocks():
        for row in range(0, 1_000_000, 1000):
            pointers, columns = demo_data.sparse_rows(1000, 100_000, 20, rng)
            values = demo_data.small_counts(columns.size, rng).astype("<f8")
            yield row, 0, 1000, 100_000, 2, demo_data.dbdf_sparse(pointers, columns, values)

    demo_data.dbdf(path, demo_data.DBDF_CSR, (1_000_000, 100_000), "float64", blocks())


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    blosc.set_nthreads(2)
    makers = {"matrix": matrix, "matrix10": matrix10, "fragments": fragments, "far": far, "frames.h5": frames, "many": many}
    makers |= {f"{codec}.blp": packed(codec) for codec in LEVELS}
    makers |= {f"{form}.h5": csr(form) for form in FORMS}
    makers |= {"many.h5": datasets("{1:05}"), "groups.h5": datasets("{0:02}/{1:05}")}
    makers |= {"dense.dbdf": dense, "sparse.dbdf": sparse}
    for name, make in makers.items():
        path = os.path.join(directory, name)
        if not os.path.exists(path):
            print(f"making {path}", flush=True)
            part = os.path.join(directory, "part-" + name)
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            os.rename(part, path)


if __name__ == "__main__":
    main()
