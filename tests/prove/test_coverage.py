"""Every trigger has one answer, for all sizes; lint at small sizes agrees on edited tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.check.lint import lint, small
from pdproto.check.lint.remark import Severity
from pdproto.check.prove.confirming import confirmed
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import ENGINES, ProofSettings, prove
from pdproto.cli.main import main
from pdproto.cli.systems import subject
from pdproto.spec.examples.lock_server import SYSTEM as LOCK
from pdproto.spec.examples.lock_server import Lease, c, lease, r
from pdproto.spec.examples.ring_election import SYSTEM as RING
from pdproto.spec.handoff.scheduler import SYSTEM as SCHEDULER
from pdproto.spec.handoff.scheduler import Knowledge
from pdproto.spec.language import DropClause, DropRow, Retarget, System, edited
from pdproto.spec.language.symbols import Sent

LIMIT_S = 30.0


def open_questions(system: System, *engines: str) -> list[Obligation]:
    """The triggers without a proof, in any state, without an assumption."""
    found = list(coverage(system, ()))
    settings = ProofSettings(engines=engines or ("cutoff",), timeout_s=LIMIT_S)
    proof = confirmed(system, prove(system, found, settings), LIMIT_S)
    return [o for o in found if proof.status(o) is not Status.PROVED]


@pytest.mark.parametrize("name", ["two-phase-commit", "lock-server", "ring-election"])
def test_every_trigger_has_one_answer_in_every_state(name: str) -> None:
    """Even in states that no run reaches, so that no lemma stands between a peer and an answer.

    The systems of the hand-over have a proof of their own: proofs/every_trigger_has_one_answer.py.
    """
    assert [o.claim.name for o in open_questions(subject(name).system)] == []


def test_both_engines_agree() -> None:
    assert open_questions(LOCK, *ENGINES) == []
    assert open_questions(RING, *ENGINES) == []


def edits(system: System) -> Iterator[System]:
    """The system without one of its answers to a message, or one clause of one."""
    for table in system.tables:
        for row in table.rows:
            if not isinstance(row.on, Sent):
                continue
            yield edited(system, f"without {row.name}", DropRow(row.name))
            for number, clause in enumerate(row.conditions):
                yield edited(system, f"{row.name} {number}", DropClause(row.name, clause))


@pytest.mark.parametrize("broken", [*edits(LOCK), *edits(RING)], ids=lambda system: system.name)
def test_lint_says_the_same_of_every_edited_table(broken: System) -> None:
    wrong = {
        remark.rule for remark in lint(broken, small(broken))
        if remark.severity is Severity.ERROR and remark.rule in ("totality", "determinism")
    }
    found = {"totality" if o.claim.name.endswith(": answered") else "determinism"
             for o in open_questions(broken)}
    assert found == wrong


def test_a_call_at_any_time_needs_an_answer() -> None:
    assert open_questions(SCHEDULER) == []
    deaf = edited(SCHEDULER, "deaf", Retarget("refuse", at=Knowledge.FOUND))
    assert [o.claim.name for o in open_questions(deaf)] == ["view on give_up: answered"]


def test_a_hole_is_shown_as_a_state() -> None:
    broken = edited(LOCK, "deaf", DropRow("leave_again"))
    (hole,) = open_questions(broken)
    assert hole.claim.name == "client on grant: answered"
    found = counterexample(broken, hole, LIMIT_S)
    assert found is not None
    assert {(change.variable, change.after) for change in found.trace.start} >= {
        ("lease(c0, r0)", "spent")}


def test_two_answers_are_named() -> None:
    broken = edited(LOCK, "late", DropClause("enter", lease(c, r) == Lease.CURRENT))
    assert {o.claim.name for o in open_questions(broken)} == {
        "client on grant: enter or leave_again",
        "client on grant: enter or reject_grant_waiting_holding",
    }


def test_a_message_without_a_row_is_told_where_to_write_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed "false", the empty choice among no rows."""
    spec = tmp_path / "deaf.py"
    spec.write_text("""
from pdproto.spec.examples.lock_server import SYSTEM
from pdproto.spec.language import DropRow, ReplaceProperties, edited

ON_GRANT = [row.name for table in SYSTEM.tables for row in table.rows
            if "grant" in str(getattr(row.on, "message", ""))]
DEAF = edited(SYSTEM, "deaf", ReplaceProperties(()), *map(DropRow, ON_GRANT))
""", encoding="utf-8")
    assert main(["prove", f"{spec}:DEAF", "--no-cache", "--quiet"]) == 1
    told = capsys.readouterr().out
    assert "no row is on it: write a Row, an Ignore or a Reject in the table of client" in told
    assert "\nfalse\n" not in told


def test_the_command_line_prints_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "lock-server", "--property", "answers_of_client", "--no-cache",
                 "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "proved    answers_of_client: one answer to every trigger, for all sizes" in told
    assert "mutual_exclusion" not in told
