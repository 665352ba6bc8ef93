"""The processes of `pdproto handoff`: a prefill rank, a decode rank, and what they report.

Each is what a serving engine's scheduler would be: it opens hand-overs in the order of the rooms,
polls them, and never waits. The forward pass is the filling of pages with what the load says.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from pdproto.cli.handoff_directory import Directory, registrar, wait_for
from pdproto.cli.handoff_group import GroupedSenders
from pdproto.cli.handoff_load import Load, Pages, Request, Topology
from pdproto.cli.handoff_optimistic import OptimisticSenders
from pdproto.net.decode import DecodeNode
from pdproto.net.engines import open_sink, open_source
from pdproto.net.group import Group
from pdproto.net.node import Node
from pdproto.net.pages import SinkPages, SourcePages
from pdproto.net.prefill import PrefillNode
from pdproto.net.receiver import Receiver
from pdproto.net.registry_app import RegistryServer
from pdproto.net.sender import Sender
from pdproto.net.shell import Link
from pdproto.runtime.trace import Trace
from pdproto.spec.handoff.poll import KVPoll

POLL_S: Final = 0.0005
REPORT_S: Final = 0.2
START_S: Final = 60.0
SETTLE_S: Final = 20.0  # for everything to be given back after the last request


@dataclass(frozen=True, slots=True)
class Rank:
    """What a process is told: who it is, and what to do.

    first: the room to begin with. group: where the prefill ranks listen to each other, if there is
    more than one.
    """

    name: str
    topology: Topology
    load: Load
    engine: str
    registry: str
    incarnation: int
    first: int = 0
    waits: Mapping[str, float] = field(default_factory=dict)
    trace: str | None = None
    group: tuple[str, ...] = ()

    def run_forward(self, request: Request, pages: tuple[int, ...], pools: Pages) -> None:
        """What a model would do: fill the pages of this rank's share."""
        share = self.topology.share(self.name, request.pages)
        for page, index in zip(pages, share, strict=True):
            pools[:, page] = self.load.page(request.room, self.name, index)

    def send(self, request: Request, sender: Sender, pages: tuple[int, ...]) -> None:
        """Hand the pages over, in chunks, with the metadata row."""
        chunks = [list(map(int, part)) for part in np.array_split(pages, request.chunks)]
        for chunk in chunks[:-1]:
            sender.send(chunk, last=False)
        sender.send(chunks[-1], metadata=self.load.metadata(request.room, self.name))


@dataclass(slots=True)
class Report:
    """What a rank has done. outcomes: by room, True for Success. reasons: why the others failed.

    latencies: seconds from open to Success. left: what should be zero at the end, by name.
    """

    name: str
    outcomes: dict[int, bool] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    corrupt: list[int] = field(default_factory=list)
    verified_bytes: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)


@contextmanager
def _traced(rank: Rank) -> Iterator[Trace | None]:
    if rank.trace is None:
        yield None
        return
    # Unbuffered: what a rank that is killed has sent, its trace tells.
    with open(f"{rank.trace}/{rank.name}.jsonl", "ab", buffering=0) as target:
        yield Trace(rank.name, target)


class Pool:
    """Page numbers that are nobody's. Pages come back from the node's loop."""

    def __init__(self, pages: int) -> None:
        self._free: Final = deque(range(pages))

    def take(self, count: int) -> tuple[int, ...] | None:
        if len(self._free) < count:
            return None
        return tuple(self._free.popleft() for _ in range(count))

    def give(self, pages: tuple[int, ...]) -> None:
        self._free.extend(pages)

    def __len__(self) -> int:
        return len(self._free)


