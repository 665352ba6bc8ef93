"""A room that decode asks for when prefill has ended its request, on nodes: a leg that is asked for
once is refused at once, and each other one waits for a request of its own (spec/handoff/ended.py).

Where no clock is given, none runs: what a test sees then has come by messages alone.
"""

from collections.abc import Iterator, Sized
from typing import Final

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill import ended_rooms
from pdproto.node.prefill.ended_rooms import OVER
from pdproto.node.prefill.sender import Sender
from pdproto.spec.bugs.ended import BUGS
from pdproto.spec.handoff import ended as tables
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.node.test_keeps import NO_CLOCK, others, refused, served
from tests.waiting import until

ROOM: Final = 7
A, B = b"a" * 16, b"b" * 16


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster(waits=NO_CLOCK) as found:
        others(found)
        yield found


def leg(nodes: Cluster, server: int = 0, prompt: bytes = A, *, once: bool = True) -> Receiver:
    sources = {node.name: node.endpoint for node in nodes.prefills}
    (receiver,) = published([nodes.decodes[server].open(
        ROOM, sources, prompt=prompt, once=once)])
    return receiver


def request(nodes: Cluster, prompt: bytes = A) -> list[Sender]:
    """A request of the room at each prefill rank."""
    return [node.open(ROOM, prompt=prompt) for node in nodes.prefills]


def sent(senders: list[Sender]) -> None:
    until(polls(senders, KVPoll.WAITING_FOR_INPUT), lambda: repr(senders))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls(senders, KVPoll.SUCCESS), lambda: repr(senders))


def handed_over(nodes: Cluster) -> None:
    senders = request(nodes)  # first: of a room that has ended, a leg may be refused before it
    first = leg(nodes)
    sent(senders)
    served([first])


def waiting(nodes: Cluster, one: Receiver) -> None:
    """Each prefill rank knows the leg, and has not answered it."""
    until(lambda: all(one.life in node._node.lives for node in nodes.prefills))
    assert one.poll() not in ENDED


@pytest.mark.parametrize("sources", [1, 2])
def test_a_repeated_leg_is_refused_at_once_on_each_server(sources: int) -> None:
    """Seen red without `binding.waits`, and without the row `refuse_ended` (below)."""
    with cluster(sources, waits=NO_CLOCK) as nodes:
        others(nodes)
        handed_over(nodes)
        assert OVER in refused(leg(nodes))
        assert OVER in refused(leg(nodes, 1))


def test_a_leg_that_has_waited_is_refused_when_the_request_ends(nodes: Cluster) -> None:
    """A router that hedges under SGLang."""
    first = leg(nodes)
    senders = request(nodes)
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    hedged = leg(nodes, 1)
    waiting(nodes, hedged)
    sent(senders)
    served([first])
    assert OVER in refused(hedged)


def test_a_request_that_has_failed_has_ended_too(nodes: Cluster) -> None:
    first = leg(nodes)
    senders = request(nodes)
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    first.abort("decode has died")
    until(polls(senders, KVPoll.FAILED))
    assert OVER in refused(leg(nodes, 1))
    first.close()


def test_a_call_about_a_request_that_is_over_fails_no_turn(nodes: Cluster) -> None:
    """Its endpoint has been dropped, and takes the event into the same state."""
    first, senders = leg(nodes), request(nodes)
    sent(senders)
    served([first])
    nodes.settled()
    for sender in senders:
        sender.abort("the client has left")
    handed_over(nodes)
    assert [node._loop.turn_errors for node in nodes.nodes] == [0] * len(nodes.nodes)


def waits_for_its_own(nodes: Cluster) -> bool:
    """Whether a sample, or a request that decode has retracted, is served after the first."""
    handed_over(nodes)
    again = leg(nodes, once=False)
    until(lambda: again.poll() in ENDED
          or all(again.life in node._node.lives for node in nodes.prefills))
    sent_again = request(nodes)
    until(lambda: again.poll() is KVPoll.FAILED
          or all(one.poll() is not KVPoll.BOOTSTRAPPING for one in sent_again))
    if KVPoll.FAILED in {one.poll() for one in (again, *sent_again)}:
        return False
    sent(sent_again)
    served([again])
    return True


def test_a_leg_whose_request_is_still_to_come_waits_for_it(nodes: Cluster) -> None:
    assert waits_for_its_own(nodes)


