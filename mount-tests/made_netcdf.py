"""Classic NetCDF files for `write_netcdf/made.rs`: `make DIRECTORY` writes some of each kind by the NetCDF library, `compare
DIRECTORY OTHER` reads the files of two directories by it, which must say the same."""
import sys
from pathlib import Path

import netCDF4
import numpy as np

KINDS = {"NETCDF3_CLASSIC": "i1 S1 i2 i4 f4 f8", "NETCDF3_64BIT_OFFSET": "i1 S1 i2 i4 f4 f8",
         "NETCDF3_64BIT_DATA": "i1 S1 i2 i4 f4 f8 u1 u2 u4 i8 u8"}


def fill(variable, random, shape):
    kind = np.dtype(variable.dtype)
    raw = np.frombuffer(random.bytes(int(np.prod(shape)) * kind.itemsize), kind)
    values = raw.reshape(shape) if kind.kind in "iu" else np.arange(raw.size).reshape(shape).astype(kind)
    variable[:] = np.full(shape, b"x", "S1") if kind.kind == "S" else values


def make(directory):
    for seed, (kind, types) in enumerate(KINDS.items()):
        for records in (0, 1, 3):
            random = np.random.default_rng(seed)
            with netCDF4.Dataset(directory / f"{kind}-{records}.nc", "w", format=kind) as file:
                file.set_auto_mask(False)
                file.createDimension("x", 5)
                file.createDimension("time", None)
                file.createDimension("unused", 7)
                file.setncatts({"title": "a text", "empty": "", "many": np.array([1, 2], "i2"), "one": np.float32(0.1)})
                for number, name in enumerate(types.split()):
                    for dims in ((), ("x",), ("time",), ("time", "x")):
                        shape = [records if dim == "time" else 5 for dim in dims]
                        value = None if name == "S1" or number % 2 else 7
                        variable = file.createVariable(f"v{number}{''.join(dims)}", name, dims, fill_value=value)
                        variable.units = "K"
                        variable.valid = np.array([1, 2, 3], "f8")
                        if np.prod(shape):
                            fill(variable, random, shape)


def attributes(of):
    return {name: (str(np.asarray(of.getncattr(name)).dtype), np.asarray(of.getncattr(name)).tolist()) for name in of.ncattrs()}


def read(path):
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        dimensions = [(name, len(of), of.isunlimited()) for name, of in file.dimensions.items()]
        variables = [(name, of.dtype.str, of.dimensions, of.shape, of[:].tobytes(), attributes(of))
                     for name, of in file.variables.items()]
        return file.data_model, dimensions, variables, attributes(file)


def compare(one, other):
    names = sorted(path.name for path in one.iterdir())
    assert len(names) >= 9, names
    for name in names:
        for before, after in zip(read(one / name), read(other / name)):
            assert before == after, f"{name}: {before} {after}"


if __name__ == "__main__":
    command, *directories = sys.argv[1:]
    {"make": make, "compare": compare}[command](*map(Path, directories))
