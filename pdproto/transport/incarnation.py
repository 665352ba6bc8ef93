"""The number that tells a process from those that had its name before it, and will have it later.

It grows: the registry takes the larger of two for the later, and a random number would have it
refuse every second restart. And nobody else has it: a life is known by it (runtime/wire.py), and
two decode ranks may start within one tick of a clock. So its upper bits are the time, of which a
restart takes more than a step, and its lower bits are drawn.
"""

import secrets
from time import time_ns
from typing import Final

DRAWN_BITS: Final = 20  # the time goes on in steps of 1.05 ms


def new_incarnation() -> int:
    """For a process, or a group of ranks that start and die as one. 61 bits; never 0."""
    return time_ns() >> DRAWN_BITS << DRAWN_BITS | secrets.randbits(DRAWN_BITS)
