"""Data paths that keep account instead of copying, and nodes that hand over by them.

A `Fabric` is the staging memory of all sinks of a test. It notes what must never happen: a write
that lands in memory that is not leased to its life, a chunk out of order, memory given back twice.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Final

from pdproto.engine.contract import EngineBusy
from pdproto.node.data_path import Fenced, Idle, Posted, Verified, WriteOutcome
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill.keeps import NO_PLACES, Places
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests.node.work import assert_no_slow_turn, clock_counts_work
from tests.waiting import until

# Of this process alone, so that no other takes a port that is to be used again here, or calls at
# one where somebody was before. Process numbers have 22 bits. Who calls it does so from 127.0.0.1.
OWN_HOST: Final = str(IPv4Address("127.64.0.0") + os.getpid())
ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)

Writer = tuple[Life, str]  # a life and one of its sources
Write = tuple[int, Life, bytes, int, Sequence[int]]  # number, life, address, chunk, pages


@dataclass(slots=True)
class Fabric:
    """Who may write where. written: by address, how many pages each chunk has brought."""

    leased: dict[bytes, Writer] = field(default_factory=dict)
    fenced: set[Writer] = field(default_factory=set)
    written: dict[bytes, list[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def land(
        self, writer: Writer, address: bytes, chunk: int, pages: Sequence[int]
    ) -> WriteOutcome:
        with self.lock:
            if writer in self.fenced:
                return WriteOutcome.REFUSED
            if self.leased.get(address) != writer:
                self.wrong.append(f"{writer} writes to {address!r}: {self.leased.get(address)}")
            brought = self.written.setdefault(address, [])
            if len(brought) != chunk:
                self.wrong.append(f"{writer}: chunk {chunk} after {brought}")
            brought.append(len(pages))
            return WriteOutcome.LANDED


class SourceDataPath:
    """Prefill's side. at_once: a write ends as soon as it is posted; otherwise `end` ends it.

    room: so many writes may be under way.
    """

    def __init__(
        self, name: str, fabric: Fabric, *, at_once: bool = True, room: int = 1 << 30
    ) -> None:
        self.name, self.fabric, self.at_once, self.room = name, fabric, at_once, room
        self.under_way: deque[Write] = deque()
        self.most = 0
        self._ended: deque[tuple[int, WriteOutcome, str]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @property
    def has_room(self) -> bool:
        return len(self.under_way) < self.room

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        """Offsets count chunks."""
        assert is_wanted()
        self.under_way.append((number, life, address, offset, pages))
        self.most = max(self.most, len(self.under_way))
        if self.at_once:
            self.end()
        return Posted(0, offset + 1)

    def end(
        self, outcome: WriteOutcome | None = None, reason: str = "", most: int = 1 << 30
    ) -> int:
        """End writes, the oldest first: as the fabric says, or as given. Returns how many.

        After an ERROR a write is still under way, as with an engine that has lost track of it:
        it ends when this is called again.
        """
        lost: list[Write] = []
        count = 0
        while self.under_way and count < most:
            write = self.under_way.popleft()
            count += 1
            number, life, address, chunk, pages = write
            if outcome is WriteOutcome.ERROR:
                lost.append(write)
            ended = outcome or self.fabric.land((life, self.name), address, chunk, pages)
            self._ended.append((number, ended, reason))
            self._wake()
        self.under_way.extend(lost)
        return count

    def outcomes(self) -> Iterable[tuple[int, WriteOutcome, str]]:
        while self._ended:
            yield self._ended.popleft()

    def close(self) -> None:
        pass


class SinkDataPath:
    """Decode's side. leases: so many lives may have memory. at_once: copies end as soon as they are
    begun; otherwise `end` ends them. fences: a fence comes up at once. lease_calls: of functions,
    which a lease makes.
    """

    def __init__(
        self, name: str, fabric: Fabric, *, leases: int = 1 << 30, at_once: bool = True,
        clean: bool = True, fences: bool = True, lease_calls: int = 0,
    ) -> None:
        self.name, self.fabric, self.leases, self.at_once = name, fabric, leases, at_once
        self.lease_calls = lease_calls
        self.refuses: Life | None = None  # as a system that is out of files does
        self.clean, self.fences = clean, fences
        self.asked: list[Writer] = []
        self._number = 0
        self._held: dict[Life, list[bytes]] = {}
        self._under_way: deque[Verified | Idle] = deque()
        self._reports: deque[Verified | Fenced | Idle] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        if life == self.refuses:
            raise EngineBusy("lease: no staging memory of 4096 bytes: Too many open files")
        if len(self._held) >= self.leases:
            return None
        for call in range(self.lease_calls):
            abs(call)
        given = {}
        with self.fabric.lock:
            for source in pages:
                self._number += 1
                given[source] = f"{self.name}/{self._number}".encode()
                self.fabric.leased[given[source]] = life, source
        self._held[life] = list(given.values())
        return given

    def verify(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> None:
        with self.fabric.lock:
            address = next(a for a, w in self.fabric.leased.items() if w == (life, source)
                           and a in self._held[life])
            brought = self.fabric.written.get(address, [])
        if brought != list(chunks) or sum(chunks) != len(pages):
            self.fabric.wrong.append(f"{life}: {brought} has come of {chunks} for {pages}")
        self._begin(Verified(life, source, self.clean))

    def settle(self, life: Life) -> None:
        self._begin(Idle(life))

    def _begin(self, copy: Verified | Idle) -> None:
        self._under_way.append(copy)
        if self.at_once:
            self.end()

    def end(self) -> int:
        """End all copies, in their order. Returns how many."""
        count = len(self._under_way)
        for _ in range(count):
            self._report(self._under_way.popleft())
        return count

    def fence(self, life: Life, source: str) -> None:
        self.asked.append((life, source))
        if self.fences:
            self.put_up()

    def put_up(self) -> None:
        """Have all fences that were asked for come up."""
        for life, source in self.asked:
            with self.fabric.lock:
                self.fabric.fenced.add((life, source))
            self._report(Fenced(life, source))

    def release(self, life: Life) -> None:
        with self.fabric.lock:
            for address in self._held.pop(life):
                del self.fabric.leased[address]
                self.fabric.written.pop(address, None)

    def _report(self, report: Verified | Fenced | Idle) -> None:
        self._reports.append(report)
        self._wake()

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        while self._reports:
            yield self._reports.popleft()

    def close(self) -> None:
        pass


def idle(node: RunningNode) -> bool:
    """Whether everything that a node counts has come back to zero."""
    return not any(value for name, value in node.metrics.read().items() if name.startswith("num_"))


def has_spoken(node: RunningNode, name: str) -> bool:
    """Whether the node has heard of the peer of that name."""
    return name in node._core.peers and bool(node._core.peers[name].incarnation)


class Cluster:
    """Prefill and decode nodes over loopback sockets, on one fabric."""

    def __init__(
        self, sources: int = 1, sinks: int = 1, *, link: Link | None = None,
        waits: Mapping[str, float] | None = None, prefill: Mapping[str, int] | None = None,
        decode: Mapping[str, int] | None = None,
        refuses: Callable[[int], str | None] = lambda _: None, places: Places = NO_PLACES,
    ) -> None:
        self.fabric = Fabric()
        self.link = replace(link or Link(sign_of_life_s=0.05), bind=f"tcp://{OWN_HOST}:0")
        self.waits = dict(waits or {})
        self.prefills: list[PrefillNode] = []
        self.decodes: list[DecodeNode] = []
        for number in range(sources):
            name = f"p{number}"
            data_path = SourceDataPath(name, self.fabric, **(prefill or {}))  # type: ignore[arg-type]
            self.prefills.append(
                PrefillNode(name, data_path, link=self.link, waits=self.waits, refuses=refuses,
                            places=places))
        for number in range(sinks):
            self.decodes.append(self.decode(f"d{number}", 17, **(decode or {})))

    def decode(self, name: str, incarnation: int, **options: int) -> DecodeNode:
        data_path = SinkDataPath(name, self.fabric, **options)  # type: ignore[arg-type]
        return DecodeNode(name, data_path, link=self.link, waits=self.waits,
                          incarnation=incarnation)

    @property
    def nodes(self) -> list[RunningNode]:
        return [*self.prefills, *self.decodes]

    @property
    def writing(self) -> SourceDataPath:
        """The data path of the first source."""
        return self.writings[0]

    @property
    def writings(self) -> list[SourceDataPath]:
        """The data paths of all sources."""
        return [path for node in self.prefills
                if isinstance(path := node._node.data_path, SourceDataPath)]

    @property
    def landing(self) -> SinkDataPath:
        """The data path of the first sink."""
        return next(path for node in self.decodes
                    if isinstance(path := node._node.data_path, SinkDataPath))

    def senders(
        self, room: int, use: int | None = None, prompt: bytes | None = None
    ) -> list[Sender]:
        return [node.open(room, use=use, prompt=prompt) for node in self.prefills]

    def receivers(
        self, room: int, *, generation: int | None = None, use: int | None = None,
        prompt: bytes | None = None,
    ) -> list[Receiver]:
        sources = {node.name: node.endpoint for node in self.prefills}
        sinks = [node.name for node in self.decodes]
        return [node.open(room, sources, sinks=sinks, generation=generation, use=use,
                          prompt=prompt)
                for node in self.decodes]

    def settled(self) -> None:
        """Wait until nobody holds or remembers anything; then nothing may have gone wrong. A turn
        empties one part after the other: each is waited for.
        """
        until(lambda: all(map(idle, self.nodes)) and not self.fabric.leased and not any(
            node._node.lives for node in self.nodes), lambda: f"still held: {self._held()}")
        assert self.fabric.wrong == []
        for node in self.nodes:
            assert node._loop.turn_errors == 0, node.name
            assert_no_slow_turn(node.name, node._loop.pace)

    def _held(self) -> list[object]:
        return [self.fabric.leased, *(node.metrics.read() for node in self.nodes)]

    def close(self) -> None:
        for node in self.nodes:
            node.close()


@contextmanager
def cluster(sources: int = 1, sinks: int = 1, **options: object) -> Iterator[Cluster]:
    """A cluster that is closed, whatever becomes of the test."""
    with clock_counts_work():
        nodes = Cluster(sources, sinks, **options)  # type: ignore[arg-type]
        try:
            yield nodes
        finally:
            nodes.close()


def polls(ends: Iterable[Sender | Receiver], *answers: KVPoll) -> Callable[[], bool]:
    """Whether all of these answer one of these."""
    asked = list(ends)
    return lambda: all(end.poll() in answers for end in asked)


def published(receivers: Iterable[Receiver], pages: int = 3) -> list[Receiver]:
    """The receivers with pages of their own, counted on from the generation."""
    given = list(receivers)
    for receiver in given:
        first = receiver.life.generation * 64
        receiver.publish(range(first, first + pages), receiver.life.generation)
    return given
