#!/usr/bin/env python3
"""Writes an HDF5 file with attributes, dimensions and groups, for the tests in described.rs."""
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1], "w", track_order=True) as file:
    file.attrs["title"] = "a title"
    file.attrs["long"] = "very long " * 6000
    obs = file.create_group("obs")
    obs.attrs["encoding-type"] = "csr_matrix"
    obs.attrs["shape"] = [3, 4]
    file["time"] = np.arange(3, dtype="<i4")
    file["time"].make_scale("time")
    temperature = obs.create_dataset("temperature", data=np.zeros((3, 4), "<f4"))
    temperature.attrs["units"] = "K"
    temperature.attrs["scale_factor"] = 0.5
    temperature.dims[0].attach_scale(file["time"])
    obs["beside"] = np.arange(10, dtype="<i4")
    file["last"] = np.arange(6, dtype="<i8")
    file.create_group("empty")
