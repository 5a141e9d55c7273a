"""The part of oracle.py that writes DAPHNE files: random objects in random tilings of all block types, in the
specification's form and in the two that the program has written.

Cells are kept beside as NumPy arrays: what a block stores is noted as it is written.
"""
import struct

import numpy as np

SPEC = {code: np.dtype(name) for code, name in enumerate("u1 <u2 <u4 <u8 i1 <i2 <i4 <i8 <f4 <f8".split(), 1)}
PROGRAM = {code: np.dtype(name) for code, name in enumerate("i1 <i4 <i8 u1 <u4 <u8 <f4 <f8".split())}
DENSE, CSR, FRAME = 1, 2, 3


def write_daphne(random, source, expected, expect):
    for number in range(40):
        for kind, write in enumerate([write_dense, write_csr, write_frame], DENSE):
            name = f"spec-{kind}-{number}.dbdf"
            write(random, source / name, lambda array, values, name=name: expect(expected, name, array, values))
    for number in range(20):
        for kind, write in enumerate([program_dense, program_csr, program_csr_2022, program_frame]):
            name = f"program-{kind}-{number}.dbdf"
            write(random, source / name, lambda array, values, name=name: expect(expected, name, array, values))


def some_shape(random):
    return int(random.integers(1, 120)), int(random.integers(1, 60))


def some_bits(random, dtype, shape):
    """Any bits at all, or numbers that every type can hold."""
    count = int(np.prod(shape))
    if dtype is not None:
        return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()
    return random.integers(0, 128, shape)


def tiles(random, r, c, rows, columns, depth=0):
    """Cuts a rectangle into tiles; sometimes a pinwheel, which no straight cut makes."""
    choice = random.integers(5) if depth < 5 and rows * columns > 1 else 0
    if choice == 0:
        return [(r, c, rows, columns)]
    if choice == 1 and rows > 2 and columns > 2:
        a, b = int(random.integers(1, rows - 1)), int(random.integers(1, columns - 1))
        m, n = int(random.integers(a + 1, rows)), int(random.integers(b + 1, columns))
        arms = [(0, 0, a, n), (0, n, m, columns - n), (m, b, rows - m, columns - b), (a, 0, rows - a, b), (a, b, m - a, n - b)]
        return [(r + y, c + x, h, w) for y, x, h, w in arms]
    if rows > 1 and (columns == 1 or random.integers(2)):
        at = int(random.integers(1, rows))
        parts = [(r, c, at, columns), (r + at, c, rows - at, columns)]
    else:
        at = int(random.integers(1, columns))
        parts = [(r, c, rows, at), (r, c + at, rows, columns - at)]
    return [tile for part in parts for tile in tiles(random, *part, depth + 1)]


def write_blocks(random, shape, dtypes):
    """The body of an object; its cells as one array for each column, and which of them are entries."""
    rows, columns = shape
    cells = [np.zeros(rows, dtype) for dtype in dtypes]
    stored = np.zeros(shape, bool)
    body = []
    parts = tiles(random, 0, 0, rows, columns)
    for index in random.permutation(len(parts)):
        r, c, h, w = parts[index]
        own = {dtypes[column] for column in range(c, c + w)}
        if len(own) == 1 and random.integers(2):
            dtype = own.pop()
            values = some_bits(random, dtype, (h, w))
        else:
            dtype = SPEC[int(random.integers(1, 11))]
            values = some_bits(random, None, (h, w)).astype(dtype)
        values[random.random((h, w)) < 0.2] = 0
        kind = int(random.integers(4))
        entries = random.random((h, w)) < random.random()
        if kind == 0:
            entries[:] = False
        elif kind == 1:
            entries[:] = True
        body.append(struct.pack("<QQIIB", r, c, h, w, kind) + block(random, kind, dtype, values, entries))
        for column in range(w):
            shown = values[:, column].astype(dtypes[c + column])
            cells[c + column][r : r + h] = np.where(entries[:, column], shown, cells[c + column][r : r + h])
        # A dense block stores every cell, but only what is not zero becomes an entry.
        stored[r : r + h, c : c + w] = entries & (values != 0) if kind == 1 else entries
    return b"".join(body), cells, stored


def block(random, kind, dtype, values, entries):
    if kind == 0:
        return b""
    code = bytes([next(code for code, known in SPEC.items() if known == dtype)])
    if kind == 1:
        return code + values.tobytes()
    if kind == 2:
        out = [code, struct.pack("<Q", entries.sum())]
        for row in range(len(values)):
            places = random.permutation(np.flatnonzero(entries[row]))
            out.append(struct.pack("<I", len(places)))
            out += [struct.pack("<I", place) + values[row, place].tobytes() for place in places]
        return b"".join(out)
    places = random.permutation(np.argwhere(entries))
    out = [code, struct.pack("<I", len(places))]
    for row, column in places:
        place = struct.pack("<I", row) if values.shape[1] == 1 else struct.pack("<II", row, column)
        out.append(place + values[row, column].tobytes())
    return b"".join(out)


