"""One pair of servers with its router at a time, or several pairs behind one router, kept for the
cells that share a layout.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from examples.servers.serving import Server
from tests.servers.load import Ask, Through, Way
from tests.servers.reference import Reference, Starts


class Loading:
    """A context around waits for servers that start, none within another. seconds: of all so far.
    """

    def __init__(self) -> None:
        self._spent = 0.0
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._spent, self._since = self.seconds, None

    @property
    def seconds(self) -> float:
        return self._spent + (0.0 if self._since is None else time.monotonic() - self._since)


SIDES: Final = "prefill", "decode"
NUMBERS: Final = count(1)  # of pairs: no log of this process replaces another


V = TypeVar("V", bound=Starts)
S = TypeVar("S", bound=Server)
L = TypeVar("L")


@dataclass
class ServerPair(Generic[L, S]):
    """router: if there is one. others: further servers behind it."""

    layout: L
    prefill: S
    decode: S
    router: Server | None
    others: list[S] = field(default_factory=list, kw_only=True)

    @property
    def servers(self) -> tuple[S, ...]:
        return self.prefill, self.decode, *self.others

    def put(self, new: S, old: S) -> None:
        """In the place of another."""
        if old in self.others:
            self.others[self.others.index(old)] = new
        else:
            setattr(self, "prefill" if old is self.prefill else "decode", new)


P = TypeVar("P", bound=ServerPair[Any, Any])


class KeptPair(Generic[V, S, L, P]):
    """See above. defect: put into every server of a pair, never into the reference."""

    def __init__(self, servers: V, folder: Path, defect: str | None = None) -> None:
        self.servers: Final = servers
        self.defect = defect
        self.number = 0  # of the pair, or of the server that was started last
        self.loading: Final = Loading()
        self._folder: Final = folder
        self._pair: P | None = None
        self._references: Final[dict[str, Reference]] = {}

    @abstractmethod
    def model(self, name: str) -> Path:
        """The folder of a model, which is made if need be."""

    @abstractmethod
    def open(self, layout: L) -> P:
        """Start a pair of this layout, and wait for it."""

    @abstractmethod
    def start(self, layout: L, side: str, like: S | None = None) -> S:
        """One server of a layout; it is not healthy yet. like: a dead one, whose ports it takes."""

    def pair(self, layout: L) -> P:
        """The running one if it is of this layout and whole, else another."""
        pair = self._pair
        if pair and pair.layout == layout and all(s.is_alive() for s in pair.servers):
            return pair
        self.end()
        self.number = next(NUMBERS)
        with self.loading:
            self._pair = pair = self.open(layout)
        return pair

    def answers_of(
        self, name: str, flags: Sequence[str], wanted: Sequence[Ask],
        way: Callable[[str], Way] = Through,
    ) -> Reference:
        """Of one server with this model, with answers to all of these. It may be started for them.
        """
        if name not in self._references:
            self._references[name] = Reference(self.servers, self.model(name), flags, way)
        with self.loading:
            self._references[name].ensure(wanted)
        return self._references[name]

    def restart(self, old: S) -> S:
        """A server of the pair that was killed, on the same ports."""
        assert self._pair is not None
        self.servers.end(old)
        self.number = next(NUMBERS)
        new = self.start(self._pair.layout, old.name.rpartition("-")[0], old)
        self._pair.put(new, old)
        self.wait_for(new)
        return new

    def wait_for(self, server: S) -> None:
        """Until it is healthy."""
        with self.loading:
            server.wait_healthy()

    def end(self) -> None:
        if self._pair is not None:
            self.servers.end(self._pair.router, *reversed(self._pair.servers))
            self._pair = None
