"""Whether the resident memory of a process grows with the hand-overs that it takes part in.

The slope of a process is the median of the slopes between any two of its samples (Theil and Sen),
so single samples do not decide. A sample is taken at each rest, when every process holds nothing.

LIMIT comes from the smallest leak that there is. A process that keeps one number of each hand-over
in a set keeps an `int` (32 bytes) and a slot of the set (16 bytes, of which at most three fifths
are in use): 58 bytes at least. So the limit is 48 bytes per hand-over.

SPAN comes from the unit in which memory grows: Python takes arenas of 1 MiB. Over 50,000 hand-overs
a process at the limit grows by 2.4 MB, so two more arenas stay below it. A shorter series is not
judged. WARM_UP leaves out the hand-overs in which pools and caches are filled. The last to be full
is the table of used rooms of a prefill rank (USED_ROOMS_MAX): until then it grows by an entry for
each hand-over, and it has its last size after half as many more.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

LIMIT: Final = 48_000.0  # bytes per 1,000 hand-overs
SPAN: Final = 50_000  # hand-overs between the first and the last sample
WARM_UP: Final = 100_000  # hand-overs; at least 3/2 of USED_ROOMS_MAX
SAMPLES_MIN: Final = 5
SAMPLES_MAX: Final = 200


def resident_bytes(pid: int) -> int:
    """The resident memory of a process. Raises OSError if there is none."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Growth(Struct):
    """The result for the processes of one kind. series: how many were long enough to be judged.

    worst: the largest slope, in bytes per 1,000 hand-overs. handoffs: in all these series.
    """

    series: int = 0
    worst: float = 0.0
    handoffs: int = 0


@dataclass(slots=True)
class Series:
    """The samples of one process: (hand-overs until then, bytes)."""

    kind: str
    samples: list[tuple[int, int]] = field(default_factory=list)

    def add(self, handoffs: int, resident: int) -> None:
        """Add a sample. Of a long series, every second sample is dropped now and then."""
        if len(self.samples) == SAMPLES_MAX:
            del self.samples[1::2]
        self.samples.append((handoffs, resident))

    @property
    def warm(self) -> list[tuple[int, int]]:
        """The samples after the warm-up."""
        return [sample for sample in self.samples if sample[0] >= WARM_UP]

    @property
    def span(self) -> int:
        """The hand-overs between the first and the last sample after the warm-up."""
        warm = self.warm
        return warm[-1][0] - warm[0][0] if warm else 0

    @property
    def slope(self) -> float | None:
        """Bytes per 1,000 hand-overs; None for a series that is too short."""
        warm = self.warm
        if len(warm) < SAMPLES_MIN or self.span < SPAN:
            return None
        return median(1e3 * (after[1] - before[1]) / (after[0] - before[0])
                      for before, after in combinations(warm, 2) if after[0] > before[0])


class MemoryWatch:
    """The series of all processes that live now, by a name that no other process gets.

    first: the number of the first hand-over of the router that watches.
    """

    def __init__(self, first: int) -> None:
        self.first: Final = first
        self._series: Final[dict[str, Series]] = {}

    def sample(self, kind: str, name: str, handoffs: int, resident: int) -> None:
        """Add a sample of a process."""
        self._series.setdefault(name, Series(kind)).add(handoffs, resident)

    def keep(self, names: Collection[str], growth: dict[str, Growth]) -> list[str]:
        """End the series of all processes but these, and add their results to `growth`, by kind.

        Returns a line for each process whose memory grows.
        """
        lines = []
        for name in [name for name in self._series if name not in names]:
            series = self._series.pop(name)
            slope = series.slope
            if slope is None:
                continue
            known = growth.setdefault(series.kind, Growth(worst=slope))
            known.series += 1
            known.handoffs += series.span
            known.worst = max(known.worst, slope)
            if slope > LIMIT:
                lines.append(f"{name}: its memory grows by {slope:,.0f} bytes per 1,000 hand-overs "
                             f"({LIMIT:,.0f} is the limit), over {series.span:,} hand-overs")
        return lines
