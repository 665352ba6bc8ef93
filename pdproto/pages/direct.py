"""Direct page writes: a decode node whose sources write straight into its pages.

    node = DirectDecodeNode("d0", DirectPages(pools, TcpSink()))

There is no landing chunk, and nothing is unpacked. A prefill node writes as it does to any other.
The tables are those of spec/handoff/direct.py.

Rule 1: pages are leased where the engine can keep a living writer out of them, and nowhere else.
Rule 2: a source that says *done* is kept out from then on, and only then are digests compared: what
        was found intact stays so.
Rule 3: pages go back when the engine says that nothing reaches them any more.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from pdproto.engine.contract import EngineError, Lease, Scope, SinkEngine, Target, Ticket
from pdproto.engine.page_target import PagePlaces, PageTarget
from pdproto.node.data_path import Fenced, Idle, Verified
from pdproto.pages.staged import SinkPages, key_of_life
from pdproto.runtime.wire import Life

log = logging.getLogger("pdproto.pages")

AnyTarget = TypeVar("AnyTarget", bound=Target)


class InPlace(SinkPages, Generic[AnyTarget]):
    """A sink's plane that leases targets, which its engine stores into, and landing memory perhaps
    as well. Raises EngineError for an engine without a page fence.

    A subclass notes in `_targets` what it leases in place.
    """

    landing: ClassVar[type[SinkPages]] = SinkPages  # what does the same with landing memory only

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine
    ) -> None:
        if engine.target_scope is not Scope.PAGE:
            raise EngineError(
                f"direct writes: {type(engine).__name__} declares no page fence, so a writer could"
                f" not be kept out; use TCP, or landing memory ({self.landing.__name__})"
            )
        super().__init__(pools, engine)
        self._targets: Final[dict[tuple[Life, str], AnyTarget]] = {}
        self._leaving: Final[dict[Life, None]] = {}  # whose pages go back
        self._ending: Final[dict[Life, list[Ticket]]] = {}  # released, and perhaps still reached

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        try:
            return super().lease(life, pages)
        finally:
            if life not in self._leases:  # one has found no memory, and so none has any
                for source in pages:
                    self._targets.pop((life, source), None)

    def settle(self, life: Life) -> None:
        """See node/data_path.py: here it is the engine that stores into pages."""
        self._settled.add(life)
        self._leaving[life] = None
        self._wake()

    def release(self, life: Life) -> None:
        leases = self._leases.pop(life)
        in_place = {source: lease for source, lease in leases.items()
                    if (life, source) in self._targets}
        self._ending[life] = [self.engine.fence(lease) for lease in in_place.values()]
        for source, lease in in_place.items():
            self.engine.release(lease)
            del self._targets[life, source], leases[source]
        if leases:
            self._worker.submit(self._release, leases)
        self._wake()

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        yield from super().reports()
        for life in [life for life, tickets in self._ending.items()
                     if all(map(self.engine.fenced, tickets))]:
            del self._ending[life]
        for life in [life for life in self._leaving if not self._is_reached(life)]:
            del self._leaving[life]
            self._settled.discard(life)
            yield Idle(life)

    def _is_reached(self, life: Life) -> bool:
        """Whether something may still be stored into the pages of this life."""
        return life in self._leases or life in self._ending

    def _is_kept_out(self, life: Life, source: str) -> bool:
        """In the worker: keep a source out that says *done*; whether nothing of it comes any more.
        """
        if self.engine.fenced(self.engine.fence(self._leases[life][source])):
            return True
        log.warning("%s: %s says that it has written all, and goes on", life, source)
        return False


class DirectPages(InPlace[PageTarget]):
    """A decode node's plane; see SinkPages. Pools in host memory, in which a page is in one piece.

    Raises EngineError for an engine without a page fence, ValueError for other pools.
    """

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine
    ) -> None:
        super().__init__(pools, engine)
        self._places: Final = {layout: PagePlaces(layout) for layout in self.layouts}

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        target = self._places[self._of(source)].target(pages)
        self._targets[life, source] = target
        return self.engine.lease(life, source, target.length, target)

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], _pages: Sequence[int]
    ) -> bool:
        """In the worker: whether the pages hold what was packed for this life."""
        target = self._targets[life, source]
        return self._is_kept_out(life, source) and target.intact(chunks, key_of_life(life))
