"""The verdict of some runs of a system, which are not all: `run`, `fuzz` and `sim` have one.

Exit status, terminal and JSON tell the same `Outcome`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_STEP: Final = "no step was taken, so nothing was compared"
NONE_JUDGED: Final = "no run judges what was asked"
INTERRUPTED: Final = "interrupted: these runs are not all"
NOTHING_SEEN: Final = "no violation was seen, which proves nothing"


class Shown(StrEnum):
    """What the runs show."""

    CLEAN = "no violation seen"
    VIOLATED = "violated"
    UNKNOWN = "unknown"  # nothing was compared, or not all runs were made


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict. told: the reason; empty for a violation."""

    seen: Shown
    told: str = ""

    @property
    def exit_status(self) -> int:
        """The exit status of the command that made the runs."""
        return {Shown.CLEAN: 0, Shown.VIOLATED: 1, Shown.UNKNOWN: 3}[self.seen]


def outcome(
    *, violated: bool, steps: int, judged: bool = True, interrupted: bool = False
) -> Outcome:
    """steps: of all runs. judged: whether they judge any property that was asked for."""
    if violated:
        return Outcome(Shown.VIOLATED)
    for is_unknown, told in ((interrupted, INTERRUPTED), (not steps, NO_STEP),
                             (not judged, NONE_JUDGED)):
        if is_unknown:
            return Outcome(Shown.UNKNOWN, told)
    return Outcome(Shown.CLEAN, NOTHING_SEEN)
