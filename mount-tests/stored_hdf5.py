#!/usr/bin/env python3
"""Compares what `arrayfs info --json` says of HDF5 and NetCDF files with what h5py and netCDF4 say.

    stored_hdf5.py ARRAYFS FILE...

Prints a line for each difference, and at the end how many datasets and attributes were compared; exits 1
if there is a difference. Written from the HDF5 library's own view of types and properties, through h5py's
low-level interface, not from what arrayfs does.
"""
import json
import subprocess
import sys

import h5py
import netCDF4
import numpy as np
from h5py import h5a, h5d, h5i, h5o, h5p, h5r, h5s, h5t

MACHINERY = {"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "DIMENSION_LIST", "REFERENCE_LIST"}
NAMED = {
    f"H5T_{group}_{kind}{bits}{order}": getattr(h5t, f"{group}_{kind}{bits}{order}")
    for group, kind, widths in [("STD", "I", (8, 16, 32, 64)), ("STD", "U", (8, 16, 32, 64)), ("STD", "B", (8, 16, 32, 64)),
                                ("IEEE", "F", (16, 32, 64))]
    for bits in widths for order in ("LE", "BE")
    if hasattr(h5t, f"{group}_{kind}{bits}{order}")
}
PADDING = {h5t.STR_NULLTERM: "NULLTERM", h5t.STR_NULLPAD: "NULLPAD", h5t.STR_SPACEPAD: "SPACEPAD"}
BITS = {0: "zero", 1: "one", 2: "background"}
BFLOAT = dict(size=2, exponent=[7, 8], mantissa=[0, 7], bias=127, sign=15, precision=16, offset=0)


def name_of(raw):
    raw = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogateescape")
    raw = raw.replace(b"%", b"%25")
    return "".join(c if not 0xDC80 <= ord(c) <= 0xDCFF else f"%{ord(c) - 0xDC00:02X}" for c in raw.decode("utf-8", "surrogateescape"))


def order_of(t):
    return {h5t.ORDER_LE: "LE", h5t.ORDER_BE: "BE", h5t.ORDER_VAX: "VAX", h5t.ORDER_NONE: "LE"}[t.get_order()]


def integer(t):
    of = {"size": t.get_size(), "byte_order": order_of(t), "precision": t.get_precision(), "offset": t.get_offset()}
    pads = [BITS[p] for p in t.get_pad()]
    if pads != ["zero", "zero"]:
        of["padding"] = pads
    return of


def spell(t):
    for name, named in NAMED.items():
        if t.get_class() == named.get_class() and t.equal(named):
            return name
    kind = t.get_class()
    if kind == h5t.INTEGER:
        signed = {"signed": True} if t.get_sign() == h5t.SGN_2 else {}
        return {"class": "H5T_INTEGER", **integer(t), **signed}
    if kind == h5t.BITFIELD:
        return {"class": "H5T_BITFIELD", **integer(t)}
    if kind == h5t.FLOAT:
        sign, at, bits, low, low_bits = t.get_fields()
        of = {"class": "H5T_FLOAT", **integer(t), "sign": sign, "exponent": [at, bits], "mantissa": [low, low_bits], "bias": t.get_ebias()}
        of["norm"] = {h5t.NORM_IMPLIED: "implied", h5t.NORM_MSBSET: "msbset", h5t.NORM_NONE: "none"}[t.get_norm()]
        if of["norm"] == "implied" and all(of[key] == value for key, value in BFLOAT.items()):
            return f"H5T_FLOAT_BFLOAT16{of['byte_order']}"
        inner = BITS[t.get_inpad()]
        return of if inner == "zero" else {**of, "inner": inner}
    if kind == h5t.STRING:
        size = {} if t.is_variable_str() else {"size": t.get_size()}
        charset = "UTF-8" if t.get_cset() == h5t.CSET_UTF8 else "ASCII"
        return {"class": "H5T_STRING", **size, "padding": PADDING[t.get_strpad()], "charset": charset}
    if kind == h5t.ENUM:
        members = [[name_of(t.get_member_name(at)), int(t.get_member_value(at))] for at in range(t.get_nmembers())]
        return {"class": "H5T_ENUM", "base": spell(t.get_super()), "members": members}
    if kind == h5t.COMPOUND:
        members = [[name_of(t.get_member_name(at)), t.get_member_offset(at), spell(t.get_member_type(at))] for at in range(t.get_nmembers())]
        return {"class": "H5T_COMPOUND", "size": t.get_size(), "members": members}
    if kind == h5t.ARRAY:
        return {"class": "H5T_ARRAY", "dims": list(t.get_array_dims()), "base": spell(t.get_super())}
    if kind == h5t.VLEN:
        return {"class": "H5T_VLEN", "base": spell(t.get_super())}
    if kind == h5t.OPAQUE:
        return {"class": "H5T_OPAQUE", "size": t.get_size(), "tag": name_of(t.get_tag())}
    if kind == h5t.REFERENCE:
        return "H5T_STD_REF_OBJ" if t.equal(h5t.STD_REF_OBJ) else "H5T_STD_REF_DSETREG"
    if hasattr(h5t, "COMPLEX") and kind == h5t.COMPLEX:
        base = spell(t.get_super())
        if isinstance(base, str) and base.startswith("H5T_IEEE"):
            return base.replace("H5T_", "H5T_COMPLEX_")
        return {"class": "H5T_COMPLEX", "base": base}
    if kind == h5t.TIME:
        return {"class": "H5T_TIME", "size": t.get_size()}
    return None


class Comparison:
    def __init__(self, binary, file):
        self.file = file
        ran = subprocess.run([binary, "info", "--json", file], capture_output=True)
        self.told = json.loads(ran.stdout)
        self.arrays = {array["name"]: array for array in self.told["arrays"]}
        self.arrays.update({one["name"]: one for one in self.told.get("unreadable", []) if one["name"] not in self.arrays})
        self.wrong, self.datasets, self.attributes = [], 0, 0

    def expect(self, what, found, expected):
        if found != expected:
            self.wrong.append(f"{self.file}: {what}: {json.dumps(found)[:300]}, expected {json.dumps(expected)[:300]}")

    def type(self, what, found, t, types):
        if t.committed():
            token = h5o.get_info(t).addr
            if token in types:
                return self.expect(what, found, {"class": "H5T_COMMITTED", "name": types[token]})
        self.expect(what, found, spell(t))

    def attributes_of(self, where, of, values, types, committed):
        is_scale = isinstance(of, h5py.Dataset) and h5py.h5ds.is_scale(of.id)
        for name in of.attrs.keys():
            if name in MACHINERY or is_scale and name in ("CLASS", "NAME"):
                continue
            self.attributes += 1
            attribute = h5a.open(of.id, name.encode("utf-8", "surrogateescape"))
            space, t = attribute.get_space(), attribute.get_type()
            stored, value, what = types.get(name), values.get(name), f"{where}@{name}"
            if stored is None:
                self.obvious(what, value, space, t)
                continue
            self.type(what, stored["type"], t, committed)
            null = space.get_simple_extent_type() == h5s.NULL
            self.expect(what + " space", stored.get("space"), "null" if null else None)
            shape = list(space.shape or []) if not null else []
            self.expect(what + " shape", stored.get("shape", []), shape)
            if "stored" in stored:
                raw = np.zeros(space.shape, dtype=f"V{t.get_size()}")
                attribute.read(raw, mtype=t)
                self.expect(what + " bytes", stored["stored"], raw.tobytes().hex())

    def obvious(self, what, value, space, t):
        values = np.array(value)
        one = values.flat[0] if values.size else None
        if isinstance(one, str):
            expected = {"class": "H5T_STRING", "padding": "NULLTERM", "charset": "UTF-8"}
        elif isinstance(one, (bool, np.bool_)):
            expected = {"class": "H5T_ENUM", "base": "H5T_STD_I8LE", "members": [["FALSE", 0], ["TRUE", 1]]}
        else:
            expected = "H5T_IEEE_F64LE" if values.dtype.kind == "f" else "H5T_STD_I64LE"
        self.expect(what, expected, spell(t))
        self.expect(what + " shape", list(values.shape), list(space.shape))

    def dataset(self, path, dataset, committed):
        self.datasets += 1
        told = self.arrays.get(path)
        if told is None:
            self.wrong.append(f"{self.file}: {path} is not told")
            return
        of, space, plist = dataset.id, dataset.id.get_space(), dataset.id.get_create_plist()
        self.type(path, told.get("type"), of.get_type(), committed)
        simple = space.get_simple_extent_type() == h5s.SIMPLE
        shape, most = (list(space.get_simple_extent_dims(maxdims)) for maxdims in (False, True)) if simple else ([], [])
        short = dataset.file.id.get_create_plist().get_sizes()[1] == 4
        most = [None if m == h5s.UNLIMITED or m is None or short and m == 2**32 - 1 else m for m in most]
        self.expect(path + " maxshape", told.get("maxshape", shape), most)
        layout = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}[plist.get_layout()]
        layout = "external" if plist.get_layout() == h5d.CONTIGUOUS and plist.get_external_count() else layout
        self.expect(path + " layout", told.get("layout"), layout)
        self.expect(path + " chunks", told.get("chunks", []), list(plist.get_chunk()) if layout == "chunked" else [])
        filters = []
        for at in range(plist.get_nfilters()):
            code, flags, values, name = plist.get_filter(at)
            filters.append({"id": code, "name": name.decode(), "values": list(values), "optional": bool(flags & 1)})
        found = [{"values": [], "optional": False, **one} for one in told.get("filters", [])]
        self.expect(path + " filters", found, filters)
        self.expect(path + " creation order", told.get("creation_order"), order_in_group(dataset, path))
        self.fill(path, told, dataset, plist, layout)
        self.attributes_of(path, dataset, told.get("attributes", {}), told.get("attribute_types", {}), committed)

    def fill(self, path, told, dataset, plist, layout):
        defined = plist.fill_value_defined()
        kind = dataset.id.get_type().get_class()
        if defined == h5d.FILL_VALUE_USER_DEFINED:
            self.expect(path + " fill told", "fill" in told, True)
            if "fill" in told and kind in (h5t.INTEGER, h5t.FLOAT) and "fill_stored" not in told:
                value = np.zeros((), dataset.dtype)
                plist.get_fill_value(value)
                told_value = np.array(float(told["fill"]) if kind == h5t.FLOAT else told["fill"])
                self.expect(path + " fill", bool(value == told_value.astype(dataset.dtype)), True)
        elif defined == h5d.FILL_VALUE_UNDEFINED:
            self.expect(path + " fill", told.get("fill", "left out"), None)
        else:
            self.expect(path + " fill", told.get("fill", "left out"), "left out")
        times = {h5d.FILL_TIME_ALLOC: "alloc", h5d.FILL_TIME_NEVER: "never", h5d.FILL_TIME_IFSET: None}
        self.expect(path + " fill time", told.get("fill_time"), times[plist.get_fill_time()])
        usual = {"compact": "early", "contiguous": "late", "external": "late"}.get(layout, "incremental")
        allocated = {h5d.ALLOC_TIME_EARLY: "early", h5d.ALLOC_TIME_LATE: "late", h5d.ALLOC_TIME_INCR: "incremental", 0: usual}
        self.expect(path + " allocation", told.get("alloc_time", usual), allocated[plist.get_alloc_time()])

    def run(self):
        with h5py.File(self.file, "r") as file:
            names, committed = walk(file)
            for path, obj in names:
                if self.in_bpcells(path):
                    continue
                if isinstance(obj, h5py.Dataset):
                    if not alone(obj):
                        self.dataset(path, obj, committed)
                elif isinstance(obj, h5py.Datatype):
                    told = self.told["types"][path]
                    self.expect(path, told["type"], spell(obj.id))
                    self.attributes_of(path, obj, told.get("attributes", {}), told.get("attribute_types", {}), committed)
                else:
                    inner = self.told.get("containers", {}).get(path)
                    of = self.told.get("group_details", {}).get(path, {})
                    values = self.told.get("groups", {}).get(path, {})
                    types = {name: one for name, one in of.get("attribute_types", {}).items()}
                    if inner is None:
                        self.attributes_of(path, obj, values, types, committed)
            if self.told["format"] == "hdf5":
                self.attributes_of("", file, self.told["attributes"], self.told.get("attribute_types", {}), committed)
        self.netcdf()
        return self

    def in_bpcells(self, path):
        """There the arrays are made of several datasets."""
        groups = [group for group, kind in self.told.get("containers", {}).items() if kind == "bpcells"]
        return self.told["format"] == "bpcells" or any(path.startswith(group + "/") for group in groups)

    def netcdf(self):
        if "netcdf4" not in self.told:
            return
        with netCDF4.Dataset(self.file) as file:
            groups, expected = [("", file)], {}
            while groups:
                at, group = groups.pop()
                groups += [(at + name + "/", inner) for name, inner in group.groups.items()]
                expected.update({at + name: (len(d), d.isunlimited()) for name, d in group.dimensions.items()})
                for name, variable in group.variables.items():
                    where = {d: path_of(group, d) for d in variable.dimensions}
                    dims = [where[d] for d in variable.dimensions]
                    if at + name in self.arrays:
                        self.expect(at + name + " dims", self.arrays[at + name].get("dims", []), dims)
            found = {name: (d["length"], d["unlimited"]) for name, d in self.told.get("dimensions", {}).items()}
            self.expect("dimensions", found, expected)


