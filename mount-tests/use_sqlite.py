#!/usr/bin/env python3
"""Uses SQLite as an application does, for the tests in programs/databases.rs.

    use_sqlite.py write JOURNAL DIRECTORY    several processes write to DIRECTORY/JOURNAL.db, and read meanwhile
    use_sqlite.py check JOURNAL DIRECTORY    the database is whole and has every row

JOURNAL is delete, truncate, persist or wal.
"""
import pathlib
import sqlite3
import subprocess
import sys

PROCESSES = 3
TRANSACTIONS = 12
ROWS = 40


def connect(path):
    return sqlite3.connect(path, timeout=60, isolation_level=None)


def write(journal, path):
    one, two = connect(path), connect(path)
    (mode,) = one.execute(f"pragma journal_mode={journal}").fetchone()
    assert mode == journal, mode
    one.execute("create table t (process int, number int, body blob)")
    one.execute("create index i on t (number)")
    two_connections(one, two)
    writers = [subprocess.Popen([sys.executable, __file__, "writer", journal, path, str(p)]) for p in range(PROCESSES)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        (count,) = two.execute("select count(*) from t").fetchone()
        assert count >= seen and count % ROWS == 0, (seen, count)
        seen = count
    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    two.execute("pragma optimize")
    one.execute("vacuum")


def two_connections(one, two):
    """What is not committed is seen by its writer alone, and what is taken back by nobody."""
    count = "select count(*) from t"
    one.execute("begin immediate")
    one.execute("insert into t values (0, 0, x'00')")
    assert one.execute(count).fetchone() == (1,) and two.execute(count).fetchone() == (0,)
    two.execute("pragma busy_timeout=0")
    try:
        two.execute("begin immediate")
        raise AssertionError("two writers at a time")
    except sqlite3.OperationalError as e:
        assert "locked" in str(e), e
    one.execute("rollback")
    assert one.execute(count).fetchone() == two.execute(count).fetchone() == (0,)
    two.execute("pragma busy_timeout=60000")


def writer(path, process):
    connection = connect(path)
    for transaction in range(TRANSACTIONS):
        connection.execute("begin immediate")
        rows = ((process, transaction * ROWS + row, bytes([row]) * 1500) for row in range(ROWS))
        connection.executemany("insert into t values (?, ?, ?)", rows)
        connection.execute("commit")


def check(path):
    connection = connect(path)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    found = connection.execute("select process, number, body from t order by process, number").fetchall()
    wanted = [
        (process, number, bytes([number % ROWS]) * 1500)
        for process in range(PROCESSES)
        for number in range(TRANSACTIONS * ROWS)
    ]
    assert found == wanted, (len(found), len(wanted))


def main(command, journal, where, process=None):
    if command == "writer":
        return writer(where, int(process))
    path = str(pathlib.Path(where) / f"{journal}.db")
    if command == "write":
        write(journal, path)
    else:
        check(path)


main(*sys.argv[1:])
