#!/usr/bin/env python3
"""Makes HDF5 and NetCDF-4 files with every type, layout, chunk index and filter, and other objects around them.

    corpus.py DIRECTORY SEED
"""
import pathlib
import sys
import warnings

import h5py
import hdf5plugin
import netCDF4
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t, h5z

import elements

V1_TREE, SINGLE, IMPLICIT, FIXED_ARRAY, EXTENSIBLE_ARRAY, V2_TREE = range(6)
DONT_FILTER_PARTIAL_CHUNKS = 2
SKIPPED = 0xFFFF_FFFF
# Elements of a chunk.
SZIP_LEAST = 16

# Of each file what h5py.File takes; those of "latest" have the newer chunk indices.
FILES = {
    "oldest.h5": dict(libver=("earliest", "v108")),
    "v108.h5": dict(libver=("v108", "v108")),
    "v110.h5": dict(libver=("v110", "v110")),
    "latest.h5": dict(libver="latest"),
    "behind.h5": dict(libver=("earliest", "v108"), userblock_size=512),
    "far-behind.h5": dict(libver="latest", userblock_size=4096),
    "paged.h5": dict(libver="latest", fs_strategy="page", fs_page_size=4096),
    "paged-persisted.h5": dict(libver="latest", fs_strategy="page", fs_persist=True, fs_page_size=4096),
    "persisted.h5": dict(libver="v110", fs_strategy="fsm", fs_persist=True, fs_threshold=1),
    "aggregate.h5": dict(libver="latest", fs_strategy="aggregate"),
    "at-the-end.h5": dict(libver="latest", fs_strategy="none"),
    "tracked.h5": dict(libver="latest", track_order=True),
    "short-addresses.h5": {},
}
NEW = [name for name, options in FILES.items() if options.get("libver") in ("latest", "v110", ("v110", "v110"))]

PLAIN = ["contiguous", "contiguous-part", "contiguous-never", "contiguous-early", "compact", "scalar"]
INDICES = {"single": SINGLE, "implicit": IMPLICIT, "fixed": FIXED_ARRAY, "extensible": EXTENSIBLE_ARRAY,
           "extensible-last": EXTENSIBLE_ARRAY, "tree": V2_TREE, "bounded": FIXED_ARRAY}


def plugin(made):
    options = dict(made)
    return lambda p: p.set_filter(options["compression"], h5z.FLAG_OPTIONAL, tuple(options.get("compression_opts", ())))


def in_turn(*steps):
    return lambda p: [step(p) for step in steps]


def shuffle(p):
    p.set_shuffle()


def checksum(p):
    p.set_fletcher32()


def gzip(level=6):
    return lambda p: p.set_deflate(level)


def nbit(p):
    elements.done(elements.LIB.H5Pset_nbit(p.id))


def lzf(p):
    p.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)


def with_values(number, *values):
    return lambda p: p.set_filter(number, h5z.FLAG_OPTIONAL, values)


scale = lambda p: p.set_scaleoffset(h5z.SO_INT, 0)

FILTERS = {
    "none": lambda p: None,
    "gzip": gzip(),
    "gzip-1": gzip(1),
    "shuffle": shuffle,
    "shuffle-gzip": in_turn(shuffle, gzip(4)),
    "shuffle-gzip-checksum": in_turn(shuffle, gzip(1), checksum),
    "checksum": checksum,
    "checksum-gzip": in_turn(checksum, gzip()),
    "lzf": lzf,
    "shuffle-lzf": in_turn(shuffle, lzf),
    "szip": lambda p: p.set_szip(h5z.SZIP_NN_OPTION_MASK, 8),
    "szip-entropy": lambda p: p.set_szip(h5z.SZIP_EC_OPTION_MASK, 16),
    "nbit": nbit,
    "nbit-gzip": in_turn(nbit, gzip()),
    "scale": scale,
    "scale-lossy": lambda p: p.set_scaleoffset(h5z.SO_FLOAT_DSCALE, 3),
    "lz4": plugin(hdf5plugin.LZ4()),
    "zstd": plugin(hdf5plugin.Zstd(clevel=3)),
    "shuffle-zstd": in_turn(shuffle, plugin(hdf5plugin.Zstd(clevel=1))),
    "bzip2": plugin(hdf5plugin.BZip2(blocksize=2)),
    "blosc2": plugin(hdf5plugin.Blosc2(cname="zstd", clevel=3, filters=1)),
    **{f"blosc-{name}-{bits}": plugin(hdf5plugin.Blosc(cname=name, clevel=4, shuffle=bits))
       for name, bits in (("blosclz", 1), ("lz4", 2), ("lz4hc", 0), ("zlib", 1), ("zstd", 2))},
    **{f"bitshuffle-{name}": plugin(hdf5plugin.Bitshuffle(cname=name)) for name in ("none", "lz4", "zstd")},
    # The library finds a filter by its number, and sets the values of the first: it skips the second. So it does with
    # values that it does not take.
    "shuffle-twice": in_turn(shuffle, shuffle),
    "shuffle-gzip-shuffle": in_turn(shuffle, gzip(), shuffle),
    "gzip-twice": in_turn(gzip(1), gzip(9)),
    "checksum-twice": in_turn(checksum, checksum),
    "scale-twice": in_turn(scale, scale),
    "zstd-twice": in_turn(*[plugin(hdf5plugin.Zstd(clevel=3))] * 2),
    "gzip-no-level": in_turn(shuffle, with_values(h5z.FILTER_DEFLATE)),
    "gzip-level-13": in_turn(shuffle, with_values(h5z.FILTER_DEFLATE, 13), checksum),
    "gzip-two-levels": in_turn(with_values(h5z.FILTER_DEFLATE, 4, 4), gzip()),
}


