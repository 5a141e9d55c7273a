"""Figures on sources in a store: SeaweedFS behind a line of 30 ms and 250 MB/s, on the same two cores.

The slower of two is what a read is compared with: `curl` of the same bytes over the same line, and the first read of
the local container while the same curl runs beside it, so that server and line have the cores that they take.
"""
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import object_store
from bench_measure import ARRAYFS, DATA, ROOT, Times, busy_alone, dd, peak_memory, run, start_server, timed, warm

ROUND_TRIP_MS, MB_PER_S = 30, 250
KEYS = {"AWS_ACCESS_KEY_ID": object_store.KEY, "AWS_SECRET_ACCESS_KEY": object_store.SECRET}
URL = f"s3://{object_store.BUCKET}"
LARGE = {"contiguous.h5": "values", "shuffle.h5": "values", "zstd.blp": "data"}


class Far(object_store.Store):
    """The store behind the line."""

    def __init__(self, directory):
        super().__init__(os.environ["ARRAYFS_PYTHON"], directory)
        self.line = object_store.free_port()
        proxy = ROOT / "target/release/examples/delay-proxy"
        self.proxy = start_server(proxy, f"127.0.0.1:{self.line}", f"127.0.0.1:{self.port}", str(ROUND_TRIP_MS), str(MB_PER_S))
        os.environ.update(KEYS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.line}")

    def curl(self, key):
        """Seconds to fetch an object over the line."""
        url = f"http://127.0.0.1:{self.line}/{object_store.BUCKET}/{key}"
        return timed("curl", "-sf", "-o", "/dev/null", url)

    def stop(self):
        self.proxy.kill()
        self.proxy.wait()
        super().stop()


@contextlib.contextmanager
def store():
    with tempfile.TemporaryDirectory(prefix="bench-store.", dir=ROOT / "target") as directory:
        started = Far(pathlib.Path(directory))
        try:
            yield started
        finally:
            started.stop()


def asked(bench):
    return bench.status()["remote"]


def remote(bench):
    """Everything of the store, which is started once."""
    with store() as bucket:
        bucket.put(DATA / "far")
        for name, array in LARGE.items():
            sequential(bench, bucket, f"far/{name}", array)
        at_random(bench)
        column(bench, bucket)
        opening(bench, bucket)
        listing(bench, bucket)
        cached(bench)
        streams(bench)


def sequential(bench, bucket, name, array):
    warm(DATA / name)
    ours, fetched, local, used = Times(), [], [], []
    for _ in range(bench.rounds):
        with bench.mounted(URL) as mnt:
            os.stat(mnt / name)
            daemon = bench.status()["pid"]
            before = busy_alone(daemon)
            bench.read(mnt / name, [array], ours)
            used.append(busy_alone(daemon) - before)
        fetched.append(bucket.curl(name))
        beside = threading.Thread(target=bucket.curl, args=[name])
        with bench.mounted(DATA / name, "-o", "ro") as mnt:
            beside.start()
            local.append(dd(mnt / array))
            beside.join()
    slower = max(fetched, local, key=statistics.median)
    which = "curl" if slower is fetched else "the local container"
    bench.speed(f"cold read of {name} over the line, against the slower: {which}", ours, slower, 0.8)
    if name == "far/contiguous.h5":
        a_gigabyte = statistics.median(used) / ((DATA / name).stat().st_size / 1e9)
        bench.add("processor time of the daemon a GB, without decoding", f"{a_gigabyte:.2f} s", "<= 1.2 s", a_gigabyte <= 1.2, "")