def put_into(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    """Run the table with this defect."""
    (edited,) = (table for bug in BUGS if bug.id == defect
                 for table in bug.system.tables if table.machine is tables.rooms)
    monkeypatch.setattr(tables, "ROOMS", edited)


def test_a_table_that_refuses_what_is_computed_again_is_seen(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into(monkeypatch, "ended-refuses-what-is-computed-again")
    with cluster(waits=NO_CLOCK) as nodes:
        assert not waits_for_its_own(nodes)


def is_told_at_once(nodes: Cluster) -> bool:
    """Whether a repeated leg has failed when a later hand-over has ended."""
    handed_over(nodes)
    repeated = leg(nodes, 1)
    later = leg(nodes, 1, B)
    sent(request(nodes, B))
    served([later])
    return repeated.poll() is KVPoll.FAILED


def test_a_leg_is_told_before_what_comes_later(nodes: Cluster) -> None:
    assert is_told_at_once(nodes)


def test_a_table_that_waits_for_a_clock_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    put_into(monkeypatch, "ended-waits-for-a-clock")
    with cluster(waits=NO_CLOCK) as nodes:
        others(nodes)
        assert not is_told_at_once(nodes)


def test_a_leg_of_another_prompt_waits_for_its_request(nodes: Cluster) -> None:
    handed_over(nodes)
    other = leg(nodes, prompt=B)
    waiting(nodes, other)
    sent(request(nodes, B))
    served([other])


def test_a_request_that_comes_after_its_leg_was_refused_is_told() -> None:
    """A router that repeats the whole request in the same room. Decode may have ended its half
    before: then prefill waits for another life of the room first.
    """
    with cluster(waits={**NO_CLOCK, "no_other_life": 0.05}) as nodes:
        others(nodes)
        handed_over(nodes)
        assert OVER in refused(leg(nodes, 1))
        late = request(nodes)
        until(polls(late, KVPoll.FAILED), lambda: repr(late))
        assert OVER in (late[0].failure or "")


def test_a_whole_request_may_come_again_if_its_prefill_half_is_first(nodes: Cluster) -> None:
    handed_over(nodes)
    again = request(nodes)
    second = leg(nodes, 1)
    sent(again)
    served([second])


def test_so_many_ended_rooms_are_remembered(
    monkeypatch: pytest.MonkeyPatch, nodes: Cluster
) -> None:
    monkeypatch.setattr(ended_rooms, "TOLD_ROOMS_MAX", 2)
    for number in range(4):
        (sender,) = [node.open(number) for node in nodes.prefills]
        sender.abort("the client has left")
        until(polls([sender], KVPoll.FAILED))
    part = nodes.prefills[0]._node.ended_rooms
    assert list(part._ended) == [(2, None), (3, None)]
    assert not part._rooms
    assert not part._open


def test_the_table_takes_no_event_of_a_hand_over_that_nobody_repeats(nodes: Cluster) -> None:
    """Its time for each hand-over is that of a few notes (decision 117), and a mark is kept of its
    room. Seen red when the table takes each event at once, and when the events are kept.
    """
    handed_over(nodes)
    nodes.settled()
    part = nodes.prefills[0]._node.ended_rooms
    assert (len(part._machine), len(part._rooms), len(part._open)) == (0, 0, 0)


@pytest.mark.parametrize("most", [0, 4])
def test_a_leg_is_refused_after_many_requests_of_its_room(
    monkeypatch: pytest.MonkeyPatch, nodes: Cluster, most: int
) -> None:
    """Whether the table takes each event at once, or several together. Seen red without the bound,
    and when events past it are lost.
    """
    monkeypatch.setattr(ended_rooms, "PAST_MAX", most)
    open_one = request(nodes)
    for _ in range(4):
        further = request(nodes)
        for sender in further:
            sender.abort("the client has left")
        until(polls(further, KVPoll.FAILED))
    part = nodes.prefills[0]._node.ended_rooms
    assert [len(room.past) <= most for room in list(part._rooms.values())] == [True]
    waiting(nodes, one := leg(nodes, once=False))
    sent(open_one)
    served([one])
    assert "the client has left" in refused(leg(nodes))


def test_events_of_two_requests_are_of_two_elements(
    monkeypatch: pytest.MonkeyPatch, nodes: Cluster
) -> None:
    """Python gives the `id` of a sender that is gone to another one. Seen red with the `id` as
    element.
    """
    monkeypatch.setattr(ended_rooms, "PAST_MAX", 100)
    first = request(nodes)
    for _ in range(12):
        one, second = leg(nodes), request(nodes)
        sent(first)
        served([one])
        first = second  # so that the room stays open
    (room,) = nodes.prefills[0]._node.ended_rooms._rooms.values()
    told = [event[1] for event in room.past if "end" in event[0].__name__]
    assert len(told) == len(set(told)) == 12


def test_legs_that_were_refused_leave_nothing() -> None:
    """Seen red without `binding.wait_alone`."""
    with cluster(waits={**NO_CLOCK, "bootstrap_timeout": 0.5}) as nodes:
        handed_over(nodes)
        for _ in range(100):
            assert OVER in refused(leg(nodes))
        nodes.settled()
        node = nodes.prefills[0]._node
        parts: tuple[Sized, ...] = (node.binding.early, node.binding.rooms,
                                    node.ended_rooms._machine, node.ended_rooms._rooms)
        until(lambda: [*map(len, parts)] == [0, 0, 1, 1])  # a turn empties one after the other
