"""Crashes of scratch mounts, for nightly_scratch.sh.

    nightly_scratch.py sqlite DIRECTORY      databases whose daemon is killed while they are written to
    nightly_scratch.py powerloss DIRECTORY   copies of a disk as a power loss would leave it
    nightly_scratch.py full DIRECTORY        a disk, and a user's quota, with no room left

Each works in DIRECTORY, which is empty, and needs root. Exit status 0 when all was as it has to be.
What is random follows from ARRAYFS_TEST_SEED, which is printed.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import mmap
import os
import random
import select
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

SEED = int(os.environ.get("ARRAYFS_TEST_SEED") or random.randrange(1 << 32))
PATIENCE = 120

failures = []


def say(what):
    print(what, flush=True)


def fail(what):
    failures.append(what)
    say(f"FAILED: {what}")


def ran(*command):
    """The exit status, and what was said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 5)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*command):
    status, said = ran(*command)
    if status != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {status}: {said}")
    return said


def is_mounted(path):
    with open("/proc/self/mountinfo") as mounts:
        return any(line.split()[4] == str(path) for line in mounts)


class Scratch:
    """A scratch mount."""

    def __init__(self, store, mount, options=""):
        self.store, self.path, self.options = store, mount, options
        store.mkdir(exist_ok=True)
        mount.mkdir(exist_ok=True)
        self.mount()

    def mount(self):
        self.log = self.path.with_name(self.path.name + ".log")
        must("arrayfs", "mount", "-o", f"scratch,log={self.log}{self.options}", self.store, self.path)

    def daemon(self):
        return json.loads(must("arrayfs", "status", "--json", self.path))[0]["daemon"]["pid"]

    def kill(self):
        """Ends the daemon at once; the mount stays, and is dead."""
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while os.path.exists(f"/proc/{pid}"):
            if time.monotonic() > until:
                raise RuntimeError(f"the killed daemon {pid} is still there")
            time.sleep(0.01)

    def abandon(self):
        """After a failure: whatever is not stored is lost."""
        if is_mounted(self.path):
            self.kill()
            must("umount", self.path)

    def umount(self):
        return ran("arrayfs", "umount", self.path)

    def verify(self):
        status, said = ran("arrayfs", "verify", self.store)
        if status != 0:
            fail(f"arrayfs verify {self.store}: exit status {status}: {said[-2000:]}")


# Databases.

KILLS = 50
TRANSACTIONS = 10_000


class Acknowledged:
    """What a writer says outside of the mount of each transaction that was committed: its number,
    and which row it has changed."""

    FORM = struct.Struct("<QQ")

    def __init__(self, path):
        self.path = path
        path.touch()

    def count(self):
        return self.path.stat().st_size // self.FORM.size

    def editions(self):
        return list(self.FORM.iter_unpack(self.path.read_bytes()[: self.count() * self.FORM.size]))


def digest(number, edition, value):
    return hashlib.sha256(struct.pack("<QQ", number, edition) + value).digest()


def value_of(rng):
    """A few bytes, or many; half of them compress."""
    size = rng.choice([10, 300, 3000, 3000, 20_000])
    return rng.randbytes(size) if rng.random() < 0.5 else bytes([rng.randrange(256)]) * size


def write_transactions(path, mode, acknowledged, seed):
    """Until the daemon is killed; then the error ends it."""
    rng = random.Random(seed)
    base = sqlite3.connect(path, isolation_level=None, timeout=20)
    assert base.execute(f"PRAGMA journal_mode={mode}").fetchone()[0] == mode
    base.execute("PRAGMA synchronous=FULL")
    base.execute("PRAGMA wal_autocheckpoint=200")
    base.execute("CREATE TABLE IF NOT EXISTS rows(id INTEGER PRIMARY KEY, edition INTEGER, value BLOB, digest BLOB)")
    base.execute("CREATE TABLE IF NOT EXISTS large(id INTEGER PRIMARY KEY, value BLOB)")
    base.execute("CREATE INDEX IF NOT EXISTS by_digest ON rows(digest)")
    with open(acknowledged, "ab", buffering=0) as log:
        number = base.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()[0]
        # One that was committed as the daemon was killed was not acknowledged: now it is known to be there.
        if number > os.path.getsize(acknowledged) // Acknowledged.FORM.size:
            changed = base.execute("SELECT id FROM rows WHERE edition = ? AND id < ?", (number, number)).fetchone()
            log.write(Acknowledged.FORM.pack(number, changed[0] if changed else number))
        while True:
            number += 1
            old = rng.randrange(1, number + 1)
            base.execute("BEGIN IMMEDIATE")
            value = value_of(rng)
            row = (number, number, value, digest(number, number, value))
            base.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", row)
            value = value_of(rng)
            row = (number, value, digest(old, number, value), old)
            base.execute("UPDATE rows SET edition = ?, value = ?, digest = ? WHERE id = ?", row)
            if rng.random() < 0.02:
                base.execute("INSERT INTO large(value) VALUES (?)", (rng.randbytes(rng.randrange(1 << 20)),))
                base.execute("DELETE FROM large WHERE id < (SELECT max(id) FROM large) - 3")
            base.execute("COMMIT")
            log.write(Acknowledged.FORM.pack(number, old))


