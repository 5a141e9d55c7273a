"""Elements of HDF5 datasets: types of every kind, values that they can hold, and how a mount shows them.

libhdf5 itself converts between what is stored and what is shown: `shown_type` is the type whose memory holds what a
mount shows. All values here are bytes: arrays of one row for each element. Used by the programs beside this one.
"""
import ctypes

import h5py
import hdf5plugin  # noqa: F401, its filters
import numpy as np
from h5py import h5d, h5p, h5s, h5t

LITTLE = {
    (h5t.INTEGER, 1, True): h5t.STD_I8LE, (h5t.INTEGER, 1, False): h5t.STD_U8LE,
    (h5t.INTEGER, 2, True): h5t.STD_I16LE, (h5t.INTEGER, 2, False): h5t.STD_U16LE,
    (h5t.INTEGER, 4, True): h5t.STD_I32LE, (h5t.INTEGER, 4, False): h5t.STD_U32LE,
    (h5t.INTEGER, 8, True): h5t.STD_I64LE, (h5t.INTEGER, 8, False): h5t.STD_U64LE,
}
FLOATS = {2: h5t.IEEE_F16LE, 4: h5t.IEEE_F32LE, 8: h5t.IEEE_F64LE}
BITS = {1: h5t.STD_B8LE, 2: h5t.STD_B16LE, 4: h5t.STD_B32LE, 8: h5t.STD_B64LE}


