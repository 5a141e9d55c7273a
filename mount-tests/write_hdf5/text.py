#!/usr/bin/env python3
"""Text of variable length in HDF5 and NetCDF-4 files, given other lines through a mount.

    text.py make SOURCE SEED            x.h5 with datasets of every layout, filter and character set; x.nc; x.h5ad
    text.py session MOUNT SEED MODEL    gives them other lines, as many as they can have, some of them in pieces
    text.py check SOURCE BEFORE MODEL   h5py, netCDF4 and anndata find these lines, and all else is as in BEFORE
    text.py shown FILE NAME             the values of a dataset, a line each
    text.py digest FILE NAME            a digest of the values
    text.py one FILE KIND               a file with one dataset `text` (see `one`)
    text.py heap FILE own|other         one with a value that stands for two elements
"""
import hashlib
import json
import os
import pathlib
import pickle
import sys

import anndata
import h5py
import netCDF4
import numpy as np
import pandas

WORDS = ["", "a", "cell-17", "größe", "with space ", "\ttab", "ACGT" * 9, "long " * 300, "x" * 5000]
FILTERS = {
    "plain": {},
    "gzip": dict(compression="gzip"),
    "shuffled": dict(compression="gzip", shuffle=True),
}
UTF8, ASCII = h5py.string_dtype(), h5py.string_dtype("ascii")


def lines(random, most=60):
    return [WORDS[n] for n in random.integers(len(WORDS), size=int(random.integers(most)))]


def compact(file, name, values):
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((len(values),))
    stored = h5py.h5t.py_create(UTF8, logical=True)
    h5py.Dataset(h5py.h5d.create(file.id, name.encode(), stored, space, created))[:] = values


def make(source, seed):
    random = np.random.default_rng(int(str(seed)))
    for libver in ["earliest", "latest"]:
        with h5py.File(source / f"{libver}.h5", "w", libver=libver) as file:
            file["beside"] = np.arange(100)
            file.attrs["words"] = ["one", "two", "größe"]
            file["others"] = [f"other {n}" for n in range(50)]
            for kind, filters in FILTERS.items():
                file.create_dataset(f"deep/free-{kind}", data=lines(random), dtype=UTF8, maxshape=(None,), chunks=(int(random.integers(1, 30)),), **filters)
                file.create_dataset(f"deep/most-{kind}", data=["a", "b"], dtype=ASCII, maxshape=(70,), chunks=(3,), **filters)
                file.create_dataset(f"deep/fixed-{kind}", data=lines(random) + ["last"], dtype=UTF8, chunks=(4,), **filters)
            file.create_dataset("whole", data=lines(random) + ["last"], dtype=UTF8)
            file.create_dataset("scalar", data="one line", dtype=UTF8)
            file.create_dataset("never-written", (5,), dtype=UTF8)
            file.create_dataset("never-written-chunks", (5,), dtype=UTF8, chunks=(2,), maxshape=(None,))
            compact(file, "compact", ["a", "", "größe"])
            file["more"] = [f"more {n}" for n in range(50)]
            file["more"].attrs["unit"] = "m"
    with netCDF4.Dataset(source / "x.nc", "w") as file:
        file.createDimension("n", None)
        file.createDimension("m", 4)
        file.createVariable("names", str, ("n",))[:] = np.array(["a", "b", "größe"], dtype=object)
        file.createVariable("fixed", str, ("m",))[:] = np.array(["a", "b", "c", "d"], dtype=object)
        file.createVariable("numbers", "i4", ("n",))[:] = [1, 2, 3]
        file.title = "words"
    frame = pandas.DataFrame({"word": pandas.array(["a", "b", "c"], dtype=object), "count": [1, 2, 3]}, index=["x", "y", "z"])
    data = anndata.AnnData(np.ones((3, 2), "f4"), obs=frame)
    data.write_h5ad(source / "x.h5ad")


def texts_of(path):
    """The arrays of a container that are text of at most one dimension."""
    described = json.loads((path / "arrays.json").read_text())
    return {a["name"]: a for a in described["arrays"] if a["dtype"] == "str" and len(a["shape"]) <= 1}


