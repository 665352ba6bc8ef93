"""Checks that a message that can be lost, and that a fair row waits for, is sent again.

A row *resends* a message if it is fair and can fire again after its own update, with the message
lost. A row that a message triggers counts only if that message is resent too. Reliable messages
need no resend.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from pdproto.check.lint.remark import Remark, Severity
from pdproto.check.lint.solver import after
from pdproto.check.lint.subject import LintSubject
from pdproto.ground.grounding import GroundRow
from pdproto.spec.language.machine import Row
from pdproto.spec.language.symbols import Message, Sent, sent_by
from pdproto.spec.language.system import System

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]


def resends(subject: LintSubject) -> Iterator[Remark]:
    """The messages that a fair row waits for, and that are never resent after a loss."""
    lost = losing_layers(subject.system)
    durable = _durable(subject, set(lost))
    for message, layer in lost.items():
        if message in durable or message.reliable:
            continue
        waiting = next((row for row in _waiting(subject.system, message)), None)
        if waiting is not None:
            problem = (
                f"{waiting.name} waits for {message}, which layer {layer} can lose, "
                f"and no fair row sends it again: add a timer's row that does, unless it may "
                f"be lost for good"
            )
            yield Remark("resend", Severity.WARNING, problem, message.place)


def losing_layers(system: System) -> dict[AnyMessage, str]:
    """The messages that some fault row takes off the network, each with the first such layer."""
    found: dict[AnyMessage, str] = {}
    for layer, tables in system.faults.items():
        for table in tables:
            for row in table.rows:
                for update in row.do:
                    if isinstance(update.symbol, Message) and update.value is False:
                        found.setdefault(update.symbol, layer)
                if table.machine.world and isinstance(row.on, Sent):  # off an ordered channel
                    found.setdefault(row.on.message, layer)
    return found


def _waiting(system: System, message: AnyMessage) -> Iterator[Row]:
    for _, row in system.rows():
        if isinstance(row.on, Sent) and row.on.message is message and row.is_fair:
            yield row


def _durable(subject: LintSubject, lost: set[AnyMessage]) -> set[AnyMessage]:
    """The messages that arrive in the end: a least fixpoint over the triggers of resending rows."""
    durable = {s for s in subject.system.variables if isinstance(s, Message)} - lost
    durable |= {message for message in lost if message.reliable}
    again = [
        (row.row, message)
        for number, row in subject.live_rows
        if row.row.is_fair
        for message in _sent(row.row) & lost
        if _fires_again(subject, number, row, message)
    ]
    while True:
        fresh = {
            message
            for row, message in again
            if not isinstance(row.on, Sent) or row.on.message in durable
        }
        if fresh <= durable:
            return durable
        durable |= fresh


def _sent(row: Row) -> set[AnyMessage]:
    return {sent_by(e).message for e in row.send}


def _fires_again(subject: LintSubject, number: int, row: GroundRow, message: AnyMessage) -> bool:
    """Whether the guard can hold before the row's update, and after it with the message lost."""
    written = {
        cell: 0b01 if subject.names[cell][0] is message else code
        for cell, code in subject.written(row).items()
    }
    guard = subject.guards[number]
    again = tuple(after(constraint, written) for constraint in guard)
    return subject.solve(subject.reachable, guard + again) is not None