def check_database(path, mode, acknowledged, what):
    base = sqlite3.connect(path, isolation_level=None, timeout=20)
    with contextlib.closing(base):
        told = base.execute("PRAGMA integrity_check").fetchall()
        if told != [("ok",)]:
            fail(f"{what}, {mode}: integrity_check: {told[:5]}")
        if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            if acknowledged.count():
                fail(f"{what}, {mode}: no table")
            return
        rows = base.execute("SELECT id, edition, value, digest FROM rows ORDER BY id").fetchall()
        count = acknowledged.count()
        if not count <= len(rows) <= count + 1 or [row[0] for row in rows] != list(range(1, len(rows) + 1)):
            fail(f"{what}, {mode}: {count} transactions were acknowledged, {len(rows)} rows are there")
        broken = [row[0] for row in rows if digest(row[0], row[1], row[2]) != row[3]]
        if broken:
            fail(f"{what}, {mode}: rows {broken[:5]} are not what was written")
        editions = {row[0]: row[1] for row in rows}
        late = [(number, old) for number, old in acknowledged.editions() if editions.get(old, 0) < number]
        if late:
            fail(f"{what}, {mode}: changes of rows are missing: {late[:5]}")


def sqlite(directory):
    rng = random.Random(SEED)
    scratch = Scratch(directory / "store", directory / "mount")
    bases = {
        mode: (scratch.path / f"{mode}.db", Acknowledged(directory / f"{mode}.acknowledged"))
        for mode in ("delete", "wal", "persist", "truncate")
    }
    total = lambda: sum(acknowledged.count() for _, acknowledged in bases.values())
    kills = 0
    remounts = []
    while kills < KILLS or total() < TRANSACTIONS:
        first = total()
        writers = []
        for mode, (path, acknowledged) in bases.items():
            command = [sys.executable, "-B", __file__, "sqlite-writer", path, mode, acknowledged.path]
            command.append(str(rng.randrange(1 << 32)))
            writers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        average = TRANSACTIONS // KILLS
        wanted = rng.randrange(average // 2, average * 3 // 2)
        until = time.monotonic() + PATIENCE
        while total() < first + wanted and all(writer.poll() is None for writer in writers):
            if time.monotonic() > until:
                fail(f"kill {kills}: {total() - first} transactions in {PATIENCE} s")
                break
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        ended = [writer for writer in writers if writer.poll() is not None]
        scratch.kill()
        kills += 1
        for writer in writers:
            try:
                _, said = writer.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                fail(f"kill {kills}: a writer hangs")
                writer.kill()
                continue
            if writer in ended:
                fail(f"kill {kills}: a writer ended before: {said[-1000:]}")
        scratch.umount()
        begun = time.monotonic()
        scratch.mount()
        remounts.append(time.monotonic() - begun)
        for mode, (path, acknowledged) in bases.items():
            check_database(path, mode, acknowledged, f"kill {kills}")
        if len(failures) > 5:
            break
    for mode, (path, acknowledged) in bases.items():
        check_database(path, mode, acknowledged, "at the end")
    status, said = scratch.umount()
    if status != 0:
        fail(f"umount: exit status {status}: {said}")
    scratch.verify()
    say(f"{total()} transactions, {kills} kills; a mount took at most {max(remounts):.1f} s")


# A disk that loses its power.

FUSE_INIT, FUSE_GETATTR, FUSE_SETATTR, FUSE_OPEN, FUSE_READ, FUSE_WRITE = 26, 3, 4, 14, 15, 16
FUSE_STATFS, FUSE_RELEASE, FUSE_FSYNC, FUSE_FLUSH, FUSE_DESTROY = 17, 18, 20, 25, 38
NO_REPLY = (2, 36, 42)  # forget, interrupt, batch_forget
BLOCK = 4096
MAX_WRITE = 1 << 20


class VolatileDisk:
    """A file with the bytes of a disk, served by FUSE for a loop device: it knows what was flushed,
    and what was written since then and is gone when the power is.

    Runs in a process of its own. A copy as of this moment is made when `control` asks for it.
    """

    def __init__(self, image, point, control):
        self.now = bytearray(image.read_bytes())
        self.flushed = bytearray(self.now)
        self.pending = []
        self.control = control
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.fuse},rootmode={stat.S_IFREG:o},user_id=0,group_id=0".encode()
        if libc.mount(b"volatile", str(point).encode(), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def serve(self):
        while True:
            ready, _, _ = select.select([self.fuse, self.control], [], [])
            if self.control in ready:
                asked = self.control.recv(4096)
                if not asked:
                    return
                self.copy(json.loads(asked))
                self.control.send(b"done")
            if self.fuse in ready:
                try:
                    request = os.read(self.fuse, MAX_WRITE + 8192)
                except OSError as e:
                    if e.errno == errno.ENODEV:
                        return
                    raise
                self.answer(request)

    def answer(self, request):
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        if opcode in NO_REPLY:
            return
        code, body = self.answer_to(opcode, request)
        os.write(self.fuse, struct.pack("<IiQ", 16 + len(body), -code, unique) + body)

    def answer_to(self, opcode, request):
        if opcode == FUSE_INIT:
            # Large writes, of as many pages.
            flags = 1 << 5 | 1 << 22
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, flags, 16, 12, MAX_WRITE, 1, MAX_WRITE // BLOCK, 0, 0)
        if opcode in (FUSE_GETATTR, FUSE_SETATTR):
            size = len(self.now)
            attributes = struct.pack("<6Q10I", 1, size, size // 512, 0, 0, 0, 0, 0, 0, stat.S_IFREG | 0o600, 1, 0, 0, 0, BLOCK, 0)
            return 0, struct.pack("<QII", 1000, 0, 0) + attributes
        if opcode == FUSE_OPEN:
            return 0, struct.pack("<QIi", 0, 1, 0)
        if opcode == FUSE_READ:
            offset, size = struct.unpack_from("<QI", request, 48)
            return 0, bytes(self.now[offset : offset + size])
        if opcode == FUSE_WRITE:
            offset, size = struct.unpack_from("<QI", request, 48)
            data = request[80 : 80 + size]
            self.now[offset : offset + size] = data
            self.pending.append((offset, data))
            return 0, struct.pack("<II", size, 0)
        if opcode == FUSE_FSYNC:
            for offset, data in self.pending:
                self.flushed[offset : offset + len(data)] = data
            self.pending.clear()
            return 0, b""
        if opcode == FUSE_STATFS:
            return 0, struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, BLOCK, 255, BLOCK, 0)
        if opcode in (FUSE_RELEASE, FUSE_FLUSH, FUSE_DESTROY):
            return 0, b""
        return errno.EOPNOTSUPP if opcode == 43 else errno.ENOSYS, b""

    def copy(self, asked):
        """With a part of what was not flushed, in blocks."""
        rng = random.Random(asked["seed"])
        left = bytearray(self.flushed)
        for offset, data in self.pending:
            for at in range(0, len(data), BLOCK):
                if rng.random() < asked["part"]:
                    part = data[at : at + BLOCK]
                    left[offset + at : offset + at + len(part)] = part
        with open(asked["path"], "wb") as copy:
            copy.truncate(len(left))
            zeros = bytes(1 << 16)
            for at in range(0, len(left), 1 << 16):
                part = left[at : at + (1 << 16)]
                if part != zeros:
                    copy.seek(at)
                    copy.write(part)


CELL = 509
COPIES = 40
WRITERS = 3
NAMES = 10
DISK = 256 << 20


def cell(file, number, version):
    """What a version of a file has there; version 0 is zeros."""
    if version == 0:
        return bytes(CELL)
    of = struct.pack("<QII", file, number, version)
    if file % 2:
        return hashlib.shake_128(of).digest(CELL)
    return (of * (CELL // len(of) + 1))[:CELL]


class ModelFile:
    """A file by what was done to it. `synced`: how much of that was acknowledged to be on the disk."""

    def __init__(self, number):
        self.number, self.steps, self.synced, self.len = number, [], 0, 0

    def write(self, first, count, version):
        self.steps.append(("write", first, count, version))
        self.len = max(self.len, first + count)

    def zero(self, first, count):
        self.steps.append(("write", first, count, 0))

    def cut(self, count):
        self.steps.append(("cut", count, 0, 0))
        self.len = count

    def wrong(self, data, synced, steps):
        """What is wrong with what was found, if so many steps are there for sure and the next may be."""
        versions = []
        for kind, first, count, version in self.steps[:synced]:
            if kind == "cut":
                versions = versions[:first] + [0] * (first - len(versions))
            else:
                versions += [0] * (first + count - len(versions))
                versions[first : first + count] = [version] * count
        allowed = [{version} for version in versions]
        lens = [len(versions)]
        for kind, first, count, version in self.steps[synced:steps]:
            end = first if kind == "cut" else max(lens[-1], first + count)
            # What has been cut, skipped, or may not have come yet.
            while len(allowed) < end:
                allowed.append({0} if synced or kind == "cut" or len(allowed) < first else set())
            for number in range(min(end, lens[-1]), max(end, lens[-1])):
                if kind == "cut":
                    allowed[number].add(0)
            if kind == "write":
                for number in range(first, first + count):
                    allowed[number].add(version)
            lens.append(end)
        if not min(lens) * CELL <= len(data) <= max(lens) * CELL:
            return f"{len(data)} bytes, not {min(lens) * CELL} to {max(lens) * CELL}"
        for number in range(-(-len(data) // CELL)):
            found = data[number * CELL : (number + 1) * CELL]
            may_be = [cell(self.number, number, version)[: len(found)] for version in allowed[number]]
            if found in may_be:
                continue
            # At the border of two chunks.
            if len(may_be) < 2 or any(byte not in at for byte, at in zip(found, map(set, zip(*may_be)))):
                return f"cell {number} at {number * CELL}: {found[:24].hex()}, allowed versions {sorted(allowed[number])}"
        return None


class Writer(threading.Thread):
    """Changes the files of a directory, and knows what each may be after a power loss.

    `names` has of each name what it has meant, the last of it now: file and how many steps it
    certainly has, or none; `certain` which of them was acknowledged.
    """

    files_made = 0
    numbers = threading.Lock()

    def __init__(self, directory, seed):
        super().__init__(daemon=True)
        self.directory, self.rng, self.lock = directory, random.Random(seed), threading.Lock()
        self.names = {f"file-{n}": [(None, 0)] for n in range(NAMES)}
        self.certain = dict.fromkeys(self.names, 0)
        self.version = self.done = self.acknowledged = 0
        self.failure = None
        self.ends = False
        directory.mkdir()
        fsync_directory(directory)
        fsync_directory(directory.parent)

    def run(self):
        steps = [self.make, self.replace, self.replace, self.overwrite, self.overwrite, self.append, self.append,
                 self.append, self.cut, self.rewrite, self.remove, self.rename, self.map, self.punch, self.sync_directory]
        try:
            while not self.ends:
                self.rng.choice(steps)()
                self.done += 1
        except Exception as e:
            self.failure = f"{type(e).__name__}: {e}"

    def next_version(self):
        self.version += 1
        return self.version

    def pick(self):
        there = [name for name, meant in self.names.items() if meant[-1][0]]
        return self.rng.choice(there) if there else None

    def named(self, name, file, least=0):
        self.names[name].append((file, least))

    def count(self):
        return self.rng.choice([1, 3, 20, 20, 150, 150, 600, 600, 2500, 10_000])

    def sync(self, fd, file, name=None, data=False):
        (os.fdatasync if data else os.fsync)(fd)
        with self.lock:
            file.synced = len(file.steps)
            if name:
                self.certain[name] = len(self.names[name]) - 1
        self.acknowledged += 1

    def maybe_sync(self, fd, file, name):
        if self.rng.random() < 0.6:
            self.sync(fd, file, name, self.rng.random() < 0.3)

    def put(self, fd, file, first, count):
        version = self.next_version()
        with self.lock:
            file.write(first, count, version)
        data = b"".join(cell(file.number, number, version) for number in range(first, first + count))
        at = 0
        piece = self.rng.choice([4096, 65536, 10_000, 1 << 22])
        while at < len(data):
            at += os.pwrite(fd, data[at : at + piece], first * CELL + at)

    @contextlib.contextmanager
    def opened(self, name, flags=0):
        fd = os.open(self.directory / name, os.O_RDWR | flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def new_file(self):
        with Writer.numbers:
            Writer.files_made += 1
            return ModelFile(Writer.files_made)

    def make(self):
        free = [name for name, meant in self.names.items() if not meant[-1][0]]
        if not free:
            return
        name, file = self.rng.choice(free), self.new_file()
        with self.lock:
            self.named(name, file)
        with self.opened(name, os.O_CREAT | os.O_EXCL) as fd:
            self.put(fd, file, 0, self.count())
            self.maybe_sync(fd, file, name)

    def replace(self):
        """By a new file that takes its name; a rename does not need a sync before."""
        name = self.pick()
        if not name:
            return
        file, syncs = self.new_file(), self.rng.random() < 0.5
        with self.opened("temporary", os.O_CREAT | os.O_TRUNC) as fd:
            self.put(fd, file, 0, self.count())
            if syncs:
                self.sync(fd, file)
        old = self.names[name][-1][0]
        with self.lock:
            self.named(name, file, len(file.steps) if syncs or old.len else 0)
        os.rename(self.directory / "temporary", self.directory / name)
        if self.rng.random() < 0.4:
            self.sync_directory()

    def overwrite(self):
        name = self.pick()
        if not name:
            return
        file = self.names[name][-1][0]
        first = self.rng.randrange(file.len + 1)
        count = min(self.rng.choice([1, 1, 1, 5, 5, 100, 100, 5000]), max(file.len - first, 1))
        durable = self.rng.random() < 0.2
        # Of earlier changes O_SYNC says nothing.
        is_synced = file.synced == len(file.steps)
        with self.opened(name, os.O_SYNC if durable else 0) as fd:
            for _ in range(self.rng.choice([1, 1, 4])):
                self.put(fd, file, first, count)
            if durable and is_synced:
                with self.lock:
                    file.synced = len(file.steps)
                    self.certain[name] = len(self.names[name]) - 1
                self.acknowledged += 1
            elif not durable:
                self.maybe_sync(fd, file, name)

    def append(self):
        name = self.pick()
        if not name:
            return
        file = self.names[name][-1][0]
        if file.len > 8000:
            return
        with self.opened(name) as fd:
            for _ in range(self.rng.choice([1, 1, 5])):
                self.put(fd, file, file.len, self.rng.choice([1, 10, 300]))
                self.maybe_sync(fd, file, name)

    def cut(self):
        name = self.pick()
        if not name:
            return
        file = self.names[name][-1][0]
        to = self.rng.randrange(file.len + 1) if self.rng.random() < 0.7 else file.len + self.rng.randrange(300)
        with self.opened(name) as fd:
            with self.lock:
                file.cut(to)
            os.ftruncate(fd, to * CELL)
            self.maybe_sync(fd, file, name)

    def rewrite(self):
        name = self.pick()
        if not name:
            return
        file = self.names[name][-1][0]
        with self.lock:
            file.cut(0)
        with self.opened(name, os.O_TRUNC) as fd:
            self.put(fd, file, 0, self.count())
            self.maybe_sync(fd, file, name)

    def remove(self):
        name = self.pick()
        if not name or self.rng.random() < 0.5:
            return
        with self.lock:
            self.named(name, None)
        os.unlink(self.directory / name)

    def rename(self):
        """To a name that is free."""
        name = self.pick()
        free = [name for name, meant in self.names.items() if not meant[-1][0]]
        if not name or not free:
            return
        to, (file, least) = self.rng.choice(free), self.names[name][-1]
        with self.lock:
            self.named(to, file, least)
            self.named(name, None)
        os.rename(self.directory / name, self.directory / to)
        if self.rng.random() < 0.5:
            self.sync_directory()
        elif self.rng.random() < 0.5:
            with self.opened(to) as fd:
                self.sync(fd, file, to)

    def map(self):
        """Through a mapping."""
        name = self.pick()
        if not name or not self.names[name][-1][0].len:
            return
        file, version = self.names[name][-1][0], self.next_version()
        first = self.rng.randrange(file.len)
        count = min(self.rng.choice([1, 30]), file.len - first)
        with self.opened(name) as fd, mmap.mmap(fd, file.len * CELL) as mapped:
            with self.lock:
                file.write(first, count, version)
            data = b"".join(cell(file.number, number, version) for number in range(first, first + count))
            mapped[first * CELL : (first + count) * CELL] = data
            mapped.flush()
            with self.lock:
                file.synced = len(file.steps)
                self.certain[name] = len(self.names[name]) - 1
            self.acknowledged += 1

    def punch(self):
        name = self.pick()
        if not name or not self.names[name][-1][0].len:
            return
        file = self.names[name][-1][0]
        first = self.rng.randrange(file.len)
        count = min(self.rng.choice([1, 400]), file.len - first)
        with self.opened(name) as fd:
            with self.lock:
                file.zero(first, count)
            libc = ctypes.CDLL(None, use_errno=True)
            at, size = ctypes.c_int64(first * CELL), ctypes.c_int64(count * CELL)
            if libc.fallocate(fd, 3, at, size) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")
            self.maybe_sync(fd, file, name)

    def sync_directory(self):
        latest = {name: len(meant) - 1 for name, meant in self.names.items()}
        fsync_directory(self.directory)
        with self.lock:
            self.certain = latest
        self.acknowledged += 1

    def now(self):
        """What is certain, and what may be."""
        with self.lock:
            names = {name: (self.certain[name], len(meant)) for name, meant in self.names.items()}
            files = {file for meant in self.names.values() for file, _ in meant if file}
            return names, {file: (file.synced, len(file.steps)) for file in files}

    def check(self, directory, before, after):
        """What is wrong with a copy that was made between two moments."""
        names, synced = before[0], before[1]
        until, steps = after[0], after[1]
        for name, (first, _) in names.items():
            meant = self.names[name][first : until[name][1]]
            try:
                data = (directory / name).read_bytes()
            except FileNotFoundError:
                data = None
            except OSError as e:
                fail(f"{directory / name}: {e}")
                continue
            said = []
            for file, least in meant:
                if file is None or data is None:
                    if file is None and data is None:
                        break
                    continue
                certain = max(least, synced.get(file, (0, 0))[0])
                wrong = file.wrong(data, certain, steps[file][1])
                if wrong is None:
                    break
                told = f"certain {file.steps[:certain][-3:]}, later {file.steps[certain : steps[file][1]][:6]}"
                said.append(f"as file {file.number}: {wrong}; {told}")
            else:
                found = "is missing" if data is None else f"has {len(data)} bytes"
                fail(f"{directory / name} {found}: {said or [file and file.number for file, _ in meant]}")
        return len(names)


def fsync_directory(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def start_disk(directory, image):
    """Serves the image as a disk; returns the loop device's file and what to ask for copies."""
    point = directory / "volatile"
    point.touch()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            ours.close()
            disk = VolatileDisk(image, point, theirs)
            theirs.send(b"ready")
            disk.serve()
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    if ours.recv(16) != b"ready":
        raise RuntimeError("the disk is not served")
    return point, ours, pid


def powerloss(directory):
    rng = random.Random(SEED)
    image, outer = directory / "image", directory / "outer"
    with open(image, "wb") as file:
        file.truncate(DISK)
    must("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", image)
    point, disk, server = start_disk(directory, image)
    image.unlink()
    outer.mkdir()
    # Without scratch: what ext4 does itself with the same programs.
    is_plain = bool(os.environ.get("ARRAYFS_TEST_PLAIN"))
    checked = failed = acknowledged = 0
    scratch = None
    writers = []
    try:
        must("mount", "-o", "loop", point, outer)
        if is_plain:
            (outer / "store").mkdir()
            inside = outer / "store"
        else:
            scratch = Scratch(outer / "store", directory / "mount")
            inside = scratch.path
        fsync_directory(outer)
        writers = [Writer(inside / f"writer-{n}", rng.randrange(1 << 32)) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        slowest = 0
        for number in range(COPIES):
            time.sleep(rng.choice([0.1, 0.5, 1, 2, 4]) * rng.random())
            copy = directory / f"copy-{number}"
            asked = {"path": str(copy), "seed": rng.randrange(1 << 32), "part": rng.choice([0, 0.3, 0.8, 1])}
            before = [writer.now() for writer in writers]
            disk.send(json.dumps(asked).encode())
            if disk.recv(16) != b"done":
                raise RuntimeError("no copy")
            after = [writer.now() for writer in writers]
            for writer in writers:
                if writer.failure:
                    fail(f"a writer: {writer.failure}")
            known = len(failures)
            begun = time.monotonic()
            check_copy(directory, copy, writers, before, after, is_plain, rng)
            slowest = max(slowest, time.monotonic() - begun)
            checked += 1
            if len(failures) > known:
                failed += 1
                say(f"copy {number}: {asked}")
                keep = os.environ.get("ARRAYFS_TEST_KEEP")
                if keep:
                    shutil.move(copy, Path(keep) / f"{SEED}-{copy.name}")
            with contextlib.suppress(FileNotFoundError):
                copy.unlink()
            if len(failures) > 20:
                break
    finally:
        for writer in writers:
            writer.ends = True
        for writer in writers:
            writer.join(PATIENCE)
        acknowledged = sum(writer.acknowledged for writer in writers)
        done = sum(writer.done for writer in writers)
        if scratch:
            status, said = scratch.umount()
            if status != 0:
                fail(f"umount: exit status {status}: {said}")
        if is_mounted(outer):
            must("umount", outer)
        ran("umount", "-l", point)
        disk.close()
        os.waitpid(server, 0)
    say(f"{checked} copies, {failed} failed; a check took at most {slowest:.1f} s")
    say(f"{done} operations, {acknowledged} acknowledged syncs")


def kill_recovery(store, mount, rng):
    """Ends a daemon about when it makes good what the power loss has left."""
    mount.mkdir(exist_ok=True)
    daemon = subprocess.Popen(["arrayfs", "mount", "-f", "-o", "scratch", store, mount], stderr=subprocess.DEVNULL)
    time.sleep(rng.random() * 0.1)
    daemon.kill()
    daemon.wait(PATIENCE)
    if is_mounted(mount):
        ran("arrayfs", "umount", mount)


def check_copy(directory, copy, writers, before, after, is_plain, rng):
    outer = directory / "outer-copy"
    outer.mkdir(exist_ok=True)
    must("mount", "-o", "loop", copy, outer)
    scratch = None
    try:
        if not is_plain:
            if rng.random() < 0.5:
                kill_recovery(outer / "store", directory / "mount-copy", rng)
            scratch = Scratch(outer / "store", directory / "mount-copy")
        inside = outer / "store" if is_plain else scratch.path
        for n, writer in enumerate(writers):
            writer.check(inside / f"writer-{n}", before[n], after[n])
        if scratch:
            status, said = scratch.umount()
            if status != 0:
                fail(f"umount of {copy}: exit status {status}: {said}")
            scratch.verify()
            refused = [line for line in scratch.log.read_text().splitlines() if "ERROR" in line]
            if refused:
                fail(f"{copy}: the log says {refused[:3]}")
            scratch.log.unlink()
    finally:
        if scratch and is_mounted(scratch.path):
            scratch.umount()
        must("umount", outer)


# No room.


class Kept:
    """What was acknowledged of files in a directory; all bytes are noise, or all compress."""

    def __init__(self, directory, seed):
        self.directory, self.rng = directory, random.Random(seed)
        self.files, self.closed, self.refused = {}, {}, 0
        self.unsure = {}

    def bytes(self, size):
        if self.rng.random() < 0.7:
            return self.rng.randbytes(size)
        return (struct.pack("<I", self.rng.randrange(1 << 32)) * (size // 4 + 1))[:size]

    def write_new(self, name, size, syncs, piece=1 << 16):
        """Says whether all calls said yes."""
        data = self.bytes(size)
        path = self.directory / name
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError as e:
            return self.told(e)
        try:
            try:
                at = 0
                while at < size:
                    at += os.write(fd, data[at : at + piece])
                if syncs:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as e:
            self.unsure[name] = data
            return self.told(e)
        (self.files if syncs else self.closed)[name] = data
        return True

    def told(self, e):
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            fail(f"{self.directory}: {e}")
        self.refused += 1
        return False

    def overwrite(self, name, at, data):
        """In place, with a sync: the new is there, or each byte is the old or the new."""
        old = self.files[name]
        new = old[:at] + data + old[at + len(data) :]
        fd = os.open(self.directory / name, os.O_RDWR)
        try:
            try:
                done = 0
                while done < len(data):
                    done += os.pwrite(fd, data[done:], at + done)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as e:
            self.files[name] = (old, new)
            return self.told(e)
        self.files[name] = new
        return True

    def check(self, what, closed=True):
        lost = {}
        for name, data in [*self.files.items(), *(self.closed.items() if closed else ())]:
            try:
                found = (self.directory / name).read_bytes()
            except OSError as e:
                fail(f"{what}: {name}: {e}")
                continue
            old, new = data if isinstance(data, tuple) else (data, data)
            if found in (old, new):
                continue
            longest = max(len(old), len(new))
            at = next((i for i in range(longest) if found[i : i + 1] not in (old[i : i + 1], new[i : i + 1])), None)
            if at is not None:
                lost[name] = (len(found), longest, at)
        if lost:
            of = f"{len(self.files)} synced and {len(self.closed)} closed files"
            fail(f"{what}: {len(lost)} of {of} differ (found, wanted, first difference): {list(lost.items())[:5]}")
        for name, data in self.unsure.items():
            try:
                (self.directory / name).read_bytes()
            except FileNotFoundError:
                pass
            except OSError as e:
                fail(f"{what}: {name}, of which a write was refused: {e}")


def fill(kept, seed, syncs_all):
    """Until nothing goes in any more, in ever smaller pieces."""
    rng = random.Random(seed)
    number = 0
    for size in (3 << 20, 300_000, 20_000, 1000, 1):
        refused = 0
        while refused < 3 and number < 3000:
            number += 1
            if not kept.write_new(f"{seed}-{number}", rng.randrange(size // 2, size) or 1, syncs_all or rng.random() < 0.5):
                refused += 1
    if not kept.refused:
        fail(f"{kept.directory}: never full")
    return number


def as_user(user, work):
    """Runs in a child with this user's rights; what it has changed comes back."""
    import pickle

    if user is None:
        return work()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            result = work()
            with os.fdopen(write, "wb") as out:
                pickle.dump((result, failures), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as back:
        said = back.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError("the user's process failed")
    result, failed = pickle.loads(said)
    failures[:] = failed
    return result


def no_room(name, directory, limit, more_room, user, kills):
    """`limit`: makes the room short; `more_room`: ends that."""
    rng = random.Random(SEED)
    outer, mount = directory / "outer", directory / "mount"
    store = outer / "store"
    scratch = Scratch(store, mount, ",allow_other")
    place = scratch.path / "place"
    place.mkdir()
    if user is not None:
        os.chown(place, user, user)

    def begin():
        kept = Kept(place, rng.randrange(1 << 32))
        for n in range(20):
            if not kept.write_new(f"early-{n}", rng.randrange(1, 200_000), True):
                fail(f"{name}: an early write was refused")
        fill(kept, 1, False)
        return kept

    kept = as_user(user, begin)
    limit()
    kept.check(f"{name}: full")

    def overwrite():
        for n in range(20):
            at = rng.randrange(len(kept.files[f"early-{n}"]) if not isinstance(kept.files[f"early-{n}"], tuple) else 1)
            size = min(rng.choice([1, 5000, 100_000]), len(kept.files[f"early-{n}"]) - at)
            kept.overwrite(f"early-{n}", at, rng.randbytes(size))
        fill(kept, 2, True)
        return kept

    kept = as_user(user, overwrite)
    kept.check(f"{name}: overwritten while full")
    say(f"{name}: {len(kept.files)} synced and {len(kept.closed)} closed files, {kept.refused} refusals")
    # What is closed, and not synced, is stored in a few seconds: or umount says that it is not.
    status, said = scratch.umount()
    say(f"{name}: umount of the full mount: exit status {status}: {said.splitlines()[:3]}")
    stayed = is_mounted(mount)
    if not stayed:
        scratch.mount()
    kept.check(f"{name}: after umount with exit status {status}", closed=status == 0 or stayed)
    if status != 0 and not stayed:
        kept.closed.clear()
    # A daemon that is killed while there is no room loses nothing that was synced.
    if kills:
        kept.closed.clear()
        scratch.kill()
        scratch.umount()
        try:
            scratch.mount()
            kept.check(f"{name}: killed while full")
        except RuntimeError as e:
            fail(f"{name}: the store cannot be mounted while there is no room: {e}")
            more_room()
            scratch.mount()
            kept.check(f"{name}: killed while full, mounted with room")
    removed = [file for n, file in enumerate(sorted(kept.files)) if n % 2 and not file.startswith("early")]
    for file in removed:
        os.unlink(place / file)
        del kept.files[file]
    kept.check(f"{name}: after rm")
    more_room()

    def go_on():
        for n in range(20):
            if not kept.write_new(f"late-{n}", rng.randrange(1, 100_000), True):
                fail(f"{name}: late-{n}: there is room again, but a write was refused")
        return kept

    kept = as_user(user, go_on)
    kept.check(f"{name}: with room again")
    status, said = scratch.umount()
    if status != 0:
        fail(f"{name}: umount with room: exit status {status}: {said}")
        scratch.abandon()
        return
    scratch.verify()
    scratch.mount()
    kept.check(f"{name}: remounted")
    status, said = scratch.umount()
    if status != 0:
        fail(f"{name}: umount at the end: exit status {status}: {said}")


def small_disk(directory, size, make, options="loop"):
    """Its file is of ext4 or the like, in the image beside it."""
    directory.mkdir()
    image, outer = directory / "image", directory / "outer"
    outer.mkdir()
    with open(image, "wb") as file:
        file.truncate(size)
    must(*make, image)
    must("mount", "-o", options, image, outer)
    return outer


def full_disk(directory):
    outer = small_disk(directory, 64 << 20, ("mkfs.ext4", "-q", "-F", "-m", "0"))
    ballast = outer / "ballast"
    with open(outer / "spare", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 << 20)

    def limit():
        """To the last block: by a program beside the mount."""
        with open(ballast, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass

    def more_room():
        ballast.unlink()
        (outer / "spare").unlink()

    no_room("full disk", directory, limit, more_room, None, False)
    must("umount", outer)


USER = 65534


def full_quota(directory):
    """Of a user on ext4; where the kernel has no quotas of users, of a subvolume on btrfs."""
    try:
        make = ("mkfs.ext4", "-q", "-F", "-O", "quota", "-E", "quotatype=usrquota")
        outer = small_disk(directory, 128 << 20, make, "loop,usrquota")
        limit_to = lambda kib: must("setquota", "-u", str(USER), "0", str(kib), "0", "0", outer)
    except RuntimeError as e:
        say(f"no quotas of users here ({e}): one of a btrfs subvolume instead")
        shutil.rmtree(directory)
        outer = small_disk(directory, 300 << 20, ("mkfs.btrfs", "-q"))
        must("btrfs", "subvolume", "create", outer / "store")
        must("btrfs", "quota", "enable", outer)
        limit_to = lambda kib: must("btrfs", "qgroup", "limit", f"{kib}K", outer / "store")
    limit_to(24 << 10)
    no_room("quota", directory, lambda: None, lambda: limit_to(80 << 10), USER, True)
    must("umount", outer)


def sudden(directory):
    """What was written while there was plenty of room, which another program then takes: umount says
    what cannot be stored, and all of it is there when there is room."""
    outer = small_disk(directory, 6 << 30, ("mkfs.ext4", "-q", "-F", "-m", "0"))
    scratch = Scratch(outer / "store", directory / "mount")
    kept = Kept(scratch.path, SEED)
    for n in range(30):
        kept.write_new(f"synced-{n}", kept.rng.randrange(1, 1 << 20), True)
    for n in range(20):
        kept.write_new(f"closed-{n}", kept.rng.randrange(1, 4 << 20), False)
    # Changes of what is stored, which are not synced, and all of which compress worse.
    for n in range(10):
        name, data = f"synced-{n}", kept.files.pop(f"synced-{n}")
        new = kept.rng.randbytes(len(data) + 100_000)
        (scratch.path / name).open("r+b").write(new)
        kept.closed[name] = new
    with open(outer / "ballast", "wb") as file:
        at = 0
        for step in (1 << 30, 1 << 26, 1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), at, step)
                    at += step
    kept.check("sudden: full")
    time.sleep(kept.rng.choice([0, 6]))
    status, said = scratch.umount()
    say(f"sudden: umount of the full mount: exit status {status}: {said.splitlines()[:3]}")
    stayed = is_mounted(scratch.path)
    if status != 0 and not stayed:
        kept.closed.clear()
    if not stayed:
        scratch.mount()
    kept.check("sudden: after umount")
    (outer / "ballast").unlink()
    if not kept.write_new("late", 1 << 20, True):
        fail("sudden: there is room again, but a write was refused")
    status, said = scratch.umount()
    if status != 0:
        fail(f"sudden: umount with room: exit status {status}: {said}")
        scratch.abandon()
    else:
        scratch.verify()
        scratch.mount()
        kept.check("sudden: remounted")
        scratch.umount()
    must("umount", outer)


def full(directory):
    full_disk(directory / "disk")
    sudden(directory / "sudden")
    full_quota(directory / "quota")


def main():
    what, directory = sys.argv[1], Path(sys.argv[2])
    if what == "sqlite-writer":
        write_transactions(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
        return 0
    say(f"seed {SEED}")
    {"sqlite": sqlite, "powerloss": powerloss, "full": full}[what](directory)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
