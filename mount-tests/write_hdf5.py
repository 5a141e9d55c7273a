#!/usr/bin/env python3
"""Writes HDF5 files with known content for the tests in hdf5.rs, how_stored.rs, not_shown.rs, worker.rs,
memory.rs and cli.rs.

    write_hdf5.py KIND DIRECTORY [NUMBER]    what KIND says (a function below) into DIRECTORY

The tests compute the content themselves: an array of n elements counts from NUMBER (0) on, if nothing else
is said.
"""
import ctypes
import json
import pathlib
import struct
import sys
import zlib

import h5py
import numpy as np


def count(*shape, dtype="<i4", start=0):
    return np.arange(start, start + int(np.prod(shape))).astype(dtype).reshape(shape)


def small(directory, start):
    """One dataset of 1000 numbers."""
    with h5py.File(directory / "small.h5", "w") as file:
        file["numbers"] = count(1000, start=start)


def two(directory, start):
    """Two files like that."""
    for name in ["one", "two"]:
        with h5py.File(directory / f"{name}.h5", "w") as file:
            file["numbers"] = count(1000, start=start)


ODD = ["..", "with space", "größe 🦀", "100%", "tilde~", "new\nline", "-rf *?", ".hidden", b"\xff\xfe"]


def groups(directory, _):
    """Nested and empty groups, groups and datasets of odd names, names that are reserved."""
    with h5py.File(directory / "groups.h5", "w") as file:
        file["a/b/c/deep"] = count(10)
        file["a/beside"] = count(5)
        file.create_group("a/empty")
        for name in [*ODD, "n" * 300, "views", "arrays.json", "error.txt"]:
            key = name if isinstance(name, bytes) else name.encode()
            h5py.h5g.create(file.id, b"g" + key if key == b".." else key)
        odd = file.create_group("odd")
        for number, name in enumerate(ODD):
            key = name if isinstance(name, bytes) else name.encode()
            if key != b"..":
                odd.create_dataset(key, data=count(3, start=number))
        odd.create_dataset("views", data=count(3, start=100))


def attributes(directory, _):
    """Attributes of the file, a group and a dataset."""
    with h5py.File(directory / "attributes.h5", "w") as file:
        file["group/numbers"] = count(10)
        file.attrs["title"] = "größe"
        file.attrs["count"] = 42
        file.attrs["ratio"] = 2.5
        file.attrs["list"] = np.array([1, 2, 3], ">i2")
        file.attrs["words"] = ["one", "two"]
        file.attrs["good"] = True
        file["group"].attrs["kind"] = np.bytes_(b"fixed")
        file["group/numbers"].attrs["unit"] = "m"


def links(directory, _):
    """Hard and soft links to groups and datasets, and cycles of both."""
    with h5py.File(directory / "links.h5", "w") as file:
        file["a/b/numbers"] = count(10)
        file["z/hard-group"] = file["a/b"]
        file["z/soft-group"] = h5py.SoftLink("/a/b")
        file["z/through"] = h5py.SoftLink("/z/soft-group/numbers")
        file["z/hard"] = file["a/b/numbers"]
        file["z/soft"] = h5py.SoftLink("/a/b/numbers")
        file["a/b/root"] = file["/"]
        file["a/b/up"] = h5py.SoftLink("/a")
        file["a/self"] = file["a"]
        file["z/loop"] = h5py.SoftLink("/z/pool")
        file["z/pool"] = h5py.SoftLink("/z/loop")
        file["z/nowhere"] = h5py.SoftLink("/no/such")


