#!/usr/bin/env python3
"""DAPHNE files of many blocks, of which values change: the matrix stays cut as it is.

    write_daphne_blocks.py SEED STEPS SOURCE MOUNT

After every step the blocks of the file are held against those before it, byte by byte: they are as many, in the same
order, of the same rows and columns and types; a block without a change has the bytes that it had, and a dense one that
stays one has others in the changed cells alone. Of another kind is a block with a change that stores fewer cells than
it has, if that is shorter, and a dense one of a CSRMatrix, in which a value that becomes zero stays an entry.
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
    assert [block.place for block in old] == [block.place for block in new], f"{path}: the matrix is cut otherwise"
    is_csr = before[1] == write_daphne.CSR
    kept = 0
    for one, other in zip(old, new):
        changes = one.cells(differs)
        if not changes.any():
            kept += 1
            as_it_was = (one.header, one.dtype, one.body) == (other.header, other.dtype, other.body)
            assert as_it_was, f"{path}: a block without a change"
            continue
        assert one.kind == EMPTY or one.dtype == other.dtype, f"{path}: a type that holds the values"
        may_be_other = other.kind == ROWS if is_csr else one.kind != DENSE
        assert one.kind == other.kind or may_be_other, f"{path}: {one.kind} became {other.kind}"
        if one.kind == other.kind == DENSE:
            bytes_of = [np.frombuffer(block.body, f"V{one.dtype.itemsize}").reshape(one.height, one.width) for block in (one, other)]
            assert (changes | (bytes_of[0] == bytes_of[1])).all(), f"{path}: more than what was changed"
    return len(old), kept


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
    random, seen, kept = np.random.default_rng([int(seed), 8]), 0, 0
    for number in range(30):
        path = source / f"blocks_{number}.dbdf"
        model = write_daphne.Spec(random, path, number % 3 + 1)
        for _ in range(int(steps)):
            before = path.read_bytes()
            small(random, model, mount / path.name)
            os.setxattr(mount / path.name, "user.arrayfs.commit", b"1")
            model.check(mount / path.name)
            counted = compare(path, before, path.read_bytes())
            seen, kept = seen + counted[0], kept + counted[1]
    print(f"{seen} blocks, {kept} of them without a change")
    assert kept > 100 and seen > kept, "files of many blocks"


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(pathlib.Path, sys.argv[3:]))
