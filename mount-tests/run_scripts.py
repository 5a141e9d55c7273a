"""Runs scripts, each in a child of its own that has what most of them import: to import it takes longer than they do.

Reads orders, a line each: the script, what it says and what it complains of go to, and its arguments, in hexadecimal.
Answers with the child's number, and with the status that it ended with. Used by `harness/python.rs`.
"""

import os
import runpy
import sys

# Programs of several threads cannot be copied.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import bpcells.experimental  # noqa
import h5py  # noqa
import hdf5plugin  # noqa
import netCDF4  # noqa
import numpy  # noqa
import scipy.sparse  # noqa


def become(script, said, complained, *arguments):
    for descriptor, path, flags in ((0, "/dev/null", os.O_RDONLY), (1, said, os.O_WRONLY), (2, complained, os.O_WRONLY)):
        file = os.open(path, flags)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


for order in iter(sys.stdin.buffer.readline, b""):
    child = os.fork()
    if child == 0:
        become(*(os.fsdecode(bytes.fromhex(word)) for word in order.decode().rstrip("\n").split(" ")))
        break
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
