"""The processes of `pdproto handoff`: the registry, a prefill rank, a decode rank.

Each rank behaves as the scheduler of a serving engine: it opens hand-overs in the order of the
rooms, polls them, and never waits. Its forward pass fills the pages with the bytes of the load.
"""

import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import Final

from pdproto.drill import children
from pdproto.drill.children import Pipe
from pdproto.drill.handoff.directory import Directory, registrar, wait_for
from pdproto.drill.handoff.group import GroupedSenders
from pdproto.drill.handoff.group_optimistic import GroupedOptimisticSenders
from pdproto.drill.handoff.optimistic import OptimisticSenders
from pdproto.drill.handoff.pools import Pools, device_of, layers_of, pools_on
from pdproto.drill.handoff.processor import ProcessorTime, parts_of
from pdproto.drill.handoff.rank import Pool, RankTask, Report, Work
from pdproto.drill.handoff.receivers import Receivers
from pdproto.drill.handoff.senders import Senders
from pdproto.engine.engines import open_sink, open_source
from pdproto.group.group import Group
from pdproto.node.metrics import Metrics
from pdproto.pages.device import Device
from pdproto.pages.direct import DirectPages
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.registry.app import RegistryServer
from pdproto.runtime.trace import Lines, TraceWriter
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff import agreement, optimistic_group
from pdproto.spec.handoff import registry as registry_tables
from pdproto.transport.keys import Keys
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode, RunningNode

REPORT_S: Final = 0.2
# For everything to be given back after the last request: longer than a transfer takes to time out
# (handoff.py), which is how long decode waits for a life that a killed server has never begun.
SETTLE_S: Final = 60.0
UNTRACED: Final = 28  # the status of a process whose trace is not whole


@contextmanager
def _traced(rank: RankTask) -> Iterator[TraceWriter | None]:
    """The trace of a rank's hand-overs; None without a folder for traces."""
    with _file(rank.trace, rank.name) as target:
        trace = None if target is None else TraceWriter(rank.name, target)
        yield trace
        _require_whole(trace)


@contextmanager
def _traced_by(system: str, folder: str | None, name: str) -> Iterator[SharedTrace | None]:
    """The trace of a process by the tables of another system, in a folder of its own."""
    with _file(None if folder is None else f"{folder}/{system}", name) as target:
        trace = None if target is None else SharedTrace(name, target)
        yield trace
        _require_whole(trace)


def _require_whole(trace: Lines | None) -> None:
    """End this process with a status of its own if its trace has ended before."""
    if trace is not None and trace.ended is not None:
        sys.exit(UNTRACED)


@contextmanager
def _file(folder: str | None, name: str) -> Iterator[FileIO | None]:
    if folder is None:
        yield None
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    # Unbuffered: what a rank that is killed has sent, its trace tells.
    with FileIO(f"{folder}/{name}.jsonl", "ab") as target:
        yield target


