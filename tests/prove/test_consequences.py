"""A claim that follows from others in each state is proved without an induction."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.prove.examination import without
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import ANY_STATE, Obligation, claims, obligations
from pdproto.check.prove.proving import ENGINES, ProofSettings, prove
from pdproto.check.prove.suggest import suggest
from pdproto.cli.main import main
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Machine,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    implies,
)

LIMIT_S: Final = 20.0
BOTH: Final = tuple(ENGINES)


class Tank(Sort):
    """It is filled, and somebody is told."""


class Level(State):
    LOW = auto()
    HIGH = auto()


t, other = Tank("t"), Tank("o")
tank = Machine("tank", t)
level = tank.function("level", Level)
told = tank.relation("told")
opened = tank.relation("opened")

ROWS: Final = Table(tank, state=level, rows=(
    Row("fill", on=Call("fill"), at=Level.LOW, to=Level.HIGH, do=[told(t).to(True)]),
    Row("open", on=Call("open"), at=Level.HIGH, do=[opened(t).to(True)]),
))
TOLD: Final = Always("a_high_tank_is_told", implies(level(t) == Level.HIGH, told(t)))
PAIR: Final = Always(
    "two_high_tanks_are_told",
    implies((level(t) == Level.HIGH) & (level(other) == Level.HIGH), told(t) & told(other)),
    by=(TOLD.name,))
OPENED: Final = Always("an_open_tank_is_told", implies(opened(t), told(t)))
QUIET: Final = Always("no_tank_is_told", ~told(t), by=(TOLD.name,))


def system(*properties: Always) -> System:
    return System(
        "tanks", "Tanks, of which somebody is told when they are full.", tables=(ROWS,),
        properties=properties, configurations={"default": Configuration({Tank: 2})})


TANKS: Final = system(TOLD, PAIR, OPENED)
WRONG: Final = system(TOLD, QUIET)


def found(one: System, name: str = "") -> tuple[Obligation, ...]:
    return obligations(one, claims(one), wanted=(name,) if name else ())


@pytest.mark.parametrize("engine", BOTH)
def test_it_has_one_obligation_which_both_engines_prove(engine: str) -> None:
    (only,) = found(TANKS, PAIR.name)
    assert only.scope == ANY_STATE
    assert [claim.name for claim in only.sequent.assumed] == [TOLD.name]
    proof = prove(TANKS, [only], ProofSettings(engines=(engine,), timeout_s=LIMIT_S))
    assert proof.status(only) is Status.PROVED


@pytest.mark.parametrize("engine", BOTH)
def test_one_that_does_not_follow_fails(engine: str) -> None:
    """It holds at the start, but that is not every state."""
    (only,) = found(WRONG, QUIET.name)
    proof = prove(WRONG, [only], ProofSettings(engines=(engine,), timeout_s=LIMIT_S))
    assert proof.status(only) is Status.FAILED


@pytest.mark.parametrize("engine", BOTH)
def test_a_step_assumes_it(engine: str) -> None:
    """A row that opens a high tank keeps its claim by the consequence alone."""
    (at_open,) = (one for one in found(TANKS, OPENED.name) if one.scope == "open")
    for assumed, status in (((TOLD.name,), Status.PROVED), ((TOLD.name, PAIR.name), Status.FAILED)):
        left: tuple[Obligation, ...] = (at_open,)
        for name in assumed:
            left = without(left, name)
        proof = prove(TANKS, left, ProofSettings(engines=(engine,), timeout_s=LIMIT_S))
        assert proof.status(left[0]) is status


def test_the_failure_names_the_claims_from_which_it_does_not_follow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["prove", f"{__name__}:WRONG", "--quiet", "--no-cache"]) == 1
    out = capsys.readouterr().out
    assert "failed    no_tank_is_told: at any state" in out
    assert "no_tank_is_told at any state does not follow from a_high_tank_is_told" in out
    assert "if the state is unreachable, one of these claims is too weak" in out
    assert "is not inductive" not in out


def test_names_of_other_claims_are_refused() -> None:
    for by, told_ in (("a_high_tank_is_tol", "perhaps a_high_tank_is_told?"),
                      (PAIR.name, "without by="), ("nothing", "names 'nothing': want")):
        with pytest.raises(SpecError) as error:
            system(TOLD, PAIR, replace(QUIET, by=(by,)))
        assert told_ in str(error.value)
    with pytest.raises(SpecError, match="want names, as in by="):
        Always("no_tank_is_told", told(t), by=TOLD.name)  # type: ignore[arg-type]


def test_no_lemma_is_said_to_prove_a_claim_that_does_not_follow() -> None:
    assert not suggest(WRONG, ProofSettings(timeout_s=LIMIT_S)).proved
    assert suggest(TANKS, ProofSettings(timeout_s=LIMIT_S)).proved
