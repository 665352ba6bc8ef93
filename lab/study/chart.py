"""The chart of a study, as SVG: the change of the time to the first token.

It has a panel for each parameter, which shows the change of the median and of the 99th percentile,
simulated and measured, and the published claim.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lab.study.report import StudyRow
from pdproto.check.report.markup import Markup, element
from pdproto.check.report.panels import Sheet, Stroke, path, rule, text

SHEET: Final = Sheet((380, 230), legend_height=36, legend_left=16, legend_pitch=148)
MARGIN: Final = (56, 36, 20, 40)  # left, top, right, bottom
GRID: Final = 0.2  # between two lines of it
PUBLISHED: Final = -0.5  # of the 99th percentile
CLAIM: Final = Stroke("P99, published", "#b3372f", "2 3")


@dataclass(frozen=True, slots=True)
class Line(Stroke):
    """One line of every panel."""

    def values(self, rows: Sequence[StudyRow]) -> list[float]:
        """The relative changes: -0.5 halves the time."""
        halves = [of.simulated if "simulated" in self.name else of.measured for of in rows]
        return [of.p99_change if "P99" in self.name else of.median_change for of in halves]


LINES: Final = (
    Line("median, simulated", "#5b6b7f"),
    Line("median, processes", "#0a7d55"),
    Line("P99, simulated", "#5b6b7f", "5 4"),
    Line("P99, processes", "#0a7d55", "5 4"),
)


def chart(rows: Iterable[StudyRow]) -> str:
    """The whole picture."""
    panels = [(name, list(of)) for name, of in groupby(rows, key=lambda row: row.cell.varied)]
    changes = [value for _, of in panels for line in LINES for value in line.values(of)]
    low, high = min([PUBLISHED, *changes]), max([0.0, *changes])
    scale = GRID * (low // GRID), GRID * -(-high // GRID)
    return SHEET.drawn([_panel(name, of, *scale) for name, of in panels], (*LINES, CLAIM))


def _panel(name: str, rows: Sequence[StudyRow], low: float, high: float) -> Iterator[Markup]:
    left, top, right, bottom = MARGIN
    wide, tall = SHEET.panel[0] - left - right, SHEET.panel[1] - top - bottom

    def y(value: float) -> float:
        return top + tall * (high - value) / (high - low)

    xs = [left + wide * place / max(1, len(rows) - 1) for place in range(len(rows))]
    yield text(f"change of the time to first token by {name}", left, top - 14, weight="bold")
    for step in range(round((high - low) / GRID) + 1):
        value = low + step * GRID
        yield rule(left, left + wide, y(value))
        yield text(f"{value:+.0%}" if round(value, 6) else "0%", left - 6, y(value) + 4,
                    anchor="end")
    yield path([(left, y(PUBLISHED)), (left + wide, y(PUBLISHED))], CLAIM)
    for x, row in zip(xs, rows, strict=True):
        yield text(row.cell.value, x, top + tall + 18, anchor="middle")
    for line in LINES:
        points = [(x, y(value)) for x, value in zip(xs, line.values(rows), strict=True)]
        yield path(points, line)
        for x, at in points:
            yield element("circle", cx=f"{x:.1f}", cy=f"{at:.1f}", r="2.5", fill=line.colour)
