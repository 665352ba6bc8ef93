"""The alternating bit protocol over a link that changes the order of packets: a mistake.

One bit tells a packet from the one before it, and not from the one before that. So a packet that
arrives late, after the bit has gone round, is taken for the next item.

Rule 3 of alternating_bit.py forbids such a link.
"""

from typing import Final

from pdproto.spec.examples.alternating_bit import AlternatingBit
from pdproto.spec.language import System

SYSTEM: Final[System] = AlternatingBit(None).system(
    "alternating-bit-broken",
    "The alternating bit protocol over a link that changes the order, which is a mistake.")
