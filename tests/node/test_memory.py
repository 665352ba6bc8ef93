"""A request that has ended takes no memory: nodes go on for ever.

Two things are kept of ended requests, both bounded. A prefill rank counts the uses of the last
65,536 rooms (uses.py): in a process with both nodes, that is 120 bytes a hand-over until the table
is full. A cancelled wait stays in its queue until there are 1,024 (timers.py). Here both bounds are
small, so that a number which still grows has none. The test counts blocks of memory, and not bytes:
tables and queues of any length are one block, and how large they are says nothing.
"""

import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Final

import pytest

from pdproto.node import timers
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill import binding, ended_rooms
from pdproto.node.prefill.binding import Uses
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.bench import bench_memory
from tests.bench.bench_control import NoBytes
from tests.node.data_paths import ENDED, Cluster, polls, published
from tests.waiting import until

AT_ONCE: Final = 50  # requests of each kind
WARM_UP: Final = 10  # rounds
ROUNDS: Final = 20
LIMIT: Final = 0.7  # blocks of memory a request. A number that is kept is one.
# The steps that the tables have taken are kept, once each: the number of requests is no matter.
STEPS: Final = ("node/plans.py", "runtime/automaton.py", "runtime/local_rows.py", "ground/*")
WHY: Final = "the client has left"


def senders(nodes: Cluster, rooms: range) -> list[Sender]:
    return [sender for room in rooms for sender in nodes.senders(room)]


def receivers(nodes: Cluster, rooms: range) -> list[Receiver]:
    return [receiver for room in rooms for receiver in published(nodes.receivers(room))]


def succeed(nodes: Cluster, rooms: range) -> list[Receiver]:
    sending, receiving = senders(nodes, rooms), receivers(nodes, rooms)
    until(polls(sending, KVPoll.WAITING_FOR_INPUT))
    for sender in sending:
        sender.send([1, 2], last=False)
        sender.send([0])
    until(polls([*sending, *receiving], KVPoll.SUCCESS))
    return receiving


def leave_decode(nodes: Cluster, rooms: range) -> list[Receiver]:
    sending, receiving = senders(nodes, rooms), receivers(nodes, rooms)
    until(polls(sending, KVPoll.WAITING_FOR_INPUT))
    for receiver in receiving:
        receiver.abort(WHY)
    until(polls([*sending, *receiving], *ENDED))
    return receiving


def leave_prefill(nodes: Cluster, rooms: range) -> list[Receiver]:
    sending, receiving = senders(nodes, rooms), receivers(nodes, rooms)
    for sender in sending:
        sender.abort(WHY)
    until(polls([*sending, *receiving], *ENDED))
    return receiving


def come_to_decode_alone(nodes: Cluster, rooms: range) -> list[Receiver]:
    receiving = receivers(nodes, rooms)
    until(polls(receiving, *ENDED))
    return receiving


def come_to_prefill_alone(nodes: Cluster, rooms: range) -> list[Receiver]:
    until(polls(senders(nodes, rooms), *ENDED))
    return []


@pytest.fixture
def nodes(timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(binding, "Uses", partial(Uses, 16))
    monkeypatch.setattr(timers, "CANCELLED_MIN", 1)
    monkeypatch.setattr(ended_rooms, "TOLD_ROOMS_MAX", 16)
    waits = dict.fromkeys(("bootstrap_timeout", "transfer_timeout"), timeout_s)
    with closing(Cluster(2, 2, link=Link(sign_of_life_s=0.05), waits=waits)) as found:
        yield found


def held_blocks(nodes: Cluster) -> int:
    """The blocks of memory that the package holds, rooms of this module among them, when the nodes
    have forgotten every request.
    """
    until(lambda: not any(node._node.lives for node in nodes.nodes)
          and not any(node._node.binding._alone for node in nodes.prefills))
    gc.collect()
    taken = tracemalloc.take_snapshot().filter_traces([
        tracemalloc.Filter(True, "*/pdproto/*"), tracemalloc.Filter(True, __file__),
        *(tracemalloc.Filter(False, f"*/pdproto/{path}") for path in STEPS)])
    return len(taken.traces)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "timeout_s"), [
    pytest.param(succeed, 60.0, marks=pytest.mark.nightly), (leave_decode, 60.0),
    (leave_prefill, 0.2), (come_to_decode_alone, 0.05), (come_to_prefill_alone, 0.05),
])
def test_a_request_that_has_ended_takes_no_memory(
    kind: Callable[[Cluster, range], list[Receiver]], nodes: Cluster
) -> None:
    logging.disable()  # pytest keeps what is logged
    tracemalloc.start()
    try:
        held = []
        for number in range(WARM_UP + ROUNDS):
            if number == WARM_UP:
                held.append(held_blocks(nodes))
            for receiver in kind(nodes, range(AT_ONCE * number, AT_ONCE * (number + 1))):
                receiver.close()
        held.append(held_blocks(nodes))
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)
    before, after = held
    assert (after - before) / (ROUNDS * AT_ONCE) < LIMIT


def test_an_open_hand_over_takes_at_most_4_kib() -> None:
    """Both ends, as tests/bench/bench_memory.py opens them. Seen red with a dict for each cell of
    an index: 5,133 bytes.
    """
    nodes = (PrefillNode("prefill", NoBytes(), link=bench_memory.LINK, waits=bench_memory.WAITS),
             DecodeNode("decode", NoBytes(), link=bench_memory.LINK, waits=bench_memory.WAITS))
    with closing(nodes[0]), closing(nodes[1]):
        bench_memory.finished(nodes, bench_memory.opened(*nodes, range(200)))
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            ends = bench_memory.opened(*nodes, range(200, 700))
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / len(ends) <= bench_memory.GOAL_BYTES
        bench_memory.finished(nodes, ends)


def test_a_source_that_is_lost_before_its_first_message_leaves_no_request() -> None:
    link = Link(sign_of_life_s=0.05, silent_s=0.3)
    others = living()  # of tests before this one
    with closing(Cluster(0, 1, link=link)) as nodes:
        (decode,) = nodes.decodes
        receivers = [decode.open(room, {"p9": "tcp://127.0.0.1:9"}) for room in range(AT_ONCE)]
        until(polls(receivers, KVPoll.FAILED))
        for receiver in receivers:
            receiver.close()
        del receiver, receivers
        until(lambda: len(living()) == len(others))


def living() -> list[Receiver]:
    """The receivers of this process, by type: `isinstance` makes some objects of other libraries
    speak.
    """
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is Receiver]
