"""A helper that is strongly fair need not stay enabled; one that is weakly fair has to."""

from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import Verdict
from pdproto.spec.language import (
    Call,
    Configuration,
    LeadsTo,
    Machine,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
)
from pdproto.spec.language.ranking import Help, Ranking


class Door(Sort):
    """One of two ways out, of any number of rooms."""


class Phase(State):
    IN = auto()
    OUT = auto()


d = Door("d")
room = Machine("room", d)
phase = room.function("phase", Phase, edges={Phase.IN: (Phase.OUT,)})
turned = room.relation("turned")


def leaving(fair: Any) -> System:
    """A door that turns for ever: it is open to one side, and then to the other."""
    return System("room", "A turning door.", (Table(room, state=phase, rows=(
        Row("turn", on=Call("turn"), when=~turned(d), do=turned(d).to(True)),
        Row("turn_back", on=Call("turn_back"), when=turned(d), do=turned(d).to(False)),
        Row("leave", at=Phase.IN, to=Phase.OUT, when=~turned(d), fair=fair),
        Row("leave_behind", at=Phase.IN, to=Phase.OUT, when=turned(d), fair=fair),
    )),), (LeadsTo("everybody_leaves", phase(d) == Phase.IN, phase(d) == Phase.OUT),),
        configurations={"default": Configuration({Door: 2})})


RANKINGS = (Ranking("everybody_leaves", helpers=(Help("leave"), Help("leave_behind"))),)


@pytest.mark.parametrize(("fair", "status", "verdict"), [
    ("strong", Status.PROVED, Verdict.HOLDS), ("weak", Status.FAILED, Verdict.VIOLATED)])
def test_a_strongly_fair_helper_need_not_stay_enabled(
    fair: str, status: Status, verdict: Verdict
) -> None:
    """Seen red: the obligation that a helper lasts failed, and the claim was not proved."""
    system = leaving(fair)
    subject = ProofSubject(system, (), {}, rankings=RANKINGS)
    found = subject.units["everybody_leaves"]
    proof = prove(system, found, ProofSettings())
    broken = {o.claim.name for o in found if proof.status(o) is not Status.PROVED}
    assert broken == (set() if status is Status.PROVED else {
        "everybody_leaves: leave lasts", "everybody_leaves: leave_behind lasts"})
    told = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    assert next(one.verdict for one in told.findings if one.name == "everybody_leaves") is verdict


def test_some_helper_must_be_enabled_in_each_state() -> None:
    """One that is enabled now and then is fired by the explorer, and not used by a proof."""
    system = leaving("strong")
    subject = ProofSubject(system, (), {}, rankings=(
        Ranking("everybody_leaves", helpers=(Help("leave"),)),))
    found = subject.units["everybody_leaves"]
    proof = prove(system, found, ProofSettings())
    assert {o.claim.name for o in found if proof.status(o) is not Status.PROVED} == {
        "everybody_leaves: helped"}
    (helped,) = (o.claim for o in found if o.claim.name == "everybody_leaves: helped")
    leave = next(row for _, row in system.rows() if row.name == "leave")
    assert f"strong fairness of row 'leave' at {leave.place} helps only where" in helped.why