def path_of(group, dimension):
    while dimension not in group.dimensions:
        group = group.parent
    path = group.path.strip("/")
    return f"{path}/{dimension}" if path else dimension


def order_in_group(dataset, path):
    parent = dataset.file["/" + path.rpartition("/")[0]] if "/" in path else dataset.file["/"]
    info = parent.id.links.get_info(path.rpartition("/")[2].encode())
    return info.corder if info.corder_valid else None


def alone(dataset):
    return "NAME" in dataset.attrs and bytes(np.bytes_(dataset.attrs["NAME"])).startswith(b"This is a netCDF dimension but not a netCDF variable")


def walk(file):
    """Every name of datasets and types and every group once, breadth first; types by their addresses."""
    names, types, level, seen = [], {}, [("", file["/"])], {h5o.get_info(file.id).addr}
    while level:
        below = []
        for at, group in level:
            for name in sorted(group, key=lambda name: name.encode("utf-8", "surrogateescape")):
                path = at + name
                try:
                    obj = group[name]
                except (KeyError, OSError, RuntimeError):
                    continue
                if obj.file.filename != file.filename:
                    continue
                address = h5o.get_info(obj.id).addr
                soft = isinstance(group.get(name, getlink=True), h5py.SoftLink)
                if isinstance(obj, h5py.Group):
                    if address in seen or soft:
                        continue
                    seen.add(address)
                    below.append((path + "/", obj))
                elif isinstance(obj, h5py.Datatype) and not soft:
                    types.setdefault(address, path)
                names.append((path, obj))
        level = below
    return names, types


def main():
    binary, *files = sys.argv[1:]
    wrong, datasets, attributes = [], 0, 0
    for file in files:
        one = Comparison(binary, file).run()
        wrong, datasets, attributes = wrong + one.wrong, datasets + one.datasets, attributes + one.attributes
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{datasets} datasets, {attributes} attributes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
