#!/usr/bin/env python3
"""Writes to every array of the HDF5 files in a mount, in all the ways that programs do, against a model.

    session.py MOUNT SOURCE SEED MODEL [ROUNDS]

After each step the mount must show what the model says. What each array is to be in the end is left in MODEL, for
`compare.py`.
"""
import json
import mmap
import os
import pathlib
import sys

import numpy as np
from h5py import h5d

import elements
import objects

PAGE = mmap.PAGESIZE


class Array:
    """An array of a mount, and what it should be."""

    def __init__(self, random, mount, container, path, dataset):
        self.random, self.container, self.path = random, mount / container, path
        self.mounted = self.container / path
        self.kind, self.slice = dataset.get_type().copy(), int(np.prod(dataset.shape[1:], dtype="i8"))
        self.size = elements.shown_type(self.kind).get_size()
        self.shown = elements.to_shown(self.kind, elements.read(dataset))
        self.touched, self.kept = np.zeros(len(self.shown), bool), np.ones(len(self.shown), bool)
        self.fixed, self.most = True, self.rows
        if dataset.shape and dataset.get_create_plist().get_layout() == h5d.CHUNKED:
            most = dataset.get_space().get_simple_extent_dims(True)[0]
            self.fixed = most == dataset.shape[0]
            self.most = min(2 * dataset.shape[0] + 9, most)
        self.fill = None if self.fixed else elements.fill_of(dataset)
        self.check()

    @property
    def rows(self):
        return len(self.shown) // self.slice if self.slice else 0

    def check(self):
        found = np.frombuffer(self.mounted.read_bytes(), "u1")
        assert len(found) == self.shown.size, f"{self.mounted}: {len(found)} bytes, not {self.shown.size}"
        differ = np.flatnonzero(found != self.shown.reshape(-1))
        assert not len(differ), f"{self.mounted}: differs at bytes {differ[:10]} of {len(found)} ({self.size} each)"

    def some(self, count):
        return elements.some(self.random, self.kind, count)

    def put(self, start, values, page=1):
        """Notes what was written, and what a page took with it."""
        end = start + len(values)
        self.shown[start:end] = values
        first, last = start * self.size // page * page, -(-end * self.size // page) * page
        self.touched[first // self.size:-(-last // self.size)] = True

    def resize(self, count):
        """As many elements, those that are new with the fill value."""
        grown = max(count - len(self.shown), 0)
        fill = np.zeros((grown, self.size), "u1") if self.fill is None else np.tile(self.fill, (grown, 1))
        self.shown = np.concatenate([self.shown[:count], fill])
        self.touched = np.concatenate([self.touched[:count], np.ones(grown, bool)])
        self.kept = np.concatenate([self.kept[:count], np.zeros(grown, bool)])

    def range(self):
        start = int(self.random.integers(len(self.shown)))
        return start, int(self.random.integers(start, min(len(self.shown), start + 500))) + 1

    def write_at(self):
        """In two pieces, that may meet within an element."""
        start, end = self.range()
        values = self.some(end - start)
        raw = values.tobytes()
        cut = int(self.random.integers(len(raw) + 1))
        with open(self.mounted, "r+b", buffering=0) as file:
            for at, piece in ((cut, raw[cut:]), (0, raw[:cut])):
                assert os.pwrite(file.fileno(), piece, start * self.size + at) == len(piece)
        self.put(start, values)

    def write_scattered(self):
        with open(self.mounted, "r+b", buffering=0) as file:
            for at in self.random.integers(0, len(self.shown), 20):
                value = self.some(1)
                os.pwrite(file.fileno(), value.tobytes(), int(at) * self.size)
                self.put(int(at), value)

    def map(self):
        mapped = np.memmap(self.mounted, "u1", "r+", shape=self.shown.shape)
        for _ in range(int(self.random.integers(1, 5))):
            start, end = self.range()
            values = self.some(end - start)
            mapped[start:end] = values
            self.put(start, values, PAGE)
        mapped.flush()
        del mapped

    def rewrite(self):
        """As cp does it."""
        count = len(self.shown) if self.fixed else self.slice * int(self.random.integers(self.most + 1))
        values = self.some(count) if count else self.shown[:0]
        with open(self.mounted, "wb", buffering=0) as file:
            for piece in np.array_split(values, int(self.random.integers(1, 4))):
                file.write(piece.tobytes())
        self.resize(0)
        self.resize(count)
        self.put(0, values)

    def append(self):
        more = int(self.random.integers(1, max(self.most - self.rows, 1) + 1))
        if self.rows + more > self.most:
            return
        values, end = self.some(more * self.slice), len(self.shown)
        with open(self.mounted, "ab") as file:
            file.write(values.tobytes())
        self.resize(end + len(values))
        self.put(end, values)

    def truncate(self):
        count = self.slice * int(self.random.integers(self.most + 1))
        os.truncate(self.mounted, count * self.size)
        self.resize(count)

    def shrink_and_grow(self):
        """With one handle, so that it is one commit."""
        less, more = sorted(int(n) for n in self.random.integers(0, self.most + 1, 2))
        with open(self.mounted, "r+b") as file:
            for rows in (less, more):
                os.ftruncate(file.fileno(), rows * self.slice * self.size)
                self.resize(rows * self.slice)

    def step(self):
        ways = [self.write_at, self.write_at, self.write_scattered, self.map] if len(self.shown) else []
        if len(self.shown) or not self.fixed:
            ways.append(self.rewrite)
        if not self.fixed and self.slice:
            ways += [self.append, self.append, self.truncate, self.shrink_and_grow]
        if ways:
            ways[int(self.random.integers(len(ways)))]()

    def state(self):
        return os.getxattr(self.container, "user.arrayfs.state").decode()


def session(random, arrays, rounds):
    for _ in range(rounds):
        for number in random.permutation(len(arrays)):
            array = arrays[number]
            array.step()
            array.check()
            if random.integers(2):
                os.setxattr(array.container, "user.arrayfs.commit", b"1")
                assert array.state().startswith("clean"), f"{array.mounted}: {array.state()}"
                array.check()


def together(random, arrays, times):
    """Two of one file are written at once."""
    for _ in range(times):
        first = arrays[int(random.integers(len(arrays)))]
        others = [one for one in arrays if one.container == first.container and one is not first and len(one.shown)]
        second = others[int(random.integers(len(others)))]
        with open(second.mounted, "r+b", buffering=0) as file:
            start, end = second.range()
            values = second.some(end - start)
            os.pwrite(file.fileno(), values.tobytes(), start * second.size)
            second.put(start, values)
            first.step()
        for array in (first, second):
            array.check()
            assert array.state().startswith("clean"), array.state()


def leave(model, arrays):
    told = []
    for number, array in enumerate(arrays):
        for kind in ("shown", "touched", "kept"):
            np.save(model / f"{number}.{kind}.npy", getattr(array, kind))
        told.append(dict(number=number, container=array.container.name, path=array.path, rows=array.rows))
    (model / "arrays.json").write_text(json.dumps(told))


def main(mount, source, seed, model, rounds="3"):
    random = np.random.default_rng(int(str(seed)))
    arrays = []
    for path in sorted(source.iterdir()):
        if path.suffix not in (".h5", ".nc"):
            continue
        with objects.opened(path) as file:
            arrays += [Array(random, mount, path.name, name, of) for name, of in objects.arrays(file).items()]
    session(random, arrays, int(str(rounds)))
    together(random, arrays, int(str(rounds)) * len(arrays) // 10)
    for array in arrays:
        array.check()
    model.mkdir(exist_ok=True)
    leave(model, arrays)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
