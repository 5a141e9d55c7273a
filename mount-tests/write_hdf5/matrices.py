#!/usr/bin/env python3
"""Sparse matrices and dataframes in HDF5 files, given other entries and lengths through a mount.

    matrices.py make SOURCE SEED            x.h5 with Binsparse containers of every format, and groups of AnnData's; x.nc; x.h5ad
    matrices.py session MOUNT SEED MODEL    gives each of them other content, array by array in any order
    matrices.py check SOURCE BEFORE MODEL   what the formats' own readers find is that content, and all else is as in BEFORE
"""
import json
import os
import pathlib
import pickle
import sys

import anndata
import binsparse
import h5py
import netCDF4
import numpy as np
import pandas
import scipy.sparse as sp
from h5py import h5a, h5s, h5t

import objects

FORMATS = ["DVEC", "DMATR", "DMATC", "CVEC", "CSR", "CSC", "DCSR", "DCSC", "COOR", "COOC"]
KINDS = ["variable", "list", "exact", "terminated", "spaces", "roomy"]
MATRICES = {"csr_matrix": "csr", "csc_matrix": "csc"}


def random_matrix(random, shape):
    matrix = sp.random(*shape, float(random.uniform(0.05, 0.4)), format="csr", random_state=random)
    matrix.data = np.ceil(matrix.data * 100).astype("<f4")
    return matrix


def compressed(matrix, along):
    turned = matrix.tocsr() if along == 0 else matrix.tocsc()
    turned.sort_indices()
    return turned.indptr.astype("<u4"), turned.indices.astype("<u8"), turned.data


def arrays_of(kind, matrix):
    """The arrays of a matrix, or of its first row, and what the descriptor says of them."""
    row = matrix[:1].toarray()[0]
    if kind == "DVEC":
        return {"values": row}, row.shape
    if kind == "CVEC":
        places = np.flatnonzero(row)
        return {"indices_0": places.astype("<u8"), "values": row[places]}, row.shape
    if kind.startswith("DMAT"):
        return {"values": matrix.toarray().reshape(-1, order="C" if kind == "DMATR" else "F")}, matrix.shape
    along = 0 if kind.endswith("R") else 1
    pointers, indices, values = compressed(matrix, along)
    if kind.startswith("CS"):
        return {"pointers_to_1": pointers, "indices_1": indices, "values": values}, matrix.shape
    counts = np.diff(pointers)
    if kind.startswith("COO"):
        return {"indices_0": np.repeat(np.arange(len(counts), dtype="<u8"), counts), "indices_1": indices, "values": values}, matrix.shape
    used = np.flatnonzero(counts)
    pointers = np.append(pointers[used], np.uint32(len(values)))
    return {"indices_0": used.astype("<u8"), "pointers_to_1": pointers, "indices_1": indices, "values": values}, matrix.shape


def descriptor(kind, arrays, shape):
    types = {name: str(array.dtype) for name, array in arrays.items()}
    inner = dict(version="0.1.0", format=kind, shape=list(map(int, shape)), number_of_stored_values=len(arrays["values"]), data_types=types)
    return json.dumps({"comment": "[1, {2]}", "binsparse": inner}, indent="\t")


def put_descriptor(group, kind, text):
    if kind == "variable":
        group.attrs["binsparse"] = text
        return
    if kind == "list":
        group.attrs.create("binsparse", [text], dtype=h5py.string_dtype())
        return
    raw = text.encode()
    pads = {"exact": h5t.STR_NULLTERM, "terminated": h5t.STR_NULLTERM, "spaces": h5t.STR_SPACEPAD, "roomy": h5t.STR_NULLPAD}
    stored = h5t.C_S1.copy()
    stored.set_size(len(raw) + {"exact": 0, "terminated": 1, "spaces": 0, "roomy": 64}[kind])
    stored.set_strpad(pads[kind])
    attribute = h5a.create(group.id, b"binsparse", stored, h5s.create(h5s.SCALAR))
    padded = raw.ljust(stored.get_size(), b" " if kind == "spaces" else b"\0")
    attribute.write(np.array(padded, f"S{len(padded)}"), stored)


