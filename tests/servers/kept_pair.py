"""One pair of servers with its router at a time, kept for the cells that share a layout."""

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


NUMBERS: Final = count(1)  # of pairs: no log of this process replaces another


V = TypeVar("V", bound=Starts)
S = TypeVar("S", bound=Server)
L = TypeVar("L")


@dataclass
class ServerPair(Generic[L, S]):
    """router: if there is one."""

    layout: L
    prefill: S
    decode: S
    router: Server | None

    @property
    def servers(self) -> tuple[S, S]:
        return self.prefill, self.decode


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

    def restart(self, side: str) -> S:
        """The server of the pair that was killed, on the same ports."""
        assert self._pair is not None
        old: S = getattr(self._pair, side)
        self.servers.end(old)
        self.number = next(NUMBERS)
        new = self.start(self._pair.layout, side, old)
        setattr(self._pair, side, new)
        self.wait_for(new)
        return new

    def wait_for(self, server: S) -> None:
        """Until it is healthy."""
        with self.loading:
            server.wait_healthy()

    def end(self) -> None:
        if self._pair is not None:
            self.servers.end(self._pair.router, self._pair.decode, self._pair.prefill)
            self._pair = None
