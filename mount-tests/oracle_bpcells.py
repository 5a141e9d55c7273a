"""BPCells directories read and written a second time, after the description of the format alone, and by the real library.

    oracle_bpcells.py judge CONTAINER EXPECTED ...   containers hold exactly these arrays (directories of raw files), and every
                                                     file of theirs is what a writer makes of them
    oracle_bpcells.py make SEED DIRECTORY [RAW]      containers of every kind, and their arrays as raw files
    oracle_bpcells.py encode RAW CONTAINER ...       the container of raw arrays
    oracle_bpcells.py decode CONTAINER RAW ...       and back
    oracle_bpcells.py pip CONTAINER EXPECTED ...     the real library reads the matrix of these arrays (packed uint only)
    oracle_bpcells.py scale CONTAINER FACTOR         multiplies `val` through a mapping, in a mount
"""
import os
import pathlib
import sys
from typing import NamedTuple

import numpy as np

MAGIC = {"<u4": b"UINT32v1", "<u8": b"UINT64v1", "<f4": b"FLOATSv1", "<f8": b"DOUBLEv1"}
VALUES = {"uint": "<u4", "float": "<f4", "double": "<f8"}
CHUNK = 128
WORD = 1 << 32


class Broken(Exception):
    """What a container holds is not what the format says."""


def require(holds, what):
    if not holds:
        raise Broken(what)


class Kind(NamedTuple):
    """What a version string says."""

    version: str
    packed: bool
    matrix: bool
    value: str
    number: int

    @property
    def pointer(self):
        return "<u8" if self.number == 2 else "<u4"

    @property
    def offsets(self):
        return self.number != 1

    def transforms(self):
        """The packed arrays, and how their values are transformed."""
        if not self.packed:
            return {}
        if not self.matrix:
            return {"cell": "plain", "start": "d1", "end": "plain"}
        packed = {"index": "d1z"}
        if self.value == "<u4":
            packed["val"] = "m1"
        if self.number == 9999:
            packed["idxptr"] = "d1"
        return packed

    def plain(self):
        """Arrays of numbers, and their types as they are shown."""
        if self.matrix:
            return {"val": self.value, "index": "<u4", "idxptr": self.pointer, "shape": "<u4"}
        return {"cell": "<u4", "start": "<u4", "end": "<u4", "end_max": "<u4", "chr_ptr": self.pointer}

    def texts(self):
        return ["row_names", "col_names", "storage_order"] if self.matrix else ["cell_names", "chr_names"]

    def members(self):
        """Every file of a container."""
        names = ["version", *self.texts()]
        for name in self.plain():
            transform = self.transforms().get(name)
            names += [name] if transform is None else [f"{name}_{part}" for part in self.parts(transform)]
        return names

    def parts(self, transform):
        starts = ["starts"] if transform in ("d1", "d1z") else []
        return ["data", "idx", *(["idx_offsets"] if self.offsets else []), *starts]


def kind_of(version):
    words = version.split("-")
    require(words[0] in ("packed", "unpacked") and words[-1][:1] == "v", f"version {version}")
    number, packed = int(words[-1][1:]), words[0] == "packed"
    if words[1:-1] == ["fragments"]:
        kind = Kind(version, packed, False, "<u4", number)
    else:
        require(len(words) == 4 and words[2] == "matrix" and words[1] in VALUES, f"version {version}")
        kind = Kind(version, packed, True, VALUES[words[1]], number)
    allowed = (1, 2, 9999) if kind.matrix and packed else (1, 2)
    require(number in allowed, f"version {version}")
    return kind


def all_versions():
    for number in (1, 2, 9999):
        for packing in ("packed", "unpacked"):
            if number != 9999 or packing == "packed":
                yield from (f"{packing}-{value}-matrix-v{number}" for value in VALUES)
            if number != 9999:
                yield f"{packing}-fragments-v{number}"


# BP-128. All arithmetic is modulo 2^32; chunks are rows of 128 numbers.