def make(source, seed):
    random = np.random.default_rng(int(str(seed)))
    with h5py.File(source / "x.h5", "w", libver=["earliest", "latest"][int(random.integers(2))], track_order=True) as file:
        file["beside"] = np.arange(100)
        for number, kind in enumerate(FORMATS * 2):
            group = file.create_group(f"deep/{kind}-{number // len(FORMATS)}", track_order=bool(random.integers(2)))
            group.attrs["first"] = 1
            arrays, shape = arrays_of(kind, random_matrix(random, random.integers(1, 40, 2)))
            put_descriptor(group, KINDS[int(random.integers(len(KINDS)))], descriptor(kind, arrays, shape))
            group.attrs["last"] = "words"
            for name, array in arrays.items():
                filters = [{}, dict(compression="gzip", shuffle=True), dict(compression="lzf")][int(random.integers(3))]
                group.create_dataset(name, data=array, maxshape=(None,), chunks=(int(random.integers(1, 30)),), **filters)
            group.create_dataset("notes", data=np.arange(3))
        for encoding, kind in MATRICES.items():
            anndata.io.write_elem(file, encoding, random_matrix(random, random.integers(1, 40, 2)).asformat(kind))
        resizable = dict(maxshape=(None,), chunks=(7,))
        anndata.io.write_elem(file, "dataframe", frame(random, 12), dataset_kwargs=resizable)
    data = anndata.AnnData(random_matrix(random, (20, 30)), obs=pandas.DataFrame(index=[f"cell-{n}" for n in range(20)]))
    data.write_h5ad(source / "x.h5ad", compression="gzip")
    with netCDF4.Dataset(source / "x.nc", "w") as file:
        arrays, shape = arrays_of("CSR", random_matrix(random, (9, 14)))
        arrays = {name: array.astype(array.dtype.str.replace("u4", "i4").replace("u8", "i8")) for name, array in arrays.items()}
        for name, array in arrays.items():
            file.createDimension(f"n_{name}", None)
            file.createVariable(name, array.dtype, (f"n_{name}",), zlib=True)[:] = array
        file.binsparse = descriptor("CSR", arrays, shape)


def frame(random, rows):
    columns = dict(
        kind=pandas.Categorical.from_codes(random.integers(-1, 3, rows), ["a", "b", "größe"]),
        count=random.integers(0, 99, rows),
        good=random.integers(0, 2, rows).astype(bool),
    )
    return pandas.DataFrame(columns, index=random.permutation(rows))


def put(random, container, path, array):
    """In one of the ways in which programs do."""
    ways = [0, 1, 2] if path.suffix != ".json" else [0]
    raw, way = array.tobytes(), int(random.choice(ways + [3] * (path.parent == container)))
    if way == 0:
        path.write_bytes(raw)
    elif way == 1:
        os.truncate(path, len(raw))
        if raw:
            mapped = np.memmap(path, "u1", "r+")
            mapped[:] = np.frombuffer(raw, "u1")
            mapped.flush()
            del mapped
    elif way == 2:
        open(path, "wb").close()
        for piece in np.array_split(np.frombuffer(raw, "u1"), 3):
            with open(path, "ab") as file:
                file.write(piece.tobytes())
    else:
        temporary = container / f".{path.name}.new"
        temporary.write_bytes(raw)
        temporary.rename(path)
    found = path.read_bytes()
    assert found == raw, f"{path}: {len(found)} bytes, {len(raw)} were written"


def state(container):
    return os.getxattr(container, "user.arrayfs.state").decode()


def settle(container):
    os.setxattr(container, "user.arrayfs.commit", b"1")
    assert state(container) == "clean", f"{container}: {state(container)}"


def put_all(random, directory, container, arrays, text=None):
    """Array by array, in any order; it is one commit at the end, if they do not agree before by chance."""
    names = [*arrays] + (["binsparse.json"] if text else [])
    for name in random.permutation(names):
        content = np.frombuffer(text.encode(), "u1") if name == "binsparse.json" else arrays[name]
        put(random, container, directory / name, content)
    settle(container)
    for name, array in arrays.items():
        assert (directory / name).read_bytes() == array.tobytes(), f"{directory / name} after the commit"


def check_shown(directory, arrays, shape):
    shown = json.loads((directory / "binsparse.json").read_text())["binsparse"]
    described = json.loads((directory / "arrays.json").read_text())["attributes"]
    for told in (shown, described):
        assert told["shape"] == list(map(int, shape)), f"{directory}: {told['shape']}, not {shape}"
        assert told["number_of_stored_values"] == len(arrays["values"]), f"{directory}: {told}"


def session(mount, seed, model):
    random = np.random.default_rng([int(str(seed)), 1])
    told = {}
    for path in random.permutation(sorted(path.name for path in (mount / "x.h5/deep").iterdir() if path.is_dir())):
        directory, kind = mount / "x.h5/deep" / path, path.split("-")[0]
        for _ in range(2):
            told[path] = change(random, directory, mount / "x.h5", kind)
    told["x.nc"] = change(random, mount / "x.nc", mount / "x.nc", "CSR", signed=True)
    for encoding, kind in MATRICES.items():
        told[encoding] = change_encoded(random, mount / "x.h5", encoding, kind)
    told["X"] = change_encoded(random, mount / "x.h5ad", "X", "csr", rows=20)
    told["dataframe"] = change_frame(random, mount / "x.h5/dataframe", mount / "x.h5")
    model.write_bytes(pickle.dumps(told))


