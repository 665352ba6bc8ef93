"""Hand-overs that wait for decode's memory: how long they may, and who hears when decode dies."""

import signal
import time
from multiprocessing.connection import Connection
from typing import Final

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode
from tests.node.data_paths import Fabric, SinkDataPath, cluster, idle, polls, published
from tests.node.processes import victim
from tests.node.work import assert_no_slow_turn, clock_counts_work
from tests.waiting import until

SHORT: Final = {"bootstrap_timeout": 3.0, "no_news": 0.05}
LONGER_S: Final = 7.0  # than that
PROMPT: Final = Link(sign_of_life_s=0.1, silent_s=600.0, grace_s=0.2)


def hand_over(sender: Sender) -> None:
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])


def test_requests_that_wait_for_memory_are_not_timed_by_the_bootstrap() -> None:
    """There is memory for one. The others get it in turn, however long that takes."""
    with cluster(waits=SHORT, decode={"leases": 1}) as nodes:
        (decode,) = nodes.decodes
        opened = [(nodes.senders(room)[0], published(nodes.receivers(room))[0])
                  for room in range(6)]
        until(lambda: decode.metrics.read()["num_decode_memory_queue_reqs"] == 5)
        time.sleep(LONGER_S)
        assert [receiver.failure for _, receiver in opened] == [None] * 6
        assert [sender.failure for sender, _ in opened] == [None] * 6
        assert LONGER_S <= decode.metrics.read()["decode_memory_queue_seconds"] < 30
        for sender, receiver in opened:
            hand_over(sender)
            until(polls([sender, receiver], KVPoll.SUCCESS))
            receiver.close()
        nodes.settled()
        assert decode.metrics.read()["decode_memory_queue_seconds"] == 0


def test_many_requests_that_get_memory_at_once_do_not_hold_up_the_loop() -> None:
    """An engine that registers memory may have much to do for each. All 20 are 100,000 calls."""
    with clock_counts_work(), cluster(decode={"leases": 0, "lease_calls": 5_000}) as nodes:
        (decode,) = nodes.decodes
        opened = [(nodes.senders(room)[0], published(nodes.receivers(room))[0])
                  for room in range(20)]
        until(lambda: decode.metrics.read()["num_decode_memory_queue_reqs"] == 20)
        nodes.landing.leases = 20
        until(lambda: decode.metrics.read()["num_decode_memory_queue_reqs"] == 0)
        for sender, receiver in opened:
            hand_over(sender)
            until(polls([sender, receiver], KVPoll.SUCCESS))
            receiver.close()
        nodes.settled()
        assert_no_slow_turn(decode.name, decode._loop.pace)


def test_requests_whose_pages_are_not_known_yet_wait_as_well() -> None:
    """Decode's own scheduler may keep them, before it asks for memory."""
    with cluster(waits=SHORT) as nodes:
        (sender,), (receiver,) = nodes.senders(7), nodes.receivers(7)
        time.sleep(LONGER_S)
        assert (sender.failure, receiver.failure) == (None, None)
        published([receiver])
        hand_over(sender)
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        nodes.settled()


def test_b7_a_request_waits_while_the_system_refuses_its_memory_and_nobody_else_does() -> None:
    """It failed the turn of the loop, and the requests that were looked at in it were lost; later
    it failed. One before it holds memory, and one waits behind it.
    """
    with cluster(waits=SHORT, decode={"leases": 0}) as nodes:
        (decode,) = nodes.decodes
        opened = [(nodes.senders(room)[0], published(nodes.receivers(room))[0])
                  for room in range(3)]
        until(lambda: decode.metrics.read()["num_decode_memory_queue_reqs"] == 3)
        nodes.landing.refuses = opened[1][1].life
        nodes.landing.leases = 2
        why = "lease: no staging memory of 4096 bytes: Too many open files"
        until(lambda: decode.health() == f"node d0: hand-overs wait for staging memory, which the "
                                         f"system refuses: {why}")
        hand_over(opened[2][0])
        until(polls(opened[2], KVPoll.SUCCESS))
        assert [one.failure for one in opened[1]] == [None, None]
        nodes.landing.refuses = None
        for pair in (opened[1], opened[0]):
            hand_over(pair[0])
            until(polls(pair, KVPoll.SUCCESS))
        until(lambda: decode.health() is None)
        for _, receiver in opened:
            receiver.close()
        nodes.settled()
        assert decode._loop.turn_errors == 0


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_request_that_reached_one_server_only_is_timed(side: str) -> None:
    """Also while another waits for memory."""
    with cluster(waits=SHORT, decode={"leases": 0}) as nodes:
        both: list[Sender | Receiver] = [*nodes.senders(1), *published(nodes.receivers(1))]
        alone: Sender | Receiver = (
            nodes.senders(7) if side == "prefill" else published(nodes.receivers(7)))[0]
        until(polls([alone], KVPoll.FAILED))
        assert (alone.failure or "").startswith("bootstrap_timeout after 3 s")
        assert polls(both, KVPoll.BOOTSTRAPPING)()


def test_the_queue_has_a_bound_of_its_own() -> None:
    with cluster(waits=SHORT | {"queue_timeout": 1.0}, decode={"leases": 0}) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        began = time.monotonic()
        until(polls([sender, receiver], KVPoll.FAILED))
        assert receiver.failure == "queue_timeout after 1 s"
        assert sender.failure == "d0: queue_timeout after 1 s"
        assert time.monotonic() - began >= 1.0
        nodes.settled()


def decode_without_memory(pipe: Connection) -> None:
    """The whole life of a decode rank that has no memory, which only a signal ends."""
    node = DecodeNode("d0", SinkDataPath("d0", Fabric(), leases=0), link=PROMPT,
                      waits={"no_news": 0.05})
    prefill = pipe.recv()
    while True:
        published([node.open(pipe.recv(), {"p0": prefill})])
        until(lambda: node.metrics.read()["num_decode_memory_queue_reqs"] == 1)
        pipe.send("it waits")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_sink_ends_the_hand_overs_that_wait_for_its_memory(how: signal.Signals) -> None:
    """The source waits without a clock, and learns of it by its connection or its silence."""
    link = PROMPT if how is signal.SIGKILL else Link(
        sign_of_life_s=0.1, silent_s=0.5, absent_s=1.0)
    with victim(decode_without_memory) as (process, ours), cluster(sinks=0, link=link) as nodes:
        (prefill,) = nodes.prefills
        ours.send(prefill.endpoint)
        sender = prefill.open(7)
        ours.send(7)
        assert ours.recv() == "it waits"
        until(lambda: sender.endpoint.life is not None)
        began = time.monotonic()
        process.send_signal(how)
        until(polls([sender], KVPoll.FAILED))
        assert time.monotonic() - began < 10
        assert (sender.failure or "").startswith(
            "lost connection to d0: " if how is signal.SIGKILL else "d0: nothing heard for 1 s")
        until(lambda: sender.released and idle(prefill))
        assert prefill._loop.turn_errors == 0
