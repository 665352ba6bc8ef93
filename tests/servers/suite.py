"""Cells of real servers of an engine: run them, and see each of them fail under its defect."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from examples.servers.serving import ServerError
from tests.servers.record import Cell, Record

LIMIT_S: Final = 45 * 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check that holds has seen. equal: answers that were those of one server."""

    requests: int
    equal: int
    note: str = ""


class UntestedError(Exception):
    """The servers did not get into the state that a check is about: it says nothing of them."""


class Stage(Protocol):
    """The servers that run."""

    defect: str | None

    def end(self) -> None: ...


S = TypeVar("S", bound=Stage)


@dataclass(frozen=True, slots=True)
class Suite(Generic[S]):
    """begin: a stage whose servers have this defect. check: run the check of a cell; raises
    AssertionError, ServerError or UntestedError.
    """

    record: Record
    begin: Callable[[str | None], S]
    check: Callable[[S, Cell], Finding]

    def run(self, stage: S, cell: Cell) -> tuple[str, str]:
        """One cell. Returns its failure, "" if it is green, and its line.

        Raises ServerError or UntestedError under a defect: such a failure does not show it.
        """
        began = time.monotonic()
        try:
            found = self.check(stage, cell)
        except (AssertionError, ServerError, UntestedError) as error:
            if stage.defect and not isinstance(error, AssertionError):
                raise
            failure = str(error) or repr(error)
            stage.end()
            return failure, f"RED    {time.monotonic() - began:6.1f} s  {failure}"
        return "", (f"green  {time.monotonic() - began:6.1f} s  {found.requests} requests, "
                    f"{found.equal} equal, {found.note}")

    def run_all(self, cells: Sequence[Cell]) -> int:
        """Returns how many fail, or were not begun in time."""
        stage, end, red = self.begin(None), time.monotonic() + LIMIT_S, 0
        for cell in cells:
            if time.monotonic() > end:
                failure = line = f"not begun: {LIMIT_S:.0f} s are over"
            else:
                failure, line = self.run(stage, cell)
            red += bool(failure)
            self._say(cell, line)
        stage.end()
        return red

    def run_defects(self, cells: Sequence[Cell]) -> int:
        """Each cell under its defect. Returns how many do not fail."""
        blind = 0
        for cell in cells:
            stage = self.begin(cell.defect)
            try:
                failure, line = self.run(stage, cell)
            except (ServerError, UntestedError) as error:
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


def arguments(about: str) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a subset that takes a few minutes")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="these cells")
    parser.add_argument("--defects", action="store_true", help="each cell under its defect")
    parser.add_argument("--table", action="store_true", help="write the page of the cells")
    return parser.parse_args()


def run(suite: Suite[S], told: argparse.Namespace) -> int:
    """What the command line asks for. Returns the exit status."""
    chosen = [cell for cell in suite.record.cells
              if (not told.only or cell.name in told.only) and (not told.quick or cell.quick)]
    began = time.monotonic()
    red = (suite.run_defects if told.defects else suite.run_all)(chosen)
    sys.stdout.write(f"{len(chosen) - red} of {len(chosen)} cells, "
                     f"{time.monotonic() - began:.0f} s\n")
    return 1 if red or not chosen else 0
