"""Mistakes of the first day: each is told with the user's own line, and with what to write."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pdproto.spec.language import (
    ANY,
    FALSE,
    TRUE,
    Always,
    Call,
    Ignore,
    Reject,
    Row,
    SpecError,
    System,
    Table,
    all_of,
    any_of,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.formula import Formula
from tests.language.tiny import Parts, Phase, i, j, t, u, v, w

Build = Callable[[Any], object]
MISTAKES: list[tuple[Build, str]] = []


def mistake(problem: str) -> Callable[[Build], Build]:
    """Register a spec whose mistake is told in these words, at the line marked with `#!`."""

    def registered(build: Build) -> Build:
        MISTAKES.append((build, problem))
        return build

    return registered


def wrong(value: Any) -> Any:
    """A value where a type checker would not let it stand."""
    return value


@mistake("row 'work' of worker: at='idle' is no value of phase(Worker): write at=Phase.IDLE")
def state_in_quotes(a: Any) -> object:
    return a.system(worker=(Row("work", at=wrong("idle")),))  #!


@mistake("row 'work' of worker: to='BUSY' is no value of phase(Worker): write to=Phase.BUSY")
def next_state_in_quotes(a: Any) -> object:
    return a.system(worker=(Row("work", to=wrong("BUSY")),))  #!


@mistake("row 'ignore_stop' of worker: at='idle' is no value of phase(Worker): "
         "write at=Phase.IDLE")
def ignored_in_quotes(a: Any) -> object:
    return a.system(worker=(Ignore(a.stop(), at=wrong("idle"), why="so"),))  #!


@mistake("row 'work' of worker: at=[Phase.IDLE] is a list: write at=(Phase.IDLE,)")
def states_in_a_list(a: Any) -> object:
    return a.system(worker=(Row("work", at=wrong([Phase.IDLE])),))  #!


@mistake("row 'work' of worker: at=[Phase.IDLE, Phase.BUSY] is a list: "
         "write at=(Phase.IDLE, Phase.BUSY)")
def several_states_in_a_list(a: Any) -> object:
    return a.system(worker=(Row("work", at=wrong([Phase.IDLE, Phase.BUSY])),))  #!


@mistake("rows= is one Row: write rows=(Row('work', ...),), "
         "with a comma before the last parenthesis")
def comma_is_missing(a: Any) -> object:
    return Table(a.worker, state=a.phase, rows=wrong(Row("work")))  #!


@mistake("tables= is one Table: write tables=(..., ), with a comma")
def comma_after_the_table_is_missing(a: Any) -> object:
    table = Table(a.worker, state=a.phase, rows=(Row("work"),))
    return System("one", "One.", tables=wrong(table))  #!


@mistake("properties= is one Always: write properties=(..., ), with a comma")
def comma_after_the_property_is_missing(a: Any) -> object:
    tables = (Table(a.worker, state=a.phase, rows=(Row("work"),)),)
    return System("one", "One.", tables=tables, properties=wrong(Always("calm", TRUE)))  #!


@mistake("~phase(w): a function has a value: compare it, as in phase(w) == Phase.IDLE")
def negated_function(a: Any) -> object:
    return Row("work", when=~a.phase(w))  #!


@mistake("phase(w) & ...: a function has a value: compare it, as in phase(w) == Phase.IDLE")
def joined_function(a: Any) -> object:
    return Row("work", when=a.phase(w) & a.has(w, i))  #!


@mistake("~has: it lacks its arguments, variables of Worker, Item")
def negated_symbol(a: Any) -> object:
    return Row("work", when=~a.has)  #!


@mistake("~mood: it lacks its parentheses: mood()")
def negated_symbol_without_arguments(a: Any) -> object:
    return Row("work", when=~a.mood)  #!


@mistake("~w: a variable is no formula: use a symbol, such as heard(w)")
def negated_variable(a: Any) -> object:
    return Row("work", when=wrong(~w), do=a.has(w, i).to(True))  #!


@pytest.mark.parametrize(
    ("build", "problem"), MISTAKES, ids=[build.__name__ for build, _ in MISTAKES]
)
def test_an_error_names_its_line_and_its_remedy(build: Build, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        build(Parts())
    error = caught.value
    assert error.place.path.endswith("tests/language/test_mistakes.py")
    assert error.problem == problem
    lines, start = inspect.getsourcelines(build)
    assert lines[error.place.line - start].rstrip().endswith("#!")


def test_a_second_ignore_needs_a_name() -> None:
    parts = Parts()
    rows = [Ignore(parts.stop(), at=Phase.IDLE, why=why) for why in ("one", "other")]
    with pytest.raises(SpecError, match=r"first at .*; give one of them a name="):
        parts.system(worker=rows)


def test_ignore_and_reject_take_a_name() -> None:
    parts = Parts()
    system = parts.system(worker=(
        Ignore(parts.stop(), at=Phase.IDLE, why="one"),
        Ignore(parts.stop(), at=Phase.IDLE, why="other", name="ignore_once_more"),
        Reject(parts.stop(), at=Phase.DONE, why="never", name="reject_late_stop"),
    ))
    names = [row.name for _, row in system.rows()]
    assert names == ["ignore_stop_idle", "ignore_once_more", "reject_late_stop"]


def test_one_of_a_kind_needs_no_list() -> None:
    """`do=`, `send=` and `choose=` take one thing without brackets, as `when=` does."""
    parts = Parts()
    bare = Row("work", on=Call("work"), choose=wrong(i), when=~parts.has(w, i),
               do=wrong(parts.has(w, i).to(True)), send=wrong(parts.report(w, i)))
    assert (bare.choose, bare.do, bare.send) == (
        (i,), (parts.has(w, i).to(True),), (parts.report(w, i),))
    assert parts.system(worker=(bare,)).row("work") is not None


def test_an_order_keeps_two_cells_apart() -> None:
    """`t.before(u)` says that they are two elements."""
    parts = Parts()
    at = parts.worker.relation("at", type(t))
    moves = [at(w, t).to(False), at(w, u).to(True)]
    apart = Row("move", on=Call("move", t, u), when=t.before(u), do=moves)
    assert parts.system(worker=(apart,)).row("move") is not None
    with pytest.raises(SpecError, match=r"write t\.differs\(u\), t\.before\(u\) in `when`"):
        parts.system(worker=(Row("move", on=Call("move", t, u), do=moves),))


def test_a_formula_is_shown_as_it_is_written() -> None:
    """So that it can be pasted; and none of the classes of the language shows."""
    a = Parts()
    names = {**globals(), **vars(a)}
    formulas: list[Formula] = [
        TRUE, FALSE, w.same(v), w.differs(v), t.before(u), ~t.before(u), a.has(w, i),
        ~a.has(w, i), a.phase(w) == Phase.IDLE, a.phase(w) != Phase.BUSY,
        a.phase(w).among(Phase.IDLE, Phase.DONE), implies(a.has(w, i), a.knows(w)),
        forall((w, i), exists(j, all_of(a.has(w, i), any_of(~a.has(w, j), i.same(j))))),
        all_of(a.stop(), a.near(w, v)), ~all_of(a.stop(), a.has(w, i)),
    ]
    for formula in formulas:
        assert eval(repr(formula), names) == formula  # noqa: S307 - our own text
    assert repr(ANY) == "ANY"
