#!/usr/bin/env python3
"""Writes real containers with the formats' own packages, the same bytes every time.

    demo_data.py DIR

    DIR/counts      BPCells matrix: 30,000 genes, 10,000 cells, 20 million counts
    DIR/fragments   BPCells fragments: 200,000 on four chromosomes
    DIR/wave.blp    Bloscpack file: a NumPy array, 2000 x 2000 float64
"""
import collections
import collections.abc
import os
import sys

collections.MutableMapping = collections.abc.MutableMapping  # bloscpack 0.16 wants it where it was in Python 3.9

import bloscpack
import blosc
import numpy as np
import scipy.sparse
from bpcells.experimental import DirMatrix, import_10x_fragments

GENES, CELLS, PER_CELL, PATTERNS = 30_000, 10_000, 2_000, 200


def counts(path, rng):
    # Some genes are seen in nearly every cell, most in few. Integers only: the same on every machine.
    rarity = rng.permutation(GENES).astype(np.uint64) + np.uint64(1)
    patterns = [
        np.sort(np.argpartition(rng.integers(0, 1 << 32, GENES, dtype=np.uint64) * rarity, PER_CELL)[:PER_CELL])
        for _ in range(PATTERNS)
    ]
    rows = np.resize(np.concatenate(patterns), CELLS * PER_CELL).astype(np.int32)
    bits = rng.integers(1, 1 << 16, CELLS * PER_CELL, dtype=np.uint16)
    values = np.ones(bits.size, np.uint32)  # 1 in half of the cases, 2 in a quarter, ...
    for bit in range(16):
        values += (bits & ((2 << bit) - 1)) == 0
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


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    rng = np.random.default_rng(1)
    counts(os.path.join(directory, "counts"), rng)
    fragments(os.path.join(directory, "fragments"), rng)
    wave(os.path.join(directory, "wave.blp"), rng)


if __name__ == "__main__":
    main()
