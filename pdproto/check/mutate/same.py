"""Decides whether a mutant is the same protocol: its row does the same in every reachable state.

Consider every state that the original reaches, and each instance of the row. Suppose that it is
enabled in both systems or in neither (or would change nothing), and leads to the same state. Then,
by induction, both systems reach the same states over the same edges. So it is enough to search the
original for a state in which the two rows differ. Without labels, the row of an edge does not
matter: if one of the two rows is not enabled, another row on the same trigger with the same effect
may replace it. A row on another trigger may not: when a timer fires depends on which timer it is.
Nor may a row of another fairness.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from pdproto.check.explore import Reductions, SearchLimits, explore
from pdproto.check.liveness import graph_for
from pdproto.check.mutate.edits import Mutant
from pdproto.check.mutate.kills import GRAPHS, UndecidedError
from pdproto.check.questions import Pattern, Question
from pdproto.check.result import PropertyKind
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground, GroundRow, ground_for
from pdproto.ground.layout import Field
from pdproto.ground.program import Action, Clause, Guard, Literal, conjunction
from pdproto.spec.language.formula import normal
from pdproto.spec.language.machine import Row
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.system import Configuration, System

WAYS_MAX: Final = 64  # combinations of clauses by which all rows with the same effect can fail


def same_graph(
    system: System,
    edited: System,
    mutant: Mutant,
    configuration: Configuration,
    limits: SearchLimits,
    *,
    labels: bool = True,
) -> bool:
    """Whether the edited system has the reachable graph of the original at these sizes.

    This includes the graph in which delivery takes messages off the network, if a property uses it.
    labels: each edge must also have the same row. Without labels, True is always right, but False
    may be wrong. Raises UndecidedError at a limit.
    """
    for given in interpretations(system, configuration.sizes, configuration):
        for fairness in _graphs(system):
            ground = ground_for(system, configuration, given, fairness)
            other = ground_for(edited, configuration, given, fairness)
            patterns = tuple(differences(ground, other, mutant.row.name, labels=labels))
            if patterns and _reached(ground, patterns, mutant, configuration, limits):
                return False
    return True


def _graphs(system: System) -> Sequence[Fairness]:
    """The graphs that properties use. The graph without timers is a part of the one with them."""
    claims = [claim for claim in system.properties if isinstance(claim, LeadsTo)]
    used = {graph_for(fairness) for claim in claims for fairness in claim.under}
    return [f for f in GRAPHS if f is Fairness.TIMERS or f in used - {Fairness.NO_TIMERS}]


def _reached(
    ground: Ground,
    patterns: tuple[Guard, ...],
    mutant: Mutant,
    configuration: Configuration,
    limits: SearchLimits,
) -> bool:
    """Whether any of the patterns occurs."""
    question = Question(
        mutant.row.name, PropertyKind.ALWAYS, mutant.words, "", mutant.place,
        tuple(Pattern(guard, "") for guard in patterns),
    )
    reductions = Reductions(configuration.symmetry, configuration.dead_bits)
    found = explore(
        ground, (question,), reductions=reductions, limits=limits, deadlocks_matter=False
    )
    try:
        if found.violated():
            return True
        if not found.complete:
            raise UndecidedError(found.stopped)
        return False
    finally:
        found.engine.close()


def differences(ground: Ground, other: Ground, row: str, *, labels: bool) -> Iterator[Guard]:
    """Guards of states in which the row of that name has different effects in the two systems."""
    fields = [
        (field, len(symbol.values)) for (symbol, _), field in ground.layout.fields.items()
    ]
    ours, theirs = _instances(ground, row), _instances(other, row)
    for instance in dict.fromkeys((*ours, *theirs)):
        left, right = (found.get(instance, _NOWHERE) for found in (ours, theirs))
        for one in left.actions:
            twins = () if labels else _twins(one, left.form, other)
            yield from _alone(one, right.guards, twins, fields)
        for two in right.actions:
            twins = () if labels else _twins(two, right.form, ground)
            yield from _alone(two, left.guards, twins, fields)
        for one, two in product(left.actions, right.actions):
            yield from _otherwise(one, two, fields)


def _twins(action: Action, form: Row | None, ground: Ground) -> tuple[Guard, ...]:
    """Guards of rows of the other system with this effect, and the trigger and fairness of the row;
    only some, if they are complex.
    """
    same = [
        row.action.guard
        for row in ground.rows
        if form is not None
        and (row.row.on, row.row.is_fair, row.row.is_strong) == (
            form.on, form.is_fair, form.is_strong)
        and row.action.effect == action.effect
    ]
    chosen, ways = [], 1
    for guard in sorted(same, key=_refused_in):
        ways *= _refused_in(guard)
        if ways > WAYS_MAX:
            break
        chosen.append(guard)
    return tuple(chosen)


def _refused_in(guard: Guard) -> int:
    """In how many ways the guard may fail: see _refusals."""
    return 1 + len(guard.clauses) + len(guard.decisions)


class _Instance(NamedTuple):
    """A row at its parameters: its actions, and guards of which one holds where one can fire."""

    guards: tuple[Guard, ...]
    actions: tuple[Action, ...]
    form: Row | None = None


_NOWHERE: Final = _Instance((), ())


def _instances(ground: Ground, name: str) -> dict[tuple[int, ...], _Instance]:
    """The row at each choice of parameters for which its guard can hold."""
    rows: dict[tuple[int, ...], list[GroundRow]] = {}
    for row in ground.rows:
        if row.row.name == name:
            rows.setdefault(tuple(row.environment.values()), []).append(row)
    return {key: _instance(ground, cases) for key, cases in rows.items()}


def _instance(ground: Ground, cases: Sequence[GroundRow]) -> _Instance:
    first, actions = cases[0], tuple(row.action for row in cases)
    if any(update.variables for update in first.row.do):
        # The cases of a `where` are together the row's guard, which needs fewer clauses.
        whole = ground.guard(normal(first.table.guard(first.row)), first.environment, first.row)
        return _Instance(() if whole is None else (whole,), actions, first.row)
    return _Instance(tuple(action.guard for action in actions), actions, first.row)


_Fields = list[tuple[Field, int]]  # each cell's place, and how many values it has


def _alone(
    one: Action, others: Sequence[Guard], twins: Sequence[Guard], fields: _Fields
) -> Iterator[Guard]:
    """Guards of states in which `one` changes something, and no other row nor a twin can fire.

    If it moves cells, of all states in which it can fire and they cannot.
    """
    able = [one.guard]
    if not one.moves:
        able.append(Guard(clauses=(tuple(
            literal
            for field, values in fields
            if one.clear & field.mask
            for literal in _others(field, values, one.assign & field.mask)
        ),)))
    for refused in product(*(_refusals(guard, fields) for guard in (*twins, *others))):
        guard = conjunction(*able, *refused)
        if guard is not None:
            yield guard


def _refusals(guard: Guard, fields: _Fields) -> Iterator[Guard]:
    """The cases in which a guard fails: its cube fails, or a clause, or a decision."""
    yield Guard(clauses=(tuple(
        literal
        for field, values in fields
        if guard.mask & field.mask
        for literal in _others(field, values, guard.value & field.mask)
    ),))
    places = {field.mask: (field, values) for field, values in fields}
    for clause in guard.clauses:
        yield Guard(clauses=tuple(
            _others(*places[literal.mask], literal.value) for literal in clause))
    for decision in guard.decisions:
        yield Guard(decisions=(decision.negated,))


def _otherwise(one: Action, two: Action, fields: _Fields) -> Iterator[Guard]:
    """Guards of states in which both are enabled, and write different values.

    If they move cells in two ways, of all states in which both are enabled.
    """
    if one.moves != two.moves:
        guard = conjunction(one.guard, two.guard)
        if guard is not None:
            yield guard
    moved = one.moved & two.moved
    for field, values in fields:
        if moved & field.mask:
            continue
        written = [a.assign & field.mask if a.clear & field.mask else None for a in (one, two)]
        match written:
            case [None, None]:
                continue
            case [int() as value, None] | [None, int() as value]:
                differs = [_others(field, values, value)]
            case [left, right]:
                differs = [()] if left == right else []
        guard = conjunction(one.guard, two.guard, Guard(clauses=tuple(differs)))
        if guard is not None:
            yield guard


def _others(field: Field, values: int, value: int) -> Clause:
    """The clause that the cell has any other value."""
    codes = (code << field.offset for code in range(values))
    return tuple(Literal(field.mask, code) for code in codes if code != value)
