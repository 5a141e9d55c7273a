#!/usr/bin/env python3
"""BPCells containers in the groups of an HDF5 file, given other entries through a mount.

    packed.py make SOURCE SEED            x.h5 with containers of every kind
    packed.py session MOUNT SEED MODEL    gives each of them other entries, array by array in any order
    packed.py check SOURCE BEFORE MODEL   each holds these, as BPCells writes them, and all else is as in BEFORE
"""
import os
import pathlib
import pickle
import sys
import tempfile

import h5py
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import objects
import oracle_bpcells as oracle
import random_bpcells

CORNERS = ("empty", "chunk", "jumps", "usual")


def kinds(random):
    """Some of the versions, each in two corners."""
    for version in oracle.all_versions():
        for corner in random.choice(CORNERS, 2, replace=False):
            kind = oracle.kind_of(version)
            one = random_bpcells.matrix if kind.matrix else random_bpcells.fragments
            yield f"{version}-{corner}", kind, one(random, version, corner)


def make(source, seed):
    random = np.random.default_rng(int(str(seed)))
    with h5py.File(source / "x.h5", "w", libver=["earliest", "latest"][int(random.integers(2))]) as file:
        file["beside"] = np.arange(10)
        for name, kind, raw in kinds(random):
            put(random, file.create_group(name), kind, raw)


def put(random, group, kind, raw):
    files = oracle.encoded(raw)
    group.attrs["version"] = kind.version
    for name, content in files.items():
        if name == "version":
            continue
        if name in kind.texts():
            # As BPCells makes them, or so that rows and columns can change places.
            free = dict(maxshape=(None,), chunks=(7,)) if kind.matrix and name != "storage_order" else {}
            group.create_dataset(name, data=content.decode().splitlines(), dtype=h5py.string_dtype(), **free)
            continue
        dtype = {magic: dtype for dtype, magic in oracle.MAGIC.items()}[content[:8]]
        filters = dict(compression="gzip", shuffle=True) if random.integers(2) else {}
        chunk = int(random.integers(1, 500))
        group.create_dataset(name, data=np.frombuffer(content[8:], dtype), maxshape=(None,), chunks=(chunk,), **filters)


def other(random, kind, raw, own_corner):
    """Other entries between the same names, of a corner that they can have."""
    corner = str(random.choice(CORNERS))
    while True:
        one = random_bpcells.matrix if kind.matrix else random_bpcells.fragments
        new = one(random, kind.version, corner)
        if kind.matrix:
            return new | fitted(random, kind, raw, new)
        chromosomes, cells = raw["chr_names"].count(b"\n"), raw["cell_names"].count(b"\n")
        if not chromosomes or not cells:
            return raw
        if len(new["chr_ptr"]) == len(raw["chr_ptr"]):
            cell = np.frombuffer(new["cell"], "<u4") % cells
            return new | {"cell": cell.astype("<u4").tobytes(), "cell_names": raw["cell_names"], "chr_names": raw["chr_names"]}
        corner = own_corner


def fitted(random, kind, raw, new):
    """The same entries in a matrix of the other's shape."""
    shape = np.frombuffer(raw["shape"], "<u4")
    major, minor = shape if raw["storage_order"] == b"row\n" else shape[::-1]
    count = len(new["index"]) // 4 if major else 0
    cuts = np.sort(random.integers(0, count + 1, max(0, int(major) - 1)))
    pointers = np.concatenate([[0], cuts, [count]]) if major else np.frombuffer(raw["idxptr"], kind.pointer)
    index = np.frombuffer(new["index"], "<u4") % max(int(minor), 1)
    texts = {name: raw[name] for name in kind.texts()}
    kept = {"shape": raw["shape"], "idxptr": pointers.astype(kind.pointer).tobytes(), "index": index[:count].astype("<u4").tobytes()}
    return texts | kept | {"val": new["val"][: count * np.dtype(kind.value).itemsize]}


