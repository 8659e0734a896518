"""Journals keep every row that was written, and show every damage."""

import errno
import os
import random
import subprocess
import sys

import pytest

from dualmctx.errors import UserError
from dualmctx.runs.journal import read_lines, read_rows, reopen_journal, write_rows

ROWS = [{"iteration": i, "loss": i / 7, "name": f"ä{i}"} for i in range(1, 10)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)
    return path


def test_rows_come_back_in_order_and_with_their_numbers(file):
    assert read_rows(file) == ROWS
    assert [line.number for line in read_lines(file)] == list(range(1, 10))
    assert [line.end for line in read_lines(file)][-1] == file.stat().st_size
    assert all(b"crc" not in line.data for line in read_lines(file))


def test_rows_hold_numbers_of_any_kind(tmp_path):
    file = tmp_path / "rows.jsonl"
    write_rows(file, [{"large": 2**64 - 1, "tiny": 5e-324}, {"nan": float("nan"), "crc": "x"}])
    assert read_rows(file) == [{"large": 2**64 - 1, "tiny": 5e-324}, {"nan": None, "crc": "x"}]


@pytest.mark.parametrize("kept", [0, 5, 20])
def test_rows_after_a_number_are_cut_and_written_again(file, kept):
    journal = reopen_journal(file)
    journal.cut(kept)
    journal.append(ROWS[kept:])
    assert read_rows(file) == ROWS
    assert journal.num_rows == 9


def test_an_incomplete_line_at_the_end_is_cut_with_a_message(file):
    whole, messages = file.read_bytes(), []
    ends = [line.end for line in read_lines(file)]
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        messages.clear()
        journal = reopen_journal(file, say=messages.append)
        assert journal.num_rows == sum(end <= size for end in ends)
        assert len(messages) == (size not in [0, *ends])
        journal.append(ROWS[journal.num_rows :])
        assert file.read_bytes() == whole


def damaged(kind, whole, rng):
    """Returns the file with a damage before its end."""
    lines = whole.splitlines(keepends=True)
    i = rng.randrange(len(lines) - 1)
    place = rng.randrange(len(whole) - len(lines[-1]) - 1)
    if kind == "changed bit":
        byte = whole[place] ^ (1 << rng.randrange(8))
        return whole[:place] + bytes([byte]) + whole[place + 1 :]
    if kind == "removed byte":
        return whole[:place] + whole[place + 1 :]
    if kind == "zeros":
        return whole[:place] + b"\0" * 20 + whole[place + 20 :]
    changes = {
        "removed line": [],
        "blank line": [b"\n", lines[i]],
        "repeated line": [lines[i], lines[i]],
        "row of another program": [b'{"iteration":3}\n', lines[i]],
        "a number": [b"5\n"],
        "carriage return": [lines[i][:-1] + b"\r\n"],
        "exchanged lines": [lines[i + 1], lines[i]],
    }
    width = 2 if kind == "exchanged lines" else 1
    return b"".join([*lines[:i], *changes[kind], *lines[i + width :]])


KINDS = ["changed bit", "removed byte", "zeros", "removed line", "blank line", "repeated line"]
KINDS += ["row of another program", "a number", "carriage return", "exchanged lines"]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_before_the_end_is_named_and_nothing_is_cut(file, kind):
    whole, rng = file.read_bytes(), random.Random(kind)
    for _ in range(20):
        data = damaged(kind, whole, rng)
        file.write_bytes(data)
        with pytest.raises(UserError, match=r"rows.jsonl, line [0-9]+ is damaged.*put back"):
            reopen_journal(file)
        assert file.read_bytes() == data


def test_a_caller_says_how_many_rows_there_must_be(file):
    assert reopen_journal(file, least=9).num_rows == 9
    for data, number in [(file.read_bytes()[:-1], 8), (b"", 0), (b"\0" * 500, 0)]:
        file.write_bytes(data)
        with pytest.raises(UserError, match=f"has {number} rows; there must be at least 9; use it"):
            reopen_journal(file, least=9, remedy="use it")
        assert file.read_bytes() == data
    file.unlink()
    with pytest.raises(UserError, match="has 0 rows"):
        reopen_journal(file, least=1)


@pytest.mark.parametrize("number", [0, 1])
def test_a_full_disk_leaves_the_rows_before(number, tmp_path, monkeypatch):
    """It may lack space for the name of a new file alone, the second sync."""
    journal, sync, synced = reopen_journal(tmp_path / "rows.jsonl"), os.fsync, []

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) > number:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space.*rows.jsonl"):
            journal.append(ROWS)
    assert (journal.num_rows, read_rows(journal.path)) == (0, [])
    journal.append(ROWS)
    assert read_rows(journal.path) == ROWS


def test_a_file_that_another_program_changed_gets_no_rows(file):
    journal = reopen_journal(file)
    for data in (b"", file.read_bytes()[:-1], file.read_bytes() * 2):
        file.write_bytes(data)
        with pytest.raises(UserError, match="another program has changed it"):
            journal.append(ROWS)
        assert file.read_bytes() == data


WRITER = """
import pathlib, sys
from dualmctx.runs.journal import Journal
journal, i = Journal(pathlib.Path(sys.argv[1])), 0
while True:
    i += 1
    journal.append([{"i": i, "text": "x" * 5000}, {"i": -i}])
    print(i, flush=True)
"""


def test_a_killed_writer_loses_no_row_that_it_has_reported(tmp_path):
    file = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reported = [int(writer.stdout.readline()) for _ in range(20)]
        writer.kill()
    journal = reopen_journal(file, least=2 * reported[-1], say=lambda text: None)
    rows = read_rows(file)
    assert [row["i"] for row in rows[::2]] == list(range(1, len(rows[::2]) + 1))
    assert journal.num_rows == len(rows)
