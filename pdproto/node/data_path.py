"""The port between a node and its data path: an engine with the kernels (pages/), or a simulation.

Every call returns at once. The data path wakes the node when it has results, and the node collects
them later. The tables decide when each call is made; a data path decides nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable

from pdproto.node.metrics import Metrics
from pdproto.runtime.wire import Life, PageLayout


class WriteOutcome(Enum):
    """The end of a write.

    ERROR: the engine has given up. It reads no page for the write any more, and bytes that it has
    read may still land. SKIPPED: the write was not begun, because its hand-over had failed.
    """

    LANDED = auto()
    REFUSED = auto()
    ERROR = auto()
    SKIPPED = auto()


class Posted(NamedTuple):
    """A write that has been posted.

    bytes: with digests; 0 for a data path that does not report them. behind: the offset of the next
    chunk of this life in the memory of the same sink.
    """

    bytes: int
    behind: int


class DataPath(Protocol):
    """The calls that both kinds of data path have."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Begin. Call `wake`, from any thread, when there are results to collect."""

    def close(self) -> None:
        """End every thread and connection. No other call follows."""


@runtime_checkable
class HasMetrics(Protocol):
    """A data path with metrics of its own."""

    def measure(self, metrics: Metrics) -> None:
        """Add them to the metrics of the node."""


@runtime_checkable
class CountsBytes(Protocol):
    """A sink's data path that reports how many bytes `verify` compares."""

    @property
    def bytes_of(self) -> Callable[..., int]:
        """The bytes that `verify` compares for the same source, chunks and pages."""


@runtime_checkable
class HasLayout(Protocol):
    """A data path that knows the layout of its pages. Nodes compare layouts before any write."""

    def layout_for(self, peer: str) -> PageLayout | None:
        """The layout of the pages that this peer writes or reads; None if it is unknown."""


@runtime_checkable
class Converts(Protocol):
    """A source's data path that can hand over to pools whose pages have another size."""

    def conversion(self, theirs: PageLayout) -> str:
        """The setting with which pages of this layout fit; empty if there is none."""


@runtime_checkable
class HasReach(Protocol):
    """A sink's data path that knows from which hosts sources can write to it."""

    def out_of_reach(self, host: str) -> str | None:
        """Why a source at this address cannot write here. None if it can, or if that is unknown."""


@runtime_checkable
class CanBreak(Protocol):
    """A data path whose device may fail for good."""

    @property
    def broken(self) -> str | None:
        """Why this process can hand nothing over any more; None while it can."""


def why_broken(data_path: object, node: str) -> str | None:
    """See CanBreak, with the name of the node."""
    why = data_path.broken if isinstance(data_path, CanBreak) else None
    return None if why is None else f"node {node}: {why}"


@runtime_checkable
class MarksPages(Protocol):
    """A data path whose pages are used by work that a device does later."""

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """In the application's thread: pages that it hands over, to be sent or to be filled. They
        may be read or written when the work that this thread has given the device until now has
        been done (property S15).
        """


class SourceDataPath(Protocol):
    """Prefill's side: packs pages and writes them into the memory that a sink has leased."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Begin. Call `wake`, from any thread, when there are outcomes."""

    @property
    def has_room(self) -> bool:
        """Whether another write may be posted now (back-pressure)."""

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        """Pack the pages of a chunk, and write them behind the chunk before it.

        number: of this write, unique in this node. address: of the lease, as the sink published it.
        offset: `behind` of the chunk before; 0 for the first. is_wanted: any thread may call it
        before each stage of the write. When it returns False, the write is skipped if it has not
        begun.
        """

    def outcomes(self) -> Iterable[tuple[int, WriteOutcome, str]]:
        """The writes that have ended since the last call: number, outcome, and the engine's reason
        if the write did not land (empty if the engine gives none).
        """

    def close(self) -> None:
        """End every thread and connection. No other call follows."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The chunks of a source have been copied into the pages.

    clean: every digest agreed. reason: why the chunks could not be copied; empty if they were.
    """

    life: Life
    source: str
    clean: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fenced:
    """No write of this source lands in the memory of this life any more."""

    life: Life
    source: str


@dataclass(frozen=True, slots=True)
class Idle:
    """No copy into the pages of this life is under way any more."""

    life: Life


class SinkDataPath(Protocol):
    """Decode's side: leases staging memory, copies from it into pages, and fences writers."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Begin. Call `wake`, from any thread, when there are reports or memory is free again."""

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """Lease memory for the bytes of these pages. pages: by source.

        Returns the address for each source; None while there is not enough memory. Raises
        ValueError if there will never be enough, and EngineBusy while the system refuses it.
        """

    def verify(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> None:
        """Copy the chunks of the source into the pages, and compare digests. A `Verified` report
        follows. chunks: the number of pages of each, in order.
        """

    def settle(self, life: Life) -> None:
        """Begin no copy of this life that has not begun. An `Idle` report follows when no copy of
        it is under way.
        """

    def fence(self, life: Life, source: str) -> None:
        """Begin to keep the source out of the memory of this life. A `Fenced` report follows."""

    def release(self, life: Life) -> None:
        """The lease has ended: its memory may be leased again."""

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        """The reports since the last call, in order."""

    def close(self) -> None:
        """End every thread and connection. No other call follows."""