def outside(directory, _):
    """Everything that leads to files in DIRECTORY/outside, and one sound dataset."""
    elsewhere = directory.parent / "outside"
    elsewhere.mkdir()
    with h5py.File(elsewhere / "secret.h5", "w") as file:
        file["numbers"] = count(100)
    (elsewhere / "secret.bin").write_bytes(bytes(range(100)))
    secret, raw = str(elsewhere / "secret.h5"), str(elsewhere / "secret.bin")
    with h5py.File(directory / "outside.h5", "w") as file:
        file["sound"] = count(10)
        file["group/sound"] = count(10)
        file["external-dataset"] = h5py.ExternalLink(secret, "/numbers")
        file["external-file"] = h5py.ExternalLink("../outside/secret.h5", "/")
        file["group/external"] = h5py.ExternalLink(secret, "/numbers")
        file.create_dataset("raw", (100,), "u1", external=[(raw, 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout((100,), "<i4")
        layout[:] = h5py.VirtualSource(secret, "numbers", (100,))
        file.create_virtual_dataset("virtual", layout)


def whole(directory, _):
    """whole.h5: one sound dataset and some that cannot be shown, among them one with zfp's filter number; with
    needs.h5, whose Binsparse group lacks its values in the same way, and iso.h5, whose one value is a scalar."""
    with h5py.File(directory / "whole.h5", "w") as file:
        file["sound"] = count(10)
        file["group/references"] = np.array([file["sound"].ref], h5py.ref_dtype)
        file["link"] = h5py.ExternalLink("other.h5", "/x")
        file.create_dataset("raw", (100,), "u1", external=[("other.raw", 0, h5py.h5f.UNLIMITED)])
        file.create_dataset("filtered", data=count(100), chunks=(10,), compression="gzip")
    # The message of a filter, in files of the oldest version: number, length of its name, flags, values, name.
    gzip, zfp = (struct.pack("<4H8s", number, 8, 1, 1, b"deflate") for number in (1, 32013))
    stored = (directory / "whole.h5").read_bytes()
    assert stored.count(gzip) == 1
    (directory / "whole.h5").write_bytes(stored.replace(gzip, zfp))
    for name, values in (("needs", "float32"), ("iso", "iso[float32]")):
        with h5py.File(directory / f"{name}.h5", "w") as file:
            file["indices_0"] = count(4, dtype="<u4")
            if name == "needs":
                file.create_dataset("values", (4,), "<f4", external=[("other.raw", 0, 16)])
            else:
                file["values"] = np.float32(1)
            types = {"values": values, "indices_0": "uint32"}
            described = dict(version="0.1", format="CVEC", shape=[9], number_of_stored_values=4, data_types=types)
            file.attrs["binsparse"] = json.dumps({"binsparse": described})


def committed(directory, _):
    """committed.h5: datatypes that have names, and an array of one."""
    with h5py.File(directory / "committed.h5", "w") as file:
        file["number"] = np.dtype("<i4")
        file["number"].attrs["unit"] = "m"
        file["again"] = file["number"]
        file["group/pair"] = np.dtype([("a", "<i2"), ("b", ">f8")])
        file["group/triple"] = np.dtype(("<f4", (3,)))
        file["text"] = h5py.string_dtype()
        file["lists"] = h5py.vlen_dtype("<i4")
        file.create_dataset("of", data=7, dtype=file["number"])


def odd(directory, _):
    """odd.h5: whole things that are not shown, each with an attribute where it can have one; skipped.h5: a filter
    without a decoder that chunks skip, all of them or but for one; lacking.h5: BPCells groups without an array."""
    with h5py.File(directory / "odd.h5", "w", libver="latest") as file:
        lists = np.empty(2, object)
        lists[:] = [count(2), count(3)]
        file.create_dataset("lists", data=lists, dtype=h5py.vlen_dtype("<i4"))
        file["references"] = np.array([file["lists"].ref], h5py.ref_dtype)
        file["nowhere"] = h5py.SoftLink("/no/such")
        file["n" * 70_000] = count(3)
        file["n" * 70_001] = count(3)
        for name in ["lists", "references"]:
            file[name].attrs["unit"] = "m"
        file["rows"] = h5py.ExternalLink("other.h5", "rows")
        file["part-0"] = count(2, 5)
        file["part-1"] = h5py.ExternalLink("other.h5", "rows")
        file["virtual"] = count(1)
        file["view"] = h5py.SoftLink("endless-view")
        space = h5py.h5s.create_simple((2, 5), (h5py.h5s.UNLIMITED, 5))

        def virtual(name, source, block):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), block, block)
            there = h5py.h5s.create_simple((2, 5), (h5py.h5s.UNLIMITED, 5))
            if source != b"part-%b":
                there.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), block, block)
            properties.set_virtual(space, b".", source, there)
            made = h5py.h5d.create(file.id, name, h5py.h5t.STD_I32LE, h5py.h5s.create_simple(
                (2, 5), (h5py.h5s.UNLIMITED, 5)), properties)
            h5py.Dataset(made).attrs["unit"] = "m"

        virtual(b"endless", b"rows", (1, 5))
        virtual(b"numbered", b"part-%b", (2, 5))
        virtual(b"endless-view", b"endless", (1, 5))
    with h5py.File(directory / "skipped.h5", "w", libver="latest") as file:
        for name, masks in (("all", [2, 2]), ("one", [2, 0]), ("many", [2] * 400), ("many-one", [2] * 399 + [0])):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((5000,))
            properties.set_filter(h5py.h5z.FILTER_DEFLATE, 0, (1,))
            properties.set_filter(32013, h5py.h5z.FLAG_OPTIONAL, ())
            made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32LE,
                                   h5py.h5s.create_simple((5000 * len(masks),)), properties)
            for number, mask in enumerate(masks):
                stored = zlib.compress(count(5000, start=5000 * number).tobytes(), 1)
                made.write_direct_chunk((5000 * number,), stored, mask)
        assert (file["all"][:] == count(10_000)).all()
    with h5py.File(directory / "lacking.h5", "w") as file:
        for name in ["external", "dangling", "group", "missing"]:
            group = file.create_group(name)
            group.attrs["version"] = "unpacked-uint-matrix-v2"
            group["idxptr"], group["index"] = np.array([0, 2], "<u8"), np.array([0, 1], "<u4")
            group["shape"], group["storage_order"] = np.array([3, 1], "<u4"), np.array(["col"], h5py.string_dtype())
            group["row_names"], group["col_names"] = np.array([], "S1"), np.array([], "S1")
        file["external/val"] = h5py.ExternalLink("other.h5", "/val")
        file["dangling/val"] = h5py.SoftLink("/no/such")
        file.create_group("group/val")


