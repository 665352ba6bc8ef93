"""The alternating bit protocol over a link that changes the order of packets: a mistake.

One bit tells a packet from the one before it, and not from the one before that. So a packet that
arrives late, after the bit has gone round, is taken for the next item.

Rule 3 of alternating_bit.py forbids such a link.
"""

from typing import Final

from pdproto.spec.examples.alternating_bit import SYSTEM as ALTERNATING_BIT
from pdproto.spec.examples.alternating_bit import arrived, n
from pdproto.spec.language import DropClause, DropRow, System, edited

IN_ORDER: Final = ~arrived().after(n)

SYSTEM: Final[System] = edited(
    ALTERNATING_BIT, "alternating-bit-broken",
    DropRow("ignore_data"),
    *(DropClause(row, IN_ORDER)
      for row in ("take_even", "take_odd", "see_even_again", "see_odd_again")),
    about="The alternating bit protocol over a link that changes the order, which is a mistake.",
)
