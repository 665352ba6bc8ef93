"""Rewrites formulas: renames variables, and moves formulas to the state before a row or the start.

A formula about the state after a row becomes a formula about the state before it, so that a proof
is about one state only (the weakest precondition of Dijkstra, "Guarded commands", 1975).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from pdproto.spec.language.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    Value,
    bound_variables,
    exists,
    free_variables,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Rigid, Symbol, sent_by

Renaming: TypeAlias = Mapping[Sort, Sort]
Write: TypeAlias = tuple[Symbol, tuple[Sort, ...], Value, Formula, tuple[Sort, ...]]


def renamed(formula: Formula, names: Renaming) -> Formula:
    """The formula with its free variables replaced; the new names must not be bound in it."""
    match formula:
        case And(parts):
            return And(tuple(renamed(part, names) for part in parts))
        case Or(parts):
            return Or(tuple(renamed(part, names) for part in parts))
        case Not(part):
            return Not(renamed(part, names))
        case Forall(variable, body):
            return Forall(variable, renamed(body, _without(names, variable)))
        case Exists(variable, body):
            return Exists(variable, renamed(body, _without(names, variable)))
        case Same(left, right):
            return Same(names.get(left, left), names.get(right, right))
        case Before(left, right):
            return Before(names.get(left, left), names.get(right, right))
        case Atom(symbol, arguments, value):
            return Atom(symbol, tuple(names.get(v, v) for v in arguments), value)
    raise AssertionError(formula)


def _without(names: Renaming, variable: Sort) -> Renaming:
    return {old: new for old, new in names.items() if old != variable}


def apart(formula: Formula, mark: str) -> Formula:
    """The formula with a mark added to the name of every variable, also of bound ones."""
    free = {v: marked(v, mark) for v in free_variables(formula)}
    return _bound_apart(renamed(formula, free), mark, tuple(free.values()))


def marked(variable: Sort, mark: str) -> Sort:
    """The variable with the mark added to its name."""
    return type(variable)(f"{variable.name}{mark}")


def _bound_apart(formula: Formula, mark: str, free: tuple[Sort, ...]) -> Formula:
    match formula:
        case And(parts):
            return And(tuple(_bound_apart(part, mark, free) for part in parts))
        case Or(parts):
            return Or(tuple(_bound_apart(part, mark, free) for part in parts))
        case Not(part):
            return Not(_bound_apart(part, mark, free))
        case Forall(variable, body):
            new, renamed_body = _fresh(variable, body, mark, free)
            return Forall(new, _bound_apart(renamed_body, mark, (*free, new)))
        case Exists(variable, body):
            new, renamed_body = _fresh(variable, body, mark, free)
            return Exists(new, _bound_apart(renamed_body, mark, (*free, new)))
        case _:
            return formula


def _fresh(
    variable: Sort, body: Formula, mark: str, taken: tuple[Sort, ...]
) -> tuple[Sort, Formula]:
    new = marked(variable, mark)
    avoid = {*taken, *bound_variables(body)}
    while new in avoid:
        new = marked(new, mark)
    return new, renamed(body, {variable: new})


def before_row(formula: Formula, table: Table, row: Row) -> Formula:
    """The formula that must hold before the row fires, so that `formula` holds after it.

    The formula and the row must have no variable in common (`apart`).
    """
    writes = tuple(_writes(table, row))
    return mapped_atoms(formula, lambda atom: _written(atom, writes))


def initially(formula: Formula) -> Formula:
    """The formula in an initial state: about rigid symbols, identity and `init=ANY` only."""

    def start(atom: Atom) -> Formula:
        if isinstance(atom.symbol, Rigid) or atom.symbol.starts_free:
            return atom
        return TRUE if atom.value == atom.symbol.values[0] else FALSE

    return mapped_atoms(formula, start)


def mapped_atoms(formula: Formula, change: Callable[[Atom], Formula]) -> Formula:
    """The formula with each atom replaced by another formula."""
    match formula:
        case And(parts):
            return And(tuple(mapped_atoms(part, change) for part in parts))
        case Or(parts):
            return Or(tuple(mapped_atoms(part, change) for part in parts))
        case Not(part):
            return Not(mapped_atoms(part, change))
        case Forall(variable, body):
            return Forall(variable, mapped_atoms(body, change))
        case Exists(variable, body):
            return Exists(variable, mapped_atoms(body, change))
        case Atom():
            return change(formula)
        case _:
            return formula


def _writes(table: Table, row: Row) -> Iterator[Write]:
    """The writes of the row: (symbol, arguments, value, condition, variables of `each`)."""
    for update in table.updates(row):
        yield update.symbol, update.arguments, update.value, update.where, update.variables
    for effect in row.send:
        sent = sent_by(effect)
        if isinstance(effect, Each):
            yield sent.symbol, sent.arguments, True, effect.where, (effect.variable,)
        else:
            yield sent.symbol, sent.arguments, True, TRUE, ()


def _written(atom: Atom, writes: tuple[Write, ...]) -> Formula:
    """The atom after the writes, as a formula of the state before them."""
    result: Formula = atom
    for symbol, arguments, value, where, variables in writes:
        if symbol is not atom.symbol:
            continue
        hit = hits(atom.arguments, arguments, where, variables)
        result = _either(hit, result) if value == atom.value else _both(_negated(hit), result)
    return result


def hits(
    cell: tuple[Sort, ...], arguments: tuple[Sort, ...], where: Formula,
    variables: tuple[Sort, ...],
) -> Formula:
    """The condition under which a write to these arguments meets the cell.

    where, variables: of a write to each of some cells.
    """
    parts: list[Formula] = []
    chosen: dict[Sort, Sort] = {}
    for mine, other in zip(cell, arguments, strict=True):
        if other is ANY:
            continue
        if other in variables:
            # A variable of `each` can only be the cell's own argument, so it needs no `exists`.
            if chosen.setdefault(other, mine) != mine:
                parts.append(Same(chosen[other], mine))
        elif mine != other:
            parts.append(Same(mine, other))
    left = tuple(variable for variable in variables if variable not in chosen)
    parts.append(exists(left, renamed(where, chosen)))
    kept = tuple(part for part in parts if part != TRUE)
    return kept[0] if len(kept) == 1 else And(kept)


def _negated(formula: Formula) -> Formula:
    return FALSE if formula == TRUE else Not(formula)


def _either(one: Formula, two: Formula) -> Formula:
    return TRUE if TRUE in (one, two) else Or((one, two))


def _both(one: Formula, two: Formula) -> Formula:
    return FALSE if FALSE in (one, two) else And((one, two))
