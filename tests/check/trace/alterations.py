"""A golden trace, and all the ways to alter one of its lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdproto.check.trace.files import RejectedError
from pdproto.check.trace.instance import Tables
from pdproto.check.trace.replay import Replay
from pdproto.spec.language.system import System

GOLDEN = Path(__file__).parent / "golden"
Line = Mapping[str, Any]
Files = Sequence[Sequence[Line]]


def golden() -> list[list[Line]]:
    """The trace of `pdproto handoff --requests 6 --pp 2 --abort-rate 0.5`, a file a rank."""
    return [[json.loads(line) for line in path.read_bytes().splitlines()]
            for path in sorted(GOLDEN.glob("*.jsonl"))]


def write(lines: Sequence[Line], path: Path) -> Path:
    """The lines as a file."""
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def renumbered(lines: Sequence[Line]) -> list[Line]:
    """The lines as if they had been written so: what is left to tell is what they say."""
    return [{**line, "n": number} for number, line in enumerate(lines, start=1)]


class Replayer:
    """Replays alterations; the tables are compiled once, and only what has changed is written."""

    def __init__(self, system: System, folder: Path) -> None:
        self.tables = Tables(system)
        self.folder = folder
        self.there: dict[Path, Sequence[Line]] = {}

    def verdict(self, files: Files) -> str:
        """As the oracle answers: of whole files, holds, violated or unknown."""
        paths = [self.folder / f"{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            if self.there.get(path) is not lines:
                self.there[path] = lines
                write(lines, path)
        replay = Replay(self.tables, paths)
        try:
            replay.run()
        except RejectedError:
            return "violated"
        pending = any(i.local.pending(i.state) for i in replay.instances())
        return "unknown" if pending else "holds"


@dataclass(frozen=True)
class Alteration:
    """kind: what has been done. what: to a line of which row, or other kind."""

    kind: str
    what: str
    files: Files


def what(line: Line) -> str:
    """The row of a line, or what else it tells."""
    return str(line["row"]) if "row" in line else next(
        kind for kind in ("begins", "elements", "device", "heard") if kind in line)


def alterations(system: System, files: Files, *, renumber: bool = True) -> Iterator[Alteration]:
    """Every single alteration: a line dropped, swapped with the next of its endpoint, with another
    row of the same trigger, with another parameter.
    """
    for number, lines in enumerate(files):
        for place, line in enumerate(lines):
            for kind, altered in _altered(system, files, lines, place):
                one = renumbered(altered) if renumber else list(altered)
                yield Alteration(kind, what(line), [*files[:number], one, *files[number + 1:]])


def _altered(
    system: System, files: Files, lines: Sequence[Line], place: int
) -> Iterator[tuple[str, list[Line]]]:
    line = lines[place]
    before, behind = list(lines[:place]), list(lines[place + 1:])
    yield "dropped", [*before, *behind]
    later = next((i for i, other in enumerate(behind) if other["end"] == line["end"]), None)
    if later is not None:
        yield "swapped", [*before, behind[later], *behind[:later], line, *behind[later + 1:]]
    if "row" not in line:
        return
    table = next(t for t in system.tables if t.machine.name == line["machine"])
    for row in table.rows:
        names = {v.name for v in table.parameters(row)}
        on = None if row.on is None else str(row.on)
        if row.name != line["row"] and names == line["with"].keys() and on == line["on"]:
            yield "row", [*before, {**line, "row": row.name}, *behind]
    for name, element in line["with"].items():
        for other in _others(files, element):
            yield "parameter", [*before, {**line, "with": {**line["with"], name: other}}, *behind]


def _others(files: Files, element: Any) -> list[Any]:
    """Another element of the same sort."""
    if isinstance(element, int):
        return [element + 1]
    if isinstance(element, str):
        return sorted({lines[0]["node"] for lines in files} - {element})
    lives = [line["with"]["h"] for lines in files for line in lines
             if "with" in line and line["with"]["h"] not in (None, element)]
    return lives[:1]
