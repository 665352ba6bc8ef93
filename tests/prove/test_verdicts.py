"""A claim counts as proved only with everything on which its proof rests, wherever it is told."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from pdproto.check.prove import obligations
from pdproto.check.prove.axioms import doubts
from pdproto.check.prove.independent import independent
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import Proof, ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import UnitStatus, Verdicts
from pdproto.check.questions import PEERS
from pdproto.cli.main import main
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    all_of,
    auto,
    exists,
)
from pdproto.spec.language.ranking import FaultFree, Help, Monotone, Ranking, Use

Output = pytest.CaptureFixture[str]

LIMIT_S: Final = 20.0


class Node(Sort):
    """Three of them break the claims."""


class Phase(State):
    FIRST = auto()
    SECOND = auto()


a, b, c = Node("a"), Node("b"), Node("c")
THREE: Final = all_of(a.differs(b), b.differs(c), a.differs(c))

host = Machine("host")
bad, worse = host.relation("bad"), host.relation("worse")
ROWS: Final = Table(host, rows=(
    Row("spoil", on=Call("spoil", a, b, c), when=THREE, do=[bad().to(True)]),
    Row("worsen", on=Call("worsen"), when=bad(), do=[worse().to(True)]),
))
NOT_BAD: Final = Always("not_bad", ~bad())
NOT_WORSE: Final = Always("not_worse", ~worse())
FOLLOWS: Final = Always("follows", ~bad(), by=("not_bad",))
SPOILT: Final = System("spoilt", "", (ROWS,), (NOT_BAD, NOT_WORSE, FOLLOWS), final=TRUE)
BARE: Final = System("bare", "", (ROWS,), (NOT_WORSE,), final=TRUE)
LEMMAS: Final = (Always("never_bad", ~bad()),)

calmed = host.relation("calmed")
calmer = host.relation("calmer")
CALM: Final = System("calm", "", (replace(ROWS, rows=(
    *ROWS.rows, Row("calm", on=Call("calm"), when=calmer(), do=[calmed().to(True)]),
    Row("calmer", on=Call("calmer"), when=calmed(), do=[calmer().to(True)]))),),
    (Always("calm", ~calmed()), Always("calmer", ~calmer()), *SPOILT.properties), final=TRUE)
CHAIN: Final = System("chain", "", (replace(ROWS, rows=(
    Row("break_first", on=Call("break_first"), do=[bad().to(True)]),
    Row("break_second", on=Call("break_second"), when=bad(), do=[calmed().to(True)]),
    Row("break_third", on=Call("break_third"), when=calmed(), do=[calmer().to(True)]))),),
    (Always("first", ~bad()), Always("second", ~calmed()), Always("third", ~calmer())), final=TRUE)

step = Machine("step")
phase = step.function("phase", Phase, edges={Phase.FIRST: (Phase.SECOND,), Phase.SECOND: ()})
ended = step.relation("ended")
MANY: Final = exists((a, b, c), THREE)
MOVES: Final = Table(step, state=phase, rows=(
    Row("up", at=Phase.FIRST, to=Phase.SECOND),
    Row("down", at=Phase.SECOND, to=Phase.FIRST, when=MANY),
    Row("end", at=Phase.SECOND, when=[~ended(), ~MANY], do=[ended().to(True)]),
))
ENDS: Final = LeadsTo("ends", TRUE, ended())
MOVING: Final = System("moving", "", (MOVES,), (ENDS,), final=TRUE)
RANKED: Final = ProofSubject(
    MOVING, (), {}, rankings=(Ranking("ends", (Help("up"), Help("down"), Help("end"))),))

lamp = Machine("lamp")
lit, on = lamp.relation("lit"), lamp.relation("on")
lamp.relation("seen_by", Node)
LIGHT: Final = System("light", "", (Table(lamp, rows=(
    Row("light", when=[on(), ~lit()], do=[lit().to(True)]),)),),
    (LeadsTo("is_lit", TRUE, lit()),), final=TRUE)
UNPOWERED: Final = ProofSubject(
    LIGHT, (Always("has_power", on()),), {}, rankings=(Ranking("is_lit", (Help("light"),)),))


def judged(one: ProofSubject, *wanted: str) -> Verdicts:
    proof = prove(one.system, one.obligations(wanted), ProofSettings(timeout_s=LIMIT_S))
    return Verdicts(one, proof, wanted)


def standings(found: Verdicts) -> Mapping[str, str]:
    return {name: found.units[name].standing for name in found.chosen}


def told(capsys: Output, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """The exit status, the text, and the JSON."""
    asked = ["prove", *arguments, "--quiet", "--no-cache"]
    status = main(asked)
    text = capsys.readouterr().out
    assert main([*asked, "--json", "-"]) == status
    return status, text, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("system", "name", "unmet"), [
    pytest.param("SPOILT", "follows", ["not_bad", "never_bad"], marks=pytest.mark.nightly),
    ("BARE", "not_worse", ["never_bad"]),
])
def test_a_claim_that_rests_on_a_false_one_is_proved_only_if_it_holds(
    system: str, name: str, unmet: list[str], capsys: Output
) -> None:
    """Whether it is asked for alone, or in a whole run."""
    for partial in (["--property", name], []):
        status, text, result = told(capsys, f"{__name__}:{system}", *partial)
        assert status == 1
        assert f"open      {name}: proved, if {', '.join(unmet)} hold" in text
        assert f"proved    {name}" not in text
        assert "on which these rest" not in text
        assert result["verdict"] == "failed" if not partial else "open"
        assert result["verdicts"][name] == "open"
        assert result["if"][name] == unmet


@pytest.mark.nightly
def test_what_does_not_need_it_is_proved(capsys: Output) -> None:
    """It is asked once more without the claims that are not met."""
    for name in ("calm", "calmer"):
        status, text, result = told(capsys, f"{__name__}:CALM", "--property", name)
        assert status == 0
        assert f"proved    {name}: for all sizes (2 obligations)" in text
        assert "failed" not in text.partition("\n")[2]
        assert result["verdict"] == "proved"
    status, text, result = told(capsys, f"{__name__}:CALM")
    assert status == 1
    assert result["verdicts"] == {
        "calm": "proved", "calmer": "proved", "not_bad": "failed", "not_worse": "open",
        "follows": "open", "never_bad": "failed"}


def test_claims_are_proved_without_an_unmet_one_only_together() -> None:
    """Each of the two needs the other, and one of them needs a claim that fails."""
    one = ProofSubject(CHAIN, (), {})

    def prove_(asked: Sequence[Obligation]) -> Proof:
        return prove(CHAIN, asked, ProofSettings(timeout_s=LIMIT_S))

    found = Verdicts(one, prove_(one.obligations()))
    assert standings(found) == {"first": "failed", "second": "open", "third": "open"}
    assert standings(independent(found, prove_)) == standings(found)


@pytest.mark.parametrize(("one", "name", "unmet"), [
    (RANKED, "ends", "phase_edges"), (UNPOWERED, "is_lit", "has_power")])
def test_a_ranking_rests_on_edges_and_on_lemmas(one: ProofSubject, name: str, unmet: str) -> None:
    for found in (judged(one), judged(one, name)):
        assert found.units[name].standing is UnitStatus.CONDITIONAL
        assert found.units[name].unmet == (unmet,)
        assert found.exit_status == 1


def test_a_ranking_rests_on_edges_only_if_values_alone_do_not_say_so() -> None:
    """`phase` only goes up if no row takes it down."""
    calm = replace(MOVING, tables=(MOVES.without("down"),), like=MOVING)
    one = replace(RANKED, system=calm)
    assert "phase_edges" not in one.closure(["ends"])
    assert "phase_edges" in RANKED.closure(["ends"])


def test_a_ranking_rests_on_monotone_predicates_and_on_rows_that_reject() -> None:
    """It may use that no `reject` row can fire: that is a claim too."""
    peer, own = Machine("peer", a), Machine("own")
    says = Message("says", a, sender=peer, receiver=own)
    heard, asked = own.relation("heard", Node), own.relation("asked")
    system = System("rejecting", "", (
        Table(peer, rows=(Row("say", on=Call("say"), send=[says(a)]),)),
        Table(own, rows=(
            Row("refuse", on=says(a), when=~asked(), kind="reject", why="nobody asked"),
            Row("hear", on=says(a), when=asked() & ~heard(a), do=[heard(a).to(True)]),
        )),
    ), (LeadsTo("is_heard", says(a), heard(a)),), final=TRUE)
    one = ProofSubject(system, (), {}, monotone=(Monotone("once", ~asked()),), rankings=(
        Ranking("is_heard", (Help("hear"),), using=(Use("refuse", at={a: a}),)),))
    found = judged(one)
    assert {PEERS, obligations.MONOTONE} <= {*one.closure(["is_heard"])}
    assert found.units[PEERS].standing is UnitStatus.FAILED
    assert found.units["is_heard"].standing is UnitStatus.CONDITIONAL
    assert found.units["is_heard"].unmet == (PEERS,)


def test_a_part_of_a_proof_proves_nothing_by_itself() -> None:
    """Whatever is left out: a claim, a row of it, or that on which it rests."""
    one = ProofSubject(BARE, (Always("fine", TRUE),), {})
    settings = ProofSettings(timeout_s=LIMIT_S)
    every = one.obligations()
    for left_out in every:
        asked = [o for o in every if o is not left_out]
        found = Verdicts(one, prove(one.system, asked, settings))
        assert left_out.unit not in found.proved
        assert found.exit_status != 0


def test_assumptions_of_a_ranking_that_may_contradict_each_other_prove_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the property with that ranking is in doubt."""
    ranking = Ranking("is_lit", (Help("light"),), assumed={"odd": exists(a, a.same(a))})
    one = replace(UNPOWERED, lemmas=(), rankings=(ranking,), system=replace(
        LIGHT, tables=(Table(lamp, rows=(Row("light", when=~lit(), do=[lit().to(True)]),)),),
        like=LIGHT))
    found = judged(one)
    assert found.exit_status == 0
    unsure = Judgement(Status.UNKNOWN, "nobody knows")
    monkeypatch.setattr("pdproto.check.prove.axioms.require_possible", lambda *_, **__: unsure)
    why = doubts(one.system, one.every_ranking, ("cutoff",), LIMIT_S)
    assert why == {"is_lit": "nobody knows"}
    doubted = Verdicts(one, replace(found.proof, doubts=why))
    assert doubted.units["is_lit"].standing is UnitStatus.UNKNOWN
    assert doubted.exit_status == 3


