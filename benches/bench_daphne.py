"""Figures on DAPHNE: one dense block of 512 MiB, and the beginning of a matrix in 1,000 sparse blocks."""
import time

from bench_measure import DATA, dd, warm


def dense(bench):
    """DAPHNE, 512 MiB in one dense block: the first read, against the minimal server."""
    ours, minimal = bench.first_reads(DATA / "dense.dbdf", ["values"])
    bench.speed("DAPHNE dense, 512 MiB in one block, first read, against the minimal server", ours, minimal, 0.80)


def sparse(bench):
    """DAPHNE CSR in 1,000 sparse blocks: the first 4 KiB of `values` in a new mount, against all of it."""
    file = DATA / "sparse.dbdf"
    warm(file)
    first, whole = [], []
    for _ in range(bench.rounds):
        with bench.mounted(file) as mnt:
            start = time.perf_counter()
            with open(mnt / "values", "rb", buffering=0) as values:
                values.read(4096)
            first.append(time.perf_counter() - start)
        with bench.mounted(file) as mnt:
            whole.append(dd(mnt / "values"))
    bench.slowness("DAPHNE CSR in 1,000 sparse blocks, first 4 KiB of values, against all", first, whole, 0.1)


FIGURES = {"daphne-dense": dense, "daphne-sparse": sparse}
