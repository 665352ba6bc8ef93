"""`python -m lab compare`: each system is shown when it is answered, and the page says the same."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.__main__ import main
from lab.compare import Compared
from lab.verbs import compare
from pdproto.check.opinions.opinion import Opinion
from pdproto.spec.language import System

SYSTEMS = ("lock-server-broken", "two-phase-commit")
BY_ALL = ("compare", *SYSTEMS, "--with", "portable", "--quiet")


def instead(monkeypatch: pytest.MonkeyPatch, answer: Callable[[System], Compared]) -> None:
    """Let `python -m lab compare` give these answers."""

    def compared(system: System, *_: object, **__: Any) -> Compared:
        return answer(system)

    monkeypatch.setattr(compare, "compare", compared)


def test_a_row_has_the_states_and_the_refuted_properties(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(BY_ALL) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:-2] + row[-1:] for row in rows[1:3]] == [
        ["lock-server-broken", "native", "55", "mutual_exclusion"],
        ["portable", "55", "mutual_exclusion"]]
    assert [row[0] for row in rows] == [
        "system", "lock-server-broken", "portable", "two-phase-commit", "portable"]


def test_after_an_interrupt_the_answers_so_far_are_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_only(system: System) -> Compared:
        if system.name != SYSTEMS[0]:
            raise KeyboardInterrupt
        return Compared(system.name, "default", (Opinion("native", 55, set(), 0.1),), {}, (),
                        ())

    instead(monkeypatch, first_only)
    assert main(BY_ALL) == 3
    told = capsys.readouterr()
    assert "lock-server-broken  native           55      0.10  nothing" in told.out
    assert "interrupted: 1 of 2 systems were compared" in told.err


def test_the_page_marks_a_checker_that_differs_and_one_without_an_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(system: System) -> Compared:
        found = (Opinion("native", 55, {"one"}, 0.1), Opinion("portable", 54, {"one"}, 1.24))
        return Compared(system.name, "deep", found, {"tlc": "java is not installed"}, ("portable",),
                        ("native finds 55 states, portable 54",))

    instead(monkeypatch, answer)
    assert main(["compare", "lock-server", "--with", "portable", "tlc", "--record", "-"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "# The same questions to several checkers"
    assert told[2] == ("Each row is a system. A checker with a time in it finds this number of "
                       "states and refutes these properties.")
    assert "    python -m lab compare lock-server --with portable tlc" in told
    assert any(line.endswith(
        ": 1 of 1 systems with a difference, 1 without the answer of a checker.") for line in told)
    assert "| system | states | refutes | native | portable | tlc |" in told
    assert "| lock-server deep | 55 | `one` | 0.1 | differs | no answer |" in told
    assert told[-2:] == ["* lock-server: native finds 55 states, portable 54",
                         "* java is not installed"]


def test_one_checker_alone_agrees_with_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Seen red: status 0, which is "they agree"."""
    assert main(["compare", SYSTEMS[1], "--with", "native", "--quiet"]) == 2
    assert "--with native: nothing is compared with it" in capsys.readouterr().err