def renamed(random, kind, raw):
    """The same with other names; rows and columns may change places."""
    names = [name for name in kind.texts() if name != "storage_order"]
    longer = ["", "x", "größe", "long " * 50]
    other = {name: b"".join(f"{longer[random.integers(4)]}{n}\n".encode() for n in range(raw[name].count(b"\n"))) for name in names}
    if not kind.matrix or random.integers(2):
        return raw | other
    order = {b"row\n": b"col\n", b"col\n": b"row\n"}[raw["storage_order"]]
    shape = np.frombuffer(raw["shape"], "<u4")[::-1].tobytes()
    return raw | {"row_names": other["col_names"], "col_names": other["row_names"], "storage_order": order, "shape": shape}


def session(mount, seed, model):
    random, again = np.random.default_rng(int(str(seed))), np.random.default_rng([int(str(seed)), 1])
    random.integers(2)
    container, told = mount / "x.h5", {}
    for directory in again.permutation(sorted(path.name for path in container.iterdir() if "-v" in path.name)):
        kind = oracle.kind_of("-".join(directory.split("-")[:-1]))
        group = container / directory
        raw = oracle.read_raw(group)
        arrays = {name: raw[name] for name in (*kind.plain(), *kind.texts(), "version") if name != "end_max"}
        for name in kind.texts():
            assert os.stat(group / name).st_mode & 0o200, f"{directory}: {name} cannot be written"
        assert not os.stat(group / "version").st_mode & 0o222, f"{directory}: its version can be written"
        # The second time what a commit has left is changed.
        for _ in range(1 + int(again.integers(3) == 0)):
            arrays = other(again, kind, arrays, directory.split("-")[-1])
            arrays = renamed(again, kind, arrays)
            for name in again.permutation([name for name in (*kind.plain(), *kind.texts()) if name != "end_max"]):
                (group / name).write_bytes(arrays[name])
            os.setxattr(container, "user.arrayfs.commit", b"1")
            state = os.getxattr(container, "user.arrayfs.state")
            assert state == b"clean", f"{directory}: {state}"
            for name in arrays:
                assert (group / name).read_bytes() == arrays[name], f"{directory}: {name}"
            if not kind.matrix:
                ends, pointers = (np.frombuffer(arrays[name], dtype) for name, dtype in (("end", "<u4"), ("chr_ptr", kind.pointer)))
                assert (group / "end_max").read_bytes() == oracle.end_max(ends, pointers).tobytes(), directory
        told[directory] = arrays
    model.write_bytes(pickle.dumps(told))


def files_of(group, kind):
    """The files of a directory that has what the group has."""
    files = {"version": f"{group.attrs['version']}\n".encode()}
    for name, dataset in group.items():
        if name in kind.texts():
            files[name] = "".join(f"{line}\n" for line in dataset.asstr()[:]).encode()
        else:
            files[name] = oracle.MAGIC[dataset.dtype.newbyteorder("<").str] + dataset[:].tobytes()
    return files


def check(source, before, model):
    told = pickle.loads(model.read_bytes())
    with objects.opened(source / "x.h5") as file, objects.opened(before / "x.h5") as then:
        now, then = objects.described(file), objects.described(then)
        texts = {f"{name}/{text}" for name, raw in told.items() for text in oracle.kind_of(raw["version"].decode()[:-1]).texts()}
        for path in [path for path in then if path.strip("/") in texts]:
            for of in (now[path], then[path]):
                of["values"] = of["slices"] = None
        differ = [path for path in then if now.get(path) != then[path]]
        assert list(now) == list(then) and not differ, differ
        for name, raw in told.items():
            kind = oracle.kind_of(raw["version"].decode()[:-1])
            with tempfile.TemporaryDirectory() as directory:
                stored, expected = pathlib.Path(directory) / "stored", pathlib.Path(directory) / "raw"
                oracle.write_all(stored, files_of(file[name], kind))
                oracle.write_all(expected, raw)
                assert not (faults := oracle.judge(stored, expected)), f"{name}: {faults}"


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    {"make": make, "session": session, "check": check}[what](*map(pathlib.Path, arguments))
