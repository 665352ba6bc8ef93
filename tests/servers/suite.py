"""Cells of real servers of an engine: run them, and see each of them fail under its defect."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from examples.servers.serving import ServerError
from tests.servers.kept_pair import Loading
from tests.servers.record import Cell, Record

LIMIT_S: Final = 45 * 60.0  # of all cells
DEFECTS_S: Final = 4 * 3600.0  # of all cells under their defects
CELL_S: Final = 5 * 60.0  # of one cell


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check that holds has seen. equal: answers that were those of one server."""

    requests: int
    equal: int
    note: str = ""


class UntestedError(Exception):
    """The servers did not get into the state that a check is about: it says nothing of them."""


class TooLateError(Exception):
    """A cell has not ended in time."""


@contextmanager
def within(seconds: float, apart: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
    """Raises TooLateError in the body when these seconds are over. In the main thread only.

    apart: seconds that have not counted so far.
    """
    end = time.monotonic() + seconds - apart()

    def ring(*_: object) -> None:
        left = end + apart() - time.monotonic()
        if left <= 0:
            raise TooLateError(f"not done after {seconds:.0f} s")
        signal.setitimer(signal.ITIMER_REAL, left)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Stage(Protocol):
    """The servers that run."""

    defect: str | None

    @property
    def loading(self) -> Loading: ...

    def end(self) -> None: ...


S = TypeVar("S", bound=Stage)


@dataclass(frozen=True, slots=True)
class Suite(Generic[S]):
    """begin: a stage whose servers have this defect. check: run the check of a cell; raises
    AssertionError, ServerError or UntestedError. refused: why this machine cannot run a cell, by
    the name of the cell. untested: a line for each thing that no cell can show on this machine.
    quick_s: for all cells of `--quick` together.
    """

    record: Record
    begin: Callable[[str | None], S]
    check: Callable[[S, Cell], Finding]
    refused: Mapping[str, str] = field(default_factory=dict)
    untested: Sequence[str] = ()
    quick_s: float = LIMIT_S

    def run(self, stage: S, cell: Cell, seconds: float) -> tuple[str, str]:
        """One cell, within these seconds, in which servers that start do not count: each has a
        limit of its own. Returns its failure, "" if it is green, and its line.

        Raises ServerError, UntestedError or TooLateError under a defect: none of them shows it.
        """
        began = time.monotonic()
        try:
            with within(seconds, lambda: stage.loading.seconds):
                found = self.check(stage, cell)
        except (AssertionError, ServerError, UntestedError, TooLateError) as error:
            if stage.defect and not isinstance(error, AssertionError):
                raise
            failure = str(error) or repr(error)
            stage.end()
            return failure, f"RED    {time.monotonic() - began:6.1f} s  {failure}"
        return "", (f"green  {time.monotonic() - began:6.1f} s  {found.requests} requests, "
                    f"{found.equal} equal, {found.note}")

    def run_all(self, cells: Sequence[Cell], seconds: float = LIMIT_S) -> int:
        """All within these seconds. Returns how many fail, or were not begun in time."""
        stage, end, red = self.begin(None), time.monotonic() + seconds, 0
        for cell in cells:
            left = end - time.monotonic()
            if left <= 0:
                failure = line = f"not begun: {seconds:.0f} s are over"
            else:
                failure, line = self.run(stage, cell, min(CELL_S, left))
            red += bool(failure)
            self._say(cell, line)
        stage.end()
        return red

    def run_defects(self, cells: Sequence[Cell], seconds: float = DEFECTS_S) -> int:
        """Each cell under its defect, all within these seconds. Returns how many do not fail."""
        blind, end = 0, time.monotonic() + seconds
        for cell in cells:
            stage, left = self.begin(cell.defect), end - time.monotonic()
            try:
                if left <= 0:
                    raise TooLateError(f"not begun: {seconds:.0f} s are over")
                failure, line = self.run(stage, cell, min(CELL_S, left))
            except (ServerError, UntestedError, TooLateError) as error:
                failure, line = "", f"{type(error).__name__}: {error}"
            stage.end()
            blind += not failure
            if failure:
                self.record.note(cell, failure)
            self._say(cell, f"{cell.defect:26}  " + (
                f"seen red: {failure[:400]}" if failure else f"BLIND: {line[:400]}"))
        return blind

    def _say(self, cell: Cell, line: str) -> None:
        width = max(len(one.name) for one in self.record.cells)
        sys.stdout.write(f"{cell.name:{width}}  {line}\n")
        sys.stdout.flush()


def arguments(about: str, devices: Sequence[str] = ("cpu",)) -> argparse.Namespace:
    """Of the command line. devices: that --device can name; the first one is the default."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--device", choices=devices, default=devices[0],
                        help="where servers compute, and have their KV cache")
    parser.add_argument("--quick", action="store_true",
                        help="a subset, with a time limit of its own")
    parser.add_argument("--seconds", type=float, metavar="N",
                        help="the time limit of all cells together, in seconds")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="these cells")
    parser.add_argument("--defects", action="store_true", help="each cell under its defect")
    parser.add_argument("--standstills", nargs="*", metavar="BACKEND",
                        help="measure the table of standstills, with these backends or all")
    parser.add_argument("--table", action="store_true", help="write the page of the cells")
    return parser.parse_args()


def run(suite: Suite[S], told: argparse.Namespace) -> int:
    """What the command line asks for. Returns the exit status."""
    chosen = [cell for cell in suite.record.cells
              if (not told.only or cell.name in told.only) and (not told.quick or cell.quick)]
    refused = [cell for cell in chosen if cell.name in suite.refused]
    chosen = [cell for cell in chosen if cell not in refused]
    for line in suite.untested:
        sys.stdout.write(f"not tested on this machine: {line}\n")
    for cell in refused:
        sys.stdout.write(f"{cell.name}: not run: {suite.refused[cell.name]}\n")
    began = time.monotonic()
    limit_s = DEFECTS_S if told.defects else suite.quick_s if told.quick else LIMIT_S
    run_these = suite.run_defects if told.defects else suite.run_all
    red = run_these(chosen, told.seconds or limit_s)
    also = f", {len(refused)} not run: the lines above say why" if refused else ""
    sys.stdout.write(f"{len(chosen) - red} of {len(chosen)} cells, "
                     f"{time.monotonic() - began:.0f} s{also}\n")
    return 1 if red or not chosen else 0
