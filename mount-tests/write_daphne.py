#!/usr/bin/env python3
"""Random sessions on DAPHNE files: written through a mount as raw files, read by the format's rules.

    write_daphne.py SEED STEPS SOURCE MOUNT

After every step the file in the source is held against a model: of the program's form byte by byte, of the
specification's by what a strict reader finds in its blocks.
"""
import os
import pathlib
import struct
import sys

import numpy as np

import oracle_daphne

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


def read_spec(raw):
    """The arrays and labels of a file of the specification's form, every cell of which is in one block."""
    version, kind, rows, columns = struct.unpack_from("<BBQQ", raw)
    assert version == 1
    spec, at = oracle_daphne.SPEC, 18
    count = columns if kind == FRAME else 1
    types = [spec[code] for code in raw[at:at + count]]
    at += count
    labels = []
    if kind == FRAME:
        for _ in range(columns):
            end = at + 2 + struct.unpack_from("<H", raw, at)[0]
            labels.append(raw[at + 2:end])
            at = end
        cells = [np.zeros(rows, dtype) for dtype in types]
    else:
        cells = [np.zeros(rows, types[0]) for _ in range(columns)]
    seen, stored = np.zeros((rows, columns), int), np.zeros((rows, columns), bool)
    while at < len(raw):
        row, column, height, width, block_kind = struct.unpack_from("<QQIIB", raw, at)
        at += 25
        assert row + height <= rows and column + width <= columns
        seen[row:row + height, column:column + width] += 1
        if block_kind == 0:
            continue
        dtype, at = spec[raw[at]], at + 1
        entries = []
        if block_kind == 1:
            values = np.frombuffer(raw, dtype, height * width, at).reshape(height, width)
            at += values.nbytes
            for c in range(width):
                cells[column + c][row:row + height] = convert(values[:, c], cells[column + c].dtype)
            stored[row:row + height, column:column + width] = values != 0
            continue
        if block_kind == 2:
            total, at = struct.unpack_from("<Q", raw, at)[0], at + 8
            for r in range(height):
                own, at = struct.unpack_from("<I", raw, at)[0], at + 4
                for _ in range(own):
                    c, at = struct.unpack_from("<I", raw, at)[0], at + 4
                    entries.append((r, c, raw[at:at + dtype.itemsize]))
                    at += dtype.itemsize
            assert total == len(entries)
        else:
            total, at = struct.unpack_from("<I", raw, at)[0], at + 4
            for _ in range(total):
                r, at = struct.unpack_from("<I", raw, at)[0], at + 4
                c = 0
                if width != 1:
                    c, at = struct.unpack_from("<I", raw, at)[0], at + 4
                entries.append((r, c, raw[at:at + dtype.itemsize]))
                at += dtype.itemsize
        for r, c, value in entries:
            assert r < height and c < width and not stored[row + r, column + c]
            target = cells[column + c]
            target[row + r] = convert(np.frombuffer(value, dtype), target.dtype)[0]
            stored[row + r, column + c] = True
    assert (seen == 1).all(), "blocks overlap, or leave cells out"
    return kind, cells, stored, labels


def convert(values, dtype):
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
        assert (converted.astype(values.dtype) == values).all() or dtype.kind == values.dtype.kind == "f"
    return converted


