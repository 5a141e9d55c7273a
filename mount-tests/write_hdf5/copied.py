#!/usr/bin/env python3
"""Whether copies of HDF5 and NetCDF-4 files, made by `cp -r` of what a mount shows of them, have what they had.

    copied.py SOURCE COPIES TOLD [H5DIFF]

Compares all files of SOURCE that are in COPIES; TOLD has a file for each, of what was said not to be kept. Where nothing
was, the library's own program, H5DIFF, must find no difference either; of NetCDF files its own libraries must, for they
make the machinery of dimensions anew.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import xarray
from h5py import h5a, h5d, h5g, h5s, h5t

import elements
import objects

# What the libraries find out anew: references between scales and their users, numbers of dimensions.
MACHINERY = {b"DIMENSION_LIST", b"REFERENCE_LIST", b"CLASS", b"NAME", b"_Netcdf4Dimid", b"_Netcdf4Coordinates", b"_nc3_strict", b"_NCProperties"}
SHUFFLE_AND_GZIP = [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]


class Differences:
    """Of one file: what is named as lost may be lost, nothing else may differ."""

    def __init__(self, name, told):
        self.name, self.told, self.found = name, told, []

    def lost(self, path, what):
        if not any(path in line and str(what) in line for line in self.told):
            self.found.append(f"{self.name}: {path}: {what} is lost, which nobody said: {self.told}")

    def same(self, path, what, then, now):
        if then != now:
            self.found.append(f"{self.name}: {path}: {what}: {then!r:.200} {now!r:.200}")


def value_of(file, of, attribute):
    return objects.plain(file, h5py.AttributeManager(objects.of_high(of))[attribute.name])


def attributes(file, of):
    told = {}
    for number in range(h5a.get_num_attrs(of)):
        attribute = h5a.open(of, index=number)
        if attribute.name not in MACHINERY:
            told[attribute.name] = (attribute.get_type(), attribute.shape, value_of(file, of, attribute))
    return told


def compare_attributes(differ, path, then, now):
    for name in sorted(set(then) | set(now)):
        shown = name.decode(errors="replace")
        if name not in now:
            differ.lost(path, f"attribute {shown}")
        elif name not in then:
            differ.same(path, shown, None, now[name])
        else:
            differ.same(path, f"type of {shown}", then[name][0].encode() if then[name][0] != now[name][0] else None, now[name][0].encode() if then[name][0] != now[name][0] else None)
            differ.same(path, shown, repr(then[name][1:]), repr(now[name][1:]))


def creation(dataset):
    plist = dataset.get_create_plist()
    told = {"layout": plist.get_layout()}
    if plist.get_layout() == h5d.CHUNKED:
        told["chunk"] = plist.get_chunk()
        told["filters"] = [plist.get_filter(number)[:1] + tuple(plist.get_filter(number)[2:3]) for number in range(plist.get_nfilters())]
    if plist.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED and dataset.get_type().get_class() not in (h5t.VLEN, h5t.REFERENCE):
        if elements.is_shown(dataset.get_type()):
            told["fill"] = elements.fill_of(dataset).tobytes()
    return told


def dims_of(dataset, most):
    dims = dataset.get_space().get_simple_extent_dims(most)
    # In a file with short addresses the library has another number for that.
    return tuple(h5s.UNLIMITED if dim in (h5s.UNLIMITED, (1 << 32) - 1) else dim for dim in dims)


def compare_datasets(differ, path, files, then, now):
    if then.get_type() != now.get_type():
        differ.same(path, "type", then.get_type().encode(), now.get_type().encode())
    kinds = [of.get_space().get_simple_extent_type() for of in (then, now)]
    differ.same(path, "space", *kinds)
    if kinds == [h5s.SIMPLE] * 2:
        for most in False, True:
            differ.same(path, "dims", dims_of(then, most), dims_of(now, most))
    before, after = creation(then), creation(now)
    if before.get("filters") != after.get("filters"):
        differ.lost(path, "shuffle and gzip instead")
        assert [one[0] for one in after.pop("filters")] == SHUFFLE_AND_GZIP
        before.pop("filters")
    differ.same(path, "creation", before, after)
    if kinds[0] != h5s.NULL:
        differ.same(path, "values", values(files[0], then), values(files[1], now))


def values(file, of):
    """Without padding, if the mount shows them as they lie."""
    kind = of.get_type()
    if not elements.is_shown(kind):
        return repr(objects.plain(file, h5py.Dataset(of)[()]))
    stored = np.frombuffer(elements.read(of), "u1").reshape(-1, kind.get_size())
    if kind.get_class() == h5t.STRING and kind.get_strpad() == h5t.STR_SPACEPAD:
        return [one.tobytes().rstrip(b"\0 ") for one in stored]
    return (stored & elements.value_bits(kind)).tobytes()


def scales(of):
    dims = h5py.Dataset(of).dims
    return [[(label, scale.name) for label, scale in dim.items() if not objects.is_dimension_alone(scale.id)] for dim in dims], [dim.label for dim in dims]


def links(group):
    told = {}
    for name in group:
        info = group.links.get_info(name)
        told[name] = (info.type, None if info.type == h5py.h5l.TYPE_HARD else group.links.get_val(name))
    return told


def compare(differ, files):
    then, now = map(objects.walk, files)
    for path in sorted(set(then) - set(now)):
        differ.lost(path, "")
    differ.same("", "new objects", set(), set(now) - set(then))
    for path in sorted(set(then) & set(now)):
        before, after = then[path], now[path]
        differ.same(path, "kind", type(before), type(after))
        compare_attributes(differ, path, attributes(files[0], before), attributes(files[1], after))
        if isinstance(before, h5g.GroupID):
            names = links(before), links(after)
            for name in sorted(names[0].keys() - names[1].keys()):
                differ.lost("/".join(filter(None, [path, name.decode()])), "")
            differ.same(path, "links", {name: names[0].get(name) for name in names[1]}, names[1])
        elif isinstance(before, h5t.TypeID):
            differ.same(path, "committed type", before == after, True)
        elif not objects.is_dimension_alone(before):
            compare_datasets(differ, path, files, before, after)
            # References of four bytes are not followed.
            if files[0].id.get_create_plist().get_sizes()[0] > 4:
                differ.same(path, "scales", scales(before), scales(after))


def netcdf(group):
    """As netCDF's own library shows it."""
    dimensions = {name: (len(of), of.isunlimited()) for name, of in group.dimensions.items()}
    variables = {}
    for name, of in group.variables.items():
        of.set_auto_maskandscale(False)
        attributes = {one: repr(of.getncattr(one)) for one in of.ncattrs()}
        variables[name] = (str(of.dtype), of.dimensions, of.shape, repr(np.asarray(of[...]).tolist()), attributes)
    return dimensions, variables, {one: repr(group.getncattr(one)) for one in group.ncattrs()}, {name: netcdf(one) for name, one in group.groups.items()}


