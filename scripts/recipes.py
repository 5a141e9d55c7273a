#!/usr/bin/env python3
"""Runs the recipes in docs/recipes.md in their order and compares what they print.

    recipes.py           compare; the last line says how many passed, failed and were not run
    recipes.py --show    print each recipe and its output, without comparing

A recipe is a code block; the `text` block behind it, if there is one, is all that it prints. A
`console` block has commands and what they print, as in the README, and "..." stands for any text
there, too. All of them run in one directory of their own, in which the containers of
recipes_data.py lie in data/. What no program here can run, because an interpreter or a package of
it is missing, is named and counted as not run, and so are those behind it in its section, which may
need what it does.
"""
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import sessions
from sessions import PYTHON, ROOT, compare, environment, matches, run, steps_of

DOCUMENT = ROOT / "docs/recipes.md"

# By language: the name of its file, and the command that runs it.
LANGUAGES = {
    "c": ("recipe.c", "cc -std=c99 -Wall -Werror -o recipe recipe.c && ./recipe"),
    "fortran": ("recipe.f90", "gfortran -Wall -o recipe recipe.f90 && ./recipe"),
    "python": ("recipe.py", "python3 -W error::DeprecationWarning recipe.py"),
    "r": ("recipe.R", "Rscript --vanilla recipe.R"),
    "octave": ("recipe.m", "octave-cli --norc --no-history --quiet recipe.m"),
    "gnuplot": ("recipe.gp", "gnuplot recipe.gp"),
}
# Programs that tests install where they can, and go on without.
OPTIONAL = ("cc", "gfortran", "Rscript", "octave-cli", "gnuplot", "jq", "getfattr")


def blocks(text):
    """Of each recipe its heading, language, code, and the lines that it prints."""
    heading, found = "", []
    for match in re.finditer(r"^#+ ([^\n]*)$|^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        title, language, content = match.groups()
        if title:
            heading = title
        elif language == "text":
            found[-1][3].extend(content.splitlines())
        else:
            found.append((heading, language, content, []))
    return found


def missing(language, content):
    """What this recipe needs and this machine has not."""
    commands = content if language == "console" else LANGUAGES[language][1]
    programs = [name for name in OPTIONAL if re.search(rf"(?<![\w./-]){name} ", commands)]
    lacking = [name for name in programs if shutil.which(name, path=environment()["PATH"]) is None]
    if language == "r" and not lacking:
        libraries = re.findall(r"library\((\w+)\)", content)
        lacking = [f"R's {name}" for name in libraries if not has_library(name)]
    return lacking


def has_library(name):
    check = f"quit(status = !requireNamespace('{name}', quietly = TRUE))"
    ran = subprocess.run(["Rscript", "--vanilla", "-e", check], capture_output=True)
    return ran.returncode == 0


def steps(language, content, expected, directory):
    """Commands and what each is to print."""
    if language == "console":
        return steps_of(content)
    name, command = LANGUAGES[language]
    (directory / name).write_text(content)
    return [(command, expected)]


def passes(recipe, directory, show):
    _, language, content, expected = recipe
    good = True
    for command, lines in steps(language, content, expected, directory):
        result = run(command, directory)
        if show:
            code = content if language != "console" else f"$ {command}"
            print(code, result.stdout, sep="\n", flush=True)
            good &= result.returncode == 0
        elif result.returncode != 0 or not matches(lines, result.stdout.splitlines()):
            print(content if language != "console" else "", end="")
            good = compare(command, lines, result, "docs/recipes.md")
    return good


def main():
    show = sys.argv[1:] == ["--show"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the clean-up below
    counts = {"passed": 0, "failed": 0, "not run": 0}
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-recipes."))
    directory.chmod(0o755)
    try:
        make = [PYTHON, ROOT / "scripts/recipes_data.py", "data"]
        subprocess.run(make, cwd=directory, check=True)
        incomplete = {}  # sections, and what they lack
        for recipe in blocks(DOCUMENT.read_text()):
            lacking = missing(*recipe[1:3]) or incomplete.get(recipe[0], [])
            incomplete[recipe[0]] = lacking
            good = not lacking and passes(recipe, directory, show)
            outcome = "not run" if lacking else "passed" if good else "failed"
            counts[outcome] += 1
            if outcome != "passed":
                print(f"{recipe[0]} ({recipe[1]}): {outcome}", *lacking, flush=True)
    finally:
        sessions.remove(directory)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
