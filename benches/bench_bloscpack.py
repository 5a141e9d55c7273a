"""Figures on Bloscpack, and on all kinds of arrays: against blpk, random reads, memory, listing."""
import filecmp
import mmap
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

from bench_measure import ARRAYFS, DATA, MIB, ROOT, Times, peak_memory, timed, warm

BLPK = ROOT / "scripts/blpk.py"


def bloscpack(bench):
    """512 MiB of float64: the first read through the mount, against blpk d to tmpfs."""
    out = bench.scratch / "out"
    for codec, least in [("lz4", 2.0), ("blosclz", 2.0), ("zstd", 1.8)]:
        file = DATA / f"{codec}.blp"
        warm(file)
        ours, theirs = Times(), []
        for _ in range(bench.rounds):
            with bench.mounted(file) as mnt:
                bench.read(mnt, ["data"], ours)
            theirs.append(timed(sys.executable, BLPK, "-f", "-n", "2", "d", file, out))
            out.unlink()
        bench.speed(f"Bloscpack {codec}, first read, against blpk -n 2 d", ours, theirs, least)


def packing(bench):
    """512 MiB of float64 in tmpfs, packed and unpacked, against blpk c and d."""
    raw, ours_to, theirs_to = (bench.scratch / name for name in ["raw", "ours", "theirs"])
    for codec, level, least in [("lz4", 5, 2.0), ("blosclz", 7, 2.0), ("zstd", 2, 1.8)]:
        file = DATA / f"{codec}.blp"
        warm(file)
        packs, their_packs, unpacks, their_unpacks = [], [], [], []
        for _ in range(bench.rounds):
            unpacks.append(timed(ARRAYFS, "unpack", "-f", file, raw))
            their_unpacks.append(timed(sys.executable, BLPK, "-f", "-n", "2", "d", file, theirs_to))
            if not filecmp.cmp(raw, theirs_to, shallow=False):
                raise RuntimeError(f"{file}: unpacked to other bytes")
            how = ["-c", codec, "-l", level]
            packs.append(timed(ARRAYFS, "pack", "-f", *how, raw, ours_to))
            their_packs.append(timed(sys.executable, BLPK, "-f", "-n", "2", "c", *how, raw, theirs_to))
        bench.speed(f"Bloscpack {codec}, arrayfs pack against blpk -n 2 c", packs, their_packs, 1.2,
                    f"; size {ours_to.stat().st_size / theirs_to.stat().st_size:.3f} of theirs")
        bench.speed(f"Bloscpack {codec}, arrayfs unpack against blpk -n 2 d", unpacks, their_unpacks, least)
        for path in [raw, ours_to, theirs_to]:
            path.unlink()


def random_reads(bench):
    """Bytes decoded for 4 KiB at random offsets, with a cache that is small against the array."""
    reads = 500 if bench.quick else 2000
    for codec in ["lz4", "zstd"]:
        file = DATA / f"{codec}.blp"
        block = blosc_block(file)
        for flag, how in [(os.O_DIRECT, "O_DIRECT"), (0, "POSIX_FADV_RANDOM")]:
            with bench.mounted(file, "-o", "cache=16M") as mnt:
                seconds = read_at_random(mnt / "data", reads, flag)
                decoded = bench.status()["cache"]["decoded_bytes"]
            ratio, most = decoded / (4096 * reads), block / 4096
            bench.add(f"Bloscpack {codec}, {reads} random reads of 4 KiB ({how}): decoded / asked", f"{ratio:.1f}",
                      f"<= {most:g}", ratio <= most, f"block {block >> 10} KiB; {1e6 * seconds / reads:.0f} us a read")


def memory(bench):
    """Peak resident memory while four readers read everything, ten times the cache and more."""
    copies = bench.scratch / "copies"
    copies.mkdir()
    for name in ["matrix", "fragments"]:
        shutil.copytree(DATA / name, copies / name)
    for name in ["lz4.blp", "zstd.blp"]:
        shutil.copyfile(DATA / name, copies / name)
    for cache in [64, 128]:
        for option in [[], ["-o", "direct_io"]]:
            with bench.mounted(copies, "-o", f"cache={cache}M", *option) as mnt:
                files = [p for p in sorted(mnt.rglob("*")) if p.is_file()]
                total = sum(p.stat().st_size for p in files)
                run_readers(files, 4)
                peak = peak_memory(bench.status()["pid"])
            name = f"peak memory, cache {cache} MiB, 4 readers of {total / MIB:.0f} MiB" + (", direct_io" if option else "")
            bench.add(name, f"{peak / MIB:.0f} MiB", f"<= {cache + 64} MiB", peak <= (cache + 64) * MIB, "VmHWM of the daemon")
    shutil.rmtree(copies)


def listing(bench):
    """ls -l and find over 10,000 Bloscpack files; find again over what the minimal server shows as the same tree."""
    warm(DATA / "many")
    same = bench.scratch / "same"
    with bench.mounted(DATA / "many") as mnt:
        shadow(mnt, same)
    source, mount, find, minimal = [], [], [], []
    for _ in range(bench.rounds):
        with bench.minimal(same) as mnt:
            minimal.append(timed("find", mnt))
        source.append(timed("ls", "-l", DATA / "many"))
        with bench.mounted(DATA / "many") as mnt:
            mount.append(timed("ls", "-l", mnt))
        with bench.mounted(DATA / "many") as mnt:
            find.append(timed("find", mnt))
    bench.slowness("ls -l of 10,000 Bloscpack files, against the source", mount, source, 5)
    bench.slowness("find through all of them, against the minimal server with the same tree", find, minimal, 1.3)
    shutil.rmtree(same)


def shadow(tree, copy):
    """A tree of the same names, of empty files."""
    for directory, _, files in os.walk(tree):
        here = copy / os.path.relpath(directory, tree)
        here.mkdir()
        for name in files:
            (here / name).touch()


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


FIGURES = {"bloscpack": bloscpack, "pack": packing, "random": random_reads, "memory": memory, "listing": listing}
