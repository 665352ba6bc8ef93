"""The ranks of `python -m lab soak`: the processes of prefill and of decode.

A rank behaves as a serving engine: it opens the hand-overs that the router begins, polls, never
waits, and reports the outcome of each to the router. Pages hold the bytes of the load.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from lab.sim import planted
from lab.soak.memory import resident_bytes
from lab.soak.messages import Begin, Ended, Leave, Left, SoakRank, State
from lab.soak.network import settle_in
from pdproto.drill.children import Pipe
from pdproto.drill.handoff.directory import registrar
from pdproto.drill.handoff.load import LoadRequest, Pages, Topology
from pdproto.drill.handoff.pools import layers_of
from pdproto.drill.handoff.rank import Pool
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.decode.receiver import Receiver
from pdproto.node.handle import ENDED
from pdproto.node.link import Link
from pdproto.node.prefill.sender import Sender
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode

POLL_S: Final = 0.005
# Shorter than a server's, so that a short while sees every one of them end.
WAITS: Final = {"bootstrap_timeout": 5.0, "transfer_timeout": 8.0, "no_drain": 1.0}
# Gauges that must be zero when nothing is open, beside all those called num_*.
HELD: Final = ("engine_leases", "engine_leased_bytes", "engine_pending_fences",
               "engine_inflight_chunks", "engine_inflight_bytes")


@dataclass(slots=True)
class _Open:
    request: LoadRequest
    end: Sender | Receiver
    pages: tuple[int, ...]
    since: float
    sent: bool = False
    left: bool = False  # by its client


@dataclass(slots=True, kw_only=True)
class _Scheduler:
    """The scheduler of both kinds of rank.

    waiting: requests that wait for free pages. lost: how often the node had lost a peer when the
    last request began. sure_from: see Left. next: one more than the last room that began here.
    """

    place: SoakRank
    node: RunningNode
    pool: Pool
    pipe: Pipe
    waiting: deque[Begin] = field(default_factory=deque)
    open: dict[int, _Open] = field(default_factory=dict)
    verified_bytes: int = 0
    leaves: bool = False
    emptied: Future[None] | None = None
    early: int = 0
    lost: float = 0.0
    sure_from: int = 0
    next: int = 0

    def run(self) -> None:
        """Run until the router ends it."""
        while self._hear():
            self._begin_all()
            self._leave()
            ended = [told for room in list(self.open) for told in self.look(room)]
            if ended:
                self.pipe.send(ended)

    def _hear(self) -> bool:
        """Wait for a moment, and read the messages of the router. Returns whether the rank goes on.
        """
        sleep(POLL_S)
        while self.pipe.poll():
            message = self.pipe.recv()
            if message is None:
                return False
            if isinstance(message, Leave):
                self.leaves = True
            elif isinstance(message, list):
                self.waiting.extend(message)
            else:
                self.pipe.send(self._state())
        return True

    def _leave(self) -> None:
        """Drain as soon as every request has its pages, and say when the node is empty."""
        if self.leaves and not self.waiting:
            self.leaves, self.emptied = False, self.node.drain()
        if self.emptied is not None and self.emptied.done():
            self.early += sum(one.end.poll() not in ENDED for one in self.open.values())
            if not self.open:
                self.emptied = None
                self._note_lost(self.next)
                self.pipe.send(Left(self.early, self.sure_from))

    def _note_lost(self, room: int) -> None:
        """Note that rooms before this one may have lost a peer, if the node has lost one."""
        lost = self.node.metrics.count("lost_peers")
        if lost != self.lost:
            self.lost, self.sure_from = lost, room

    def _begin_all(self) -> None:
        while self.waiting:
            begin = self.waiting[0]
            request = self.place.load.request(begin.room)
            pages = self.pool.take(request.pages)
            if pages is None:
                return
            self.waiting.popleft()
            self._note_lost(begin.room)
            self.next = begin.room + 1
            end = self.start(begin, pages)
            self.open[begin.room] = _Open(request, end, pages, monotonic())

    def start(self, begin: Begin, pages: tuple[int, ...]) -> Sender | Receiver:
        raise NotImplementedError

    def look(self, room: int) -> Iterator[Ended]:
        raise NotImplementedError

    def _state(self) -> State:
        numbers = self.node.metrics.read()
        gauges = {name: value for name, value in numbers.items()
                  if value and (name.startswith("num_") or name in HELD)}
        held = {"hand-overs": len(self.open) + len(self.waiting),
                "pages": self.place.load.pool_pages - len(self.pool)}
        return State(
            held=gauges | {name: count for name, count in held.items() if count},
            faults=violations(numbers),
            counters={name: value for name, value in numbers.items() if "num_" not in name},
            verified_bytes=self.verified_bytes, files=len(os.listdir("/proc/self/fd")),
            resident=resident_bytes(os.getpid()),
        )


def violations(numbers: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a node that must be 0, and are not. With slow turns, the name says how long
    the longest one took.
    """
    slow = f"slow turns, the longest of {numbers['longest_turn_seconds'] * 1e3:.1f} ms"
    names = {"slow_turns": slow} | {name: name for name in (
        "turn_errors", "refused_calls", "spoilt_chunks", "refused_frames")}
    return {told: numbers[name] for name, told in names.items() if numbers[name]}


