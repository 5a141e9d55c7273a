#!/usr/bin/env python3
"""Random sessions on NetCDF classic files: written through a mount as raw files, read by netCDF4.

    write_netcdf.py SEED SOURCE MOUNT

After every close the file in the source is held against a model: all variables, attributes and dimensions,
as the NetCDF library reads them; and the arrays in the mount against what was written to each.
"""
import os
import pathlib
import sys

import netCDF4
import numpy as np

KINDS = {
    "NETCDF3_CLASSIC": ["i1", "S1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_OFFSET": ["i1", "S1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_DATA": ["i1", "S1", "i2", "i4", "f4", "f8", "u1", "u2", "u4", "i8", "u8"],
}


def values(random, dtype, shape):
    count = int(np.prod(shape))
    if dtype.kind == "S":
        return np.frombuffer(random.integers(97, 123, count, dtype="u1").tobytes(), "S1").reshape(shape).copy()
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    low, high = (0, 100) if dtype.kind == "u" else (-100, 100)
    return random.integers(low, high, shape).astype(dtype)


class File:
    """A file, and what each variable should be: its own records, of which the file has the most."""

    def __init__(self, random, path, kind, names, record_variables):
        self.random, self.path, self.variables, self.fills = random, path, {}, {}
        with netCDF4.Dataset(path, "w", format=kind) as file:
            file.createDimension("t", None)
            file.createDimension("x", 5)
            file.createDimension("y", 3)
            file.title = "a title"
            file.numbers = np.arange(3, dtype="i4")
            for number, name in enumerate(names):
                self.add(file, f"fixed_{number}", np.dtype(name), [(), ("x",), ("y", "x")][number % 3], None)
            for number, name in enumerate(names[:record_variables]):
                dimensions = [("t",), ("t", "x"), ("t", "y", "x")][int(random.integers(3))]
                self.add(file, f"rec_{number}", np.dtype(name), dimensions, 4)
        self.before = self.described()

    def add(self, file, name, dtype, dimensions, records):
        own = dtype.kind != "S" and self.random.integers(3) == 0
        fill = np.array(7, dtype) if own else None
        variable = file.createVariable(name, dtype, dimensions, fill_value=fill)
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
        variable.units = "m s-1"
        shape = tuple(records if dim == "t" else len(file.dimensions[dim]) for dim in dimensions)
        cells = values(self.random, dtype, shape)
        variable[...] = cells
        self.variables[name] = cells
        # What the library has for the type, of CHAR "\\0".
        default = np.array(netCDF4.default_fillvals[dtype.str[1:]] if dtype.kind != "S" else b"\0", dtype)
        self.fills[name] = default if fill is None else fill

    def described(self):
        """Everything of the file but its values and the number of its records."""
        with netCDF4.Dataset(self.path) as file:
            attributes = {name: np.asarray(file.getncattr(name)).tolist() for name in file.ncattrs()}
            variables = {
                name: (one.dtype, one.dimensions, {a: np.asarray(one.getncattr(a)).tolist() for a in one.ncattrs()})
                for name, one in file.variables.items()
            }
            return file.data_model, attributes, variables, [len(d) for n, d in file.dimensions.items() if n != "t"]

    def check(self, mounted):
        assert self.described() == self.before, "what was not written has changed"
        records = max([len(cells) for name, cells in self.variables.items() if name.startswith("rec")], default=0)
        with netCDF4.Dataset(self.path) as file:
            assert len(file.dimensions["t"]) == records, (len(file.dimensions["t"]), records)
            for name, cells in self.variables.items():
                variable = file.variables[name]
                variable.set_auto_maskandscale(False)
                variable.set_auto_chartostring(False)
                found, expected = np.asarray(variable[...]), cells
                if name.startswith("rec"):
                    expected = np.full((records,) + cells.shape[1:], self.fills[name], cells.dtype)
                    expected[:len(cells)] = cells
                assert found.tobytes() == expected.tobytes(), f"{self.path} {name}: {found} {expected}"
        for name, cells in self.variables.items():
            shown = (mounted / name).read_bytes()
            assert shown == cells.tobytes(), f"{mounted / name}: {len(shown)} bytes of {cells.nbytes}"

    def step(self, mounted):
        name = str(self.random.choice(list(self.variables)))
        cells, path = self.variables[name], mounted / name
        is_record = name.startswith("rec")
        what = int(self.random.integers(6 if is_record else 3))
        if what == 0 and cells.size and cells.ndim:
            # As a Fortran program does with direct access, or numpy.memmap.
            mapped = np.memmap(path, cells.dtype, "r+", shape=cells.shape)
            at = tuple(int(self.random.integers(n)) for n in cells.shape)
            new = values(self.random, cells.dtype, ())
            mapped[at] = cells[at] = new
            mapped.flush()
            del mapped
        elif what == 1 and cells.nbytes:
            raw = bytearray(cells.tobytes())
            start = int(self.random.integers(len(raw)))
            end = int(self.random.integers(start, len(raw))) + 1
            raw[start:end] = new = values(self.random, np.dtype("i1"), end - start).tobytes()
            with open(path, "r+b", buffering=0) as file:
                file.seek(start)
                assert file.write(new) == len(new)
            self.variables[name] = np.frombuffer(bytes(raw), cells.dtype).reshape(cells.shape).copy()
        elif what == 2:
            # As cp does it.
            self.variables[name] = cells = values(self.random, cells.dtype, cells.shape)
            path.write_bytes(cells.tobytes())
        elif what == 3:
            more = values(self.random, cells.dtype, (int(self.random.integers(1, 4)),) + cells.shape[1:])
            with open(path, "ab") as file:
                file.write(more.tobytes())
            self.variables[name] = np.concatenate([cells, more])
        elif what == 4:
            left = int(self.random.integers(len(cells) + 1))
            os.truncate(path, left * (cells.nbytes // len(cells) if len(cells) else 0))
            self.variables[name] = cells[:left].copy()
        elif what == 5:
            longer = len(cells) + int(self.random.integers(1, 3))
            row = int(np.prod(cells.shape[1:])) * cells.dtype.itemsize
            os.truncate(path, longer * row)
            zeros = np.zeros((longer - len(cells),) + cells.shape[1:], cells.dtype)
            self.variables[name] = np.concatenate([cells, zeros])
        os.setxattr(mounted, "user.arrayfs.commit", b"1")


def main(seed, source, mount):
    random = np.random.default_rng(int(seed))
    for number, (kind, names) in enumerate(KINDS.items()):
        for record_variables in (0, 1, 2, len(names)):
            path = source / f"{number}_{record_variables}.nc"
            file = File(random, path, kind, names, record_variables)
            mounted = mount / path.name
            file.check(mounted)
            for _ in range(25):
                file.step(mounted)
                file.check(mounted)


if __name__ == "__main__":
    main(sys.argv[1], *map(pathlib.Path, sys.argv[2:]))
