"""`pdproto handoff` as tests run it: its numbers, and the traces of all its processes."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pdproto.check.result import Verdict
from pdproto.check.trace.verdict import ReplayResult
from pdproto.check.trace.verify import verify
from pdproto.cli.systems import load
from tests.e2e.planted import DEFECT, command

# A drill with a defect may never end by itself.
LIMIT: Final = () if DEFECT is None else ("--timeout", "60")


def handoff(*options: str, seconds: float = 240.0) -> dict[str, Any]:
    """Run the command, which must end well, and return its numbers."""
    done = subprocess.run(
        [*command(), "handoff", "--quiet", "--json", "-", *options, *LIMIT],
        capture_output=True, text=True, timeout=seconds, check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    numbers: dict[str, Any] = json.loads(done.stdout)
    assert numbers["complaints"] == []
    assert numbers["verified_bytes"] > 0
    return numbers


class Drill:
    """One run of it, with the traces that it has left in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.numbers = handoff("--trace", str(folder), *options)

    def conforms(self, system: str) -> ReplayResult:
        """The replay of the traces of one system, which must find nothing wrong or missing."""
        verified = verify(load(system), self._files(system))
        assert verified.verdict is Verdict.HOLDS, verified
        return verified

    def lines(self, system: str, rank: str, machine: str) -> list[dict[str, Any]]:
        """What one machine of a rank has told, in order."""
        (path,) = (path for path in self._files(system) if path.stem == rank)
        with path.open() as file:
            return [line for line in map(json.loads, file) if line["machine"] == machine]

    def _files(self, system: str) -> list[Path]:
        folder = self.folder if system == "transfer" else self.folder / system
        return sorted(folder.glob("*.jsonl"))


def applied(lines: list[dict[str, Any]]) -> Iterator[tuple[int, str, int]]:
    """The decisions that a rank has applied: number, row, room; each where it has been done."""
    done = set()
    for line in lines:
        number = line.get("with", {}).get("n")
        if line.get("row") in APPLYING and number not in done:
            done.add(number)
            yield number, line["row"], line["with"]["h"][0]


APPLYING = ("start", "start_dead", "drain", "turn_away", "free", "free_broken")