def whole_strings(directory, _):
    """whole_strings.h5: strings of variable length that are shown, and three datasets of them that cannot be;
    with a view of one of those."""
    text = h5py.string_dtype()
    with h5py.File(directory / "whole_strings.h5", "w", libver="latest") as file:
        file["sound"] = np.array(["a", "b"], text)
        stored = h5py.h5t.py_create(text, logical=True)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2,))
        properties.set_filter(500, h5py.h5z.FLAG_OPTIONAL, ())
        filtered = h5py.h5d.create(file.id, b"filtered", stored, h5py.h5s.create_simple((2,)), properties)
        filtered.write_direct_chunk((0,), bytes(32), 0)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_external(b"other.raw", 0, 160)
        h5py.h5d.create(file.id, b"raw", stored, h5py.h5s.create_simple((10,)), properties)
        for name, source in (("virtual", "other.h5"), ("view", ".")):
            layout = h5py.VirtualLayout((2,), text)
            layout[:] = h5py.VirtualSource(source, "filtered", (2,), text)
            file.create_virtual_dataset(name, layout)


class CacheImageConfig(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("is_made", ctypes.c_bool), ("is_resize_kept", ctypes.c_bool), ("age", ctypes.c_int)]


def cache_image(directory, _):
    """cache_image.h5: strings of variable length on heaps that lie in a metadata cache image, behind a user block.
    h5py has no name for that call of its library."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "h5py" in line and "/libhdf5" in line and "_hl" not in line)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    wanted = CacheImageConfig(1, True, False, -1)
    assert ctypes.CDLL(path).H5Pset_mdc_image_config(ctypes.c_int64(access.id), ctypes.byref(wanted)) >= 0
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_userblock(1024)
    name = str(directory / "cache_image.h5").encode()
    with h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_TRUNC, fcpl=creation, fapl=access)) as file:
        file["words"] = np.array(["one", "größe", "", "four"], h5py.string_dtype())
        file.create_dataset("chunked", data=[f"x{i}" for i in range(3000)], chunks=(100,), compression="gzip")
        file["number"] = count(3)


def too_large(directory, _):
    """too_large.h5: datasets of more bytes than any file can have, and one of larger chunks than can be decoded; of
    none is anything stored."""
    with h5py.File(directory / "too_large.h5", "w", libver="latest") as file:
        file["small"] = count(3, dtype="<i4")
        file.create_dataset("big", (2**40, 2**20), "<f8")
        file.create_dataset("chunks", (2**33,), "<i1", chunks=(2**33,))
        file.create_dataset("texts", (2**39, 2**20), h5py.string_dtype())


def types(directory, _):
    """A dataset of each kind of type; all of 6 elements, if nothing else is said."""
    with h5py.File(directory / "types.h5", "w") as file:
        for order, end in (("<", "little"), (">", "big")):
            for kind in "i2 i4 i8 u2 u4 u8 f4 f8 c8 c16".split():
                file[f"{end}/{kind}"] = count(6, dtype=order + kind)
        file["bool"] = count(6) % 2 == 1
        file["cube"] = count(3, 4, 5)
        file["scalar"] = np.float64(2.5)
        file["nothing"] = h5py.Empty("<i4")
        file["zero"] = np.zeros((0, 7), "<f4")
        color = h5py.enum_dtype({"red": 0, "green": 300}, "<u2")
        file.create_dataset("enum", data=np.array([0, 300, 0], "<u2"), dtype=color)
        pair = np.dtype([("a", "<i2"), ("b", ">f8")])
        values = np.zeros(3, pair)
        values["a"], values["b"] = [1, 2, 3], [0.5, 1.5, 2.5]
        file["compound"] = values
        file["opaque"] = np.array([b"abc", b"def"], "V3")
        file["strings/fixed"] = np.array([b"one", b"three"], "S5")
        file["strings/variable"] = np.array(["one", "größe", "", "four"], h5py.string_dtype())
        file["strings/scalar"] = "alone"
        lists = np.empty(2, object)
        lists[:] = [count(2), count(3)]
        file.create_dataset("not/lists", data=lists, dtype=h5py.vlen_dtype("<i4"))
        file["not/references"] = np.array([file["bool"].ref, file["cube"].ref], h5py.ref_dtype)


def storage(directory, _):
    """Layouts, chunks that were never written, fill values; 100 x 70 numbers of two bytes."""
    with h5py.File(directory / "storage.h5", "w", libver="latest") as file:
        plain = count(100, 70, dtype="<u2")
        file.create_dataset("contiguous", data=plain)
        chunks = dict(chunks=(32, 17))
        file.create_dataset("chunked", data=plain, **chunks)
        file.create_dataset("gzip", data=plain, compression="gzip", shuffle=True, fletcher32=True, **chunks)
        file.create_dataset("lzf", data=plain, compression="lzf", **chunks)
        file.create_dataset("scale", data=plain, scaleoffset=0, **chunks)
        part = file.create_dataset("part", (100, 70), "<u2", fillvalue=7, maxshape=(None, None), **chunks)
        part[40:60, 30:40] = plain[40:60, 30:40]
        file.create_dataset("never", (100, 70), "<u2", fillvalue=9, **chunks)
        file.create_dataset("never-contiguous", (100, 70), "<u2", fillvalue=11)
        grown = file.create_dataset("grown", (50, 70), "<u2", maxshape=(None, 70), fillvalue=3, **chunks)
        grown[:] = plain[:50]
        grown.resize(100, 0)
        # An extensible array that grows along its last dimension, whole and with holes.
        file.create_dataset("wide", data=plain, maxshape=(100, None), **chunks)
        wide = file.create_dataset("wide-part", (100, 70), "<u2", maxshape=(100, None), fillvalue=5, compression="gzip", **chunks)
        wide[40:60, 30:40] = plain[40:60, 30:40]
        many = file.create_dataset("many", (30_000,), "<u4", chunks=(10,))
        many[:] = count(30_000, dtype="<u4")
    with h5py.File(directory / "behind.h5", "w", userblock_size=1024) as file:
        file.create_dataset("contiguous", data=plain)
        file.create_dataset("gzip", data=plain, compression="gzip", **chunks)
    with open(directory / "behind.h5", "r+b") as file:
        file.write(b"anything may stand here")


def short(directory, _):
    """Chunks of 1032 whose last one has 961 numbers alone, of 16 x 16 whose last ones have the rows that belong to the
    array; and a dataset of 60,000 numbers whose first chunk of 30,000 has 10,000. h5py reads the former."""
    def shuffled(data):
        return np.frombuffer(data, "u1").reshape(-1, 4).T.tobytes()

    def plain(data):
        return data

    ways = {"gzip": (dict(compression="gzip"), zlib.compress),
            "shuffle": (dict(shuffle=True), shuffled),
            "shuffle-gzip": (dict(shuffle=True, compression="gzip"), lambda data: zlib.compress(shuffled(data))),
            "none": ({}, plain)}
    with h5py.File(directory / "short.h5", "w") as file:
        for name, (storage, stored) in ways.items():
            line = file.create_dataset(name, (1993,), "<u4", chunks=(1032,), **storage)
            for start in [0, 1032]:
                numbers = count(1993, dtype="<u4")[start:start + 1032]
                line.id.write_direct_chunk((start,), stored(numbers.tobytes()))
            table = file.create_dataset(name + "-table", (50, 40), "<u4", chunks=(16, 16), **storage)
            for row in range(0, 50, 16):
                for column in range(0, 40, 16):
                    numbers = np.zeros((min(16, 50 - row), 16), "<u4")
                    inside = count(50, 40, dtype="<u4")[row:row + 16, column:column + 16]
                    numbers[:, :inside.shape[1]] = inside
                    table.id.write_direct_chunk((row, column), stored(numbers.tobytes()))
    with h5py.File(directory / "short.h5", "r") as file:
        for name in ways:
            assert (file[name][:] == count(1993)).all() and (file[name + "-table"][:] == count(50, 40)).all()
    for name in ["gzip", "none"]:
        storage, stored = ways[name]
        with h5py.File(directory / f"lacking-{name}.h5", "w") as file:
            numbers = count(60_000, dtype="<u4")
            lacking = file.create_dataset("numbers", (60_000,), "<u4", chunks=(30_000,), **storage)
            lacking.id.write_direct_chunk((0,), stored(numbers[:10_000].tobytes()))
            lacking.id.write_direct_chunk((30_000,), stored(numbers[30_000:].tobytes()))


def huge(directory, _):
    """1 GiB in chunks of 1 MiB, gzip 1: the runs of chunk k and of chunk k + 13 are the same."""
    elements = 1 << 18
    with h5py.File(directory / "huge.h5", "w", libver="latest") as file:
        data = file.create_dataset("x", (1024 * elements,), "<u4", chunks=(elements,), compression="gzip", compression_opts=1)
        runs = np.arange(elements, dtype="<u4") >> 10
        kinds = [zlib.compress((runs + kind * 1_000_003).astype("<u4").tobytes(), 1) for kind in range(13)]
        for chunk in range(1024):
            data.id.write_direct_chunk((chunk * elements,), kinds[chunk % 13])


def columns(directory, _):
    """4 Mi rows of 4 bytes in chunks of one column: byte n is the fourth byte of n times 2654435761."""
    with h5py.File(directory / "columns.h5", "w", libver="latest") as file:
        rows = 1 << 22
        data = (np.arange(4 * rows) * 2_654_435_761 >> 24).astype("u1").reshape(rows, 4)
        file.create_dataset("x", data=data, chunks=(rows // 4, 1), compression="gzip", compression_opts=1)


def nested(directory, _):
    """A Binsparse group within groups, a second way to it, and a dataset beside it."""
    with h5py.File(directory / "nested.h5", "w") as file:
        file["beside/numbers"] = count(10)
        matrix = file.create_group("outer/matrix")
        matrix["values"] = count(4, dtype="<f4", start=1)
        matrix["indices_1"] = np.array([0, 2, 1, 0], "<u4")
        matrix["pointers_to_1"] = np.array([0, 2, 3, 4], "<u8")
        types = {"values": "float32", "indices_1": "uint32", "pointers_to_1": "uint64"}
        described = dict(version="0.1", format="CSR", shape=[3, 3], number_of_stored_values=4, data_types=types)
        matrix.attrs["binsparse"] = json.dumps({"binsparse": described})
        file["way"] = h5py.SoftLink("/outer/matrix")


def many(directory, _):
    """10,000 datasets in 100 groups, each with its own number."""
    with h5py.File(directory / "many.h5", "w", libver="latest") as file:
        groups = [file.create_group(f"{number:03}") for number in range(100)]
        for number in range(10_000):
            groups[number % 100].create_dataset(f"{number:05}", data=np.uint32(number))


def versions(directory, _):
    """The same dataset with other content in 0.h5 to 9.h5: 50000 numbers, each the file's own."""
    for number in range(10):
        with h5py.File(directory / f"{number}.h5", "w") as file:
            gzip = dict(chunks=(3000,), compression="gzip", compression_opts=1) if number % 2 else {}
            file.create_dataset("same", data=np.full(50_000, number, "<u4"), **gzip)


