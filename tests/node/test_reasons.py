"""What an engine says of a write that failed is what both sides and the log say of the hand-over.
"""

import logging
import os
import signal
from typing import NoReturn

import numpy as np
import pytest

from pdproto.engine.contract import Address, EngineError, Lease
from pdproto.node.data_path import WriteOutcome
from pdproto.spec.handoff.poll import KVPoll
from tests.engine.engines import BUILT_IN
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.node.processes import victim
from tests.transport.test_killed import closing, settled
from tests.transport.victim import PAGES, dying_sink, pools, sink, source
from tests.waiting import until

SAID = "127.0.0.1:4: the cable is out"


def fail(nodes: Cluster, outcome: WriteOutcome) -> tuple[str | None, str | None]:
    """A hand-over whose write ends like that, for a reason. Returns what both sides say."""
    (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(lambda: nodes.writing.under_way)
    nodes.writing.end(outcome, SAID)
    until(polls([sender, receiver], KVPoll.FAILED))
    nodes.writing.end()
    nodes.settled()
    return sender.failure, receiver.failure


@pytest.mark.parametrize(("outcome", "told"), [
    (WriteOutcome.ERROR, f"the engine gave up writing to d0: {SAID}"),
    (WriteOutcome.REFUSED, f"a write to d0 was refused: {SAID}"),
])
def test_the_reason_of_the_engine_reaches_both_sides(
    outcome: WriteOutcome, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pdproto"), cluster(prefill={"at_once": False}) as nodes:
        assert fail(nodes, outcome) == (told, f"p0: {told}")
    assert f"node p0: room 7 (11.0) with d0 has failed: {told}" in caplog.text
    assert f"node d0: room 7 (11.0) with p0 has failed: p0: {told}" in caplog.text


def test_a_write_in_doubt_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """With the life, the sink, and what the engine said, also where a log is read by its fields."""
    with cluster(prefill={"at_once": False}) as nodes:
        fail(nodes, WriteOutcome.ERROR)
    (line,) = [record for record in caplog.records if "may still land" in record.getMessage()]
    assert SAID in line.getMessage()
    assert line.__dict__["room"] == 7


@pytest.mark.parametrize("engine", BUILT_IN)
def test_an_address_that_is_none(engine: str) -> None:
    """A sink that publishes what its source's engine cannot read is told so."""
    prefill = source(engine, pools(1))
    with closing(prefill), cluster(sources=0) as nodes:
        sender = prefill.open(7)
        (receiver,) = published([nodes.decodes[0].open(7, {"p0": prefill.endpoint})], PAGES)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send(range(PAGES))
        until(polls([sender, receiver], KVPoll.FAILED))
        assert (sender.failure or "").startswith("a write to d0 was refused: address: ")
        assert receiver.failure == f"p0: {sender.failure}"
        settled(prefill)


@pytest.mark.parametrize("engine", BUILT_IN)
def test_a_sender_names_a_sink_that_is_gone(engine: str) -> None:
    """With where the engine has looked for it, and not only that something has failed."""
    prefill = source(engine, pools(1))
    with closing(prefill):
        sender = prefill.open(7)
        with victim(dying_sink, engine, prefill.endpoint) as (process, pipe):
            assert pipe.recv() == "published"
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            os.kill(process.pid, signal.SIGKILL)
        sender.send(range(PAGES))
        until(polls([sender], KVPoll.FAILED))
        where = Address.decode(sender.lane(0).address).endpoint
        assert (sender.failure or "").startswith(f"a write to d0 was refused: {where}: ")
        settled(prefill)


@pytest.mark.parametrize("broken", ["chunk_views", "unpack_verified"])
def test_a_kernel_that_raises_fails_the_hand_over(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any exception: a device that is lost raises RuntimeError."""
    def lost(*_: object) -> NoReturn:
        raise RuntimeError("CUDA error: device lost")

    monkeypatch.setattr(f"pdproto.pages.host_copies.{broken}", lost)
    prefill, decode = source("tcp", pools(2)), sink("tcp", pools())
    with closing(prefill), closing(decode):
        sender, receiver = prefill.open(7), decode.open(7, {"p0": prefill.endpoint})
        receiver.publish(range(PAGES))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send(range(PAGES))
        until(polls([receiver], KVPoll.FAILED))
        assert "RuntimeError('CUDA error: device lost')" in (receiver.failure or "")


def test_unreadable_pages_fail_with_the_reason_of_the_engine() -> None:
    """The sink's own engine, too, may be at fault: then the digest is not blamed."""
    theirs, ours = pools(2), pools()
    prefill, decode = source("shared-memory", theirs), sink("shared-memory", ours)

    def unreadable(_: Lease) -> memoryview:
        raise EngineError("the memory is not mapped")

    with closing(prefill), closing(decode):
        decode._node.data_path.engine.view = unreadable  # type: ignore[attr-defined]
        sender, receiver = prefill.open(7), decode.open(7, {"p0": prefill.endpoint})
        receiver.publish(range(PAGES))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send(range(PAGES))
        until(polls([receiver], KVPoll.FAILED))
        assert receiver.failure == "the bytes of p0 cannot be unpacked: the memory is not mapped"
        assert not np.any(ours[0])


def test_a_silent_sink_that_was_not_needed_is_not_the_reason() -> None:
    """Its silence ends no request that it has not come for, and later the other sink ends.

    Seen red with the silence kept as the reason.
    """
    with cluster(sinks=2) as nodes:
        (prefill,), (first, _) = nodes.prefills, nodes.decodes
        for receiver in published(nodes.receivers(1)):
            receiver.abort()
        until(lambda: {"d0", "d1"} <= {*prefill._core.peers})
        (sender,) = nodes.senders(7)
        published([first.open(7, {"p0": prefill.endpoint}, sinks=["d0", "d1"])])
        until(lambda: len(sender.endpoint.peers) == 2)
        silent = prefill._core.peers["d1"]
        prefill._core.ask(lambda: prefill._node.sinks._note_overdue(silent, "nothing heard"))
        prefill.declare_gone("d0")
        until(polls([sender], KVPoll.FAILED))
        assert sender.failure == "lost connection to d0: it has been declared gone"


def test_a_request_for_which_prefill_is_never_asked_says_so() -> None:
    """Prefill is there, and has no such request: its clock is the bound of the operator."""
    with cluster(waits={"transfer_timeout": 0.2, "no_drain": 0.1}) as nodes:
        (receiver,) = published(nodes.receivers(7))
        until(polls([receiver], KVPoll.FAILED))
        assert receiver.failure == ("transfer_timeout after 0.2 s; not sent by p0: the request has "
                                    "not come there, or takes longer")
        assert receiver.transient