def matrix(cells):
    return np.ascontiguousarray(np.stack(cells, axis=1))


def expect_csr(expect, values, stored):
    counts = stored.sum(axis=1)
    expect("row_offsets", np.concatenate([[0], np.cumsum(counts)]).astype("<u8"))
    expect("col_idxs", np.nonzero(stored)[1].astype("<u8"))
    expect("values", values[stored])


def write_dense(random, path, expect):
    shape, code = some_shape(random), int(random.integers(1, 11))
    body, cells, _ = write_blocks(random, shape, [SPEC[code]] * shape[1])
    path.write_bytes(struct.pack("<BBQQB", 1, DENSE, *shape, code) + body)
    expect("values", matrix(cells))


def write_csr(random, path, expect):
    shape, code = some_shape(random), int(random.integers(1, 11))
    body, cells, stored = write_blocks(random, shape, [SPEC[code]] * shape[1])
    path.write_bytes(struct.pack("<BBQQB", 1, CSR, *shape, code) + body)
    expect_csr(expect, matrix(cells), stored)


def write_frame(random, path, expect):
    shape = (int(random.integers(1, 120)), int(random.integers(1, 12)))
    codes = [int(random.integers(1, 11)) for _ in range(shape[1])]
    labels = [f"column {n} größe" for n in range(shape[1])]
    body, cells, _ = write_blocks(random, shape, [SPEC[code] for code in codes])
    path.write_bytes(struct.pack("<BBQQ", 1, FRAME, *shape) + bytes(codes) + pack_labels(labels) + body)
    expect_frame(expect, labels, labels, cells)


def pack_labels(labels):
    encoded = [label.encode() for label in labels]
    return b"".join(struct.pack("<H", len(label)) + label for label in encoded)


def expect_frame(expect, names, labels, cells):
    for name, values in zip(names, cells):
        expect(f"columns/{name}", values)
    if labels is not None:
        text = "".join(f"{label}\n" for label in labels)
        expect("labels", np.frombuffer(text.encode(), "u1"))


def program_header(kind, shape, code, block_kind):
    head = struct.pack("<BBQQB", 1, kind, *shape, code)
    return head + struct.pack("<QQIIBB", 0, 0, *shape, block_kind, code)


def some_program_type(random):
    code = int(random.integers(8))
    return code, PROGRAM[code]


def program_dense(random, path, expect):
    shape, (code, dtype) = some_shape(random), some_program_type(random)
    values = some_bits(random, dtype, shape)
    path.write_bytes(program_header(DENSE, shape, code, 1) + values.tobytes())
    expect("values", values)


def some_entries(random):
    shape, (code, dtype) = some_shape(random), some_program_type(random)
    stored = random.random(shape) < random.random()
    return shape, code, some_bits(random, dtype, shape), stored


def program_csr(random, path, expect):
    shape, code, values, stored = some_entries(random)
    offsets = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype("<u8")
    columns = np.nonzero(stored)[1].astype("<u8")
    parts = [struct.pack("<Q", stored.sum()), offsets.tobytes(), columns.tobytes(), values[stored].tobytes()]
    path.write_bytes(program_header(CSR, shape, code, 2) + b"".join(parts))
    expect_csr(expect, values, stored)


def program_csr_2022(random, path, expect):
    shape, code, values, stored = some_entries(random)
    parts = [struct.pack("<Q", stored.sum())]
    for row in range(shape[0]):
        places = np.flatnonzero(stored[row])
        parts.append(struct.pack("<Q", len(places)))
        parts += [struct.pack("<Q", place) + values[row, place].tobytes() for place in places]
    path.write_bytes(program_header(CSR, shape, code, 2) + b"".join(parts))
    expect_csr(expect, values, stored)


def program_frame(random, path, expect):
    rows, columns = int(random.integers(1, 120)), int(random.integers(1, 12))
    types = [some_program_type(random) for _ in range(columns)]
    record = np.dtype([(f"f{n}", dtype) for n, (_, dtype) in enumerate(types)])
    records = some_bits(random, record, (rows,))
    # The program dumps memory in the place of labels.
    labels = b"".join(struct.pack("<H", n) + random.bytes(n) for n in random.integers(0, 40, columns).tolist())
    head = struct.pack("<BBQQ", 1, FRAME, rows, columns) + bytes(code for code, _ in types)
    path.write_bytes(head + labels + struct.pack("<QQ", 0, 0) + records.tobytes())
    names = [f"col_{n}" for n in range(columns)]
    expect_frame(expect, names, None, [records[field] for field in record.names])
