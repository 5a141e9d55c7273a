#!/usr/bin/env python3
"""Stands between a daemon and the worker that it has started, and ends both workers at a message that a test names.

    dying_worker.py ARRAYFS NOTES      with the daemon's socket as standard input

The file NOTES/die says when: the number of a moment, counted from the beginning of an edit, or `check`, the look at the
file as it would be. A moment is one of four of each message: when the daemon has asked, when the answer is there, when
half of it has been passed on, and when all of it has. A worker may write to no file, so it makes a directory that is
called for the moment, and for what the message was: a `step` of the edit, its `last` answer when that has been passed
on, or a `look` at a file afterwards.
"""
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys

REQUEST, PAGE_ASKED = 32, 2**64 - 1
EDITS, FINISH = (2, 3), b"\x08"
ASKED, ANSWERED, HALF, PASSED = range(4)


class Between:
    def __init__(self, program, notes):
        self.notes = pathlib.Path(notes)
        self.daemon = socket.socket(fileno=0)
        self.worker, theirs = socket.socketpair()
        self.child = subprocess.Popen([program, "hdf5-worker"], stdin=theirs)
        theirs.close()
        # None before an edit has begun.
        self.message = None

    def run(self):
        while True:
            request, files, _, _ = socket.recv_fds(self.daemon, REQUEST, 1, socket.MSG_WAITALL)
            if not request:
                return
            kind = request[0]
            if kind in EDITS:
                self.message = 0
            else:
                if not files and self.when() == "check":
                    self.die("check", "look")
                self.may_die(ASKED, "look")
            socket.send_fds(self.worker, [request], files)
            for file in files:
                os.close(file)
            if kind not in EDITS:
                self.answer("look", "look")
                continue
            step = None
            while step != FINISH:
                length = take(self.daemon, 8)
                step = take(self.daemon, *struct.unpack("<Q", length))
                self.may_die(ASKED, "step")
                self.worker.sendall(length + step)
                self.answer("step", "last" if step == FINISH else "step")

    def answer(self, what, when_passed):
        while True:
            length = take(self.worker, 8)
            number = struct.unpack("<Q", length)[0]
            if number != PAGE_ASKED:
                break
            asked = take(self.worker, 12)
            self.daemon.sendall(length + asked)
            self.worker.sendall(take(self.daemon, struct.unpack("<QI", asked)[1]))
        answer = length + take(self.worker, number)
        self.may_die(ANSWERED, what)
        half = len(answer) // 2
        self.daemon.sendall(answer[:half])
        self.may_die(HALF, what)
        self.daemon.sendall(answer[half:])
        self.may_die(PASSED, when_passed)
        if self.message is not None:
            self.message += 1

    def when(self):
        try:
            return (self.notes / "die").read_text()
        except FileNotFoundError:
            return ""

    def may_die(self, moment, what):
        if self.message is not None and self.when() == str(4 * self.message + moment):
            self.die(self.when(), what)

    def die(self, when, what):
        (self.notes / f"died.{when}.{what}").mkdir(exist_ok=True)
        self.child.kill()
        self.child.wait()
        os.kill(os.getpid(), signal.SIGKILL)


def take(of, length):
    """So many bytes; the other end is not needed any more where there are fewer."""
    taken = bytearray()
    while len(taken) < length:
        more = of.recv(min(length - len(taken), 1 << 20))
        if not more:
            os._exit(0)
        taken += more
    return bytes(taken)


if __name__ == "__main__":
    Between(*sys.argv[1:]).run()
