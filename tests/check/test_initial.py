"""Functions that start in another value than the first of their enum."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.result import Verdict
from pdproto.runtime.store import Shared
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Machine,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
)


class Lamp(Sort):
    """One of many."""


class Light(State):
    OFF = auto()
    ON = auto()
    BROKEN = auto()


x = Lamp("x")
lamp = Machine("lamp", x)
light = lamp.function("light", Light, init=Light.ON)
LAMP = Table(lamp, state=light, rows=(
    Row("go_out", on=Call("go_out"), at=Light.ON, to=Light.BROKEN),
))
SYSTEM = System("lamps", "Lamps that break.", (LAMP,),
                (Always("never_off", light(x) != Light.OFF),))


def test_the_search_starts_there() -> None:
    """Each of two lamps is on or broken."""
    result = check(SYSTEM, Configuration({Lamp: 2}), CheckSettings(keep_going=True))
    assert result.states == 4
    assert [f.verdict for f in result.findings if f.name == "never_off"] == [Verdict.HOLDS]


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_the_proof_starts_there(engine: str) -> None:
    found = obligations(SYSTEM, claims(SYSTEM))
    proof = prove(SYSTEM, found, ProofSettings(engines=(engine,)))
    assert {proof.status(obligation) for obligation in found} == {Status.PROVED}


def test_a_running_machine_starts_there() -> None:
    shared = Shared(LAMP, own=("hall",))
    assert shared.value(light, "hall") is Light.ON
    assert shared.call("go_out").changed == ((light, ("hall",), Light.BROKEN),)
