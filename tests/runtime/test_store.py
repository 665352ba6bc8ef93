"""Shared machines do what their tables say: held to the interpreter, on every row."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.check.interpret import Cell, Interpreter
from pdproto.runtime.errors import ProtocolError
from pdproto.runtime.store import Shared, SharedStep
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion, Row
from pdproto.spec.language.symbols import Message, Sent, Symbol
from tests.runtime.shared_machines import (
    CASES,
    Case,
    Environment,
    chance,
    force,
    kept,
    put,
    take,
    untriggered,
)

State = dict[Cell, Value]


def assert_same(case: Case, machine: Shared, state: State, told: object) -> None:
    """Every cell that the machine keeps has the interpreter's value."""
    for symbol, arguments in kept(case, machine):
        wanted = state.get((symbol, arguments), symbol.values[0])
        assert machine.value(symbol, *arguments) == wanted, (told, symbol, arguments)


def assert_same_rows(case: Case, machine: Shared, by_book: Interpreter, state: State) -> None:
    """The same rows are enabled, their triggers taken for granted."""
    for row in case.table.rows:
        guard = untriggered(case.table, row)
        for environment in case.environments(row):
            wanted = by_book.holds(guard, state, environment)
            parameters = {
                v.name: environment[v]
                for v in case.table.parameters(row) if v not in case.fixed
            }
            assert machine.enabled(row.name, **parameters) == wanted, (row.name, environment)


def same_trigger(one: Row, two: Row) -> bool:
    match one.on, two.on:
        case (Sent(), Sent()):
            return one.on.symbol is two.on.symbol
        case (Call() | Completion(), Call() | Completion()):
            return one.on.name == two.on.name
        case _:
            return one is two


def assert_took_a_row(
    case: Case, machine: Shared, by_book: Interpreter, state: State, step: SharedStep
) -> State:
    """The step is one of those that the interpreter makes of the row, and the state is its after.
    """
    row = next(row for row in case.table.rows if row.name == step.row)
    assert step.kind == row.kind
    for environment in case.environments(row):
        if not by_book.holds(untriggered(case.table, row), state, environment):
            continue
        store = by_book.after(case.table, row, state, environment)
        assert store is not None, "no machine here has a channel"
        after = dict(store)
        sent = {c for c in after if isinstance(c[0], Message) and after[c] is not state.get(c)}
        fits = all(
            machine.value(symbol, *arguments) == after.get((symbol, arguments), symbol.values[0])
            for symbol, arguments in kept(case, machine)
        )
        if fits and sent <= set(step.sent):
            return after
    raise AssertionError(f"no step of the interpreter is {step}")


@pytest.mark.parametrize("name", CASES)
def test_every_row_is_taken_as_it_is_written(name: str) -> None:
    """From some state in which it is enabled, with the same effect as the interpreter's."""
    case, random_ = CASES[name], chance(name)
    symbols = list(case.machine(case.interpreter(random_).given)._cells)
    for row in case.table.rows:
        tries = 100 if row.name in case.never else 5_000
        fired = any(_took(case, row, symbols, random_) for _ in range(tries))
        assert fired == (row.name not in case.never), f"{row.name} in {tries:,} random states"


def _took(case: Case, row: Row, symbols: list[Symbol], random_: random.Random) -> bool:
    """Whether the row was the one that fired, in a state that is made for it."""
    by_book = case.interpreter(random_)
    environment = random_.choice(list(case.environments(row)))
    state = random_state(case, symbols, random_)
    force(untriggered(case.table, row), environment, state, random_)
    if isinstance(row.on, Sent):
        arrived = row.on.symbol, tuple(environment[v] for v in row.on.arguments)
        state[arrived] = True
    if not by_book.holds(untriggered(case.table, row), state, environment):
        return False
    machine = case.machine(by_book.given)
    for cell, value in state.items():
        put(machine, cell, value)
    assert_same(case, machine, state, "as it was put")
    assert_same_rows(case, machine, by_book, state)
    step = take(case, machine, row, environment)
    assert step is not None
    assert same_trigger(row, next(r for r in case.table.rows if r.name == step.row))
    assert_took_a_row(case, machine, by_book, state, step)
    return step.row == row.name


def random_state(case: Case, symbols: list[Symbol], random_: random.Random) -> State:
    """Some state of what the machine keeps, reachable or not."""
    weight = random_.choice((0.02, 0.1, 0.4, 0.7))
    return {
        (symbol, arguments): random_.choice(symbol.values[1:])
        for symbol in symbols
        for arguments in case.tuples(symbol)
        if random_.random() < weight
    }


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_walk_of_the_system_is_followed(name: str, data: st.DataObject) -> None:
    """Whatever the system does, the machine takes the same rows to the same state."""
    case = CASES[name]
    random_ = chance(data.draw(st.integers(0, 2**32), label="seed"))
    by_book = case.interpreter(random_)
    machine = case.machine(by_book.given)
    own = case.fixed
    store = frozenset[tuple[Cell, Value]]()
    for _ in range(25):
        steps = [(step, after) for step, after in by_book.steps(store) if after != store]
        if not steps:
            break
        ours = [one for one in steps if is_ours(case, one[0], own)]
        (name_, values), after = random_.choice(ours if ours and random_.random() < 0.6 else steps)
        if is_ours(case, (name_, values), own):
            row = next(row for row in case.table.rows if row.name == name_)
            environment = dict(zip(case.table.parameters(row), values, strict=True))
            step = take(case, machine, row, environment)
            assert step is not None
            assert step.row == name_
        else:
            state = dict(after)
            for symbol, arguments in kept(case, machine):
                put(machine, (symbol, arguments), state.get((symbol, arguments), symbol.values[0]))
        store = after
        assert_same(case, machine, dict(store), name_)
        assert_same_rows(case, machine, by_book, dict(store))


def is_ours(case: Case, step: tuple[str, tuple[int, ...]], own: Environment) -> bool:
    """Whether the step is a row of this very instance."""
    found = case.system.row(step[0])
    assert found is not None
    return found[0].machine is case.table.machine and step[1][: len(own)] == tuple(own.values())


def test_a_refused_event_changes_nothing() -> None:
    """Decide, then change; or raise and change nothing: at random, also with messages to note."""
    random_ = chance("refused")
    refused = 0
    for name, case in CASES.items():
        by_book = case.interpreter(random_)
        machine = case.machine(by_book.given)
        symbols = list(machine._cells)
        for cell, value in random_state(case, symbols, random_).items():
            put(machine, cell, value)
        for row in case.table.rows:
            for environment in case.environments(row):
                before = {cell: machine.value(cell[0], *cell[1]) for cell in kept(case, machine)}
                try:
                    if take(case, machine, row, environment) is not None:
                        break
                except ProtocolError:
                    refused += 1
                after = {cell: machine.value(cell[0], *cell[1]) for cell in kept(case, machine)}
                assert after == before, (name, row.name)
    assert refused > 10