def dialects(directory, _):
    """A DAPHNE file that both dialects read: no cells, 8 bytes for one, 4 for the other."""
    header = struct.pack("<BBQQB", 1, 1, 0, 4, 4)
    block = struct.pack("<QQIIBB", 0, 0, 0, 4, 1, 4)
    (directory / "none.dbdf").write_bytes(header + block)


def kinds(directory, _):
    """Attributes of every type, those of dimension scales and those that other objects name alike."""
    with h5py.File(directory / "kinds.h5", "w") as file:
        put = file.attrs
        put["integer"], put["unsigned"], put["big-endian"] = np.int8(-3), np.uint64(2**64 - 1), np.array(7, ">i4")
        put["half"], put["single"], put["double"] = np.float16(0.5), np.float32(0.1), np.array([np.nan, -np.inf])
        put["boolean"], put["list"], put["matrix"] = np.bool_(True), [1, 2, 3], np.arange(6).reshape(2, 3)
        put["complex"] = 1.5 + 2j
        put["text"], put["texts"], put["fixed"] = "größe", ["a", "bc"], np.array([b"x", b"yz"])
        put["empty"], put["null"] = np.zeros((0, 3)), h5py.Empty("<f4")
        put["compound"] = np.array((1, 2.5, b"abc"), [("a", "<i2"), ("b", ">f8"), ("c", "S3")])
        put["compounds"] = np.array([(1, [2, 3]), (4, [5, 6])], [("n", "u1"), ("list", "<i4", 2)])
        put.create("enumerated", 2, dtype=h5py.enum_dtype({"red": 1, "blue": 2}, "u1"))
        put["opaque"] = np.void(b"\x00\xff\x10")
        put.create("array", np.arange(6).reshape(2, 3), shape=(2, 3), dtype=np.dtype(("<i4", (3,))))
        ragged = np.empty(2, object)
        ragged[:] = [np.array([1, 2, 3], "<i4"), np.array([], "<i4")]
        put.create("ragged", ragged, dtype=h5py.vlen_dtype("<i4"))
        put.create("reference", file.ref, dtype=h5py.ref_dtype)
        for name, kind, values in [("bits", h5py.h5t.STD_B8LE, [1, 255]), ("wide bits", h5py.h5t.STD_B16BE, [1, 256])]:
            stored = np.array(values, "u1" if name == "bits" else ">u2")
            space = h5py.h5s.create_simple((2,))
            h5py.h5a.create(file.id, name.encode(), kind, space).write(stored, mtype=kind)
        file["table"] = count(3)
        file["table"].attrs["CLASS"], file["table"].attrs["NAME"] = "TABLE", "mine"
        file["scale"] = count(3)
        file["scale"].make_scale("mine")
        file["scale"].attrs["unit"] = "m"


