"""Runs scripts, each in a child of its own that has what most of them import: to import it takes longer than they do.

Reads orders, a line each: the script, what it says and what it complains of go to, and its arguments, in hexadecimal.
Answers with the child's number, and with the status that it ended with. Used by `harness/python.rs`.
"""

import atexit
import ctypes
import gc
import os
import runpy
import sys
import traceback

# Programs of several threads cannot be copied.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import h5py  # noqa
import hdf5plugin  # noqa
import netCDF4  # noqa
import numpy  # noqa
import scipy.sparse  # noqa

# A child that looked for garbage among these would make a page of its own of every page that has one.
gc.collect()
gc.freeze()


def become(script, said, complained, *arguments):
    for descriptor, path, flags in ((0, "/dev/null", os.O_RDONLY), (1, said, os.O_WRONLY), (2, complained, os.O_WRONLY)):
        file = os.open(path, flags)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


def status_of(step, *arguments):
    try:
        step(*arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(status):
    """Without taking modules apart, which takes longer than most scripts do; the libraries close what is open."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(status)


for order in iter(sys.stdin.buffer.readline, b""):
    child = os.fork()
    if child == 0:
        end(status_of(become, *(os.fsdecode(bytes.fromhex(word)) for word in order.decode().rstrip("\n").split(" "))))
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
