"""What h5py finds in a file: the datasets that a mount shows as arrays, and everything else.

Used by the programs beside this one; files are opened without a lock, so that a mount sees no other reader.
"""
import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5o, h5p, h5r, h5s, h5t

import elements


def opened(path, mode="r"):
    return h5py.File(path, mode, locking=False)


def walk(file):
    """Every object once, with its shortest path and all names that lead to it."""
    root = h5g.open(file.id, b"/")
    found, names, ahead = {address(root): ""}, {address(root): root}, [("", root)]
    while ahead:
        path, group = ahead.pop(0)
        for name in sorted(group):
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                continue
            member = h5o.open(group, name)
            if address(member) in found:
                continue
            below = f"{path}/{name.decode()}".lstrip("/")
            found[address(member)], names[address(member)] = below, member
            if isinstance(member, h5g.GroupID):
                ahead.append((below, member))
    return {path: names[token] for token, path in found.items()}


def address(of):
    return h5o.get_info(of).addr


def is_array(dataset):
    """Whether a mount shows it as an array that can be written."""
    if not isinstance(dataset, h5d.DatasetID) or dataset.get_space().get_simple_extent_type() == h5s.NULL:
        return False
    if dataset.get_create_plist().get_layout() == h5d.VIRTUAL or dataset.get_create_plist().get_external_count():
        return False
    return elements.is_shown(dataset.get_type()) and not is_dimension_alone(dataset)


def is_dimension_alone(dataset):
    name = h5py.Dataset(dataset).attrs.get("NAME", b"")
    return bytes(name).startswith(b"This is a netCDF dimension but not")


def arrays(file):
    return {path: of for path, of in walk(file).items() if is_array(of)}


def described(file):
    """All that must stay: everything but the values and the number of slices of the arrays."""
    with open(file.filename, "rb") as stored:
        before = stored.read(file.userblock_size)
    creation = file.id.get_create_plist()
    found = walk(file)
    told = {path: of_object(file, path, of) for path, of in found.items()}
    return {"file": (before, creation.get_version(), elements.encoded(creation)), **told}


def of_object(file, path, of):
    kind = type(of).__name__
    info = h5o.get_info(of)
    told = {"kind": kind, "names": info.rc, "attributes": attributes(file, of)}
    if isinstance(of, h5g.GroupID):
        return told | {"links": links(of), "created": elements.encoded(of.get_create_plist())}
    if isinstance(of, h5t.TypeID):
        return told | {"type": of.encode()}
    space, stored = of.get_space(), of.get_type()
    told |= {"type": stored.encode(), "committed": stored.committed(), "created": elements.encoded(of.get_create_plist())}
    if space.get_simple_extent_type() == h5s.SIMPLE:
        told["most"] = space.get_simple_extent_dims(True)
        told["slices"] = of.shape[1:] if is_array(of) else of.shape
        if of.get_create_plist().get_layout() == h5d.CHUNKED:
            told["index"] = elements.index_of(of)
    if not is_array(of) and of.get_create_plist().get_layout() != h5d.VIRTUAL:
        told["values"] = plain(file, h5py.Dataset(of)[()])
    return told


def links(group):
    """In the order of their names, with the numbers of their creation."""
    told = []
    for name in sorted(group):
        info = group.links.get_info(name)
        to = None if info.type == h5py.h5l.TYPE_HARD else group.links.get_val(name)
        told.append((name, info.type, info.corder if info.corder_valid else None, info.cset, to))
    return told


def attributes(file, of):
    told = []
    for number in range(h5a.get_num_attrs(of)):
        info = h5a.get_info(of, index=number)
        attribute = h5a.open(of, index=number)
        value = h5py.AttributeManager(of_high(of))[attribute.name]
        kind = attribute.get_type().encode() if attribute.get_type().get_class() != h5t.REFERENCE else b""
        told.append((attribute.name, info.corder if info.corder_valid else None, kind, attribute.shape, plain(file, value)))
    return sorted(told, key=lambda one: one[0])


def of_high(of):
    kinds = {h5g.GroupID: h5py.Group, h5d.DatasetID: h5py.Dataset}
    return kinds.get(type(of), h5py.Datatype)(of)


def plain(file, value):
    """A value that can be compared, with the names of what references lead to."""
    if isinstance(value, h5py.RegionReference):
        region = h5r.get_region(value, file.id)
        return h5r.get_name(value, file.id), region.get_select_bounds(), region.get_select_npoints()
    if isinstance(value, h5py.Reference):
        return h5r.get_name(value, file.id) if value else None
    if isinstance(value, h5py.Empty):
        return "null"
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return value.shape, [plain(file, one) for one in value.reshape(-1)]
    if isinstance(value, np.void) and value.dtype.hasobject:
        return [plain(file, value[name]) for name in value.dtype.names]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, value.shape, value.tobytes()
    return value
