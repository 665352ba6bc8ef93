"""A decode rank's node: the list of its parts. It opens receivers, leases memory to their sources,
and commits the pages.

The tables decide (spec/handoff/sink.py and those that the parts name); see part.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.data_path import Fenced, Idle, SinkDataPath, Verified
from pdproto.node.decode import arguments
from pdproto.node.decode.fences import Fences
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.pool import Pool
from pdproto.node.decode.receiver import Addressed, Receiver
from pdproto.node.decode.receivers import Receivers
from pdproto.node.decode.routing import DecodeDesk, DecodeRouting
from pdproto.node.decode.sink_memory import SinkMemory
from pdproto.node.decode.sources import Sources
from pdproto.node.decode.verification import Verification
from pdproto.node.endpoints import Endpoints
from pdproto.node.link import Link
from pdproto.node.node import Node
from pdproto.node.part import Part, Turn
from pdproto.node.rooms import DecodeRooms
from pdproto.node.sides import DECODE
from pdproto.runtime import checked
from pdproto.runtime.role import SINK_ROLE, SinkRole
from pdproto.runtime.trace import StepObserver


class Decode(Node):
    """incarnation: the same for all ranks of a group. role, pool: the tables to run, if not those
    of the hand-over. desk, rooms: see DecodeRouting.
    """

    def __init__(  # noqa: PLR0913 - as many as DecodeNode takes
        self, name: str, data_path: SinkDataPath, *, link: Link, incarnation: int,
        waits: Mapping[str, float] | None = None, trace: StepObserver | None = None,
        role: SinkRole = SINK_ROLE, pool: Pool | None = None, desk: DecodeDesk | None = None,
        rooms: Callable[..., DecodeRooms] = DecodeRooms,
    ) -> None:
        arguments.check(data_path, trace, role, pool, desk)
        core = Core(name, link, incarnation, side=DECODE.name)
        endpoints = Endpoints(core, DECODE, role, waits, trace)
        capabilities = Capabilities(core, data_path)
        self.data_path: Final = data_path
        self.numbered: Final = NumberedLives(core, endpoints)
        self.receivers: Final = Receivers(core, endpoints, self.numbered, role, capabilities.mark)
        self.memory: Final = SinkMemory(
            core, endpoints, self.numbered, self.receivers, data_path, pool or Pool())
        verification = Verification(core, endpoints, self.numbered, capabilities, data_path)
        self.fences: Final = Fences(core, endpoints, self.numbered, data_path)
        self.sources: Final = Sources(core, endpoints, self.numbered, self.receivers, self.memory,
                                      verification, capabilities)
        self.routing: Final = DecodeRouting(core, endpoints, self.numbered, self.receivers,
                                            self.sources, waits, desk, rooms)
        self._takers: Final[Mapping[type, Callable[[Any], None]]] = {
            Idle: self.memory.end_copies, Verified: verification.end, Fenced: self.fences.end}
        self.receivers.want_memory = self.memory.want
        super().__init__(DECODE, core, endpoints, capabilities, self.receivers, (
            self.numbered.part, self.memory.part, self.memory.refusals.part, self.sources.part,
            self.fences.part, self.routing.part,
            Part("reports", turns={Turn.REPORTS: self._collect})))

    def open(  # noqa: PLR0913 - as many as DecodeNode.open takes
        self, room: int, sources: Mapping[str, str], *,
        sinks: Sequence[str] = (), generation: int | None = None,
        on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None,
        pages: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        slot: int | None = None, addressed: Addressed | None = None, use: int | None = None,
        prompt: bytes | None = None, once: bool = False, soon: bool = True,
    ) -> Receiver:
        """Open a receiver for a room; see DecodeNode.open. One thread at a time, so that lives
        begin in the order of their numbers.
        """
        sources = checked.endpoints("sources", sources)
        if addressed is not None:
            self.routing.prepare(checked.one_of("addressed", addressed, Addressed))
        receiver = self.receivers.new(room, tuple(sources), sinks, generation, use, prompt)
        receiver.once = checked.flag("once", once)
        receiver.watch(on_released, watcher)
        if pages is not None:
            receiver.hold(pages, slot)
        self.numbered.use(receiver.life)
        ask = (self.core.ask if checked.flag("soon", soon)
               else self.core.transport.ask_later)
        ask(lambda: self._begin(receiver, sources, addressed, placed=pages is not None))
        return receiver

    def seek(  # noqa: PLR0913 - as many as DecodeNode.seek takes
        self, room: int, server: str, *, pages: Sequence[int], slot: int | None = None,
        named: int | None = None, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None, use: int | None = None,
        prompt: bytes | None = None,
    ) -> Receiver:
        """See DecodeNode.seek. One thread at a time."""
        return self.routing.seek(room, server, pages=pages, slot=slot, named=named,
                                 on_released=on_released, watcher=watcher, use=use,
                                 prompt=prompt)

    def _collect(self, _now: float) -> None:
        """Give each report of the data path to the part that takes its kind."""
        for report in self.data_path.reports():
            self._takers[type(report)](report)
            if self.core.is_late():
                return

    def is_awaited(self, owner: Receiver) -> bool:
        """See Node."""
        return self.receivers.is_awaited(owner)

    def _begin(self, receiver: Receiver, sources: Mapping[str, str],
               addressed: Addressed | None, *, placed: bool) -> None:
        self.numbered.begin(receiver)
        self.sources.introduce(receiver, sources, placed=placed)
        if addressed is not None:
            self.routing.follow(receiver, addressed)
