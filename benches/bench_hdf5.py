"""Figures on HDF5: a Binsparse matrix of 20 million entries in four forms, listing of many datasets."""
from bench_measure import DATA, Times, python, timed, warm

ARRAYS = ["pointers_to_1", "indices_1", "values"]

READ = """import h5py, numpy as np
with h5py.File(PATH) as file:
    arrays = {name: np.full(item.shape, 0, item.dtype) for name, item in file.items()}
t = time.perf_counter()
with h5py.File(PATH) as file:
    for name, array in arrays.items():
        file[name].read_direct(array)
print(time.perf_counter() - t)"""

VISIT = """import h5py
seen = []
def look(name, item):
    if isinstance(item, h5py.Dataset):
        seen.append((name, item.shape, item.dtype))
t = time.perf_counter()
with h5py.File(PATH) as file:
    file.visititems(look)
print(time.perf_counter() - t)"""


def shuffle(bench):
    """Binsparse CSR, gzip 1 + shuffle: the first read of all arrays, against h5py."""
    against_h5py(bench, "shuffle", "gzip 1 + shuffle")


def gzip(bench):
    """The same, gzip 1 alone."""
    against_h5py(bench, "gzip", "gzip 1")


def chunked(bench):
    """The same in chunks without filters, against the minimal server."""
    against_minimal(bench, "chunked")


def contiguous(bench):
    """The same without chunks, against the minimal server."""
    against_minimal(bench, "contiguous")


def listing(bench):
    """find -ls of 10,000 datasets, in one group and in a hundred, against visititems of h5py."""
    for name, how in [("many.h5", "one group"), ("groups.h5", "100 groups")]:
        file = DATA / name
        warm(file)
        ours, theirs = [], []
        for _ in range(bench.rounds):
            with bench.mounted(file) as mnt:
                ours.append(timed("find", mnt, "-ls"))
            theirs.append(peer(VISIT, file))
        bench.slowness(f"find -ls of 10,000 HDF5 datasets in {how}, against visititems of h5py", ours, theirs, 1.5)


def against_h5py(bench, form, title):
    file = DATA / f"{form}.h5"
    warm(file)
    ours, theirs = Times(), []
    for _ in range(bench.rounds):
        with bench.mounted(file) as mnt:
            bench.read(mnt, ARRAYS, ours)
        theirs.append(peer(READ, file))
    bench.speed(f"Binsparse CSR, {title}, first read, against h5py", ours, theirs, 2.2)


def against_minimal(bench, form):
    ours, minimal = bench.first_reads(DATA / f"{form}.h5", ARRAYS)
    bench.speed(f"Binsparse CSR, {form}, no filters, first read, against the minimal server", ours, minimal, 0.80)


def peer(code, file):
    """Timed within Python: neither its start nor the import of h5py counts."""
    return python(f"PATH = {str(file)!r}\n{code}")


FIGURES = {"hdf5-shuffle": shuffle, "hdf5-gzip": gzip, "hdf5-chunked": chunked, "hdf5-contiguous": contiguous,
           "hdf5-listing": listing}
