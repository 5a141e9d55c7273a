#!/usr/bin/env python3
"""Random sessions on DAPHNE files: written through a mount as raw files, read by the format's rules.

    write_daphne.py SEED SOURCE MOUNT

After every close the file in the source is held against a model, byte by byte.
"""
import os
import pathlib
import struct
import sys

import numpy as np

CODES = {code: np.dtype(name) for code, name in enumerate("i1 <i4 <i8 u1 <u4 <u8 <f4 <f8".split())}
DENSE, CSR, FRAME = 1, 2, 3


def head(kind, rows, columns, codes):
    return struct.pack("<BBQQ", 1, kind, rows, columns) + bytes(codes)


def block(rows, columns, kind, code):
    return struct.pack("<QQIIBB", 0, 0, rows, columns, kind, code)


def values(random, dtype, shape):
    return random.integers(0, 100, shape).astype(dtype)


class Dense:
    def __init__(self, random):
        self.code = int(random.integers(8))
        self.cells = values(random, CODES[self.code], (int(random.integers(1, 30)), int(random.integers(1, 9))))

    def stored(self):
        rows, columns = self.cells.shape
        return head(DENSE, rows, columns, [self.code]) + block(rows, columns, 1, self.code) + self.cells.tobytes()

    def shown(self):
        return {"values": self.cells}

    def step(self, random, mounted):
        rows, columns = self.cells.shape
        path, what = mounted / "values", int(random.integers(4))
        if what == 0:
            mapped = np.memmap(path, self.cells.dtype, "r+", shape=self.cells.shape)
            at = int(random.integers(rows)), int(random.integers(columns))
            mapped[at] = self.cells[at] = int(random.integers(100))
            mapped.flush()
        elif what == 1:
            more = values(random, self.cells.dtype, (int(random.integers(1, 5)), columns))
            with open(path, "ab") as file:
                file.write(more.tobytes())
            self.cells = np.concatenate([self.cells, more])
        elif what == 2:
            left = int(random.integers(1, rows + 1))
            os.truncate(path, left * columns * self.cells.itemsize)
            self.cells = self.cells[:left].copy()
        else:
            self.cells = values(random, self.cells.dtype, (int(random.integers(1, 40)), columns))
            path.write_bytes(self.cells.tobytes())


class Csr:
    def __init__(self, random):
        self.code, self.columns = int(random.integers(8)), int(random.integers(1, 20))
        self.make(random, int(random.integers(1, 30)))

    def make(self, random, rows):
        counts = random.integers(0, self.columns + 1, rows)
        choices = [np.sort(random.choice(self.columns, n, replace=False)) for n in counts]
        self.offsets = np.concatenate([[0], np.cumsum(counts)]).astype("<u8")
        self.indices = np.concatenate(choices).astype("<u8")
        self.values = values(random, CODES[self.code], len(self.indices))

    def stored(self):
        rows = len(self.offsets) - 1
        front = head(CSR, rows, self.columns, [self.code]) + block(rows, self.columns, 2, self.code)
        parts = [self.offsets, self.indices, self.values]
        return front + struct.pack("<Q", len(self.values)) + b"".join(part.tobytes() for part in parts)

    def shown(self):
        return {"row_offsets": self.offsets, "col_idxs": self.indices, "values": self.values}

    def step(self, random, mounted):
        if random.integers(2) and len(self.values):
            at = int(random.integers(len(self.values)))
            self.values[at] = int(random.integers(100))
            with open(mounted / "values", "r+b") as file:
                file.seek(at * self.values.itemsize)
                file.write(self.values[at].tobytes())
            return
        self.make(random, int(random.integers(1, 40)))
        shown = list(self.shown().items())
        random.shuffle(shown)
        for name, cells in shown:
            (mounted / name).write_bytes(cells.tobytes())


class Frame:
    def __init__(self, random):
        self.codes = [int(code) for code in random.integers(0, 8, int(random.integers(1, 6)))]
        self.make(random, int(random.integers(1, 50)))

    def make(self, random, rows):
        self.columns = [values(random, CODES[code], rows) for code in self.codes]

    def stored(self):
        rows = len(self.columns[0])
        labels = b"".join(struct.pack("<H", 3) + b"abc" for _ in self.codes)
        record = np.dtype([(str(n), CODES[code]) for n, code in enumerate(self.codes)])
        records = np.zeros(rows, record)
        for number, column in enumerate(self.columns):
            records[str(number)] = column
        return head(FRAME, rows, len(self.codes), self.codes) + labels + bytes(16) + records.tobytes()

    def shown(self):
        return {f"columns/col_{number}": column for number, column in enumerate(self.columns)}

    def step(self, random, mounted):
        number = int(random.integers(len(self.columns)))
        if random.integers(2):
            column = self.columns[number]
            start = int(random.integers(len(column)))
            end = int(random.integers(start, len(column))) + 1
            column[start:end] = values(random, column.dtype, end - start)
            with open(mounted / f"columns/col_{number}", "r+b") as file:
                file.seek(start * column.itemsize)
                file.write(column[start:end].tobytes())
            return
        self.make(random, int(random.integers(1, 60)))
        for name, column in self.shown().items():
            (mounted / name).write_bytes(column.tobytes())


def main(seed, source, mount):
    random = np.random.default_rng(int(seed))
    for number in range(24):
        path = source / f"{number}.dbdf"
        model = [Dense, Csr, Frame][number % 3](random)
        path.write_bytes(model.stored())
        mounted = mount / path.name
        for _ in range(12):
            model.step(random, mounted)
            os.setxattr(mounted, "user.arrayfs.commit", b"1")
            stored = path.read_bytes()
            assert stored == model.stored(), f"{path}: {model.__dict__}"
            for name, cells in model.shown().items():
                assert (mounted / name).read_bytes() == cells.tobytes(), f"{path} {name}"


if __name__ == "__main__":
    main(sys.argv[1], *map(pathlib.Path, sys.argv[2:]))
