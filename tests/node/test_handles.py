"""What schedulers hold of a hand-over: that they can be done with it, and what it has come to."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator

import pytest

from pdproto.kernels.chunk import register
from pdproto.node.decode.receiver import Receiver
from pdproto.node.handle import HandoffMetrics
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.waiting_senders import ByRoom
from pdproto.pages.chunks import chunk_bytes
from pdproto.runtime.errors import LocalProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import aio
from tests.e2e.pairs import ends, layers
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

FAILED, SUCCESS, WAITING = KVPoll.FAILED, KVPoll.SUCCESS, KVPoll.WAITING_FOR_INPUT


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """One node of each kind; whatever a test does, the tables allow every call."""
    with cluster() as nodes:
        yield nodes
        nodes.settled()
        assert not any(node._core.mistakes for node in nodes.nodes)


def opened(pair: Cluster) -> tuple[Sender, Receiver]:
    (sender,), (receiver,) = pair.senders(7), published(pair.receivers(7))
    until(polls([sender], WAITING))
    return sender, receiver


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_closing_an_open_hand_over_gives_it_up(pair: Cluster, side: str) -> None:
    sender, receiver = opened(pair)
    closed, other = (sender, receiver) if side == "prefill" else (receiver, sender)
    closed.close()
    closed.close("for another reason")
    until(polls([sender, receiver], FAILED))
    until(lambda: sender.released and receiver.released)
    assert closed.failure == f"closed by {side}"
    assert (other.failure or "").endswith(f": closed by {side}")


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_the_other_side_hears_why(pair: Cluster, side: str) -> None:
    """Also before it has come."""
    ((closed,), open_other) = ((pair.senders(7), pair.receivers) if side == "prefill"
                               else (pair.receivers(7), pair.senders))
    closed.close("the server stops")
    until(polls([closed], FAILED))
    (other,) = open_other(7)
    until(polls([other], FAILED))
    assert (other.failure or "").endswith("the server stops")


def test_closing_an_ended_hand_over_frees_it_and_changes_no_answer(pair: Cluster) -> None:
    sender, receiver = opened(pair)
    sender.send([1, 2, 3])
    until(polls([sender, receiver], SUCCESS))
    for _ in range(2):
        sender.close("too late")
        receiver.close("too late")
    until(lambda: sender.released and receiver.released)
    assert polls([sender, receiver], SUCCESS)()
    assert sender.failure is receiver.failure is None


def free_without_a_collection(pair: Cluster, hand_over: Callable[[], None]) -> None:
    """A server stops for a collection, and its heap is large: nothing is left for one to find."""
    def alive() -> int:
        # Of its type, and not by `isinstance`: that makes some objects of other libraries speak.
        return sum(type(one) in (Sender, Receiver) and one._node in pair.nodes
                   for one in gc.get_objects())

    gc.collect()  # of what earlier tests have left, which is nobody's here
    gc.disable()
    try:
        hand_over()
        until(lambda: alive() == 0)
    finally:
        gc.enable()


@pytest.mark.parametrize("outcome", [SUCCESS, FAILED])
def test_an_ended_hand_over_is_freed_without_a_collection(pair: Cluster, outcome: KVPoll) -> None:
    def hand_over() -> None:
        sender, receiver = opened(pair)
        if outcome is SUCCESS:
            sender.send([1, 2, 3])
        else:
            receiver.abort()
        until(polls([sender, receiver], outcome))
        receiver.close()
        until(lambda: sender.released and receiver.released)

    free_without_a_collection(pair, hand_over)


def test_a_sender_that_has_ended_can_be_closed_after_its_node() -> None:
    with cluster() as nodes:
        sender, receiver = opened(nodes)
        nodes.close()
        sender.close()
        assert sender.failure == "the node has been closed"
        with pytest.raises(LocalProtocolError, match="is closed"):
            receiver.close()


def test_chunks_are_counted_where_they_land(pair: Cluster) -> None:
    """On a data path that does not say how many bytes it moves."""
    pair.writing.at_once = False
    sender, receiver = opened(pair)
    sender.send([1], last=False)
    sender.send([2, 3])
    until(lambda: len(pair.writing.under_way) == 2)
    assert sender.metrics.chunks == receiver.metrics.chunks == 0
    pair.writing.end(most=1)
    until(lambda: sender.metrics.chunks == 1)
    assert receiver.metrics.chunks == 0, "nothing is known of them before they are compared"
    pair.writing.end()
    until(polls([sender, receiver], SUCCESS))
    assert (sender.metrics.chunks, receiver.metrics.chunks) == (2, 2)
    assert sender.metrics.bytes == receiver.metrics.bytes == 0
    receiver.close()


def test_the_clock_of_a_hand_over_stands_still_when_it_has_ended(pair: Cluster) -> None:
    began = time.monotonic()
    sender, receiver = opened(pair)
    first = sender.metrics.seconds
    until(lambda: sender.metrics.seconds > first > 0)
    sender.send([1, 2, 3])
    until(polls([sender, receiver], SUCCESS))
    last = sender.metrics, receiver.metrics
    assert first < last[0].seconds <= time.monotonic() - began
    assert 0 < last[1].seconds <= time.monotonic() - began
    receiver.close()
    until(lambda: receiver.released)
    assert (sender.metrics, receiver.metrics) == last


def test_a_sender_that_finds_its_hand_over_failed_has_lasted_no_time(pair: Cluster) -> None:
    (receiver,) = pair.receivers(7, use=0)
    receiver.abort("not wanted any more")
    until(lambda: [early.poll() for early in pair.prefills[0]._node.binding.early] == [FAILED])
    (sender,) = pair.senders(7, 0)
    until(polls([sender], FAILED))
    assert sender.metrics == HandoffMetrics(seconds=0.0, bytes=0, chunks=0, repeats=0)


def test_waiting_hand_overs_are_read_while_others_come_and_go() -> None:
    """Another thread may change what is read between any two steps of the reader."""
    with cluster() as nodes:
        waiting, late = ByRoom(), nodes.prefills[0].open(9)
        first, second, third = senders = [nodes.prefills[0].open(room) for room in (7, 7, 8)]
        for sender in senders:
            waiting.add(sender)
        read = []
        for sender in waiting:
            read.append(sender)
            waiting.drop(sender)
            waiting.add(late)
        assert read == [first, second, third]
        assert {*waiting} == {late}


def test_repeats_are_counted_while_nobody_answers() -> None:
    with cluster(waits={"no_news": 0.01}) as nodes:
        (receiver,) = nodes.receivers(7)
        until(lambda: receiver.metrics.repeats >= 2)
        (sender,) = nodes.senders(7)
        receiver.close()
        until(polls([sender, receiver], FAILED))
        nodes.settled()


def test_both_ends_count_the_bytes_that_went_over() -> None:
    with ends(sources=2) as nodes:
        senders, receiver = nodes.senders(7), nodes.receiver(7)
        receiver.publish(range(8, 13))
        until(polls(senders, WAITING))
        for sender in senders:
            sender.send([3], last=False)
            sender.send([], last=False)
            sender.send([0, 1, 2, 4])
        until(polls([*senders, receiver], SUCCESS))
        layout = register(layers())
        each = chunk_bytes(layout, 1) + chunk_bytes(layout, 4)
        assert each > 5 * 2 * 4096
        assert {sender.metrics.bytes for sender in senders} == {each}
        assert (receiver.metrics.bytes, receiver.metrics.chunks) == (2 * each, 6)
        receiver.close()


def test_in_the_asyncio_form(pair: Cluster) -> None:
    """The same calls, none of which waits; what is waited for is `until`."""

    async def main() -> None:
        sender, (receiver,) = pair.prefills[0].open(7), published(pair.receivers(7))
        await aio.until(sender, WAITING)
        sender.send([1, 2, 3])
        await aio.until(receiver, SUCCESS)
        await aio.until(sender, SUCCESS)
        assert sender.metrics.chunks == receiver.metrics.chunks == 1
        receiver.close()
        sender.close()
        again = pair.prefills[0].open(8)
        again.close("it was not meant")
        with pytest.raises(aio.HandoffFailedError, match="it was not meant"):
            await aio.until(again, SUCCESS)

    asyncio.run(main())


def test_a_watched_hand_over_is_freed_without_a_collection(pair: Cluster) -> None:
    """A watcher refers to its hand-over, and the hand-over to its watcher."""
    stood: list[KVPoll] = []

    def watch(end: Sender | Receiver) -> None:
        stood.append(end.poll())

    def hand_over() -> None:
        (prefill,), (decode,) = pair.prefills, pair.decodes
        sender = prefill.open(7, watcher=watch)
        receiver = decode.open(7, {"p0": prefill.endpoint}, watcher=watch, pages=[0, 1, 2], slot=0)
        until(polls([sender], WAITING))
        sender.send([1, 2, 3])
        until(polls([sender, receiver], SUCCESS))
        receiver.close()
        until(lambda: sender.released and receiver.released)

    free_without_a_collection(pair, hand_over)
    assert stood.count(SUCCESS) >= 2


def test_a_watcher_sends_when_the_sink_has_come(pair: Cluster) -> None:
    """Nobody polls: the step that the publication causes is what the watcher is called after."""
    seen: list[KVPoll] = []

    def watch(sender: Sender) -> None:
        if sender.poll() is WAITING and WAITING not in seen:
            sender.send([1, 2, 3])
        seen.append(sender.poll())

    sender = pair.prefills[0].open(7, watcher=watch)
    until(lambda: seen)
    assert WAITING not in seen
    (receiver,) = published(pair.receivers(7))
    until(polls([sender, receiver], SUCCESS))
    receiver.close()
    assert seen[-1] is SUCCESS


def test_a_sink_of_a_room_that_nobody_will_open_fails_at_once() -> None:
    """And another room is waited for: its request may still come."""
    with cluster(refuses=lambda room: "room 7 is over" if room == 7 else None) as nodes:
        (late,), (early,) = nodes.receivers(7), nodes.receivers(8)
        until(polls([late], FAILED))
        assert late.failure == "p0: room 7 is over"
        assert early.poll() is KVPoll.BOOTSTRAPPING
        (sender,) = nodes.senders(8)
        published([early])
        until(polls([sender], WAITING))
        sender.send([1, 2, 3])
        until(polls([sender, early], SUCCESS))
        early.close()
        nodes.settled()
