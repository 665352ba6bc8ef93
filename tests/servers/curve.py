"""The time to the first token over the length of the prompt, asked for one prompt after the other.

    .venv-sglang/bin/python -m tests.servers.bench --curve --rounds 3
    .venv-vllm/bin/python -m tests.vllm_servers.bench --curve --rounds 3

Ways to serve come in turns, so that all meet the same machine. Prefill computes CHUNK tokens at a
time, and so does the one server that stands beside the pairs. A point is the median of the rounds'
medians, in milliseconds. Each engine keeps its own in curve.json, from which the picture of both
guides is drawn.
"""

import json
import os
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from examples.servers.demo import say
from examples.servers.serving import Server
from pdproto.check.report.markup import Markup, element
from pdproto.check.report.panels import Sheet, Stroke, path, rule, text
from tests.servers.load import VOCABULARY, Ask, Through, Way, send
from tests.servers.reference import Starts

KEPT: Final = Path(__file__).with_name("curve.json")
PICTURE: Final = Path("docs/first-token.svg")
CHUNK: Final = 256
LENGTHS: Final = (64, 256, 512, 1_024, 1_536, 1_900)
ASKED: Final = 12  # prompts of each length, in a round
ALONE: Final = "one server"

SHEET: Final = Sheet((430, 300), legend_height=36, legend_left=16, legend_pitch=165)
MARGIN: Final = (56, 36, 20, 40)  # left, top, right, bottom
STROKES: Final = (
    Stroke(ALONE, "#5b6b7f", "2 3"), Stroke("pdproto, in turn", "#0a7d55", "5 4"),
    Stroke("pdproto, at once", "#0a7d55"), Stroke("NIXL", "#b3372f"),
    Stroke("Mooncake", "#b3372f", "8 3"))
TICKS: Final = 5  # lines of the grid

Ways: TypeAlias = Mapping[str, Callable[[], AbstractContextManager[Way]]]
Curves: TypeAlias = Mapping[str, Mapping[str, float]]  # by way and length, in milliseconds


@contextmanager
def one_server(
    servers: Starts, model: Path, flags: Sequence[str], way: Callable[[str], Way] = Through
) -> Iterator[Way]:
    """That does both, while it is asked."""
    server: Server = servers.start("alone", model, flags)
    try:
        server.wait_healthy()
        yield way(server.url)
    finally:
        servers.end(server)


def measure(engine: str, ways: Ways, rounds: int) -> None:
    """Keep the curves of this engine, and draw the picture anew."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for name, serve in list(ways.items())[::-1 if number % 2 else 1]:
            with serve() as way:
                _first(way, 300, -1)  # warm
                for length in LENGTHS:
                    found[name][str(length)].append(at := _first(way, length, number))
                    say(f"round {number + 1}, {name}, {length:,} tokens: {at:.1f} ms; "
                        f"load {os.getloadavg()[0]:.1f}")
    curves = {name: {length: round(statistics.median(of), 1) for length, of in points.items()}
              for name, points in found.items()}
    kept = {**json.loads(KEPT.read_text()), engine: {name: curves[name] for name in ways}}
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    PICTURE.write_text(drawn(kept))


def _first(way: Way, length: int, seed: int) -> float:
    """The median of some prompts of this length that no cache knows, in milliseconds."""
    chance = random.Random(f"{length} {seed}")  # noqa: S311
    wanted = [Ask(tuple(chance.choices(VOCABULARY, k=length)), 4) for _ in range(ASKED)]
    answers = send(way, wanted, in_flight=1, seconds=60.0, stream=True)
    if failed := [answer.error for answer in answers if not answer.is_full]:
        raise RuntimeError(f"{len(failed)} of {ASKED} failed: {failed[0]}")
    return statistics.median((answer.first or 0.0) * 1e3 for answer in answers)


def drawn(engines: Mapping[str, Curves]) -> str:
    """The picture: a panel for each engine."""
    named = {name for curves in engines.values() for name in curves}
    return SHEET.drawn([_panel(*of) for of in sorted(engines.items())],
                       [stroke for stroke in STROKES if stroke.name in named])


def _panel(engine: str, curves: Curves) -> Iterator[Markup]:
    left, top, right, bottom = MARGIN
    wide, tall = SHEET.panel[0] - left - right, SHEET.panel[1] - top - bottom
    most = max(at for points in curves.values() for at in points.values())

    def x(length: int) -> float:
        return left + wide * length / max(LENGTHS)

    def y(milliseconds: float) -> float:
        return top + tall * (1 - milliseconds / most)

    yield text(f"{engine}: ms to the first token by tokens of the prompt", left, top - 14,
               weight="bold")
    for tick in range(TICKS + 1):
        yield rule(left, left + wide, y(at := most * tick / TICKS))
        yield text(f"{at:.0f}", left - 6, y(at) + 4, anchor="end")
    for length in LENGTHS:
        yield text(f"{length:,}", x(length), top + tall + 18, anchor="middle")
    for stroke in STROKES:
        points = [(x(int(length)), y(at)) for length, at in curves.get(stroke.name, {}).items()]
        if points:
            yield path(points, stroke)
            for across, down in points:
                yield element("circle", cx=f"{across:.1f}", cy=f"{down:.1f}", r="2.5",
                              fill=stroke.colour)
