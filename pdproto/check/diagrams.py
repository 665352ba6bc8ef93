"""Diagrams of a spec as Mermaid text: the states of a machine, and the messages of a system."""

from collections.abc import Iterator

from pdproto.ground.layout import value_name
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.symbols import Message
from pdproto.spec.language.system import System

INDENT = "    "


def state_diagram(table: Table) -> str:
    """The rows that change the table's state variable, as arrows between its values.

    Rows that do not change the state variable are left out. Raises ValueError for a table without a
    state variable.
    """
    if table.state is None:
        raise ValueError(f"the table of {table.machine} has no state variable to draw")
    values = table.state.values
    names = {value: f"s{number}" for number, value in enumerate(values)}
    lines = ["stateDiagram-v2"]
    lines += [f'{INDENT}state "{value_name(value)}" as {names[value]}' for value in values]
    first = values if table.state.starts_free else values[:1]
    lines += [f"{INDENT}[*] --> {names[value]}" for value in first]
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        for source, target in _moves(table, row):
            arrows.setdefault((source, target), []).append(row.name)
    order = list(map(value_name, values))
    for (source, target), rows in arrows.items():
        ends = f"s{order.index(source)} --> s{order.index(target)}"
        lines.append(f"{INDENT}{ends}: {', '.join(rows)}")
    return "\n".join(lines)


def _moves(table: Table, row: Row) -> Iterator[tuple[str, str]]:
    """The moves of the state variable that the row's `at` and `to` allow."""
    if row.to is None or table.state is None:
        return
    for value in row.states or table.state.values:
        if value != row.to:
            yield value_name(value), value_name(row.to)


def message_diagram(system: System) -> str:
    """Machines as boxes, and an arrow for each sender and receiver, with its messages."""
    machines = [machine for machine in system.machines if not machine.world]
    names = {machine: f"m{number}" for number, machine in enumerate(machines)}
    lines = ["flowchart LR"]
    for machine, name in names.items():
        per = ", ".join(sort.__name__ for sort in machine.sorts)
        text = f"{machine}<br/>one for each {per}" if per else f"{machine}"
        lines.append(f'{INDENT}{name}["{text}"]')
    arrows: dict[tuple[str, str], list[str]] = {}
    for message in system.variables:
        if not isinstance(message, Message):
            continue
        ends = message.sender.machine, message.receiver.machine
        if all(machine in names for machine in ends):
            sender, receiver = map(names.__getitem__, ends)
            arrows.setdefault((sender, receiver), []).append(message.name)
    for (sender, receiver), messages in arrows.items():
        lines.append(f'{INDENT}{sender} -- "{", ".join(messages)}" --> {receiver}')
    return "\n".join(lines)