class Corpus:
    def __init__(self, random):
        self.random = random
        self.types = []

    def next_type(self, wanted=lambda name: True):
        """Each type in turn, as long as any will do."""
        if not self.types:
            self.types = list(elements.all_types().items())
            self.random.shuffle(self.types)
        found = next((n for n, (name, _) in enumerate(self.types) if wanted(name)), None)
        if found is None:
            kinds = elements.all_types()
            name = str(self.random.choice([name for name in kinds if wanted(name)]))
            return name, kinds[name]
        return self.types.pop(found)

    def shape(self, rank):
        most = [0, 900, 40, 12][rank]
        return tuple(int(n) for n in self.random.integers(max(most // 3, 2), most, rank))

    def chunk(self, shape):
        """At most some hundred of them, and those at the edge often in part."""
        least = [max(n // [0, 90, 12, 5][len(shape)], 1) for n in shape]
        return tuple(int(self.random.integers(low, max(n * 2 // 3, low) + 1)) for low, n in zip(least, shape))

    def plain(self, group, kind):
        name, stored = self.next_type()
        rank = 0 if kind == "scalar" else int(self.random.integers(1, 4))
        shape = self.shape(rank) if rank else ()
        if kind == "compact":
            shape = (int(self.random.integers(1, 200)),)
        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_layout(h5d.COMPACT if kind == "compact" else h5d.CONTIGUOUS)
        if kind == "contiguous-early":
            properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        self.fill(properties, stored)
        dataset = self.create(group, f"{kind}-{name}", stored, shape, shape, properties)
        if kind == "contiguous-part":
            self.put_part(dataset)
        elif kind != "contiguous-never":
            self.put(dataset)

    def chunked(self, group, index, filters, new):
        numbers = lambda t: t in "i8le u16be i32le u64le i64be i16le".split()
        wanted = {"scale": numbers, "scale-twice": numbers, "scale-lossy": lambda t: t in ("f32le", "f64be")}
        allowed = wanted.get(filters, lambda t: True)
        if filters.startswith("szip"):
            allowed = lambda t: t[0] in "iuf" and "of" not in t and t != "f16le"
        if filters.startswith("nbit"):
            allowed = lambda t: t not in ("short-float", "small-float") and not t.startswith("text")
        name, stored = self.next_type(allowed)
        rank = int(self.random.integers(2, 4)) if index in ("tree", "extensible-last") else int(self.random.integers(1, 4))
        shape, properties = self.shape(rank), h5p.create(h5p.DATASET_CREATE)
        chunk = shape if index == "single" else self.chunk(shape)
        while filters.startswith("szip") and np.prod(chunk) < SZIP_LEAST:
            chunk = tuple(min(c + 1, n) for c, n in zip(chunk, shape))
        properties.set_chunk(chunk)
        most = {"extensible": (None,) + shape[1:], "tree": (None, None) + shape[2:],
                "extensible-last": (shape[0] * 2,) + shape[1:-1] + (None,),
                "bounded": (shape[0] + int(self.random.integers(1, 99)),) + shape[1:]}.get(index, shape)
        if index == "implicit":
            properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            filters = "none"
        elif self.random.integers(6) == 0:
            properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            if filters == "none" and index in ("fixed", "bounded"):
                index = "implicit"
        FILTERS[filters](properties)
        partial_raw = new and filters != "none" and index != "single" and self.random.integers(4) == 0
        if partial_raw:
            elements.done(elements.LIB.H5Pset_chunk_opts(properties.id, DONT_FILTER_PARTIAL_CHUNKS))
        self.fill(properties, stored)
        dataset = self.create(group, f"{index}-{filters}-{name}", stored, shape, most, properties)
        kind = elements.index_of(dataset)
        assert kind == (INDICES[index] if new else V1_TREE), (group.file.filename, index, kind)
        # libhdf5 cannot give another extent to one that was never written and has such chunks.
        how = int(self.random.integers(5)) if not partial_raw else 2
        if how == 0:
            self.put_part(dataset)
        elif how > 1:
            self.put(dataset)
        # A chunk that stays as long as it is keeps its mask, whatever the library is told.
        if how == 2 and filters not in ("none", "shuffle", "shuffle-twice") and not partial_raw:
            self.skip_filters(dataset)

    def create(self, group, name, stored, shape, most, properties):
        space = h5s.create(h5s.SCALAR)
        if shape:
            space = h5s.create_simple(shape, tuple(h5s.UNLIMITED if n is None else n for n in most))
        name = f"{len(group):02}-{name}"
        if self.random.integers(8) == 0:
            stored = stored.copy()
            stored.commit(group.id, f"type-of-{name}".encode())
        if self.random.integers(3) == 0:
            properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
        dataset = h5d.create(group.id, name.encode(), stored, space, properties)
        self.attributes(h5py.Dataset(dataset))
        return dataset

    def attributes(self, of):
        for number in self.random.permutation(int(self.random.integers(0, 12))):
            value = [np.arange(number), f"größe {number}", np.bytes_(b"fixed"), ["one", "two" * int(number)],
                     of.file.ref, 1.5, True][number % 7]
            of.attrs[f"attribute-{number}"] = value

    def fill(self, properties, stored):
        """Half of the time one that the type can hold."""
        if self.random.integers(2):
            value = self.stored(properties, stored, 1)
            elements.done(elements.LIB.H5Pset_fill_value(properties.id, stored.id, value.ctypes.data))
        if self.random.integers(4) == 0:
            properties.set_fill_time(h5d.FILL_TIME_ALLOC)

    def stored(self, properties, kind, count):
        shown = elements.some(self.random, kind, count)
        if properties.get_filter_by_id(h5z.FILTER_SCALEOFFSET) and kind.get_class() == h5t.FLOAT:
            # What this filter makes of others, libhdf5 itself cannot read.
            shown = elements.as_bytes(np.nan_to_num(shown.view(f"<f{kind.get_size()}"), posinf=1, neginf=-1))
        return elements.to_stored(self.random, kind, shown)

    def values(self, dataset, count):
        return self.stored(dataset.get_create_plist(), dataset.get_type(), count)

    def put(self, dataset):
        elements.write(dataset, self.values(dataset, int(np.prod(dataset.shape, dtype="i8"))))

    def put_part(self, dataset):
        start = [int(self.random.integers(n)) for n in dataset.shape]
        shape = [int(self.random.integers(1, n - at + 1)) for at, n in zip(start, dataset.shape)]
        elements.write(dataset, self.values(dataset, int(np.prod(shape))), tuple(start), tuple(shape))

    def skip_filters(self, dataset):
        """Some chunks as they are, with a mask that says so."""
        chunk = dataset.get_create_plist().get_chunk()
        size = dataset.get_type().get_size()
        cells = elements.read(dataset).reshape(dataset.shape + (size,))
        for _ in range(3):
            at = tuple(int(self.random.integers(-(-n // c))) * c for n, c in zip(dataset.shape, chunk))
            raw = np.zeros(chunk + (size,), "u1")
            inside = cells[tuple(slice(a, a + c) for a, c in zip(at, chunk))]
            raw[tuple(slice(0, n) for n in inside.shape)] = inside
            dataset.write_direct_chunk(at, raw.tobytes(), SKIPPED)

    def around(self, file):
        """What must not change, and a hole or two."""
        arrays = [name for name in file["a"] if isinstance(file["a"].get(name), h5py.Dataset)]
        first, last = file["a"][arrays[0]], file["a"][arrays[-1]]
        around = file.create_group("around", track_order=True)
        around["text"] = np.array(["one", "größe", ""], h5py.string_dtype())
        around["texts with feeds"] = np.array(["one\n", "", "größe\n\nzwei", "\n"], h5py.string_dtype())
        around["text with feeds"] = "one\ntwo\n"
        around.create_dataset("lists", (3,), h5py.vlen_dtype("<i4"))[1] = np.arange(4)
        around["references"] = np.array([first.ref, file.ref, around.ref], h5py.ref_dtype)
        if first.shape:
            around.create_dataset("regions", data=[first.regionref[:1]], dtype=h5py.regionref_dtype)
        around["z-soft"] = h5py.SoftLink("/around/text")
        around["y-nowhere"] = h5py.SoftLink("/no/such")
        around["x-outside"] = h5py.ExternalLink("other.h5", "/x")
        around["w-again"] = file["a"]
        around["nothing"] = h5py.Empty("<f4")
        around["pair"] = np.dtype([("a", "<i2"), ("b", ">f8")])
        around["scale"] = np.arange(5)
        around["scale"].make_scale("a scale")
        around["measured"] = np.arange(5)
        around["measured"].dims[0].attach_scale(around["scale"])
        around["measured"].dims[0].label = "x"
        for number in range(3):
            around[f"hole-{number}"] = np.arange(3000 * (number + 1))
        for number in range(2):
            del around[f"hole-{number}"]
        for of in (file, around):
            self.attributes(of)
        self.attributes(last)
        last.attrs["first"] = first.ref


def write_files(random, directory):
    corpus = Corpus(random)
    ahead = []
    for name, options in FILES.items():
        new = name in NEW
        with open_new(directory / name, options) as file:
            group = file.create_group("a")
            for kind in PLAIN:
                corpus.plain(group, kind)
            group = file.create_group("a/deep/er", track_order=bool(random.integers(2)))
            for index in INDICES:
                if not ahead:
                    ahead = list(FILTERS)
                    random.shuffle(ahead)
                corpus.chunked(group, index, ahead.pop(), new)
                corpus.chunked(group, index, "gzip" if random.integers(2) else "none", new)
            corpus.around(file)
        if block := options.get("userblock_size"):
            with open(directory / name, "r+b") as file:
                file.write(random.bytes(block))


def open_new(path, options):
    if options:
        return h5py.File(path, "w", **options)
    creation = h5p.create(h5p.FILE_CREATE)
    creation.set_sizes(4, 4)
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    return h5py.File(h5f.create(str(path).encode(), h5f.ACC_TRUNC, creation, access))


def write_netcdf(random, directory):
    warnings.simplefilter("ignore")
    for form in ("NETCDF4", "NETCDF4_CLASSIC"):
        with netCDF4.Dataset(directory / f"{form.lower()}.nc", "w", format=form) as file:
            file.createDimension("t", None)
            file.createDimension("x", 7)
            file.createDimension("y", 5)
            file.title = "größe"
            variables(random, file, form)
            if form == "NETCDF4":
                file.createDimension("u", None)
                variables(random, file.createGroup("inner/most"), form, [("u", "t"), ("u", "x")])


def variables(random, file, form, dimensions=()):
    kinds = ["i1", "i2", "i4", "f4", "f8"] + (["u1", "u2", "u4", "i8", "u8"] if form == "NETCDF4" else [])
    dimensions = [("t",), ("t", "x"), ("t", "y", "x"), ("x",), ("y", "x"), (), *dimensions]
    for number, dims in enumerate(dimensions):
        kind = str(random.choice(kinds))
        options = {"compression": "zlib", "complevel": 2, "shuffle": bool(random.integers(2))} if random.integers(2) and dims else {}
        fill = int(random.integers(1, 100)) if random.integers(2) else None
        endian = str(random.choice(["little", "big"])) if not kind.endswith("1") else "native"
        variable = file.createVariable(f"v{number}", kind, dims, fill_value=fill, endian=endian, fletcher32=bool(random.integers(2) and options), **options)
        variable.units = "m s-1"
        shape = [4 if d in "tu" else {"x": 7, "y": 5}[d] for d in dims]
        variable[...] = random.integers(1, 100, shape).astype(kind)
    time = file.createVariable("x", "f8", ("x",))
    time[:] = np.arange(7)


def main(directory, seed):
    directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(int(seed))
    write_files(random, directory)
    write_netcdf(random, directory)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