def change(random, directory, container, kind, signed=False):
    rows, columns = json.loads((directory / "binsparse.json").read_text())["binsparse"]["shape"] * (2 if "VEC" in kind else 1)
    rewritten = bool(random.integers(2))
    # What does not follow from the arrays stays, unless somebody says so.
    follows = {"DVEC": (rows, 1 + int(random.integers(40)))}
    follows |= dict.fromkeys(["DMATR", "CSR"], (1 + int(random.integers(40)), columns))
    follows |= dict.fromkeys(["DMATC", "CSC"], (rows, 1 + int(random.integers(40))))
    new = tuple(random.integers(1, 40, 2)) if rewritten else follows.get(kind, (rows, columns))
    arrays, shape = arrays_of(kind, random_matrix(random, new))
    if signed:
        arrays = {name: array.astype(array.dtype.str.replace("u4", "i4").replace("u8", "i8")) for name, array in arrays.items()}
    text = descriptor(kind, arrays, shape) + "\n" if rewritten else None
    put_all(random, directory, container, arrays, text)
    check_shown(directory, arrays, shape)
    return dict(arrays=arrays, shape=shape, text=text)


def change_encoded(random, container, name, kind, rows=None):
    shape = json.loads((container / "arrays.json").read_text())["groups"][name]["shape"]
    major = 0 if kind == "csr" else 1
    shape[major] = rows or 1 + int(random.integers(40))
    matrix = random_matrix(random, shape).asformat(kind)
    types = {array: os.getxattr(container / name / array, "user.arrayfs.dtype").decode() for array in ("data", "indices", "indptr")}
    arrays = {array: getattr(matrix, array).astype(kind) for array, kind in types.items()}
    put_all(random, container / name, container, arrays)
    described = json.loads((container / "arrays.json").read_text())["groups"][name]
    assert described["shape"] == shape, f"{container}: {name}: {described}, not {shape}"
    return dict(matrix=matrix)


def change_frame(random, directory, container):
    new = frame(random, 1 + int(random.integers(40)))
    index = json.loads((container / "arrays.json").read_text())["groups"]["dataframe"]["_index"]
    arrays = {"kind/codes": new["kind"].cat.codes.to_numpy(), "count": new["count"].to_numpy(), "good": new["good"].to_numpy(), index: new.index.to_numpy()}
    put_all(random, directory, container, arrays)
    return dict(frame=new)


def told_by(group):
    text = group.attrs["binsparse"]
    text = text if isinstance(text, (str, bytes)) else text[0]
    return text if isinstance(text, str) else text.decode()


def with_scalar(group):
    """The reader knows no descriptors that are arrays of one element."""
    memory = h5py.File("copy", "w", driver="core", backing_store=False)
    group.file.copy(group, memory, "copy")
    memory["copy"].attrs["binsparse"] = told_by(group)
    return memory["copy"]


def check_binsparse(group, told):
    found = binsparse.BinsparseTensor.parse(binsparse.HDF5BinsparseContainer(with_scalar(group)))
    assert tuple(found.shape) == tuple(map(int, told["shape"])), f"{group.name}: {found.shape}"
    assert found.number_of_stored_values == len(told["arrays"]["values"]), f"{group.name}: {found}"
    for name, array in told["arrays"].items():
        stored = group[name][:]
        assert stored.dtype == array.dtype and (stored == array).all(), f"{group.name}: {name}"
    text = told_by(group)
    expected = told["text"]
    assert not expected or text.rstrip(" ") in (expected, expected.rstrip("\n")), f"{group.name}: {text}"
    assert json.loads(text)["comment"] == "[1, {2]}", group.name


def same_matrix(found, expected):
    assert found.shape == expected.shape and found.format == expected.format, f"{found.shape}, {expected.shape}"
    assert (found != expected).nnz == 0


def described(file):
    """Without the attributes that follow, and the order of what was made anew."""
    told = objects.described(file)
    for path, what in told.items():
        if path != "file" and any(one[0] in (b"binsparse", b"shape") for one in what["attributes"]):
            what["attributes"] = [(name, kind, *rest) for name, _, kind, *rest in what["attributes"] if name not in (b"binsparse", b"shape")]
    return told


def check(source, before, model):
    told = pickle.loads(model.read_bytes())
    for name in ("x.h5", "x.h5ad", "x.nc"):
        with objects.opened(source / name) as now, objects.opened(before / name) as then:
            now, then = described(now), described(then)
            differ = [path for path in then if now.get(path) != then[path]]
            assert list(now) == list(then) and not differ, f"{name}: {differ}"
    with objects.opened(source / "x.h5") as file:
        for name, group in file["deep"].items():
            check_binsparse(group, told[name])
        for encoding in MATRICES:
            same_matrix(anndata.io.read_elem(file[encoding]), told[encoding]["matrix"])
        pandas.testing.assert_frame_equal(anndata.io.read_elem(file["dataframe"]), told["dataframe"]["frame"], check_names=False, check_index_type=False)
    same_matrix(sp.csr_matrix(anndata.read_h5ad(source / "x.h5ad").X), told["X"]["matrix"])
    with netCDF4.Dataset(source / "x.nc") as file:
        for name, array in told["x.nc"]["arrays"].items():
            assert (file[name][:] == array).all() and len(file.dimensions[f"n_{name}"]) == len(array), name
        assert json.loads(file.binsparse)["binsparse"]["shape"] == list(map(int, told["x.nc"]["shape"]))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    {"make": make, "session": session, "check": check}[what](*map(pathlib.Path, arguments))
