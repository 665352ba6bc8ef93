"""Functions that start in another value than the first of their enum, and relations that hold."""

from dataclasses import replace

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.result import Verdict
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.store import Shared
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Machine,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    auto,
    exists,
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


class Page(Sort):
    """One of many, of no known number."""


g = Page("g")
pool = Machine("pool")
free = pool.relation("free", Page, init=True)
POOL = Table(pool, rows=(
    Row("lend", on=Call("lend", g), when=free(g), do=[free(g).to(False)]),
    Row("fill", on=Call("fill"), choose=(g,), when=~free(g), do=[free(g).to(True)]),
))
PAGES = System("pages", "Pages that are free at the start.", (POOL,), (
    Always("some_page_is_free", exists(g, free(g))), Sometimes("a_page_is_lent", ~free(g)),
))


def test_the_search_starts_where_a_relation_holds() -> None:
    """Each of two pages is free or lent; all are free at the start."""
    result = check(PAGES, Configuration({Page: 2}), CheckSettings(keep_going=True))
    assert result.states == 4
    (finding,) = [f for f in result.findings if f.name == "some_page_is_free"]
    assert finding.trace is not None
    assert [step.row for step in finding.trace.steps] == ["lend", "lend"]


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_the_proof_starts_where_a_relation_holds(engine: str) -> None:
    """That a page is never lent holds at the start, and the row that lends breaks it."""
    claim = replace(PAGES, properties=(Always("never_lent", free(g)),), like=PAGES)
    found = obligations(claim, claims(claim))
    proof = prove(claim, found, ProofSettings(engines=(engine,)))
    assert {o.name: proof.status(o) for o in found} == {
        "never_lent at the start": Status.PROVED, "never_lent at lend": Status.FAILED,
        "never_lent at fill": Status.PROVED}


def test_a_running_machine_starts_where_a_relation_holds() -> None:
    """Only lent pages are stored, and only they are found."""
    shared = Shared(POOL, scans=True)
    assert shared.value(free, 7) is True
    assert shared.call("lend", 7).changed == ((free, (7,), False),)
    assert shared.stored(free) == {(7,): False}
    with pytest.raises(LocalProtocolError, match="does not hold yet"):
        shared.forget(Page, 7)
    assert shared.call("fill").changed == ((free, (7,), True),)
    assert len(shared) == 0


def test_a_page_that_no_row_frees_again_may_be_forgotten() -> None:
    shared = Shared(Table(pool, rows=POOL.rows[:1]))
    shared.call("lend", 7)
    shared.forget(Page, 7)
    assert len(shared) == 0


def test_one_of_all_free_pages_is_not_looked_up() -> None:
    """Cells that are stored are not free, so they give no candidate."""
    take = Row("take", on=Call("take"), choose=(g,), when=free(g), do=[free(g).to(False)])
    with pytest.raises(LocalProtocolError, match="needs the parameter g"):
        Shared(Table(pool, rows=(take,)), scans=True).call("take")