class Spec:
    """A file in the specification's form: any tiling of blocks of any type."""

    def __init__(self, random, path, kind):
        write = [oracle_daphne.write_dense, oracle_daphne.write_csr, oracle_daphne.write_frame][kind - 1]
        self.path, self.kind, self.arrays = path, kind, {}
        write(random, path, self.expect)

    def expect(self, name, values):
        if name == "labels":
            self.labels = values.tobytes().split(b"\n")[:-1]
        else:
            self.arrays[name] = values.copy()

    def put(self, random, mounted, name, start, end):
        """Other bits for some elements."""
        flat = self.arrays[name].reshape(-1)
        # Numbers that a narrower type of a block holds, or any bits.
        small = random.integers(0, 100, end - start).astype(flat.dtype)
        flat[start:end] = small if random.integers(2) else oracle_daphne.some_bits(random, flat.dtype, (end - start,))
        with open(mounted / name, "r+b") as file:
            file.seek(start * flat.itemsize)
            file.write(flat[start:end].tobytes())

    def some(self, random, mounted):
        name = "values" if self.kind != FRAME else str(random.choice(list(self.arrays)))
        count = self.arrays[name].size
        if count:
            start = int(random.integers(count))
            self.put(random, mounted, name, start, int(random.integers(start, min(count, start + 40))) + 1)

    def step(self, random, mounted):
        what = int(random.integers(4))
        if what < 2 or self.kind == CSR and what == 2:
            return self.some(random, mounted)
        if self.kind == CSR:
            rows = int(random.integers(0, 60))
            columns = struct.unpack_from("<Q", self.path.read_bytes(), 10)[0]
            stored = random.random((rows, columns)) < random.random()
            values = random.integers(0, 100, int(stored.sum())).astype(self.arrays["values"].dtype)
            self.arrays = {
                "row_offsets": np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype("<u8"),
                "col_idxs": np.nonzero(stored)[1].astype("<u8"),
                "values": values,
            }
            for name in random.permutation(list(self.arrays)):
                (mounted / str(name)).write_bytes(self.arrays[str(name)].tobytes())
            return
        rows = len(next(iter(self.arrays.values())))
        new = int(random.integers(0, rows + 20))
        for name, cells in self.arrays.items():
            row = cells[:1].nbytes if len(cells) else cells.itemsize * int(np.prod(cells.shape[1:]))
            more = random.integers(0, 2, (max(new - rows, 0),) + cells.shape[1:]).astype(cells.dtype)
            self.arrays[name] = np.concatenate([cells[:new], more])
            if new > rows and random.integers(2):
                with open(mounted / name, "ab") as file:
                    file.write(more.tobytes())
            elif random.integers(2):
                (mounted / name).write_bytes(self.arrays[name].tobytes())
            else:
                os.truncate(mounted / name, new * row)
                self.arrays[name][rows:] = 0

    def check(self, mounted):
        kind, cells, stored, labels = read_spec(self.path.read_bytes())
        if kind == DENSE:
            rows = len(self.arrays["values"])
            found = {"values": np.stack(cells, axis=1) if cells else np.zeros((rows, 0))}
        elif kind == FRAME:
            assert labels == self.labels, f"{self.path} {labels}"
            assert (mounted / "labels").read_bytes() == b"".join(label + b"\n" for label in labels)
            names = [f"columns/{name}" for name in os.listdir(mounted / "columns")]
            assert sorted(names) == sorted(self.arrays), f"{self.path} {names}"
            found = dict(zip(self.arrays, cells))
        else:
            counts = stored.sum(axis=1)
            matrix = np.stack(cells, axis=1)
            found = {
                "row_offsets": np.concatenate([[0], np.cumsum(counts)]).astype("<u8"),
                "col_idxs": np.nonzero(stored)[1].astype("<u8"),
                "values": matrix[stored],
            }
        for name, values in self.arrays.items():
            assert found[name].tobytes() == values.tobytes(), f"{self.path} {name}"
            assert (mounted / name).read_bytes() == values.tobytes(), f"{mounted / name}"


def main(seed, steps, source, mount):
    random = np.random.default_rng(int(seed))
    for number in range(24):
        path = source / f"{number}.dbdf"
        model = [Dense, Csr, Frame][number % 3](random)
        path.write_bytes(model.stored())
        mounted = mount / path.name
        for _ in range(int(steps)):
            model.step(random, mounted)
            os.setxattr(mounted, "user.arrayfs.commit", b"1")
            stored = path.read_bytes()
            assert stored == model.stored(), f"{path}: {model.__dict__}"
            for name, cells in model.shown().items():
                assert (mounted / name).read_bytes() == cells.tobytes(), f"{path} {name}"
    for number in range(30):
        path = source / f"spec_{number}.dbdf"
        model = Spec(random, path, number % 3 + 1)
        for _ in range(int(steps)):
            model.step(random, mount / path.name)
            os.setxattr(mount / path.name, "user.arrayfs.commit", b"1")
            model.check(mount / path.name)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(pathlib.Path, sys.argv[3:]))
