"""`pdproto handoff` as tests run it: its numbers, and the traces of all its processes.

The verb runs in the test's process, so that its drills share one process which has imported what
ranks need (pdproto/drill/children.py:context). With a defect it runs in a process of its own.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, Final, TypeAlias

from pdproto.check.result import Verdict
from pdproto.check.trace.verdict import ReplayResult
from pdproto.check.trace.verify import verify
from pdproto.cli.main import main
from pdproto.cli.systems import load
from tests.e2e.planted import DEFECT, command
from tests.servers.suite import within

Run: TypeAlias = "subprocess.CompletedProcess[str]"

# A drill with a defect may never end by itself. It waits for a minute until all is given back.
LIMIT: Final = () if DEFECT is None else ("--timeout", "100")


def handoff(*options: str, seconds: float = 240.0) -> dict[str, Any]:
    """Run the command, which must end well, and return its numbers."""
    return _of_a_good_end(run(*options, seconds=seconds))


def run(*options: str, seconds: float = 240.0) -> Run:
    """Run the command. Its numbers are on standard output, if it comes to any."""
    words = ["handoff", "--quiet", "--json", "-", *options, *LIMIT]
    if DEFECT is not None:
        return subprocess.run([*command(), *words], capture_output=True, text=True,
                              timeout=seconds, check=False)
    out, errors = StringIO(), StringIO()
    with within(seconds), redirect_stdout(out), redirect_stderr(errors):
        status = main(words)
    return subprocess.CompletedProcess(words, status, out.getvalue(), errors.getvalue())


def _of_a_good_end(done: Run) -> dict[str, Any]:
    assert done.stdout, done.stderr[-2000:]
    numbers: dict[str, Any] = json.loads(done.stdout)
    assert numbers["complaints"] == []
    assert done.returncode == 0, done.stderr[-2000:]
    assert numbers["verified_bytes"] > 0
    return numbers


class Drill:
    """One run of it, with the traces that it has left in a folder.

    A test looks at its own promise first, in the traces or in `reported`, so that it says which one
    is broken. Each module of tests has one that reads `numbers`: the run must end well.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._done: Final = run("--trace", str(folder), *options)

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """Its numbers. The run must have ended well."""
        return _of_a_good_end(self._done)

    @cached_property
    def reported(self) -> dict[str, Any]:
        """Its numbers, with its complaints. The run must have reported."""
        assert self._done.returncode in (0, 1), self._done.stderr[-2000:]
        numbers: dict[str, Any] = json.loads(self._done.stdout)
        return numbers

    def conforms(self, system: str) -> ReplayResult:
        """The replay of the traces of one system, which must find nothing wrong or missing. Decode
        runs no table of optimistic prefill.
        """
        verified = verify(load(system), self._files(system))
        assert verified.is_explained, verified
        assert verified.verdict is Verdict.HOLDS or "optimistic" in system, verified.assumes
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