def composed(directory, _):
    """Virtual datasets without end: over another file, and over numbered datasets of the same file."""
    with h5py.File(directory / "other.h5", "w", libver="latest") as file:
        file.create_dataset("rows", data=count(4, 10), maxshape=(None, 10))
    with h5py.File(directory / "composed.h5", "w", libver="latest") as file:
        for number in range(3):
            file[f"part-{number}%"] = count(2, 5, start=10 * number)
        file["single"] = count(4, 5, start=100)

        def virtual(name, source, here, shape, part, endless):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, shape[1]))
            space.select_hyperslab(*here)
            there = h5py.h5s.create_simple(part, (h5py.h5s.UNLIMITED, part[1]) if endless else part)
            if endless:
                there.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (1, part[1]), (1, 1))
            properties.set_virtual(space, *source, there)
            h5py.h5d.create(file.id, name, h5py.h5t.STD_I32LE, h5py.h5s.create_simple(
                shape, (h5py.h5s.UNLIMITED, shape[1])), properties)

        blocks = ((0, 0), (h5py.h5s.UNLIMITED, 1), (2, 1), (2, 5))
        virtual(b"numbered", (b".", b"part-%b%%"), blocks, (2, 5), (2, 5), False)
        rows = ((0, 0), (h5py.h5s.UNLIMITED, 1), (1, 10), (1, 1))
        virtual(b"elsewhere", (b"other.h5", b"rows"), rows, (4, 10), (4, 10), True)


