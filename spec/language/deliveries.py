"""The rule for a property that is judged where delivery takes messages off the network.

Rule 1: No row of such a system asks whether its own machine has sent a message. A real process
remembers what it has sent, but a state loses its delivered messages.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .formula import atoms
from .machine import Row, Table
from .place import SpecError
from .properties import Fairness, LeadsTo
from .symbols import Message, Sent

if TYPE_CHECKING:
    from .system import System


def check_own_messages(
    system: "System", fresh: Iterable[tuple[Table, Row]], like: "System | None"
) -> None:
    """Raise SpecError for the first row that breaks rule 1.

    fresh: the rows that the other, checked system does not have.
    """
    if _takes_delivered(system):
        for table, row in fresh if like and _takes_delivered(like) else system.rows():
            _check_row(table, row)


def _takes_delivered(system: "System") -> bool:
    return any(Fairness.CONSUMED in claim.under for claim in system.properties
               if isinstance(claim, LeadsTo))


def _check_row(table: Table, row: Row) -> None:
    machine = table.machine
    if machine.world:
        return
    for atom, _ in (read for formula in table.formulas(row) for read in atoms(formula)):
        message = atom.symbol
        if not isinstance(message, Message) or message.sender.machine is not machine:
            continue
        if Sent(message, atom.arguments, True).addressed(message.sender) == machine.own:
            raise SpecError(
                row.place, f"row {row.name!r} of {machine.name}: it reads {message}, which "
                f"{machine.name} sends, and a property is judged where delivery takes messages "
                "off the network: keep a relation that says it has been sent")
