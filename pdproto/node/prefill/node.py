"""A prefill rank's node: the list of its parts. It opens senders, and writes their pages to sinks.

The tables decide (spec/handoff/source.py and those that the parts name); see part.py.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.data_path import SourceDataPath
from pdproto.node.endpoints import Endpoints
from pdproto.node.link import Link
from pdproto.node.node import Node
from pdproto.node.prefill import arguments
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.ended_rooms import EndedRooms
from pdproto.node.prefill.in_doubt import InDoubtAtSink
from pdproto.node.prefill.keeps import NO_PLACES, Keeps, Kept, Places
from pdproto.node.prefill.remembered_lives import RememberedLives
from pdproto.node.prefill.routing import DataParallelRank, PrefillRouting
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.prefill.sinks import Sinks
from pdproto.node.prefill.source_writes import SourceWrites
from pdproto.node.prefill.waiting_senders import ByRoom
from pdproto.node.sides import PREFILL
from pdproto.node.timers import Waits
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import SOURCE_ROLE, SourceRole
from pdproto.runtime.trace import StepObserver


class Prefill(Node):
    """data_path: moves the bytes. waits: seconds by name of timer. refuses: called in the loop for
    a room that a sink introduces and that no sender has opened. It returns why no sender will open
    it, or None if one may. A refused sink fails at once, with that reason. role: the tables to run,
    if not those of the hand-over. dp: the rank of this node, if its server has several. places:
    bound what is kept for further decode requests.
    """

    def __init__(  # noqa: PLR0913 - as many as PrefillNode takes
        self, name: str, data_path: SourceDataPath, *, link: Link, incarnation: int,
        waits: Mapping[str, float] | None = None, trace: StepObserver | None = None,
        refuses: Callable[[int], str | None] = lambda _: None, role: SourceRole = SOURCE_ROLE,
        dp: DataParallelRank | None = None, places: Places = NO_PLACES,
    ) -> None:
        places = arguments.check(data_path, trace, role, dp, places)
        core = Core(name, link, incarnation, side=PREFILL.name)
        endpoints = Endpoints(core, PREFILL, role, waits, trace)
        capabilities = Capabilities(core, data_path)
        self.data_path: Final = data_path
        self.unbound: Final = ByRoom()
        self.senders: Final = Senders(core, endpoints, role, capabilities.mark, self.unbound)
        self.forgetting: Final = RememberedLives(core, endpoints)
        self.binding: Final = Binding(core, endpoints, self.senders, self.forgetting,
                                      unbound=self.unbound, waits=waits, refuses=refuses)
        self.writes: Final = SourceWrites(core, endpoints, data_path, self.forgetting.settle)
        self.sinks: Final = Sinks(core, endpoints, self.senders, self.binding, self.forgetting,
                                  capabilities)
        self.keeps: Final = Keeps(core, self.senders, self.binding, self.sinks.put,
                                  Waits(waits, core.connections.suspicions.of_any),
                                  places)
        self.ended_rooms: Final = EndedRooms(endpoints, self.senders, self.binding)
        self.routing: Final = None if dp is None else PrefillRouting(
            core, endpoints, self.senders, self.binding, waits, dp)
        self.senders.put = self._open
        super().__init__(PREFILL, core, endpoints, capabilities, self.senders, (
            self.binding.part, self.writes.part, self.forgetting.part,
            self.sinks.part, self.keeps.part, self.ended_rooms.part,
            *(() if self.routing is None else (self.routing.part,))))

    def open(
        self, room: int, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Sender], None] | None = None, named: int | None = None,
        use: int | None = None, prompt: bytes | None = None,
    ) -> Sender:
        """Open a sender for a room; see PrefillNode.open. For any thread."""
        return self.senders.open(room, on_released, watcher, named, use, prompt)

    def keep(
        self, room: int, pages: int, watcher: Callable[[Sender], None],
        on_over: Callable[[], None], prompt: bytes | None = None,
    ) -> Sender:
        """Open a room to several decode requests; see PrefillNode.keep. For any thread."""
        if self.routing is not None:
            raise LocalProtocolError("keep: this node is one of several data-parallel ranks, which "
                                     "keep no room: want `open`")
        sender = Sender(self.senders, checked.room(room), prompt=checked.prompt(prompt))
        kept = Kept(sender, checked.whole("pages", pages), checked.function("watcher", watcher),
                    checked.function("on_over", on_over))
        self.senders.ask(lambda: self.keeps.open(kept, lambda: self._put(sender, None)))
        return sender

    def in_doubt(self) -> tuple[InDoubtAtSink, ...]:
        """See PrefillNode.in_doubt. For any thread."""
        return self.writes.in_doubt.all()

    def remembered(self) -> int:
        """See Node. Those of silent sinks have a gauge of their own."""
        return len(self.lives) - self.forgetting.silent()

    def is_awaited(self, owner: Sender) -> bool:
        """See Node."""
        return self.forgetting.awaits(owner.endpoint.life)

    def _open(self, sender: Sender, named: int | None) -> None:
        self.ended_rooms.open(sender)
        self._put(sender, named)

    def _put(self, sender: Sender, named: int | None) -> None:
        """The name of a data-parallel rank in a request means nothing on the only one."""
        self.binding.count(sender)
        self.sinks.put(sender)
        if self.routing is not None:
            self.routing.put(sender, named)
