"""Promises that hold only while some faults never happen, and questions of two rankings."""

from dataclasses import dataclass, replace
from io import StringIO
from typing import Final

import pytest
from rich.console import Console

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.ranking import ranking_obligations, spared
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.report.proofs import promises, tell
from pdproto.spec.language import (
    TRUE,
    Always,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    each,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.ranking import FaultFree, Help, Ranking

LIMIT_S: Final = 30.0
RANKING: Final = Ranking("all_come", (Help("ring"), Help("come")))


class Guest(Sort):
    """A guest, who comes when the bell rings."""


@dataclass(frozen=True, slots=True)
class House:
    """Guests come when they hear the bell, which rings once; the sound may be lost."""

    system: System
    heard: Always


def house(*explored: str) -> House:
    """explored: the fault layers of its configuration."""
    g = Guest("g")
    bell, guest, world = Machine("bell"), Machine("guest", g), Machine("world", world=True)
    rung, here = bell.relation("rung"), guest.relation("here")
    sound = Message("sound", g, sender=bell, receiver=guest)
    ring = Row("ring", when=~rung(), do=[rung().to(True)], send=[each(g, sound(g))])
    come = Row("come", on=sound(g), when=~here(g), do=[here(g).to(True)])
    stay = Ignore(sound(g), when=here(g), why="it has come")
    system = System(
        "house", "A house.", (Table(bell, rows=(ring,)), Table(guest, rows=(come, stay))),
        (LeadsTo("all_come", TRUE, here(g), under=(Fairness.NO_TIMERS,)),),
        final=forall(g, here(g)),
        faults={"lossy": (Table(world, rows=(lose(sound),)),)},
        configurations={"default": Configuration({Guest: 1}, faults=explored)},
    )
    return House(system, Always("who_is_called_hears_it", implies(rung(), sound(g)),
                                why="it rings for each"))


def unproved(system: System, found: list[Obligation]) -> set[str]:
    proof = prove(system, found, ProofSettings(timeout_s=LIMIT_S))
    return {o.name for o in found if proof.status(o) is not Status.PROVED}


def test_a_lemma_that_a_loss_breaks_counts_only_without_the_layer() -> None:
    one = house()
    for system, wrong in (
        (one.system, {"who_is_called_hears_it at lose_sound"}),
        (spared(one.system, ("lossy",)), set()),
    ):
        every = claims(system, (one.heard,))
        found = [*obligations(system, every), *ranking_obligations(system, every, (), [RANKING])]
        assert unproved(system, found) == wrong


def test_no_row_helps_without_the_lemma() -> None:
    calm = spared(house().system, ("lossy",))
    found = list(ranking_obligations(calm, claims(calm), (), [RANKING]))
    assert unproved(calm, found) == {"all_come: helped at all_come pends"}


def test_a_layer_that_is_explored_is_not_left_out() -> None:
    with pytest.raises(SpecError, match=r"house is explored with lossy \(default\)"):
        spared(house("lossy").system, ("lossy",))
    with pytest.raises(SpecError, match="house has no fault layer 'crash'"):
        spared(house().system, ("crash",))


def test_a_question_of_two_rankings_is_answered_once() -> None:
    system = house().system
    promise = next(claim for claim in system.properties if isinstance(claim, LeadsTo))
    system = replace(system, properties=tuple(replace(promise, name=name) for name in "ab"))
    rankings = [Ranking(name, (Help("ring"), Help("come"))) for name in "ab"]
    found = list(ranking_obligations(system, claims(system), (), rankings))
    proof = prove(system, found, ProofSettings(timeout_s=LIMIT_S))
    assert proof.obligations == tuple(found)
    assert unproved(system, found) == {f"{name}: helped at {name} pends" for name in "ab"}


def test_the_answer_names_the_missing_layer() -> None:
    one = house()
    promised = FaultFree(("lossy",), (one.heard,), (RANKING,))
    told = ProofSubject(one.system, (), {}, fault_free=promised)
    found = told.obligations()
    proof = prove(told.system, found, ProofSettings(timeout_s=LIMIT_S))
    with StringIO() as out:
        tell(Verdicts(told, proof), [], Console(file=out, width=200))
        lines = out.getvalue().splitlines()
    assert [line.split()[:3] for line in lines if line.endswith(", in runs without lossy faults")
            ] == [
        ["proved", "lemma", "who_is_called_hears_it:"], ["proved", "all_come:", "for"]]
    (promise,) = promises(Verdicts(told, proof))
    assert (promise.status, promise.without) == ("proved", ("lossy",))


def test_a_fault_free_ranking_is_asked_for_by_name() -> None:
    one = house()
    told = ProofSubject(one.system, (), {}, fault_free=FaultFree(("lossy",), (one.heard,)))
    asked = told.obligations([one.heard.name])
    assert {o.claim.name for o in asked} == {one.heard.name}
    assert {o.scope for o in asked} == {"the start", "ring"}
