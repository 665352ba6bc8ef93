"""Seeds that no other night has drawn. The name of a test has its seed, and the head of a run the
night: `TESTS_NIGHT=20787 python -m pytest ...` draws those of that night again.
"""

import os
import time
from typing import Final

VARIABLE: Final = "TESTS_NIGHT"
# The days since 1970, the same in each process of a run: workers get the environment of the first.
NIGHT: Final = int(os.environ.setdefault(VARIABLE, str(int(time.time()) // 86_400)))
PER_NIGHT: Final = 1_000
BEHIND: Final = 1_000_000  # the seeds that are written in tests
BEFORE: Final = 100_000_000  # where seeds of another kind begin (tests/oracle/systems.py)


def seeds(first: int, count: int) -> range:
    """So many seeds of tonight, of the kind whose seeds begin at `first`; at most PER_NIGHT."""
    start = first + BEHIND + NIGHT * PER_NIGHT % (BEFORE - BEHIND - PER_NIGHT)
    return range(start, start + count)


def header() -> str:
    """A line for the head of a run."""
    return f"seeds of the night: {VARIABLE}={NIGHT}"
