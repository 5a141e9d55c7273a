"""Runs a program in a terminal of its own, and does to it what a user does.

use_terminal.py COLUMNS ROWS OUTPUT STEPS PROGRAM...: STEPS are JSON: `{"until": TEXT}` waits until the terminal has been
given the text since the step before, `{"keys": TEXT}` types, `{"size": [COLUMNS, ROWS]}` changes the size, `{"signal": NUMBER}`
sends one. OUTPUT gets everything that the terminal was given. Says, as JSON, how the program ended and whether the
terminal is as it was. Used by `top.rs`.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 60

columns, rows, output, steps, *program = sys.argv[1:]


def set_size(columns, rows):
    global now
    now = (int(columns), int(rows))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", now[1], now[0], 0, 0))


class Ended(Exception):
    pass


def read():
    """More of what the terminal is given; the end is an error of the system."""
    ready, _, _ = select.select([terminal], [], [], 0.1)
    if ready:
        try:
            more = os.read(terminal, 1 << 16)
        except OSError:
            raise Ended from None
        if not more:
            raise Ended
        given.extend(more)


def until(text):
    """Only what differs is drawn, so a text may come in pieces: with another size all of it is drawn anew."""
    deadline = time.monotonic() + PATIENCE
    anew = time.monotonic() + 1
    while text not in shown(given[seen:]):
        if time.monotonic() > deadline:
            sys.exit(f"'{text}' was not shown: {shown(given[seen:])!r}")
        if time.monotonic() > anew:
            anew += 1
            set_size(now[0], now[1] + (-1 if now[1] % 2 else 1))
        read()


def shown(data):
    """Without what moves the cursor and colours: words that are drawn in one piece stay whole."""
    text = bytes(data).decode(errors="replace")
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


ours, theirs = pty.openpty()
terminal = ours
set_size(columns, rows)
before = termios.tcgetattr(theirs)
child = os.fork()
if child == 0:
    os.close(ours)
    os.login_tty(theirs) if hasattr(os, "login_tty") else (os.setsid(), fcntl.ioctl(theirs, termios.TIOCSCTTY, 0), [os.dup2(theirs, n) for n in range(3)])
    os.environ["TERM"] = "xterm-256color"
    os.execv(program[0], program)
given, seen = bytearray(), 0
try:
    for step in json.loads(steps):
        if "until" in step:
            until(step["until"])
            seen = len(given)
        elif "keys" in step:
            os.write(terminal, step["keys"].encode())
        elif "size" in step:
            set_size(*step["size"])
        elif "signal" in step:
            os.kill(child, step["signal"])
    deadline = time.monotonic() + PATIENCE
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            sys.exit("it did not end")
        read()
    while select.select([terminal], [], [], 0)[0]:
        read()
except Ended:
    pass
finally:
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
_, status = os.waitpid(child, 0)
after = termios.tcgetattr(theirs)
with open(output, "wb") as file:
    file.write(given)
print(json.dumps({"status": os.waitstatus_to_exitcode(status), "restored": before == after}))