def harmless(directory, _):
    """Damage that no reader needs to look at: free space, and chunks beyond the end of a dataset."""
    free = directory / "free.h5"
    with h5py.File(free, "w", fs_strategy="fsm", fs_persist=True, fs_threshold=1) as file:
        for number in range(20):
            file[f"{number:02}"] = count(100)
    with h5py.File(free, "r+") as file:
        for number in range(0, 20, 2):
            del file[f"{number:02}"]
    stored = bytearray(free.read_bytes())
    assert b"FSHD" in stored
    free.write_bytes(stored.replace(b"FSHD", b"FSHX"))
    shrunk = directory / "shrunk.h5"
    with h5py.File(shrunk, "w") as file:
        file.create_dataset("rows", data=count(4, 12), chunks=(2, 2), maxshape=(4, None))
    space = struct.pack("<QQQQ", 4, 12, 4, 2**64 - 1)
    stored = shrunk.read_bytes()
    assert stored.count(space) == 1
    shrunk.write_bytes(stored.replace(space, struct.pack("<QQQQ", 4, 6, 4, 2**64 - 1)))


def nothing(directory, _):
    """A dataset without space, an empty one, and a link whose name is too long."""
    with h5py.File(directory / "nothing.h5", "w", libver="latest") as file:
        file["null"] = h5py.Empty("<f8")
        file["empty"] = count(0)
        file["numbers"] = count(3)
        file["n" * 70_000] = count(3)


