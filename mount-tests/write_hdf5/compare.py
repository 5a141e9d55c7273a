#!/usr/bin/env python3
"""Holds files that were written through a mount against what they were before and what was written.

    compare.py SOURCE BEFORE MODEL

MODEL is what `session.py` leaves. Of each file in SOURCE, as h5py sees it: values and numbers of slices of the arrays
are the model's, and everything else is as in the file of that name in BEFORE, bits of padding included.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import netCDF4
import numpy as np
from h5py import h5z

import elements
import objects


class Written:
    """What `session.py` says of an array."""

    def __init__(self, directory, said):
        self.name, self.path, self.rows = said["container"], said["path"], said["rows"]
        load = lambda kind: np.load(directory / f"{said['number']}.{kind}.npy")
        self.shown, self.touched, self.kept = load("shown"), load("touched"), load("kept")


def compare_values(file, before, written):
    for one in written:
        dataset, what = file[one.path].id, f"{file.filename}: {one.path}"
        if dataset.shape:
            assert dataset.shape[0] == one.rows, f"{what}: {dataset.shape[0]} slices, {one.rows} were written"
        stored = elements.read(dataset)
        shown = elements.to_shown(dataset.get_type(), stored)
        differ = np.flatnonzero((shown != one.shown).any(axis=1))
        assert not len(differ), f"{what}: differs at elements {differ[:10]} of {len(shown)}: {shown[differ[:3]]}, {one.shown[differ[:3]]}"
        # n-bit keeps no padding.
        if not dataset.get_create_plist().get_filter_by_id(h5z.FILTER_NBIT):
            compare_padding(what, dataset.get_type(), stored, elements.read(before[one.path].id), one)


def compare_padding(what, kind, stored, before, written):
    """Of elements that nobody wrote every bit stays, of those that were written every bit of padding."""
    count = min(len(stored), len(before))
    stored, before = stored[:count], before[:count]
    untouched, kept = ~written.touched[:count], written.kept[:count]
    changed = np.flatnonzero(untouched & (stored != before).any(axis=1))
    assert not len(changed), f"{what}: nobody wrote elements {changed[:10]}: {before[changed[:3]]}, {stored[changed[:3]]}"
    padding = ~elements.value_bits(kind)
    changed = np.flatnonzero(kept & ((stored ^ before) & padding).any(axis=1))
    assert not len(changed), f"{what}: padding of elements {changed[:10]}: {before[changed[:3]]}, {stored[changed[:3]]}"


def compare_rest(file, before):
    now, then = objects.described(file), objects.described(before)
    assert list(now) == list(then), f"{file.filename}: {set(now) ^ set(then)}"
    for path, told in then.items():
        if now[path] != told and isinstance(told, dict):
            differ = {key: (told[key], now[path].get(key)) for key in told if told[key] != now[path].get(key)}
            raise AssertionError(f"{file.filename}: /{path} was another: {differ}")
        assert now[path] == told, f"{file.filename}: {path}: {told}, now {now[path]}"


def goes_on(path, written):
    """Others can write to the file: what they put into it overwrites nothing."""
    with tempfile.TemporaryDirectory() as directory:
        copy = shutil.copy(path, directory)
        with objects.opened(copy, "r+") as file:
            for number in range(3):
                file[f"more-{number}"] = np.arange(20_000 * (number + 1))
            file.create_dataset("chunks", data=np.arange(50_000), chunks=(1000,), compression="gzip")
            del file["more-1"]
        with objects.opened(copy) as file:
            for one in written:
                dataset = file[one.path].id
                shown = elements.to_shown(dataset.get_type(), elements.read(dataset))
                assert (shown == one.shown).all(), f"{path}: {one.path} lost values when the file was written by others"


def compare_netcdf(path, written):
    """A dimension is as long as its longest variable, and the others have fill values behind their own end."""
    with objects.opened(path) as stored:
        shapes = {one.path: stored[one.path].shape for one in written}
    with netCDF4.Dataset(path) as file:
        for one in written:
            variable, shape = file[one.path], shapes[one.path]
            variable.set_auto_maskandscale(False)
            values = np.asarray(variable[...])
            # Of a variable that is shorter in two unlimited dimensions the library makes a mess.
            if values.shape[1:] != shape[1:]:
                continue
            assert not shape or shape[0] <= len(values), f"{path}: {one.path} {values.shape}, {shape} were written"
            values = values.reshape(-1, int(np.prod(shape[1:]))).astype(values.dtype.newbyteorder("<"))
            rows = one.rows if shape else 1
            assert values[:rows].tobytes() == one.shown.tobytes(), f"{path}: {one.path}"
            fill = getattr(variable, "_FillValue", netCDF4.default_fillvals[values.dtype.str[1:]])
            behind = values[rows:] == np.array(fill).astype(values.dtype)
            assert behind.all(), f"{path}: {one.path} has no fill values behind its end"


def main(source, before, model):
    written = [Written(model, said) for said in json.loads((model / "arrays.json").read_text())]
    for path in sorted(before.iterdir()):
        own = [one for one in written if one.name == path.name]
        with objects.opened(source / path.name) as file, objects.opened(path) as then:
            compare_values(file, then, own)
            compare_rest(file, then)
        goes_on(source / path.name, own)
        if path.suffix == ".nc":
            compare_netcdf(source / path.name, own)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