class Progress:
    """Reports the progress of the rank to the parent: now and then, and at every tenth."""

    def __init__(self, pipe: Pipe, report: Report, requests: int) -> None:
        self._pipe: Final = pipe
        self._report: Final = report
        report.began = report.last_ended = monotonic()
        self._used: Final = process_time()
        self._parts: Final = ProcessorTime(parts_of(report.name))
        self._known = 0
        self._tenth: Final = max(1, requests // 10)
        self._told = 0.0
        self._done = 0

    def tell(self) -> None:
        now, done = monotonic(), len(self._report.outcomes)
        if done != self._known:
            self._known, self._report.last_ended = done, now
            self._report.processor_seconds = process_time() - self._used
        if now - self._told > REPORT_S or done - self._done >= self._tenth:
            self._told, self._done = now, done
            self._pipe.send(done)

    def end(self) -> None:
        """Note the processor time by part: the scheduler has ended."""
        self._report.processor_parts = self._parts.by_part()


def registry(
    trace: str | None, host: str, keys: Keys | None, pipe: Pipe
) -> None:
    """Run the process of the registry, at that address."""
    name = registry_tables.SYSTEM.name
    with (_traced_by(name, trace, "registry") as traced,
          RegistryServer(host, traces={} if traced is None else {name: traced},
                         keys=keys) as server):
        pipe.send(server.address)
        pipe.recv()


def prefill_rank(rank: RankTask, pipe: Pipe) -> None:
    """Run the process of a prefill rank."""
    load = rank.load
    device = device_of(rank.device, load.seed)
    pools = pools_on(device, (load.layers, load.pool_pages, load.page_bytes))
    grouped = len(rank.group) > 1
    deciding = agreement.SYSTEM.name if grouped else load.prefill_system
    decides = load.retries is not None or grouped
    passing = load.retries is not None and grouped
    with (_traced(rank) as trace,
          _traced_by(registry_tables.SYSTEM.name, rank.trace, rank.name) as registering,
          _traced_by(deciding, rank.trace if decides else None, rank.name) as decided,
          _traced_by(optimistic_group.SYSTEM.name, rank.trace if passing else None,
                     rank.name) as passes):
        data_path = SourcePages(layers_of(pools, load.page_tokens[0], load.part_tokens),
                                open_source(rank.engine, rank.host), device=device,
                                page_tokens=load.part_tokens)
        node = PrefillNode(rank.name, data_path, link=rank.link, waits=rank.waits,
                           trace=trace)
        node.inject(load.faults)
        entry = registrar(rank.registry, rank.name, rank.topology, node.endpoint, registering,
                          rank.keys)
        entry.follow(node)
        entry.start()
        pipe.send(rank.name)
        pipe.recv()  # every process is there
        gc.freeze()  # later collections skip the objects that exist now
        report, pool = Report(rank.name), Pool(load.pool_pages)
        progress = Progress(pipe, report, load.requests)
        work = Work(rank, node, pools, pool, report, decided)
        group: Group | None = None
        beside: dict[str, Metrics] = {}
        scheduler: Senders | GroupedSenders | OptimisticSenders
        if load.retries is not None and len(rank.group) > 1:
            scheduler = GroupedOptimisticSenders(work, passes)
            group = scheduler.group
            beside["group"] = group.metrics
        elif load.retries is not None:
            scheduler = OptimisticSenders(work)
            beside["optimistic"] = scheduler.prefill.metrics
        elif len(rank.group) > 1:
            scheduler = GroupedSenders(work)
            group = scheduler.group
            beside["group"] = group.metrics
        else:
            scheduler = Senders(work)
        for _ in scheduler.run():
            progress.tell()
        progress.end()
        used = Used(node, pool, load.pool_pages, beside)
        _settle(report, used, pipe)
        if group is not None:
            group.close()
        entry.stop()
        _end(node, pipe)


def decode_rank(rank: RankTask, pipe: Pipe) -> None:
    """Run the process of a decode rank."""
    load = rank.load
    sources = rank.topology.sources(rank.name)
    device = device_of(rank.device, load.seed)
    pools = {source: pools_on(device, (load.layers, load.pool_pages, load.page_bytes))
             for source in sources}
    with (_traced(rank) as trace,
          _traced_by(registry_tables.SYSTEM.name, rank.trace, rank.name) as looking_up):
        node = _decode_node(rank, pools, device, trace)
        node.inject(load.faults)
        directory = Directory(rank.registry, sources, sink=rank.name, trace=looking_up,
                              keys=rank.keys)
        pipe.send(rank.name)
        pipe.recv()  # every process is there
        gc.freeze()  # later collections skip the objects that exist now
        if not wait_for(directory, children.START_S):
            raise TimeoutError(f"{rank.name}: not every prefill rank has registered: "
                               f"{directory.problem}")
        report, pool = Report(rank.name), Pool(load.pool_pages)
        progress = Progress(pipe, report, load.requests)
        receivers = Receivers(rank, node, pools, pool, directory=directory, report=report,
                              router=pipe)
        for _ in receivers.run():
            progress.tell()
        progress.end()
        _settle(report, Used(node, pool, load.pool_pages), pipe)
        directory.close()
        _end(node, pipe)


def _decode_node(rank: RankTask, pools: Mapping[str, Pools], device: Device | None,
                 trace: TraceWriter | None) -> DecodeNode:
    tokens, part_tokens = rank.load.page_tokens[1], rank.load.part_tokens
    layers = {name: layers_of(of, tokens, part_tokens) for name, of in pools.items()}
    engine, link = open_sink(rank.engine, rank.host), rank.link
    if rank.direct:
        return DirectDecodeNode(rank.name, DirectPages(layers, engine), link=link,
                                incarnation=rank.incarnation, waits=rank.waits, trace=trace)
    pages = SinkPages(layers, engine, device=device, page_tokens=part_tokens)
    return DecodeNode(rank.name, pages, link=link, incarnation=rank.incarnation, waits=rank.waits,
                      trace=trace)


@dataclass(frozen=True, slots=True)
class Used:
    """The gauges of a rank that must be zero at the end. beside: its deciding objects, by name."""

    node: RunningNode
    pool: Pool
    pages: int
    beside: Mapping[str, Metrics] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """The metrics of the node and of the objects that decide for it."""
        numbers = self.node.metrics.read()
        for name, metrics in self.beside.items():
            numbers |= {f"{name}_{k}": v for k, v in metrics.read().items()}
        return numbers

    def left(self) -> dict[str, float]:
        prefixes = ("num_", *(f"{name}_num_" for name in self.beside))
        gauges = {name: value for name, value in self.metrics().items()
                  if name.startswith(prefixes)}
        return {"pages": self.pages - len(self.pool), **gauges}


def _settle(report: Report, used: Used, pipe: Pipe) -> None:
    """Wait until everything is given back, report the rest, and wait for all other ranks."""
    deadline = monotonic() + SETTLE_S
    while monotonic() < deadline and any(used.left().values()):
        sleep(0.01)
    report.metrics |= used.metrics()
    report.left = used.left()
    pipe.send(report)
    while pipe.recv() is not None:
        pass  # until every rank has finished, and nobody needs this one any more


def _end(node: RunningNode, pipe: Pipe) -> None:
    """Close the node, and report the threads and sockets that the process still has."""
    node.close()
    pipe.send({"threads": threading.active_count() - 1, "sockets": _sockets()})


def _sockets() -> int:
    """The number of open sockets of this process, without the pipe to the parent.

    Sockets that libraries keep to the end do not count: local datagrams (Mooncake), and the one
    through which CUDA shares its memory.
    """
    unix = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    kept = {f"socket:[{inode}]" for _, _, _, _, kind, _, inode, *path in unix
            if kind == "0002" or any(name.startswith("@cuda-uvmfd-") for name in path)}
    links = (os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{number}"))
    return sum(link.startswith("socket:") and link not in kept for link in links) - 1
