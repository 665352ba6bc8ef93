"""The study as a picture: a panel for each parameter, with the median and the 99th percentile of
both ways, as SVG that needs nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pdproto.check.report.markup import Markup, element, escaped
from pdproto.sim.study import MS, Arm, Pair

PANEL: Final = (320, 240)
MARGIN: Final = (56, 36, 16, 44)  # left, top, right, bottom
COLUMNS: Final = 2
LEGEND_HEIGHT: Final = 32
TICKS: Final = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line of every panel."""

    name: str
    colour: str
    dashed: bool

    def values(self, pairs: Sequence[Pair]) -> list[float]:
        """Milliseconds."""
        arms: list[Arm] = [pair.optimistic if "optimistic" in self.name else pair.without
                           for pair in pairs]
        return [(arm.p99_s if "P99" in self.name else arm.median_s) / MS for arm in arms]


LINES: Final = (
    Line("median", "#5b6b7f", dashed=False),
    Line("median, optimistic", "#0a7d55", dashed=False),
    Line("P99", "#5b6b7f", dashed=True),
    Line("P99, optimistic", "#0a7d55", dashed=True),
)


def chart(pairs: Iterable[Pair]) -> str:
    """The whole picture."""
    panels = [(name, list(of)) for name, of in groupby(pairs, key=lambda pair: pair.varied)]
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * PANEL[0], rows * PANEL[1] + LEGEND_HEIGHT
    drawn = [
        element("g", *_panel(name, of),
                transform=f"translate({place % COLUMNS * PANEL[0]} "
                          f"{place // COLUMNS * PANEL[1] + LEGEND_HEIGHT})")
        for place, (name, of) in enumerate(panels)
    ]
    return str(element(
        "svg", element("rect", width=str(width), height=str(height), fill="white"),
        *_legend(), *drawn, xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}", font_family="sans-serif", font_size="11"))


def _legend() -> Iterator[Markup]:
    for place, line in enumerate(LINES):
        x = 24 + place * 150
        yield _path([(x, 16), (x + 26, 16)], line)
        yield _text(line.name, x + 32, 20)


def _panel(name: str, pairs: Sequence[Pair]) -> Iterator[Markup]:
    left, top, right, bottom = MARGIN
    wide, high = PANEL[0] - left - right, PANEL[1] - top - bottom
    most = max(value for line in LINES for value in line.values(pairs))
    step = _step(most)
    top_value = step * -(-most // step)

    def y(value: float) -> float:
        return top + high * (1.0 - value / top_value)

    xs = [left + wide * place / max(1, len(pairs) - 1) for place in range(len(pairs))]
    yield _text(f"time to first token by {name} (ms)", left, top - 14, weight="bold")
    value = 0.0
    while value <= top_value:
        yield element("line", x1=f"{left}", x2=f"{left + wide}", y1=f"{y(value):.1f}",
                      y2=f"{y(value):.1f}", stroke="#dde3ea")
        yield _text(f"{value:g}", left - 6, y(value) + 4, anchor="end")
        value += step
    for x, pair in zip(xs, pairs, strict=True):
        yield _text(pair.value, x, top + high + 18, anchor="middle")
    for line in LINES:
        yield _path([(x, y(v)) for x, v in zip(xs, line.values(pairs), strict=True)], line)


def _step(most: float) -> float:
    """A round number that divides the axis."""
    step = 1.0
    while most / step > TICKS:
        step *= 2.0 if str(step)[0] in "15" else 2.5
    return step


def _path(points: Sequence[tuple[float, float]], line: Line) -> Markup:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=drawn, fill="none", stroke=line.colour,
                   stroke_width="2", stroke_dasharray="5 4" if line.dashed else "none")


def _text(
    text: str, x: float, y: float, *, anchor: str = "start", weight: str = "normal"
) -> Markup:
    return element("text", escaped(text), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor,
                   font_weight=weight, fill="#1c2733")
