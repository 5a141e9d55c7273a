#!/usr/bin/env python3
"""Binsparse containers in classic NetCDF files, written through a mount, read by netCDF4.

    sparse_netcdf.py SOURCE MOUNT

Files with a fixed number of entries and with records of them, of every classic kind: values, structure, the
number of entries and the descriptor change, and after each step the file in the source is held against what
it should be, with everything else that lies in it.
"""
import errno
import json
import os
import pathlib
import sys

import netCDF4
import numpy as np

KINDS = {"one": "NETCDF3_CLASSIC", "two": "NETCDF3_64BIT_OFFSET", "five": "NETCDF3_64BIT_DATA"}
BESIDE = np.arange(7.0)


def descriptor(format, shape, count, types, **more):
    return {"binsparse": {"version": "0.1", "format": format, "shape": shape, "number_of_stored_values": count, "data_types": types, **more}}


def make(path, kind, text, variables, records):
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.before = "before"
        file.setncattr("binsparse", text)
        file.behind = np.arange(3, dtype="i4")
        file.createDimension("entries", None if records else len(variables["values"]))
        file.createDimension("seven", 7)
        if records:
            file.createVariable("time", "i4", ("entries",))[:] = np.arange(len(variables["values"]))
        for name, cells in variables.items():
            length = f"{name}_length"
            if records or len(cells) == len(variables["values"]):
                length = "entries"
            else:
                file.createDimension(length, len(cells))
            variable = file.createVariable(name, cells.dtype, (length,))
            variable.units = "1"
            variable[:] = cells
        file.createVariable("beside", "f8", ("seven",))[:] = BESIDE


def found(path):
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        arrays = {name: variable[:] for name, variable in file.variables.items()}
        rest = {name: np.asarray(file.getncattr(name)).tolist() for name in file.ncattrs() if name != "binsparse"}
        rest |= {f"{name}.units": variable.units for name, variable in file.variables.items() if "units" in variable.ncattrs()}
        return arrays, json.loads(file.binsparse), file.binsparse, rest


class File:
    def __init__(self, source, mount, name, kind, said, arrays, records):
        self.path, self.shown = source / f"{name}.nc", mount / f"{name}.nc"
        self.said, self.arrays = said, arrays
        make(self.path, kind, json.dumps(said), arrays, records)
        self.rest = found(self.path)[3]

    def write(self, name, cells):
        self.arrays[name] = cells
        (self.shown / name).write_bytes(cells.tobytes())

    def hold(self, step):
        state = os.getxattr(self.shown, "user.arrayfs.state").decode()
        assert state == "clean", f"{self.path} {step}: {state}"
        arrays, said, text, rest = found(self.path)
        assert said == self.said, f"{self.path} {step}: {said}"
        assert rest == self.rest, f"{self.path} {step}: {rest}"
        assert (self.shown / "binsparse.json").read_bytes() == text.encode(), f"{self.path} {step}"
        assert np.array_equal(arrays["beside"], BESIDE), f"{self.path} {step}"
        for name, cells in self.arrays.items():
            assert np.array_equal(arrays[name], cells), f"{self.path} {step} {name}: {arrays[name]}"
            shown = np.fromfile(self.shown / name, cells.dtype)
            assert np.array_equal(shown, cells), f"{self.path} {step} {name} in the mount"

    def waits(self, step):
        state = os.getxattr(self.shown, "user.arrayfs.state").decode()
        assert state.startswith("staged"), f"{self.path} {step}: {state}"

    def describe(self, **more):
        self.said["binsparse"] |= more
        (self.shown / "binsparse.json").write_text(json.dumps(self.said))

    def refuses(self, text):
        """Takes no such descriptor, and shows the old one when it has been dropped."""
        before = (self.shown / "binsparse.json").read_bytes()
        file = os.open(self.shown / "binsparse.json", os.O_WRONLY | os.O_TRUNC)
        os.write(file, text)
        try:
            os.close(file)
            raise AssertionError(f"{self.path}: {text!r} was taken")
        except OSError as e:
            assert e.errno == errno.EINVAL, e
        (self.shown / "binsparse.json").write_bytes(before)


def fixed(source, mount, name, kind):
    arrays = {
        "pointers_to_1": np.array([0, 2, 3, 5], "i4"),
        "indices_1": np.array([0, 2, 1, 0, 3], "i4"),
        "values": np.arange(5, dtype="f8"),
    }
    types = {"pointers_to_1": "int32", "indices_1": "int32", "values": "float64"}
    file = File(source, mount, f"fixed-{name}", kind, descriptor("CSR", [3, 4], 5, types), arrays, False)
    file.hold("as made")
    values = np.memmap(file.shown / "values", "f8", "r+")
    values *= 2
    values.flush()
    del values
    file.arrays["values"] = file.arrays["values"] * 2
    file.hold("values")
    file.write("pointers_to_1", np.array([0, 1, 3, 5], "i4"))
    file.waits("a row whose indices do not rise")
    file.write("indices_1", np.array([0, 1, 2, 0, 3], "i4"))
    file.hold("another structure")
    file.describe(shape=[3, 9], comment="x" * 900)
    file.hold("a longer descriptor")
    file.write("indices_1", np.array([0, 1, 2, 0, 8], "i4"))
    file.hold("as far as it says now")
    del file.said["binsparse"]["comment"]
    file.describe()
    file.hold("a shorter one")
    file.refuses(b"no json")


def records(source, mount, name, kind):
    arrays = {"indices_0": np.array([1, 4, 8], "i4"), "values": np.array([1, 2, 3], "f4")}
    types = {"indices_0": "int32", "values": "float32"}
    file = File(source, mount, f"records-{name}", kind, descriptor("CVEC", [5000], 3, types), arrays, True)
    for count in [4, 1200, 2, 40]:
        file.said["binsparse"]["number_of_stored_values"] = count
        file.write("values", np.arange(count, dtype="f4"))
        file.waits(f"{count} values")
        file.write("indices_0", 3 * np.arange(count, dtype="i4"))
        # Along the records of the file: it would fill the others.
        (file.shown / "time").write_bytes(np.arange(count, dtype="i4").tobytes())
        file.hold(f"{count} entries")
    with open(file.shown / "time", "ab") as time:
        time.write(bytes(8))
    file.waits("two more times")
    os.truncate(file.shown / "time", 4 * 40)
    file.hold("as many again")


def pointers_among_records(source, mount, name, kind):
    """Three rows less one have as many pointers as there are entries, by chance: with more entries they would be filled."""
    arrays = {
        "pointers_to_1": np.array([0, 1, 3], "i4"),
        "indices_1": np.array([2, 0, 9], "i4"),
        "values": np.arange(3, dtype="f8"),
    }
    types = {"pointers_to_1": "int32", "indices_1": "int32", "values": "float64"}
    file = File(source, mount, f"pointers-{name}", kind, descriptor("CSR", [2, 10], 3, types), arrays, True)
    for array, cells in [("pointers_to_1", [0, 1, 4]), ("indices_1", [2, 0, 5, 9]), ("values", [1, 2, 3, 4])]:
        (file.shown / array).write_bytes(np.array(cells, arrays[array].dtype).tobytes())
    file.waits("four entries")
    for array, cells in arrays.items():
        (file.shown / array).write_bytes(cells.tobytes())
    file.hold("three again")


def main():
    source, mount = map(pathlib.Path, sys.argv[1:])
    for name, kind in KINDS.items():
        fixed(source, mount, name, kind)
        records(source, mount, name, kind)
        pointers_among_records(source, mount, name, kind)


main()
