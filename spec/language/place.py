"""Where a declaration stands in its file, and the one error that a malformed one raises."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LANGUAGE: Final = str(Path(__file__).resolve().parent)


@dataclass(frozen=True, slots=True)
class Place:
    """A path and a line (1 is the first)."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def here() -> Place:
    """The innermost caller outside this package: the line of the spec that is being read."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        path = frame.f_code.co_filename
        # Generated constructors of dataclasses carry no real file name.
        if not path.startswith("<") and not str(Path(path).resolve()).startswith(_LANGUAGE):
            break
        frame = frame.f_back
    return Place(_relative(frame.f_code.co_filename), frame.f_lineno)


def _relative(path: str) -> str:
    """The path from the working directory where it lies below it, and as it is elsewhere."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


class SpecError(Exception):
    """A spec says something that no process could do, or that the form cannot hold."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
