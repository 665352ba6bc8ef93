"""Numbers: ranges, arithmetic, counts, computed values; in the engines, a proof and TLC's counts.

TLC's counts are of the module that `pdproto export --tla` writes; `python -m tests.check.numbers`
asks TLC for them again.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.interpret import Interpreter
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import Verdict
from pdproto.check.words import formula_text, update_text
from pdproto.ground.decisions import DecisionDiagram
from pdproto.ground.diagram_of import diagram_of
from pdproto.ground.diagrams import Diagrams
from pdproto.ground.grounding import Grounder
from pdproto.ground.layout import Layout
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Formula,
    Ignore,
    Int,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    count,
    each,
    exists,
    if_then_else,
    implies,
    max_of,
    min_of,
    size,
    sum_of,
)
from pdproto.spec.language.formula import free_variables, negated, normal
from pdproto.spec.language.place import Place
from tests.check import numbers
from tests.oracle.interpreter import Interpreter as Oracle


class Item(Sort):
    """Something that is counted."""


i, j, k = Item("i"), Item("j"), Item("k")
box = Machine("box")
level = box.function("level", Int(-1, 2), Item)
full = box.function("full", Int(0, 3), init=2)
taken = box.relation("taken", Item)
SIZES: dict[type[Sort], int] = {Item: 2}
HERE = Place("here", 1)

FORMULAS: Mapping[str, Formula] = {
    "a sum of two": level(i) + level(j) == full(),
    "a product": level(i) * full() > 1,
    "a quotient": (level(i) - 3) // 2 <= -full(),
    "a remainder": level(i) % 3 == full() % 2,
    "a count": count(k, taken(k)) >= full(),
    "most": count(k, taken(k)) * 2 > size(Item),
    "pairs": count((j, k), taken(j) & (level(k) > 0)) != 2,
    "a sum": sum_of(k, level(k), where=taken(k)) == full() - 1,
    "a sum of products": sum_of(k, level(k) * full()) < 3,
    "the least": min_of(k, level(k)) == level(i),
    "the greatest": max_of(k, level(k), where=taken(k), otherwise=1) > full(),
    "between": min_of(k, level(k)) + max_of(k, level(k)) == 0,
    "a choice": if_then_else(taken(i), level(i), full() + 1) >= 2,
    "one of": (full() - level(i)).among(0, 3),
    "counts inside": count(k, count(j, level(j) >= level(k)) == 1) == 1,
}


def states() -> Any:
    cells = [(level, (0,)), (level, (1,)), (full, ()), (taken, (0,)), (taken, (1,))]
    for values in product(*(symbol.values for symbol, _ in cells)):
        yield dict(zip(cells, values, strict=True))


def decided(
    grounder: Grounder, formula: Formula, env: Mapping[Any, int]
) -> Callable[[int], bool]:
    """Whether the diagram of the formula holds in a state."""
    diagrams = Diagrams()
    decision = diagrams.decision(diagram_of(grounder, diagrams, formula, env))
    return decision.holds if isinstance(decision, DecisionDiagram) else lambda _: decision


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_a_comparison_is_what_arithmetic_says(formula: Formula) -> None:
    """The interpreter, the masks and the diagrams, against arithmetic on numbers."""
    system = System("box", "A box.", (Table(box, rows=(Row("go", on=Call("go")),)),))
    book, oracle = Interpreter(system, SIZES), Oracle(system, SIZES, (), {})
    grounder = Grounder(Layout((level, full, taken), SIZES), {}, HERE)
    variables = free_variables(formula)
    for choice in product(range(2), repeat=len(variables)):
        env = dict(zip(variables, choice, strict=True))
        for positive, wanted in ((normal(formula), True), (negated(formula), False)):
            guard, decision = grounder.guard(positive, env), decided(grounder, positive, env)
            for state in states():
                packed = grounder.layout.encode(state)
                truth = oracle.holds(formula, dict(state), env)
                assert book.holds(formula, state, env) == truth
                assert bool(guard and guard.holds(packed)) == (truth == wanted)
                assert decision(packed) == (truth == wanted)


class Shelf(Sort):
    """Where items are."""


def test_two_numbers_with_one_text_are_two_numbers() -> None:
    """Variables of two sorts have the same names."""
    x, y, u, v = Item("x"), Item("y"), Shelf("x"), Shelf("y")
    one = if_then_else(exists((x, y), x.differs(y)), 1, 0)
    two = if_then_else(exists((u, v), u.differs(v)), 1, 0)
    assert repr(one) == repr(two)
    (update, other) = (full().to(term) for term in (one + two, one + one))
    assert update != other
    assert update == full().to(one + two)
    system = System("shelves", "Items.", (Table(box, rows=(Row("fill", do=update),)),), (
        Always("never_one", full() != 1),), configurations={})
    told = check(system, Configuration({Item: 2, Shelf: 1}), CheckSettings(
        properties=("never_one",)))
    assert {one.name for one in told.findings if one.verdict is Verdict.VIOLATED} == {"never_one"}


def test_texts_are_as_they_are_written() -> None:
    assert formula_text(FORMULAS["most"]) == "count(k: taken(k)) * 2 > size(Item)"
    assert formula_text(~FORMULAS["a sum"], {}) == (
        "sum(k: level(k) where taken(k)) != full - 1")
    assert update_text(full().to(full() + 1)) == "full := full + 1"
    chosen = full().to(if_then_else(taken(i), level(i), 0))
    assert update_text(chosen, {i: 1}) == "full := (if taken(i1) then level(i1) else 0)"
    assert repr(FORMULAS["between"]) == "(min_of(k, level(k)) + max_of(k, level(k)) == 0)"


def bounded(saturates: bool, step: int) -> System:
    cup = Machine("cup")
    drops = cup.function("drops", Int(0, 2, saturates=saturates))
    return System("cup", "A cup.", (Table(cup, rows=(
        Row("drop", on=Call("drop"), do=drops().to(drops() + step)),)),),
        (Always("few", drops() <= 2),), configurations={"default": Configuration({})})


def test_an_overflow_is_an_error_with_its_row() -> None:
    system = bounded(saturates=False, step=1)
    found = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    (wrong,) = [one for one in found.findings if one.name == "drop_stays_in_range"]
    assert wrong.verdict == "violated"
    assert wrong.place == system.row("drop")[1].place  # type: ignore[index]  # it has this row
    assert (found.states, wrong.trace_length) == (3, 2)


def test_a_range_that_saturates_has_no_overflow() -> None:
    system = bounded(saturates=True, step=3)
    found = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    assert (found.states, found.transitions) == (2, 2)
    assert [one.name for one in found.findings if "range" in one.name] == []


@pytest.mark.parametrize("name", numbers.MODELS)
def test_the_counts_are_those_of_tlc(name: str) -> None:
    model = numbers.MODELS[name]
    found = check(model.system, model.configuration, CheckSettings(keep_going=True))
    assert (found.states, found.transitions) == (model.states, model.transitions)
    assert {one.name for one in found.findings if one.verdict == "violated"} == model.violated


def test_a_proof_knows_the_count_by_which_a_message_is_sent() -> None:
    sender = Machine("sender", i)
    note = Message("note", i, j, sender=sender, receiver=sender.at(j))
    system = System("notes", "To all, if there are others.", (Table(sender, rows=(
        Row("tell", on=Call("tell"), send=[
            each(j, note(i, j), where=count(k, k.differs(j)) >= 1)]),
        Ignore(note(j, i), why="it is said"))),),
        (Always("others", implies(note(i, j), exists(k, k.differs(j)))),))
    subject = ProofSubject(system, (), {}).without_counts()
    told = prove(subject.system, subject.obligations(), ProofSettings(timeout_s=10.0))
    assert {one.judgement.status for one in told.outcomes} == {Status.PROVED}


def test_a_map_is_copied_by_a_formula() -> None:
    store = Machine("store")
    now, draft = store.function("now", Int(0, 2), Item), store.function("draft", Int(0, 2), Item)
    system = System("copies", "Copies.", (Table(store, rows=(
        Row("write", on=Call("write", k), when=draft(k) < 2, do=draft(k).to(draft(k) + 1)),
        Row("copy", on=Call("copy"), do=each(k, now(k).to(
            if_then_else(draft(k) > 1, draft(k), now(k))))),
    )),), (Always("behind", now(k) <= draft(k)),
           Always("copied", implies(now(k) > 0, now(k) == 2))))
    found = check(system, Configuration(SIZES), CheckSettings(keep_going=True))
    # A draft has 0, 1 or 2; the copy of a 2 is a 0 or a 2: 4 ways for each item.
    assert found.states == 16
    assert {one.verdict for one in found.findings if one.kind == "always"} == {"holds"}


MISTAKES: Mapping[str, tuple[Callable[[], object], str]] = {
    "a divisor that can be 0": (lambda: level(i) // full(), "full() can be 0"),
    "division by zero": (lambda: level(i) % 0,
                         "level(i) % 0: division by zero: write another divisor"),
    "out of range": (lambda: full().to(4), "full has the range Int(0, 3)"),
    "a truth value": (lambda: full() == True, "want a number"),  # noqa: E712 - the mistake
    "a fraction": (lambda: full() / 2 > 1, "numbers are whole: write //"),
    "two counts": (lambda: count(i, taken(i)) * count(j, taken(j)) > 1, "compare multiples"),
    "a number as a formula": (lambda: count(i, level(i)), "where= is level(i): want a formula"),  # type: ignore[arg-type]  # the mistake
    "no range": (lambda: Int(3, 1), "Int(3, 1): the least value comes first"),
    "too wide": (lambda: Int(0, 5000), "at most 1,024 fit"),
    "none of them": (lambda: min_of(i, level(i), where=taken(i)), "wants otherwise="),
    "no sort": (lambda: size(i), "want a sort, as in size(Node)"),  # type: ignore[arg-type]  # the mistake
    "edges": (lambda: box.function("x", Int(0, 1), edges={}), "edges= is for the values"),  # type: ignore[call-overload]  # the mistake
    "a wrong start": (lambda: box.function("x", Int(0, 1), init=2), "want a number of Int(0, 1)"),
    "too many choices": (lambda: sum((level(Item(f"x{n}")) for n in range(8)), start=full()) > 1,
                         "choices of values: at most 16,384 fit"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake: str) -> None:
    make, told = MISTAKES[mistake]
    with pytest.raises(SpecError) as refused:
        make()
    assert told in refused.value.problem
    assert "\n" not in str(refused.value)
    assert refused.value.place.path.endswith("test_numbers.py")


def test_an_axiom_counts_nothing() -> None:
    told = r"axiom few counts, \(size\(Item\) <= 3\): say what follows, by exists"
    with pytest.raises(SpecError, match=told):
        System("few", "Few.", (Table(box, rows=(Row("go", on=Call("go")),)),),
               axioms={"few": count(i) <= 3})
