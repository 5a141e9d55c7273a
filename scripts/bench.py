#!/usr/bin/env python3
"""Measures the figures of docs/benchmarks.md. Run it through scripts/bench.sh, which builds and makes the data.

    bench.py [--quick] [--rounds N] [--list] [FIGURE ...]

The two sides of a ratio take turns, because the machine may be noisy; a ratio is that of the medians, and the
ratio of the best times stands beside it. The table at the end is Markdown. A target that is missed is told in the
table, not by the exit status.
"""
import argparse
import collections
import contextlib
import datetime
import json
import mmap
import os
import pathlib
import platform
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARRAYFS = str(ROOT / "target/release/arrayfs")
MINIMAL = str(ROOT / "target/release/examples/minimal-server")
DATA = pathlib.Path(os.environ.get("ARRAYFS_BENCH_DIR", ROOT / "target/bench"))
MIB = 1 << 20

Row = collections.namedtuple("Row", "name figure best target good details")


class Bench:
    def __init__(self, rounds, quick):
        self.rounds, self.quick, self.rows = rounds, quick, []
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-bench.", dir="/dev/shm"))
        self.mountpoint = self.scratch / "mnt"
        self.mountpoint.mkdir()

    def clean_up(self):
        with open("/proc/self/mountinfo") as table:
            left = [line.split()[4] for line in table if f" {self.scratch}/" in line]
        for path in reversed(left):
            subprocess.run(["umount", "-l", path])
        shutil.rmtree(self.scratch, ignore_errors=True)

    # Mounts

    @contextlib.contextmanager
    def mounted(self, source, *options):
        """A new mount: neither the kernel nor the daemon holds anything of it."""
        run(ARRAYFS, "mount", *options, source, self.mountpoint)
        try:
            yield self.mountpoint
        finally:
            run(ARRAYFS, "umount", self.mountpoint)

    @contextlib.contextmanager
    def minimal(self, directory):
        server = subprocess.Popen([MINIMAL, directory, self.mountpoint])
        try:
            while not os.path.ismount(self.mountpoint):  # which asks the server, once there is one
                if server.poll() is not None:
                    raise RuntimeError("the minimal server does not start")
                time.sleep(0.005)
            yield self.mountpoint
        finally:
            subprocess.run(["umount", self.mountpoint])
            server.wait(30)

    def status(self):
        out = run(ARRAYFS, "status", "--json", self.mountpoint, capture=True)
        return json.loads(out)[0]["daemon"]

    # Results

    def add(self, name, figure, target, good, details, best=None):
        row = Row(name, figure, best or "", target, good, details)
        self.rows.append(row)
        print(f"{name}: {figure} (target {target}): {'reached' if good else 'MISSED'}; {details}", flush=True)

    def speed(self, name, ours, theirs, least, more=""):
        """At least `least` times as fast as what it is compared with; both are times of the same work."""
        ratio = statistics.median(theirs) / statistics.median(ours)
        best = min(theirs) / min(ours)
        details = f"{show(ours)} against {show(theirs)}{more}"
        self.add(name, f"{ratio:.2f}", f">= {least:g}", ratio >= least, details, f"{best:.2f}")

    def slowness(self, name, ours, theirs, most):
        """At most `most` times the time of what it is compared with."""
        ratio = statistics.median(ours) / statistics.median(theirs)
        best = min(ours) / min(theirs)
        details = f"{show(ours)} against {show(theirs)}"
        self.add(name, f"{ratio:.2f}", f"<= {most:g}", ratio <= most, details, f"{best:.2f}")

    # Figures

    def bpcells(self):
        """val and index of 20 million entries: the first read, and the second one."""
        warm(DATA / "matrix")
        decoded = self.scratch / "decoded"
        decoded.mkdir()
        names = ["val", "index"]
        with self.mounted(DATA / "matrix") as mnt:
            for name in names:
                shutil.copyfile(mnt / name, decoded / name)
        first, again, minimal, tmpfs = ({name: [] for name in names} for _ in range(4))
        for _ in range(2 * self.rounds):
            with self.minimal(decoded) as mnt:
                for name in names:
                    minimal[name].append(dd(mnt / name))
            with self.mounted(DATA / "matrix") as mnt:
                for name in names:
                    first[name].append(dd(mnt / name))
                for name in names:
                    again[name].append(dd(mnt / name))
                    tmpfs[name].append(dd(decoded / name))
        for name in names:
            self.speed(f"BPCells {name}, first read, against the minimal server", first[name], minimal[name], 0.80)
        for name in names:
            self.speed(f"BPCells {name}, read again, against tmpfs", again[name], tmpfs[name], 0.90)
        shutil.rmtree(decoded)

    def decode(self):
        """BP-128 alone, by Criterion: one thread."""
        quick = ["--warm-up-time", "0.5", "--measurement-time", "1"] if self.quick else []
        subprocess.run(["cargo", "bench", "--locked", "--bench", "bp128", "--", "--noplot", *quick, "val|index"],
                       cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        speeds = criterion(ROOT / "target/criterion")
        avx2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()
        for name in ["val m1", "index d1z"]:
            for how in ["blocks", "whole"]:
                (ours, best), (scalar, scalar_best) = speeds[f"{name}/decode/{how}"], speeds[f"{name}/scalar/{how}"]
                place = {"blocks": "into one 256 KiB block", "whole": "into 80 MB"}[how]
                if avx2:
                    self.add(f"BP-128 {name}, {place}", f"{ours:.1f} GB/s", ">= 8 GB/s", ours >= 8, "one thread, AVX2",
                             f"{best:.1f} GB/s")
                self.add(f"BP-128 {name}, {place}, against scalar", f"{ours / scalar:.1f}", ">= 3", ours / scalar >= 3,
                         f"{ours:.1f} against {scalar:.1f} GB/s", f"{best / scalar_best:.1f}")

    def numpy(self):
        """val, index and idxptr in NumPy, against what bpcells makes of them."""
        warm(DATA / "matrix")
        peer = f"""from bpcells.experimental import DirMatrix
m = DirMatrix({str(DATA / "matrix")!r}); m.threads = THREADS
t = time.perf_counter(); a = m[:, :]; print(time.perf_counter() - t)"""
        mine = f"""import numpy as np
t = time.perf_counter(); a = [np.fromfile({str(self.mountpoint)!r} + "/" + n, d)
    for n, d in (("val", "u4"), ("index", "u4"), ("idxptr", "u8"))]; print(time.perf_counter() - t)"""
        ours, one, two = [], [], []
        for _ in range(self.rounds):
            with self.mounted(DATA / "matrix"):
                ours.append(python(mine))
            one.append(python(peer.replace("THREADS", "1")))
            two.append(python(peer.replace("THREADS", "2")))
        self.speed("NumPy through the mount, against DirMatrix[:, :]", ours, one, 20,
                   f"; with two threads {show(two)}")

    def bloscpack(self):
        """512 MiB of float64: the first read through the mount, against blpk d to tmpfs."""
        out = self.scratch / "out"
        for codec, least in [("lz4", 2.0), ("blosclz", 2.0), ("zstd", 1.8)]:
            file = DATA / f"{codec}.blp"
            warm(file)
            ours, theirs = [], []
            for _ in range(self.rounds):
                with self.mounted(file) as mnt:
                    ours.append(dd(mnt / "data"))
                theirs.append(timed(sys.executable, __file__, "--blpk", "-f", "-n", "2", "d", file, out))
                out.unlink()
            self.speed(f"Bloscpack {codec}, first read, against blpk -n 2 d", ours, theirs, least)

    def random(self):
        """Bytes decoded for 4 KiB at random offsets, with a cache that is small against the array."""
        reads = 500 if self.quick else 2000
        for codec in ["lz4", "zstd"]:
            file = DATA / f"{codec}.blp"
            block = blosc_block(file)
            for flag, how in [(os.O_DIRECT, "O_DIRECT"), (0, "POSIX_FADV_RANDOM")]:
                with self.mounted(file, "-o", "cache=16M") as mnt:
                    seconds = read_at_random(mnt / "data", reads, flag)
                    decoded = self.status()["cache"]["decoded_bytes"]
                ratio, most = decoded / (4096 * reads), block / 4096
                self.add(f"Bloscpack {codec}, {reads} random reads of 4 KiB ({how}): decoded / asked", f"{ratio:.1f}",
                         f"<= {most:g}", ratio <= most, f"block {block >> 10} KiB; {1e6 * seconds / reads:.0f} us a read")

    def opening(self):
        """From `arrayfs mount` to the first 4 KiB, with ten times as many entries."""
        for name in ["val", "index"]:
            small, large = [], []
            for _ in range(4 * self.rounds):
                small.append(self.open_once(DATA / "matrix", name))
                large.append(self.open_once(DATA / "matrix10", name))
            self.slowness(f"mount to first 4 KiB of {name}, 200 against 20 million entries", large, small, 1.5)

    def open_once(self, source, name):
        start = time.perf_counter()
        with self.mounted(source) as mnt:
            with open(mnt / name, "rb", buffering=0) as file:
                file.read(4096)
            return time.perf_counter() - start

    def memory(self):
        """Peak resident memory while four readers read everything, ten times the cache and more."""
        copies = self.scratch / "copies"
        copies.mkdir()
        for name in ["matrix", "fragments"]:
            shutil.copytree(DATA / name, copies / name)
        for name in ["lz4.blp", "zstd.blp"]:
            shutil.copyfile(DATA / name, copies / name)
        for cache in [64, 128]:
            for option in [[], ["-o", "direct_io"]]:
                with self.mounted(copies, "-o", f"cache={cache}M", *option) as mnt:
                    files = [p for p in sorted(mnt.rglob("*")) if p.is_file()]
                    total = sum(p.stat().st_size for p in files)
                    run_readers(files, 4)
                    peak = peak_memory(self.status()["pid"])
                name = f"peak memory, cache {cache} MiB, 4 readers of {total / MIB:.0f} MiB" + (", direct_io" if option else "")
                self.add(name, f"{peak / MIB:.0f} MiB", f"<= {cache + 64} MiB", peak <= (cache + 64) * MIB, "VmHWM of the daemon")
        shutil.rmtree(copies)

    def listing(self):
        """ls -l and find over 10,000 Bloscpack files."""
        warm(DATA / "many")
        source, mount, find = [], [], []
        for _ in range(self.rounds):
            source.append(timed("ls", "-l", DATA / "many"))
            with self.mounted(DATA / "many") as mnt:
                mount.append(timed("ls", "-l", mnt))
            with self.mounted(DATA / "many") as mnt:
                find.append(timed("find", mnt))
        self.slowness("ls -l of 10,000 Bloscpack files, against the source", mount, source, 5)
        self.slowness("find through all of them, against ls -l in the mount", find, mount, 10)


FIGURES = ["bpcells", "decode", "numpy", "bloscpack", "random", "opening", "memory", "listing"]


def run(*argv, capture=False):
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if capture else subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit status {done.returncode}")
    return done.stdout


def timed(*argv):
    """Seconds from start to end of a program, its start included."""
    start = time.perf_counter()
    run(*argv)
    return time.perf_counter() - start


def dd(path):
    start = time.perf_counter()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
    return time.perf_counter() - start


def python(code):
    """What a Python program measures by itself."""
    return float(subprocess.run([sys.executable, "-c", "import time\n" + code], check=True, stdout=subprocess.PIPE).stdout)


def warm(path):
    """The stored bytes are in the page cache."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            file.read_bytes()


def show(times):
    best, median = min(times), statistics.median(times)
    return f"{1e3 * median:.1f} ms (best {1e3 * best:.1f})"


def criterion(directory):
    """GB/s of each benchmark: median and best sample."""
    speeds = {}
    for description in directory.rglob("new/benchmark.json"):
        about = json.loads(description.read_text())
        sample = json.loads((description.parent / "sample.json").read_text())
        times = [time / iterations for time, iterations in zip(sample["times"], sample["iters"])]
        size = about["throughput"]["Bytes"]
        speeds[about["full_id"]] = size / statistics.median(times), size / min(times)
    return speeds


def blosc_block(path):
    """Block size of the first chunk of a Bloscpack file without metadata."""
    with open(path, "rb") as file:
        header = file.read(40)
        file.seek(struct.unpack_from("<q", header, 32)[0])
        return struct.unpack_from("<I", file.read(16), 8)[0]


def read_at_random(path, reads, flag):
    offsets = random.Random(1)
    buffer = mmap.mmap(-1, 4096)
    fd = os.open(path, os.O_RDONLY | flag)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        pages = os.fstat(fd).st_size // 4096
        start = time.perf_counter()
        for _ in range(reads):
            os.preadv(fd, [buffer], 4096 * offsets.randrange(pages))
        return time.perf_counter() - start
    finally:
        os.close(fd)


def run_readers(files, count):
    """Each reader reads all files, in an order of its own."""
    readers = []
    for number in range(count):
        order = files[:]
        random.Random(number).shuffle(order)
        readers.append(subprocess.Popen(["cat", *map(str, order)], stdout=subprocess.DEVNULL))
    for reader in readers:
        if reader.wait() != 0:
            raise RuntimeError("a reader failed")


def peak_memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) << 10


def machine():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    name = model.group(1) if model else platform.machine()
    return f"{os.cpu_count()} cores, {name}, Linux {platform.release()}; load at the end {os.getloadavg()[1]:.1f}"


def print_table(rows):
    print(f"\nMeasured on {datetime.date.today()}; {machine()}.\n")
    print("| figure | median | best | target | | details |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row.name} | {row.figure} | {row.best} | {row.target} | {'yes' if row.good else '**no**'} | {row.details} |")
    print(f"\n{sum(row.good for row in rows)} of {len(rows)} targets reached")


def blpk(argv):
    """Bloscpack's own command line; bloscpack 0.16 wants MutableMapping where it was in Python 3.9."""
    import collections.abc
    collections.MutableMapping = collections.abc.MutableMapping
    from bloscpack.cli import main as bloscpack_main
    sys.argv = ["blpk", *argv]
    bloscpack_main()


def main():
    if sys.argv[1:2] == ["--blpk"]:
        return blpk(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help="of each comparison; default 7, with --quick 3")
    parser.add_argument("--list", action="store_true", help="the names of the figures")
    parser.add_argument("figures", nargs="*", metavar="FIGURE")
    arguments = parser.parse_args()
    if arguments.list:
        for name in FIGURES:
            print(f"{name:10} {getattr(Bench, name).__doc__}")
        return
    for name in arguments.figures:
        if name not in FIGURES:
            parser.error(f"no figure {name}; there are: {', '.join(FIGURES)}")
    if os.geteuid() != 0:
        sys.exit("bench.py: run as root: the minimal server mounts by itself")
    subprocess.run([sys.executable, ROOT / "scripts/bench_data.py", DATA], check=True)
    bench = Bench(arguments.rounds or (3 if arguments.quick else 7), arguments.quick)
    try:
        for name in arguments.figures or FIGURES:
            getattr(bench, name)()
    finally:
        bench.clean_up()
    print_table(bench.rows)


if __name__ == "__main__":
    main()
