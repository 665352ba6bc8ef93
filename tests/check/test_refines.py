"""Refinement: explored with every reduction, drawn, and proved; and what a mapping must not be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NO_LIMITS, PORTABLE
from pdproto.check.mutate.kills import Kill, Seen, liveness
from pdproto.check.prove import cutoff, quantified
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.result import Finding, Verdict
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground
from pdproto.spec.examples import paxos, paxos_broken, voting
from pdproto.spec.examples.voting import VOTING
from pdproto.spec.language import (
    Call,
    Configuration,
    DropClause,
    Int,
    Machine,
    Refines,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    count,
    each,
    edited,
    exists,
    forall,
    if_then_else,
)
from pdproto.spec.lemmas import paxos_lemmas, voting_lemmas
from pdproto.testing.cluster import Cluster
from pdproto.testing.property_checker import PropertyChecker, ViolationError

HASTY = edited(VOTING, "hasty", DropClause("vote", voting.SAFE))
LATE = edited(paxos.SYSTEM, "late", DropClause("vote", ~paxos.left(voting.a, voting.b)))


PLAIN = CheckSettings()


def finding(system: System, name: str, settings: CheckSettings = PLAIN, **by: bool) -> Finding:
    configuration = replace(
        system.configurations["default"], symmetry="symmetry" in by, dead_bits="dead_bits" in by)
    told = check(system, configuration, replace(settings, properties=(name,)))
    return next(one for one in told.findings if one.name == name)


@pytest.mark.parametrize(("system", "name"), [(VOTING, "consensus"), (paxos.SYSTEM, "voting")])
def test_paxos_refines_voting_and_voting_consensus(system: System, name: str) -> None:
    assert finding(system, name).verdict is Verdict.HOLDS


@pytest.mark.parametrize("settings", [
    PLAIN, CheckSettings(workers=2), CheckSettings(engine=PORTABLE)])
@pytest.mark.parametrize("by", [{}, {"symmetry": True}, {"dead_bits": True},
                                {"symmetry": True, "dead_bits": True}])
def test_a_vote_for_any_value_is_no_step_of_consensus(
    settings: CheckSettings, by: dict[str, bool]
) -> None:
    found = finding(HASTY, "consensus", settings, **by)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert [step.row for step in found.trace.steps].count("vote") == len(found.trace.steps) == 4
    assert "goes from false to true, which no row of consensus does" in found.note


def test_a_late_vote_is_no_step_of_voting() -> None:
    found = finding(LATE, "voting")
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert found.trace.steps[-1].row == "vote"
    assert finding(paxos_broken.SYSTEM, "voting").verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("system", "lemmas", "row", "met"), [
    (VOTING, voting_lemmas.LEMMAS, "vote", True), (HASTY, voting_lemmas.LEMMAS, "vote", False),
    (paxos.SYSTEM, paxos_lemmas.LEMMAS, "vote", True),
    (LATE, paxos_lemmas.LEMMAS, "vote", False),
    (paxos.SYSTEM, paxos_lemmas.LEMMAS, "report", True)])
def test_it_is_proved_by_induction(system: System, lemmas: tuple[object, ...], row: str, met: bool
                                   ) -> None:
    every = obligations(system, claims(system, lemmas), wanted=["consensus", "voting"])  # type: ignore[arg-type]  # of lemmas
    (one,) = [one for one in every if one.scope == row]
    (told,) = quantified.decide(system, [one], 20.0)
    assert (told.status is Status.PROVED) == met
    (first,) = [one for one in every if one.scope == "the start"]
    assert [answer.status for answer in quantified.decide(system, [first], 20.0)] == [Status.PROVED]


class Gate(State):
    SHUT = auto()
    OPEN = auto()


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("values", [Gate, Int(0, 1)])
def test_a_proof_compares_the_first_of_two_values_too(values: type[Gate] | Int, follows: bool
                                                      ) -> None:
    """The abstract gate opens in each step. This one stays shut where no key is there."""
    shut, opened = (Gate.SHUT, Gate.OPEN) if values is Gate else (0, 1)
    above, below = Machine("above", host=True), Machine("below", host=True)
    make: Any = above.function
    gate, wanted = make("gate", values), above.relation("called")
    make = below.function
    door, called = make("door", values), below.relation("rung")
    key = below.relation("key", init=follows)
    of = System("gates", "A gate.", tables=(Table(above, rows=(
        Row("open", do=[gate().to(opened), wanted().to(True)]),)),))
    system = System("doors", "A door.", tables=(Table(below, rows=(
        Row("ring", when=[~called(), key() if follows else ~key()],
            do=[called().to(True), door().to(if_then_else(key(), opened, shut))]),)),),
        final=called(), configurations={"default": Configuration({})},
        properties=(Refines("gates", of, (gate().to(door()), wanted().to(called()))),))
    assert finding(system, "gates").verdict is (Verdict.HOLDS if follows else Verdict.VIOLATED)
    for engine in (cutoff, quantified):
        (one,) = [o for o in obligations(system, claims(system, ())) if o.scope == "ring"]
        (told,) = engine.decide(system, [one], 20.0)
        assert (told.status is Status.PROVED) == follows


class Light(State):
    RED = auto()
    GREEN = auto()
    DARK = auto()


class Lamp(Sort):
    pass


lamp, other = Lamp("lamp"), Lamp("other")
street = Machine("street", lamp, host=True)
light = street.function("light", Light)
road = Machine("road", host=True)
lit = road.relation("lit", Lamp)
hours = road.function("hours", Int(0, 2))
last = road.function("last", Lamp)
LAMPS = System("lamps", "One lamp after the other.", tables=(Table(road, rows=(
    Row("light", choose=lamp, when=hours() < 2,
        do=[lit(lamp).to(True), hours().to(hours() + 1), last().to(lamp)]),)),))
SIZES = Configuration({Lamp: 2})


newest = street.relation("newest")
LIT = Row("lit", on=Call("lit"), at=Light.RED, to=Light.GREEN, do=newest(lamp).to(True))
MAPPING = (
    lit(lamp).to(light(lamp) != Light.RED),
    hours().to(count(lamp, light(lamp) != Light.RED)),
    each(lamp, last().to(lamp), where=newest(lamp)))


def streets(mapping: object = MAPPING, row: Row = LIT, of: System = LAMPS) -> System:
    return System(
        "streets", "Lamps that somebody lights.", tables=(Table(street, state=light, rows=(row,)),),
        properties=(Refines("lamps", of, mapping),),  # type: ignore[arg-type]  # some are wrong
        configurations={"default": SIZES})


def test_a_function_into_a_sort_has_one_value() -> None:
    """The second lamp leaves two values of `last`, which no state of the abstract system has."""
    found = finding(streets(), "lamps")
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert len(found.trace.steps) == 2


def test_a_system_with_numbers_refines_another() -> None:
    """As above, and the newest lamp is one."""
    assert finding(streets(row=replace(LIT, to=Light.GREEN, when=forall(
        other, ~newest(other)))), "lamps").verdict is Verdict.HOLDS


@pytest.mark.parametrize(("hour", "told"), [
    (hours().to(count(lamp, light(lamp) != Light.RED) + 1), "at the start hours goes from 0 to 1"),
    (hours().to(count(lamp, light(lamp) != Light.RED) * 3), "hours has no value of its range"),
    (hours().to(if_then_else(exists(lamp, light(lamp) == Light.RED), 0, 1)),
     "which no row of lamps does"),
])
def test_a_number_is_one_of_the_abstract_system(hour: object, told: str) -> None:
    found = finding(streets((MAPPING[0], hour, MAPPING[2])), "lamps")
    assert found.verdict is Verdict.VIOLATED
    assert told in found.note


@pytest.mark.parametrize(("make", "told"), [
    (lambda: streets(MAPPING[:2]), "mapping= forgets last() of lamps: add last().to(...)"),
    (lambda: streets((*MAPPING, MAPPING[0])), "mapping= assigns lit twice"),
    (lambda: streets((*MAPPING, newest(lamp).to(True))), "newest, which is no variable of lamps"),
    (lambda: streets((lit(lamp).to(newest(other)), *MAPPING[1:])),
     "reads other, which is no argument of lit: bind it with exists or forall"),
    (lambda: streets((lit(lamp).to(lit(lamp)), *MAPPING[1:])),
     "lit belongs to no machine of the system"),
    (lambda: streets({lit: True}), "want an update for each variable of lamps, as in mapping="),
    (lambda: streets(of="lamps"), "'lamps' is no system"),  # type: ignore[arg-type]  # the mistake
    (lambda: streets(of=replace(LAMPS, axioms={"one": exists(lamp, lamp.same(lamp))})),
     "lamps has the axiom one, and streets has not: add it to axioms="),
])
def test_a_mapping_that_cannot_be_is_refused(make: Callable[[], System], told: str) -> None:
    with pytest.raises(SpecError, match="property 'lamps': ") as refused:
        make()
    assert told in refused.value.problem
    assert refused.value.place.path.endswith("test_refines.py")


def test_a_random_run_and_a_mutant_break_it() -> None:
    """As `pdproto fuzz` and `pdproto mutate` judge a system."""
    refuted = liveness(HASTY, HASTY.configurations["default"], NO_LIMITS)
    assert isinstance(refuted, Kill)
    assert (refuted.property, refuted.steps) == ("consensus", 4)
    assert isinstance(liveness(VOTING, VOTING.configurations["default"], NO_LIMITS), Seen)
    configuration = HASTY.configurations["default"]
    (given,) = interpretations(HASTY, configuration.sizes, configuration)
    ground = Ground(HASTY, configuration.sizes, given=given)
    cluster, asked = Cluster(ground), PropertyChecker(ground)
    votes = [row for row in ground.rows if row.row.name == "vote"]
    for row in [row for row in votes if row.parameters in (
            "a0, b0, v0", "a1, b0, v0", "a1, b1, v1")]:
        cluster.fire(row)
        asked.check_state(cluster)
    (last,) = [row for row in votes if row.parameters == "a2, b1, v1"]
    cluster.fire(last)
    with pytest.raises(ViolationError) as broken:
        asked.check_state(cluster)
    assert broken.value.finding.name == "consensus"
    assert "chosen(v1) goes from false to true" in broken.value.finding.note


def test_a_mapping_that_never_changes_is_told() -> None:
    still = streets((lit(lamp).to(False), hours().to(0), MAPPING[2]),
                    row=replace(LIT, do=[newest(lamp).to(False)]))
    assert finding(still, "lamps").note == "vacuous: it never moves lamps"
    assert finding(VOTING, "consensus").note == ""
