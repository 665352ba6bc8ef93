"""The task, the messages and the resources of a rank of `pdproto handoff`."""

import os
import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pdproto.drill.handoff.load import Load, LoadRequest, Topology
from pdproto.drill.handoff.pools import Pools
from pdproto.net.hosts import LOOPBACK
from pdproto.node.link import Link, tcp_at
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.transport.keys import Keys
from pdproto.transport.nodes import PrefillNode

POLL_S: Final = 0.0005  # between two looks of a scheduler


@dataclass(frozen=True, slots=True)
class RankTask:
    """The task of the process of a rank.

    first: the room to begin with. group: where the prefill ranks listen to each other, if there are
    several. direct: whether they write straight into the pages of decode. dies_in: the rank is
    killed during this room, or during the next one that it sends. drains_at: the first room that no
    rank begins until the prefill rank has been drained, and replaced. host: the address of this
    host at which the others reach it. device: where its pools are (pools.py). keys: of all
    processes of the drill.
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
    direct: bool = False
    device: str = "cpu"
    dies_in: int | None = None
    drains_at: int | None = None
    host: str = LOOPBACK
    keys: Keys | None = None

    @property
    def link(self) -> Link:
        """The link by which the node of this rank communicates."""
        return Link(tcp_at(self.host), curve=None if self.keys is None else self.keys.curve)

    def run_forward(self, request: LoadRequest, pages: tuple[int, ...], pools: Pools) -> None:
        """Fill the pages of this rank's share, as the forward pass of a model does."""
        share = self.topology.share(self.name, request.pages)
        for page, index in zip(pages, share, strict=True):
            pools[:, page] = self.load.page(request.room, self.name, index)

    def send(self, request: LoadRequest, sender: Sender, pages: tuple[int, ...]) -> None:
        """Hand the pages over, in chunks, with the metadata row."""
        chunks = [list(map(int, part)) for part in np.array_split(pages, request.chunks)]
        for chunk in chunks[:-1]:
            sender.send(chunk, last=False)
        self.meet_fate(request.room)
        sender.send(chunks[-1], metadata=self.load.metadata(request.room, self.name))

    def meet_fate(self, room: int) -> None:
        """Send SIGKILL to this process before the last chunk of the room, if it is to die in it.

        Decode has given its memory by now and cannot succeed without that chunk, so a kill never
        falls between two requests, however slow the machine is. A write of the node's loop at this
        moment is cut off.
        """
        if self.dies_in is not None and room >= self.dies_in:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Drained:
    """A drain that has ended. open: the hand-overs that were open when it began. early: those that
    had not ended when the node said that it was empty. seconds: until the node was empty.
    """

    open: int
    early: int
    seconds: float


@dataclass(slots=True)
class Report:
    """The report of a rank. outcomes: by room, True for Success. reasons: why the others failed.

    latencies: seconds from open to Success. began, last_ended: when the rank was ready to open its
    first hand-over, and when its last one ended, on the clock of the host. processor_seconds: of
    the whole process, between these two. verify_seconds: for comparing bytes. left: counts that
    should be zero at the end, by name. ended: why the rank stopped before its last request, if it
    did. drained: its drain, if it was drained.
    """

    name: str
    outcomes: dict[int, bool] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    corrupt: list[int] = field(default_factory=list)
    verified_bytes: int = 0
    began: float = 0.0
    last_ended: float = 0.0
    processor_seconds: float = 0.0
    processor_parts: dict[str, float] = field(default_factory=dict)
    verify_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    ended: str | None = None
    drained: Drained | None = None


class Pool:
    """The numbers of free pages. Pages come back from the node's loop."""

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


@dataclass(frozen=True, slots=True)
class Work:
    """The resources of the scheduler of a prefill rank.

    pools: its pages, uint8 [layer, page, byte]. trace: records the rows of its group, or of its
    optimistic prefill.
    """

    rank: RankTask
    node: PrefillNode
    pools: Pools
    pool: Pool
    report: Report
    trace: SharedTrace | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Message of the router to a decode rank: the prefill server is down, so begin nothing more."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Message of a decode rank to the router. upcoming: the first room that it has not begun."""

    upcoming: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """Message of the router to a decode rank: the server is back, and runs the rooms from this."""

    first: int
