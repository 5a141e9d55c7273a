"""The part of oracle.py that writes with h5py, netCDF4, binsparse and anndata.

What an array must be is what its library reads back, in little-endian C order; strings of any length are
lines. `expect` notes it by its path in the mount.
"""
import warnings
from itertools import zip_longest

import anndata
import binsparse
import h5py
import hdf5plugin
import netCDF4
import numpy as np
import pandas
import scipy.sparse as sp

LIBVERS = [("earliest", "latest"), ("earliest", "v108"), ("v110", "v110"), ("v108", "v114"), ("latest", "latest")]
NUMBERS = [o + k for o in "<>" for k in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()] + ["?"]


def packed(dtype):
    """The same type, little-endian, without gaps and without what h5py notes beside it."""
    if dtype.subdtype:
        base, shape = dtype.subdtype
        return np.dtype((packed(base), shape))
    if dtype.names:
        return np.dtype([(name, packed(dtype.fields[name][0])) for name in dtype.names])
    return np.dtype(dtype.str).newbyteorder("<")


def lines(values):
    text = b"".join(v + b"\n" for v in values)
    return np.frombuffer(text, "u1")


def as_shown(dataset):
    """What the mount must show of a dataset of h5py; None if it cannot be shown."""
    stored = dataset.dtype
    if dataset.shape is None:
        return np.zeros(0, packed(stored))
    if h5py.check_string_dtype(stored) and h5py.check_string_dtype(stored).length is None:
        values = np.asarray(dataset[()], object)
        return lines(v if isinstance(v, bytes) else v.encode() for v in values.reshape(-1))
    if stored.hasobject:
        return None
    # A single string would come without its padding.
    values = np.asarray(dataset[()], stored if stored.kind == "S" else None)
    return np.ascontiguousarray(values.astype(packed(values.dtype))).reshape(values.shape)


def expect_file(path, expected, expect):
    """Everything that h5py finds in a file; links to groups apart."""
    with h5py.File(path) as file:
        expect_group(file, path.name, expected, expect)


def expect_group(group, container, expected, expect):
    for name in group:
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
            continue
        member = group[name]
        if isinstance(member, h5py.Group):
            expect_group(member, f"{container}/{name}", expected, expect)
        elif not is_dimension_alone(member) and (values := as_shown(member)) is not None:
            expect(expected, container, name, values)


def is_dimension_alone(member):
    return member.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension but not")


def write_h5py(random, source, expected, expect):
    for number in range(12):
        libver = LIBVERS[random.integers(len(LIBVERS))]
        path = source / f"file-{number}.h5"
        block = int(random.choice([0, 512, 4096]))
        with h5py.File(path, "w", libver=libver, userblock_size=block, track_order=bool(random.integers(2))) as file:
            for member in range(int(random.integers(5, 15))):
                group = "/".join(f"g{n}" for n in random.integers(0, 3, random.integers(0, 3)))
                write_dataset(random, file.require_group(f"/{group}"), f"d{member}")
            # Older files have no virtual datasets.
            for member in range(3 if libver[1] != "v108" else 0):
                write_virtual(random, file, f"v{member}")
        expect_file(path, expected, expect)


