#!/usr/bin/env python3
"""Runs the sessions in README.md and docs/tour.md (the first console block of each) and compares what they print.

    sessions.py           compare: exit status 0 when every line is as printed there
    sessions.py --show    print each command and its output, without comparing
    sessions.py --print   the same on one page, to be put into the documents

Lines that begin with "$ " are commands, the others what they print. In the documents "..." stands for any text
in a line, and a line of only "..." for any number of lines. Each session runs in a directory of its own with the
containers of demo_data.py in data/; `arrayfs` is target/release/arrayfs, `python3` has NumPy.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = pathlib.Path(os.environ.get("ARRAYFS_PYTHON", ROOT / "target/venv/bin/python3"))


sys.dont_write_bytecode = True
import object_store

DOCUMENTS = ("README.md", "docs/tour.md")


def session(document):
    """The steps of the document's first console block."""
    return steps_of(re.search(r"^```console\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S).group(1))


def steps_of(block):
    """Pairs of a command and the lines that it prints."""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def matches(expected, found):
    """Whether lines are as expected, with "..." as a wildcard."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part.rstrip() if last else part) for part, last in parts(line)) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in found)) is not None


def parts(line):
    split = line.split("...")
    return [(part, i == len(split) - 1) for i, part in enumerate(split)]


# The store that the sessions read from, while there is one.
STORE = []


def environment():
    paths = [str(ROOT / "target/release"), str(PYTHON.parent), os.environ["PATH"]]
    found = {**os.environ, "PATH": ":".join(paths), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return {**found, "AWS_ENDPOINT_URL": STORE[0].endpoint} if STORE else found


def run(command, directory):
    return subprocess.run(
        ["bash", "-c", "umask 022; " + command], cwd=directory, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)


def show(command, result):
    print(f"$ {command}\n{result.stdout}", end="", flush=True)


def compare(command, expected, result, document):
    found = result.stdout.splitlines()
    if result.returncode == 0 and matches(expected, found):
        return True
    print(f"$ {command}\nexit status {result.returncode}; {document} says:")
    print("\n".join(expected))
    print("but it prints:")
    print("\n".join(found), flush=True)
    return False


def remove(directory):
    """With what is mounted on its mnt."""
    if f" {directory}/mnt " in pathlib.Path("/proc/self/mountinfo").read_text():
        run("arrayfs umount mnt || umount -l mnt || fusermount3 -uz mnt", directory)
    shutil.rmtree(directory, ignore_errors=True)


def play(document, directory, mode):
    """Whether every command of the document's session did what it should."""
    good = True
    for command, expected in session(document):
        if mode == "--show":
            print(flush=True)
        result = run(command, directory)
        if mode:
            show(command, result)
            good &= result.returncode == 0
        else:
            good &= compare(command, expected, result, document)
    if mode == "":
        print(f"the session is {'' if good else 'not '}as printed in {document}", flush=True)
    return good


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the clean-up below
    good = True
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-demo."))
    directory.chmod(0o755)
    places = [directory / pathlib.Path(document).stem for document in DOCUMENTS]
    try:
        if mode == "--show":
            print(f"Writing containers of every format in {places[0]}/data", flush=True)
        run(f"mkdir {' '.join(map(str, places))}", directory)
        subprocess.run(["bash", "-c", f"umask 022; '{PYTHON}' '{ROOT}/scripts/demo_data.py' data"],
                       cwd=places[0], check=True)
        for place in places[1:]:
            run(f"cp -a --reflink=auto {places[0]}/data {place}/data", directory)
        (directory / "store").mkdir()
        STORE.append(object_store.Store(PYTHON, directory / "store"))
        STORE[0].put(places[0] / "data/ocean.nc")
        for document, place in zip(DOCUMENTS, places):
            good &= play(document, place, mode)
    finally:
        for place in places:
            remove(place)
        for store in STORE:
            store.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
