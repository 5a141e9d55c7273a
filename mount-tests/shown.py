#!/usr/bin/env python3
"""What `arrayfs show` and `info --stats` say, against what h5py, netCDF4 and NumPy read.

    shown.py ARRAYFS SEED DIRECTORY
"""
import collections
import collections.abc
import json
import pathlib
import random
import struct
import subprocess
import sys
import zlib

import h5py
import netCDF4
import numpy as np

# Bloscpack is older than Python 3.10.
collections.MutableMapping = collections.abc.MutableMapping
import bloscpack  # noqa: E402

ARRAYFS, SEED, DIRECTORY = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
DRAWN = random.Random(SEED)
NUMBERS = np.random.default_rng(SEED)
TYPES = ["i1", "u1", "<i2", ">i4", "<i8", ">u8", "<f2", "<f4", ">f8", "?"]


def said(*arguments):
    ran = subprocess.run([ARRAYFS, *map(str, arguments)], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, (arguments, ran)
    return ran.stdout.splitlines()


def values_of(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return NUMBERS.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        values = NUMBERS.normal(size=shape) * 10.0 ** NUMBERS.integers(-3, 4, shape)
        values[NUMBERS.random(shape) < 0.05] = np.nan
        values[NUMBERS.random(shape) < 0.02] = np.inf
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return NUMBERS.integers(limits.min, limits.max, shape, dtype.newbyteorder("="), endpoint=True).astype(dtype)


def some_slice(length):
    kind = DRAWN.randrange(4)
    if kind == 0:
        return str(DRAWN.randrange(-length, length))
    number = lambda: DRAWN.choice(["", str(DRAWN.randrange(-length - 3, length + 3))])
    step = DRAWN.choice(["", "", ":2", ":-1", ":-3", ":5"])
    return f"{number()}:{number()}{step}"


def read_cell(cell, dtype):
    if dtype.kind == "b":
        return cell == "true"
    return int(cell) if dtype.kind in "iu" else np.dtype(dtype.newbyteorder("=")).type(cell)


def assert_table(lines, expected, what):
    """The last lines are the rows of these values."""
    rows = np.atleast_1d(expected)
    rows = rows.reshape(rows.shape[0], -1) if rows.size else rows[:0].reshape(0, 1)
    found = [line.split() for line in lines[len(lines) - len(rows):]]
    for cells, row in zip(found, rows, strict=True):
        cells = [read_cell(cell, expected.dtype) for cell in cells[len(cells) - len(row):]]
        cells = np.array(cells, expected.dtype)
        same = (cells == row) | ((cells != cells) & (row != row))
        assert same.all(), (what, cells, row)


def tables(path, arrays):
    for name, array in arrays.items():
        for _ in range(3):
            given = ",".join(some_slice(length) for length in array.shape)
            sliced = np.asarray(eval(f"array[{given}]", {"array": array}))
            sliced = sliced.reshape(sliced.shape, copy=False)
            while sliced.ndim > 2 and sliced.size:
                sliced = sliced[0]
            if not sliced.size:
                continue
            assert_table(said("show", f"{path}/{name}", "--all", "--slice", given), sliced, (name, given))


def assert_figures(told, values, fill=None):
    values = np.asarray(values).reshape(-1)
    assert told["count"] == len(values), told
    if fill is not None:
        assert told["fill"] == int((values == fill).sum()), told
        values = values[values != fill]
    numbers = values[values == values]
    finite = numbers[np.isfinite(numbers)]
    assert told["nan"] == len(values) - len(numbers), told
    assert told["infinite"] == len(numbers) - len(finite), told
    assert told["zeros"] == int((finite == 0).sum()), told
    if values.dtype.kind in "iub":
        assert told["minimum"] == int(numbers.min()) and told["maximum"] == int(numbers.max()), told
        assert told["all_integers"]
    else:
        # As many digits as tell the numbers of this size apart.
        of_size = values.dtype.newbyteorder("=").type
        assert of_size(told["minimum"]) == numbers.min(), told
        assert of_size(told["maximum"]) == numbers.max(), told
    floats = finite.astype("f8")
    spread = max(float(np.abs(floats).max()), 1e-300)
    assert abs(told["mean"] - floats.mean()) <= 1e-9 * spread, (told, floats.mean())
    assert abs(told["standard_deviation"] - floats.std()) <= 1e-6 * spread, (told, floats.std())
    for bin in told["histogram"]:
        within = ((floats >= bin["from"]) & (floats < bin["to"])).sum()
        assert bin["count"] == within, (bin, within)
    assert sum(bin["count"] for bin in told["histogram"]) == len(finite)


def figures(path, arrays, fills={}):
    told = json.loads("\n".join(said("info", "--stats", "--json", path)))
    told = {array["name"]: array["stats"]["numbers"] for array in told["arrays"] if array["name"] in arrays}
    assert told.keys() == arrays.keys(), (told.keys(), arrays.keys())
    for name, array in arrays.items():
        assert_figures(told[name], array, fills.get(name))


def pixels_of(path):
    """Of a PNG file of 8 bits a colour: the pixels, and its texts."""
    data, at, packed, texts = path.read_bytes(), 8, b"", {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        elif kind == b"IDAT":
            packed += body
        elif kind == b"tEXt":
            name, text = body.split(b"\0", 1)
            texts[name.decode()] = text.decode("latin-1")
    raw, rows, above = zlib.decompress(packed), [], bytearray(3 * width)
    for y in range(height):
        kind, row = raw[y * (3 * width + 1)], bytearray(raw[y * (3 * width + 1) + 1:(y + 1) * (3 * width + 1)])
        for x in range(len(row)):
            left = row[x - 3] if x >= 3 else 0
            corner = above[x - 3] if x >= 3 else 0
            guess = left + above[x] - corner
            nearest = min((left, above[x], corner), key=lambda v: abs(guess - v))
            row[x] = (row[x] + (0, left, above[x], (left + above[x]) // 2, nearest)[kind]) & 255
        rows.append(bytes(row))
        above = row
    return np.frombuffer(b"".join(rows), "u1").reshape(height, width, 3), texts


def assert_picture(path, values):
    """Masked values are grey, the others in the order of their colours (Viridis' green always rises)."""
    pixels, texts = pixels_of(path)
    left, top, width, height = map(int, texts["Plot area"].split(","))
    rows, columns = values.shape
    y = top + ((np.arange(rows) * 2 + 1) * height) // (2 * rows)
    x = left + ((np.arange(columns) * 2 + 1) * width) // (2 * columns)
    found = pixels[y][:, x].astype(int)
    mask = np.ma.getmaskarray(values)
    assert (found[mask] == 160).all()
    order = np.argsort(values[~mask], kind="stable")
    colours = found[~mask][order]
    assert (np.diff(colours[:, 1]) >= 0).all()
    assert tuple(colours[0]) == (68, 1, 84) and tuple(colours[-1])[1] > 228, (colours[0], colours[-1])


def hdf5():
    path, arrays = DIRECTORY / "x.h5", {}
    with h5py.File(path, "w") as file:
        for number, dtype in enumerate(TYPES):
            for rank in (1, 2, 3):
                shape = tuple(DRAWN.randrange(2, 24) for _ in range(rank))
                values = values_of(dtype, shape)
                chunks = tuple(DRAWN.randrange(1, length + 1) for length in shape)
                kwargs = dict(chunks=chunks, compression="gzip") if number % 2 else {}
                file.create_dataset(f"a{number}{rank}", data=values, **kwargs)
                arrays[f"a{number}{rank}"] = values
        # Several portions, whose chunks stick out.
        large = values_of("<i4", (1700, 1300))
        file.create_dataset("large", data=large, chunks=(301, 257), compression="lzf")
    tables(path, arrays)
    figures(path, {**arrays, "large": large})


def texts_and_compounds():
    path = DIRECTORY / "texts.h5"
    values = ["a\nb", "c", "d\n\ne", "f"]
    part = np.dtype([("name", "S4"), ("x", "i4"), ("pad", "S600"), ("two", "S2", 2)])
    record = (b"ab", 65, b"p" * 600, [b"cd", b"ef"])
    with h5py.File(path, "w") as file:
        file.create_dataset("texts", data=values, dtype=h5py.string_dtype())
        file.create_dataset("square", data=np.array(values, object).reshape(2, 2), dtype=h5py.string_dtype())
        file.create_dataset("parts", data=np.full(70_000, np.array(record, part)), compression="gzip")
        file.create_dataset("none", (0, 3, 4), "f4", maxshape=(None, 3, 4))
    told = [value.replace("\n", "\\n") for value in values]
    assert said("show", path, "texts")[1:] == [f"{n}  {text}" for n, text in enumerate(told)]
    assert [line.split("  ")[1] for line in said("show", path, "square")[1:]] == told
    backwards = said("show", path, "texts", "--slice", "::-1")[2:]
    assert backwards == [f"{n}  {told[n]}" for n in (3, 2, 1, 0)], backwards
    for line in said("show", path, "parts", "--all")[2:]:
        assert line.split()[1:] == ["ab", "65", "p" * 600, "[cd,", "ef]"], line
    for arguments in ([], ["--plot"], ["--slice", "5:"]):
        assert said("show", path, "none", *arguments)[-1] == "no elements"


def column_major():
    path, values = DIRECTORY / "f.blp", np.asfortranarray(values_of("<f8", (37, 21)))
    bloscpack.pack_ndarray_to_file(values, str(path))
    tables(path, {"data": values})
    figures(path, {"data": values})


def netcdf(kind):
    path = DIRECTORY / f"{kind}.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("lat", 18)
        file.createDimension("lon", 36)
        lat = file.createVariable("lat", "f4", ("lat",))
        lat.units = "degrees_north"
        lat[:] = np.linspace(-85, 85, 18)
        packed = file.createVariable("t", "i2", ("lat", "lon"), fill_value=-999)
        packed.scale_factor, packed.add_offset, packed.units = 0.01, 273.15, "K"
        packed[:] = np.ma.masked_array(NUMBERS.normal(280, 9, (18, 36)), NUMBERS.random((18, 36)) < 0.1)
    with netCDF4.Dataset(path) as file:
        file["t"].set_auto_maskandscale(False)
        stored = np.array(file["t"][:])
        file["t"].set_auto_maskandscale(True)
        masked = file["t"][:]
    lines = said("show", f"{path}/t", "--physical")
    rows = [line.split()[1:] for line in lines[-18:]]
    assert any("units K" in line for line in lines)
    for cells, row in zip(rows, masked, strict=True):
        for cell, value in zip(cells, row, strict=True):
            assert cell == "_" if value is np.ma.masked else abs(float(cell) - value) < 1e-9, (cell, value)
    figures(path, {"t": stored, "lat": np.linspace(-85, 85, 18).astype("f4")}, {"t": -999})
    picture = DIRECTORY / "t.png"
    told = said("show", f"{path}/t", "--physical", "-o", picture, "--size", "900x600")
    assert f"{masked.mask.sum()} fill" in told[0], told
    # Latitudes rise: the last row is at the top.
    assert_picture(picture, masked[::-1])
    drawn = said("show", f"{path}/t", "--plot", "--physical")
    assert any("north is up" in line for line in drawn), drawn
    assert any("degrees_north" in line for line in drawn), drawn


def sparse():
    """A dataset of eight terabytes, of which little is stored."""
    path = DIRECTORY / "huge.h5"
    with h5py.File(path, "w") as file:
        huge = file.create_dataset("huge", (1_000_000, 1_000_000), "f8", chunks=(1000, 1000), compression="gzip")
        huge[5, 7], huge[-1, -1] = 1.5, -2
    lines = said("show", path, "huge")
    assert lines[-1].split()[0] == "999999" and lines[-1].split()[-1] == "-2.0", lines[-1]
    assert said("show", f"{path}/huge", "--slice", "5,7")[-1].strip() == "1.5"
    assert any("a sample: every" in line for line in said("show", f"{path}/huge", "--plot"))
    assert any("a sample: every" in line for line in said("show", f"{path}/huge", "--plot=hist"))


DIRECTORY.mkdir(exist_ok=True)
hdf5()
texts_and_compounds()
column_major()
for kind in ("NETCDF4", "NETCDF3_CLASSIC"):
    netcdf(kind)
sparse()
