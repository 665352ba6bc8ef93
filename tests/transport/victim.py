"""One rank with real pages and a real engine, in a process that a test stops and kills."""

from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdproto.node.link import Link
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.engine.engines import ENGINES
from tests.node.data_paths import polls
from tests.waiting import until

PAGES = 32  # of a pool, all of them in one chunk
PAGE_BYTES = 1 << 20  # so that a chunk is more than all sockets on its way hold
LINK = Link(sign_of_life_s=0.1, silent_s=600.0, grace_s=0.2)  # silence tells nobody anything

Pools = Sequence[NDArray[np.uint8]]


def pools(seed: int | None = None) -> Pools:
    """One layer [page, token, head, byte]: random, or zeros."""
    shape = PAGES, 1, 1, PAGE_BYTES
    if seed is None:
        return [np.zeros(shape, np.uint8)]
    return [np.random.default_rng(seed).integers(0, 256, shape, np.uint8)]


def source(engine: str, of: Pools) -> PrefillNode:
    return PrefillNode("p0", SourcePages(of, ENGINES[engine].source()), link=LINK)


def sink(engine: str, of: Pools) -> DecodeNode:
    return DecodeNode("d0", SinkPages({"p0": of}, ENGINES[engine].sink()), link=LINK)


def dying_source(engine: str, pipe: Connection) -> None:
    """Sends a chunk, and stops itself when a part of it has been written."""
    node = source(engine, pools(1))
    ENGINES[engine].stop_midway()
    pipe.send(node.endpoint)
    sender = node.open(7)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send(range(PAGES))
    pipe.recv()


def dying_sink(engine: str, pipe: Connection, where: str) -> None:
    """Publishes memory for a chunk."""
    node = sink(engine, pools())
    receiver: Any = node.open(7, {"p0": where})
    receiver.publish(range(PAGES))
    until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
    pipe.send("published")
    pipe.recv()


def dying_connected_sink(engine: str, pipe: Connection, where: str) -> None:
    """The same for all pages but the first, which it gets before: so its connection is open."""
    node = sink(engine, pools())
    first: Any = node.open(6, {"p0": where})
    first.publish(range(1))
    until(polls([first], KVPoll.SUCCESS))
    receiver: Any = node.open(7, {"p0": where})
    receiver.publish(range(1, PAGES))
    until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
    pipe.send("published")
    pipe.recv()