def compare_netcdf(differ, then, now):
    with netCDF4.Dataset(then) as one, netCDF4.Dataset(now) as other:
        differ.same("", "data model", one.data_model, other.data_model)
        differ.same("", "as netCDF reads it", netcdf(one), netcdf(other))
    with xarray.open_dataset(then, engine="netcdf4") as one, xarray.open_dataset(now, engine="netcdf4") as other:
        differ.same("", "as xarray reads it", True, one.identical(other))


def compare_by_program(differ, h5diff, then, now):
    """False if it finds a byte-by-byte copy different: it may be too old for the file."""
    plugins = dict(os.environ, HDF5_PLUGIN_PATH=hdf5plugin.PLUGIN_PATH)

    def finds(other):
        ran = subprocess.run([h5diff, "-c", then, other], env=plugins, capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    with tempfile.TemporaryDirectory() as directory:
        able = finds(shutil.copy(then, directory))[0] == 0
    if able:
        ended, text = finds(now)
        differ.same("", "as h5diff reads it", (0, ""), (ended, text if ended else ""))
    return able


def main(source, copies, told, h5diff=None):
    found, compared, by_program = [], 0, 0
    for path in sorted(source.iterdir()):
        copy = copies / path.name
        if not copy.exists() or not h5py.is_hdf5(path):
            continue
        said = re.sub("^clean: (cannot be written: .*|read-only: .*)", "clean", (told / path.name).read_text())
        said = re.sub("^clean: not kept: ", "", said).split("; ")
        differ = Differences(path.name, [line.replace("the file", "") for line in said])
        with objects.opened(path) as then, objects.opened(copy) as now:
            compare(differ, (then, now))
        if path.suffix == ".nc":
            compare_netcdf(differ, path, copy)
        elif h5diff and said == ["clean"]:
            by_program += compare_by_program(differ, h5diff, path, copy)
        found += differ.found
        compared += 1
    print("\n".join(found), file=sys.stderr)
    print(f"{compared} files, {by_program} of them by h5diff as well")
    return bool(found) or not compared


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