class Progress:
    """Tells the parent how far the rank has come: now and then, and at every tenth."""

    def __init__(self, pipe: "Connection[Any, Any]", requests: int) -> None:
        self._pipe: Final = pipe
        self._tenth: Final = max(1, requests // 10)
        self._told = 0.0
        self._done = 0

    def tell(self, done: int) -> None:
        now = monotonic()
        if now - self._told > REPORT_S or done - self._done >= self._tenth:
            self._told, self._done = now, done
            self._pipe.send(done)


def registry(pipe: "Connection[Any, Any]") -> None:
    """The whole life of the registry's process."""
    with RegistryServer() as server:
        pipe.send(f"{server.host}:{server.port}")
        pipe.recv()


def prefill_rank(rank: Rank, pipe: "Connection[Any, Any]") -> None:
    """The whole life of a prefill rank's process."""
    load = rank.load
    pools = np.zeros((load.layers, load.pool_pages, load.page_bytes), np.uint8)
    with _traced(rank) as trace:
        plane = SourcePages(_layers(pools), open_source(rank.engine))
        node = PrefillNode(rank.name, plane, link=Link(), waits=rank.waits, trace=trace)
        entry = registrar(rank.registry, rank.name, rank.topology, node.endpoint)
        entry.start()
        pipe.send(rank.name)
        pipe.recv()  # every process is there
        report, pool = Report(rank.name), Pool(load.pool_pages)
        progress = Progress(pipe, load.requests)
        group: Group | None = None
        if load.retries is not None:
            for _ in OptimisticSenders(rank, node, pools, pool, report).run():
                progress.tell(len(report.outcomes))
        elif len(rank.group) > 1:
            grouped = GroupedSenders(rank, node, pools, pool, report)
            group = grouped.group
            for _ in grouped.run():
                progress.tell(len(report.outcomes))
        else:
            for _ in _Senders(rank, node, pools, pool).run(report):
                progress.tell(len(report.outcomes))
        used = Used(node, pool, load.pool_pages, group)
        _settle(report, used, pipe)
        if group is not None:
            group.close()
        entry.stop()
        _end(node, pipe)


class _Senders:
    """The scheduler of a prefill rank."""

    def __init__(self, rank: Rank, node: PrefillNode, pools: Pages, pool: Pool) -> None:
        self.rank, self.node, self.pools, self.pool = rank, node, pools, pool
        self.open: dict[int, tuple[Request, Sender, tuple[int, ...], float]] = {}
        self.sent: set[int] = set()
        self.aborted: set[int] = set()

    def run(self, report: Report) -> Iterator[None]:
        load = self.rank.load
        upcoming = self.rank.first
        while upcoming < load.requests or self.open:
            while upcoming < load.requests and len(self.open) < load.in_flight:
                if not self._begin(load.request(upcoming)):
                    break
                upcoming += 1
            for room in list(self.open):
                self._look(room, report)
            yield
            sleep(POLL_S)

    def _begin(self, request: Request) -> bool:
        """Run the forward pass of a request: fill its pages, and open its hand-over."""
        share = self.rank.topology.share(self.rank.name, request.pages)
        pages = self.pool.take(len(share))
        if pages is None:
            return False
        self.rank.run_forward(request, pages, self.pools)
        sender = self.node.open(request.room, lambda: self.pool.give(pages))
        self.open[request.room] = request, sender, pages, monotonic()
        return True

    def _look(self, room: int, report: Report) -> None:
        request, sender, pages, opened = self.open[room]
        poll = sender.poll()
        if room not in self.aborted and request.left("prefill", opened, monotonic()):
            self.aborted.add(room)
            sender.abort("the client has left")
        elif poll is KVPoll.WAITING_FOR_INPUT and room not in self.sent:
            self.sent.add(room)
            self.rank.send(request, sender, pages)
        elif poll in (KVPoll.SUCCESS, KVPoll.FAILED):
            report.outcomes[room] = poll is KVPoll.SUCCESS
            if poll is KVPoll.FAILED:
                report.reasons[room] = sender.failure or ""
            del self.open[room]
            self.sent.discard(room)


def decode_rank(rank: Rank, pipe: "Connection[Any, Any]") -> None:
    """The whole life of a decode rank's process."""
    load = rank.load
    sources = rank.topology.sources(rank.name)
    pools = {source: np.zeros((load.layers, load.pool_pages, load.page_bytes), np.uint8)
             for source in sources}
    with _traced(rank) as trace:
        plane = SinkPages({name: _layers(of) for name, of in pools.items()},
                          open_sink(rank.engine))
        node = DecodeNode(rank.name, plane, link=Link(), incarnation=rank.incarnation,
                          waits=rank.waits, trace=trace)
        directory = Directory(rank.registry, sources)
        pipe.send(rank.name)
        pipe.recv()  # every process is there
        if not wait_for(directory, START_S):
            raise TimeoutError(f"{rank.name}: not every prefill rank has registered")
        report, pool = Report(rank.name), Pool(load.pool_pages)
        progress = Progress(pipe, load.requests)
        receivers = _Receivers(rank, node, pools, pool, directory)
        for _ in receivers.run(report):
            progress.tell(len(report.outcomes))
        _settle(report, Used(node, pool, load.pool_pages), pipe)
        directory.close()
        _end(node, pipe)


class _Receivers:
    """The scheduler of a decode rank."""

    def __init__(
        self,
        rank: Rank,
        node: DecodeNode,
        pools: Mapping[str, Pages],
        pool: Pool,
        directory: Directory,
    ) -> None:
        self.rank, self.node, self.pools, self.pool = rank, node, pools, pool
        self.directory = directory
        self.publishing: deque[tuple[float, Receiver, dict[str, list[int]]]] = deque()
        self.open: dict[int, tuple[Request, Receiver, tuple[int, ...], float]] = {}
        self.aborted: set[int] = set()

    def run(self, report: Report) -> Iterator[None]:
        load = self.rank.load
        upcoming = 0
        while upcoming < load.requests or self.open:
            while upcoming < load.requests and len(self.open) < load.in_flight:
                if not self._begin(load.request(upcoming)):
                    break
                upcoming += 1
            self._publish()
            for room in list(self.open):
                self._look(room, report)
            yield
            sleep(POLL_S)

    def _begin(self, request: Request) -> bool:
        where = self.directory.endpoints
        pages = self.pool.take(request.pages) if where is not None else None
        if where is None or pages is None:
            return False
        receiver = self.node.open(request.room, where, generation=request.room,
                                  on_released=lambda: self.pool.give(pages))
        share = self.rank.topology.share
        shares = {source: [pages[i] for i in share(source, request.pages)] for source in where}
        now = monotonic()
        self.publishing.append((now + self.rank.load.publish_s, receiver, shares))
        self.open[request.room] = request, receiver, pages, now
        return True

    def _publish(self) -> None:
        """Give their memory to those that have waited for it long enough."""
        while self.publishing and self.publishing[0][0] <= monotonic():
            _, receiver, shares = self.publishing.popleft()
            receiver.publish(shares, slot=receiver.life.room)

    def _look(self, room: int, report: Report) -> None:
        request, receiver, pages, opened = self.open[room]
        poll = receiver.poll()
        if room not in self.aborted and request.left("decode", opened, monotonic()):
            self.aborted.add(room)
            receiver.abort("the client has left")
        elif poll is KVPoll.SUCCESS:
            report.latencies.append(monotonic() - opened)
            report.outcomes[room] = True
            self._verify(request, receiver, pages, report)
            receiver.close()
            del self.open[room]
        elif poll is KVPoll.FAILED:
            report.outcomes[room] = False
            report.reasons[room] = receiver.failure or ""
            for name in self.node.lost_peers():
                self.directory.lost(name)
            del self.open[room]

    def _verify(
        self, request: Request, receiver: Receiver, pages: tuple[int, ...], report: Report
    ) -> None:
        """Compare every byte of every page, and the metadata, with what the load says."""
        load, room = self.rank.load, request.room
        for source, pools in self.pools.items():
            right = receiver.metadata.get(source) == load.metadata(room, source)
            for index in self.rank.topology.share(source, request.pages):
                want = load.page(room, source, index)
                right = right and np.array_equal(pools[:, pages[index]], want)
                report.verified_bytes += want.nbytes
            if not right:
                report.corrupt.append(room)


def _layers(pools: Pages) -> list[Pages]:
    """Pools as the kernels want them: one [page, token, head, byte] for each layer."""
    layers, pages, page_bytes = pools.shape
    return list(pools.reshape(layers, pages, 1, 1, page_bytes))


@dataclass(frozen=True, slots=True)
class Used:
    """What of a rank must be back at zero in the end."""

    node: Node
    pool: Pool
    pages: int
    group: Group | None = None

    def metrics(self) -> dict[str, float]:
        """Of the node, and of its part in the group."""
        numbers = self.node.metrics.read()
        if self.group is not None:
            numbers |= {f"group_{k}": v for k, v in self.group.metrics.read().items()}
        return numbers

    def left(self) -> dict[str, float]:
        gauges = {name: value for name, value in self.metrics().items()
                  if name.removeprefix("group_").startswith("num_")}
        return {"lives": len(self.node.lives), "pages": self.pages - len(self.pool), **gauges}


def _settle(report: Report, used: Used, pipe: "Connection[Any, Any]") -> None:
    """Wait until all is given back, say what is left, and wait for all the others to say it."""
    deadline = monotonic() + SETTLE_S
    while monotonic() < deadline and any(used.left().values()):
        sleep(0.01)
    report.metrics |= used.metrics()
    report.left = used.left()
    pipe.send(report)
    while pipe.recv() is not None:
        pass  # until every rank has finished, and nobody needs this one any more


def _end(node: Node, pipe: "Connection[Any, Any]") -> None:
    """Close the node, and say what the process still has."""
    node.close()
    pipe.send({"threads": threading.active_count() - 1, "sockets": _sockets()})


def _sockets() -> int:
    """Sockets that this process still has open, the pipe to the parent apart."""
    links = (os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{number}"))
    return sum(link.startswith("socket:") for link in links) - 1
