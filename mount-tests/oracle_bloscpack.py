"""Bloscpack files made, read and appended to by the real library, and NumPy as a writer of arrays.

    oracle_bloscpack.py make SEED DIRECTORY             files of every kind
    oracle_bloscpack.py judge BEFORE AFTER EXPECTED WAY files as they were and as they are, and bytes that they must hold
    oracle_bloscpack.py append PATH MORE                as `blpk append`
    oracle_bloscpack.py memmap MODE PATH FIRST COUNT    rising int64 numbers, written through a mapping
    oracle_bloscpack.py shape PATH                      the shape that NumPy gets, and the sum of all elements
    oracle_bloscpack.py array PATH RAW ...              dtype, shape and order that NumPy gets; its elements are these bytes
    oracle_bloscpack.py plain PATH RAW ...              as `blpk d`: what comes out are these bytes
"""
import collections
import collections.abc
import itertools
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np

# bloscpack 0.16 wants it where it was before Python 3.10.
collections.MutableMapping = collections.abc.MutableMapping

import bloscpack  # noqa: E402
from bloscpack.append import append  # noqa: E402
from bloscpack.args import BloscArgs, BloscpackArgs  # noqa: E402
from bloscpack.checksums import CHECKSUMS_LOOKUP  # noqa: E402
from bloscpack.exceptions import NotEnoughSpace  # noqa: E402
from bloscpack.file_io import _read_beginning  # noqa: E402

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
CHECKSUMS = ["None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]


def make(seed, directory):
    random = np.random.default_rng(int(seed))
    for number, (codec, shuffle) in enumerate(itertools.product(CODECS, range(3))):
        for turn, typesize in enumerate(random.choice([1, 2, 3, 4, 8, 16, 24, 255], 3)):
            name = f"{codec}-{shuffle}-{typesize}-{turn}.blp"
            make_bytes(random, directory / name, codec, shuffle, int(typesize), 3 * number + turn)
    shapes = [(1,), (1000,), (7, 30), (300, 5, 2), (2, 2, 2, 2), (40, 1)]
    for number, (shape, order) in enumerate(itertools.product(shapes, "CF")):
        make_array(random, directory / f"np-{number}-{order}.blp", shape, order, number)


def settings(number, typesize, level, shuffle, codec):
    offsets = number % 4 != 3
    bloscpack_args = BloscpackArgs(
        offsets=offsets, checksum=CHECKSUMS[number % 9], max_app_chunks=[300, 0, 7][number % 3] if offsets else 0
    )
    return {"blosc_args": BloscArgs(typesize, level, shuffle, codec), "bloscpack_args": bloscpack_args}


def make_bytes(random, path, codec, shuffle, typesize, number):
    count = int(random.integers(1, [200, 5000, 300_000][number % 3]))
    kind = random.integers(3)
    plain = random.bytes(count)
    if kind:
        plain = np.cumsum(random.integers(0, 9, count // 8 + 1)).astype(["<i8", "<f8"][kind - 1]).tobytes()[:count]
    chunk = max(1, [count // 40, count // 3, 2 * count][number % 3])
    metadata = {"unit": "µm", "number": number, "shape": "none"} if number % 2 else None
    level = int(random.integers(0, 10))
    args = settings(number, typesize, level, shuffle, codec)
    bloscpack.pack_bytes_to_file(plain, str(path), chunk_size=chunk, metadata=metadata, **args)


def make_array(random, path, shape, order, number):
    dtype = np.dtype(["<i2", "<f8", ">f4", "|u1", "<c16", "|b1"][number % 6])
    values = np.zeros(shape, dtype)
    values.view("u1")[...] = random.integers(0, 2, values.view("u1").shape)
    if order == "F":
        values = np.asfortranarray(values)
    args = settings(number, dtype.itemsize, 1 + number % 9, number % 3, CODECS[number % 5])
    chunk = max(1, values.size // 5) * dtype.itemsize
    bloscpack.pack_ndarray_to_file(values, str(path), chunk_size=chunk, **args)


def chunk_headers(path):
    """Codec and filter bits, typesize, size and block size of every chunk."""
    with path.open("rb") as file:
        header, metadata, metadata_header, offsets = _read_beginning(file)
        digest = CHECKSUMS_LOOKUP[header.checksum].size
        for number in range(header.nchunks):
            at = offsets[number] if offsets and offsets[number] > 0 else file.tell()
            file.seek(at)
            raw = file.read(16)
            flags, typesize = raw[2], raw[3]
            nbytes, blocksize, ctbytes = (int.from_bytes(raw[i : i + 4], "little") for i in (4, 8, 12))
            file.seek(at + ctbytes + digest)
            yield {"flags": flags, "typesize": typesize, "nbytes": nbytes, "blocksize": blocksize}


def beginning(path):
    with path.open("rb") as file:
        return _read_beginning(file)


def read(path):
    plain, metadata = bloscpack.unpack_bytes_from_file(str(path))
    return plain


def reads_it(path):
    try:
        read(path)
        return True
    except Exception:
        return False


def faults(before, after, expected, way, shortest):
    if not reads_it(before):
        return
    if read(after) != expected:
        yield "the library reads other bytes"
    old, old_metadata, old_section, _ = beginning(before)
    new, new_metadata, new_section, offsets = beginning(after)
    for field in ("format_version", "offsets", "metadata", "checksum", "typesize"):
        if getattr(old, field) != getattr(new, field):
            yield f"{field}: {getattr(old, field)} became {getattr(new, field)}"
    # A file of one chunk has the chunk size of its length; when it grows it gets the usual one.
    if shortest > old.chunk_size and old.chunk_size != new.chunk_size:
        yield f"chunk size {old.chunk_size} became {new.chunk_size}"
    yield from metadata_faults(old_metadata, old_section, new_metadata, new_section)
    stayed = shortest // max(1, old.chunk_size)
    yield from chunk_faults(list(chunk_headers(before)), list(chunk_headers(after)), way, stayed)
    if old_metadata is not None and isinstance(old_metadata, dict) and old_metadata.get("container") == "numpy":
        yield from array_faults(before, after, expected)
    if offsets and min(offsets) > 0 and min(new.chunk_size, new.typesize) > 0:
        yield from append_faults(after, expected, new)


def metadata_faults(old, old_section, new, new_section):
    if isinstance(old, dict) and old.get("container") == "numpy":
        old, new = (json.dumps({**text, "shape": 0}) for text in (old, new))
    if json.dumps(old) != json.dumps(new):
        yield f"metadata {old} became {new}"
    if old_section:
        for field in ("magic_format", "meta_checksum"):
            if old_section[field] != new_section[field]:
                yield f"{field} of the metadata is {new_section[field]}"


def chunk_faults(old, new, way, stayed):
    """Of the first chunks each is like it was; those that were cut off meanwhile are like one or another."""
    for number, chunk in enumerate(new):
        likes = [old[min(number, len(old) - 1)]] if number < stayed else old
        if not any(is_like(like, chunk, way) for like in likes):
            yield f"chunk {number} is {chunk}, was {likes[0]}"


def is_like(like, chunk, way):
    if like["nbytes"] == 0 or chunk["nbytes"] == 0:
        return True
    if chunk["typesize"] != like["typesize"]:
        return False
    if (like["flags"] | chunk["flags"]) & 2:
        return True
    # In place a chunk that has outgrown its room is encoded at the highest level, which has larger blocks.
    if way != "commit=inplace" and chunk["nbytes"] == like["nbytes"] and chunk["blocksize"] != like["blocksize"]:
        return False
    return (chunk["flags"] ^ like["flags"]) & 0b11100101 == 0


def array_faults(before, after, expected):
    try:
        bloscpack.unpack_ndarray_from_file(str(before))
    except Exception:
        return
    values = bloscpack.unpack_ndarray_from_file(str(after))
    if values.tobytes("A") != expected:
        yield f"NumPy has other bytes, of shape {values.shape}"


def append_faults(after, expected, header):
    with tempfile.TemporaryDirectory() as directory:
        copy, more = pathlib.Path(directory) / "copy.blp", pathlib.Path(directory) / "more"
        shutil.copyfile(after, copy)
        more.write_bytes(bytes(range(100))[: max(1, header.chunk_size)])
        try:
            append(str(copy), str(more))
        except NotEnoughSpace:
            if header.max_app_chunks > 0:
                yield "has no space for a chunk"
            return
        if read(copy) != expected + more.read_bytes():
            yield "what the library has appended to is something else"


def judge(before, after, expected, way):
    failed = judged = 0
    for path in sorted(expected.iterdir()):
        was = before / path.name
        judged += reads_it(was)
        try:
            shortest = int((expected.parent / "shortest" / path.name).read_text())
            found = list(faults(was, after / path.name, path.read_bytes(), way, shortest))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        for fault in found[:3]:
            failed += 1
            print(f"{path.name}: {fault}")
    print(f"{judged} of {len(list(expected.iterdir()))} files")
    sys.exit(failed > 0 or judged < 40)


def memmap(mode, path, first, count):
    values = np.memmap(path, dtype="<i8", mode=mode, shape=(int(count),))
    values[:] = np.arange(int(first), int(first) + int(count))
    values.flush()


def shape(path):
    values = bloscpack.unpack_ndarray_from_file(path)
    print(json.dumps([values.shape, values.astype("f8").sum()]))


def array(path, raw):
    values = bloscpack.unpack_ndarray_from_file(path)
    order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
    assert values.tobytes(order) == pathlib.Path(raw).read_bytes(), path
    print(json.dumps([str(values.dtype), values.shape, order]))


def plain(path, raw):
    assert bloscpack.unpack_bytes_from_file(path)[0] == pathlib.Path(raw).read_bytes(), path


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "make":
        make(arguments[0], pathlib.Path(arguments[1]))
    elif command == "judge":
        judge(*map(pathlib.Path, arguments[:3]), arguments[3])
    elif command == "append":
        append(*arguments)
    elif command == "memmap":
        memmap(*arguments)
    elif command == "array":
        for path, raw in zip(arguments[::2], arguments[1::2]):
            array(path, raw)
    elif command == "plain":
        for path, raw in zip(arguments[::2], arguments[1::2]):
            plain(path, raw)
    else:
        shape(*arguments)


main()
