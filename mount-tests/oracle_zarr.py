"""The part of oracle.py that writes Zarr stores with zarr-python: random shapes, chunks, orders, codecs, shards
and fill values, of both versions, some written only in part."""
import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

DTYPES = "|b1 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 <f2 <f4 <f8 <c8 <c16 <M8[s] <m8[ms] |S3 <U4".split()


def write_zarr(random, source, expected, expect):
    for number in range(60):
        name = f"store-{number}.zarr"
        path = source / name
        if number % 3 == 0:
            name += ".zip"
            path = zarr.storage.ZipStore(str(source / name), mode="w")
        group = zarr.open_group(path, mode="w", zarr_format=2 + number % 2)
        for array in range(3):
            values = write_array(random, group, f"a{array}", 2 + number % 2)
            expect(expected, name, f"a{array}", np.array(values, order="C"))
        if number % 3 == 0:
            path.close()


def some_values(random, dtype, shape):
    dtype, count = np.dtype(dtype), int(np.prod(shape, dtype=int))
    if dtype.kind in "SU":
        words = np.array(["", "a", "ab", "xyz"], dtype)
        return words[random.integers(0, len(words), count)].reshape(shape)
    raw = np.frombuffer(random.bytes(count * dtype.itemsize), "u1")
    if random.integers(2):
        raw = raw // 64
    if dtype.kind == "b":
        raw = raw % 2
    return raw.view(dtype).reshape(shape)


def write_array(random, group, name, version):
    rank = int(random.integers(0, 5))
    shape = tuple(int(n) for n in random.integers(1, [60, 200, 24, 12, 7][rank], rank))
    chunks = tuple(int(n) for n in random.integers(1, 10, rank))
    values = some_values(random, random.choice(DTYPES), shape)
    options = (version_2 if version == 2 else version_3)(random, values, chunks)
    if values.dtype.kind in "iuf":
        options["fill_value"] = int(random.choice([0, 1, 7]))
    array = group.create_array(name, shape=shape, chunks=chunks, dtype=values.dtype, **options)
    part = tuple(slice(0, max(1, length // 2)) for length in shape)
    part = part if rank and not random.integers(4) else ...
    array[part] = values[part]
    # A value of no dimension loses its type on the way.
    return np.asarray(array[...], values.dtype)


def version_2(random, values, chunks):
    dtype, filters = values.dtype, []
    compressors = [None, numcodecs.GZip(1), numcodecs.Zlib(1), numcodecs.Zstd(1), numcodecs.LZ4(), numcodecs.BZ2(1)]
    compressors += [numcodecs.LZMA(preset=0), numcodecs.LZMA(format=2, preset=1)]
    for cname in ("lz4", "zstd", "zlib", "blosclz", "lz4hc"):
        compressors.append(numcodecs.Blosc(cname=cname, shuffle=int(random.integers(3))))
    if dtype.kind in "iu" and random.integers(2):
        stored = "<i8" if dtype.str != "<u8" and random.integers(2) else dtype.str
        filters.append(numcodecs.Delta(dtype=dtype.str, astype=stored))
    if dtype.kind == "b" and random.integers(2):
        filters.append(numcodecs.PackBits())
    if not random.integers(4):
        filters.append(random.choice([numcodecs.CRC32(), numcodecs.Adler32(), numcodecs.CRC32(location="end")]))
    return {
        "compressors": compressors[random.integers(len(compressors))],
        "filters": filters or None,
        "order": str(random.choice(["C", "F"])),
        "chunk_key_encoding": {"name": "v2", "separator": str(random.choice([".", "/"]))},
    }


def version_3(random, values, chunks):
    rank, filters = len(chunks), []
    compressors = [None, [GzipCodec(level=1), Crc32cCodec()], ZstdCodec(level=1, checksum=bool(random.integers(2)))]
    for shuffle in ("shuffle", "bitshuffle", "noshuffle"):
        compressors.append(BloscCodec(cname=str(random.choice(["lz4", "zstd"])), shuffle=shuffle))
    if rank > 1 and random.integers(2):
        filters.append(TransposeCodec(order=tuple(int(n) for n in random.permutation(rank))))
    options = {
        "compressors": compressors[random.integers(len(compressors))],
        "filters": filters or None,
        "chunk_key_encoding": {"name": "default", "separator": str(random.choice([".", "/"]))},
    }
    if values.dtype.kind in "iufc":
        options["serializer"] = BytesCodec(endian=str(random.choice(["little", "big"])))
    if rank and random.integers(2):
        options["shards"] = tuple(length * int(random.integers(1, 4)) for length in chunks)
    return options
