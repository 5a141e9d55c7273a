"""Figures on writing ordinary files: a large one, many small ones, and one that is synced at every step."""
import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import tarfile
import time

from bench_measure import MIB, ROOT, run, show, start_server, timed
from bench_places import AS_USER, empty, is_mounted, on_disk, plain_user

TAR_FILES = 5000
SYNCS = 400


def large(bench):
    """dd bs=1M of 1 GiB into an ordinary file by a plain user, against the minimal server doing pwrite."""
    ours, minimal = [], []
    with plain_user(bench) as user:
        def write(mnt):
            argument = f"of={mnt}/file"
            return timed(*AS_USER, "dd", "if=/dev/zero", argument, "bs=1M", "count=1024", "status=none")

        for _ in range(2 * bench.rounds):
            user.empty_source()
            with user.minimal() as mnt:
                minimal.append(write(mnt))
            check_size(user.source / "file", 1024 * MIB)
            user.empty_source()
            with user.mounted("-o", "rw") as mnt:
                ours.append(write(mnt))
            check_size(user.source / "file", 1024 * MIB)
    bench.speed("dd of 1 GiB into an ordinary file, against the minimal server", ours, minimal, 0.9,
                "; both of user 65534, through fusermount3")


def tar(bench):
    """tar of 5,000 files of 1 to 8 KiB extracted, against fuser's example `simple`: on the disk, and in tmpfs."""
    program = simple_program()
    with on_disk(bench) as disk:
        compare_tar(bench, program, disk, "on the disk")
    compare_tar(bench, program, empty(bench.scratch / "tmpfs"), "both in tmpfs")
    shutil.rmtree(bench.scratch / "tmpfs")


def compare_tar(bench, program, place, how):
    archive, source, data = place / "files.tar", place / "source", place / "data"
    write_archive(archive)
    extract = lambda directory: timed("tar", "-xf", archive, "-C", directory)
    ours, simple, itself = [], [], []
    for _ in range(bench.rounds):
        with simple_server(program, empty(data), bench.mountpoint) as mnt:
            simple.append(extract(mnt))
        shutil.rmtree(data)
        with bench.mounted(empty(source), "-o", "rw") as mnt:
            ours.append(extract(mnt))
        made = sum(len(files) for _, _, files in os.walk(source))
        if made != TAR_FILES:
            raise RuntimeError(f"{made} files were extracted")
        itself.append(extract(empty(source)))
    bench.speed(f"tar of 5,000 small files extracted, {how}, against fuser's simple", ours, simple, 1.0,
                f"; without a mount {show(itself)}")


def synced(bench):
    """4 KiB write and fsync, again and again, against the same on the disk itself."""
    ours, disk_itself = [], []
    with on_disk(bench) as disk:
        for _ in range(bench.rounds):
            source, beside = empty(disk / "source"), empty(disk / "beside")
            with bench.mounted(source, "-o", "rw") as mnt:
                with new_file(beside / "file") as there, new_file(mnt / "file") as here:
                    for _ in range(SYNCS // 20):
                        disk_itself.append(write_synced(there, 20))
                        ours.append(write_synced(here, 20))
            check_size(source / "file", 4096 * SYNCS)
    bench.slowness("20 times 4 KiB write + fsync, against the disk itself", ours, disk_itself, 1.5)


@contextlib.contextmanager
def new_file(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.fsync(fd)
        yield fd
    finally:
        os.close(fd)


def write_synced(fd, count):
    page = bytes(range(256)) * 16
    start = time.perf_counter()
    for _ in range(count):
        os.write(fd, page)
        os.fsync(fd)
    return time.perf_counter() - start


def check_size(path, size):
    if path.stat().st_size != size:
        raise RuntimeError(f"{path}: {path.stat().st_size} bytes, not {size}")


def write_archive(path):
    """5,000 files in 50 directories; the same at every call."""
    generator = random.Random(5)
    with tarfile.open(path, "w") as archive:
        for number in range(TAR_FILES):
            if number % 100 == 0:
                directory = tarfile.TarInfo(f"dir{number // 100:02}")
                directory.type, directory.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(directory)
            content = generator.randbytes(generator.randint(1 << 10, 8 << 10))
            file = tarfile.TarInfo(f"dir{number // 100:02}/file{number:04}.txt")
            file.size, file.mtime = len(content), 1_700_000_000
            archive.addfile(file, io.BytesIO(content))


def simple_program():
    """fuser's example, built from the source that cargo has fetched for us."""
    out = run("cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", ROOT / "Cargo.toml", capture=True)
    [manifest] = [package["manifest_path"] for package in json.loads(out)["packages"] if package["name"] == "fuser"]
    target = ROOT / "target/simple"
    run("env", "RUSTFLAGS=-Awarnings", "cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", manifest,
        "--example", "simple", "--target-dir", target)
    return target / "release/examples/simple"


@contextlib.contextmanager
def simple_server(program, data, mountpoint):
    server = start_server(program, "--data-dir", data, "--mount-point", mountpoint)
    try:
        while not is_mounted(mountpoint):
            if server.poll() is not None:
                raise RuntimeError("fuser's simple does not start")
            time.sleep(0.005)
        run("stat", mountpoint)  # it answers
        yield pathlib.Path(mountpoint)
    finally:
        subprocess.run(["umount", mountpoint])
        server.wait(30)


FIGURES = {"write-dd": large, "write-tar": tar, "write-fsync": synced}
