"""The protocol refines the hand-over that a stranger can read; defects do not."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove import cutoff
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.result import Finding, Verdict
from pdproto.spec.handoff import end_to_end, sink, source, transfer
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.handoff.hand_over import HAND_OVER, REFINED
from pdproto.spec.language import AddProperty, Always, DropClause, Retarget, System, edited
from pdproto.spec.language.edit import Edit
from pdproto.spec.lemmas import end_to_end_lemmas

LEMMAS = tuple(one for one in end_to_end_lemmas.LEMMAS if isinstance(one, Always))
ONE = edited(transfer.NO_TIMERS, "one-transfer", AddProperty(REFINED))
PROVED = obligations(end_to_end.SYSTEM, claims(end_to_end.SYSTEM, LEMMAS), wanted=[REFINED.name])
BY_DAY = "succeed", "commit", "crash", "the start"


def judged(system: System, configuration: str = "default") -> Finding:
    told = check(system, system.configurations[configuration],
                 CheckSettings(properties=(REFINED.name,)))
    return next(one for one in told.findings if one.name == REFINED.name)


def test_the_transfer_is_a_hand_over() -> None:
    found = judged(ONE)
    assert (found.verdict, found.note) == (Verdict.HOLDS, "")


@pytest.mark.slow
def test_the_composed_protocol_is_a_hand_over() -> None:
    found = judged(end_to_end.SYSTEM)
    assert (found.verdict, found.note) == (Verdict.HOLDS, "")


@pytest.mark.parametrize(("edits", "last", "told"), [
    ([DropClause("succeed", source.ALL_LANDED)], "succeed",
     "prefill(p0) goes from at_work to sent"),
    ([DropClause("commit", sink.ALL_LANDED), DropClause("commit", sink.INTACT),
      Retarget("commit", at=Receiving.WAITING)], "commit",
     "decode(d0) goes from waiting to taken"),
    ([Retarget("abort_receive", at=Receiving.SUCCESS)], "abort_receive",
     "decode(d0) goes from taken to failed"),
    ([Retarget("abort_send", at=Sending.SUCCESS)], "abort_send",
     "prefill(p0) goes from sent to failed"),
], ids=["before it has landed", "not all is there", "takes its word back", "prefill too"])
def test_a_defect_is_no_hand_over(edits: list[Edit], last: str, told: str) -> None:
    found = judged(edited(ONE, "broken", *edits))
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert found.trace.steps[-1].row == last
    assert told in found.note


def test_the_hand_over_of_a_group_keeps_its_word() -> None:
    told = check(HAND_OVER, HAND_OVER.configurations["groups"], CheckSettings())
    assert {one.verdict for one in told.findings} == {Verdict.HOLDS}


@pytest.mark.parametrize("obligation", [
    pytest.param(one, marks=() if one.scope in BY_DAY else pytest.mark.nightly, id=one.scope)
    for one in PROVED])
def test_each_row_is_proved_for_every_size(obligation: Obligation) -> None:
    (told,) = cutoff.decide(end_to_end.SYSTEM, [obligation], 60.0)
    assert told.status is Status.PROVED


def test_a_row_without_its_condition_is_not_proved() -> None:
    broken = edited(end_to_end.SYSTEM, "broken", DropClause("succeed", source.ALL_LANDED))
    every = obligations(broken, claims(broken, LEMMAS), wanted=[REFINED.name])
    (one,) = [one for one in every if one.scope == "succeed"]
    (told,) = cutoff.decide(broken, [one], 60.0)
    assert told.status is not Status.PROVED
