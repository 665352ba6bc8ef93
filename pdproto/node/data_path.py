"""What a node asks of the data plane. An engine, with the kernels, answers (pages/staged.py).

All calls return at once; what becomes of them is asked for later, after the plane has woken the
node. The tables decide when each is called; a plane decides nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable

from pdproto.node.metrics import Metrics
from pdproto.runtime.wire import Layout, Life


class Outcome(Enum):
    """What became of a write. ERROR: the engine has given up. It reads no page for it any more, and
    what it has read may still land. SKIPPED: it was not begun, for nobody wanted it any more.
    """

    LANDED = auto()
    REFUSED = auto()
    ERROR = auto()
    SKIPPED = auto()


class Posted(NamedTuple):
    """What a plane was given to write. bytes: with digests; 0 where it does not say.

    behind: where the next chunk of this life goes in the memory of the same sink.
    """

    bytes: int
    behind: int


class Plane(Protocol):
    """What both kinds of plane have in common."""

    def attach(self, wake: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Measured(Protocol):
    """A plane with numbers of its own."""

    def measure(self, metrics: Metrics) -> None:
        """Have them read among the node's."""


@runtime_checkable
class Weighing(Protocol):
    """A sink's plane that says how many bytes `verify` compares of the same source, chunks and
    pages.
    """

    @property
    def bytes_of(self) -> Callable[..., int]: ...


@runtime_checkable
class LaidOut(Protocol):
    """A plane that says how its pages lie, for nodes to compare before anything is written."""

    def layout_for(self, peer: str) -> Layout | None:
        """Of the pages that this peer writes, or is written from; None where nobody knows, or the
        planes compare more than that themselves.
        """


@runtime_checkable
class Reached(Protocol):
    """A sink's plane that knows from which hosts it can be written to."""

    def out_of_reach(self, host: str) -> str | None:
        """Why a source at this address cannot write here; None if it can, as far as one knows."""


class SourcePlane(Protocol):
    """Prefill's side: packs pages and writes them where a sink has leased memory."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, from any thread, when there are outcomes."""

    @property
    def has_room(self) -> bool:
        """Whether another write may be posted now (back-pressure)."""

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        """Pack the pages of a chunk, and write them where the chunk before it has ended.

        offset: what that one's `behind` said; 0 for the first. is_wanted: asked by any thread, each
        time that something takes the chunk up; once it says no, what has not begun is skipped.
        """

    def outcomes(self) -> Iterable[tuple[int, Outcome, str]]:
        """The writes that have ended since the last call, by number, and why they did not land, as
        the engine says: empty if it says nothing.
        """

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Verified:
    """What a source wrote has been copied into the pages. clean: every digest agreed. reason: why
    it could not be copied at all, if so.
    """

    life: Life
    source: str
    clean: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing of this source lands in the memory of this life any more."""

    life: Life
    source: str


@dataclass(frozen=True, slots=True)
class Idle:
    """No copy into the pages of this life is under way any more."""

    life: Life


class SinkPlane(Protocol):
    """Decode's side: leases landing memory, copies from it into pages, and fences writers."""

    def attach(self, wake: Callable[[], None]) -> None: ...

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """Memory for what is to end in these pages, by source: where to write, or None while there
        is none.

        Raises ValueError for more than there will ever be.
        """

    def verify(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> None:
        """Copy what the source wrote into the pages, and compare digests. chunks: pages of each."""

    def settle(self, life: Life) -> None:
        """Report when no copy of this life is under way; those that wait are not begun."""

    def fence(self, life: Life, source: str) -> None:
        """Begin to keep the source out of the memory of this life."""

    def release(self, life: Life) -> None:
        """The lease has ended: its memory may be leased again."""

    def reports(self) -> Iterable[Verified | Fenced | Idle]: ...

    def close(self) -> None: ...
