"""What the figures of bench.py are measured with: mounts, clocks, the rows of the table.

A figure is a function that is given a `Bench`; its name in the table of its module is what bench.py calls it.
"""
import collections
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
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


class Times(list):
    """Seconds, one a round, and beside them the share of the cores that was at work meanwhile."""

    def __init__(self):
        super().__init__()
        self.cores = []


class Bench:
    def __init__(self, rounds, quick):
        self.rounds, self.quick, self.rows = rounds, quick, []
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-bench.", dir="/dev/shm"))
        self.scratch.chmod(0o755)
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
    def minimal(self, directory, *options):
        server = start_server(MINIMAL, *options, directory, self.mountpoint)
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

    def first_reads(self, source, names):
        """Seconds to read these arrays for the first time, each round in a new mount: ours, and the minimal server's."""
        warm(source)
        decoded = self.scratch / "decoded"
        decoded.mkdir()
        with self.mounted(source) as mnt:
            for name in names:
                shutil.copyfile(mnt / name, decoded / name)
        ours, minimal = Times(), []
        for _ in range(self.rounds):
            with self.minimal(decoded) as mnt:
                minimal.append(sum(dd(mnt / name) for name in names))
            with self.mounted(source) as mnt:
                self.read(mnt, names, ours)
        shutil.rmtree(decoded)
        return ours, minimal

    def read(self, mnt, names, times):
        """Reads these arrays one after the other; notes the time, and how much of the cores reader and daemon used."""
        pid = self.status()["pid"]
        before = busy(pid)
        seconds = sum(dd(mnt / name) for name in names)
        times.append(seconds)
        times.cores.append((busy(pid) - before) / (seconds * os.cpu_count()))

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


def run(*argv, capture=False):
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if capture else subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit status {done.returncode}")
    return done.stdout


def start_server(*argv):
    """In a session of its own, as arrayfs is: the kernel shares the processors out by sessions, and under load a server
    in that of its client is faster."""
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)


def timed(*argv):
    """Seconds from start to end of a program, its start included."""
    start = time.perf_counter()
    run(*argv)
    return time.perf_counter() - start


def dd(path):
    start = time.perf_counter()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
    return time.perf_counter() - start


def busy_alone(pid):
    """Seconds that this process has used of the processors."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def busy(pid):
    """Seconds that this process, by the kernel's finest clock, and all children of ours have used of the processors."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy_alone(pid) + children.ru_utime + children.ru_stime


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
    cores = f", cores {statistics.median(times.cores):.2f}" if isinstance(times, Times) else ""
    return f"{1e3 * median:.1f} ms (best {1e3 * best:.1f}{cores})"


def peak_memory(pid):
    """Bytes that a process has had resident at most."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) << 10
