"""BPCells containers of every kind with random content and the corners of the format, for oracle_bpcells.py."""
import numpy as np

from oracle_bpcells import CHUNK, WORD, all_versions, encoded, kind_of, write_all


def names(random, count, what):
    texts = [f"{what}-{number}" for number in range(count)]
    for number in range(0, count, 7):
        texts[number] = ["µ\tm", "", f"gène {number}", "遺伝子", "a b"][int(random.integers(5))]
    return "".join(f"{text}\n" for text in texts).encode()


def values(random, count, dtype):
    if dtype != "<u4":
        bits = random.integers(0, 256, count * np.dtype(dtype).itemsize, "u1")
        return np.frombuffer(bits.tobytes(), dtype)
    most = int(random.choice([2, 300, 1 << 20, WORD]))
    out = random.integers(1, most, count, "<u8").astype("<u4")
    if random.integers(3) == 0:
        out[random.random(count) < 0.01] = 0
    return out


def matrix(random, version, corner):
    kind = kind_of(version)
    minor = int(random.choice([1, 50, 30_000, 4_000_000, WORD - 1]))
    major = 0 if corner == "nothing" else int(random.choice([1, 7, 300]))
    count = {"nothing": 0, "empty": 0, "chunk": CHUNK}.get(corner, int(random.integers(1, 3000)))
    cuts = np.sort(random.integers(0, count + 1, max(0, major - 1)))
    pointers = np.concatenate([[0], cuts, [count]]) if major else np.array([0] * int(random.integers(1, 3)))
    if kind.number == 9999 and not major:
        pointers = np.array([0])
    index = random.integers(0, minor, count, "<u8").astype("<u4")
    if corner != "jumps":
        for begin, end in zip(pointers[:-1], pointers[1:]):
            index[int(begin) : int(end)].sort()
    by_row = bool(random.integers(2))
    shape = [major, minor] if by_row else [minor, major]
    named = [random.integers(2) and size <= 5000 for size in shape]
    return {
        "version": f"{version}\n".encode(),
        "storage_order": b"row\n" if by_row else b"col\n",
        "val": values(random, count, kind.value).tobytes(),
        "index": index.tobytes(),
        "idxptr": pointers.astype(kind.pointer).tobytes(),
        "shape": np.array(shape, "<u4").tobytes(),
        "row_names": names(random, shape[0], "row") if named[0] else b"",
        "col_names": names(random, shape[1], "col") if named[1] else b"",
    }


def fragments(random, version, corner):
    kind = kind_of(version)
    # Some chromosomes in one chunk, some that end on a border, one without fragments.
    sizes = {"nothing": [], "empty": [0, 0], "chunk": [CHUNK], "jumps": [100, 28, 0, 256, 5, 9, 1]}.get(corner)
    if sizes is None:
        sizes = random.integers(0, 900, int(random.integers(1, 6))).tolist()
    cells = int(random.choice([1, 300, 3000]))
    start = [np.sort(random.integers(0, int(random.choice([1000, 1 << 28])), size)) for size in sizes]
    start = np.concatenate([[], *start]).astype("<u4")
    ends = start + random.geometric(1 / 200, len(start)).astype("<u4")
    if len(ends):
        ends[int(random.integers(len(ends)))] = 0
    borders = np.concatenate([[0], np.cumsum(sizes)]).astype(kind.pointer)
    pairs = np.stack([borders[:-1], borders[1:]], axis=1)
    pairs = pairs[random.permutation(len(pairs))]
    return {
        "version": f"{version}\n".encode(),
        "cell": random.integers(0, cells, len(start)).astype("<u4").tobytes(),
        "start": start.tobytes(),
        "end": ends.tobytes(),
        "chr_ptr": pairs.tobytes(),
        "cell_names": names(random, cells, "cell"),
        "chr_names": names(random, len(pairs), "chr"),
    }


def make(seed, directory, raw_directory=None):
    random = np.random.default_rng(int(seed))
    for version in all_versions():
        for corner in ("nothing", "empty", "chunk", "jumps", "usual"):
            one = matrix if kind_of(version).matrix else fragments
            raw = one(random, version, corner)
            name = f"{version}-{corner}"
            write_all(directory / name, encoded(raw))
            if raw_directory:
                write_all(raw_directory / name, raw)