def library():
    """The libhdf5 that h5py has loaded, for what h5py does not offer."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libhdf5-" in line or "libhdf5.so" in line}
    # netCDF4 brings another one.
    lib = ctypes.CDLL(max(paths, key=lambda path: "h5py" in path))
    lib.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    lib.H5Aread.argtypes = lib.H5Awrite.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    lib.H5Pset_nbit.argtypes = [ctypes.c_int64]
    lib.H5Pset_chunk_opts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    lib.H5Pget_chunk_opts.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint)]
    lib.H5Dget_chunk_index_type.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int)]
    lib.H5Pencode2.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_int64]
    return lib


LIB = library()


def done(status):
    assert status >= 0, "libhdf5 refuses"


def encoded(properties):
    """All that a property list says."""
    size = ctypes.c_size_t(0)
    done(LIB.H5Pencode2(properties.id, None, ctypes.byref(size), 0))
    out = ctypes.create_string_buffer(size.value)
    done(LIB.H5Pencode2(properties.id, out, ctypes.byref(size), 0))
    return out.raw


def index_of(dataset):
    """The number that libhdf5 has for the kind of chunk index."""
    kind = ctypes.c_int(-1)
    done(LIB.H5Dget_chunk_index_type(dataset.id, ctypes.byref(kind)))
    return kind.value


def is_known_float(stored):
    size = stored.get_size()
    return size in FLOATS and stored.get_precision() == 8 * size and stored.get_fields() == FLOATS[size].get_fields()


def shown_type(stored):
    kind, size = stored.get_class(), stored.get_size()
    if kind == h5t.INTEGER:
        return LITTLE[kind, size, stored.get_sign() != h5t.SGN_NONE].copy()
    if kind == h5t.BITFIELD:
        return BITS[size].copy()
    if kind == h5t.FLOAT:
        return FLOATS[size].copy() if is_known_float(stored) else stored
    if kind == h5t.ENUM:
        return shown_type(stored.get_super())
    if kind == h5t.STRING:
        made = h5t.C_S1.copy()
        made.set_size(size)
        made.set_strpad(h5t.STR_NULLPAD)
        made.set_cset(stored.get_cset())
        return made
    if kind == h5t.ARRAY:
        return h5t.array_create(shown_type(stored.get_super()), stored.get_array_dims())
    if kind == h5t.COMPOUND:
        members = [(name, shown_type(member)) for name, _, member in members_of(stored)]
        made = h5t.create(h5t.COMPOUND, sum(member.get_size() for _, member in members))
        at = 0
        for name, member in members:
            made.insert(name, at, member)
            at += member.get_size()
        return made
    return stored


def as_numbers(stored):
    """The type with numbers for enumerations: libhdf5 converts those by their names, and not every value has one."""
    kind = stored.get_class()
    if kind == h5t.ENUM:
        return stored.get_super()
    if kind == h5t.ARRAY:
        return h5t.array_create(as_numbers(stored.get_super()), stored.get_array_dims())
    if kind == h5t.COMPOUND:
        made = h5t.create(h5t.COMPOUND, stored.get_size())
        for name, at, member in members_of(stored):
            made.insert(name, at, as_numbers(member))
        return made
    return stored


def members_of(compound):
    """Name, offset and type of each, as they lie."""
    all_of = range(compound.get_nmembers())
    members = [(compound.get_member_name(n), compound.get_member_offset(n), compound.get_member_type(n)) for n in all_of]
    return sorted(members, key=lambda member: member[1])


def is_shown(stored):
    """Whether the mount shows such elements as numbers or bytes that can be written."""
    kind = stored.get_class()
    if kind == h5t.STRING:
        return not stored.is_variable_str()
    if kind == h5t.COMPOUND:
        return all(is_shown(member) for _, _, member in members_of(stored))
    if kind == h5t.ARRAY:
        return is_shown(stored.get_super())
    return kind not in (h5t.VLEN, h5t.REFERENCE, h5t.TIME)


def value_bits(stored):
    """A mask of the stored bits that are part of the value; the others are padding."""
    kind, size = stored.get_class(), stored.get_size()
    if kind == h5t.ARRAY:
        return np.tile(value_bits(stored.get_super()), int(np.prod(stored.get_array_dims())))
    mask = np.zeros(size, "u1")
    if kind == h5t.COMPOUND:
        for _, at, member in members_of(stored):
            mask[at:at + member.get_size()] = value_bits(member)
        return mask
    if kind == h5t.INTEGER:
        bits = ((1 << stored.get_precision()) - 1) << stored.get_offset()
        order = "big" if stored.get_order() == h5t.ORDER_BE else "little"
        return np.frombuffer(bits.to_bytes(size, order), "u1").copy()
    return mask | 255


def convert(source, target, elements):
    count, size = len(elements), max(source.get_size(), target.get_size())
    buffer = np.zeros(count * size, "u1")
    buffer[:elements.size] = elements.reshape(-1)
    h5t.convert(source, target, count, buffer, np.zeros_like(buffer))
    return buffer[:count * target.get_size()].reshape(count, target.get_size()).copy()


def to_shown(stored_type, elements):
    return convert(as_numbers(stored_type), shown_type(stored_type), elements)


def to_stored(random, stored_type, elements):
    """With other bits where the type has padding."""
    stored, mask = convert(shown_type(stored_type), as_numbers(stored_type), elements), value_bits(stored_type)
    padding = random.integers(0, 256, stored.shape, dtype="u1")
    return stored & mask | padding & ~mask


def read(dataset):
    """The stored bytes of all elements, none of them converted."""
    stored = dataset.get_type()
    count = int(np.prod(dataset.shape, dtype="i8"))
    out = np.zeros((count, stored.get_size()), "u1")
    if count:
        dataset.read(h5s.ALL, h5s.ALL, out, mtype=stored)
    return out


def write(dataset, elements, start=None, shape=None):
    """Stored bytes into a box of the dataset, or into all of it."""
    if not elements.size:
        return
    space = dataset.get_space()
    memory = h5s.ALL
    if start is not None:
        space.select_hyperslab(start, shape)
        memory = h5s.create_simple((len(elements),))
    dataset.write(memory, space if start is not None else h5s.ALL, np.ascontiguousarray(elements), mtype=dataset.get_type())


def fill_of(dataset):
    """The fill value as it is shown; zeros where there is none."""
    stored = dataset.get_type()
    target = h5d.create(h5py.h5f.create(b"fill", h5py.h5f.ACC_TRUNC, fapl=in_memory()), b"x", stored,
                        h5s.create_simple((1,)), dcpl_with_fill(dataset))
    return to_shown(stored, read(target))[0]


def in_memory():
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(1 << 16, False)
    return access


def dcpl_with_fill(dataset):
    """Contiguous, never written: reading it gives the fill value."""
    properties = dataset.get_create_plist().copy()
    for number in reversed(range(properties.get_nfilters())):
        properties.remove_filter(properties.get_filter(number)[0])
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_LATE)
    return properties


def some(random, stored, count):
    """Values that the type can hold, as they are shown; half of the time many of them alike."""
    if count > 1 and random.integers(2):
        few = some_elements(random, stored, int(random.integers(1, 4)))
        return few[np.sort(random.integers(0, len(few), count))]
    return some_elements(random, stored, count)


def some_elements(random, stored, count):
    kind, size = stored.get_class(), stored.get_size()
    if kind == h5t.COMPOUND:
        return np.hstack([some_elements(random, member, count) for _, _, member in members_of(stored)])
    if kind == h5t.ARRAY:
        each = int(np.prod(stored.get_array_dims()))
        return some_elements(random, stored.get_super(), count * each).reshape(count, -1)
    if kind == h5t.ENUM:
        choice = [stored.get_member_value(number) for number in range(stored.get_nmembers())]
        named = as_bytes(np.array(choice, "i8")[random.integers(0, len(choice), count)].astype(f"<i{size}"))
        other = some_elements(random, stored.get_super(), count)
        return np.where(random.integers(0, 4, (count, 1)) > 0, named, other)
    if kind == h5t.INTEGER:
        signed = stored.get_sign() != h5t.SGN_NONE
        return as_bytes(integers(random, count, stored.get_precision(), signed).astype(f"<i{size}"))
    if kind == h5t.FLOAT and is_known_float(stored):
        values = random.normal(size=count)
        values[random.integers(0, 50, count) == 0] = np.nan
        values[random.integers(0, 50, count) == 0] = -np.inf
        return as_bytes(values.astype(f"<f{size}"))
    if kind == h5t.STRING:
        text = random.integers(97, 123, (count, size), dtype="u1")
        most = size - (stored.get_strpad() == h5t.STR_NULLTERM)
        text[np.arange(size) >= random.integers(0, most + 1, (count, 1))] = 0
        return text
    return random.integers(0, 256, (count, size), dtype="u1")


def integers(random, count, bits, signed):
    values = random.integers(0, 1 << 64, count, dtype="u8") >> random.integers(0, 64, count).astype("u8")
    values <<= np.uint64(64 - bits)
    return values.view("i8") >> np.int64(64 - bits) if signed else values >> np.uint64(64 - bits)


def as_bytes(values):
    return values.view("u1").reshape(len(values), -1)


def string(size, padding):
    made = h5t.C_S1.copy()
    made.set_size(size)
    made.set_strpad(padding)
    return made


def integer(base, precision, offset):
    made = base.copy()
    made.set_precision(precision)
    made.set_offset(offset)
    return made


def enumeration(base, **values):
    made = h5t.enum_create(base)
    for name, value in values.items():
        made.enum_insert(name.encode(), value)
    return made


def compound(size, *members):
    made = h5t.create(h5t.COMPOUND, size)
    for name, at, member in members:
        made.insert(name.encode(), at, member)
    return made


def opaque(size):
    made = h5t.create(h5t.OPAQUE, size)
    made.set_tag(b"a tag")
    return made


def short_float():
    """The upper half of a float of 32 bits, for which NumPy has no name."""
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_ebias(127)
    made.set_precision(16)
    made.set_size(2)
    return made


def small_float():
    """A float of 8 bits, as the library has it by the name of F8E4M3."""
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(7, 3, 4, 0, 3)
    made.set_ebias(7)
    made.set_precision(8)
    made.set_size(1)
    return made


def all_types():
    big, little, inner = h5t.STD_I32BE, h5t.IEEE_F64LE, compound(12, ("x", 2, h5t.STD_U8LE), ("y", 4, h5t.IEEE_F32BE))
    boolean = enumeration(h5t.STD_I8LE, FALSE=0, TRUE=1)
    words = integer(h5t.STD_U16BE, 12, 2)
    numbers = {f"{name}{8 * size}{order}".lower(): getattr(h5t, f"STD_{name}{8 * size}{order}")
               for name in "IU" for size in (1, 2, 4, 8) for order in ("LE", "BE")}
    floats = {f"f{8 * size}{order}".lower(): getattr(h5t, f"IEEE_F{8 * size}{order}")
              for size in (2, 4, 8) for order in ("LE", "BE")}
    others = {
        "i17of32": integer(h5t.STD_I32LE, 17, 3),
        "u12of16": words,
        "i40of64": integer(h5t.STD_I64BE, 40, 11),
        "u3of8": integer(h5t.STD_U8LE, 3, 2),
        "bool": boolean,
        "enum16": enumeration(h5t.STD_U16BE, red=0, green=300, blue=65_000),
        "enum32": enumeration(h5t.STD_I32LE, less=-5, more=1 << 20),
        "complex64": compound(8, ("r", 0, h5t.IEEE_F32LE), ("i", 4, h5t.IEEE_F32LE)),
        "complex128": compound(16, ("r", 0, h5t.IEEE_F64BE), ("i", 8, h5t.IEEE_F64BE)),
        "text-nulls": string(5, h5t.STR_NULLPAD),
        "text-ended": string(7, h5t.STR_NULLTERM),
        "text-spaces": string(6, h5t.STR_SPACEPAD),
        "packed": compound(12, ("a", 0, h5t.STD_I32LE), ("b", 4, little)),
        "padded": compound(40, ("b", 8, big), ("a", 1, h5t.STD_U8LE), ("c", 16, inner), ("d", 30, words), ("e", 33, boolean)),
        "nested": compound(31, ("list", 0, h5t.array_create(h5t.STD_I16BE, (3,))), ("text", 7, string(4, h5t.STR_SPACEPAD)),
                           ("pairs", 11, h5t.array_create(compound(8, ("n", 1, h5t.STD_U16LE)), (2,)))),
        "array": h5t.array_create(h5t.STD_I16BE, (3,)),
        "array-of-padded": h5t.array_create(inner, (2, 2)),
        "opaque": opaque(5),
        "bits": h5t.STD_B16BE,
        "short-float": short_float(),
        "small-float": small_float(),
    }
    return numbers | floats | others