def at_random(bench):
    """Requests and round trips of 4 KiB in an array that has been read from."""
    with bench.mounted(URL) as mnt:
        array = mnt / "far/shuffle.h5/values"
        size = array.stat().st_size
        requests, times = [], []
        with open(array, "rb", buffering=0) as file:
            file.read(4096)
            for number in (3, 7, 2, 8, 4, 1, 6, 5):
                before = asked(bench)["requests"]
                start = time.perf_counter()
                os.pread(file.fileno(), 4096, size * number // 9 // 4096 * 4096)
                times.append(time.perf_counter() - start)
                requests.append(asked(bench)["requests"] - before)
    trips = statistics.median(times) * 1e3 / ROUND_TRIP_MS
    bench.add("requests for 4 KiB at random", f"{max(requests)}", "<= 2", max(requests) <= 2, f"each {requests}")
    bench.add("round trips of them", f"{trips:.2f}", "<= 2.2", trips <= 2.2, f"{1e3 * statistics.median(times):.1f} ms")


COLUMN = """
import fsspec, h5py, sys, time
start = time.perf_counter()
with fsspec.open(sys.argv[1], block_size=int(sys.argv[2])) as far:
    h5py.File(far)["frames"][:, 100, 100].sum()
print(time.perf_counter() - start)
"""


def column(bench, bucket):
    """One chunk of each of 500 frames."""
    bucket.put(DATA / "frames.h5")
    ours, theirs = [], {}
    url = f"http://127.0.0.1:{bucket.line}/{object_store.BUCKET}/frames.h5"
    for block in (64 << 10, 512 << 10, 4 << 20, 16 << 20):
        told = subprocess.run([os.environ["ARRAYFS_PYTHON"], "-c", COLUMN, url, str(block)], check=True, stdout=subprocess.PIPE)
        theirs[block] = [float(told.stdout)]
    best = min(theirs, key=lambda block: theirs[block])
    for _ in range(bench.rounds):
        with bench.mounted(URL) as mnt:
            os.stat(mnt / "frames.h5")
            start = time.perf_counter()
            with open(mnt / "frames.h5/frames", "rb", buffering=0) as file:
                for frame in range(500):
                    os.pread(file.fileno(), 8, (frame * 512 * 512 + 100 * 512 + 100) * 8)
            ours.append(time.perf_counter() - start)
    bench.speed(f"a value of each of 500 frames, against fsspec and h5py in blocks of {best >> 10} KiB", ours, theirs[best], 3)


def opening(bench, bucket):
    cube(bench)
    bucket.put(DATA / "many.h5")
    ours, fetched = [], []
    for _ in range(bench.rounds):
        ours.append(timed(ARRAYFS, "ls", f"{URL}/many.h5"))
        fetched.append(bucket.curl("many.h5"))
    bench.slowness("HDF5 of 10,000 datasets opened and listed, against curl of all of it", ours, fetched, 5)


def cube(bench):
    """Requests, as round trips one behind the other, and bytes until an array of 1,024 chunks has been read from."""
    with bench.mounted(URL) as mnt:
        os.stat(mnt / "far")
        before, start = asked(bench), time.perf_counter()
        with open(mnt / "far/shuffle.h5/values", "rb", buffering=0) as file:
            os.pread(file.fileno(), 4096, 500 << 20)
        trips, after = (time.perf_counter() - start) * 1e3 / ROUND_TRIP_MS, asked(bench)
    part = (after["bytes"] - before["bytes"]) / (DATA / "far/shuffle.h5").stat().st_size
    bench.add("opening HDF5 of 259 MB in 1,024 chunks, and a read", f"{trips:.0f} round trips, {part:.3f} of its bytes",
              "<= 30, 0.1", trips <= 30 and part <= 0.1, f"{after['requests'] - before['requests']} requests")


def listing(bench, bucket):
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as directory:
        plain, files = pathlib.Path(directory) / "plain", pathlib.Path(directory) / "files"
        for made in (plain, files):
            made.mkdir()
        for number in range(10000):
            (plain / f"{number:05d}.txt").write_bytes(b"x")
        for number in range(2000):
            shutil.copyfile(ROOT / "mount-tests/golden/binsparse/sources/attributes-inside.h5", files / f"{number:04d}.h5")
        bucket.put(plain, files)
        bucket.put(DATA / "matrix")
    for name, most_requests, most_seconds in [("plain", 11, 1.5), ("files", 2100, 2.0), ("matrix", 4, 1.5)]:
        with bench.mounted(URL) as mnt:
            before = asked(bench)["requests"]
            seconds = timed("ls", "-l", mnt / name)
            requests = asked(bench)["requests"] - before
        good = requests <= most_requests and seconds <= most_seconds
        bench.add(f"ls -l of {name}", f"{requests} requests, {seconds:.2f} s", f"<= {most_requests}, {most_seconds} s", good, "")


def cached(bench):
    name, arrays = "shuffle.h5", ["values"]
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as directory:
        options = ["-o", f"disk_cache={directory}"]
        with bench.mounted(f"{URL}/far", *options) as mnt:
            bench.read(mnt / name, arrays, Times())
        ours, local, requests = Times(), Times(), []
        for _ in range(bench.rounds):
            with bench.mounted(f"{URL}/far", *options) as mnt:
                os.listdir(mnt / name)
                bench.read(mnt / name, arrays, ours)
                requests.append(asked(bench)["requests"])
            with bench.mounted(DATA / "far", "-o", "ro") as mnt:
                os.listdir(mnt / name)
                bench.read(mnt / name, arrays, local)
    bench.speed(f"warm read of {name} out of the disk cache, against the local container", ours, local, 0.8)
    bench.add("requests of that", f"{max(requests)}", "<= 2", max(requests) <= 2, "")


def streams(bench):
    with bench.mounted(URL, "-o", "cache=256M") as mnt:
        array = mnt / "far/contiguous.h5/values"
        part = array.stat().st_size // 64 >> 20
        readers = [subprocess.Popen(["dd", f"if={array}", "of=/dev/null", "bs=1M", f"skip={number * part}", f"count={part + 1}",
                                     "status=none"]) for number in range(64)]
        for reader in readers:
            reader.wait()
        peak = peak_memory(bench.status()["pid"]) >> 20
    bench.add("memory of 64 streams, cache=256M", f"{peak} MiB", "<= 320 MiB", peak <= 320, "")


FIGURES = {"remote": remote}
