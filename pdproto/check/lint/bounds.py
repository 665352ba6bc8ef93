"""How much the rules examine: beyond a bound, nothing is asked.

The rules hold every choice of elements of a row, with every case of its guard, against the values
of the cells. A system and its errors differ little between two elements of a sort and a thousand.
"""

from math import prod
from typing import Final

from pdproto.check.rigid import choices, told_sizes
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import System

ELEMENTS: Final = 2  # of each sort, so that elements can differ
INTERPRETATIONS_MAX: Final = 64  # of the rigid symbols
PAIRS_MAX: Final = 5_000_000  # the largest system of the catalogue has 2,800,000; they take 5 s


def require_small(system: System, sizes: Sizes) -> None:
    """Raise TooLargeError if the rules would take long at these sizes."""
    cases = {
        row.name: choices(table.parameters(row), table.guard(row), sizes)
        for table, _ in system.tables_under(tuple(system.faults)) for row in table.rows
    }
    cells = sum(prod(sizes[sort] for sort in symbol.sorts) for symbol in system.variables)
    if sum(cases.values()) * cells > PAIRS_MAX:
        row = max(cases, key=lambda name: cases[name])
        raise TooLargeError(
            f"lint asked nothing at {told_sizes(system, sizes)}: {sum(cases.values()):,} cases of "
            f"rows, {cases[row]:,} of them of row {row!r}, on {cells:,} cells are too many; "
            f"without --size, lint takes {ELEMENTS} of each sort")
