"""Requests of one room that the ranks of a prefill server bind to different lives: never mixed.

Two prefill ranks and a decode rank, real nodes; two requests of the room are under way at a time,
as parallel samples of one prompt are.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.node.decode.receiver import Receiver
from pdproto.node.decode.verification import mixed
from pdproto.node.peer import Peer
from pdproto.node.prefill.binding import Uses
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.limits import USED_ROOMS_MAX
from pdproto.runtime.wire import AnyFrame, Introduce, Life
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.waiting import until

ROOM: Final = 7
FORGOTTEN: Final = 80_000  # rooms: one dict of USED_ROOMS_MAX would be rebuilt after 109,000
OFTEN: Final = {"no_news": 0.2}


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster(2, waits=OFTEN) as found:
        yield found


def lose_first_introduction(nodes: Cluster, to: str) -> None:
    """That source hears of the second life before the first one, whose messages to it are lost
    until then.
    """
    decode = nodes.decodes[-1]
    say, lives = decode._core.say, list[Life]()

    def lossy(peer: Peer, frame: AnyFrame) -> None:
        if peer.name == to and isinstance(frame, Introduce) and frame.life not in lives:
            lives.append(frame.life)
        if peer.name != to or len(lives) > 1:
            say(peer, frame)

    decode._core.say = lossy


def hand_over(
    nodes: Cluster, *, begun: int, uses: tuple[int | None, int | None] = (None, None)
) -> tuple[list[Sender], list[Receiver]]:
    """Two requests of the room, the second life when the first one is known to so many sources.

    uses: the numbers that the caller gives the requests.
    """
    senders = [sender for use in uses for sender in nodes.senders(ROOM, use)]
    first = published(nodes.receivers(ROOM, use=uses[0]))
    until(lambda: sum(sender.endpoint.life is not None for sender in senders) == begun)
    receivers = first + published(nodes.receivers(ROOM, use=uses[1]))
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], *ENDED))
    return senders, receivers


def test_two_requests_of_one_room_at_a_time_succeed(nodes: Cluster) -> None:
    senders, receivers = hand_over(nodes, begun=2)
    assert all(end.poll() is KVPoll.SUCCESS for end in (*senders, *receivers))
    for receiver in receivers:
        receiver.close()
    nodes.settled()


def test_a_lost_introduction_mixes_and_fails_no_request(nodes: Cluster) -> None:
    """Seen red without the names of earlier lives in the introduction: both fail, as below."""
    lose_first_introduction(nodes, "p1")
    senders, receivers = hand_over(nodes, begun=1)
    assert all(end.poll() is KVPoll.SUCCESS for end in (*senders, *receivers))
    assert [set(receiver.uses.values()) for receiver in receivers] == [{0}, {1}]
    for receiver in receivers:
        receiver.close()
    nodes.settled()


def test_sinks_of_one_source_each_get_parts_of_one_request() -> None:
    """Neither sink can compare what the other is told. Seen red as the test before: the life of the
    first request gets the second one from the rank that was not met in time.
    """
    with cluster(2, 2, waits=OFTEN) as nodes:
        lose_first_introduction(nodes, "p1")
        senders = [sender for _ in range(2) for sender in nodes.senders(ROOM)]
        receivers: list[list[Receiver]] = []
        for _ in range(2):
            receivers.append(published([
                sink.open(ROOM, {source.name: source.endpoint}, generation=len(receivers))
                for source, sink in zip(nodes.prefills, nodes.decodes, strict=True)]))
            until(lambda: sum(sender.endpoint.life is not None for sender in senders) >= 1)
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1, 2, 3])
        every = [receiver for life in receivers for receiver in life]
        until(polls([*senders, *every], *ENDED))
        assert all(end.poll() is KVPoll.SUCCESS for end in (*senders, *every))
        assert [[receiver.uses for receiver in life] for life in receivers] == [
            [{"p0": 0}, {"p1": 0}], [{"p0": 1}, {"p1": 1}]]
        for receiver in every:
            receiver.close()
        nodes.settled()


def test_a_life_that_decode_has_aborted_is_not_named(nodes: Cluster) -> None:
    """Else the next request of the room would be bound to it, and that may be a retry. Seen red
    with aborted lives named, too.
    """
    (decode,) = nodes.decodes
    lost = [one for _ in range(2) for one in nodes.receivers(ROOM)]
    until(lambda: lost[1].life in decode._node.lives)
    names = [decode._node.numbered.earlier(one.endpoint, 0) for one in lost]
    lost[0].abort("the client has left")
    until(polls(lost[:1], KVPoll.FAILED))
    assert [*names, decode._node.numbered.earlier(lost[1].endpoint, 0)] == [(), (0,), ()]
    lost[1].abort("the client has left")


def test_a_named_request_names_no_other(nodes: Cluster) -> None:
    (decode,) = nodes.decodes
    opened = [one for use in (0, 1) for one in nodes.receivers(ROOM, use=use)]
    assert [decode._node.numbered.earlier(one.endpoint, 0) for one in opened] == [(), ()]
    for one in opened:
        one.abort("the client has left")


def test_ranks_that_bind_them_differently_fail_them(
    nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lives that name none before them, as those of two decode servers do."""
    monkeypatch.setattr(nodes.decodes[0]._node.numbered, "earlier", lambda *_: ())
    lose_first_introduction(nodes, "p1")
    _, receivers = hand_over(nodes, begun=1)
    for receiver in receivers:
        assert receiver.poll() is KVPoll.FAILED
        assert "bound different requests" in (receiver.failure or "")
    nodes.settled()


