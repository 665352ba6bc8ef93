"""A study as a picture: how far the time to the first token falls, in both halves, as SVG.

A panel for each parameter; in it the change of the median and of the 99th percentile, simulated
and measured, and the published claim.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pdproto.check.report.markup import Markup, element, escaped
from pdproto.cli.study_report import Row

PANEL: Final = (380, 230)
MARGIN: Final = (56, 36, 20, 40)  # left, top, right, bottom
COLUMNS: Final = 2
LEGEND_HEIGHT: Final = 36
GRID: Final = 0.2  # between two lines of it
PUBLISHED: Final = -0.5  # of the 99th percentile
RED: Final = "#b3372f"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of every panel."""

    name: str
    colour: str
    dashes: str

    def values(self, rows: Sequence[Row]) -> list[float]:
        """Changes: -0.5 is half of it gone."""
        halves = [of.simulated if "simulated" in self.name else of.measured for of in rows]
        return [of.p99_change if "P99" in self.name else of.median_change for of in halves]


LINES: Final = (
    Line("median, simulated", "#5b6b7f", ""),
    Line("median, processes", "#0a7d55", ""),
    Line("P99, simulated", "#5b6b7f", "5 4"),
    Line("P99, processes", "#0a7d55", "5 4"),
)


def chart(rows: Iterable[Row]) -> str:
    """The whole picture."""
    panels = [(name, list(of)) for name, of in groupby(rows, key=lambda row: row.cell.varied)]
    changes = [value for _, of in panels for line in LINES for value in line.values(of)]
    low, high = min([PUBLISHED, *changes]), max([0.0, *changes])
    scale = GRID * (low // GRID), GRID * -(-high // GRID)
    width = COLUMNS * PANEL[0]
    height = -(-len(panels) // COLUMNS) * PANEL[1] + LEGEND_HEIGHT
    drawn = [
        element("g", *_panel(name, of, *scale),
                transform=f"translate({place % COLUMNS * PANEL[0]} "
                          f"{place // COLUMNS * PANEL[1] + LEGEND_HEIGHT})")
        for place, (name, of) in enumerate(panels)
    ]
    return str(element(
        "svg", element("rect", width=str(width), height=str(height), fill="white"),
        *_legend(), *drawn, xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}", font_family="sans-serif", font_size="11"))


def _legend() -> Iterator[Markup]:
    for place, line in enumerate((*LINES, Line("P99, published", RED, "2 3"))):
        x = 16 + place * 148
        yield _path([(x, 16), (x + 26, 16)], line)
        yield _text(line.name, x + 32, 20)


def _panel(name: str, rows: Sequence[Row], low: float, high: float) -> Iterator[Markup]:
    left, top, right, bottom = MARGIN
    wide, tall = PANEL[0] - left - right, PANEL[1] - top - bottom

    def y(value: float) -> float:
        return top + tall * (high - value) / (high - low)

    xs = [left + wide * place / max(1, len(rows) - 1) for place in range(len(rows))]
    yield _text(f"change of the time to first token by {name}", left, top - 14, weight="bold")
    for step in range(round((high - low) / GRID) + 1):
        value = low + step * GRID
        yield element("line", x1=f"{left}", x2=f"{left + wide}", y1=f"{y(value):.1f}",
                      y2=f"{y(value):.1f}", stroke="#dde3ea")
        yield _text(f"{value:+.0%}" if round(value, 6) else "0%", left - 6, y(value) + 4,
                    anchor="end")
    yield _path([(left, y(PUBLISHED)), (left + wide, y(PUBLISHED))], Line("", RED, "2 3"))
    for x, row in zip(xs, rows, strict=True):
        yield _text(row.cell.value, x, top + tall + 18, anchor="middle")
    for line in LINES:
        points = [(x, y(value)) for x, value in zip(xs, line.values(rows), strict=True)]
        yield _path(points, line)
        for x, at in points:
            yield element("circle", cx=f"{x:.1f}", cy=f"{at:.1f}", r="2.5", fill=line.colour)


def _path(points: Sequence[tuple[float, float]], line: Line) -> Markup:
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), fill="none",
                   stroke=line.colour, stroke_width="2", stroke_dasharray=line.dashes)


def _text(
    text: str, x: float, y: float, *, anchor: str = "start", weight: str = "normal"
) -> Markup:
    return element("text", escaped(text), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor,
                   font_weight=weight, fill="#1c2733")