def session(mount, seed, model):
    random = np.random.default_rng(int(str(seed)) + 1)
    content = {}
    for path in sorted(mount.iterdir()):
        if path.suffix not in (".h5", ".nc"):
            continue
        for name, array in texts_of(path).items():
            if name in ("others", "more"):
                continue
            before = (path / name).read_bytes().decode().split("\n")[:-1]
            for _ in range(3):
                free = ("free" in name or "most" in name or name in ("names", "never-written-chunks")) and random.integers(3) > 0
                new = lines(random) if free else [WORDS[n] for n in random.integers(len(WORDS), size=len(before))]
                how = int(random.integers(4))
                if how == 0 and new[: len(before)]:
                    # Some lines stay.
                    keep = int(random.integers(len(before) + 1))
                    new[:keep] = before[:keep] if len(new) >= keep else before[: len(new)]
                text = "".join(f"{line}\n" for line in new).encode()
                if how == 1:
                    with open(path / name, "r+b") as file:
                        file.write(text[: len(text) // 2])
                        file.truncate(len(text))
                        file.seek(len(text) // 2)
                        file.write(text[len(text) // 2 :])
                elif how == 2 and free:
                    with open(path / name, "ab") as file:
                        file.write(text)
                    new = before + new
                    if "most" in name and len(new) > 70:
                        new = new[:70]
                        (path / name).write_bytes("".join(f"{line}\n" for line in new).encode())
                else:
                    (path / name).write_bytes(text)
                before = new
                shown = (path / name).read_bytes().decode()
                assert shown == "".join(f"{line}\n" for line in new), (path, name)
            content[path.name, name] = before
    adata = mount / "x.h5ad"
    (adata / "obs/_index").write_bytes(b"p\nq\nr\n")
    (adata / "obs/word").write_bytes("ä\nb\nlonger than before\n".encode())
    for path in mount.iterdir():
        try:
            os.setxattr(path, "user.arrayfs.commit", b"1")
        except OSError:
            pass
        assert os.getxattr(path, "user.arrayfs.state").startswith(b"clean"), (path, os.getxattr(path, "user.arrayfs.state"))
    for path in mount.iterdir():
        for name in texts_of(path):
            if (path.name, name) in content and texts_of(path)[name]["shape"]:
                assert texts_of(path)[name]["shape"] == [len(content[path.name, name])], (path, name)
    model.write_bytes(pickle.dumps(content))


def values(dataset):
    """Whatever the character set says."""
    read = dataset[()]
    read = [read] if isinstance(read, bytes) else read
    return [value.decode() for value in read]


def check(source, before, model):
    content = pickle.loads(model.read_bytes())
    for (file_name, name), expected in content.items():
        with h5py.File(source / file_name) as file:
            assert values(file[name]) == expected, (file_name, name)
    for path in sorted(source.glob("*.h5")):
        with h5py.File(path) as file, h5py.File(before / path.name) as old:
            assert (file["beside"][:] == old["beside"][:]).all()
            assert list(file.attrs["words"]) == list(old.attrs["words"])
            for name in ["others", "more"]:
                assert values(file[name]) == values(old[name])
            old.visititems(lambda name, item: same(file[name], item, (path.name, name) in content))
    with netCDF4.Dataset(source / "x.nc") as file:
        names = content["x.nc", "names"]
        assert list(file["names"][: len(names)]) == names and file.title == "words"
        assert list(file["fixed"][:]) == content["x.nc", "fixed"]
    data = anndata.read_h5ad(source / "x.h5ad")
    assert list(data.obs_names) == ["p", "q", "r"]
    assert list(data.obs["word"]) == ["ä", "b", "longer than before"]
    assert list(data.obs["count"]) == [1, 2, 3]


def same(now, old, changes):
    if isinstance(old, h5py.Group):
        return
    assert (now.dtype, now.maxshape, now.chunks, now.compression) == (old.dtype, old.maxshape, old.chunks, old.compression), now.name
    assert h5py.check_string_dtype(now.dtype) == h5py.check_string_dtype(old.dtype), now.name
    if not changes:
        assert np.array_equal(now[()], old[()]), now.name


def shown(path, name):
    with h5py.File(path) as file:
        read = file[str(name)][()]
        read = [read] if isinstance(read, bytes) else read
        sys.stdout.buffer.write(b"".join(value + b"\n" for value in read))


def digest(path, name):
    with h5py.File(path) as file:
        print(hashlib.sha256(repr(np.asarray(file[str(name)][()]).tolist()).encode()).hexdigest())


def one(path, kind):
    """feeds: values with line feeds; fixed: three of a fixed extent; grows: three, up to five; lzf: a filter
    that libhdf5 lacks; table: two dimensions; shared: an array that stands under two names; number: 20,000 in
    chunks; single: 300,000 in one chunk; frame: a dataframe; scalar and lone: one value with line feeds; long: 18 MB of text,
    some of its values with line feeds."""
    with h5py.File(path, "w") as file:
        if kind == "frame":
            frame = pandas.DataFrame({"word": pandas.array(["a", "b"], dtype=object), "kind": pandas.Categorical(["u", "v"])}, index=["x", "y"])
            frame = frame.assign(count=[1, 2])
            anndata.io.write_elem(file, "text", frame, dataset_kwargs=dict(maxshape=(None,), chunks=(3,)))
            return
        free = dict(maxshape=(None,), chunks=(4,))
        of = dict(
            feeds=(["a", "b\nc", "d"], free),
            fixed=(["a", "b", "c"], {}),
            grows=(["a", "b", "c"], dict(maxshape=(5,), chunks=(2,))),
            free=(["a", "b", "c"], free),
            lzf=(["a", "b", "c"], dict(compression="lzf", **free)),
            table=([["a", "b"]], {}),
            shared=(["a", "b", "c"], free),
            number=([str(n) for n in range(20_000)], dict(maxshape=(None,), chunks=(1000,), compression="gzip")),
            single=([str(n) for n in range(300_000)], dict(maxshape=(None,), chunks=(300_000,), compression="gzip")),
            scalar=("a\nb", {}),
            lone=(["a\nb\n"], dict(maxshape=(None,), chunks=(4,))),
            long=(["a", "b" * 99 + "\n", ("c" * 999 + "\n") * 18_000, "d"], free),
        )
        data, more = of[kind]
        file.create_dataset("text", data=data, dtype=UTF8, **more)
        if kind == "shared":
            file["again"] = file["text"]
        file["beside"] = np.arange(5)


def heap(path, of):
    """A file of which two elements are one value in the heap, as no program of libhdf5's makes it: of `text`
    (own), or one of `other`'s."""
    with h5py.File(path, "w") as file:
        for name in ["text", "other"]:
            file.create_dataset(name, data=[f"{name} {n}" for n in range(3)], dtype=UTF8)
        text, other = (file[name].id.get_offset() for name in ["text", "other"])
    stored = bytearray(path.read_bytes())
    to = text + 16 if str(of) == "own" else other
    stored[to : to + 16] = stored[text : text + 16]
    path.write_bytes(stored)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    globals()[what](*(a if what == "one" and n else pathlib.Path(a) for n, a in enumerate(arguments)))
