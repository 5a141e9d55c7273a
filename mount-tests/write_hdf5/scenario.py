#!/usr/bin/env python3
"""The small file that the rules are tried on, and what libhdf5 finds in it later.

    scenario.py make PATH               the file, as `make` below says
    scenario.py large PATH              `fixed` as in that, and `large` of 80 MiB
    scenario.py behind PATH             the file as `make` says, behind a block of 2,048 bytes that a program has put before it
    scenario.py user_block PATH BYTES   `noise` of bytes without limit, with gzip, and `beside` that counts, behind so many bytes
    scenario.py lengthen PATH           a program makes a dataset `theirs` of 100,000 numbers, and changes `beside`
    scenario.py lengthened PATH         `theirs` and `beside` are that
    scenario.py block PATH              that block is there
    scenario.py virtual PATH            `virtual`, which is put together from another file, and `fixed`, also `again`
    scenario.py names PATH              `rows` of 4 by 3 numbers by four names, and arrays of a Binsparse matrix by others
    scenario.py one PATH NAME...        all of these names lead to one dataset
    scenario.py listed PATH             `t` of 50 texts, and a list of free room that has a chunk of `big`, row n of which is n + 1
    scenario.py big_rows PATH           `big` is that
    scenario.py inside PATH WHERE       the second chunk of `rows` lies in the `header` of `beside`, in a `chunk` of that, or in the `first` of its own
    scenario.py beside_is_whole PATH    `beside` is what it was
    scenario.py filled PATH             texts `t` whose fill value is a text, and texts `empty` whose fill value is none
    scenario.py composed PATH           texts `t` whose fill value is a text, `alike` and `other` over them, with that fill value and
                                        another, and `within` over texts in an object header
    scenario.py edges PATH              `rows` of 25 numbers in chunks of 10, with gzip, of which no filter takes the last one
    scenario.py notes PATH              datasets `g/deep/notes` and `late/rows` of two numbers come to it
    scenario.py marked PATH             the same, marked as being written by a program that has gone
    scenario.py mark PATH               a program has opened the file to write it, and has gone
    scenario.py compounds PATH          `plain`, a compound of two numbers, and compounds with a `reference`, a `text` and a `list`
    scenario.py lzf PATH                `a` and `b` of four numbers each, with lzf, which can grow
    scenario.py odd_names PATH          attributes, members, labels and links whose names are no text, or have signs that are escaped
    scenario.py same_names PATH OTHER   both files have the same of them
    scenario.py twice PATH              `rows` of 40 by 30 numbers in chunks, whose shuffle stands twice among its filters
    scenario.py unwritten PATH COUNT FILL  contiguous datasets `never` and `also` of so many numbers of 4 bytes, which nobody has written
    scenario.py one_by_one PATH NAME N... these elements of a dataset; `beside` counts
    scenario.py hollow PATH             `hollow` of 8 MiB, the last number of which is written
    scenario.py unwritten_in_room PATH  `never` of 20,000 numbers, which nobody has written, and a list of free room for it that is full of ones
    scenario.py zeros_but PATH N        `never` is zeros but for an element
    scenario.py wide PATH               a dataset `wide` of 20,000,000 chunks, and `plane` of 4,000,000 by 4, none of them written
    scenario.py in_chunks PATH CHUNKS   a dataset `numbers` of 64 MiB in so many chunks, with gzip, none of them written
    scenario.py long PATH               a dataset `numbers` of 20,000 zeros in 20 chunks, and `beside` that counts
    scenario.py whole PATH              `numbers` is one number again and again, and `beside` counts
    scenario.py many PATH               datasets `packed` and `plain` of 8,000 zeros in 1,000 chunks, with gzip and without filters
    scenario.py netcdf PATH             a NetCDF-4 file of two records: one(t, x) of 1 to 6, with -1 as fill value, and other(t)
    scenario.py records PATH            all of its values, as netCDF4 reads them, and the properties that it has of its own
    scenario.py shown PATH DATASET      its shape on a line, then the bytes that a mount must show
"""
import json
import os
import sys

import h5py
import netCDF4
import numpy as np
from h5py import h5p, h5s, h5t

import elements
import objects


def make(path):
    with h5py.File(path, "w", libver="latest") as file:
        put(file)


