"""The documentation of a spec: states by triggers, every row, diagrams, properties.

The text depends on the system alone and names no line of its source. So a committed copy changes
only if the protocol does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pdproto.check.diagrams import message_diagram, state_diagram
from pdproto.check.page import (
    BY_ITSELF,
    CONFIGURATIONS,
    MESSAGES,
    RELATIONS,
    SORTS,
    VARIABLES,
    Cells,
    code,
    configuration,
    final_text,
    grid,
    init_text,
    instance_text,
    mermaid,
    message_cells,
    property_text,
    relation_cells,
    rows_text,
    sort_cells,
    variable_cells,
)
from pdproto.check.words import formula_text, trigger_name, trigger_text
from pdproto.ground.layout import value_name
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Row, Table, Trigger
from pdproto.spec.language.symbols import Variable
from pdproto.spec.language.system import System

GENERATED: Final = ("Generated from the spec by `pdproto export --markdown`; change the spec, not "
                    "this file.")


def document(system: System) -> str:
    """The documentation of a system as Markdown, with Mermaid diagrams."""
    return joined((
        f"# {system.name}",
        system.about,
        GENERATED,
        *_section("Sorts", SORTS, sort_cells(system)),
        *_rigids(system),
        *_machines(system),
        *_messages(system),
        *(part for table in system.tables for part in _table(table)),
        *_properties(system),
        *_faults(system),
        *_section("Configurations", CONFIGURATIONS, [
            configuration(name, chosen) for name, chosen in system.configurations.items()]),
    ))  # fmt: skip


def joined(sections: Iterable[str]) -> str:
    """A page of the sections that are not empty."""
    return "\n\n".join(section for section in sections if section) + "\n"


def _section(title: str, heading: Cells, lines: Sequence[Cells]) -> Iterator[str]:
    if lines:
        yield f"## {title}"
        yield grid(heading, lines)


def _rigids(system: System) -> Iterator[str]:
    if not system.rigids and not system.axioms:
        return
    yield "## Fixed relations"
    yield grid(RELATIONS, relation_cells(system))
    yield "\n".join(
        f"* axiom **{name}**: {code(formula_text(axiom))}" for name, axiom in system.axioms.items()
    )


def _machines(system: System) -> Iterator[str]:
    yield "## Machines"
    for machine in system.machines:
        if machine.world:
            continue
        yield f"### {instance_text(machine.instance)}"
        # Not `machine.symbols`: an edit may have declared more on the same machine since.
        variables = [
            symbol
            for symbol in system.variables
            if isinstance(symbol, Variable) and symbol.owner is machine
        ]
        if variables:
            yield grid(VARIABLES, [variable_cells(v) for v in variables])
        engines = [v for v in variables if v.engine is not None]
        yield "\n".join(
            f"* {code(v.name)} is shared with {v.engine}, which alone writes "
            f"{', '.join(map(value_name, v.engine_writes))}"
            for v in engines
        )


def _messages(system: System) -> Iterator[str]:
    yield from _section("Messages", MESSAGES, message_cells(system))
    if message_cells(system):
        yield mermaid(message_diagram(system))


def _table(table: Table) -> Iterator[str]:
    yield f"## Table of {instance_text(table.machine.instance)}"
    reasons: list[str] = []
    yield _matrix(table, reasons)
    yield "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
    if table.state is not None:
        yield mermaid(state_diagram(table))
    yield rows_text(table.rows)


def _matrix(table: Table, reasons: list[str]) -> str:
    """States down, triggers across. An ignored or rejected event has the number of its reason.

    Rows on one trigger share a column, also if they name its arguments differently. So an empty
    cell of a message means that no row answers it there.
    """
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        columns.setdefault(trigger_name(row.on), []).append(row)
    states: Sequence[Value | None] = (None,) if table.state is None else table.state.values
    corner = "" if table.state is None else code(table.state.name)
    return grid(
        (corner, *(_heading(rows[0].on) for rows in columns.values())),
        [
            (
                "any state" if state is None else f"**{value_name(state)}**",
                *(
                    "<br>".join(_entry(row, reasons) for row in rows if _applies(row, state))
                    for rows in columns.values()
                ),
            )
            for state in states
        ],
    )


def _heading(trigger: Trigger) -> str:
    text = trigger_text(trigger)
    word, _, name = text.partition(" ")
    return f"{word} {code(name)}" if name else BY_ITSELF


def _applies(row: Row, state: Value | None) -> bool:
    return state is None or not row.states or state in row.states


def _entry(row: Row, reasons: list[str]) -> str:
    """One row in a cell of the matrix: its name and the state that follows."""
    if row.kind != "row":
        if row.why not in reasons:
            reasons.append(row.why)
        word = "-" if row.kind == "ignore" else "reject"
        return f"{word} ({reasons.index(row.why) + 1})"
    return row.name if row.to is None else f"{row.name} → {value_name(row.to)}"


def _properties(system: System) -> Iterator[str]:
    if not system.properties and system.final is None and system.init is None:
        return
    yield "## Properties"
    lines = [property_text(claim, system) for claim in system.properties]
    if system.init is not None:
        lines.append(init_text(system.init))
    if system.final is not None:
        lines.append(final_text(system.final))
    yield "\n".join(lines)


def _faults(system: System) -> Iterator[str]:
    if not system.faults:
        return
    yield "## Faults"
    for layer, tables in system.faults.items():
        yield f"### {layer}"
        for table in tables:
            if not table.machine.world:
                yield f"Of {instance_text(table.machine.instance)}:"
            yield rows_text(table.rows)
