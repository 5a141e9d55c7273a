"""Figures on writing to arrays: rewritten whole, changed here and there, synced, and the memory that it takes."""
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

from bench_bloscpack import BLPK
from bench_measure import DATA, MIB, peak_memory, run, timed, warm
from bench_places import empty, on_disk

LARGE = DATA / "large"


def rewritten(bench):
    """512 MiB of float64 rewritten whole and synced, against blpk -n 2 c from tmpfs and a sync."""
    for codec, level, least in [("lz4", 5, 0.8), ("zstd", 2, 1.0)]:
        ours, theirs = [], []
        raw = decoded(bench, DATA / f"{codec}.blp", bench.scratch / "raw")
        with on_disk(bench) as disk:
            for _ in range(bench.rounds):
                source = empty(disk / "source")
                shutil.copyfile(DATA / f"{codec}.blp", source / "file.blp")
                run("sync", "-f", disk)
                with bench.mounted(source, "-o", "rw") as mnt:
                    ours.append(rewrite(raw, mnt / "file.blp/data", disk))
                    committed(mnt / "file.blp")
                check_decoded(bench, source / "file.blp", raw)
                packed = empty(disk / "packed") / "file.blp"
                pack = [sys.executable, BLPK, "-f", "-n", "2", "c", "--codec", codec, "-l", level, raw, packed]
                theirs.append(timed(*pack) + timed("sync", "-f", disk))
        raw.unlink()
        bench.speed(f"Bloscpack {codec}, 512 MiB rewritten whole and synced, against blpk -n 2 c and sync", ours, theirs,
                    least)


def one_change(bench):
    """One random 4-byte change and close in 4 GiB (commit=inplace), against the same in 64 MiB."""
    changes = 30 if bench.quick else 100
    large, small = [], []
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        for name in ["4096", "64"]:
            shutil.copyfile(of_size(int(name)), source / f"{name}.blp")
        run("sync", "-f", disk)
        with bench.mounted(source, "-o", "rw,commit=inplace") as mnt:
            generator = random.Random(9)
            for path in [mnt / "64.blp/data", mnt / "4096.blp/data"]:
                change(path, generator)  # the first one opens the container
            for _ in range(changes):
                small.append(change(mnt / "64.blp/data", generator))
                large.append(change(mnt / "4096.blp/data", generator))
            for name in ["4096", "64"]:
                committed(mnt / f"{name}.blp")
    means = statistics.mean(large), statistics.mean(small)
    ratio = means[0] / means[1]
    bench.add(f"One random 4-byte change and close in 4 GiB (in place, mean of {changes}), against 64 MiB",
              f"{ratio:.2f}", "<= 2", ratio <= 2, f"{1e3 * means[0]:.1f} ms against {1e3 * means[1]:.1f} ms",
              f"{min(large) / min(small):.2f}")


def many_changes(bench):
    """1,000 random 4-byte changes through mmap in 512 MiB, then close, against cp of the stored file and sync -f."""
    stored = DATA / "lz4.blp"
    ours, copied = [], []
    with on_disk(bench) as disk:
        generator = random.Random(10)
        for _ in range(bench.rounds):
            source, copies = empty(disk / "source"), empty(disk / "copies")
            shutil.copyfile(stored, source / "file.blp")
            run("sync", "-f", disk)
            copied.append(timed("cp", stored, copies) + timed("sync", "-f", disk))
            with bench.mounted(source, "-o", "rw") as mnt:
                ours.append(changed_by_mapping(mnt / "file.blp/data", generator, 1000))
                committed(mnt / "file.blp")
    bench.slowness("1,000 random 4-byte changes by mmap in 512 MiB and close, against cp and sync -f", ours, copied, 4)


