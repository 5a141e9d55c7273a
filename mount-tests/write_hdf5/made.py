#!/usr/bin/env python3
"""What the libraries read of new files.

    made.py bytes FILE           g/bytes and g/h/numbers
    made.py later FILE           the same with an array that was put into it later
    made.py empty HDF5 NETCDF    nothing at all
    made.py refer FILE           puts a reference into it, which no mount shows
    made.py referred FILE        that is there
"""
import sys

import h5py
import netCDF4


def check_bytes(path):
    with h5py.File(path, locking=False) as file:
        assert file["g/h/numbers"].dtype == "<i2" and file["g/h/numbers"][:].tolist() == [[1, 2], [3, 4]]
        assert file["g/bytes"].dtype == "u1" and bytes(file["g/bytes"][:]) == b"abc"
    if path.endswith(".nc"):
        with netCDF4.Dataset(path) as file:
            assert file["g/h/numbers"][:].tolist() == [[1, 2], [3, 4]] and bytes(file["g/bytes"][:]) == b"abc"


def check_later(path):
    with h5py.File(path, locking=False) as file:
        assert file["later"].dtype == "<i2" and file["later"][:].tolist() == [1, 2]
        assert bytes(file["g/a"][:]) == b"abcd" and sorted(name for name in file if "phony" not in name)[:2] == ["g", "later"]


def check_empty(hdf5, netcdf):
    with h5py.File(hdf5, locking=False) as file, netCDF4.Dataset(netcdf) as other:
        assert not list(file) and not other.variables


def refer(path):
    with h5py.File(path, "a", locking=False) as file:
        file["reference"] = file["a"].ref


def check_referred(path):
    with h5py.File(path, locking=False) as file:
        assert bytes(file[file["reference"][()]][:]) == b"abcd"


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    does = {"bytes": check_bytes, "later": check_later, "empty": check_empty, "refer": refer, "referred": check_referred}
    does[what](*paths)