def put(file):
    file["fixed"] = np.array([1, 2, 3], "<i4")
    rows = dict(maxshape=(None, 3), chunks=(2, 2), compression="gzip", shuffle=True, fillvalue=7)
    file.create_dataset("rows", data=np.arange(1, 7, dtype="<i4").reshape(2, 3), **rows)
    file.create_dataset("most", data=np.arange(1, 5, dtype=">i4"), maxshape=(6,), chunks=(3,), fillvalue=9)
    file.create_dataset("never", (4,), "<i4", chunks=(2,), compression="lzf", fillvalue=5)
    file.create_dataset("color", data=[0, 300, 0], dtype=h5py.enum_dtype({"red": 0, "green": 300}, "<u2"))
    file["bool"] = np.array([True, False, True])
    file["text"] = np.array([b"ab", b"c"], "S4")
    file["group/inner"] = np.array([1, 2, 3], ">f8")
    file["words"] = np.array(["one", "two"], h5py.string_dtype())
    file["references"] = np.array([file["fixed"].ref], h5py.ref_dtype)
    file["scalar"] = np.float64(2.5)
    narrow = h5py.h5d.create(file.id, b"narrow", elements.integer(h5t.STD_U16LE, 12, 0), h5s.create_simple((3,)))
    elements.write(narrow, np.array([1, 2, 3], "<u2").view("u1").reshape(3, 2))
    # The 0 is none of its values.
    strange = elements.enumeration(h5t.STD_I32LE, less=-5, more=1 << 20)
    chunked = h5p.create(h5p.DATASET_CREATE)
    chunked.set_chunk((3,))
    strange = h5py.h5d.create(file.id, b"strange", strange, h5s.create_simple((3,)), chunked)
    elements.write(strange, np.array([-5, 0, -5], "<i4").view("u1").reshape(3, 4))
    file["fixed"].attrs["unit"] = "m"


def many(path):
    with h5py.File(path, "w", libver="latest") as file:
        for name, compression in [("packed", "gzip"), ("plain", None)]:
            file.create_dataset(name, data=np.zeros(8000, "<i4"), chunks=(8,), maxshape=(None,), compression=compression)