def test_ranks_bind_named_requests_alike_when_an_introduction_is_lost(nodes: Cluster) -> None:
    """Seen red with prefill blind to the names: it fails both requests, as the test above."""
    lose_first_introduction(nodes, "p1")
    senders, receivers = hand_over(nodes, begun=1, uses=(0, 1))
    assert all(end.poll() is KVPoll.SUCCESS for end in (*senders, *receivers))
    assert [set(receiver.uses.values()) for receiver in receivers] == [{0}, {1}]
    for receiver in receivers:
        receiver.close()
    nodes.settled()


def test_a_room_is_counted_until_too_many_others_came() -> None:
    uses = Uses(most=4)
    assert [uses.next(room) for room in (1, 2, 1, 3, 1, 4, 5, 1, 2)] == [0, 0, 1, 0, 2, 0, 0, 3, 0]


@given(st.lists(st.integers(0, 7)), st.integers(1, 4))
def test_a_room_is_counted_while_fewer_than_half_as_many_others_came(
    rooms: list[int], half: int
) -> None:
    """And it is counted from 0 again after as many others as are remembered."""
    uses, opened = Uses(most=2 * half), list[tuple[int, int]]()
    for room in rooms:
        use, last = uses.next(room), next((n for n, (it, _) in enumerate(reversed(opened))
                                           if it == room), None)
        if last is None:
            assert use == 0
        else:
            others = len({it for it, _ in opened[len(opened) - last:]})
            counted = opened[-last - 1][1] + 1
            assert use == counted or (others >= half and use == 0)
            assert use == 0 or others < 2 * half
        opened.append((room, use))


def shortest_opening_s(uses: Uses, rooms: range) -> float:
    """Of the openings of these rooms, each for the first time; in seconds."""
    times = []
    for room in rooms:
        began = perf_counter()
        uses.next(room)
        times.append(perf_counter() - began)
    return min(times)


def test_an_opening_takes_no_longer_when_older_rooms_are_forgotten() -> None:
    """Seen red with one dict, which goes over all the forgotten ones to find the oldest."""
    uses = Uses()
    usual_s = shortest_opening_s(uses, range(USED_ROOMS_MAX))
    shortest_opening_s(uses, range(USED_ROOMS_MAX, USED_ROOMS_MAX + FORGOTTEN))
    after_s = shortest_opening_s(
        uses, range(USED_ROOMS_MAX + FORGOTTEN, USED_ROOMS_MAX + FORGOTTEN + 100))
    assert after_s < 10 * usual_s


def test_uses_of_one_request_are_the_same() -> None:
    assert mixed({}, 4) == mixed({"p0": 4}, 4) == ""
    assert mixed({"p0": 4}, 5).startswith("has sent request 5 of the room, and p0 request 4")
