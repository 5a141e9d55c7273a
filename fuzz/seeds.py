"""Writes seeds for the fuzzers out of the golden containers: what they change is real to begin with.

    python3 fuzz/seeds.py GOLDEN... OUT

GOLDEN: directories like mount-tests/golden. OUT/TARGET/ gets a file for each seed. Only Python.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

# Larger ones slow the fuzzer down without showing it more.
MOST = 48 << 10


def put(out: Path, target: str, data: bytes) -> None:
    if len(data) <= MOST:
        directory = out / target
        directory.mkdir(parents=True, exist_ok=True)
        (directory / hashlib.sha1(data).hexdigest()).write_bytes(data)


def member(end: str, data: bytes) -> bytes:
    """As src/formats/container/fuzzed.rs reads a file of several."""
    return end.encode() + b"\0" + struct.pack("<I", len(data))[:3] + data


def blosc_chunks(data: bytes):
    """Wherever something looks like the header of a chunk."""
    for at in range(len(data) - 16):
        version, _, _, _, nbytes, blocksize, ctbytes = struct.unpack_from("<4B3I", data, at)
        fits = 16 <= ctbytes <= len(data) - at and 0 < nbytes <= 1 << 20
        if version == 2 and fits and 0 < blocksize <= nbytes:
            yield data[at : at + ctbytes]


def file_seeds(path: Path, out: Path) -> None:
    data = path.read_bytes() if path.stat().st_size <= 1 << 20 else b""
    match path.suffix:
        case ".blp" | ".blpk":
            put(out, "bloscpack", data)
            for chunk in list(blosc_chunks(data))[:3]:
                put(out, "blosc", chunk)
        case ".nc":
            put(out, "hdf5" if data[:4] == b"\x89HDF" else "netcdf", data)
        case ".h5" | ".h5ad":
            put(out, "hdf5", data)
        case ".zip":
            put(out, "zarr_zip", data)
        case ".dbdf":
            files = member("", data)
            beside = path.with_name(path.name + ".meta")
            if beside.exists():
                files += member(".meta", beside.read_bytes())
            put(out, "daphne", files)


def store_seeds(path: Path, files: list[Path], out: Path) -> None:
    """A store below a group: names that begin with a point are files beside, else."""
    group = member("zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    named = (member(f"s/{file.relative_to(path)}", file.read_bytes()) for file in files)
    put(out, "zarr", group + b"".join(named))


def directory_seeds(path: Path, out: Path) -> None:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if path.suffix == ".zarr":
        return store_seeds(path, files, out)
    if sum(file.stat().st_size for file in files) <= MOST:
        named = (member(str(file.relative_to(path)), file.read_bytes()) for file in files)
        put(out, "bpcells", b"".join(named))


def text_seeds(manifest: Path, out: Path) -> None:
    for case in json.loads(manifest.read_text())["cases"]:
        for array in case.get("arrays", []):
            dtype, name = array.get("dtype"), array.get("name", "")
            if isinstance(dtype, str):
                put(out, "literal", dtype.encode())
            put(out, "names", str(name).encode())
            given = {
                "format": case.get("format", manifest.parent.name),
                "arrays": [
                    {"name": name, "dtype": dtype, "shape": array.get("shape", [1]), "order": "C"}
                ],
            }
            put(out, "description", json.dumps(given).encode())


def made_seeds(out: Path) -> None:
    """Words and small inputs whose form no container has."""
    for literal in (
        "[('a', '<f4'), ('b', '>i8', (2, 2)), ('c', '|S3')]",
        "[(('title', 'a'), '<i4'), ('', '|V7')]",
        '["a", "<f8"]',
        "<M8[25s]",
        "uint16",
        "'\\u00e9\\x01'",
    ):
        put(out, "literal", literal.encode())
    for name in (b"a/b", b"..", b"\xff\0a\0a", b"%2F", b"a~2", b"x" * 300, b"views\0arrays.json"):
        put(out, "names", name)
    words = ["64M", "1.5G", "1000x700", "0,...,::2", "-1:3", "[1:2, -5]", "ro,cache=64M,uid=7"]
    words += ["scratch=zstd:3,chunk=1M,umask=027", "settle=5,commit=inplace,log=x.log"]
    for word in words:
        put(out, "command_line", b"\x02\x0a\0\0\0\x05\0\0\0" + word.encode())
    run = bytes(range(256)) * 4
    for transform in range(4):
        put(out, "bp128_encode", bytes([transform]) + run)
        put(out, "bp128", bytes([transform, 0]) + b"\0\0\0\0\x02\x08\x09" + run)
    for compressor in range(6):
        for shuffle in range(3):
            head = bytes([compressor, shuffle, 5, 0, 0, 0, 0, 0, 4, 60])
            put(out, "blosc_encode", head + run)
    # Numbers of values: src/fuzzing/codecs.rs says which filter is which.
    values = {0: [6], 1: [4], 2: [], 3: [141, 32, 16, 512], 6: [9], 7: [0, 2, 0, 2048]}
    values |= {8: [2, 2, 4, 2048, 5, 1, 1], 9: [0], 10: [0, 4, 4, 0, 2], 11: [3]}
    values |= {5: [2, 0, 512, 0, 4, 0, 0, 0], 12: [1, 2, 4, 2048, 5, 1, 5]}
    for number, given in values.items():
        packed = b"".join(struct.pack("<I", value) for value in given)
        head = b"\x01" + bytes([number, len(given)]) + packed + b"\0\x08\0"
        put(out, "filters_encode", head + run)
        put(out, "filters", b"\0" + head + run)


def main() -> None:
    *golden, out = map(Path, sys.argv[1:])
    for corpus in (manifest.parent for root in golden for manifest in root.glob("*/manifest.json")):
        for path in sorted(corpus.glob("sources/**/*")):
            if path.is_file():
                file_seeds(path, out)
            elif (path / "version").exists() or path.suffix == ".zarr":
                directory_seeds(path, out)
        text_seeds(corpus / "manifest.json", out)
    made_seeds(out)


if __name__ == "__main__":
    main()
