"""The place of a declaration in its file, and the one error that a malformed one raises."""

import functools
import sys
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Final, TypeAlias

_LANGUAGE: Final = str(Path(__file__).resolve().parent)
_PYTHON: Final = Path(functools.__file__).resolve().parent  # its own modules, such as functools
# What has its name as the first argument, and formulas in others.
_NAMED: Final = {"Row": "row"} | dict.fromkeys(
    ("Always", "Sometimes", "OnRow", "LeadsTo", "Drains", "Refines"), "property")
# The first line and column, and the last. Without debug ranges Python knows no columns.
Span: TypeAlias = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Place:
    """A path and a line (1 is the first)."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def here() -> Place:
    """The innermost caller outside this package: the line of the spec that is being read."""
    return _place(_reading(sys._getframe(1)))


def _reading(frame: FrameType) -> FrameType:
    while frame.f_back is not None and not _is_outside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _place(frame: FrameType) -> Place:
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
    """A spec has a rule that no process could follow, or that the language cannot hold.

    A formula is refused before the row or the property that it is written in is made. Its name is
    read in the file then.
    """

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem
        frame = _reading(sys._getframe(1))
        self._read = (frame.f_code.co_filename, _span(frame)) if _place(frame) == place else None

    def __str__(self) -> str:
        owner = written_in(*self._read) if self._read else ""
        known = owner.partition(" ")[2] in self.problem
        return f"{self.place}: {'' if known else f'{owner}: '}{self.problem}"


def _span(frame: FrameType) -> Span:
    """Where the call is written that the frame waits for."""
    line, last, column, end = next(islice(
        frame.f_code.co_positions(), frame.f_lasti // 2, None))  # two bytes an instruction
    return line, column, last, end


def written_in(path: str, span: Span) -> str:
    """The row or the property in whose arguments this is written, as "row 'lend'"; or nothing."""
    import ast  # noqa: PLC0415 - for errors alone

    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=kind) | ast.Attribute(attr=kind), args=[
                    ast.Constant(value=str()) | ast.JoinedStr() as name, *_]) if (
                        kind in _NAMED and None not in span
                        and (node.lineno, node.col_offset) < span[:2]
                        and span[2:] < (node.end_lineno, node.end_col_offset)):
                return f"{_NAMED[kind]} {ast.unparse(name)}"
            case _:
                continue
    return ""
