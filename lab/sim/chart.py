"""The study as an SVG picture: a panel for each parameter, with the median and the 99th percentile
of both ways.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lab.sim.study import MS, Arm, Pair
from pdproto.check.report.markup import Markup
from pdproto.check.report.panels import Sheet, Stroke, path, rule, text

SHEET: Final = Sheet((320, 240), legend_height=32, legend_left=24, legend_pitch=150)
MARGIN: Final = (56, 36, 16, 44)  # left, top, right, bottom
TICKS: Final = 4


@dataclass(frozen=True, slots=True)
class Line(Stroke):
    """One line of every panel."""

    def values(self, pairs: Sequence[Pair]) -> list[float]:
        """The values of this line in milliseconds."""
        arms: list[Arm] = [pair.optimistic if "optimistic" in self.name else pair.without
                           for pair in pairs]
        return [(arm.p99_s if "P99" in self.name else arm.median_s) / MS for arm in arms]


LINES: Final = (
    Line("median", "#5b6b7f"),
    Line("median, optimistic", "#0a7d55"),
    Line("P99", "#5b6b7f", "5 4"),
    Line("P99, optimistic", "#0a7d55", "5 4"),
)


def chart(pairs: Iterable[Pair]) -> str:
    """The whole picture."""
    panels = [(name, list(of)) for name, of in groupby(pairs, key=lambda pair: pair.varied)]
    return SHEET.drawn([_panel(name, of) for name, of in panels], LINES)


def _panel(name: str, pairs: Sequence[Pair]) -> Iterator[Markup]:
    left, top, right, bottom = MARGIN
    wide, high = SHEET.panel[0] - left - right, SHEET.panel[1] - top - bottom
    most = max(value for line in LINES for value in line.values(pairs))
    step = _step(most)
    top_value = step * -(-most // step)

    def y(value: float) -> float:
        return top + high * (1.0 - value / top_value)

    xs = [left + wide * place / max(1, len(pairs) - 1) for place in range(len(pairs))]
    yield text(f"time to first token by {name} (ms)", left, top - 14, weight="bold")
    value = 0.0
    while value <= top_value:
        yield rule(left, left + wide, y(value))
        yield text(f"{value:g}", left - 6, y(value) + 4, anchor="end")
        value += step
    for x, pair in zip(xs, pairs, strict=True):
        yield text(pair.value, x, top + high + 18, anchor="middle")
    for line in LINES:
        yield path([(x, y(v)) for x, v in zip(xs, line.values(pairs), strict=True)], line)


def _step(most: float) -> float:
    """A round number that divides the axis."""
    step = 1.0
    while most / step > TICKS:
        step *= 2.0 if str(step)[0] in "15" else 2.5
    return step