def how_stored(directory, _):
    """What `arrays.json` tells beside arrays: links, scales, labels, fill values, odd types, a user block."""
    from h5py import h5d, h5s, h5t
    with h5py.File(directory / "stored.h5", "w", libver="latest", userblock_size=512) as file:
        file["be"] = count(3, dtype=">i4")
        file.create_dataset("chunked", data=count(4, 6, dtype="<f8"), chunks=(2, 3), maxshape=(None, 6), compression="gzip",
                            compression_opts=4, shuffle=True, fletcher32=True, fillvalue=7.5)
        nan = np.frombuffer(bytes.fromhex("0100c07f"), "<f4")[0]
        file.create_dataset("nan", shape=(4,), dtype="<f4", fillvalue=nan)
        file.create_dataset("exact", shape=(4,), dtype="<f8", fillvalue=9.969209968386869e36)
        compound = np.dtype([("x", "<f8"), ("k", "<i2"), ("s", "S3"), ("a", ">i4", (2,)), ("100%", "u1")], align=True)
        file.create_dataset("compound", shape=(2,), dtype=compound, fillvalue=np.zeros((), compound))
        file.create_dataset("sequence", shape=(2,), dtype=h5py.vlen_dtype("i4"))
        file.create_dataset("text", data=["a", "bc"], dtype=h5py.string_dtype("ascii"))
        space, plist = h5s.create_simple((5,), (h5s.UNLIMITED,)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2,))
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5d.FILL_TIME_NEVER)
        odd = h5t.STD_I32BE.copy()
        odd.set_precision(17)
        odd.set_offset(3)
        odd.set_pad(h5t.PAD_ONE, h5t.PAD_BACKGROUND)
        h5d.create(file.id, b"odd", odd, space, plist)
        float17 = h5t.IEEE_F32LE.copy()
        float17.set_fields(20, 14, 6, 0, 14)
        float17.set_ebias(31)
        h5d.create(file.id, b"odd float", float17, h5s.create_simple((5,)))
        opaque = h5t.create(h5t.OPAQUE, 6)
        opaque.set_tag(b"six")
        h5d.create(file.id, b"opaque", opaque, h5s.create(h5s.SCALAR))
        file["type"] = np.dtype("<i2")
        file["type"].attrs["why"] = "it has a name"
        file.create_dataset("typed", shape=(3,), dtype=file["type"])
        group = file.create_group("g", track_order=True)
        group.attrs["one"], group.attrs["u1"] = 1, np.array([1], "u1")
        for name in ["z", "y", "x"]:
            group[name] = count(2)
        group["hard"], group["soft"] = file["be"], h5py.SoftLink("/chunked")
        file["dangling"], file["glink"] = h5py.SoftLink("/nope"), h5py.SoftLink("g")
        file["elsewhere"], file["ghard"] = h5py.ExternalLink("o.h5", "/x"), group
        for name, title in [("lat", "latitude"), ("lat2", "")]:
            file[name] = count(3, dtype="<f8")
            file[name].make_scale(title)
            file["be"].dims[0].attach_scale(file[name])
        file["chunked"].dims[1].label = "col"
        put = file.attrs
        put["text"], put["bytes"], put["five"], put["two"], put["i4"] = "text", b"bytes", 5, 2.0, np.int32(4)
        put["list"], put["texts"], put["true"], put["one"] = [1, 2], ["a", "b"], True, [9]
        put["nan"], put["infinite"], put["null"], put["none"] = float("nan"), float("inf"), h5py.Empty("i4"), np.zeros((0, 3))
        put["not text"], put["padded"] = np.bytes_(b"\xff\xfe"), np.array(b"ab", "S5")
        put["compound"], put["reference"] = np.zeros((), compound), file["be"].ref
        put.create("typed", np.int16(4), dtype=file["type"])
        put.create("exact", 9.969209968386869e36)


