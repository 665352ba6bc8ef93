"""The incarnation: a number that distinguishes the runs of a process under one name.

A later run must have a greater number, because the registry takes the greater one for the later;
with random numbers it would refuse every second restart. And two processes must not have the same
number, because it identifies lives (runtime/wire.py), and two decode ranks may start within one
tick of a clock. So the upper bits are the time, in steps that are shorter than a restart, and the
lower bits are random.
"""

import secrets
from time import time_ns
from typing import Final

RANDOM_BITS: Final = 20  # so the time has steps of 1.05 ms
AHEAD_NS: Final = 366 * 86_400 * 10**9  # that the clock of another host may be ahead of this one's


def new_incarnation() -> int:
    """A new incarnation, for a process or for a group of ranks that start and end together.

    61 bits; never 0.
    """
    return time_ns() >> RANDOM_BITS << RANDOM_BITS | secrets.randbits(RANDOM_BITS)


def is_too_late(incarnation: int) -> bool:
    """Whether no clock can have given this incarnation by now. A later run must exceed it: of the
    greatest number, there would be none.
    """
    return incarnation > time_ns() + AHEAD_NS
