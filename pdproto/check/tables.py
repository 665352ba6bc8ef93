"""The documentation of a spec, from the spec: states by triggers, every row, pictures, properties.

The text depends on the system alone and names no line of its source, so that a committed copy
changes only when the protocol does.
"""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, assert_never

from pdproto.check.diagrams import message_diagram, state_diagram
from pdproto.check.words import (
    effect_text,
    formula_text,
    trigger_name,
    trigger_text,
    update_text,
)
from pdproto.ground.layout import value_name
from pdproto.spec.language.formula import TRUE, Formula, Value
from pdproto.spec.language.machine import Instance, Machine, Row, Table, Timer, Trigger
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Property, Sometimes
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Rigid, Variable
from pdproto.spec.language.system import Configuration, System

AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]

BY_ITSELF: Final = "by itself"  # the column of rows that wait for nothing


def document(system: System) -> str:
    """The documentation as Markdown (with Mermaid diagrams, as code hosts draw them)."""
    sections = (
        f"# {system.name}",
        system.about,
        "Generated from the spec by `pdproto tables`; change the spec, not this file.",
        *_sorts(system),
        *_rigids(system),
        *_machines(system),
        *_messages(system),
        *(part for table in system.tables for part in _table(table)),
        *_properties(system),
        *_faults(system),
        *_configurations(system),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def _sorts(system: System) -> Iterator[str]:
    if not system.sorts:
        return
    yield "## Sorts"
    yield _grid(
        ("sort", "what it is", "elements read"),
        [
            (
                _code(sort.__name__) + (", in order" if sort.ordered else ""),
                _description(sort),
                f"{_code(sort.element(0))}, {_code(sort.element(1))}, ...",
            )
            for sort in system.sorts
        ],
    )


def _description(sort: type[Sort]) -> str:
    """The sort's own docstring on one line, and not that of its base."""
    return " ".join(inspect.cleandoc(vars(sort).get("__doc__") or "").split())


def _rigids(system: System) -> Iterator[str]:
    if not system.rigids and not system.axioms:
        return
    yield "## Fixed relations"
    yield _grid(
        ("relation", "read by", "explored"),
        [
            (
                _code(rigid.signature),
                ", ".join(machine.name for machine in rigid.visible_to) or "all",
                "as given" if _is_given(system, rigid) else "every interpretation",
            )
            for rigid in system.rigids
        ],
    )
    yield "\n".join(
        f"* axiom **{name}**: {_code(formula_text(axiom))}" for name, axiom in system.axioms.items()
    )


def _is_given(system: System, rigid: Rigid[*tuple[Any, ...]]) -> bool:
    return rigid.given is not None or any(
        rigid in configuration.given for configuration in system.configurations.values()
    )


def _machines(system: System) -> Iterator[str]:
    yield "## Machines"
    for machine in system.machines:
        if machine.world:
            continue
        yield f"### {_instance(machine.instance)}"
        variables = [symbol for symbol in machine.symbols if isinstance(symbol, Variable)]
        if variables:
            yield _grid(
                ("variable", "values, the initial one first", "moves"),
                [
                    (_code(v.signature), ", ".join(map(value_name, v.values)), _moves(v))
                    for v in variables
                ],
            )
        engines = [v for v in variables if v.engine is not None]
        yield "\n".join(
            f"* {_code(v.name)} is shared with {v.engine}, which alone writes "
            f"{', '.join(map(value_name, v.engine_writes))}"
            for v in engines
        )


def _moves(variable: Variable) -> str:
    if variable.edges is None:
        return "any"
    return "; ".join(
        f"{value_name(value)} → {', '.join(map(value_name, targets)) or 'nothing'}"
        for value, targets in variable.edges.items()
    )


def _messages(system: System) -> Iterator[str]:
    messages = [symbol for symbol in system.variables if isinstance(symbol, Message)]
    if not messages:
        return
    yield "## Messages"
    yield _grid(
        ("message", "from", "to", "carries", "transport"),
        [
            (
                _code(f"{message.name}({', '.join(map(repr, message.formals))})"),
                _instance(message.sender),
                _receiver(message),
                ", ".join(_code(relation.name) for relation in message.carries),
                "reliable" if message.reliable else "",
            )
            for message in messages
        ],
    )
    yield _mermaid(message_diagram(system))


def _instance(instance: Instance) -> str:
    """`participant p`; a machine of which there is one goes by its name."""
    return " ".join([instance.machine.name, *(_code(repr(v)) for v in instance.variables)])


def _receiver(message: Message[*tuple[Any, ...]]) -> str:
    """The receiving instance; what the message does not name is everybody."""
    unnamed = [v for v in message.receiver.variables if v not in message.formals]
    named = [_code(repr(v)) for v in message.receiver.variables if v in message.formals]
    every = "every " if unnamed else ""
    return " ".join([f"{every}{message.receiver.machine}", *named])


def _table(table: Table) -> Iterator[str]:
    yield f"## Table of {_instance(table.machine.instance)}"
    reasons: list[str] = []
    yield _matrix(table, reasons)
    yield "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
    if table.state is not None:
        yield _mermaid(state_diagram(table))
    yield _rows(table.rows)


def _matrix(table: Table, reasons: list[str]) -> str:
    """States down, triggers across; what is ignored or rejected gets the number of its reason.

    Rows on one trigger share a column, whatever they call its arguments: an empty cell of a message
    is a hole.
    """
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        columns.setdefault(trigger_name(row.on), []).append(row)
    states: Sequence[Value | None] = (None,) if table.state is None else table.state.values
    corner = "" if table.state is None else _code(table.state.name)
    return _grid(
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
    return f"{word} {_code(name)}" if name else BY_ITSELF


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


def _rows(rows: Sequence[Row]) -> str:
    return "\n".join(("```text", "\n\n".join(map(_row, rows)), "```"))


def _row(row: Row) -> str:
    """A row in full: a heading, and a line for each thing it asks for or does."""
    heading = [trigger_text(row.on) or BY_ITSELF]
    if isinstance(row.on, Timer) and row.on.detector:
        heading.append("a failure detector")
    places = ", ".join(map(value_name, row.states))
    if row.to is not None:
        heading.append(f"{places or 'any state'} -> {value_name(row.to)}")
    elif places:
        heading.append(f"in {places}")
    if row.fair is not None and row.kind == "row":
        heading.append("fair" if row.fair else "not fair")
    if row.choose:
        heading.append(f"chooses {', '.join(map(repr, row.choose))}")
    name = row.name if row.kind == "row" else row.kind
    lines = [f"{name}: {', '.join(heading)}"]
    lines += [f"    when  {formula_text(condition)}" for condition in row.conditions]
    lines += [f"    do    {update_text(update)}" for update in row.do]
    lines += [f"    send  {effect_text(effect)}" for effect in row.send]
    if row.why:
        lines.append(f"    why   {row.why}")
    return "\n".join(lines)


def _properties(system: System) -> Iterator[str]:
    if not system.properties and system.final is None:
        return
    yield "## Properties"
    lines = [_property(claim) for claim in system.properties]
    if system.final is not None:
        lines.append(f"* It is right for nothing more to happen where {_formula(system.final)}.")
    yield "\n".join(lines)


def _property(claim: Property) -> str:
    match claim:
        case Always():
            text = f"always {_formula(claim.claim)}"
        case Sometimes():
            text = f"sometimes {_formula(claim.claim)}"
        case OnRow():
            text = f"whenever {_code(claim.row)} can fire, {_formula(claim.claim)}"
        case LeadsTo(premise=premise):
            start = "from everywhere" if premise == TRUE else _formula(premise)
            text = f"{start} leads to {_formula(claim.goal)}, when {'; when '.join(claim.under)}"
        case _:
            assert_never(claim)
    reason = f": {_prose(claim.why)}" if claim.why else ""
    return f"* **{claim.name}**{reason}<br>{text}"


def _faults(system: System) -> Iterator[str]:
    if not system.faults:
        return
    yield "## Faults"
    for layer, tables in system.faults.items():
        yield f"### {layer}"
        for table in tables:
            if not table.machine.world:
                yield f"Of {_instance(table.machine.instance)}:"
            yield _rows(table.rows)


def _configurations(system: System) -> Iterator[str]:
    if not system.configurations:
        return
    yield "## Configurations"
    yield _grid(
        ("name", "sizes", "faults", "reductions"),
        [_configuration(name, chosen) for name, chosen in system.configurations.items()],
    )


def _configuration(name: str, chosen: Configuration) -> tuple[str, ...]:
    sizes = ", ".join(f"{sort.__name__} {size}" for sort, size in chosen.sizes.items())
    reductions = (("symmetry", chosen.symmetry), ("dead bits", chosen.dead_bits))
    return (
        name,
        sizes,
        ", ".join(chosen.faults) or "none",
        ", ".join(word for word, used in reductions if used) or "none",
    )


def _formula(formula: Formula) -> str:
    return _code(formula_text(formula))


def _grid(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns in which no line has anything to say are left out."""
    kept = [
        column
        for column in range(len(heading))
        if column == 0 or any(line[column] for line in lines)
    ]
    rule = ["---"] * len(heading)
    return "\n".join(
        f"| {' | '.join(_prose(line[column]) for column in kept)} |"
        for line in (heading, rule, *lines)
    )


def _mermaid(text: str) -> str:
    return f"```mermaid\n{text}\n```"


def _code(text: str) -> str:
    return f"`{text}`"


def _prose(text: str) -> str:
    """Text that cannot end a cell of a Markdown table."""
    return text.replace("|", "\\|")
