#!/usr/bin/env python3
"""Runs the recipe for xarray in docs/recipes.md on files of every kind.

    recipes_xarray.py [FILE...]

Files: NetCDF-4, the three classic formats, and HDF5 with dimension scales, written here with what
tends to go wrong (packed numbers, fill values that JSON cannot say, characters, text, groups,
scalars, empty dimensions), the sound NetCDF files of mount-tests/golden, and the NetCDF and HDF5
files given. Each is mounted; the recipe sees nothing but the mount. What it makes is to be what
xarray.open_dataset makes of the file itself: the same variables, coordinates, types, values and
attributes.
"""
import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile

import h5py
import netCDF4
import numpy as np
import xarray as xr

import recipes
from sessions import remove, run

KINDS = ["NETCDF4", "NETCDF4_CLASSIC",
         "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]


def recipe():
    """The code of the recipe, for another container than the one that it names."""
    blocks = recipes.blocks(recipes.DOCUMENT.read_text())
    code = next(block[2] for block in blocks if block[:2] == ("xarray", "python"))
    return re.sub(r'^at = .*\n|^print\(.*\n', "", code, flags=re.M)


def put(file, name, dtype, dims, values, fill=None, **attributes):
    endian = {"endian": "big"} if str(dtype).startswith(">") else {}
    variable = file.createVariable(name, dtype, dims, fill_value=fill, **endian)
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    variable.setncatts(attributes)
    variable[...] = values


def coordinates(file):
    records = None if file.data_model == "NETCDF4" else 2  # one unlimited dimension elsewhere
    for name, size in [("time", None), ("lat", 3), ("lon", 4), ("letters", 6), ("never", records)]:
        file.createDimension(name, size)
    since = "hours since 2025-01-01"
    put(file, "time", "f8", ("time",), [0, 1.5], units=since, calendar="standard")
    valid = np.array([-90, 90], "i2")
    put(file, "lat", "f4", ("lat",), [-45, 0, 45], units="degrees_north", valid=valid)
    put(file, "lon", "f4", ("lon",), [0, 90, 180, 270], units="degrees_east")


def variables(file):
    packed = np.arange(24).reshape(2, 3, 4)
    packed[0, 0, 0] = -999
    put(file, "packed", "i2", ("time", "lat", "lon"), packed, -999,
        scale_factor=0.01, add_offset=273.15, units="K")
    put(file, "inexact", "f4", ("lon",), [1, 2, 3, 1e20], 1e20, missing_value=np.float32(1e20))
    put(file, "not_a_number", "f8", ("lon",), [1, 2, np.nan, 4], np.nan)
    put(file, "old", "f4", ("lon",), [1, 2, 3, -9.9], missing_value=np.float32(-9.9))
    put(file, "unsigned", "i1", ("lon",), [1, 2, -3, -1], -1, _Unsigned="true")
    put(file, "plain", "i4", ("lat", "lon"), np.arange(12).reshape(3, 4),
        coordinates="height", flags=[1, 2], empty="")
    put(file, "height", "f8", ("lat",), [1, 2, 3])
    put(file, "scalar", "i4", (), 7, long_name="one")
    put(file, "none", "f4", ("never", "lon"), np.zeros((len(file.dimensions["never"]), 4)))
    letters = netCDF4.stringtochar(np.array(["abc", "defghi", ""], "S6"))
    put(file, "station", "S1", ("lat", "letters"), letters)


def netcdf(path, kind):
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts({"title": f"A {kind} file", "version": np.int32(3), "factors": [1, 2.5]})
        coordinates(file)
        variables(file)
        if kind == "NETCDF4":
            put(file, "big", ">i4", ("lon",), [1, 2, 3, 4])
            put(file, "single", str, ("lat",), np.array(["p", "q", "r"], object))
            put(file, "words", str, ("lat",), np.array(["Zürich", "", "one two"], object))
            group = file.createGroup("deep")
            group.createDimension("depth", 2)
            put(group, "depth", "f4", ("depth",), [10, 20], units="m")
            put(group, "salt", "f8", ("depth", "lon"), np.arange(8).reshape(2, 4), units="g/kg")


def by_xarray(path):
    """What xarray itself writes: its encodings of times, text and booleans."""
    times = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    values = {"a": (("t", "y"), np.arange(6.0).reshape(2, 3)),
              "flag": ("y", np.array([True, False, True])),
              "text": ("y", np.array(["a", "bb", "ccc"]))}
    xr.Dataset(values, {"t": times, "y": ["p", "q", "r"]}, {"k": 1}).to_netcdf(path)


def scales(path):
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "scales"
        file["x"], file["y"] = np.arange(4.0), np.arange(3)
        file["v"] = np.arange(12, dtype=">f4").reshape(3, 4)
        file["v"].attrs["units"] = "m"
        file["words"] = np.array(["p", "q", "r"], h5py.string_dtype())
        for name in "xy":
            file[name].make_scale(name)
        for name, dims in [("v", "yx"), ("words", "y")]:
            for number, dim in enumerate(dims):
                file[name].dims[number].attach_scale(file[dim])


def golden():
    """Without the one in which a group is a container, with views of its own."""
    sources = recipes.ROOT / "mount-tests/golden/binsparse/sources"
    paths = [path for path in sources.glob("*.nc") if not path.name.startswith("bad-")]
    return [path for path in paths if path.name != "nc4-group.nc"]


def expected(path):
    """All groups in one, as the recipe has them."""
    with netCDF4.Dataset(path) as file:
        groups = list(file.groups)
    whole = xr.open_dataset(path, engine="netcdf4").load()
    for group in groups:
        part = xr.open_dataset(path, group=group, engine="netcdf4").load()
        own = [name for name in [*part.variables, *part.dims] if name not in whole.dims]
        part = part.drop_attrs(deep=False).rename({name: f"{group}/{name}" for name in own})
        whole = whole.merge(part)
    return whole


def differences(found, wanted):
    """Lines that say where two datasets are not the same."""
    lines = [f"{name}: only in one" for name in found.variables.keys() ^ wanted.variables.keys()]
    coordinates_of_one = found.coords.keys() ^ wanted.coords.keys()
    lines += [f"{name}: a coordinate in one alone" for name in coordinates_of_one]
    for name in found.variables.keys() & wanted.variables.keys():
        ours, theirs = found[name].variable, wanted[name].variable
        if not ours.identical(theirs) or not same_type(ours.dtype, theirs.dtype):
            lines.append(f"{name}: {ours!r}\n    but xarray has {theirs!r}")
    # A mount takes Binsparse's descriptor apart.
    theirs = {name: value for name, value in wanted.attrs.items() if name != "binsparse"}
    whole = theirs == wanted.attrs
    ours = {name: value for name, value in found.attrs.items() if whole or name in theirs}
    if not xr.Dataset(attrs=ours).identical(xr.Dataset(attrs=theirs)):
        lines.append(f"attributes: {ours}, xarray has {theirs}")
    return lines


def same_type(ours, theirs):
    """Text is fixed-width or objects, and byte orders are the machine's in a mount."""
    text = {ours.kind, theirs.kind} <= {"U", "O"}
    return text or ours.newbyteorder("=") == theirs.newbyteorder("=")


def compare(code, directory, name):
    names = {"at": str(directory / "mnt" / name)}
    try:
        exec(code, names)
        lines = differences(names["ds"].load(), expected(directory / "data" / name))
    except Exception as error:  # whatever the recipe does wrong counts for this file
        lines = [f"{type(error).__name__}: {error}"]
    if lines:
        print(f"{name}:", *lines, sep="\n  ", flush=True)
    return not lines


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-xarray."))
    with contextlib.ExitStack() as stack:
        stack.callback(remove, directory)
        data = directory / "data"
        data.mkdir()
        for kind in KINDS:
            netcdf(data / f"{kind.lower()}.nc", kind)
        by_xarray(data / "by-xarray.nc")
        scales(data / "scales.h5")
        for path in [*golden(), *sys.argv[1:]]:
            shutil.copy(path, data)
        mounted = run("mkdir mnt && arrayfs mount -o ro data mnt", directory)
        if mounted.returncode != 0:
            sys.exit(mounted.stdout)
        code = recipe()
        results = [compare(code, directory, name) for name in sorted(os.listdir(data))]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
