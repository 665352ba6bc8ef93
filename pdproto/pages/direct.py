"""Direct page writes: a decode node whose sources write straight into its pages.

    node = DirectDecodeNode("d0", DirectPages(pools, TcpSink()))

There is no staging buffer, and nothing is unpacked. A prefill node writes as it does to any other.
The tables are those of spec/handoff/direct.py.

Rule 1: pages are leased only if the engine can keep a running writer out of them.
Rule 2: a source that says *done* is fenced first, and then the digests are compared. So pages that
        were found intact stay intact.
Rule 3: pages are free when the engine says that no write reaches them any more.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

from pdproto.engine.contract import EngineError, Lease, Scope, SinkEngine, Target, Ticket
from pdproto.kernels.layout import Order
from pdproto.node.data_path import Fenced, Idle, Verified
from pdproto.pages.chunks import key_of_life
from pdproto.pages.copies import Unpacked
from pdproto.pages.device import Device
from pdproto.pages.page_target import PagePlaces, PageTarget
from pdproto.pages.sink_pages import SinkPages
from pdproto.runtime.wire import Life

log = logging.getLogger("pdproto.pages")

AnyTarget = TypeVar("AnyTarget", bound=Target)


class InPlace(SinkPages, Generic[AnyTarget]):
    """A sink's data path that leases targets, into which the engine stores the bytes. It may lease
    staging memory besides. Raises EngineError for an engine without a page fence.

    A subclass notes in `_targets` the pages that it leases in place.
    """

    landing: ClassVar[type[SinkPages]] = SinkPages  # the same data path with staging memory only
    at_once_bytes: ClassVar[int] = 0  # threads of the engine have the worker do things, too

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine, *,
        order: Order = Order.NHD, device: Device | None = None, page_tokens: int | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(pools, engine, order=order, device=device, page_tokens=page_tokens,
                         threads=threads)
        self._targets: Final[dict[tuple[Life, str], AnyTarget]] = {}
        self._leaving: Final[dict[Life, None]] = {}  # settled lives whose pages are not free yet
        self._ending: Final[dict[Life, list[Ticket]]] = {}  # fences of released leases

    def _suit(self, engine: SinkEngine, device: Device | None, page_tokens: int | None) -> None:
        if engine.target_scope is not Scope.PAGE:
            raise EngineError(
                f"direct writes: {type(engine).__name__} declares no page fence, so a writer could"
                f" not be kept out; use TCP, or staging memory ({self.landing.__name__})"
            )
        if device is not None:
            raise EngineError(
                "direct writes: an engine cannot keep a writer out of the memory of a device; use "
                f"staging memory ({self.landing.__name__}, or the setting direct=0)"
            )
        if page_tokens is not None:
            raise EngineError(
                f"direct writes: {type(engine).__name__} writes straight into pages, and converts "
                f"no page sizes (page_tokens={page_tokens}): use staging memory "
                f"({self.landing.__name__}), or let the source cut its pages to the size of these"
            )

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """See SinkDataPath."""
        try:
            return super().lease(life, pages)
        finally:
            if life not in self._leases:  # one source got no memory, so no source keeps any
                for source in pages:
                    self._targets.pop((life, source), None)

    def settle(self, life: Life) -> None:
        """See SinkDataPath: here the engine stores into pages, and no copy is made."""
        self._settled.add(life)
        self._leaving[life] = None
        self._wake()

    def release(self, life: Life) -> None:
        """See SinkDataPath."""
        leases = self._leases.pop(life)
        in_place = {source: lease for source, lease in leases.items()
                    if (life, source) in self._targets}
        self._ending[life] = [self.engine.fence(lease) for lease in in_place.values()]
        for source, lease in in_place.items():
            self.engine.release(lease)
            del self._targets[life, source], leases[source]
        if leases:
            self._worker.submit(self._worker.in_order, partial(self._release, leases))
        self._wake()

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        """See SinkDataPath."""
        yield from super().reports()
        for life in [life for life, tickets in self._ending.items()
                     if all(map(self.engine.fenced, tickets))]:
            del self._ending[life]
        for life in [life for life in self._leaving if not self._is_reached(life)]:
            del self._leaving[life]
            self._settled.discard(life)
            yield Idle(life)

    def _is_reached(self, life: Life) -> bool:
        """Whether a write may still store into the pages of this life."""
        return life in self._leases or life in self._ending

    def _is_kept_out(self, life: Life, source: str) -> bool:
        """In the worker: fence a source that says *done*. Returns whether it writes no more."""
        if self.engine.fenced(self.engine.fence(self._leases[life][source])):
            return True
        log.warning("%s: %s says that it has written everything, and still writes", life, source)
        return False


class DirectPages(InPlace[PageTarget]):
    """A decode node's data path without staging memory; see SinkPages.

    The pools are in host memory, and each page of them is contiguous.
    Raises EngineError for an engine without a page fence, ValueError for other pools.
    """

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine, *,
        order: Order = Order.NHD, page_tokens: int | None = None,
    ) -> None:
        super().__init__(pools, engine, order=order, page_tokens=page_tokens)
        self._places: Final = {layout: PagePlaces(layout) for layout in self.layouts}

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        target = self._places[self._of(source)].target(pages)
        self._targets[life, source] = target
        return self.engine.lease(life, source, target.length, target)

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], _pages: Sequence[int]
    ) -> Iterator[Unpacked]:
        """In the worker: compare the digests of the pages with those packed for this life."""
        target = self._targets[life, source]
        clean = self._is_kept_out(life, source) and target.intact(chunks, key_of_life(life))
        yield Unpacked(lambda: clean)
