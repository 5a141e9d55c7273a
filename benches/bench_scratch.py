"""Figures on scratch mounts: against Btrfs with compression on a loop device, against the disk itself, against a
minimal server.

The store, the loop device's image and the plain directory lie on the same disk.
"""
import contextlib
import os
import pathlib
import sqlite3
import subprocess
import tarfile
import time

import numpy

from bench_measure import MIB, dd, peak_memory, run, timed
from bench_places import empty, on_disk

SIZE = 512 * MIB
RANDOM_READS = 500


def float64():
    """A ramp with 12 noisy low bits."""
    random = numpy.random.default_rng(1)
    ramp = numpy.linspace(1, 2, SIZE // 8)
    return ramp.view("u8") ^ random.integers(0, 1 << 12, ramp.size, "u8")


def int32():
    return numpy.random.default_rng(2).poisson(2, SIZE // 4).astype("i4")


def noise():
    return numpy.random.default_rng(3).integers(0, 1 << 63, SIZE // 8, "u8")


KINDS = {"float64": float64, "int32": int32}


@contextlib.contextmanager
def btrfs(bench, disk, compress):
    """A file system of its own on a loop device whose image lies on the disk."""
    image, mnt = disk / "btrfs.image", bench.scratch / "btrfs"
    with open(image, "wb") as file:
        file.truncate(8 << 30)
    run("mkfs.btrfs", "-q", "-f", image)
    mnt.mkdir()
    run("mount", "-o", f"loop,compress-force={compress},noatime", image, mnt)
    try:
        yield mnt
    finally:
        run("umount", mnt)
        mnt.rmdir()
        image.unlink()


@contextlib.contextmanager
def scratch(bench, disk, *options):
    store = disk / "store"
    store.mkdir(exist_ok=True)
    with bench.mounted(store, "-o", ",".join(("rw", "scratch", *options))) as mnt:
        yield mnt


def write(raw, to):
    """Seconds to write a file in pieces of 1 MiB and to sync it."""
    return timed("dd", f"if={raw}", f"of={to}", "bs=1M", "conv=fsync", "status=none")


def drop_caches():
    run("sync")
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def random_reads(path):
    offsets = numpy.random.default_rng(4).integers(0, SIZE // 4096, RANDOM_READS)
    file = os.open(path, os.O_RDONLY)
    start = time.perf_counter()
    for offset in offsets:
        os.pread(file, 4096, int(offset) * 4096)
    os.close(file)
    return time.perf_counter() - start


def stored(path):
    """Bytes that a file, or a tree of them, takes on the disk."""
    out = subprocess.run(["du", "-s", "-B1", path], check=True, stdout=subprocess.PIPE).stdout
    return int(out.split()[0])


def btrfs_bytes(mnt):
    run("sync", "-f", mnt)
    out = subprocess.run(["btrfs", "filesystem", "df", "-b", mnt], check=True, stdout=subprocess.PIPE).stdout.decode()
    return sum(int(line.rpartition("used=")[2]) for line in out.splitlines() if line.startswith("Data"))


def raw_files(bench, kinds):
    for name, make in kinds.items():
        raw = bench.scratch / name
        make().tofile(raw)
        yield name, raw
        raw.unlink()


def scratch_arrays(bench):
    """512 MiB of numbers written, and read cold, in a scratch mount against Btrfs with zstd:1."""
    most = {"float64": 0.30, "int32": 0.55}
    for name, raw in raw_files(bench, KINDS):
        ours, theirs = ({kind: [] for kind in ("write", "read", "random")} for _ in range(2))
        with on_disk(bench) as disk, btrfs(bench, disk, "zstd:1") as plain:
            for _ in range(bench.rounds):
                for times, directory in ((ours, None), (theirs, plain)):
                    with scratch(bench, disk) if directory is None else contextlib.nullcontext(directory) as mnt:
                        run("rm", "-f", mnt / "x")
                        run("sync")
                        times["write"].append(write(raw, mnt / "x"))
                        drop_caches()
                        times["read"].append(dd(mnt / "x"))
                        drop_caches()
                        times["random"].append(random_reads(mnt / "x"))
            size, peer = stored(disk / "store/x.blp"), btrfs_bytes(plain)
        title = f"512 MiB of {name} in a scratch mount, against Btrfs zstd:1"
        bench.speed(f"{title}: written and synced", ours["write"], theirs["write"], 1.5)
        bench.speed(f"{title}: read cold", ours["read"], theirs["read"], 1.2)
        bench.speed(f"{title}: {RANDOM_READS} random 4 KiB, cold", ours["random"], theirs["random"], 1.0)
        ratio = size / peer
        bench.add(f"{title}: stored bytes", f"{ratio:.2f}", f"<= {most[name]}", ratio <= most[name],
                  f"{size / MIB:.1f} MiB against {peer / MIB:.1f}")


def scratch_noise(bench):
    """512 MiB that cannot be compressed, against the disk itself; and read again from the page cache."""
    ours, theirs, again, cached = [], [], [], []
    for _, raw in raw_files(bench, {"noise": noise}):
        with on_disk(bench) as disk:
            (disk / "plain").mkdir()
            for _ in range(bench.rounds):
                with scratch(bench, disk) as mnt:
                    run("rm", "-f", mnt / "x", disk / "plain/x")
                    run("sync")
                    ours.append(write(raw, mnt / "x"))
                    dd(mnt / "x")
                    again.append(dd(mnt / "x"))
                run("sync")
                theirs.append(write(raw, disk / "plain/x"))
                cached.append(dd(disk / "plain/x"))
            more = stored(disk / "store/x.blp") / SIZE - 1
    bench.speed("512 MiB of noise written to a scratch mount and synced, against the disk", ours, theirs, 0.5)
    bench.add("stored bytes of it beyond its own", f"{more:.4%}", "<= 0.1 %", more <= 0.001, "")
    bench.speed("read again from the page cache, against the disk", again, cached, 0.9)


def overwrite(path, size, pieces):
    offsets = numpy.random.default_rng(5).integers(0, size // 4096, 1000)
    file = os.open(path, os.O_WRONLY)
    start = time.perf_counter()
    for number, offset in enumerate(offsets):
        os.pwrite(file, pieces[number * 4096:][:4096], int(offset) * 4096)
        if number % 100 == 99:
            os.fdatasync(file)
    os.close(file)
    return time.perf_counter() - start


def scratch_overwrite(bench):
    """1,000 overwrites of 4 KiB with an fsync every 100, and the unmount: 1 GiB against 64 MiB; against the disk."""
    for kind, make in {"float64": float64, "noise": noise}.items():
        large, small, plain = [], [], []
        with on_disk(bench) as disk:
            content = make().tobytes()
            pieces = content[-4096 * 1000:]
            for _ in range(bench.rounds):
                for times, size in ((large, 2 * SIZE), (small, SIZE // 8)):
                    with scratch(bench, disk) as mnt:
                        (mnt / "x").write_bytes((content * 2)[:size])
                    run("sync")
                    start = time.perf_counter()
                    with scratch(bench, disk) as mnt:
                        mounted = time.perf_counter()
                        overwrite(mnt / "x", size, pieces)
                    times.append(time.perf_counter() - mounted)
                (disk / "plain").write_bytes((content * 2)[:2 * SIZE])
                run("sync")
                plain.append(overwrite(disk / "plain", 2 * SIZE, pieces))
        title = f"1,000 overwrites of 4 KiB of {kind}, fsync every 100, merged"
        bench.slowness(f"{title}: in 1 GiB against 64 MiB", large, small, 2)
        bench.slowness(f"{title}: in 1 GiB against the disk", large, plain, 2)


def scratch_files(bench):
    """Many small files: a tar extracted, files replaced, SQLite, ls; against the minimal server and the disk."""
    archive = bench.scratch / "files.tar"
    random = numpy.random.default_rng(6)
    tree = empty(bench.scratch / "tree")
    for number in range(5000):
        directory = tree / str(number // 100)
        directory.mkdir(exist_ok=True)
        words = random.integers(0, 2000, int(random.integers(200, 1500)))
        (directory / f"{number}.txt").write_text(" ".join(f"word{word}" for word in words))
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, "tree")
    ours, plain = {}, {}
    works = {
        "a tar of 5,000 files extracted": (lambda at: timed("tar", "xf", archive, "-C", at), 0.7),
        "2,000 files made, synced and renamed": (replace_files, 0.4),
        "2,000 SQLite transactions, WAL, synchronous=FULL": (transactions, 0.5),
    }
    with on_disk(bench) as disk:
        # Nothing is removed in between: ext4 is slow to give away what has just been.
        for number in range(bench.rounds):
            for title, (work, _) in works.items():
                name = f"{number} {title.split()[1]}"
                with scratch(bench, disk) as mnt:
                    (mnt / name).mkdir()
                    ours.setdefault(title, []).append(work(mnt / name))
                plain.setdefault(title, []).append(work(empty(disk / name)))
    for title, (_, least) in works.items():
        bench.speed(f"{title}, in a scratch mount against the disk", ours[title], plain[title], least)


def replace_files(at):
    start = time.perf_counter()
    for number in range(2000):
        with open(at / "new", "wb", buffering=0) as file:
            file.write(b"%d " % number * 300)
            os.fsync(file.fileno())
        os.rename(at / "new", at / f"{number}")
    return time.perf_counter() - start


def transactions(at):
    connection = sqlite3.connect(at / "x.db", isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("create table t (number int, text text)")
    start = time.perf_counter()
    for number in range(2000):
        connection.execute("insert into t values (?, ?)", (number, f"row {number}"))
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def scratch_listing(bench):
    """ls -lR of 100,000 files, cold, against the disk."""
    count = 10_000 if bench.quick else 100_000
    ours, plain = [], []
    with on_disk(bench) as disk:
        with scratch(bench, disk) as mnt:
            for at in (mnt, empty(disk / "plain")):
                for number in range(count):
                    (at / f"{number // 1000}").mkdir(exist_ok=True)
                    (at / f"{number // 1000}/{number}").write_bytes(b"x" * (number % 300))
        for _ in range(bench.rounds):
            with scratch(bench, disk) as mnt:
                drop_caches()
                ours.append(timed("ls", "-lR", mnt))
            drop_caches()
            plain.append(timed("ls", "-lR", disk / "plain"))
    bench.slowness(f"ls -lR of {count} files of a scratch mount, cold, against the disk", ours, plain, 3)


def scratch_sparse(bench):
    """truncate -s 100G."""
    with on_disk(bench) as disk:
        with scratch(bench, disk) as mnt:
            start = time.perf_counter()
            run("truncate", "-s", "100G", mnt / "x")
        seconds = time.perf_counter() - start
        size = stored(disk / "store/x.blp")
    bench.add("truncate -s 100G and unmount", f"{seconds:.2f} s", "<= 2 s", seconds <= 2, f"stored {size / MIB:.1f} MiB")
    bench.add("stored bytes of it", f"{size / (100 << 30):.3%}", "<= 0.1 %", size <= (100 << 30) // 1000, "")


def scratch_memory(bench):
    """Peak memory of the daemon while 8 programs write 4 GiB, cache=256M."""
    with on_disk(bench) as disk, scratch(bench, disk, "cache=256M") as mnt:
        raw = bench.scratch / "raw"
        float64().tofile(raw)
        start = time.perf_counter()
        writers = [subprocess.Popen(["dd", f"if={raw}", f"of={mnt}/{n}", "bs=1M", "status=none"]) for n in range(8)]
        assert all(writer.wait() == 0 for writer in writers)
        seconds = time.perf_counter() - start
        peak = peak_memory(bench.status()["pid"])
        raw.unlink()
    most = (256 + 64) * MIB
    bench.add("peak memory while 8 programs write 4 GiB to a scratch mount, cache=256M", f"{peak / MIB:.0f} MiB",
              "<= 320 MiB", peak <= most, f"{4096 / seconds:.0f} MiB/s")


FIGURES = {"scratch-arrays": scratch_arrays, "scratch-noise": scratch_noise, "scratch-overwrite": scratch_overwrite,
           "scratch-files": scratch_files, "scratch-listing": scratch_listing, "scratch-sparse": scratch_sparse,
           "scratch-memory": scratch_memory}
