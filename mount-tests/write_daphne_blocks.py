#!/usr/bin/env python3
"""DAPHNE files of many blocks, of which values change: dense blocks are changed where they are.

    write_daphne_blocks.py SEED STEPS SOURCE MOUNT

After every step the blocks of the file are held against those before it, byte by byte: where all blocks with a change
are dense, these have other bytes in the changed cells alone, and all else of the file is as it was. Otherwise, and in a
CSRMatrix always, there are the blocks that a new file has: dense ones of all columns, of a frame of one column each,
sparse ones of a CSRMatrix.
"""
import os
import pathlib
import struct
import sys

import numpy as np

import oracle_daphne
import write_daphne

HEADER = 25
EMPTY, DENSE, ROWS, ENTRIES = range(4)


class Block:
    def __init__(self, raw, at):
        self.header = raw[at:at + HEADER]
        self.place = self.header[:-1]
        self.row, self.column, self.height, self.width, self.kind = struct.unpack("<QQIIB", self.header)
        self.dtype, self.body, self.end = None, b"", at + HEADER
        if self.kind == EMPTY:
            return
        self.dtype = oracle_daphne.SPEC[raw[self.end]]
        start = self.end + 1
        self.end = start + self.length(raw, start)
        self.body = raw[start:self.end]

    def length(self, raw, start):
        size = self.dtype.itemsize
        if self.kind == DENSE:
            return self.height * self.width * size
        if self.kind == ENTRIES:
            place = 4 if self.width == 1 else 8
            return 4 + struct.unpack_from("<I", raw, start)[0] * (place + size)
        at = start + 8
        for _ in range(self.height):
            at += 4 + struct.unpack_from("<I", raw, at)[0] * (4 + size)
        return at - start

    def cells(self, of):
        return of[self.row:self.row + self.height, self.column:self.column + self.width]


def blocks(raw):
    """What is before the first block, and all of them."""
    kind, rows, columns = struct.unpack_from("<BQQ", raw, 1)
    at = 18 + (columns if kind == write_daphne.FRAME else 1)
    if kind == write_daphne.FRAME:
        for _ in range(columns):
            at += 2 + struct.unpack_from("<H", raw, at)[0]
    front, found = raw[:at], []
    while at < len(raw):
        found.append(Block(raw, at))
        at = found[-1].end
    return front, found


def cells_of(raw):
    """As bytes, since the columns of a frame have types of their own."""
    cells = write_daphne.read_spec(raw)[1]
    return np.array([[value.tobytes() for value in column] for column in cells], object).T


def compare(path, before, after):
    differs = cells_of(before) != cells_of(after)
    (front, old), (front_now, new) = blocks(before), blocks(after)
    assert front == front_now, f"{path}: what is before the blocks"
    kind, rows, columns = struct.unpack_from("<BQQ", before, 1)
    touched = [block for block in old if block.cells(differs).any()]
    if not touched:
        return 0
    if kind == write_daphne.CSR or any(block.kind != DENSE for block in touched):
        width = 1 if kind == write_daphne.FRAME else columns
        expected = [(0, column, rows, width) for column in range(0, columns, width)]
        assert [(block.row, block.column, block.height, block.width) for block in new] == expected, f"{path}: blocks of a new file"
        assert {block.kind for block in new} == {ROWS if kind == write_daphne.CSR else DENSE}, f"{path}: of their kind"
        return 0
    assert [block.header for block in old] == [block.header for block in new], f"{path}: the matrix is cut otherwise"
    for one, other in zip(old, new):
        assert one.dtype == other.dtype, f"{path}: a type that holds the values"
        if one.kind != DENSE:
            assert one.body == other.body, f"{path}: a block without a change"
            continue
        bytes_of = [np.frombuffer(block.body, f"V{one.dtype.itemsize}").reshape(one.height, one.width) for block in (one, other)]
        assert (one.cells(differs) | (bytes_of[0] == bytes_of[1])).all(), f"{path}: more than what was changed"
    return 1


def small(random, model, mounted):
    """Numbers that every type holds, for some cells or entries."""
    name = str(random.choice(list(model.arrays)))
    if model.kind == write_daphne.CSR:
        name = "values"
    flat = model.arrays[name].reshape(-1)
    places = np.unique(random.integers(0, len(flat), 3)) if len(flat) else []
    with open(mounted / name, "r+b") as file:
        for place in places:
            # What is written counts as a change, also where it is what was there.
            before = flat[place].tobytes()
            while flat[place].tobytes() == before:
                flat[place] = int(random.integers(100))
            file.seek(int(place) * flat.itemsize)
            file.write(flat[place].tobytes())


def main(seed, steps, source, mount):
    random, kept, seen = np.random.default_rng([int(seed), 8]), 0, 0
    for number in range(45):
        path = source / f"blocks_{number}.dbdf"
        model = write_daphne.Spec(random, path, number % 3 + 1)
        for _ in range(int(steps)):
            before = path.read_bytes()
            small(random, model, mount / path.name)
            os.setxattr(mount / path.name, "user.arrayfs.commit", b"1")
            model.check(mount / path.name)
            kept, seen = kept + compare(path, before, path.read_bytes()), seen + 1
    print(f"{kept} of {seen} commits kept the blocks")
    assert kept > 5, "files of many blocks"


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(pathlib.Path, sys.argv[3:]))
