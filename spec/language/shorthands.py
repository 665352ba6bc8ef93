"""Rows and effects in short: `Ignore`, `Reject`, `lose` and `each`."""

import enum
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from .formula import TRUE, And, Formula
from .kinds import require, shown
from .machine import Row, RowKind
from .sorts import ANY, Sort
from .symbols import Computed, Each, Message, Sent, Update
from .triggers import Call, Completion, Timer
from .updates import Updates, names_no_cell


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
    # Delivery takes a message off its channel, also if it is ignored; those behind it wait for it.
    queued = isinstance(on, Sent) and on.message.fifo is not None
    return Row(name, on=on, at=at, when=when, fair=queued, why=why, kind=kind)


@overload
def each(variables: Sort, effect: Sent, *, where: Formula = TRUE) -> Each: ...
@overload
def each(
    variables: Sort | tuple[Sort, ...], effect: Update, *, where: Formula = TRUE
) -> Update: ...
@overload
def each(
    variables: Sort | tuple[Sort, ...], effect: Updates, *, where: Formula = TRUE
) -> Updates: ...
def each(
    variables: Sort | tuple[Sort, ...], effect: Sent | Update | Updates, *, where: Formula = TRUE
) -> Each | Update | Updates:
    """The effect for every element of the variable's sort for which `where` holds.

    A message has one variable, and its `where` does not change: rigid symbols and identity. The
    `where` of an update reads the state before the row, as a guard of its machine may.
    """
    given: tuple[object, object] = variables, effect
    if isinstance(given[0], Sort) and isinstance(given[1], Sent):
        return Each(given[0], given[1], where)
    named = variables if isinstance(variables, tuple) else (variables,)
    if isinstance(effect, Updates):
        return Updates(each(variables, one, where=where) for one in effect)
    require(isinstance(given[1], Update) and all(isinstance(v, Sort) for v in named),
            f"each({shown(variables)}, {shown(effect)}): want a variable and then a message or an "
            "update that uses it, as in each(v, ask(v)) or each(v, lent(v).to(True))")
    return _bulk(named, effect, where)  # type: ignore[arg-type]  # as required


def _bulk(variables: tuple[Sort, ...], update: Update, where: Formula) -> Update:
    cell, _ = update.symbol.reading(update.arguments, update.value)
    named = cell if where is TRUE else update.arguments  # check_each has the rest
    for variable in variables:
        require(variable in named, f"each({variable!r}, {update!r}): {names_no_cell(variable)}")
    once = all(update.arguments.count(variable) == 1 for variable in variables)
    # A computed value may be another one in each cell.
    if where is TRUE and update.where is TRUE and once and not isinstance(update.value, Computed):
        every = tuple(ANY if one in variables else one for one in update.arguments)
        return replace(update, arguments=every)
    both = where if update.where is TRUE else And((where, update.where))
    return replace(update, variables=(*variables, *update.variables), where=both)


def lose(message: Message[*tuple[Any, ...]]) -> Row:
    """The fault row that takes one instance of the message off the network (for a world table).

    It takes the first message of a channel. So every message can be lost: each is the first, once.
    """
    require(isinstance(message, Message), f"lose({shown(message)}): want a message without its "
                                          "arguments, as in lose(ask)")
    instance = message(*message.formals)
    if message.fifo is not None:
        return Row(f"lose_{message.name}", on=instance, fair=False, why="the network loses it")
    return Row(
        f"lose_{message.name}",
        choose=message.formals,
        when=[instance],
        do=[instance.to(False)],
        fair=False,
        why="the network loses it",
    )
