"""Reads the lines of a trace from files (pdproto/runtime/trace.py writes them)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from pdproto.check.load import LoadError
from pdproto.ground.structure import table_digest
from pdproto.spec.language.system import System

Element: TypeAlias = int | str | tuple[int, ...] | None  # None: not known yet
Counted: TypeAlias = int | tuple[str, ...]

T = TypeVar("T")

FIRST: Final = b'{"n":1,'  # the beginning of the first line of a process


class TraceLine(msgspec.Struct, forbid_unknown_fields=True):
    """One line. Exactly one of begins, elements, row, device and heard is given: its kind."""

    n: int
    node: str
    machine: str
    end: int
    begins: dict[str, Counted] | None = None
    tables: str | None = None
    elements: dict[str, Counted] | None = None
    row: str | None = None
    on: str | None = None
    given: dict[str, Element] = msgspec.field(name="with", default_factory=dict)
    state: str | None = None
    device: tuple[tuple[str, tuple[Element, ...], str], ...] | None = None
    heard: str | None = None
    of: tuple[Element, ...] = ()


class Found(NamedTuple, Generic[T]):
    """One line of a file. cut: before it, a process was stopped in the middle of a line.

    line: None if the text is no line of a trace; `problem` says why.
    """

    number: int  # in its file, from 1
    text: bytes
    line: T | None
    problem: str = ""
    cut: bool = False


class OwnTables:
    """The tables of a system, by the digests that traces name."""

    def __init__(self, system: System) -> None:
        self._system: Final = system
        self._digests: Final = {table.machine.name: table_digest(table) for table in system.tables}

    def require(self, path: Path, number: int, machine: str, told: str | None) -> None:
        """Raise LoadError if this line is about another table. told: its digest; None if the line
        names none, as those of other tools.
        """
        own = self._digests.get(machine)
        if told is not None and own is not None and told != own:
            raise LoadError(f"{path}, line {number}: it is of other tables: the digest of that of "
                            f"{machine} is {told}, and {own} in {self._system.name}")


Read: TypeAlias = Found[TraceLine]
_decoder: Final = msgspec.json.Decoder(TraceLine)


def lines(path: Path) -> Iterator[Read]:
    """The lines of a trace of hand-overs."""
    return found(path, _decoder)


def found(path: Path, decoder: "msgspec.json.Decoder[T]") -> Iterator[Found[T]]:
    """The lines of a file. For an unfinished last line, `line` is None.

    A killed process may leave an unfinished line, and its successor appends to it. The first line
    of the successor is then found within the text.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                yield Found(number, text, decoder.decode(text))
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                problem = str(error)
            if not text.endswith(b"\n"):
                yield Found(number, text, None, cut=True)
                return
            rest = text[max(0, text.rfind(FIRST)):]
            try:
                yield Found(number, rest, decoder.decode(rest), cut=True)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                yield Found(number, text, None, problem)
