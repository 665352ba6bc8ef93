"""The difference between a variant and its base (the system of which it is an edit), as data.

A system consists of named parts: rows, properties, configurations and so on. The base and the
difference determine the variant: `applied(parts(base), difference(base, variant))` are the parts of
the variant. The order of rows is not a part, because it has no effect.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pdproto.check.page import (
    Cells,
    message_cells,
    relation_cells,
    sort_cells,
    variable_cells,
)
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import Property
from pdproto.spec.language.symbols import Variable
from pdproto.spec.language.system import Configuration, System

Key: TypeAlias = tuple[str, ...]
"""The kind of a part, then its name; of a row and of a table also the fault layer and machine."""
Part: TypeAlias = Row | Property | Formula | Configuration | Cells


@dataclass(frozen=True, slots=True)
class Difference:
    """The parts that a variant lacks, the parts it adds, and those it changes (before, after)."""

    removed: Mapping[Key, Part]
    added: Mapping[Key, Part]
    changed: Mapping[Key, tuple[Part, Part]]


def difference(base: System, variant: System) -> Difference:
    """The difference between the variant and its base."""
    before, after = parts(base), parts(variant)
    return Difference(
        {key: part for key, part in before.items() if key not in after},
        {key: part for key, part in after.items() if key not in before},
        {
            key: (before[key], part)
            for key, part in after.items()
            if key in before and before[key] != part
        },
    )


def applied(base: Mapping[Key, Part], change: Difference) -> dict[Key, Part]:
    """The parts of the variant, from the parts of its base and the difference."""
    kept = {key: part for key, part in base.items() if key not in change.removed}
    return {**kept, **{key: after for key, (_, after) in change.changed.items()}, **change.added}


def parts(system: System) -> dict[Key, Part]:
    """Everything that a page of the system shows, by kind and name."""
    return dict(_parts(system))


def _parts(system: System) -> Iterator[tuple[Key, Part]]:
    yield from ((("sort", cells[0]), cells) for cells in sort_cells(system))
    yield from ((("relation", cells[0]), cells) for cells in relation_cells(system))
    yield from ((("axiom", name), axiom) for name, axiom in system.axioms.items())
    for variable in system.variables:
        if isinstance(variable, Variable):
            cells = variable_cells(variable)
            yield ("variable", variable.owner.name, cells[0]), cells
    yield from ((("message", cells[0]), cells) for cells in message_cells(system))
    for layer, tables in (("", system.tables), *system.faults.items()):
        for table in tables:
            yield from _table(layer, table)
    yield from ((("property", claim.name), claim) for claim in system.properties)
    if system.final is not None:
        yield ("final",), system.final
    if system.init is not None:
        yield ("init",), system.init
    yield from ((("configuration", name), chosen) for name, chosen in system.configurations.items())


def _table(layer: str, table: Table) -> Iterator[tuple[Key, Part]]:
    name = (layer, table.machine.name)
    yield ("table", *name), ("" if table.state is None else table.state.name,)
    yield from ((("row", *name, row.name), _normal(row)) for row in table.rows)


def _normal(row: Row) -> Row:
    """The row in a normal form, in which equal rows are equal objects."""
    return replace(
        row, at=row.states, when=row.conditions, do=tuple(row.do), send=tuple(row.send)
    )


def base_of(variant: System, known: Collection[str]) -> System | None:
    """The nearest system of which the variant is an edit, and that has one of the known names.

    Between the two there may be systems without a page, and systems with the same name as the one
    they come from. Of several systems with one name, the first one is the base.
    """
    found: System | None = None
    base = variant.base
    while base is not None:
        if found is not None and base.name != found.name:
            return found
        if base.name in known and base.name != variant.name:
            found = base
        base = base.base
    return found