def virtual(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["fixed"] = np.array([1, 2, 3], "<i4")
        layout = h5py.VirtualLayout((3,), "<i4")
        layout[:] = h5py.VirtualSource("other.h5", "numbers", (3,))
        file.create_virtual_dataset("virtual", layout, fillvalue=7)
        file["again"] = file["fixed"]


def names(path):
    with h5py.File(path, "w", libver="latest") as file:
        rows = dict(maxshape=(None, 3), chunks=(2, 2), compression="gzip")
        file.create_dataset("g/rows", data=np.arange(12, dtype="<i4").reshape(4, 3), **rows)
        file["rows"] = file["g/deep/rows"] = file["g/rows"]
        file["soft"] = h5py.SoftLink("/g/rows")
        grows = dict(maxshape=(None,), chunks=(4,))
        for name, values in [("pointers_to_1", [0, 1, 2, 2]), ("indices_1", [1, 0]), ("values", [1.0, 2.0])]:
            kind = "<f4" if name == "values" else "<u8"
            file.create_dataset(f"matrix/{name}", data=np.array(values, kind), **grows)
            file[f"outside/its_{name}"] = file[f"matrix/{name}"]
        types = dict(pointers_to_1="uint64", indices_1="uint64", values="float32")
        described = dict(version="0.1", format="CSR", shape=[3, 2], number_of_stored_values=2, data_types=types)
        file["matrix"].attrs["binsparse"] = json.dumps(dict(binsparse=described))


def one(path, *names):
    with objects.opened(path) as file:
        assert len({h5py.h5o.get_info(file[name].id).addr for name in names}) == 1


def listed(path):
    lists = dict(fs_strategy="fsm", fs_persist=True, fs_threshold=1)
    with h5py.File(path, "w", **lists) as file:
        words = [f"v{n}" for n in range(50)]
        file.create_dataset("t", data=words, dtype=h5py.string_dtype(), chunks=(8,), maxshape=(None,))
        big = file.create_dataset("big", (300, 1024), "<i4", chunks=(1, 1024))
        big[:] = np.arange(1, 301)[:, None]
        file.create_dataset("filler", data=np.zeros(20000, "<i4"))
        free, chunk = file["filler"].id.get_offset() + 4096, big.id.get_chunk_info(7)
        at, size = chunk.byte_offset, chunk.size
    with h5py.File(path, "r+") as file:
        del file["filler"]
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        content[free:free + size] = content[at:at + size]
        content = content.replace(at.to_bytes(8, "little"), free.to_bytes(8, "little"))
        file.seek(0)
        file.write(content)
    big_rows(path)


def big_rows(path):
    with h5py.File(path, "r") as file:
        assert (file["big"][()] == np.arange(1, 301)[:, None]).all()


def inside(path, where):
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("rows", data=np.arange(64, dtype="<i4"), chunks=(16,))
        beside = file.create_dataset("beside", data=np.arange(100, 164, dtype="<i4"), chunks=(16,))
        beside.attrs["unit"] = "metre" * 20
        place = dict(header=h5py.h5o.get_info(beside.id).addr, chunk=beside.id.get_chunk_info(2).byte_offset,
                     first=rows.id.get_chunk_info(0).byte_offset)
        second = rows.id.get_chunk_info(1).byte_offset
    with open(path, "r+b") as file:
        content = file.read()
        address = second.to_bytes(8, "little")
        assert content.count(address) == 1
        file.seek(0)
        file.write(content.replace(address, place[where].to_bytes(8, "little")))
    beside_is_whole(path)


def beside_is_whole(path):
    with h5py.File(path, "r") as file:
        beside = file["beside"]
        assert (beside[()] == np.arange(100, 164)).all() and beside.attrs["unit"] == "metre" * 20


def filled(path):
    with h5py.File(path, "w") as file:
        form = dict(dtype=h5py.string_dtype(), chunks=(4,), maxshape=(None,))
        file.create_dataset("t", (6,), fillvalue="NA", **form)[1] = "one"
        file.create_dataset("empty", (6,), fillvalue="", **form)[1] = "one"


def composed(path):
    with h5py.File(path, "w") as file:
        text = h5py.string_dtype()
        file.create_dataset("t", (6,), dtype=text, chunks=(4,), fillvalue="NA")[1] = "one"
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((6,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.py_create(text, logical=True), space, compact)
        for name, of, fill in [("alike", "t", "NA"), ("other", "t", "-"), ("within", "compact", "")]:
            virtual = h5p.create(h5p.DATASET_CREATE)
            whole, there = h5s.create_simple((8,)), h5s.create_simple((6,))
            whole.select_hyperslab((0,), (6,))
            virtual.set_virtual(whole, b".", of.encode(), there)
            virtual.set_fill_value(np.array(fill, text))
            h5py.h5d.create(file.id, name.encode(), h5t.py_create(text, logical=True), h5s.create_simple((8,)), virtual)


def edges(path):
    with h5py.File(path, "w", libver="latest") as file:
        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_chunk((10,))
        properties.set_deflate(1)
        elements.done(elements.LIB.H5Pset_chunk_opts(properties.id, 2))
        space = h5s.create_simple((25,), (h5s.UNLIMITED,))
        rows = h5py.h5d.create(file.id, b"rows", h5t.STD_I32LE, space, properties)
        h5py.Dataset(rows)[:] = np.arange(25)


def notes(path):
    with h5py.File(path, "r+") as file:
        file["g/deep/notes"] = np.array([1, 2], "<i4")
        file["late/rows"] = np.array([1, 2], "<i4")


def large(path):
    with h5py.File(path, "w") as file:
        file["fixed"] = np.array([1, 2, 3], "<i4")
        file["large"] = np.zeros(20 << 20, "<i4")


def behind(path):
    make(path)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(BLOCK + content)


def user_block(path, size):
    with h5py.File(path, "w", userblock_size=int(size)) as file:
        chunks = dict(maxshape=(None,), chunks=(1 << 16,), compression="gzip", compression_opts=1)
        file.create_dataset("noise", data=np.arange(1 << 18, dtype="u4").view("u1"), **chunks)
        file["beside"] = np.arange(1000)


def lengthen(path):
    with h5py.File(path, "r+") as file:
        file["theirs"] = np.arange(100_000, dtype="<i4")
        file["beside"][:] = np.arange(1000)[::-1]


def lengthened(path):
    with objects.opened(path) as file:
        assert (file["theirs"][:] == np.arange(100_000)).all()
        assert (file["beside"][:] == np.arange(1000)[::-1]).all()
        assert (file["noise"][:1 << 20] == np.arange(1 << 18, dtype="u4").view("u1")).all()


BLOCK = b"what another program has here\n".ljust(2048, b".")


def block(path):
    with open(path, "rb") as file:
        assert file.read(len(BLOCK)) == BLOCK, path


def marked(path):
    file = h5py.File(path, "w", libver="latest")
    put(file)
    file.close()
    file = h5py.File(path, "r+", libver="latest")
    file.flush()
    os._exit(0)


def mark(path):
    file = h5py.File(path, "r+", libver="latest")
    file.flush()
    os._exit(0)


def compounds(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["plain"] = np.zeros(3, [("n", "<i4"), ("x", "<f8")])
        number = ("n", "<i4")
        within = dict(reference=h5py.ref_dtype, region=h5py.regionref_dtype, text=h5py.string_dtype(), list=h5py.vlen_dtype("<i4"))
        for name, kind in within.items():
            file.create_dataset(name, (3,), [number, (name, kind)])
            file.create_dataset(f"deep_{name}", (3,), [number, ("inner", [number, (name, kind)])])
        file["reference"][0] = (1, file["plain"].ref)


def lzf(path):
    with h5py.File(path, "w", libver="latest") as file:
        for name in "ab":
            file.create_dataset(name, data=[5, 5, 5, 5], dtype="<i4", chunks=(2,), maxshape=(None,), compression="lzf")


ODD_NAMES = [b"caf\xe9", b"caf\xea", b"caf\xef\xbf\xbd", b"caf%E9", b"m/s", b"100%", b"~", b"a~1", b"tab\t", b"\xff", "größe".encode(), b"."]


def odd_names(path):
    with h5py.File(path, "w") as file:
        for name, of in [(b"d", h5t.STD_I32LE), (b"c", odd_compound()), (b"e", odd_enumeration())]:
            dataset = h5py.h5d.create(file.id, name, of, h5s.create_simple((3,)))
            elements.write(dataset, np.zeros((3, of.get_size()), "u1"))
            put_odd_attributes(dataset)
        put_odd_attributes(file.id)
        put_odd_attributes(h5py.h5g.create(file.id, b"g\xe9"))
        file["d"].dims[0].label = "m/s"
        h5py.h5ds.set_label(file["c"].id, 0, b"caf\xe9")
        file["plane"] = np.zeros((2, 3, 4))
        for number, label in enumerate([b"caf\xe9", b"caf\xea"]):
            h5py.h5ds.set_label(file["plane"].id, number, label)
        for number, name in enumerate(ODD_NAMES):
            file.id.links.create_soft(b"soft%d" % number, b"/nowhere/" + name)


def put_odd_attributes(of):
    for number, name in enumerate(ODD_NAMES):
        attribute = h5py.h5a.create(of, name, h5t.STD_I64LE, h5s.create(h5s.SCALAR))
        attribute.write(np.array(number, "<i8"))
    for name, kind in [(b"compound\xe9", odd_compound()), (b"enumeration\xe9", odd_enumeration())]:
        attribute = h5py.h5a.create(of, name, kind, h5s.create(h5s.SCALAR))
        raw = np.zeros(kind.get_size(), "u1")
        raw[::4] = 1
        elements.done(elements.LIB.H5Awrite(attribute.id, kind.id, raw.ctypes.data))


def odd_compound():
    kind = h5t.create(h5t.COMPOUND, 4 * len(ODD_NAMES))
    for number, name in enumerate(ODD_NAMES):
        kind.insert(name, 4 * number, h5t.STD_I32LE)
    return kind


def odd_enumeration():
    kind = h5t.enum_create(h5t.STD_I32LE)
    for number, name in enumerate(ODD_NAMES):
        kind.enum_insert(name, number)
    return kind


def same_names(path, other):
    found = []
    for one in path, other:
        with objects.opened(one) as file:
            told = {}
            objects_of = [(name, h5py.h5o.open(file.id, name)) for name in [b".", b"d", b"c", b"e", b"g\xe9"]]
            for name, of in objects_of:
                attributes = {}
                for number in range(h5py.h5a.get_num_attrs(of)):
                    attribute = h5py.h5a.open(of, index=number)
                    kind, raw = attribute.get_type(), np.zeros(max(attribute.get_storage_size(), 64), "u1")
                    elements.done(elements.LIB.H5Aread(attribute.id, kind.id, raw.ctypes.data))
                    attributes[attribute.name] = kind.encode(), None if kind.get_class() == h5t.STRING else raw.tobytes()
                kind = of.get_type().encode() if isinstance(of, h5py.h5d.DatasetID) else None
                told[name] = kind, attributes
            links = {name: file.id.links.get_val(name) for name in file.id if name.startswith(b"soft")}
            labels = [h5py.h5ds.get_label(file[name].id, number) for name, number in [("d", 0), ("c", 0), ("plane", 0), ("plane", 1), ("plane", 2)]]
            found.append((told, links, labels))
    assert len(found[0][0][b"d"][1]) == len(ODD_NAMES) + 3, found[0][0][b"d"][1].keys()
    (one, links, labels), (other, other_links, other_labels) = found
    assert (links, labels) == (other_links, other_labels), (links, other_links, labels, other_labels)
    for name, (kind, attributes) in one.items():
        assert kind == other[name][0], f"{name}: {kind} {other[name][0]}"
        others = other[name][1]
        differ = [one for one in attributes.keys() | others.keys() if attributes.get(one) != others.get(one)]
        assert not differ, f"{name}: {differ}"


def twice(path):
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk((16, 16))
    properties.set_shuffle()
    properties.set_shuffle()
    properties.set_deflate(4)
    with h5py.File(path, "w") as file:
        rows = h5py.h5d.create(file.id, b"rows", h5t.STD_I32LE, h5s.create_simple((40, 30)), properties)
        h5py.Dataset(rows)[:] = np.arange(1200).reshape(40, 30)


def unwritten(path, count, fill):
    with h5py.File(path, "w") as file:
        file["beside"] = np.arange(1000)
        for name in ["never", "also"]:
            file.create_dataset(name, (int(count),), "<i4", fillvalue=int(fill) if fill != "none" else None)


def hollow(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("hollow", (2 << 20,), "<i4")[-1] = 1


def unwritten_in_room(path):
    with h5py.File(path, "w", fs_strategy="fsm", fs_persist=True, fs_threshold=1) as file:
        file["gone"] = np.full(50_000, -1, "<i4")
        file["beside"] = np.arange(1000)
        file.create_dataset("never", (20_000,), "<i4")
    with h5py.File(path, "r+") as file:
        del file["gone"]


def zeros_but(path, number):
    with objects.opened(path) as file:
        assert np.flatnonzero(file["never"][:]).tolist() == [int(number)]


def one_by_one(path, name, *numbers):
    with objects.opened(path) as file:
        assert (file["beside"][:] == np.arange(1000)).all()
        print(*(file[name][int(number)] for number in numbers))


def wide(path):
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("wide", (20_000_000,), "u1", chunks=(1,), maxshape=(None,))
        file.create_dataset("plane", (4_000_000, 4), "u1", chunks=(1, 1), maxshape=(None, 4))


def in_chunks(path, chunks):
    with h5py.File(path, "w", libver="latest") as file:
        count = 8 << 20
        file.create_dataset("numbers", (count,), "<u8", chunks=(count // int(chunks),), compression="gzip", compression_opts=1)


def long(path):
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("numbers", data=np.zeros(20_000, "<u8"), chunks=(1000,), compression="gzip")
        file["beside"] = np.arange(1000)


def whole(path):
    with objects.opened(path) as file:
        assert (file["numbers"][:] == file["numbers"][0]).all()
        assert (file["beside"][:] == np.arange(1000)).all()


def netcdf(path):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("one", "i4", ("t", "x"), fill_value=-1, compression="zlib")[:] = np.arange(1, 7).reshape(2, 3)
        file.createVariable("other", "i2", ("t",))[:] = [10, 20]


def records(path):
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        told = {name: variable[...].tolist() for name, variable in file.variables.items()}
        told["t"] = len(file.dimensions["t"])
    with objects.opened(path) as file:
        told["own"] = "_NCProperties" in file.attrs
    print(json.dumps(told))


def not_coordinates(path):
    """Variables that are called like dimensions along which they do not run."""
    with netCDF4.Dataset(path, "w") as file:
        for group in (file, file.createGroup("g")):
            group.createDimension("lat", 3)
            group.createDimension("x", 2)
            group.createVariable("lat", "i4", ())[...] = 7
            group.createVariable("x", "f8", ("lat",))[:] = [1, 2, 3]
            group.createVariable("v", "f8", ("x", "lat"))[:] = np.arange(6).reshape(2, 3)
            group["x"].units = "km"
        file.createDimension("t", 4)
        file.createVariable("t", "i2", ("t",))[:] = range(4)


def same_variables(path, other):
    with netCDF4.Dataset(path) as one, netCDF4.Dataset(other) as two:
        for one, two in ((one, two), (one["g"], two["g"])):
            assert {name: len(of) for name, of in one.dimensions.items()} == {name: len(of) for name, of in two.dimensions.items()}
            assert set(one.variables) == set(two.variables) >= {"lat", "x", "v"}, (set(one.variables), set(two.variables))
            for name, variable in one.variables.items():
                found = two[name]
                assert variable.dimensions == found.dimensions and variable.dtype == found.dtype, name
                assert variable.__dict__ == found.__dict__ and np.array_equal(variable[...], found[...]), name


def shown(path, name):
    with objects.opened(path) as file:
        dataset = file[name].id
        print(list(dataset.shape), flush=True)
        os.write(1, elements.to_shown(dataset.get_type(), elements.read(dataset)).tobytes())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
