"""The nodes that applications use: a core without I/O (node/) on an event loop of its own.

    prefill = PrefillNode("p0", SourcePages(pools, open_source("tcp")))
    sender = prefill.open(room=7)

Every method returns at once, and may be called by any thread. The hand-over itself is driven by the
handles that `open` returns (node/prefill/sender.py, node/decode/receiver.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Final, TypeVar

from pdproto.node.data_path import SinkDataPath, SourceDataPath
from pdproto.node.decode.node import Decode
from pdproto.node.decode.pool import DIRECT_ROLE, Pool, direct_pool
from pdproto.node.decode.receiver import Addressed, Receiver
from pdproto.node.decode.routing import DecodeDesk
from pdproto.node.drain import Drain
from pdproto.node.handle import Handle
from pdproto.node.link import Link
from pdproto.node.metrics import Metrics
from pdproto.node.node import Node
from pdproto.node.prefill.in_doubt import InDoubtAtSink
from pdproto.node.prefill.keeps import NO_PLACES, Places
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.routing import DataParallelRank
from pdproto.node.prefill.sender import Sender
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE, SinkRole, SourceRole
from pdproto.runtime.trace import StepObserver
from pdproto.transport.event_loop import EventLoop
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.open_handoffs import OpenHandoffs, open_handoffs

log = logging.getLogger("pdproto.transport")

AnyHandle = TypeVar("AnyHandle", bound=Handle)


def _link(link: Link | None) -> Link:
    return Link() if link is None else checked.one_of("link", link, Link)


class RunningNode:
    """The methods that both kinds of node have.

    name: unique among all nodes that the node communicates with. incarnation: of this run of the
    process. endpoint: where peers are told to call. bound: where the node listens. metrics: its
    counters and gauges.
    """

    def __init__(self, node: Node, link: Link) -> None:
        core = node.core
        self.name: Final = core.name
        self.incarnation: Final = core.incarnation
        self.metrics: Final[Metrics] = core.metrics
        self._node = node
        self._core: Final = core
        self._drain: Drain | None = None
        self._draining: Final = Lock()
        self._leaving: Final[list[Callable[[Sequence[int], Future[None]], None]]] = []
        self._loop: Final = EventLoop(core, link)
        self.bound: Final = self._loop.bound
        self.endpoint: Final = self._loop.endpoint
        self._loop.measure(core.metrics)
        core.metrics.gauge("healthy", "1 while some hand-over can go on, else 0",
                           lambda: float(self.health() is None))
        core.metrics.gauge("draining", "1 once a drain has counted its requests, else 0",
                           lambda: float(self._drain_waits_for() is not None))
        core.metrics.gauge("num_drain_reqs", "Requests that a drain waits for",
                           lambda: self._drain_waits_for() or 0)
        self._loop.start()

    def health(self) -> str | None:
        """Why no hand-over can make progress here; None while some can (property L11)."""
        return self.stalled() or self._core.problem()

    def drain(self) -> Future[None]:
        """Take no new request from now on. The result comes when those that are there have ended,
        and no peer needs this node for them any more: its process may end then.

        A request that the application opens later fails at once, at both servers, with the reason.
        A second call returns the same. Raises LocalProtocolError when the node is closed.
        """
        with self._draining:
            if self._drain is None:
                drain = self._drain = Drain(self._node, self._leave)
                try:
                    self._core.ask(drain.begin)
                except LocalProtocolError:
                    self._drain = None
                    raise
            return self._drain.emptied

    def on_leave(self, tell: Callable[[Sequence[int], Future[None]], None]) -> None:
        """Call `tell` in the loop when a drain begins.

        It gets the rooms of the requests that the drain waits for, and the future of `drain`. So
        the registry learns of a drain (Registrar.follow in registry/registrar.py).
        """
        checked.function("tell", tell)
        self._leaving.append(tell)

    def _leave(self, rooms: Sequence[int]) -> None:
        assert self._drain is not None  # noqa: S101 - it has begun
        for tell in self._leaving:
            self._core.tell("on_leave", tell, rooms, self._drain.emptied)

    def unready(self) -> str | None:
        """Why this node gets no new request: it drains, or `health`. None if it takes some."""
        return self.health() if self._drain is None else self._drain.told()

    def _drain_waits_for(self) -> int | None:
        """How many requests a drain waits for; None before it has counted them."""
        return None if self._drain is None else self._drain.left

    def _met(self, handle: AnyHandle) -> AnyHandle:
        """A handle that was just opened. A drain refuses it."""
        drain = self._drain
        if drain is not None:
            self._core.ask(lambda: drain.meet(handle))
        return handle

    def _refusal(self, room: int) -> str | None:
        """Why a drain refuses a room that a sink begins; None if none does."""
        return None if self._drain is None else self._drain.refusal(room)

    def stalled(self) -> str | None:
        """Why only a restart of the process helps: the node's loop is closed or hangs, all its
        turns fail, or the device of its pages has failed for good. None while none is so.
        """
        return self._loop.stalled() or self._node.broken()

    def open_handoffs(
        self, most: int = 100, room: int | None = None, state: str | None = None
    ) -> OpenHandoffs:
        """The open hand-overs that have been longest in their state. For any thread.

        most: how many are described. room, state: only hand-overs of this room, or in this state.
        Raises ValueError for a state that they do not have.
        """
        if state is not None:
            checked.text("state", state)
        return open_handoffs(self._node, self.health(), checked.whole("most", most),
                             checked.whole_or_none("room", room), state)

    def lost_peers(self) -> tuple[str, ...]:
        """The names of the peers that count as gone."""
        return self._core.connections.lost()

    def living_peers(self) -> tuple[str, ...]:
        """The names of the known peers that do not count as gone."""
        return tuple(p.name for p in list(self._core.peers.values()) if not p.lost)

    @property
    def faults(self) -> str:
        """The faults in force, in the form that `inject` takes."""
        return str(self._node.faults)

    def inject(self, faults: str) -> None:
        """Fail hand-overs on purpose from now on, to test the rest of the system.

        faults: probabilities by name (node/faults.py), such as `bootstrap=0.1`. A fault that
        is not named is 0. Raises FaultsError, and changes nothing then.
        """
        checked.one_of("faults", faults, str, "text")
        before = self.faults
        self._node.faults.set(faults)
        if self.faults != before:
            log.warning("node %s: faults injected from now on: %s", self.name, self.faults,
                        extra={"rank": self.name})

    def declare_gone(self, name: str) -> None:
        """Tell the node that the process of this peer has ended.

        A node can only see that a peer is silent, which proves nothing. So memory that the peer may
        still write to is not reused before its successor appears. A supervisor that has seen the
        process end, or has cut its power, knows more. If the process still runs, this call breaks
        the properties S1 and S8.

        Raises LocalProtocolError when this node is closed. A name that was never known is logged
        and counted (`refused_calls`).
        """
        told = checked.text("name", name)
        self._core.ask(lambda: self._core.declare_gone(told))

    def close(self) -> None:
        """Abort open hand-overs, tell the peers, and free every thread, socket and page.

        A second call does nothing.
        """
        self._loop.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint}>"


class PrefillNode(RunningNode):
    """The node of a prefill rank: it opens senders and writes their pages to sinks.

    name: unique among all nodes that it communicates with. data_path: moves the bytes. link: how
    the node communicates; default: with peers on this host. waits: seconds by name of timer, in
    place of the defaults. trace: writes the steps of the node's endpoints.

    dp: the data-parallel rank of this node, where the server has several.
    refuses: called in the loop for a room that a sink introduces and that is not open here. It
    returns why no sender will open it, or None if one may. A refused sink fails at once, with that
    reason. role: the tables to run, if not those of the hand-over. places: bound what `keep` keeps;
    default: nothing.

    Raises OSError if the node cannot listen at `link`, ValueError for a bad name or timer.
    """

    _node: Prefill
    _kind: Callable[..., Prefill] = Prefill

    def __init__(  # noqa: PLR0913 - all but two have a default
        self,
        name: str,
        data_path: SourceDataPath,
        *,
        link: Link | None = None,
        waits: Mapping[str, float] | None = None,
        trace: StepObserver | None = None,
        refuses: Callable[[int], str | None] = lambda _: None,
        role: SourceRole = SOURCE_ROLE,
        dp: DataParallelRank | None = None,
        places: Places = NO_PLACES,
    ) -> None:
        link = _link(link)
        checked.function("refuses", refuses)
        super().__init__(self._kind(
            name, data_path, link=link, incarnation=new_incarnation(), waits=waits, trace=trace,
            role=role, dp=dp, places=places,
            refuses=lambda room: self._refusal(room) or refuses(room)), link)

    def open(
        self, room: int, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Sender], None] | None = None, named: int | None = None,
        use: int | None = None, prompt: bytes | None = None,
    ) -> Sender:
        """Open a sender for a room.

        room: from 0 to 2**63 - 1. on_released, watcher: see `Handle.watch`. named: the
        data-parallel rank that the request asks for. If decode looks for the room on another rank
        than this one, the sender fails at once, and so does its receiver. use: the number of the
        request among those of its room, if the room comes again: the same on both servers and all
        their ranks, and each number once. Without it a retry fails with its predecessor, if its two
        halves come more than a second apart (decision 046). prompt: a name for all that the KV
        depends on (at most 32 bytes, such as a digest), the same on both servers. The request gets
        a life of this prompt; if its room brings another one only, both ends fail, and tell both
        names. Without it a request meets lives without a prompt alone, in the order of both: decode
        then gets the KV of whatever prompt prefill has computed in this room, with Success, and no
        end compares them (decision 101). Raises LocalProtocolError when the node is closed,
        TypeError or ValueError for a room or a prompt that is none.
        """
        return self._met(self._node.open(room, on_released, watcher, named, use, prompt))

    def keep(
        self, room: int, *, pages: int, watcher: Callable[[Sender], None],
        on_over: Callable[[], None], prompt: bytes | None = None,
    ) -> Sender:
        """Open a room to any number of decode requests: each gets a sender of its own.

        Further ones are served until the wait `keep` has ended after the last of them, while
        `places` last; then they fail at once, with the reason. pages: how many pages the request
        has. watcher: called with each sender after each of its steps; it sends the pages when
        `poll` returns WAITING_FOR_INPUT. on_over: called in the loop when no request will read
        the pages any more, unless the node is closed before. room, prompt: see `open`. Returns the
        sender of the first decode request. Raises as `open` does.
        """
        return self._met(self._node.keep(room, pages, watcher, on_over, prompt))

    def in_doubt(self) -> tuple[InDoubtAtSink, ...]:
        """Writes that the engine has given up on, and that may still land; the oldest first.

        Their pages are free. But the node remembers their lives until the sink has fenced this
        node, or until the sink's process is known to have ended; see `declare_gone`.
        """
        return self._node.in_doubt()


class DecodeNode(RunningNode):
    """The node of a decode rank: it opens receivers, leases memory and commits pages.

    name, data_path, link, waits, trace: see PrefillNode. incarnation: the same for all ranks of a
    group; default: a new one. role, pool: the tables to run, if not those of the hand-over. desk:
    sends the requests of `seek` to the registries of prefill servers (registry/desks.py).

    Raises OSError if the node cannot listen at `link`, ValueError for a bad name or timer.
    """

    _node: Decode
    _kind: Callable[..., Decode] = Decode

    def __init__(  # noqa: PLR0913 - all but two have a default
        self,
        name: str,
        data_path: SinkDataPath,
        *,
        link: Link | None = None,
        incarnation: int | None = None,
        waits: Mapping[str, float] | None = None,
        trace: StepObserver | None = None,
        role: SinkRole = SINK_ROLE,
        pool: Pool | None = None,
        desk: DecodeDesk | None = None,
    ) -> None:
        link = _link(link)
        run = checked.whole_or_none("incarnation", incarnation) or new_incarnation()
        self._opening: Final = Lock()
        super().__init__(self._kind(name, data_path, link=link,
                                    incarnation=run, waits=waits, trace=trace, role=role,
                                    pool=pool, desk=desk), link)

    def open(  # noqa: PLR0913 - all but two have a default
        self,
        room: int,
        sources: Mapping[str, str],
        *,
        sinks: Sequence[str] = (),
        generation: int | None = None,
        on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None,
        pages: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        slot: int | None = None,
        addressed: Addressed | None = None,
        use: int | None = None,
        prompt: bytes | None = None,
        once: bool = False,
        soon: bool = True,
    ) -> Receiver:
        """Open a receiver for a room.

        sources: all prefill ranks that write to this rank: their endpoints, by name. sinks: the
        names of all ranks of this group to which the same sources write (default: this rank).
        generation: the number of the life, if the ranks of a group must agree on it; each number
        once, ascending. on_released, watcher: see `Handle.watch`. pages, slot: see
        `Receiver.publish`; without them, call that method later. addressed: the data-parallel rank
        of the sources, where the prefill server has several. use, prompt: see PrefillNode.open.
        once: prefill has one request of this room and prompt, which is this receiver's: if it has
        ended there, the receiver fails at once. Otherwise it waits for another request. soon: False
        if `publish` follows at once: then one message tells each source of both.

        Raises LocalProtocolError when the node is closed, ValueError without sources, and TypeError
        or ValueError as PrefillNode.open does.
        """
        with self._opening:  # so that lives begin in the order of their numbers
            return self._met(self._node.open(
                room, sources, sinks=sinks, generation=generation, on_released=on_released,
                watcher=watcher, pages=pages, slot=slot, addressed=addressed, use=use,
                prompt=prompt, once=once, soon=soon))

    def seek(  # noqa: PLR0913 - all but three have a default
        self, room: int, server: str, *, pages: Sequence[int], slot: int | None = None,
        named: int | None = None, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None, use: int | None = None,
        prompt: bytes | None = None,
    ) -> Receiver:
        """Open a receiver for a room of the prefill server whose registry is at this address.

        The data-parallel rank that runs the room is, in this order: `named`, by the request; the
        only one; room modulo ranks, if the server keeps to that rule; the registry's answer. The
        receiver fails, with the reason, if the look-up fails, if prefill has failed the room, and
        after the wait `unresolved`. pages, slot: as `Receiver.publish` takes them. use,
        prompt: see PrefillNode.open.
        Raises LocalProtocolError when the node is closed, or has no desk.
        """
        with self._opening:
            return self._met(self._node.seek(
                room, server, pages=pages, slot=slot, named=named, on_released=on_released,
                watcher=watcher, use=use, prompt=prompt))


class DirectDecodeNode(DecodeNode):
    """A decode node whose sources write straight into its pages.

    data_path: DirectPages, or another data path that keeps rule 3 of pages/direct.py. Other
    arguments: see DecodeNode.
    """

    def __init__(
        self,
        name: str,
        data_path: SinkDataPath,
        *,
        link: Link | None = None,
        incarnation: int | None = None,
        waits: Mapping[str, float] | None = None,
        trace: StepObserver | None = None,
        desk: DecodeDesk | None = None,
    ) -> None:
        super().__init__(name, data_path, link=link, incarnation=incarnation, waits=waits,
                         trace=trace, role=DIRECT_ROLE, pool=direct_pool(), desk=desk)
