"""A user's own file of edited systems, as the command line reads it."""

from pathlib import Path

import pytest

from pdproto.cli.main import main

MINE = """
from pdproto.spec.examples.lock_server import SYSTEM, Lease, book, c, r, server
from pdproto.spec.language import AddClause, DropClause, Row, AddRow, Timer, edited

BAD = edited(SYSTEM, "bad", DropClause("give", book(c, r) == Lease.SPENT))
MALFORMED = edited(SYSTEM, "malformed", AddClause(
    "give",
    server))
TAKEN_BACK = edited(
    SYSTEM, "taken-back",
    DropClause("give", book(c, r) == Lease.UNUSED))
STRICTER = edited(SYSTEM, "stricter", AddClause("give", book(c, r) != Lease.CURRENT))
"""

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)


def test_a_bad_edit_leaves_the_others_of_its_file_alone(capsys: Output) -> None:
    assert main(["check", "mine.py:STRICTER", "--quiet"]) == 0
    assert main(["check", "mine.py:BAD", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("pdproto: mine.py:5: give has no clause ")


def test_the_error_of_an_edited_row_is_at_the_edit(capsys: Output) -> None:
    assert main(["check", "mine.py:MALFORMED", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("pdproto: mine.py:6: row 'give' of server: ")


def test_all_that_an_edit_breaks_is_told(capsys: Output) -> None:
    assert main(["check", "mine.py:TAKEN_BACK", "--quiet"]) == 1
    everything = capsys.readouterr().out
    assert "every state explored" in " ".join(everything.split())
    assert main(["check", "mine.py:TAKEN_BACK", "--quiet", "--no-keep-going"]) == 1
    assert "incomplete" in capsys.readouterr().out


def test_a_proof_of_an_edit_rests_on_the_lemmas_of_its_base(capsys: Output) -> None:
    assert main(["prove", "mine.py:STRICTER", "--quiet", "--no-cache"]) == 0
    assert "10 of lock-server, of which this is an edit" in capsys.readouterr().out


def test_a_lemma_that_the_edit_breaks_proves_nothing(capsys: Output) -> None:
    """With it, what is false would count as proved."""
    assert main(["prove", "lock-server-broken", "--property", "mutual_exclusion", "--quiet",
                 "--no-cache"]) == 1
    told = capsys.readouterr().out
    assert "7 of lock-server, of which this is an edit; broken: " in told
    assert "failed    mutual_exclusion: at enter" in told
