"""The place of a declaration in its file, and the one error that a malformed one raises."""

import functools
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_LANGUAGE: Final = str(Path(__file__).resolve().parent)
_PYTHON: Final = Path(functools.__file__).resolve().parent  # its own modules, such as functools


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
    while frame.f_back is not None and not _is_outside(frame.f_code.co_filename):
        frame = frame.f_back
    return Place(_relative(frame.f_code.co_filename, _directory()), frame.f_lineno)


def _directory() -> str:
    """Where the program runs; empty if somebody has removed that folder since."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


# Every update asks for its place, and few files ask: without the caches, looking at paths takes
# half of the time in which a spec is read.
@cache
def _is_outside(path: str) -> bool:
    # Generated constructors of dataclasses carry no real file name.
    if path.startswith("<"):
        return False
    resolved = Path(path).resolve()
    return not str(resolved).startswith(_LANGUAGE) and resolved.parent != _PYTHON


@cache
def _relative(path: str, directory: str) -> str:
    """The path relative to the directory if it lies below it, and unchanged otherwise."""
    try:
        return str(Path(path).relative_to(directory))
    except ValueError:
        return path


class SpecError(Exception):
    """A spec has a rule that no process could follow, or that the language cannot hold."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
