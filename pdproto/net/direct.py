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
from typing import Any, Final

from pdproto.engine.contract import EngineError, Lease, Scope, SinkEngine, Ticket
from pdproto.engine.page_target import PagePlaces, PageTarget
from pdproto.net.decode import DecodeNode
from pdproto.net.pages import SinkPages, key_of_life
from pdproto.net.plane import Fenced, Idle, Verified
from pdproto.net.pool import Pool
from pdproto.net.shell import Link
from pdproto.runtime.role import SinkRole
from pdproto.runtime.trace import Trace
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.direct import IN_PLACE
from pdproto.spec.handoff.ends import pool, sink

log = logging.getLogger("pdproto.net")

TABLES: Final = {table.machine: table for table in IN_PLACE.tables}
ROLE: Final = SinkRole(TABLES[sink])


class DirectPages(SinkPages):
    """A decode node's plane; see SinkPages. Pools in host memory, in which a page is in one piece.

    Raises EngineError for an engine without a page fence, ValueError for other pools.
    """

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine
    ) -> None:
        if engine.target_scope is not Scope.PAGE:
            raise EngineError(
                f"direct page writes: {type(engine).__name__} declares no page fence, so a writer"
                f" could not be kept out; use TCP, or landing chunks (SinkPages)"
            )
        super().__init__(pools, engine)
        self._places: Final = {layout: PagePlaces(layout) for layout in self.layouts}
        self._targets: Final[dict[tuple[Life, str], PageTarget]] = {}
        self._leaving: Final[dict[Life, None]] = {}  # whose pages go back
        self._ending: Final[dict[Life, list[Ticket]]] = {}  # released, and perhaps still reached

    def settle(self, life: Life) -> None:
        """See plane.py: here it is the engine that stores into pages."""
        self._settled.add(life)
        self._leaving[life] = None
        self._wake()

    def release(self, life: Life) -> None:
        leases = self._leases.pop(life)
        tickets = [self.engine.fence(lease) for lease in leases.values()]
        for source, lease in leases.items():
            self.engine.release(lease)
            del self._targets[life, source]
        self._ending[life] = tickets
        self._wake()

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        yield from super().reports()
        for life in [life for life, tickets in self._ending.items()
                     if all(map(self.engine.fenced, tickets))]:
            del self._ending[life]
        for life in [life for life in self._leaving
                     if life not in self._leases and life not in self._ending]:
            del self._leaving[life]
            self._settled.discard(life)
            yield Idle(life)

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        target = self._places[self._of(source)].target(pages)
        self._targets[life, source] = target
        return self.engine.lease(life, source, target.length, target)

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], _pages: Sequence[int]
    ) -> bool:
        """In the worker: whether the pages hold what was packed for this life."""
        target = self._targets[life, source]
        if not self.engine.fenced(self.engine.fence(self._leases[life][source])):
            log.warning("%s: %s says that it has written all, and goes on", life, source)
            return False
        return target.intact(chunks, key_of_life(life))


class DirectDecodeNode(DecodeNode):
    """See DecodeNode, and above."""

    def __init__(
        self,
        name: str,
        plane: DirectPages,
        *,
        link: Link | None = None,
        incarnation: int | None = None,
        waits: Mapping[str, float] | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(name, plane, link=link, incarnation=incarnation, waits=waits,
                         trace=trace, role=ROLE, pool=Pool(TABLES[pool]))
