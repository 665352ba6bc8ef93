"""The trace of SGLang's own managers: lines in the words of lab/peers.

Rule 1: a step of SGLang and its line are one: the ledger's lock is held over both, so the lines of
        one process are in the order in which things happened.
Rule 2: a line gives the state in SGLang's own dictionary, never the one that our table expects.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeAlias

from lab.peers.sglang_ends import Status
from pdproto.runtime.trace import Lines, TraceTarget
from pdproto.spec.language.machine import Row, Table

Counts: TypeAlias = dict[str, int | list[str]]
Later: TypeAlias = tuple[int, str, dict[str, Any]]  # a room, the name of a row, its parameters

# KVPoll's numbers, in the words of the tables.
WORDS: Final = {
    None: Status.ABSENT, 0: Status.FAILED, 1: Status.BOOTSTRAPPING, 2: Status.WAITING,
    3: Status.TRANSFERRING, 4: Status.SUCCESS,
}

FAILED: Final = 0
SUCCESS: Final = 4


def word(status: Any) -> str:
    """The word for a status of `request_status`. Raises KeyError for a new one."""
    return str(WORDS[None if status is None else int(status)].value)


def node_name(ip: str, port: int) -> str:
    """The name of a rank: the address of its control thread, which both ends know."""
    return f"{ip}:{port}"


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have a method called through another, which is given the method and its arguments."""
    original = getattr(owner, name)

    @wraps(original)
    def wrapped(*given: Any, **named: Any) -> Any:
        return around(original, *given, **named)

    setattr(owner, name, wrapped)


@dataclass(slots=True)
class Told:
    """The lines about a room so far. end: its number in this file. counts: the elements of each
    sort now. said: those that the file has.
    """

    end: int
    counts: Counts
    said: Counts = field(default_factory=dict)


class Ledger:
    """The trace of one manager. statuses: a way to its `request_status`."""

    def __init__(self, node: str, table: Table, target: TraceTarget, statuses: Any) -> None:
        self.node: Final = node
        self.lock: Final = threading.RLock()
        self._table: Final = table
        self._lines: Final = Lines(node, target)
        self._rows: Final[Mapping[str, Row]] = {row.name: row for row in table.rows}
        self._statuses: Final = statuses
        self._rooms: Final[dict[int, Told]] = {}
        self._held: list[Later] | None = None

    def room(self, room: int, counts: Counts) -> Told:
        """The lines about the room so far. counts: its elements by sort, if it is new."""
        if room not in self._rooms:
            self._rooms[room] = Told(len(self._rooms) + 1, counts)
        return self._rooms[room]

    def name(self, room: int, sort: str, element: str) -> None:
        """One more element of a sort whose elements have names."""
        counts = self._rooms[room].counts
        names = counts.setdefault(sort, [])
        if isinstance(names, list) and element not in names:
            counts[sort] = [*names, element]

    def count(self, room: int, sort: str, number: int) -> None:
        """So many elements at least of a sort whose elements are numbered."""
        counts = self._rooms[room].counts
        before = counts.get(sort, 0)
        if isinstance(before, int):
            counts[sort] = max(before, number)

    def size(self, room: int, sort: str) -> int:
        """How many elements of this sort the room counts."""
        counts = self._rooms[room].counts[sort]
        return counts if isinstance(counts, int) else len(counts)

    def row(self, room: int, name: str, *, settled: bool = True, **given: Any) -> None:
        """A row has fired. given: its parameters but for the machine's own. settled: SGLang's
        table has the status that it leads to, and no later one.
        """
        if self._held is not None:
            self._held.append((room, name, given))
            return
        row = self._rows[name]
        own = self._table.machine.own
        names = {own[0].name: self.node, own[1].name: room, **given}
        state = {"state": word(self._statuses().get(room))} if settled else {}
        on = None if row.on is None else str(row.on)
        self._put(room, {"row": name, "on": on, "with": names, **state})

    def written(self, room: int, symbol: str, of: list[Any], value: str) -> None:
        """A device has written into one of the machine's variables."""
        self._put(room, {"device": [[symbol, of, value]]})

    @contextmanager
    def held(self) -> Iterator[list[Later]]:
        """Rows that fire meanwhile are put off: `tell` them after that of which they are a part."""
        outer, self._held = self._held, []
        try:
            yield self._held
        finally:
            self._held = outer

    def tell(self, later: list[Later]) -> None:
        for room, name, given in later:
            self.row(room, name, **given)

    def _put(self, room: int, line: Mapping[str, Any]) -> None:
        told = self._rooms[room]
        before: list[Mapping[str, Any]] = []
        if told.said != told.counts:
            before = [{"elements" if told.said else "begins": dict(told.counts)}]
            told.said = dict(told.counts)
        self._lines.put(self._table.machine.name, told.end, [*before, line])


class Watched(dict[Any, Any]):
    """A table of SGLang's that tells when its entries come, change and go."""

    def __init__(self, lock: threading.RLock, entries: Mapping[Any, Any], *,
                 on_set: Any = None, on_pop: Any = None, default: Any = None) -> None:
        super().__init__(entries)
        self._lock = lock
        self._on_set, self._on_pop, self._default = on_set, on_pop, default

    def __missing__(self, key: Any) -> Any:
        if self._default is None:
            raise KeyError(key)
        return self._default()

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._lock:
            before = self.get(key)
            super().__setitem__(key, value)
            if self._on_set is not None:
                self._on_set(key, before, value)

    def pop(self, key: Any, *default: Any) -> Any:
        with self._lock:
            # A worker looks for an entry, and takes it out if it is there; a scheduler's clear()
            # may come in between, which ends the worker (r16_cleared_meanwhile.py). The lock here
            # would make that likely, so it is forgiven.
            found = super().pop(key, *default or (None,))
            if self._on_pop is not None:
                self._on_pop(key, found)
            return found
