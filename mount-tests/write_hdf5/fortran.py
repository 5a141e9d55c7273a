#!/usr/bin/env python3
"""What a Fortran program writes to, and whether it has done so.

    fortran.py make PATH      `values` of a compressed HDF5 file, or `t2m` of a NetCDF-4 file or (`old.nc`) a classic one
    fortran.py check PATH     the program has been at work once; everything else is as it was
"""
import os
import sys

import h5py
import netCDF4
import numpy as np

COUNT = 3000
BEFORE = np.arange(COUNT, dtype="<f4") / 4


def make(path):
    if path.endswith(".h5"):
        with h5py.File(path, "w") as file:
            file.create_dataset("values", data=BEFORE, chunks=(256,), compression="gzip", shuffle=True, maxshape=(None,))
            file["values"].attrs["units"] = "counts"
        return
    kind = "NETCDF3_CLASSIC" if os.path.basename(path) == "old.nc" else "NETCDF4"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("time", None)
        file.createDimension("x", 10)
        # As a mount shows it: little-endian, whatever the file has.
        variable = file.createVariable("t2m", "f4", ("time", "x"))
        variable.units = "counts"
        variable[:] = BEFORE.reshape(-1, 10)


def expected():
    values = BEFORE * 2
    values[3] = -1.5
    values[-2:] += 100
    return values


def check(path):
    if path.endswith(".h5"):
        with h5py.File(path) as file:
            found, units = file["values"][:], file["values"].attrs["units"]
    else:
        with netCDF4.Dataset(path) as file:
            found, units = np.asarray(file["t2m"][:]).ravel(), file["t2m"].units
            assert len(file.dimensions["time"]) == COUNT // 10
    assert units == "counts"
    assert np.array_equal(found, expected()), found


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
