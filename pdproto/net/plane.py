"""What a node asks of the data plane. An engine, with the kernels, answers (pages.py).

All calls return at once; what becomes of them is asked for later, after the plane has woken the
node. The tables decide when each is called; a plane decides nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from pdproto.runtime.wire import Life


class Outcome(Enum):
    """What became of a write. ERROR: the engine has given up. It reads no page for it any more, and
    what it has read may still land.
    """

    LANDED = auto()
    REFUSED = auto()
    ERROR = auto()


class SourcePlane(Protocol):
    """Prefill's side: packs pages and writes them where a sink has leased memory."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, from any thread, when there are outcomes."""

    @property
    def has_room(self) -> bool:
        """Whether another write may be posted now (back-pressure)."""

    def post(
        self, number: int, life: Life, address: bytes, chunks: Sequence[Sequence[int]]
    ) -> None:
        """Pack the pages of the last chunk, and write them behind those of the earlier ones."""

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
