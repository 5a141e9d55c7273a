#!/usr/bin/env python3
"""Writes the small containers that docs/recipes.md reads, with the formats' own packages.

    recipes_data.py DIR

    DIR/air.nc, air3.nc, air.h5, air.blp   one array, air[4, 3, 5] float32, in four formats
    DIR/sst.nc       NetCDF-4: a packed field of 12 x 45 x 90 with a land mask
    DIR/counts       BPCells matrix, by columns: 6 genes, 4 cells
    DIR/counts.h5    Binsparse: the same matrix by columns (csc), and its transpose by rows (csr)
    DIR/cells.h5ad   AnnData: the same counts, a row for each cell; names and a category
    DIR/odd.h5       HDF5: big-endian numbers, records, booleans, strings of both kinds, an odd name
    DIR/odd.blp      Bloscpack: a big-endian NumPy array in Fortran's order

What the values are is plain to see: air[t, y, x] is 100 t + 10 y + x.
"""
import collections
import collections.abc
import os
import sys

collections.MutableMapping = collections.abc.MutableMapping  # where bloscpack 0.16 wants it

import anndata
import binsparse
import bloscpack
import h5py
import netCDF4
import numpy as np
import pandas
import scipy.sparse
from bpcells.experimental import DirMatrix

TIMES, LATITUDES, LONGITUDES = 4, 3, 5
GENES = [f"gene{i}" for i in range(6)]
CELLS = ["cellA", "cellB", "cellC", "cellD"]


def air():
    time, y, x = np.ogrid[:TIMES, :LATITUDES, :LONGITUDES]
    return (100 * time + 10 * y + x).astype(np.float32)


def counts():
    """Genes by cells."""
    cells = [[1, 0, 0, 2, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0], [4, 5, 0, 0, 0, 6]]
    return scipy.sparse.csc_matrix(np.array(cells, np.uint32).T)


def coordinate(file, name, values, units, dtype="f4"):
    variable = file.createVariable(name, dtype, (name,))
    variable.units = units
    variable[:] = values


def air_netcdf(path, kind):
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "Air temperature"
        for name, size in [("time", None), ("lat", LATITUDES), ("lon", LONGITUDES)]:
            file.createDimension(name, size)
        coordinate(file, "time", np.arange(TIMES), "days since 2025-01-01", "f8")
        coordinate(file, "lat", [-45, 0, 45], "degrees_north")
        coordinate(file, "lon", [0, 72, 144, 216, 288], "degrees_east")
        variable = file.createVariable("air", "f4", ("time", "lat", "lon"))
        variable.units = "K"
        variable[:] = air()


def air_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("air", data=air(), chunks=(1, 3, 5), maxshape=(None, 3, 5),
                            compression="gzip", shuffle=True)


def sea(path):
    """Hundredths of a degree, with land here and there. Integers: the same on every machine."""
    month, lat, lon = np.ogrid[:12, -88:89:4, 0:360:4]
    values = 2800 - abs(lat) * 30 + 200 - abs(month - 6) * 60 * np.sign(lat) + (lon % 60) * 2
    land = (lon * 7 + lat * lat) % 360 < 90
    with netCDF4.Dataset(path, "w") as file:
        for name, size in [("month", 12), ("lat", 45), ("lon", 90)]:
            file.createDimension(name, size)
        coordinate(file, "lat", np.arange(-88, 89, 4), "degrees_north")
        coordinate(file, "lon", np.arange(0, 360, 4), "degrees_east")
        sst = file.createVariable("sst", "i2", ("month", "lat", "lon"), zlib=True, complevel=4,
                                  fill_value=-32768, chunksizes=(1, 45, 90))
        sst.units, sst.long_name = "degC", "sea surface temperature"
        sst.scale_factor = 0.01
        sst.set_auto_maskandscale(False)
        sst[:] = np.where(land, -32768, values)


def binsparse_file(path):
    by_columns, by_rows = counts().astype(np.float32), counts().T.tocsr().astype(np.float32)
    with h5py.File(path, "w") as file:
        for kind, matrix in [(binsparse.CSCMatrix, by_columns), (binsparse.CSRMatrix, by_rows)]:
            tensor = kind(shape=matrix.shape, number_of_stored_values=matrix.nnz,
                          pointers_to_1=matrix.indptr, indices_1=matrix.indices, values=matrix.data)
            group = file.create_group(matrix.format)
            tensor.serialize(binsparse.HDF5BinsparseContainer(group))


def cells(path):
    kinds = pandas.Categorical(["T", "B", "T", "NK"])
    observed = pandas.DataFrame({"kind": kinds, "age": [3, 1, 2, 5]}, index=CELLS)
    matrix = counts().T.tocsr().astype(np.float32)
    data = anndata.AnnData(matrix, obs=observed, var=pandas.DataFrame(index=GENES))
    data.obsm["X_umap"] = np.arange(8, dtype=np.float32).reshape(4, 2)
    data.write_h5ad(path)


def odd(path):
    record = np.dtype([("x", ">i4"), ("y", ">i4"), ("weight", ">f8")])
    with h5py.File(path, "w") as file:
        file["big"] = np.arange(6, dtype=">f8").reshape(2, 3)
        file["hits"] = np.array([(1, 2, 0.5), (3, 4, 0.25)], record)
        file["good"] = np.array([True, False, True])
        file["names"] = np.array(["Zürich", "Oslo", "Graz"], h5py.string_dtype())
        file["codes"] = np.array(["ZRH", "OSL1", "GRZ"], "S6")
        file["u~v 50%"] = np.arange(3, dtype=np.int16)


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)

    def at(name):
        return os.path.join(directory, name)

    air_netcdf(at("air.nc"), "NETCDF4")
    air_netcdf(at("air3.nc"), "NETCDF3_64BIT_OFFSET")
    air_hdf5(at("air.h5"))
    bloscpack.pack_ndarray_to_file(air(), at("air.blp"))
    sea(at("sst.nc"))
    DirMatrix.from_scipy_sparse(counts(), at("counts"))
    binsparse_file(at("counts.h5"))
    cells(at("cells.h5ad"))
    odd(at("odd.h5"))
    turned = np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3))
    bloscpack.pack_ndarray_to_file(turned, at("odd.blp"))


if __name__ == "__main__":
    main()
