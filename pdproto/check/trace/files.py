"""The position of a replay in each file, and the processes in the file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pdproto.check.trace.instance import Instance, MismatchError
from pdproto.check.trace.lines import Element, Read, lines
from pdproto.check.trace.table import AnyMessage

Key: TypeAlias = tuple[str, tuple[Element, ...]]  # a message with its arguments


class AwaitedError(Exception):
    """A line consumes a message that no line has sent so far."""

    def __init__(self, message: AnyMessage, key: Key) -> None:
        super().__init__(key)
        self.message: Final = message
        self.key: Final = key


class RejectedError(Exception):
    """The first line that no row explains. before: the state of its instance there."""

    def __init__(
        self, path: Path, read: Read, instance: Instance | None, error: MismatchError
    ) -> None:
        super().__init__(str(error))
        self.path: Final = path
        self.read: Final = read
        self.instance: Final = instance
        self.error: Final = error


@dataclass(slots=True)
class Process:
    """One process of a file.

    number: within the file, from 0. knows: of each file, the last line that happened before the
    present one, as messages tell it. whole: none of its lines is known to be missing. lines: the
    number of its last line. ends: its endpoints, by number. passed: the numbers of endpoints that
    began before the trace. identities: endpoints by machine and own elements.
    """

    number: int
    knows: list[int]
    whole: bool = True
    lines: int = 0
    ends: dict[int, Instance] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    identities: dict[tuple[object, ...], Instance] = field(default_factory=dict)

    def learn(self, knows: tuple[int, ...]) -> None:
        """Take a message from a process that knew of these lines."""
        self.knows[:] = map(max, self.knows, knows)


class File:
    """One file: its lines, and its processes so far; the last one is the present one."""

    def __init__(self, number: int, path: Path) -> None:
        self.number: Final = number
        self.path: Final = path
        self.node = ""
        self.processes: Final[list[Process]] = []
        self.held: Read | None = None
        self._lines: Final = lines(path)

    def __iter__(self) -> Iterator[Read]:
        """The line that was not finished, and the following lines."""
        while True:
            read = self.held or next(self._lines, None)
            if read is None:
                return
            self.held = read
            yield read
            self.held = None

    @property
    def whole(self) -> bool:
        """Whether no line of its processes is known to be missing."""
        return all(process.whole for process in self.processes)


@dataclass(frozen=True, slots=True)
class Wait:
    """A file that waits until another file has sent a message."""

    file: File
    read: Read
    awaited: AwaitedError