def write_dataset(random, group, name):
    values = some_values(random)
    kind = values.dtype.kind
    options = {}
    chunked = values.ndim and values.size and random.integers(4)
    if chunked:
        options["chunks"] = tuple(int(random.integers(1, n + 1)) for n in values.shape)
        while np.prod([-(-n // c) for n, c in zip(values.shape, options["chunks"])]) > 2000:
            options["chunks"] = tuple(min(n, 2 * c) for n, c in zip(values.shape, options["chunks"]))
        options["maxshape"] = tuple(None if random.integers(3) == 0 else int(n + random.integers(9)) for n in values.shape)
        options.update(some_filter(random, values, int(np.prod(options["chunks"]))))
    if kind in "iuf" and random.integers(2):
        options["fillvalue"] = values.dtype.type(random.integers(0, 100))
    if not chunked or random.integers(2):
        return group.create_dataset(name, data=values, **options)
    dataset = group.create_dataset(name, values.shape, values.dtype, **options)
    part = tuple(slice(*sorted(int(i) for i in random.integers(0, n + 1, 2))) for n in values.shape)
    dataset[part] = values[part]
    if random.integers(2):
        sizes = zip(values.shape, options["maxshape"])
        dataset.resize([int(random.integers(0, (n + 9 if most is None else most) + 1)) for n, most in sizes])


def write_virtual(random, file, name):
    """A dataset put together from slices of others in the same file, laid over each other."""
    found = []
    file.visititems(lambda _, member: found.append(member) if isinstance(member, h5py.Dataset) else None)
    numbers = [d for d in found if d.dtype.kind in "iuf" and d.ndim and d.size and not d.is_virtual]
    if not numbers:
        return
    first = numbers[random.integers(len(numbers))]
    parts = [d for d in numbers if d.dtype == first.dtype and random.integers(3)] + [first]
    shape = (len(parts), *(int(max(sizes)) for sizes in zip_longest(*(d.shape for d in parts), fillvalue=1)))
    layout = h5py.VirtualLayout(shape, first.dtype)
    for place, part in enumerate(parts):
        chosen = tuple(some_slice(random, n) for n in part.shape)
        sizes = [len(range(n)[s]) for s, n in zip(chosen, part.shape)]
        ones = (0,) * (len(shape) - 1 - len(sizes))
        here = tuple(slice(0, size) for size in sizes)
        layout[(place, *here, *ones)] = h5py.VirtualSource(part)[chosen]
    fill = first.dtype.type(7) if random.integers(2) else None
    file.create_virtual_dataset(name, layout, fillvalue=fill)


def some_slice(random, n):
    """At least one element."""
    start = int(random.integers(0, n))
    return slice(start, int(random.integers(start, n)) + 1, int(random.integers(1, 4)))


def some_values(random):
    rank = int(random.integers(0, 5))
    most = [0, 20000, 150, 30, 12][rank]
    shape = tuple(int(n) for n in random.integers(0 if random.integers(9) == 0 else 1, most + 1, rank))
    count = int(np.prod(shape))
    kind = random.integers(10)
    if kind == 0:
        return np.array([random.bytes(random.integers(0, 9)).replace(b"\0", b"-") for _ in range(count)], "S9").reshape(shape)
    if kind == 1:
        layout = np.dtype([("a", ">i2"), ("b", "<f8"), ("c", "<u4", (2,))], align=bool(random.integers(2)))
        return np.frombuffer(random.bytes(count * layout.itemsize), layout).reshape(shape)
    if kind == 2:
        words = ["", "one", "größe", "a longer one, of many words " * 3]
        values = np.array([words[n] for n in random.integers(0, 4, count)], object)
        return values.reshape(shape).astype(h5py.string_dtype())
    dtype = np.dtype(str(random.choice(NUMBERS)))
    if dtype == bool:
        return random.integers(0, 2, shape).astype(bool)
    if random.integers(2) and dtype.kind in "iu":
        return np.cumsum(random.integers(0, 3, count)).astype(dtype).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def some_filter(random, values, chunk):
    """A pipeline that the values can go through."""
    codec = random.integers(12)
    common = {"shuffle": bool(random.integers(2)), "fletcher32": bool(random.integers(3) == 0)}
    if values.dtype.hasobject:
        return {"compression": "gzip"} if random.integers(2) else {}
    if codec == 0:
        return common
    if codec < 4:
        return common | {"compression": "gzip", "compression_opts": int(random.integers(10))}
    if codec == 4:
        return common | {"compression": "lzf"}
    if codec == 5 and values.dtype.kind in "iu":
        return {"scaleoffset": 0}
    if codec == 6 and values.dtype.kind in "iuf" and chunk >= 8 and h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        return {"compression": "szip", "compression_opts": (str(random.choice(["nn", "ec"])), 8)}
    name = str(random.choice(["blosclz", "lz4", "lz4hc", "zlib", "zstd"]))
    plugins = [
        lambda: hdf5plugin.Blosc(cname=name, clevel=int(random.integers(10)), shuffle=int(random.integers(3))),
        lambda: hdf5plugin.Bitshuffle(cname=str(random.choice(["none", "lz4", "zstd"]))),
        lambda: hdf5plugin.LZ4(),
        lambda: hdf5plugin.Zstd(clevel=int(random.integers(1, 9))),
    ]
    return dict(plugins[random.integers(len(plugins))]())


def write_netcdf(random, source, expected, expect):
    warnings.simplefilter("ignore")
    for number, form in enumerate(["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4", "NETCDF4_CLASSIC"] * 3):
        path = source / f"{form.lower()}-{number}.nc"
        with netCDF4.Dataset(path, "w", format=form) as file:
            write_variables(random, file, form)
            if form == "NETCDF4":
                write_variables(random, file.createGroup("inner/most"), form)
            file.title = "größe"
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            file.set_auto_chartostring(False)
            expect_variables(file, path.name, expected, expect)


def write_variables(random, file, form):
    file.createDimension("time", None)
    for name in "xyz":
        file.createDimension(name, int(random.integers(1, 30)))
    kinds = ["i1", "i2", "i4", "f4", "f8", "S1"]
    if form in ("NETCDF3_64BIT_DATA", "NETCDF4"):
        kinds += ["u1", "u2", "u4", "i8", "u8"]
    records = int(random.integers(0, 9))
    for number in range(int(random.integers(1, 9))):
        kind = str(random.choice(kinds))
        dimensions = list(random.choice(list("xyz"), random.integers(0, 4), replace=False))
        if random.integers(2):
            dimensions.insert(0, "time")
        compression = "zlib" if form.startswith("NETCDF4") and random.integers(2) else None
        either = form.startswith("NETCDF4") and not kind.endswith("1")
        endian = str(random.choice(["little", "big"])) if either else "native"
        variable = file.createVariable(f"v{number}", kind, [str(d) for d in dimensions], compression=compression, endian=endian)
        shape = [records if d == "time" else len(file.dimensions[d]) for d in dimensions]
        # The file of NetCDF-4 has as many records of a variable as were written; its library adds to them.
        if random.integers(4) or form.startswith("NETCDF4"):
            values = random.integers(1, 100, shape)
            variable[:] = values.astype("u1").view("S1").reshape(shape) if kind == "S1" else values.astype(kind)


def expect_variables(file, container, expected, expect):
    for name, variable in file.variables.items():
        values = np.asarray(variable[:])
        expect(expected, container, name, np.ascontiguousarray(values.astype(packed(values.dtype))).reshape(values.shape))
    for name, group in file.groups.items():
        expect_variables(group, f"{container}/{name}", expected, expect)


def write_binsparse(random, source, expected, expect):
    for number in range(24):
        path = source / f"tensor-{number}.h5"
        shape = tuple(int(n) for n in random.integers(1, 300, 2))
        dtype = str(random.choice(["<f4", "<f8", "<i8", "<u2", "<i1"]))
        matrix = sp.random(*shape, float(random.random()), format="csr", random_state=random)
        matrix.data = (matrix.data * 100).astype(dtype)
        matrix.sort_indices()
        group = "/deep/er" if random.integers(2) else "/"
        with h5py.File(path, "w") as file:
            container = binsparse.HDF5BinsparseContainer(file.require_group(group))
            tensor(random, matrix).serialize(container)
        expect_file(path, expected, expect)


def tensor(random, matrix):
    """In one of the formats of Binsparse."""
    common = dict(shape=matrix.shape, number_of_stored_values=matrix.nnz)
    kind = random.integers(6)
    if kind == 0:
        return binsparse.CSRMatrix(**common, pointers_to_1=matrix.indptr, indices_1=matrix.indices, values=matrix.data)
    if kind == 1:
        turned = matrix.tocsc()
        turned.sort_indices()
        return binsparse.CSCMatrix(**common, pointers_to_1=turned.indptr, indices_1=turned.indices, values=turned.data)
    if kind == 2:
        entries = matrix.tocoo()
        return binsparse.COORMatrix(**common, indices_0=entries.row, indices_1=entries.col, values=entries.data)
    if kind == 3:
        used = np.flatnonzero(np.diff(matrix.indptr))
        pointers = np.append(matrix.indptr[used], matrix.nnz)
        return binsparse.DCSRMatrix(**common, indices_0=used, pointers_to_1=pointers, indices_1=matrix.indices, values=matrix.data)
    if kind == 4:
        row = matrix[:1]
        common = dict(shape=(matrix.shape[1],), number_of_stored_values=row.nnz)
        return binsparse.CVECVector(**common, indices_0=row.indices, values=row.data)
    common["number_of_stored_values"] = int(np.prod(matrix.shape))
    return binsparse.DMATRMatrix(**common, values=matrix.toarray().reshape(-1))


def write_anndata(random, source, expected, expect):
    warnings.simplefilter("ignore")
    for number in range(6):
        cells, genes = (int(n) for n in random.integers(1, 200, 2))
        x = sp.random(cells, genes, 0.2, format=str(random.choice(["csr", "csc"])), random_state=random, dtype="f4")
        obs = pandas.DataFrame(
            {
                "kind": pandas.Categorical(random.choice(["a", "b", "größe"], cells)),
                "count": random.integers(0, 99, cells),
                "word": random.choice(["one", "two"], cells),
                "good": random.integers(0, 2, cells).astype(bool),
            },
            index=[f"cell-{n}" for n in range(cells)],
        )
        var = pandas.DataFrame(index=[f"gene-{n}" for n in range(genes)])
        data = anndata.AnnData(x.toarray() if number % 3 == 0 else x, obs=obs, var=var)
        data.obsm["pca"] = random.random((cells, 5))
        data.layers["raw"] = x.copy()
        data.uns["settings"] = {"method": "some", "size": 3, "list": np.arange(4)}
        path = source / f"cells-{number}.h5ad"
        data.write_h5ad(path, compression=str(random.choice(["gzip", "lzf"])) if number % 2 else None)
        expect_file(path, expected, expect)
