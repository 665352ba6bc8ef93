"""Pictures of several panels with one legend, as a self-contained SVG."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pdproto.check.report.markup import Markup, element, escaped

COLUMNS: Final = 2
INK: Final = "#1c2733"
RULE: Final = "#dde3ea"


@dataclass(frozen=True, slots=True)
class Stroke:
    """The style of a line, and its name in the legend. dashes: a `stroke-dasharray` of SVG."""

    name: str
    colour: str
    dashes: str = "none"


@dataclass(frozen=True, slots=True)
class Sheet:
    """Panels of one size, in pixels. legend_pitch: from one line of the legend to the next."""

    panel: tuple[int, int]
    legend_height: int
    legend_left: int
    legend_pitch: int

    def drawn(self, panels: Sequence[Iterable[Markup]], strokes: Iterable[Stroke]) -> str:
        """The whole picture as SVG text."""
        wide, high = self.panel
        width, height = COLUMNS * wide, -(-len(panels) // COLUMNS) * high + self.legend_height
        placed = [
            element("g", *panel, transform=f"translate({place % COLUMNS * wide} "
                                           f"{place // COLUMNS * high + self.legend_height})")
            for place, panel in enumerate(panels)
        ]
        return str(element(
            "svg", element("rect", width=str(width), height=str(height), fill="white"),
            *self._legend(strokes), *placed, xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}", font_family="sans-serif", font_size="11"))

    def _legend(self, strokes: Iterable[Stroke]) -> Iterator[Markup]:
        for place, stroke in enumerate(strokes):
            x = self.legend_left + place * self.legend_pitch
            yield path([(x, 16), (x + 26, 16)], stroke)
            yield text(stroke.name, x + 32, 20)


def path(points: Iterable[tuple[float, float]], stroke: Stroke) -> Markup:
    """A line through the points."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), fill="none",
                   stroke=stroke.colour, stroke_width="2", stroke_dasharray=stroke.dashes)


def rule(left: float, right: float, y: float) -> Markup:
    """A line of the grid."""
    return element("line", x1=f"{left}", x2=f"{right}", y1=f"{y:.1f}", y2=f"{y:.1f}", stroke=RULE)


def text(
    words: str, x: float, y: float, *, anchor: str = "start", weight: str = "normal"
) -> Markup:
    """Words at a point."""
    return element("text", escaped(words), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor,
                   font_weight=weight, fill=INK)
