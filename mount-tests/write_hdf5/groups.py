#!/usr/bin/env python3
"""BPCells groups of new HDF5 files.

    groups.py same SOURCE COPIES         of all groups of the files of SOURCE, the copies have the arrays, as BPCells writes them
    groups.py filtered SOURCE COPIES     and their datasets go through the same filters
    groups.py hold FILE DIRECTORY        every group of FILE holds what the BPCells directory of its name holds, byte by byte
    groups.py plain FILE NAME            the group NAME is none of BPCells', and its `version` is a dataset

BPCells' Python package reads directories alone: what a group holds is put into the files of one for it.
"""
import pathlib
import sys
import tempfile

import bpcells.cpp
import h5py
import numpy as np
import pandas as pd
from bpcells.experimental import pseudobulk_insertion_counts

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import objects
import oracle_bpcells as oracle
import packed

CHUNK = (1024,)


def groups_of(file):
    found = {"": file} if "version" in file.attrs else {}
    file.visititems(lambda name, of: found.update({name: of}) if "version" in of.attrs else None)
    return found


def kind_of(group):
    return oracle.kind_of(group.attrs["version"])


def as_written(name, group, kind):
    """How BPCells' own writer makes its datasets."""
    assert sorted(group) == sorted(set(kind.members()) - {"version"}), f"{name}: {sorted(group)}"
    version = group.attrs.get_id("version")
    assert version.get_type().is_variable_str() and version.shape == (), f"{name}: version"
    for dataset in group.values():
        if dataset.dtype == object:
            assert dataset.chunks is None and dataset.maxshape == dataset.shape, dataset
            assert dataset.id.get_type().get_cset() == h5py.h5t.CSET_UTF8, dataset
        else:
            assert dataset.chunks and dataset.maxshape == (None,) and dataset.dtype.byteorder in "=<", dataset


def directory_of(at, group, kind):
    oracle.write_all(at, packed.files_of(group, kind))
    return at


def read_by_the_library(name, directory, kind, raw):
    if kind.version == "packed-uint-matrix-v2":
        assert not (faults := oracle.pip(directory, raw)), f"{name}: {faults}"
    if kind.version == "packed-fragments-v2":
        expected = oracle.read_raw(raw)
        cells = bpcells.cpp.cell_names_fragments_dir(str(directory))
        chromosomes = bpcells.cpp.chr_names_fragments_dir(str(directory))
        assert cells == expected["cell_names"].decode().splitlines(), name
        assert chromosomes == expected["chr_names"].decode().splitlines(), name
        return cells, chromosomes
    return None


def insertions(directory, cells, chromosomes):
    regions = pd.DataFrame({"chrom": chromosomes, "start": 0, "end": 100_000})
    return pseudobulk_insertion_counts(str(directory), regions, [0] * len(cells), 1000)


def same(source, copies, filters=False):
    compared = counted = 0
    for path in sorted(source.glob("*.h5")):
        if path.name.startswith("bad-"):
            continue
        with objects.opened(path) as then, objects.opened(copies / path.name) as now, tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            assert sorted(groups_of(then)) == sorted(groups_of(now)), path
            for number, (name, group) in enumerate(groups_of(then).items()):
                kind, copy = kind_of(group), now[name or "/"]
                assert kind_of(copy) == kind, f"{path.name}: {name}"
                as_written(name, copy, kind)
                if filters:
                    settings = lambda one: (one.chunks, one.compression, one.compression_opts, one.shuffle)  # noqa: E731
                    assert {one: settings(group[one]) for one in group} == {one: settings(copy[one]) for one in copy}, f"{path.name}: {name}"
                before, after, raw = (scratch / f"{what}{number}" for what in ("before", "after", "raw"))
                directory_of(before, group, kind)
                directory_of(after, copy, kind)
                oracle.write_all(raw, oracle.decoded(before)[1])
                assert not (faults := oracle.judge(after, raw)), f"{path.name}: {name}: {faults}"
                names = read_by_the_library(name, after, kind, raw)
                if names and filters:
                    counts = insertions(after, *names)
                    assert (counts == insertions(before, *names)).all()
                    counted += counts.sum()
                compared += 1
    assert compared and (counted or not filters)
    print(compared, "groups")


def hold(path, directory):
    with objects.opened(path) as file, tempfile.TemporaryDirectory() as scratch:
        expected = sorted(one.name for one in directory.iterdir())
        assert sorted(file) == expected, sorted(file)
        for name in expected:
            group = file[name]
            as_written(name, group, kind_of(group))
            assert all(of.chunks in (None, CHUNK) and of.compression is None for of in group.values()), name
            files = packed.files_of(group, kind_of(group))
            stored = oracle.read_raw(directory / name)
            differ = [one for one in {*files, *stored} if files.get(one) != stored.get(one)]
            assert not differ, f"{name}: {differ}"
            at, raw = pathlib.Path(scratch) / name, pathlib.Path(scratch) / f"{name}.raw"
            oracle.write_all(raw, oracle.decoded(directory / name)[1])
            read_by_the_library(name, directory_of(at, group, kind_of(group)), kind_of(group), raw)
    print(len(expected), "groups")


def plain(path, name):
    with objects.opened(path) as file:
        assert "version" not in file[name].attrs and isinstance(file[name]["version"], h5py.Dataset)
        assert file[name]["index"][:].tolist() == [1, 2]


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    if what == "plain":
        plain(*paths)
    else:
        paths = map(pathlib.Path, paths)
        {"same": same, "hold": hold, "filtered": lambda *paths: same(*paths, filters=True)}[what](*paths)
