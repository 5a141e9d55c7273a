"""Figures on writing BPCells directories: rewritten whole, changed here and there, copied."""
import random
import shutil

from bench_measure import DATA, python, run, timed
from bench_places import empty, on_disk
from bench_staged import changed_by_mapping, committed

# What both sides of a comparison work on.
SCIPY = """import numpy as np, scipy.sparse
def matrix(raw):
    val, index = np.fromfile(raw + "/val", "u4"), np.fromfile(raw + "/index", "u4").astype("i4")
    idxptr, shape = np.fromfile(raw + "/idxptr", "u8").astype("i4"), np.fromfile(raw + "/shape", "u4")
    return scipy.sparse.csc_matrix((val, index, idxptr), shape=shape)
from bpcells.experimental import DirMatrix
"""


def rewritten(bench):
    """val and index of 20 million entries rewritten whole and synced, against bpcells writing the matrix from SciPy."""
    ours, theirs = [], []
    raw = decoded(bench)
    with on_disk(bench) as disk:
        for _ in range(bench.rounds):
            source = empty(disk / "source")
            shutil.copytree(DATA / "matrix", source / "matrix")
            run("sync", "-f", disk)
            with bench.mounted(source, "-o", "rw") as mnt:
                ours.append(sum(timed("cp", raw / name, mnt / "matrix" / name) for name in ["val", "index"])
                            + timed("sync", "-f", disk))
                committed(mnt / "matrix")
            written = empty(disk / "written")
            theirs.append(python(f"""{SCIPY}
m = matrix({str(raw)!r})
t = time.perf_counter(); DirMatrix.from_scipy_sparse(m, {str(written / "matrix")!r}); print(time.perf_counter() - t)""")
                          + timed("sync", "-f", disk))
            for name in ["val_data", "index_data"]:
                run("cmp", source / "matrix" / name, DATA / "matrix" / name)
    shutil.rmtree(raw)
    bench.speed("BPCells matrix, val and index rewritten whole and synced, against bpcells writing it from SciPy", ours,
                theirs, 2)


def many_changes(bench):
    """1,000 random changes of val by mmap and close, against cp -r of the stored container and sync -f."""
    ours, copied = [], []
    with on_disk(bench) as disk:
        generator = random.Random(12)
        for _ in range(bench.rounds):
            source, copies = empty(disk / "source"), empty(disk / "copies")
            shutil.copytree(DATA / "matrix", source / "matrix")
            run("sync", "-f", disk)
            copied.append(timed("cp", "-r", DATA / "matrix", copies) + timed("sync", "-f", disk))
            with bench.mounted(source, "-o", "rw") as mnt:
                ours.append(changed_by_mapping(mnt / "matrix/val", generator, 1000))
                committed(mnt / "matrix")
    bench.slowness("1,000 random changes of val by mmap and close, against cp -r and sync -f", ours, copied, 4)


def copied(bench):
    """cp -r of the decoded matrix into a new one in the same mount, against bpcells reading and writing it."""
    ours, theirs = [], []
    with on_disk(bench) as disk:
        for _ in range(bench.rounds):
            source = empty(disk / "source")
            shutil.copytree(DATA / "matrix", source / "matrix")
            run("sync", "-f", disk)
            with bench.mounted(source, "-o", "rw") as mnt:
                # A sync of the new container's directory returns when it is packed.
                ours.append(timed("cp", "-r", mnt / "matrix", mnt / "copy.bpcells")
                            + timed("sync", mnt / "copy.bpcells") + timed("sync", "-f", disk))
                committed(mnt / "copy.bpcells")
            run("diff", "-r", source / "matrix", source / "copy.bpcells")
            written = empty(disk / "written")
            theirs.append(python(f"""{SCIPY}
t = time.perf_counter()
m = DirMatrix({str(source / "matrix")!r}); m.threads = 2
DirMatrix.from_scipy_sparse(m[:, :], {str(written / "matrix")!r}); print(time.perf_counter() - t)""")
                          + timed("sync", "-f", disk))
    bench.speed("BPCells matrix, cp -r into a new one in the same mount, against bpcells reading and writing it", ours,
                theirs, 2)


def decoded(bench):
    raw = bench.scratch / "decoded"
    raw.mkdir()
    with bench.mounted(DATA / "matrix", "-o", "ro") as mnt:
        for name in ["val", "index", "idxptr", "shape"]:
            shutil.copyfile(mnt / name, raw / name)
    return raw


FIGURES = {"matrix-rewrite": rewritten, "matrix-many": many_changes, "matrix-copy": copied}