def dimensions(directory, _):
    """NetCDF-4 and the classic forms, with the same dimensions."""
    import netCDF4
    for name, form in [("four", "NETCDF4"), ("classic", "NETCDF3_64BIT_OFFSET"), ("eight", "NETCDF3_64BIT_DATA")]:
        with netCDF4.Dataset(directory / f"{name}.nc", "w", format=form) as file:
            for dimension, length in [("time", None), ("x", 3), ("alone", 2)]:
                file.createDimension(dimension, length)
            variable = file.createVariable("t2m", "f4", ("time", "x"), fill_value=-999.0)
            variable[0:4] = 1
            variable.units, variable.n, variable.l = "K", np.int16(3), np.array([1, 2], "i4")
            variable.nan = np.float32("nan")
            file.createVariable("time", "f8", ("time",))[:] = range(4)
            file.createVariable("w", "i2", ("x", "alone"))
            file.createVariable("ch", "S1", ("time", "x"))
            file.title = "hello"
            if form == "NETCDF4":
                group = file.createGroup("g")
                group.createDimension("y", 5)
                group.createVariable("q", "u8", ("y", "x"), compression="zlib")
                group.createVariable("y", "f4", ("y",))
                group.createVariable("text", str, ("y",))
                group.a = 1


def absurd(directory, _):
    """Types of many members and deep in each other, and more attributes than anybody has."""
    from h5py import h5d, h5s, h5t
    with h5py.File(directory / "absurd.h5", "w", libver="latest") as file:
        many = h5t.enum_create(h5t.STD_I32LE)
        for number in range(2000):
            many.enum_insert(f"m{number}".encode(), number)
        h5d.create(file.id, b"many", many, h5s.create_simple((2,)))
        deep = h5t.STD_I8LE
        for _ in range(60):
            deep = h5t.array_create(deep, (1,))
        h5d.create(file.id, b"deep", deep, h5s.create_simple((2,)))
        chunked = file.create_dataset("chunked", shape=(4,), chunks=(2,), dtype="<f4")
        for number in range(2000):
            chunked.attrs[f"attribute {number}"] = np.int16(number)
        file.attrs["long"] = np.zeros(100_000, "u1")


def shown(directory, _):
    """Values of every kind that people look at."""
    with h5py.File(directory / "shown.h5", "w") as file:
        file["text"] = ["x", "yy\x1b[2J", "zürich"]
        file["fixed"] = np.array([b"a", b"bcd"])
        file["many"] = [str(number) for number in range(5000)]
        names = h5py.enum_dtype({"low": 0, "high": 2}, basetype="i1")
        file.create_dataset("enum", data=np.array([0, 2, 9], "i1"), dtype=names)
        file["complex"] = np.array([1 + 2j, 3 - 4j])
        file["scalar"], file["empty"] = 3.5, np.zeros((0, 3))
        members = [("a", "<i4"), ("b", "<f8"), ("s", "S3")]
        file["compound"] = np.array([(1, 2.5, b"q"), (3, np.nan, b"rr")], members)
        file["wide"] = np.arange(10 * 200).reshape(10, 200)


if __name__ == "__main__":
    kind, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    globals()[kind](directory, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