def synced(bench):
    """4 KiB write and fsync in an array of a 4 GiB container, against the same in a preallocated plain file."""
    ours, plain = [], []
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        shutil.copyfile(of_size(4096), source / "file.blp")
        with open(disk / "plain", "wb") as file:
            for _ in range(256):
                file.write(bytes(MIB))
        run("sync", "-f", disk)
        generator = random.Random(11)
        with bench.mounted(source, "-o", "rw") as mnt:
            here, there = os.open(mnt / "file.blp/data", os.O_RDWR), os.open(disk / "plain", os.O_RDWR)
            for _ in range(400 if bench.quick else 2000):
                ours.append(write_synced(here, 4096 * MIB, generator))
                plain.append(write_synced(there, 256 * MIB, generator))
            os.close(here)
            os.close(there)
    bench.slowness("4 KiB write + fsync in an array of 4 GiB, against a preallocated plain file", ours, plain, 2)


def memory(bench):
    """Peak resident memory while an array of 4 GiB is rewritten under a budget of 256 MiB."""
    with on_disk(bench) as disk:
        source = empty(disk / "source")
        shutil.copyfile(of_size(4096), source / "file.blp")
        with bench.mounted(source, "-o", "rw,cache=256M") as mnt:
            pid = bench.status()["pid"]
            start = time.perf_counter()
            with open(mnt / "file.blp/data", "r+b") as file, open(mnt / "file.blp/data", "rb") as old:
                while data := old.read(8 * MIB):
                    file.write(data)
            # More than a close commits by itself.
            os.setxattr(mnt, "user.arrayfs.commit", b"1")
            seconds = time.perf_counter() - start
            committed(mnt / "file.blp")
            peak = peak_memory(pid)
    most = 256 + 64
    bench.add("Peak memory while 4 GiB are rewritten, cache=256M", f"{peak / MIB:.0f} MiB", f"<= {most} MiB",
              peak <= most * MIB, f"{seconds:.1f} s")


def decoded(bench, container, to):
    with bench.mounted(container, "-o", "ro") as mnt:
        shutil.copyfile(mnt / "data", to)
    return to


def check_decoded(bench, container, raw):
    out = bench.scratch / "check"
    run(sys.executable, BLPK, "-f", "d", container, out)
    run("cmp", raw, out)
    out.unlink()


def rewrite(raw, array, disk):
    return timed("cp", raw, array) + timed("sync", "-f", disk)


def committed(container):
    """A figure of something that stays staged would be none."""
    state = os.getxattr(container, "user.arrayfs.state")
    if state.startswith(b"staged"):
        raise RuntimeError(f"{container}: {state.decode()}")


def change(path, generator):
    offset = generator.randrange(os.stat(path).st_size // 4) * 4
    start = time.perf_counter()
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, generator.randbytes(4), offset)
    os.close(fd)
    return time.perf_counter() - start


def changed_by_mapping(path, generator, count):
    size = os.stat(path).st_size
    start = time.perf_counter()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        for _ in range(count):
            at = generator.randrange(size // 4) * 4
            mapped[at:at + 4] = generator.randbytes(4)
    run("sync", "-f", path.parent)
    return time.perf_counter() - start


def write_synced(fd, size, generator):
    page = generator.randbytes(4096)
    at = generator.randrange(size // 4096) * 4096
    start = time.perf_counter()
    os.pwrite(fd, page, at)
    os.fsync(fd)
    return time.perf_counter() - start


def of_size(mib):
    """A Bloscpack file of so many MiB of float64 by the real program, made once."""
    path = LARGE / f"{mib}.blp"
    if not path.exists():
        LARGE.mkdir(exist_ok=True)
        raw = LARGE / "raw"
        subprocess.run([sys.executable, BLPK, "-f", "d", DATA / "lz4.blp", raw], check=True, stdout=subprocess.DEVNULL)
        with open(raw, "r+b") as file:
            part = file.read()
            for _ in range(1, mib * MIB // len(part)):
                file.write(part)
            file.truncate(mib * MIB)
        made = path.with_suffix(".new")
        run(sys.executable, BLPK, "-f", "-n", "2", "c", "--codec", "lz4", raw, made)
        raw.unlink()
        made.rename(path)
    return path


FIGURES = {"rewrite": rewritten, "change-one": one_change, "change-many": many_changes, "change-fsync": synced,
           "rewrite-memory": memory}
