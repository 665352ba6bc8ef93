"""Updates of all cells that satisfy a condition, in each reader that treats them apart."""

from dataclasses import replace
from pathlib import Path

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.mutate.edits import EditKind, mutants
from pdproto.check.opinions.tla import tla
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.check.words import update_text
from pdproto.ground.grounding import Ground
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Call,
    Configuration,
    Int,
    Machine,
    Numbers,
    Row,
    Sometimes,
    Sort,
    SpecError,
    System,
    Table,
    each,
    implies,
)
from pdproto.spec.language.symbols import Update


class Worker(Sort):
    """A process that borrows pages."""


class Page(Sort):
    """One of many."""


w, v = Worker("w"), Worker("v")
g = Page("g")
pool = Machine("pool")
free = pool.relation("free", Page, init=True)
held = pool.relation("held", Worker, Page)

FREE_ITS_PAGES = each(g, free(g).to(True), where=held(w, g))
POOL = Table(pool, rows=(
    Row("lend", on=Call("lend", w, g), when=free(g), do=[free(g).to(False), held(w, g).to(True)]),
    Row("die", on=Call("die", w), do=[FREE_ITS_PAGES, held(w, ANY).to(False)]),
))
SYSTEM = System("pages", "Pages of workers that die.", (POOL,), (
    Always("one_holder", implies(held(w, g) & held(v, g), w.same(v))),
    Always("a_free_page_has_no_holder", implies(free(g), ~held(w, g))),
    Sometimes("a_page_is_held", held(w, g)),
))
SIZES = {Worker: 2, Page: 2}


def with_update(update: Update) -> System:
    """The pool where a death has this effect on the free pages."""
    rows = (POOL.rows[0], replace(POOL.rows[1], do=[update, held(w, ANY).to(False)]))
    return replace(SYSTEM, tables=(Table(pool, rows=rows),), like=SYSTEM)


NO_CONDITION = with_update(free(ANY).to(True))


def test_each_page_is_free_or_has_a_holder() -> None:
    """Three choices for each of two pages; each choice is reached by lending."""
    result = check(SYSTEM, Configuration(SIZES), CheckSettings(keep_going=True))
    assert (result.states, result.verdict) == (9, Verdict.HOLDS)


def test_without_the_condition_a_page_is_lent_twice() -> None:
    result = check(NO_CONDITION, Configuration(SIZES), CheckSettings(keep_going=True))
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
@pytest.mark.parametrize(("system", "status"), [
    (SYSTEM, Status.PROVED), (NO_CONDITION, Status.FAILED),
], ids=["where", "everywhere"])
def test_it_is_proved_for_every_size(system: System, status: Status, engine: str) -> None:
    found = obligations(system, claims(system))
    proof = prove(system, found, ProofSettings(engines=(engine,)))
    told = {o.name: proof.status(o) for o in found}
    assert told.pop("a_free_page_has_no_holder at die") is status
    assert set(told.values()) == {Status.PROVED}


def test_a_running_machine_looks_the_pages_up() -> None:
    """The pages have no bound, and the two effects are of one moment."""
    machine = Shared(POOL)
    for who, page in (("ann", 3), ("bob", 4), ("ann", 5)):
        machine.call("lend", who, page)
    step = machine.call("die", "ann")
    assert set(step.changed) == {
        (free, (3,), True), (free, (5,), True),
        (held, ("ann", 3), False), (held, ("ann", 5), False)}
    assert machine.stored(free) == {(4,): False}
    assert machine.call("die", "cid").changed == ()


def test_a_running_machine_refuses_cells_that_it_cannot_look_up() -> None:
    seize = Row("seize", on=Call("seize", w), do=[each(g, held(w, g).to(True), where=free(g))])
    with pytest.raises(SpecError, match=r"row 'seize': .* bound the sort, or let where= ask for "):
        Shared(Table(pool, rows=(seize,)))
    machine = Shared(Table(pool, rows=(seize,)), bounded={Page: (1, 2)})
    assert machine.call("seize", "ann").changed == (
        (held, ("ann", 1), True), (held, ("ann", 2), True))


def test_the_world_does_not_choose_cells_of_a_running_machine() -> None:
    world = Machine("world", world=True)
    flood = Row("flood", do=[each((w, g), held(w, g).to(False), where=free(g))])
    table = Table(world, rows=(flood,))
    with pytest.raises(LocalProtocolError, match=r"row 'flood': .* give each its value by `set`"):
        Shared(POOL).apply_fault(table, "flood")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "pool.jsonl"
    with path.open("wb") as file:
        machine = shared(POOL, (), trace=SharedTrace("pool", file))
        machine.call("lend", "ann", "p1")
        machine.call("lend", "bob", "p2")
        machine.call("die", "ann")
        machine.call("lend", "bob", "p1")
    return path


