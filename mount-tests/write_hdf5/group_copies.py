"""Files with groups that are copied by themselves, and the comparison of such copies with what they are copies of.

Usage: KIND FILE | compare FILE COPY
"""

import sys

import h5py
import netCDF4
import numpy as np


def nested(path):
    with h5py.File(path, "w") as file:
        outer = file.create_group("outer")
        outer.attrs["title"] = "outer"
        lat = outer.create_dataset("lat", data=np.array([10.5, 20.5], "f4"))
        lat.make_scale("lat")
        floats = outer.create_dataset("floats", data=np.arange(6.0).reshape(2, 3), chunks=(1, 3), compression="gzip", maxshape=(None, 3))
        floats.attrs["units"] = "K"
        floats.dims[0].attach_scale(lat)
        file["kinds"] = np.dtype("i2")
        outer.create_dataset("named", (3,), dtype=file["kinds"])[:] = [1, -2, 3]
        inner = outer.create_group("inner")
        inner.create_dataset("words", data=["a", "b", "größe"], dtype=h5py.string_dtype())
        file.create_group("empty")
        file.create_group("taken")["arrays.json"] = np.arange(3)


def netcdf(path):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        outer = file.createGroup("outer")
        outer.title = "outer"
        outer.createDimension("lat", 2)
        lat = outer.createVariable("lat", "f4", ("lat",))
        lat[:] = [10.5, 20.5]
        floats = outer.createVariable("floats", "f8", ("time", "lat"), zlib=True)
        floats.units = "K"
        floats[:] = np.arange(6.0).reshape(3, 2)
        outer.createVariable("named", "i2", ("lat",))[:] = [1, -2]
        inner = outer.createGroup("inner")
        inner.createDimension("count", 3)
        words = inner.createVariable("words", str, ("count",))
        words[:] = np.array(["a", "b", "größe"], object)


def only_read(path):
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(4)
        file.create_dataset("table", data=[["a", "b"], ["c", "d"]], dtype=h5py.string_dtype())
        file.create_dataset("external", (2,), "i4", external=[("elsewhere.bin", 0, 8)])
        file.create_dataset("references", data=[file["a"].ref], dtype=h5py.ref_dtype)


def compare(path, copy):
    with h5py.File(path) as old, h5py.File(copy) as new:
        old, new = old["outer"], new["copied"]
        assert new.attrs["title"] in ("outer", b"outer"), dict(new.attrs)
        for name in ("lat", "floats", "named", "inner/words"):
            one, other = old[name], new[name]
            assert one.dtype == other.dtype and one.shape == other.shape, (name, one.dtype, other.dtype, one.shape, other.shape)
            assert (one[()] == other[()]).all(), name
            assert one.maxshape == other.maxshape and one.chunks == other.chunks, (name, one.maxshape, other.maxshape)
            assert one.compression == other.compression, name
        assert new["floats"].attrs["units"] in ("K", b"K")
        scales = [[scale.name for scale in dim.values()] for dim in new["floats"].dims]
        assert any("/copied/lat" in names for names in scales), scales


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    globals()[what](*paths)
