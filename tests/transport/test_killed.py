"""A rank is killed in the middle of a write, over real engines: the other gives everything back."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import numpy as np
import psutil
import pytest

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import RunningNode
from tests.engine.engines import BUILT_IN
from tests.node.data_paths import ENDED, idle, polls
from tests.node.leftovers import held
from tests.node.processes import suspend, victim
from tests.transport.victim import PAGES, dying_sink, dying_source, pools, sink, source
from tests.waiting import until

HELD = ("engine_leases", "engine_leased_bytes", "engine_pending_fences", "engine_inflight_chunks",
        "engine_inflight_bytes")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with victim(Connection.recv):  # what starting one opens once and keeps
        pass
    before = held()
    yield
    until(lambda: not held() - before, lambda: f"{held() - before} are left")


@contextmanager
def closing(node: RunningNode) -> Iterator[None]:
    try:
        yield
    finally:
        node.close()


def settled(node: RunningNode) -> None:
    """Wait until the node and its engine hold nothing."""
    until(lambda: idle(node) and not any(node.metrics.read().get(name) for name in HELD),
          lambda: str(node.metrics.read()))
    assert node.metrics.read()["turn_errors"] == 0


@pytest.mark.parametrize("engine", BUILT_IN)
def test_a_source_is_killed_in_mid_write(engine: str) -> None:
    """Its hand-over fails, its memory is fenced and free, no page is touched; a new one succeeds.
    """
    ours = pools()
    decode = sink(engine, ours)
    with closing(decode):
        with victim(dying_source, engine) as (process, pipe):
            receiver = decode.open(7, {"p0": pipe.recv()})
            receiver.publish(range(PAGES))
            until(lambda: process.status() == psutil.STATUS_STOPPED)
            assert receiver.poll() is KVPoll.WAITING_FOR_INPUT
            os.kill(process.pid, signal.SIGKILL)
            until(polls([receiver], KVPoll.FAILED))
        assert (receiver.failure or "").startswith("lost connection to p0: its connection has end")
        until(lambda: receiver.released)
        settled(decode)
        numbers = decode.metrics.read()
        assert numbers["fences_started"] == numbers["fences_done"] == numbers["engine_fences"] == 1
        assert not ours[0].any()
        theirs = pools(2)
        successor = source(engine, theirs)
        with closing(successor):
            again, sender = decode.open(8, {"p0": successor.endpoint}), successor.open(8)
            again.publish(range(PAGES))
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            sender.send(range(PAGES))
            until(polls([again, sender], KVPoll.SUCCESS))
            np.testing.assert_array_equal(ours[0], theirs[0])
            again.close()
            settled(decode)
            settled(successor)
            assert decode.metrics.read()["transfer_bytes"] >= theirs[0].nbytes
            assert successor.metrics.read()["transfer_bytes"] >= theirs[0].nbytes


@pytest.mark.parametrize("engine", BUILT_IN)
def test_a_sink_is_killed_in_mid_write(engine: str) -> None:
    """Its sender ends, the pages that the engine read are given back, and nothing is remembered."""
    prefill = source(engine, pools(1))
    with closing(prefill):
        sender = prefill.open(7)
        with victim(dying_sink, engine, prefill.endpoint) as (process, pipe):
            assert pipe.recv() == "published"
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            suspend(process)
            sender.send(range(PAGES))
            until(polls([sender], KVPoll.TRANSFERRING, *ENDED))
            if engine == "tcp":  # no more than sockets hold can have left: the rest is under way
                until(lambda: prefill.metrics.read()["engine_inflight_bytes"])
                assert sender.poll() is KVPoll.TRANSFERRING
            os.kill(process.pid, signal.SIGKILL)
            until(polls([sender], *ENDED))
        until(lambda: prefill.metrics.read()["lost_peers"] == 1)
        # A write of which nobody knows the end is over when the sink's successor has spoken.
        successor = sink(engine, pools())
        with closing(successor):
            again = successor.open(8, {"p0": prefill.endpoint})
            until(lambda: sender.released)
            again.abort()
            until(polls([again], KVPoll.FAILED))
            settled(successor)
        settled(prefill)
