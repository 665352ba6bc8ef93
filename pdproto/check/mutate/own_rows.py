"""Which rows of a system are mutated, and which are left out.

The environment decides nothing for the protocol: a mutant that forbids it something breaks no
promise of safety, and one that allows it more is a fault. A composed system has the rows of its
parts, which are mutated in the parts. Its own rows are those of its hosts, and those that it edits;
of an edited row only those mutants are its own that the row before the edit does not have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from pdproto.check.mutate.edits import Mutant, is_mutated, mutants
from pdproto.spec.language.machine import Row
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System

Shape: TypeAlias = object  # anything that has a hash


def environment(systems: Iterable[System]) -> Mapping[str, tuple[str, ...]]:
    """The rows of the environment, by its machine: they are not mutated."""
    found: dict[str, dict[str, None]] = {}
    for system in systems:
        for table in system.tables:
            if not is_mutated(table):
                found.setdefault(table.machine.name, {}).update(
                    dict.fromkeys(row.name for row in table.rows))
    return {machine: tuple(rows) for machine, rows in found.items()}


def own_rows(systems: Iterable[System], parts: Iterable[System]) -> Sequence[Row]:
    """The rows of composed systems that none of the parts has, as it is or renamed.

    A renamed row (spec/handoff/renaming.py) has the place of its original in the source code, and
    differs from it only in the names of its symbols, and perhaps in its own.
    """
    known = {_key(row) for part in parts for row in _rows(part)}
    return [row for system in systems for row in _rows(system) if _key(row) not in known]


def own_mutants(
    every: Sequence[Mutant], systems: Iterable[System], parts: Sequence[System]
) -> Sequence[Mutant]:
    """Those of the mutants of these systems that are not tried in their parts; without parts, all.
    """
    if not parts:
        return every
    own = own_rows(systems, parts)
    known = {_edit(mutant) for mutant in mutants(parts)}
    fresh: dict[tuple[object, ...], Mutant] = {}
    for one in every:
        if any(row.name == one.row.name and row == one.row for row in own):
            fresh.setdefault(_edit(one), one)
    return [one for edit, one in fresh.items() if edit not in known]


def _edit(mutant: Mutant) -> tuple[object, ...]:
    return mutant.place, mutant.row.name, mutant.change, mutant.words


def _rows(system: System) -> Iterator[Row]:
    return (row for table in system.tables if is_mutated(table) for row in table.rows)


def _key(row: Row) -> Shape:
    return row.place, _shape((row.on, row.states, row.to, row.conditions, row.do, row.send,
                              row.choose, row.is_fair, row.kind))


def _shape(value: Any) -> Shape:
    """The value without the names of symbols."""
    match value:
        case Symbol():
            return type(value), value.sorts
        case Sort():
            return type(value), value.name
        case tuple() | list():
            return tuple(map(_shape, value))
        case _ if is_dataclass(value):
            return type(value), *(_shape(getattr(value, field.name))
                                  for field in fields(value) if field.compare)
        case _:
            return value
