"""Two updates of one cell in a row, where the later one counts, in each reader of the tables."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE, EngineChoice
from pdproto.check.interpret import Interpreter
from pdproto.check.opinions.tla import tla
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.questions import BUSY
from pdproto.check.result import Verdict
from pdproto.check.trace.table import LocalTable
from pdproto.check.trace.verify import verify
from pdproto.ground.grounding import Ground
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Call,
    Completion,
    Configuration,
    Formula,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    each,
    exists,
    forall,
    implies,
)
from tests.collection.model import reached


class Worker(Sort):
    """A process that holds one page at a time."""


class Page(Sort):
    """One of many."""


class Light(State):
    OFF = auto()
    ON = auto()
    BROKEN = auto()


w, v = Worker("w"), Worker("v")
g, f = Page("g"), Page("f")
pool = Machine("pool")
held = pool.relation("held", Worker, Page)
light = pool.function("light", Light, Page, edges={Light.OFF: (Light.ON,),
                                                   Light.ON: (Light.BROKEN,)})
over, full = pool.relation("over"), pool.relation("full", Page)
picked = Message("picked", g, sender=pool, receiver=pool)
told = Message("told", sender=pool, receiver=pool)

TAKE = Row("take", on=Call("take", w, g), do=[held(w, ANY).to(False), held(w, g).to(True)])
ONE_PAGE = Always("one_page", implies(held(w, g) & held(w, f), g.same(f)))
SIZES = {Worker: 2, Page: 2}


def pool_of(*rows: Row) -> System:
    return System("pages", "A page for each worker.", (Table(pool, rows=rows),), (ONE_PAGE,))


SYSTEM = pool_of(TAKE)
WITHOUT_CLEAR = pool_of(replace(TAKE, do=[held(w, g).to(True)]))


def test_a_worker_has_one_page() -> None:
    """None or one of two pages, for each of two workers."""
    result = check(SYSTEM, Configuration(SIZES), CheckSettings(keep_going=True))
    assert (result.states, result.verdict) == (9, Verdict.HOLDS)
    assert len(Interpreter(SYSTEM, SIZES).explore().depth) == 9


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
@pytest.mark.parametrize(("system", "status"), [
    (SYSTEM, Status.PROVED), (WITHOUT_CLEAR, Status.FAILED),
], ids=["cleared", "not cleared"])
def test_it_is_proved_for_every_size(system: System, status: Status, engine: str) -> None:
    assert proved(system, engine)["one_page at take"] == {status}


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_the_value_that_counts_is_the_later_one(engine: str) -> None:
    """One page is picked, and all others are filled."""
    row = Row("pick", on=Call("pick", g), when=~over(), send=[picked(g)],
              do=[over().to(True), full(ANY).to(True), full(g).to(False)])
    system = replace(pool_of(row), properties=(
        Always("once", implies(picked(g), over())),
        Always("picked_is_empty", implies(picked(g), ~full(g)))))
    assert proved(system, engine)["picked_is_empty at pick"] == {Status.PROVED}
    assert check(system, Configuration(SIZES), CheckSettings(keep_going=True)).states == 3


def proved(system: System, engine: str) -> dict[str, set[Status]]:
    """By claim and row; a row has an obligation for each update of a variable with edges."""
    found = obligations(system, claims(system))
    proof = prove(system, found, ProofSettings(engines=(engine,)))
    told: dict[str, set[Status]] = {}
    for one in found:
        told.setdefault(one.name, set()).add(proof.status(one))
    return told


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_a_row_that_changes_nothing_for_ever_is_seen(engine: str) -> None:
    """Where the worker has this page alone, the row sends again and again."""
    system = pool_of(replace(TAKE, on=None, choose=(w, g), send=[told()]))
    result = check(system, Configuration(SIZES), CheckSettings(keep_going=True))
    assert result.verdict is Verdict.VIOLATED
    assert "give it on=Timer(...)" in next(
        one.note for one in result.findings if one.name == BUSY)
    assert proved(system, engine)[f"{BUSY} at take"] == {Status.FAILED}


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
@pytest.mark.parametrize(("when", "verdict"), [
    (forall(f, f.same(g) | (light(f) != Light.OFF)), Verdict.HOLDS), (TRUE, Verdict.VIOLATED),
], ids=["others are on", "others are off"])
def test_an_edge_is_needed_for_the_value_that_counts(
    when: Formula, verdict: Verdict, engine: str
) -> None:
    """All lights break but this one, which goes on. OFF to BROKEN is no edge."""
    row = Row("last", on=Call("last", g), when=[light(g) == Light.OFF, when],
              do=[light(ANY).to(Light.BROKEN), light(g).to(Light.ON)])
    light_up = Row("light", on=Call("light", g), when=light(g) == Light.OFF,
                   do=[light(g).to(Light.ON)])
    system = pool_of(light_up, row)
    result = check(system, Configuration(SIZES), CheckSettings(keep_going=True))
    assert {one.name: one.verdict for one in result.findings}["light_edges"] is verdict
    assert (proved(system, engine)["light_edges at last"] == {Status.PROVED}) == (
        verdict is Verdict.HOLDS)


def test_a_running_machine_changes_each_cell_once() -> None:
    machine = Shared(SYSTEM.tables[0])
    assert machine.call("take", "ann", 1).changed == ((held, ("ann", 1), True),)
    assert machine.call("take", "ann", 2).changed == (
        (held, ("ann", 1), False), (held, ("ann", 2), True))
    assert machine.call("take", "ann", 2).changed == ()
    assert machine.stored(held) == {("ann", 2): True}


@pytest.mark.parametrize(("page", "verdict"), [("p1", Verdict.HOLDS), ("p2", Verdict.VIOLATED)])
def test_its_trace_is_explained(page: str, verdict: Verdict, tmp_path: Path) -> None:
    """Ann has given p1 back by taking p2."""
    give = Row("give", on=Call("give", w, g), when=[held(w, g), ~held(w, f)], choose=(f,),
               do=[held(w, g).to(False)])
    path = tmp_path / "pool.jsonl"
    with path.open("wb") as file:
        machine = shared(Table(pool, rows=(TAKE, give)), (), trace=SharedTrace("pool", file))
        machine.call("take", "ann", "p1")
        machine.call("take", "ann", "p2")
        machine.call("give", "ann", "p2", choose={"f": "p1"})
    text = path.read_text().replace('"f":"p1"', f'"f":"{page}"')
    path.write_text(text)
    assert verify(pool_of(TAKE, give), [path]).verdict is verdict


def test_the_module_for_tlc_tests_the_later_update_first() -> None:
    text = tla(Ground(SYSTEM, SIZES), "Pages").text
    assert ("held' = [w1 \\in Worker, p2 \\in Page |-> IF w1 = w /\\ p2 = g THEN TRUE "
            "ELSE IF w1 = w THEN FALSE ELSE held[w1, p2]]\n") in text


def test_a_device_writes_the_value_that_counts() -> None:
    """A line of an end gives each cell once; of the updates for one cell, the last."""
    end = Machine("end", w)
    engine = Machine("engine", world=False)
    mark = end.relation("mark", Page)
    mark.shared_with(engine, writes=(True, False))
    row = Row("land", on=Completion("land", w, g), do=[mark(w, ANY).to(False), mark(w, g).to(True)])
    read = Row("read", on=Call("read", g), when=mark(w, g))
    system = System("ends", "Ends and their device.",
                    (Table(end, rows=(read,)), Table(engine, rows=(row,))), ())
    local = LocalTable(system, system.tables[0], {Worker: 1, Page: 2})
    assert len(local.device((("mark", (0, 0), "false"), ("mark", (0, 1), "true")))) == 1
    assert local.device((("mark", (0, 0), "false"), ("mark", (0, 1), "false"))) == ()


def test_an_update_of_all_cells_may_come_before_one_with_a_condition() -> None:
    """Three updates, each for fewer cells: one page is kept, and the others of its holder go."""
    row = Row("keep", on=Call("keep", w, g), when=held(w, g), do=[
        each(f, held(w, f).to(False), where=f.differs(g)), held(w, g).to(True)])
    everyone = Row("everyone", on=Call("everyone", w, g), do=[
        held(ANY, ANY).to(True), held(w, ANY).to(False), held(w, g).to(True)])
    system = replace(pool_of(row, everyone), properties=())
    found = Interpreter(system, SIZES).explore()
    result = check(system, Configuration(SIZES), CheckSettings(keep_going=True))
    assert result.states == len(found.depth)


left, right = pool.function("left", Light, Page), pool.function("right", Light, Page)
COPIES = {
    "a constant after a copy": [each(f, left(f).to(right(f))), left(g).to(Light.ON)],
    "a copy after a constant": [left(ANY).to(Light.ON), left(g).to(right(g))],
    "itself after a constant": [left(ANY).to(Light.ON), left(g).to(left(g))],
}


def _copied(which: str, old: tuple[int, ...], other: tuple[int, ...], page: int) -> list[int]:
    """The values of `left` after the row on this page."""
    after = [*other] if which == "a constant after a copy" else [1, 1]
    after[page] = {"a constant after a copy": 1, "a copy after a constant": other[page],
                   "itself after a constant": old[page]}[which]
    return after


@pytest.mark.parametrize("engine", [NATIVE, PORTABLE])
@pytest.mark.parametrize("which", COPIES)
def test_of_a_copy_and_another_update_the_later_one_counts(
        which: str, engine: EngineChoice) -> None:
    system = pool_of(
        Row("copy", on=Call("copy", g), do=COPIES[which]),
        *(Row(f"turn_{one}", on=Call("turn", g), do=right(g).to(one)) for one in Light))

    def after(state: tuple[tuple[int, ...], tuple[int, ...]]) -> Iterator[tuple[Any, Any]]:
        for page in (0, 1):
            yield (*_copied(which, *state, page),), state[1]
            for light in range(3):
                yield state[0], tuple(light if i == page else one for i, one in enumerate(state[1]))

    result = check(replace(system, properties=(), like=system),
                   Configuration({Worker: 1, Page: 2}), CheckSettings(engine=engine))
    assert result.states == reached([((0, 0), (0, 0))], after)


def split(one: Formula, two: Formula) -> Row:
    """The lights of some pages go on, and those of others off."""
    return Row("set", on=Call("set", w), do=[
        each(f, full(f).to(True), where=one), each(g, full(g).to(False), where=two)])


def test_two_conditions_exclude_each_other() -> None:
    """The row does what one computed value does, in each reader."""
    row = split(held(w, f), ~held(w, g))
    computed = replace(row, do=[each(f, full(f).to(held(w, f)))])
    claim = Always("filled", forall(f, implies(full(f), exists(v, held(v, f)))))
    told = []
    for one in (row, computed):
        system = replace(pool_of(TAKE, one), properties=(ONE_PAGE, claim))
        result = [check(system, Configuration(SIZES), CheckSettings(keep_going=True, engine=engine))
                  for engine in (NATIVE, PORTABLE)]
        told.append((*(found.states for found in result),
                     len(Interpreter(system, SIZES).explore().depth),
                     *(proved(system, engine)["filled at set"] for engine in (
                         CUTOFF, QUANTIFIED))))
        machine = Shared(Table(pool, rows=(TAKE, one)), bounded={Page: range(3)})
        machine.call("take", "ann", 1)
        assert machine.call("set", "ann").changed == ((full, (1,), True),)
    assert told[0] == told[1]
    assert told[0][0] == told[0][1] == told[0][2]


@pytest.mark.parametrize(("one", "two", "apart"), [
    (light(f) == Light.ON, light(g) == Light.OFF, True),
    (light(f).among(Light.ON, Light.OFF), light(g).among(Light.OFF, Light.BROKEN), False),
    (held(w, f) & ~over(), over(), True),
    (exists(g, held(w, g)) & held(w, f), ~exists(f, held(w, f)), False),  # other names: too careful
    (forall(v, ~held(v, f)), held(w, g), False),
    (held(w, f), ~full(g), False),
], ids=["values", "a value in common", "another cell", "an exists", "a forall", "unlike"])
def test_conditions_that_may_hold_together_are_refused(
    one: Formula, two: Formula, apart: bool
) -> None:
    if apart:
        pool_of(split(one, two))
        return
    with pytest.raises(SpecError, match="give them conditions that exclude each other, as where="):
        pool_of(split(one, two))
