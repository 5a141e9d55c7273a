#!/usr/bin/env python3
"""Binsparse containers as few programs write them, given more entries through a mount: custom levels, one value for all,
complex values, bint8, a fill value, a structure, and formats by their other names.

    unusual.py make SOURCE SEED            x.h5, a group for each
    unusual.py session MOUNT SEED MODEL    each of them gets other arrays, one by one in any order
    unusual.py check SOURCE BEFORE MODEL   the file has them, and descriptors that follow; nothing else is another than in BEFORE
"""
import json
import pathlib
import sys

import h5py
import numpy as np

import matrices
import objects


def levels(*kinds, transpose):
    level = {"level_desc": "element"}
    for kind, rank in reversed(kinds):
        level = {"level_desc": kind, "rank": rank, "level": level}
    return {"format": "custom", "custom": {"level": level, "transpose": transpose}}


# Of each: what the descriptor says beside, types and arrays, then shape and number, before and after.
CSC_AS_CUSTOM = levels(("dense", 1), ("sparse", 1), transpose=[1, 0])
COMPRESSED = dict(pointers_to_1=("<u4", [0, 1, 2], [0, 1, 2, 4]), indices_1=("<u8", [0, 2], [0, 2, 0, 1]))
CASES = {
    "custom-csc": (CSC_AS_CUSTOM, {}, COMPRESSED | dict(values=("<f4", [1, 2], [1, 2, 3, 4])), [3, 2], [3, 3], 4),
    "custom-csf": (levels(("sparse", 1), ("sparse", 1), ("sparse", 1), transpose=[2, 0, 1]), {}, dict(
        indices_0=("<u8", [0], [0, 5]), pointers_to_1=("<u8", [0, 1], [0, 1, 2]), indices_1=("<u2", [3], [3, 0]),
        pointers_to_2=("<u8", [0, 1], [0, 1, 2]), indices_2=("<u8", [4], [4, 1]), values=("<f4", [1], [1, 2])), [4, 5, 6], [4, 5, 6], 2),
    "tensor": (levels(("dense", 1), ("sparse", 2), transpose=[2, 0, 1]), {}, dict(
        pointers_to_1=("<u4", [0, 1, 2], [0, 1, 2, 3]), indices_1=("<u4", [0, 3], [0, 3, 1]), indices_2=("<u4", [0, 4], [0, 4, 2]),
        values=("<f8", [1, 2], [1, 2, 3])), [4, 5, 2], [4, 5, 3], 3),
    "iso": ({"format": "CSR"}, dict(values="iso[float32]"), COMPRESSED | dict(values=("<f4", [5], [6])), [2, 4], [3, 4], 4),
    "iso-complex": (CSC_AS_CUSTOM, dict(values="iso[complex[float64]]"), COMPRESSED | dict(values=("<f8", [5, 6], [7, 8])), [4, 2], [4, 3], 4),
    "complex": ({"format": "COO"}, dict(values="complex[float32]"), dict(
        indices_0=("<u4", [0, 1], [0, 1, 2]), indices_1=("<u4", [0, 2], [0, 2, 1]), values=("<f4", [1, 2, 3, 4], [1, 2, 3, 4, 5, 6])), [3, 3], [3, 3], 3),
    "bint8": ({"format": "DVEC"}, dict(values="bint8"), dict(values=("u1", [0, 1, 1], [1, 0, 1, 1, 0])), [3], [5], 5),
    "dmat": ({"format": "DMAT"}, {}, dict(values=("<i8", range(6), range(9))), [2, 3], [3, 3], 9),
    "fill": ({"format": "CSC", "fill": True}, dict(fill_value="iso[float64]"), COMPRESSED | dict(
        values=("<f8", [1, 2], [1, 2, 3, 4]), fill_value=("<f8", [1], [9])), [4, 2], [4, 3], 4),
    "symmetric": ({"format": "CSR", "structure": "symmetric_lower"}, {}, dict(
        pointers_to_1=("<u4", [0, 1, 2], [0, 1, 2, 4]), indices_1=("<u8", [0, 0], [0, 0, 0, 2]), values=("<f4", [1, 2], [1, 2, 3, 4])), [2, 2], [3, 3], 4),
    "hermitian": ({"format": "CSC", "structure": "hermitian_upper"}, dict(values="complex[float64]"), dict(
        pointers_to_1=("<u4", [0, 1], [0, 1, 2]), indices_1=("<u8", [0], [0, 0]), values=("<f8", [1, 0], [1, 0, 2, 3])), [1, 1], [2, 2], 2),
}


def stored_as(spelled):
    return [np.array(list(spelled[when]), spelled[0]) for when in (1, 2)]


def number(types, arrays):
    """Of stored values before anything is written."""
    kind = types.get("values", "")
    if kind.startswith("iso"):
        return len(list(arrays["indices_1"][1]))
    return len(list(arrays["values"][1])) // (2 if kind.startswith("complex") else 1)


def make(source, seed):
    random = np.random.default_rng(int(str(seed)))
    with h5py.File(source / "x.h5", "w") as file:
        for name, (says, types, arrays, shape, _, _) in CASES.items():
            group = file.create_group(name)
            types = {array: types.get(array, stored_as(of)[0].dtype.name) for array, of in arrays.items()}
            inner = dict(version="0.1", shape=shape, number_of_stored_values=number(types, arrays), data_types=types, **says)
            matrices.put_descriptor(group, str(random.choice(matrices.KINDS)), json.dumps({"comment": "[1, {2]}", "binsparse": inner}))
            for array, of in arrays.items():
                group.create_dataset(array, data=stored_as(of)[0], maxshape=(None,), chunks=(int(random.integers(1, 5)),))
        file["beside"] = np.arange(10)


def session(mount, seed, model):
    random = np.random.default_rng([int(str(seed)), 1])
    container = mount / "x.h5"
    for name in random.permutation(list(CASES)):
        says, types, arrays, _, shape, count = CASES[str(name)]
        assert not (container / "error.txt").exists(), (container / "error.txt").read_text()
        matrices.put_all(random, container / str(name), container, {array: stored_as(of)[1] for array, of in arrays.items()})
        shown = json.loads((container / str(name) / "binsparse.json").read_text())["binsparse"]
        assert (shown["shape"], shown["number_of_stored_values"]) == (shape, count), f"{name}: {shown}"


def check(source, before, _):
    with objects.opened(source / "x.h5") as now, objects.opened(before / "x.h5") as then:
        assert now["beside"][:].tolist() == list(range(10))
        for name, (_, _, arrays, _, shape, count) in CASES.items():
            told, was = (json.loads(matrices.told_by(file[name]).rstrip(" \0")) for file in (now, then))
            was["binsparse"].update(shape=shape, number_of_stored_values=count)
            assert told == was, f"{name}: {told}, not {was}"
            assert list(now[name]) == list(then[name])
            for array, of in arrays.items():
                found, expected = now[name][array], stored_as(of)[1]
                assert found.dtype == expected.dtype == then[name][array].dtype, f"{name}/{array}: {found.dtype}"
                assert found[:].tolist() == expected.tolist(), f"{name}/{array}: {found[:]}"


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    {"make": make, "session": session, "check": check}[what](*map(pathlib.Path, arguments))
