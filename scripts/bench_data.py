#!/usr/bin/env python3
"""Writes the containers that bench.py reads, with the formats' own packages; what is there already is kept.

    bench_data.py DIR

    DIR/matrix         BPCells matrix: 30,000 x 10,000, 20 million counts
    DIR/matrix10       the same ten times, side by side
    DIR/fragments      BPCells fragments: 2 million
    DIR/CODEC.blp      512 MiB of float64 with twelve noisy low bits: lz4, blosclz, zstd
    DIR/many/          10,000 small Bloscpack files
"""
import collections
import collections.abc
import os
import shutil
import sys

collections.MutableMapping = collections.abc.MutableMapping  # bloscpack 0.16 wants it where it was in Python 3.9

import bloscpack
import blosc
import numpy as np
from bpcells.experimental import DirMatrix, import_10x_fragments

sys.dont_write_bytecode = True  # nothing but target/ is left behind
import demo_data

LEVELS = {"lz4": 5, "blosclz": 7, "zstd": 2}
MANY = 10_000


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


def floats():
    rng = np.random.default_rng(1)
    for i in range(32):
        part = np.linspace(i, i + 1, (16 << 20) // 8)
        bits = part.view("<u8")
        bits ^= rng.integers(0, 1 << 12, bits.size, dtype="u8")
        yield part


def packed(codec):
    def write(path):
        raw = path + ".raw"
        with open(raw, "wb") as file:
            for part in floats():
                part.tofile(file)
        arguments = bloscpack.BloscArgs(typesize=8, clevel=LEVELS[codec], cname=codec)
        bloscpack.pack_file_to_file(raw, path, blosc_args=arguments)
        os.unlink(raw)
    return write


def many(path):
    os.mkdir(path)
    first = os.path.join(path, "00000.blp")
    bloscpack.pack_bytes_to_file(np.arange(1000.0).tobytes(), first)
    for i in range(1, MANY):
        shutil.copyfile(first, os.path.join(path, f"{i:05}.blp"))


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    blosc.set_nthreads(2)
    makers = {"matrix": matrix, "matrix10": matrix10, "fragments": fragments, "many": many}
    makers |= {f"{codec}.blp": packed(codec) for codec in LEVELS}
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
