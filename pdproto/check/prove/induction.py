"""Counterexamples to induction: a state in which all claims hold, and a step after which one fails.

If the state is unreachable, a lemma that excludes it is missing. The state is made small by merging
elements, one pair after the other, and shown as a trace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

from pdproto.check.narrative import Narrator, lane_name
from pdproto.check.prove.clauses import Vocabulary
from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.places import moved_up
from pdproto.check.prove.sat import Answer, Solver
from pdproto.check.result import Change, Trace
from pdproto.check.runs import RealRun, Transition
from pdproto.ground.grounding import Ground, Interpretation
from pdproto.ground.layout import Cell, cell_name, cells, value_name
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Row
from pdproto.spec.language.numbered import IsNumber, Numbers, relations
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Symbol, Variable
from pdproto.spec.language.system import System

Elements: TypeAlias = Mapping[type[Sort], list[int]]  # a constant -> its element


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A step that breaks a claim, with its sizes and topology.

    values: the state before the step, by the rules of places.py. environment: the row's parameters.
    trace: the step by the row of the tables; its start shows the cells that are not initial. It has
    no step if the claim fails in the initial state.
    """

    sizes: Mapping[type[Sort], int]
    given: Interpretation
    values: Mapping[Cell, Value]
    environment: Mapping[Sort, int]
    trace: Trace


def counterexample(
    system: System, obligation: Obligation, timeout_s: float, most: int | None = None
) -> Counterexample | None:
    """A small state that shows why the obligation is not met; None if none is found in time.

    Raises TooManyClausesError if the question has more than `most` clauses.
    """
    grounded = ground(system, [obligation], weakened=True, most=most)
    vocabulary = grounded.clauses.vocabulary
    solver = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
    assumed = list(grounded.selectors)
    if solver.ask(assumed) is not Answer.SATISFIABLE:
        return None
    for literal in _identities(vocabulary):
        if solver.ask([*assumed, literal]) is Answer.SATISFIABLE:
            assumed.append(literal)
    solver.ask(assumed)
    elements = {sort: _elements(solver, vocabulary, sort) for sort in vocabulary.universe}
    sizes = system.sized({sort: max(numbers) + 1 for sort, numbers in elements.items()})
    found = dict(_values(solver, vocabulary, elements))
    given = {
        symbol: symbol.at(sizes) if isinstance(symbol, IsNumber) else frozenset(
            indices for (other, indices), held in found.items() if other is symbol and held)
        for symbol in system.rigids
    }
    values = {cell: v for cell, v in found.items() if isinstance(cell[0], Variable | Message)}
    environment = {v: elements[type(v)][number] for v, number in grounded.row.items()}
    trace = _told(system, obligation, (sizes, given), values, environment)
    return Counterexample(sizes, given, values, environment, trace)


def _identities(vocabulary: Vocabulary) -> Iterator[int]:
    for sort, size in vocabulary.universe.items():
        for i, j in combinations(range(size), 2):
            yield int(vocabulary.same[sort][i, j])


def _elements(solver: Solver, vocabulary: Vocabulary, sort: type[Sort]) -> list[int]:
    """The element of each constant, as a number; equal constants have the same element."""
    size = vocabulary.universe[sort]
    first = []
    for j in range(size):
        same = solver.true([int(vocabulary.same[sort][i, j]) for i in range(j)])
        first.append(same.index(True) if True in same else j)
    names = sorted(set(first))
    if issubclass(sort, Numbers):
        return [[solver.true([vocabulary.cell(of, (j,), True)])[0]
                 for of in relations(sort).values()].index(True) for j in first]
    if sort.ordered:
        before = vocabulary.before[sort]
        rank = {i: sum(solver.true([int(before[j, i]) for j in names if j != i])) for i in names}
        names.sort(key=rank.__getitem__)
    return [names.index(i) for i in first]


def _values(
    solver: Solver, vocabulary: Vocabulary, elements: Elements
) -> Iterator[tuple[Cell, Value]]:
    """The value of every symbol of the clauses at every tuple of elements."""
    for symbol, constants in cells(vocabulary.symbols, vocabulary.universe):
        indices = tuple(elements[s][i] for s, i in zip(symbol.sorts, constants, strict=True))
        if symbol.is_boolean:
            yield (symbol, indices), solver.true([vocabulary.cell(symbol, constants, True)])[0]
            continue
        options = [vocabulary.cell(symbol, constants, value) for value in symbol.values]
        yield (symbol, indices), symbol.values[solver.true(options).index(True)]


def _told(
    system: System,
    obligation: Obligation,
    found: tuple[Mapping[type[Sort], int], Interpretation],
    values: Mapping[Cell, Value],
    environment: Mapping[Sort, int],
) -> Trace:
    """The step as the row of the tables takes it. found: the sizes, and the topology."""
    row = obligation.row
    told = None if row is None else system.row(row.name)  # no table has those of coverage.py
    row = row if told is None else told[1]
    values = moved_up(values)
    ground_form = Ground(system, _with_room(found[0], values, row), tuple(system.faults), found[1])
    state = ground_form.layout.encode(values)
    fitting = [
        Transition(one, state, one.action.apply(state))
        for one in ground_form.rows
        if one.row is row and one.environment.items() <= environment.items()
    ]
    # A row has one case for each choice of cells. A weakened question may have met none of them.
    holding = [move for move in fitting if move.row.action.guard.holds(state)]
    moves = RealRun(state, holding or fitting[:1])
    trace = Narrator(ground_form, ()).trace(moves)
    start = tuple(_start(values))
    named = {change.lane for change in start} | {lane.name for lane in trace.lanes}
    whole = Narrator(ground_form, ()).trace(RealRun(state))
    lanes = tuple(lane for lane in whole.lanes if lane.name in named)
    return replace(trace, start=start, lanes=lanes)


def _with_room(
    sizes: Mapping[type[Sort], int], values: Mapping[Cell, Value], row: Row | None
) -> Mapping[type[Sort], int]:
    """The sizes, with places for what the row sends behind all that waits in a channel."""
    sent = 0 if row is None else len(row.send)
    used = [(symbol.fifo, at[-1] + 1) for (symbol, at), value in values.items()
            if isinstance(symbol, Message) and symbol.fifo is not None and value is True]
    needed = {sort: sent + max((n for other, n in used if other is sort), default=0)
              for sort, _ in used}
    return {sort: max(size, needed.get(sort, sent) if sort.ordered else 0)
            for sort, size in sizes.items()}


def _start(values: Mapping[Cell, Value]) -> Iterator[Change]:
    """The cells that are not initial, each on the lane of its owner."""
    for (symbol, indices), value in values.items():
        if value == symbol.values[0]:
            continue
        if isinstance(symbol, ElementFunction):
            lane = lane_name(symbol.owner, indices[: len(symbol.owner.sorts)])
            yield Change(lane, cell_name(symbol, indices[:-1]), "",
                         symbol.sorts[-1].element(indices[-1]))
            continue
        owner: Any = _owner(symbol)
        own = indices[: len(owner.sorts)] if isinstance(symbol, Variable) else _sender(
            symbol, indices)
        yield Change(lane_name(owner, own), cell_name(symbol, indices), "",
                     "sent" if isinstance(symbol, Message) else value_name(value))


def _owner(symbol: Symbol) -> Any:
    return symbol.sender.machine if isinstance(symbol, Message) else symbol.owner  # type: ignore[attr-defined]


def _sender(symbol: Any, indices: tuple[int, ...]) -> tuple[int, ...]:
    given = dict(zip(symbol.formals, indices, strict=False))
    return tuple(given[v] for v in symbol.sender.variables)