@dataclass(slots=True, kw_only=True)
class _Prefill(_Scheduler):
    """A prefill rank: it computes a request at once, and sends it as soon as a sink has memory."""

    node: PrefillNode
    pages: Pages

    def start(self, begin: Begin, pages: tuple[int, ...]) -> Sender:
        for index, page in enumerate(pages):
            self.pages[:, page] = self.place.load.page(begin.room, self.place.name, index)
        return self.node.open(begin.room, partial(self.pool.give, pages))

    def look(self, room: int) -> Iterator[Ended]:
        held = self.open[room]
        poll, sender = held.end.poll(), held.end
        if poll in (KVPoll.SUCCESS, KVPoll.FAILED):
            del self.open[room]
            yield Ended(room, poll is KVPoll.SUCCESS, sender.failure or "")
        elif not held.left and held.request.left("prefill", held.since, monotonic()):
            held.left = True
            sender.abort("the client has left")
        elif not held.sent and poll is KVPoll.WAITING_FOR_INPUT and isinstance(sender, Sender):
            held.sent = True
            self._send(held.request, sender, held.pages)

    def _send(self, request: LoadRequest, sender: Sender, pages: tuple[int, ...]) -> None:
        *first, last = [list(map(int, part)) for part in np.array_split(pages, request.chunks)]
        for chunk in first:
            sender.send(chunk, last=False)
        sender.send(last, metadata=self.place.load.metadata(request.room, self.place.name))


@dataclass(slots=True, kw_only=True)
class _Decode(_Scheduler):
    """A decode rank: it gives a request memory at once, and verifies every byte."""

    node: DecodeNode
    pages: Mapping[str, Pages]

    def start(self, begin: Begin, pages: tuple[int, ...]) -> Receiver:
        give = partial(self.pool.give, pages)
        return self.node.open(begin.room, begin.where, on_released=give, pages=pages,
                              slot=begin.room)

    def look(self, room: int) -> Iterator[Ended]:
        held = self.open[room]
        poll, receiver = held.end.poll(), held.end
        if poll is KVPoll.SUCCESS and isinstance(receiver, Receiver):
            corrupt = not self._is_right(held.request, receiver, held.pages)
            receiver.close()
            del self.open[room]
            yield Ended(room, True, corrupt=corrupt)
        elif poll is KVPoll.FAILED:
            del self.open[room]
            yield Ended(room, False, receiver.failure or "")
        elif not held.left and held.request.left("decode", held.since, monotonic()):
            held.left = True
            receiver.abort("the client has left")

    def _is_right(self, request: LoadRequest, receiver: Receiver, pages: tuple[int, ...]) -> bool:
        right, load = True, self.place.load
        for source, pools in self.pages.items():
            right &= receiver.metadata.get(source) == load.metadata(request.room, source)
            for index, page in enumerate(pages):
                want = load.page(request.room, source, index)
                right &= np.array_equal(pools[:, page], want)
                self.verified_bytes += want.nbytes
        return right


def with_defect(name: str | None, body: Callable[..., None], *arguments: Any) -> None:
    """Run the body with tables that have the historical defect of this name, if one is named."""
    if name is not None:
        planted.put_in(planted.named(name).system)
    body(*arguments)


def prefill(place: SoakRank, pipe: Pipe) -> None:
    """Run the process of a prefill rank."""
    settle_in()
    load, topology = place.load, Topology(len(place.sources), 1, 1)
    pages = np.zeros((load.layers, load.pool_pages, load.page_bytes), np.uint8)
    node = PrefillNode(place.name, SourcePages(layers_of(pages), open_source(place.engine)),
                       link=Link(advertise=place.advertise), waits=WAITS)
    pipe.send(node.bound)
    entry = registrar(place.registry, place.name, topology, node.endpoint, None)
    entry.follow(node)
    entry.start()
    scheduler = _Prefill(place=place, node=node, pool=Pool(load.pool_pages), pipe=pipe, pages=pages)
    with suppress(EOFError):  # the router is gone
        scheduler.run()
    entry.stop()
    _end(node, pipe)


def decode(place: SoakRank, pipe: Pipe) -> None:
    """Run the process of a decode rank."""
    settle_in()
    load = place.load
    pages = {source: np.zeros((load.layers, load.pool_pages, load.page_bytes), np.uint8)
             for source in place.sources}
    data_path = SinkPages({source: layers_of(of) for source, of in pages.items()},
                      open_sink(place.engine))
    node = DecodeNode(place.name, data_path, link=Link(advertise=place.advertise), waits=WAITS)
    pipe.send(node.bound)
    scheduler = _Decode(place=place, node=node, pool=Pool(load.pool_pages), pipe=pipe, pages=pages)
    with suppress(EOFError):
        scheduler.run()
    _end(node, pipe)


def _end(node: RunningNode, pipe: Pipe) -> None:
    """Close the node, and report the resources that the process still has. Its pipe is a socket."""
    node.close()
    links = [os.readlink(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{file}")]
    left = {"threads": threading.active_count() - 1,
            "sockets": sum(link.startswith("socket:") for link in links) - 1}
    with suppress(OSError):
        pipe.send({what: count for what, count in left.items() if count})