def test_its_trace_is_explained(trace: Path) -> None:
    assert verify(SYSTEM, [trace]).verdict is Verdict.HOLDS


def test_a_trace_of_a_machine_that_frees_too_much_is_not(trace: Path) -> None:
    text = trace.read_text()
    trace.write_text(text.replace('"die"', '"lend"').replace('call die', 'call lend'))
    assert verify(SYSTEM, [trace]).verdict is Verdict.VIOLATED


def test_the_text_is_that_of_the_effect() -> None:
    assert update_text(FREE_ITS_PAGES, {w: 1}) == "free(g) := true for each g where held(w1, g)"
    assert repr(FREE_ITS_PAGES) == "free(g) := True for each g where held(w, g)"


def test_an_effect_on_all_cells_is_one_with_any() -> None:
    assert each(g, held(w, g).to(False)) == held(w, ANY).to(False)
    assert each((w, g), held(w, g).to(False)) == held(ANY, ANY).to(False)


def test_two_conditions_are_joined() -> None:
    inner = each(g, held(w, g).to(False), where=free(g))
    outer = each(w, inner, where=w.differs(v))
    assert (outer.variables, repr(outer.where)) == ((w, g), "all_of(w.differs(v), free(g))")


def test_the_module_for_tlc_has_the_condition() -> None:
    text = tla(Ground(SYSTEM, SIZES), "Pages").text
    assert ("  /\\ free' = [p1 \\in Page |-> IF (\\E g \\in Page : held[w, g] /\\ p1 = g) "
            "THEN TRUE ELSE free[p1]]\n") in text


def test_a_mutant_forgets_or_turns_the_condition() -> None:
    told = [(one.change, one.words) for one in mutants([SYSTEM]) if one.row.name == "die"]
    text = "`free(g) := true for each g where held(w, g)`"
    assert [one for one in told if one[0] is EditKind.CELLS] == [
        (EditKind.CELLS, f"`free(g) := true for each g` for {text}"),
        (EditKind.CELLS, f"`free(g) := true for each g where not held(w, g)` for {text}"),
        (EditKind.CELLS, "`held(any, any) := false` for `held(w, any) := false`"),
    ]


def test_too_many_cases_are_refused() -> None:
    """The way round that the refusal names is taken: the page is a parameter of the row."""
    with pytest.raises(SpecError, match=r"row 'die': its updates have over 4,096 cases at these "
                                        r"sizes: make a variable of `each` of free a parameter"):
        _ = Ground(SYSTEM, {Worker: 1, Page: 13}).rows
    one = Row("give_back", on=Call("give_back", w), choose=g, when=held(w, g),
              do=[free(g).to(True), held(w, g).to(False)])
    table = Table(pool, rows=(POOL.rows[0], one))
    found = check(replace(SYSTEM, tables=(table,), like=SYSTEM),
                  Configuration({Worker: 1, Page: 13}), CheckSettings())
    assert (found.states, found.verdict) == (2 ** 13, Verdict.HOLDS)


class Many(Numbers, values=Int(0, 69)):
    """A number of beans."""


def test_too_many_computed_values_are_refused() -> None:
    """A row with two counters; and the way round, one of them as a parameter."""
    can = Machine("can")
    here, there = (can.function(name, Int(0, 69), init=ANY) for name in ("here", "there"))
    many = Many("many")

    def system(row: Row) -> System:
        return System("beans", "Beans go there.", (Table(can, rows=(row,)),), final=TRUE,
                      init=(here() + there() == 69) & (there() == 0))

    move = [here().to(here() - 1), there().to(there() + 1)]
    with pytest.raises(SpecError, match=r"row 'move': its updates have over 4,096 cases at these "
                                        r"sizes: there computes with too many values: give the"):
        _ = Ground(system(Row("move", when=here() > 0, do=move)), {}).rows
    found = check(system(Row("move", choose=many, when=(many == here()) & (here() > 0), do=[
        here().to(many - 1), there().to(there() + 1)])), Configuration({}), CheckSettings())
    assert (found.states, found.verdict) == (70, Verdict.HOLDS)


def test_a_condition_that_always_holds_needs_no_case() -> None:
    assert len(Ground(with_update(each(g, free(g).to(True), where=TRUE)), SIZES).rows) == 6