def fields(bits):
    """For each of the 32 rows of a chunk: the word of a lane in which its field begins, and at which bit."""
    return [(row * bits // 32, row * bits % 32) for row in range(32)]


def pack_fields(chunks, bits):
    """Words of chunks that are all this wide."""
    rows = chunks.reshape(-1, 32, 4).astype("<u8")
    words = np.zeros((len(rows), bits, 4), "<u8")
    for row, (word, bit) in enumerate(fields(bits)):
        value = rows[:, row, :] << np.uint64(bit)
        words[:, word, :] |= value & np.uint64(WORD - 1)
        if bit + bits > 32:
            words[:, word + 1, :] |= value >> np.uint64(32)
    return words.reshape(len(rows), 4 * bits).astype("<u4")


def unpack_fields(words, bits):
    lanes = words.reshape(-1, bits, 4).astype("<u8")
    chunks = np.zeros((len(lanes), 32, 4), "<u8")
    for row, (word, bit) in enumerate(fields(bits)):
        value = lanes[:, word, :] >> np.uint64(bit)
        if bit + bits > 32:
            value |= lanes[:, word + 1, :] << np.uint64(32 - bit)
        chunks[:, row, :] = value & np.uint64((1 << bits) - 1)
    return chunks.reshape(-1, CHUNK).astype("<u4")


def differences(chunks):
    out = np.zeros_like(chunks)
    out[:, 1:] = chunks[:, 1:] - chunks[:, :-1]
    return out


def zigzag(steps):
    return (steps << np.uint32(1)) ^ (steps.view("<i4") >> np.int32(31)).view("<u4")


def unzigzag(coded):
    return (coded >> np.uint32(1)) ^ (np.uint32(0) - (coded & np.uint32(1)))


def transformed(chunks, transform):
    if transform == "m1":
        return chunks - np.uint32(1)
    if transform == "d1":
        return differences(chunks)
    return zigzag(differences(chunks)) if transform == "d1z" else chunks


def restored(coded, transform, starts):
    if transform == "m1":
        return coded + np.uint32(1)
    if transform == "plain":
        return coded
    steps = unzigzag(coded) if transform == "d1z" else coded
    sums = np.cumsum(steps, axis=1, dtype="<u4")
    return sums + starts[:, None]


def widths_of(chunks):
    either = np.bitwise_or.reduce(chunks, axis=1) if len(chunks) else np.zeros(0, "<u4")
    return np.array([int(value).bit_length() for value in either], "<i8")


def encode_stream(values, transform, offsets):
    """The files of a packed array, by the second part of their names."""
    count = -(-len(values) // CHUNK)
    filled = np.empty(count * CHUNK, "<u4")
    filled[: len(values)] = values
    if len(values):
        filled[len(values) :] = values[-1]
    chunks = filled.reshape(count, CHUNK)
    coded = transformed(chunks, transform)
    widths = widths_of(coded)
    ends = np.concatenate([[0], np.cumsum(4 * widths)]).astype("<i8")
    data = np.zeros(int(ends[-1]), "<u4")
    for bits in range(1, 33):
        which = np.flatnonzero(widths == bits)
        words = pack_fields(coded[which], bits) if bits < 32 else chunks[which]
        data[ends[which][:, None] + np.arange(4 * bits)] = words
    require(int(ends[-1]) < WORD, "too long for this oracle")
    files = {"data": with_magic(data), "idx": with_magic(ends.astype("<u4"))}
    if offsets:
        files["idx_offsets"] = with_magic(np.array([0, count + 1], "<u8"))
    if transform in ("d1", "d1z"):
        files["starts"] = with_magic(chunks[:, 0].astype("<u4"))
    return files


def decode_stream(read, transform, offsets, length):
    """`read` gives the file of a part, as numbers. Nothing may be missing, and nothing left over."""
    count = -(-length // CHUNK)
    data, idx = read("data", "<u4"), read("idx", "<u4").astype("<i8")
    require(len(idx) == count + 1, f"{len(idx)} entries in idx for {length} values")
    if offsets:
        require(read("idx_offsets", "<u8").tolist() == [0, count + 1], "idx_offsets")
    starts = read("starts", "<u4") if transform in ("d1", "d1z") else np.zeros(count, "<u4")
    require(len(starts) == count, f"{len(starts)} starts for {count} chunks")
    steps = np.diff(idx)
    require(idx[0] == 0 and (steps >= 0).all() and (steps <= 128).all() and (steps % 4 == 0).all(), "steps of idx")
    require(int(idx[-1]) == len(data), f"{len(data)} words, idx ends at {idx[-1]}")
    values = np.zeros((count, CHUNK), "<u4")
    for bits in range(33):
        which = np.flatnonzero(steps == 4 * bits)
        words = data[idx[which][:, None] + np.arange(4 * bits, dtype="<i8")]
        if bits == 32:
            values[which] = words
        else:
            coded = unpack_fields(words, bits) if bits else np.zeros((len(which), CHUNK), "<u4")
            values[which] = restored(coded, transform, starts[which])
    return values.reshape(-1)[:length]


def with_magic(values):
    return MAGIC[values.dtype.str] + values.tobytes()


# Containers. Raw arrays are bytes, by their names, as a mount shows them.


def numbers(kind, raw, name):
    dtype = np.dtype(kind.plain()[name])
    require(len(raw[name]) % dtype.itemsize == 0, f"{name} has {len(raw[name])} bytes")
    return np.frombuffer(raw[name], dtype)


def lines(text):
    """Of one file of lines; CRLF and a missing last line end are read."""
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return text.replace(b"\r\n", b"\n")


def end_max(ends, pointers):
    """Every 128 fragments: the maximum of their chromosome up to here, and of those that ended since the last time."""
    out, at, current, carry = [], 0, 0, 0
    for begin, end in sorted(pair for pair in pointers.reshape(-1, 2).tolist() if pair[0] < pair[1]):
        require(begin == at, f"a chromosome begins at {begin}, the one before ended at {at}")
        carry, current = max(carry, current), 0
        while at < end:
            stop = min(end, (at // CHUNK + 1) * CHUNK)
            current = max(current, int(ends[at:stop].max()))
            at = stop
            if at % CHUNK == 0:
                out.append(max(current, carry))
                carry = 0
    if at % CHUNK:
        out.append(max(current, carry))
    return np.array(out, "<u4")


def encoded(raw):
    """Every file of the container of these arrays."""
    version = raw["version"].decode()
    require(version.count("\n") == 1 and version.endswith("\n"), "version is no line")
    kind = kind_of(version[:-1])
    check(kind, raw)
    files = {name: raw[name] for name in ["version", *kind.texts()]}
    arrays = {name: numbers(kind, raw, name) for name in kind.plain() if name != "end_max"}
    if not kind.matrix:
        arrays["end_max"] = end_max(arrays["end"], arrays["chr_ptr"])
        if kind.packed:
            arrays["end"] = arrays["end"] - arrays["start"]
    for name, values in arrays.items():
        transform = kind.transforms().get(name)
        if transform is None:
            files[name] = with_magic(values)
        else:
            stream = encode_stream(values, transform, kind.offsets)
            files |= {f"{name}_{part}": content for part, content in stream.items()}
    require(sorted(files) == sorted(kind.members()), f"files {sorted(files)}")
    return files


def check(kind, raw):
    """The rules between arrays."""
    of = {name: numbers(kind, raw, name) for name in kind.plain() if name in raw}
    for name in kind.texts():
        require(lines(raw[name]) == raw[name] and b"\0" not in raw[name], f"{name} is no text of lines")
    count = {name: raw[name].count(b"\n") for name in kind.texts()}
    if not kind.matrix:
        pointers = of["chr_ptr"]
        total = int(pointers.max()) if len(pointers) else 0
        require(len(pointers) % 2 == 0 and (pointers[0::2] <= pointers[1::2]).all(), "chr_ptr")
        require({len(of[name]) for name in ("cell", "start", "end")} == {total}, "lengths")
        require(count["chr_names"] <= len(pointers) // 2, "chr_names")
        require(total == 0 or int(of["cell"].max()) < count["cell_names"], "cell numbers")
        for begin, end in pointers.reshape(-1, 2).tolist():
            start = of["start"][begin:end]
            require((start[1:] >= start[:-1]).all(), "start goes back")
        return
    require(raw["storage_order"] in (b"col\n", b"row\n"), "storage_order")
    require(len(of["shape"]) == 2, "shape")
    shape, pointers = of["shape"].tolist(), of["idxptr"].astype("<i8")
    minor, major = shape if raw["storage_order"] == b"col\n" else shape[::-1]
    none = major == 0 and pointers.tolist() == [0, 0]
    require(none or len(pointers) == major + 1, f"{len(pointers)} entries in idxptr for {major}")
    require(pointers[0] == 0 and (np.diff(pointers) >= 0).all(), "idxptr does not rise")
    require(len(of["val"]) == len(of["index"]) == pointers[-1], "lengths")
    require(len(of["index"]) == 0 or int(of["index"].max()) < minor, "index is out of the matrix")
    for name, all_of_them in (("row_names", shape[0]), ("col_names", shape[1])):
        require(count[name] in (0, all_of_them), f"{count[name]} {name} for {all_of_them}")


def decoded(container):
    """Every array of a container, read by the letter."""
    version = lines((container / "version").read_bytes())
    kind = kind_of(version.decode().removesuffix("\n"))

    def stored(name, dtype):
        content = (container / name).read_bytes()
        itemsize = np.dtype(dtype).itemsize
        require(content[:8] == MAGIC[dtype], f"{name} begins with {content[:8]}")
        require((len(content) - 8) % itemsize == 0, f"{name} has a part of a value")
        return np.frombuffer(content, dtype, offset=8)

    def array(name, length):
        dtype = kind.plain()[name]
        transform = kind.transforms().get(name)
        if transform is None:
            values = stored(name, dtype)
            require(length is None or len(values) == length, f"{name} has {len(values)} values, not {length}")
            return values
        part = lambda part, dtype: stored(f"{name}_{part}", dtype)  # noqa: E731
        return decode_stream(part, transform, kind.offsets, length).astype(dtype)

    raw = {name: lines((container / name).read_bytes()) for name in kind.texts()}
    if kind.matrix:
        shape = array("shape", 2)
        order = raw["storage_order"] = raw["storage_order"].splitlines(keepends=True)[0]
        major = int(shape[1 if order == b"col\n" else 0])
        pointers = array("idxptr", major + 1 if kind.number == 9999 else None)
        length = int(pointers[-1])
        arrays = {"shape": shape, "idxptr": pointers}
        arrays |= {name: array(name, length) for name in ("val", "index")}
    else:
        pointers = array("chr_ptr", None)
        length = int(pointers.max()) if len(pointers) else 0
        arrays = {"chr_ptr": pointers, "end_max": array("end_max", -(-length // CHUNK))}
        arrays |= {name: array(name, length) for name in ("cell", "start", "end")}
        if kind.packed:
            arrays["end"] = arrays["end"] + arrays["start"]
    raw |= {name: values.tobytes() for name, values in arrays.items()}
    return kind, {"version": version, **raw}


def read_raw(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def write_all(directory, files):
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)


# What is asked of it.


def faults(container, expected):
    kind, found = decoded(container)
    for name in found:
        if name == "end_max":
            continue
        if name not in expected:
            yield f"{name} is not expected"
        elif found[name] != expected[name]:
            yield f"{name} is something else: {first_difference(found[name], expected[name])}"
    if not kind.matrix:
        pointers = numbers(kind, found, "chr_ptr")
        if end_max(numbers(kind, found, "end"), pointers).tobytes() != found["end_max"]:
            yield "end_max is not what the writer gives"
    for name, content in encoded({name: expected[name] for name in found if name != "end_max"}).items():
        stored = (container / name).read_bytes()
        if stored != content:
            yield f"{name} is not canonical: {first_difference(stored, content)}"
    known = {name for version in all_versions() for name in kind_of(version).members()}
    for path in container.iterdir():
        if path.name in known and path.name not in kind.members():
            yield f"{path.name} is of another kind"


def first_difference(one, two):
    at = next((at for at, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
    return f"from byte {at}, {len(one)} and {len(two)} bytes"


def judge(container, raw):
    return list(faults(container, read_raw(raw)))


def pip(container, raw):
    import scipy.sparse as sp
    from bpcells.experimental import DirMatrix

    expected = read_raw(raw)
    kind = kind_of(expected["version"].decode()[:-1])
    of = {name: numbers(kind, expected, name) for name in kind.plain()}
    shape = of["shape"].tolist()
    by_row = expected["storage_order"] == b"row\n"
    pointers = of["idxptr"].astype("<i8")
    # Without columns it sees one; it has memory for a number of each row, and crashes with very many.
    if 0 in shape or max(shape) > 5_000_000:
        return []
    form = sp.csr_matrix if by_row else sp.csc_matrix
    wanted = form((of["val"].astype("<i8"), of["index"].astype("<i8"), pointers), shape=tuple(shape)).tocsc()
    found = DirMatrix(str(container))
    if tuple(found.shape) != tuple(shape):
        return [f"the library sees {found.shape}, not {shape}"]
    found = sp.csc_matrix(found[:, :]).astype("<i8")
    # Duplicates and their order are the storage's own; SciPy adds them up in 32 bits.
    for matrix in (found, wanted):
        matrix.sum_duplicates()
        matrix.data %= WORD
        matrix.eliminate_zeros()
    same = all(np.array_equal(getattr(found, part), getattr(wanted, part)) for part in ("indptr", "indices", "data"))
    return [] if same else ["the library reads other values"]


def encode(raw, container):
    write_all(container, encoded(read_raw(raw)))


def decode(container, raw):
    write_all(raw, decoded(container)[1])


def scale(container, factor):
    dtype = os.getxattr(container / "val", "user.arrayfs.dtype").decode()
    values = np.memmap(container / "val", dtype=dtype, mode="r+")
    values *= values.dtype.type(factor)
    values.flush()


def each(work, paths):
    """Pairs of paths."""
    failed = 0
    for one, two in zip(paths[0::2], paths[1::2], strict=True):
        try:
            found = work(one, two) or []
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        failed += len(found)
        for fault in found[:4]:
            print(f"{one.name}: {fault}")
    sys.exit(failed > 0)


def main():
    command, *arguments = sys.argv[1:]
    if command == "make":
        # It needs what is above.
        import random_bpcells

        random_bpcells.make(arguments[0], *map(pathlib.Path, arguments[1:]))
    elif command == "scale":
        scale(pathlib.Path(arguments[0]), arguments[1])
    else:
        works = {"judge": judge, "pip": pip, "encode": encode, "decode": decode}
        each(works[command], [pathlib.Path(argument) for argument in arguments])


if __name__ == "__main__":
    main()
