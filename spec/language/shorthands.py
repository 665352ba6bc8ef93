"""Rows and effects in short: `Ignore`, `Reject`, `lose` and `each`."""

import enum
from collections.abc import Sequence
from typing import Any

from .formula import TRUE, Formula
from .kinds import require, shown
from .machine import Row, RowKind
from .sorts import Sort
from .symbols import Each, Message, Sent
from .triggers import Call, Completion, Timer


def Ignore(  # noqa: N802 - reads as a kind of row
    on: Sent | Call | Timer | Completion,
    *,
    at: enum.Enum | tuple[enum.Enum, ...] = (),
    when: Formula | Sequence[Formula] = (),
    why: str,
    name: str = "",
) -> Row:
    """A row for a trigger that changes nothing here, with the reason.

    name: for the second one that ignores the same in the same states.
    """
    return _without_effect("ignore", on, at, when, why, name)


def Reject(  # noqa: N802 - as above
    on: Sent | Call | Completion,
    *,
    at: enum.Enum | tuple[enum.Enum, ...] = (),
    when: Formula | Sequence[Formula] = (),
    why: str,
    name: str = "",
) -> Row:
    """A row for a trigger that only a faulty peer can cause; the explorer proves that none does.

    name: for the second one that rejects the same in the same states.
    """
    return _without_effect("reject", on, at, when, why, name)


def _without_effect(
    kind: RowKind,
    on: Sent | Call | Timer | Completion,
    at: enum.Enum | tuple[enum.Enum, ...],
    when: Formula | Sequence[Formula],
    why: str,
    name: str,
) -> Row:
    states = at if isinstance(at, tuple) else (at,)
    given: tuple[object, ...] = states
    # A value of no enum is refused with the row.
    values = (state.name.lower() for state in given if isinstance(state, enum.Enum))
    trigger = on.symbol.name if isinstance(on, Sent) else getattr(on, "name", "?")
    name = name or "_".join([kind, trigger, *values])
    return Row(name, on=on, at=at, when=when, fair=False, why=why, kind=kind)


def each(variable: Sort, sent: Sent, *, where: Formula = TRUE) -> Each:
    """Send the message to every element of the variable's sort for which `where` holds."""
    given: tuple[object, object] = variable, sent
    require(isinstance(given[0], Sort) and isinstance(given[1], Sent),
            f"each({shown(variable)}, {shown(sent)}): want a variable and then a message that uses "
            "it, as in each(v, ask(v))")
    return Each(variable, sent, where)


def lose(message: Message[*tuple[Any, ...]]) -> Row:
    """The fault row that takes one instance of the message off the network (for a world table)."""
    require(isinstance(message, Message), f"lose({shown(message)}): want a message without its "
                                          "arguments, as in lose(ask)")
    instance = message(*message.formals)
    return Row(
        f"lose_{message.name}",
        choose=message.formals,
        when=[instance],
        do=[instance.to(False)],
        fair=False,
        why="the network loses it",
    )
