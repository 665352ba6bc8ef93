"""Two sides for tests from end to end: real nodes, sockets, shared memory, pages, and traces."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.engines import open_sink, open_source
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.trace import TraceWriter
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests import waiting
from tests.e2e.planted import DEFECT
from tests.node.work import assert_no_slow_turn, clock_counts_work

# A test with a defect waits for what will not come.
until: Final = partial(waiting.until, within_s=None if DEFECT is None else 5.0)
PAGES: Final = 64
PAGE_BYTES: Final = 4096
# Nothing is repeated, so that what is said once is seen once.
NEVER: Final = {"no_news": 1e6, "no_bytes": 1e6, "no_answer": 1e6, "no_drain": 1e6}
ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)


def layers() -> list[NDArray[np.uint8]]:
    return [np.zeros((PAGES, 1, 1, PAGE_BYTES), np.uint8) for _ in range(2)]


class Ends:
    """Prefill nodes p0, p1, ... and a decode node d. pools: of each source at either end."""

    def __init__(
        self, sources: int, waits: Mapping[str, float], of_sources: Mapping[str, float]
    ) -> None:
        names = [f"p{number}" for number in range(sources)]
        self.told = {name: io.BytesIO() for name in (*names, "d")}
        self.pools = {name: (layers(), layers()) for name in names}
        chosen = NEVER | dict(waits)
        self.prefills = [
            PrefillNode(name, SourcePages(self.pools[name][0], open_source("shm")),
                        waits=chosen | dict(of_sources), trace=TraceWriter(name, self.told[name]))
            for name in names]
        self.decode = DecodeNode(
            "d", SinkPages({name: self.pools[name][1] for name in names}, open_sink("shm")),
            waits=chosen, trace=TraceWriter("d", self.told["d"]))

    @property
    def nodes(self) -> list[RunningNode]:
        return [*self.prefills, self.decode]

    def receiver(self, room: int) -> Receiver:
        return self.decode.open(room, {node.name: node.endpoint for node in self.prefills})

    def senders(self, room: int) -> list[Sender]:
        return [node.open(room) for node in self.prefills]

    def hand_over(self, room: int) -> None:
        """One request of four pages, which must arrive."""
        rng = np.random.default_rng(room)
        for ours, theirs in self.pools.values():
            for layer in (*ours, *theirs):
                layer[:] = rng.integers(0, 256, layer.shape, np.uint8)
        senders, receiver = self.senders(room), self.receiver(room)
        receiver.publish(range(8, 12))
        for sender in senders:
            until(lambda of=sender: of.poll() is KVPoll.WAITING_FOR_INPUT)  # type: ignore[misc]
            sender.send(range(4))
        until(lambda: receiver.poll() in ENDED)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        for ours, theirs in self.pools.values():
            for mine, yours in zip(ours, theirs, strict=True):
                assert np.array_equal(mine[:4], yours[8:12])
        receiver.close()

    def rows(self, name: str, on: str) -> list[str]:
        """The rows of a node that a message has fired, in order."""
        lines: list[dict[str, Any]] = [
            json.loads(line) for line in self.told[name].getvalue().splitlines()]
        return [line["row"] for line in lines if (line.get("on") or "").startswith(f"{on}(")]

    def settled(self) -> None:
        """Everything has come back, on all nodes, and none of them has stumbled."""
        until(lambda: not any(value for node in self.nodes
                              for name, value in node.metrics.read().items()
                              if name.startswith("num_")))
        for node in self.nodes:
            assert node._loop.turn_errors == node._core.mistakes == 0
            assert_no_slow_turn(node.name, node._loop.pace)
            assert len(node._node.lives) == 0


@contextmanager
def ends(
    sources: int = 1,
    waits: Mapping[str, float] | None = None,
    of_sources: Mapping[str, float] | None = None,
) -> Iterator[Ends]:
    """waits: of all nodes. of_sources: of the prefill nodes, where they differ."""
    with clock_counts_work():
        nodes = Ends(sources, waits or {}, of_sources or {})
        try:
            yield nodes
            nodes.settled()
        finally:
            for node in nodes.nodes:
                node.close()
