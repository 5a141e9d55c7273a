"""Where the figures on writing write: a directory of the repository's disk, and the mounts of a plain user in it."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import time

from bench_measure import ARRAYFS, MINIMAL, ROOT, run, start_server

USER = 65534
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
CLONE_NEWNS = 0x20000


def own_mounts():
    """From here on nobody else sees what is mounted, and it goes with the last of our processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    run("mount", "--make-rprivate", "/")


@contextlib.contextmanager
def on_disk(bench):
    """A directory of the repository's disk, under a name that every user reaches, wherever the repository lies."""
    with tempfile.TemporaryDirectory(prefix="bench-disk.", dir=ROOT / "target") as stored:
        os.chmod(stored, 0o755)
        with bound(stored, bench.scratch / "disk"):
            yield bench.scratch / "disk"


@contextlib.contextmanager
def bound(what, where):
    where.mkdir()
    try:
        run("mount", "--bind", what, where)
        try:
            yield
        finally:
            run("umount", "-l", where)
    finally:
        where.rmdir()


def empty(directory):
    """An empty directory, and a disk that has nothing to write meanwhile."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir()
    run("sync", "-f", directory)
    return directory


class User:
    """A user who is not root and mounts through fusermount3: no kernel reads or writes files for his daemon."""

    def __init__(self, disk, mountpoint):
        self.disk, self.mountpoint = disk, mountpoint
        self.source = disk / "source"

    def run(self, *argv):
        run(*AS_USER, *argv)

    def empty_source(self):
        os.chown(empty(self.source), USER, USER)
        return self.source

    @contextlib.contextmanager
    def mounted(self, *options):
        self.run(self.disk / "arrayfs", "mount", *options, self.source, self.mountpoint)
        try:
            yield self.mountpoint
        finally:
            self.run(self.disk / "arrayfs", "umount", self.mountpoint)

    @contextlib.contextmanager
    def minimal(self):
        server = start_server(*AS_USER, self.disk / "minimal-server", "--disk", self.source, self.mountpoint)
        try:
            while not is_mounted(self.mountpoint):
                if server.poll() is not None:
                    raise RuntimeError("the minimal server does not start")
                time.sleep(0.005)
            self.run("stat", self.mountpoint)  # it answers
            yield self.mountpoint
        finally:
            subprocess.run(["umount", self.mountpoint])
            server.wait(30)


@contextlib.contextmanager
def plain_user(bench):
    """Programs, a source on the disk and a mountpoint for somebody who is not root."""
    mountpoint = bench.scratch / "user"
    mountpoint.mkdir()
    os.chown(mountpoint, USER, USER)
    with on_disk(bench) as disk, open_device(bench):
        for program in [ARRAYFS, MINIMAL]:
            shutil.copy(program, disk)
        user = User(disk, mountpoint)
        user.empty_source()
        yield user
    mountpoint.rmdir()


@contextlib.contextmanager
def open_device(bench):
    """/dev/fuse is open to everybody, as on a desktop; for us alone, if it is not so."""
    device = os.stat("/dev/fuse")
    if device.st_mode & 0o666 == 0o666:
        yield
        return
    devices = bench.scratch / "devices"
    devices.mkdir()
    run("mount", "-t", "tmpfs", "none", devices)
    try:
        os.mknod(devices / "fuse", stat.S_IFCHR, device.st_rdev)
        os.chmod(devices / "fuse", 0o666)
        run("mount", "--bind", devices / "fuse", "/dev/fuse")
        try:
            yield
        finally:
            run("umount", "-l", "/dev/fuse")
    finally:
        run("umount", "-l", devices)
        devices.rmdir()


def is_mounted(path):
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == str(path) for line in lines)
