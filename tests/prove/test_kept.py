"""Kept proofs: bounded, shared by processes, and whole after a crash."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from pdproto.check.prove.kept import FILE, KeptProofs

EVERY = [f"digest {number:04}" for number in range(120)]


def test_what_is_added_is_among_them(tmp_path: Path) -> None:
    kept = KeptProofs(tmp_path / "new" / "folder")
    assert kept.among(EVERY) == frozenset()
    kept.add(EVERY[:3])
    kept.add(EVERY[2:5])
    kept.add([])
    assert kept.among(EVERY) == frozenset(EVERY[:5])
    assert kept.among([]) == frozenset()


def test_those_that_nobody_asks_for_go_first(tmp_path: Path) -> None:
    kept = KeptProofs(tmp_path, digests_max=3)
    kept.add(EVERY[:3])
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("UPDATE proved SET used = used - 9")
    assert kept.among(EVERY[1:2]) == {EVERY[1]}
    kept.add(EVERY[3:5])
    assert kept.among(EVERY) == {EVERY[1], EVERY[3], EVERY[4]}


@pytest.mark.parametrize("damage", [b"", b"{", b"SQLite format 3\0" + bytes(200)])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    kept = KeptProofs(tmp_path)
    kept.add(EVERY[:3])
    (tmp_path / FILE).write_bytes(damage)
    assert kept.among(EVERY) == frozenset()
    kept.add(EVERY[:2])
    assert kept.among(EVERY) == frozenset(EVERY[:2])


def add_one_by_one(folder: Path, digests: Sequence[str]) -> None:
    for digest in digests:
        KeptProofs(folder).add([digest])


def test_processes_share_a_folder(tmp_path: Path) -> None:
    parts = [EVERY[start::2] for start in range(2)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(add_one_by_one, [tmp_path] * 2, parts))
    assert KeptProofs(tmp_path).among(EVERY) == frozenset(EVERY)


KILLED = """
import os, signal, sys
from pathlib import Path
from pdproto.check.prove.kept import KeptProofs

with KeptProofs(Path(sys.argv[1]))._database('IMMEDIATE') as database:
    database.executemany("INSERT INTO proved VALUES (?, 1)", [(f"lost {n}",) for n in range(9_999)])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_is_killed_while_it_writes(tmp_path: Path) -> None:
    kept = KeptProofs(tmp_path)
    kept.add(EVERY[:3])
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert kept.among([*EVERY, "lost 1"]) == frozenset(EVERY[:3])
    kept.add(EVERY[3:5])
    assert kept.among([*EVERY, "lost 1"]) == frozenset(EVERY[:5])


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = KeptProofs(tmp_path / "file" / "below")
    kept.add(EVERY)
    assert kept.among(EVERY) == frozenset()


def test_without_a_folder_nothing_is_kept() -> None:
    KeptProofs(None).add(EVERY)
    assert KeptProofs(None).among(EVERY) == frozenset()