@pytest.mark.parametrize("name", ["phase_edges", obligations.MONOTONE, "answers_of_step"])
def test_each_claim_has_its_own_name(name: str) -> None:
    """A verdict is told by a name: a property with that of a derived claim or group is refused."""
    on_call = replace(MOVES.row("end"), on=Call("end"))
    table = replace(MOVES, rows=(*MOVES.rows[:2], on_call, replace(on_call, name="end_again")))
    system = replace(MOVING, tables=(table,), properties=(ENDS, Always(name, TRUE)), like=MOVING)
    with pytest.raises(SpecError, match=f"'{name}'"):
        replace(RANKED, system=system, monotone=(Monotone("gone", ended()),)).obligations()


def test_check_marks_no_property_whose_ranking_rests_on_broken_edges(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(f"{__name__}.LEMMAS", ())
    monkeypatch.setattr(f"{__name__}.RANKINGS", RANKED.rankings, raising=False)
    name = f"{__name__}:MOVING"
    assert main(["prove", name, "--quiet"]) == 1
    assert main(["check", name, "--size", "Node=2", "--quiet"]) == 0
    assert "proved" not in capsys.readouterr().out.partition("HOLDS")[2]


def test_a_faultless_property_rests_on_its_own_lemmas() -> None:
    one = ProofSubject(LIGHT, (), {}, fault_free=FaultFree(
        (), UNPOWERED.lemmas, UNPOWERED.rankings))
    assert judged(one, "is_lit").units["is_lit"].unmet == ("has_power",)
