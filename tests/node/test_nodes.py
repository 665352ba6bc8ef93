"""Two kinds of node hand lives over, over real sockets: what applications see of it."""

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.node.prefill.sender import Sender
from pdproto.runtime import batches
from pdproto.runtime.batches import Batch
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import event_loop
from pdproto.transport.sockets import Dealer
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.waiting import until


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """One node of each kind."""
    with cluster() as nodes:
        yield nodes


@pytest.mark.parametrize("receiver_first", [True, False])
def test_plain(pair: Cluster, receiver_first: bool) -> None:
    """Whoever comes first; and both sides give everything back, and forget."""
    if receiver_first:
        (receiver,) = published(pair.receivers(7))
        until(lambda: pair.prefills[0]._node.lives)
        (sender,) = pair.senders(7)
    else:
        (sender,) = pair.senders(7)
        (receiver,) = published(pair.receivers(7))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
    sender.send([4, 5, 6], metadata=b"first token: 42")
    until(polls([sender, receiver], KVPoll.SUCCESS))
    assert receiver.metadata == {"p0": b"first token: 42"}
    assert not receiver.released
    receiver.close()
    pair.settled()
    until(lambda: receiver.released and sender.released)
    assert (sender.failure, receiver.failure) == (None, None)
    for node in pair.nodes:
        counted = node.metrics.read()
        assert counted["handoffs_opened"] == counted["handoffs_succeeded"] == 1
        assert counted["refused_frames"] == counted["malformed_frames"] == 0


def test_several_chunks(pair: Cluster) -> None:
    """They arrive in order, and the last brings the metadata."""
    (sender,), (receiver,) = pair.senders(7), published(pair.receivers(7), 5)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([0, 1], last=False)
    until(polls([sender], KVPoll.TRANSFERRING))
    sender.send([2], last=False)
    sender.send([], last=False)
    sender.send([3, 4], metadata=b"row")
    until(polls([sender, receiver], KVPoll.SUCCESS))
    receiver.close()
    pair.settled()


def test_no_pages_at_all(pair: Cluster) -> None:
    """A request whose whole prefix decode has: only the metadata row goes over."""
    (sender,), (receiver,) = pair.senders(7), published(pair.receivers(7), 0)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([], metadata=b"row")
    until(polls([receiver], KVPoll.SUCCESS))
    assert receiver.metadata == {"p0": b"row"}
    receiver.close()
    pair.settled()


def test_two_sources_and_two_sinks() -> None:
    with cluster(2, 2) as nodes:
        for room in range(5):
            receivers, senders = published(nodes.receivers(room)), nodes.senders(room)
            until(polls(senders, KVPoll.WAITING_FOR_INPUT))
            for sender in senders:
                sender.send([0], last=False)
                sender.send([1, 2], metadata=sender.endpoint.peers[0].encode())
            until(polls([*senders, *receivers], KVPoll.SUCCESS))
            assert all(receiver.metadata.keys() == {"p0", "p1"} for receiver in receivers)
            for receiver in receivers:
                receiver.close()
        nodes.settled()


def test_two_lives_of_one_room_at_once(pair: Cluster) -> None:
    """Parallel sampling: each life has its own sender, and neither takes what is the other's."""
    senders = [*pair.senders(7), *pair.senders(7)]
    receivers = published([*pair.receivers(7), *pair.receivers(7)])
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    senders[0].abort("not this one")
    until(polls(senders[:1], KVPoll.FAILED))
    senders[1].send([1, 2, 3], metadata=b"this one")
    until(polls([senders[1], receivers[1]], KVPoll.SUCCESS))
    until(polls(receivers[:1], KVPoll.FAILED))
    assert receivers[0].failure == "p0: not this one"
    assert receivers[1].metadata == {"p0": b"this one"}
    receivers[1].close()
    pair.settled()


@pytest.mark.parametrize("at", ["sink", "source"])
@pytest.mark.parametrize("after", ["opening", "publishing", "first chunk", "last chunk"])
def test_abort(pair: Cluster, at: str, after: str) -> None:
    """The other side hears of it, with the reason, and both give everything back."""
    pair.writing.at_once = False
    (sender,), (receiver,) = pair.senders(7), pair.receivers(7)
    until(lambda: sender.endpoint.life is not None)
    if after != "opening":
        published([receiver])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    if after in ("first chunk", "last chunk"):
        sender.send([1], last=False)
        until(lambda: pair.writing.under_way)
    if after == "last chunk":
        sender.send([2, 3])
    (receiver if at == "sink" else sender).abort("the client has left")
    until(polls([sender, receiver], KVPoll.FAILED))
    until(lambda: receiver.released)
    if after in ("first chunk", "last chunk"):
        until(lambda: pair.decodes[0].metrics.read()["num_decode_leases"] == 1)
        assert not sender.released, "the engine reads the pages until its write has ended"
        assert pair.writing.end() >= 1
    expected = ["the client has left", "p0: the client has left", "d0: the client has left"]
    assert sender.failure in expected
    assert receiver.failure in expected
    pair.settled()
    assert sender.released


def test_an_abort_before_both_sides_have_met(pair: Cluster) -> None:
    """Who comes later for the room is told, and does not wait."""
    (sender,) = pair.senders(7)
    sender.abort("never mind")
    until(polls([sender], KVPoll.FAILED))
    (receiver,) = pair.receivers(7)
    until(polls([receiver], KVPoll.FAILED))
    assert receiver.failure == "p0: never mind"
    pair.settled()


class Story:
    """One room, and what becomes of it: pages are published or not, chunks come, and perhaps
    somebody gives up. moves_left: until that happens.
    """

    def __init__(self, nodes: Cluster, room: int, chance: random.Random) -> None:
        self.chance = chance
        self.senders = nodes.senders(room)
        self.receivers = nodes.receivers(room)
        self.pending = list(self.senders)
        complete = chance.random() < 0.8
        if complete:
            published(self.receivers)
        self.moves_left = None if complete and chance.random() < 0.4 else chance.randrange(12)

    @property
    def ends(self) -> list[Sender | Receiver]:
        return [*self.senders, *self.receivers]

    def move(self) -> None:
        """Hand a chunk over, or give up when it is time."""
        if self.moves_left == 0:
            self.chance.choice(self.ends).abort()
        if self.moves_left is not None:
            self.moves_left -= 1
        ready = [sender for sender in self.pending
                 if sender.poll() in (KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING)]
        if ready:
            sender = self.chance.choice(ready)
            last = self.chance.random() < 0.5
            sender.send([1, 2, 3] if last else [], last=last)
            if last:
                self.pending.remove(sender)


@pytest.mark.parametrize("seed", range(6))
def test_aborts_at_any_moment(seed: int) -> None:
    """Whoever gives up, and whenever: all end, nothing is written where it may not be."""
    chance = random.Random(seed)  # noqa: S311 - a run that can be repeated
    ended: list[KVPoll] = []
    with cluster(2, 2, prefill={"at_once": False}, waits={"no_answer": 0.05}) as nodes:
        for first in range(0, 24, 6):
            stories = [Story(nodes, room, chance) for room in range(first, first + 6)]
            ends = [end for story in stories for end in story.ends]
            until(lambda s=stories, e=ends: _turned(nodes, chance, s) and polls(e, *ENDED)())  # type: ignore[misc]  # bound at once
            ended += [end.poll() for end in ends]
            for receiver in (r for story in stories for r in story.receivers):
                if receiver.poll() is KVPoll.SUCCESS:
                    receiver.close()
        until(lambda: not any(source.end() for source in nodes.writings))
        nodes.settled()
    assert set(ended) == set(ENDED)


def _turned(nodes: Cluster, chance: random.Random, stories: list[Story]) -> bool:
    """Let each story move, and some writes end."""
    for story in stories:
        story.move()
    for source in nodes.writings:
        source.end(most=chance.randrange(4))
    time.sleep(chance.random() * 0.002)
    return True


def test_writes_wait_for_room() -> None:
    with cluster(prefill={"at_once": False, "room": 2}) as nodes:
        senders = [sender for room in range(6) for sender in nodes.senders(room)]
        receivers = published(r for room in range(6) for r in nodes.receivers(room))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1, 2, 3])
        until(polls(senders, KVPoll.TRANSFERRING))
        until(lambda: nodes.writing.end(most=1) or polls(receivers, KVPoll.SUCCESS)())
        while not polls(receivers, KVPoll.SUCCESS)():
            nodes.writing.end(most=1)
        assert nodes.writing.most == 2
        for receiver in receivers:
            receiver.close()
        nodes.settled()


def test_requests_wait_for_memory() -> None:
    """In the order in which they asked, and those that fail meanwhile step aside."""
    with cluster(decode={"leases": 1}) as nodes:
        senders = [sender for room in range(3) for sender in nodes.senders(room)]
        receivers = published(r for room in range(3) for r in nodes.receivers(room))
        until(polls(receivers[:1], KVPoll.WAITING_FOR_INPUT))
        until(polls(senders[:1], KVPoll.WAITING_FOR_INPUT))
        assert polls(receivers[1:], KVPoll.BOOTSTRAPPING)()
        receivers[1].abort()
        until(polls(receivers[1:2], KVPoll.FAILED))
        senders[0].send([1, 2, 3])
        until(polls(receivers[:1], KVPoll.SUCCESS))
        until(polls(receivers[2:], KVPoll.WAITING_FOR_INPUT))
        until(polls(senders[2:], KVPoll.WAITING_FOR_INPUT))
        senders[2].send([1, 2, 3])
        until(polls(receivers[2:], KVPoll.SUCCESS))
        receivers[0].close()
        receivers[2].close()
        nodes.settled()


# No clock ends a wait of the loop, and none makes good what it forgot.
CLOCKLESS = Link(sign_of_life_s=600.0, silent_s=1_200.0)
NO_REPEATS = {"no_news": 600.0, "no_bytes": 600.0, "no_answer": 600.0, "no_drain": 600.0}


def test_nothing_waits_for_a_clock() -> None:
    """What a device reports from within the loop is collected, as what it reports from outside."""
    with cluster(2, 2, link=CLOCKLESS, waits=NO_REPEATS) as nodes:
        for room in range(4):
            senders, receivers = nodes.senders(room), published(nodes.receivers(room))
            until(polls([*senders, *receivers], KVPoll.WAITING_FOR_INPUT))
            for sender in senders:
                sender.send([1], last=False)
            if room % 2:
                receivers[0].abort()
                until(polls([*senders, *receivers], KVPoll.FAILED))
            else:
                for sender in senders:
                    sender.send([2, 3])
                until(polls([*senders, *receivers], KVPoll.SUCCESS))
            for receiver in receivers:
                receiver.close()
            until(lambda r=receivers: all(receiver.released for receiver in r))  # type: ignore[misc]  # bound at once
            until(lambda: nodes.fabric.leased == {})


def test_pages_that_follow_at_once_take_no_second_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that is not opened soon wakes nobody: its pages do. Their message is its only one:
    it says all that an introduction does.
    """
    sent: list[list[str]] = []  # to prefill: the messages in each batch
    send = Dealer.send

    def noted(dealer: Dealer, data: bytes) -> bool:
        batch = batches.decode(data)
        if batch.node == "d0":
            sent.append([type(frame).__name__ for frame in batch.frames])
        return send(dealer, data)

    with cluster(link=CLOCKLESS, waits=NO_REPEATS) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        senders, receivers = nodes.senders(6), published(nodes.receivers(6))
        until(polls([*senders, *receivers], KVPoll.WAITING_FOR_INPUT))  # the nodes have met
        monkeypatch.setattr(Dealer, "send", noted)
        (sender,) = nodes.senders(7)
        time.sleep(0.05)  # until the loop waits: in a turn it would look for requests once more
        receiver = decode.open(7, {prefill.name: prefill.endpoint}, soon=False)
        time.sleep(0.05)
        assert len(decode._node.lives) == 1, "it has woken the loop"
        receiver.publish([9], slot=7)
        until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
        assert sent == [["Publish"]]


def test_memory_is_given_at_once() -> None:
    """To all that ask for it, however many come in one turn."""
    with cluster(link=CLOCKLESS, waits=NO_REPEATS) as nodes:
        senders = [sender for room in range(500) for sender in nodes.senders(room)]
        published(r for room in range(500) for r in nodes.receivers(room))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))


def test_a_request_without_memory_does_not_delay_one_with_memory(pair: Cluster) -> None:
    """A request that is too large for what is free lets smaller ones pass."""
    lease, free = pair.landing.lease, 2

    def small_only(life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        return lease(life, pages) if sum(map(len, pages.values())) <= free else None

    pair.landing.lease = small_only  # type: ignore[method-assign]
    large = published(pair.receivers(1), 3)
    small = published(pair.receivers(2), 2)
    until(polls(small, KVPoll.WAITING_FOR_INPUT))
    assert polls(large, KVPoll.BOOTSTRAPPING)()
    free = 3
    until(polls(large, KVPoll.WAITING_FOR_INPUT))


def test_a_life_that_is_about_to_begin_is_not_forgotten(pair: Cluster) -> None:
    """The floor that a sink tells of never passes a life that its loop has yet to begin."""
    decode = pair.decodes[0]
    (first,) = pair.receivers(1)
    first.abort()
    until(lambda: decode._core.floor() == 1)
    held, told = threading.Event(), []
    decode._core.ask(lambda: told.append(held.wait(30)))
    (second,) = published(pair.receivers(2))
    assert decode._core.floor() == second.life.generation
    held.set()
    (sender,) = pair.senders(2)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    assert told == [True]


def test_pages_and_slots_have_one_owner(pair: Cluster) -> None:
    """Who asks for what another holds fails at once, and is told of whom."""
    (first,) = published(pair.receivers(1))
    until(polls([first], KVPoll.WAITING_FOR_INPUT))
    (second,), (third,) = pair.receivers(2), pair.receivers(3)
    second.publish([99, 1], 1)
    third.publish([100], 0)
    until(polls([second, third], KVPoll.FAILED))
    assert second.failure == f"page 1 belongs to {first.life}"
    assert third.failure == f"metadata slot 0 belongs to {first.life}"
    until(lambda: second.released and third.released)
    first.abort()
    until(polls([first], KVPoll.FAILED))
    pair.settled()
    (fourth,) = pair.receivers(4)
    fourth.publish([99, 1], 0)
    until(polls([fourth], KVPoll.WAITING_FOR_INPUT))


@pytest.fixture
def unrepeating() -> Iterator[Cluster]:
    """One node of each kind, which say everything once, however late it is answered."""
    with cluster(waits=NO_REPEATS) as nodes:
        yield nodes


def test_pages_that_are_known_from_the_first(
    unrepeating: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source gets the publication alone, once it has been heard: an introduction in the same
    batch would say nothing more.
    """
    pair = unrepeating
    (prefill,), (decode,) = pair.prefills, pair.decodes
    where = {"p0": prefill.endpoint}
    (first,), (early,) = pair.senders(1), [decode.open(1, where, pages=[4], slot=2)]
    until(polls([first], KVPoll.WAITING_FOR_INPUT))
    heard: list[list[str]] = []
    on_batch = prefill._core.hear

    def listen(peer: Peer, batch: Batch) -> None:
        heard.append([type(frame).__name__ for frame in batch.frames if frame.life.room == 2])
        on_batch(peer, batch)

    monkeypatch.setattr(prefill._core, "hear", listen)
    (second,) = pair.senders(2)
    with pytest.raises(ValueError, match="each page once"):
        decode.open(2, where, pages=[5, 5])
    receiver = decode.open(2, where, pages={"p0": [5]}, slot=3)
    assert receiver.life.generation == early.life.generation + 1
    until(polls([second], KVPoll.WAITING_FOR_INPUT))
    assert [names for names in heard if names] == [["Publish"]]
    with pytest.raises(LocalProtocolError, match="has its pages"):
        receiver.publish([6])
    for sender in (first, second):
        sender.send([1])
    until(polls([first, second, early, receiver], KVPoll.SUCCESS))
    for end in (early, receiver):
        end.close()
    pair.settled()


def test_a_source_that_sends_too_little(pair: Cluster) -> None:
    """What it sends is not what was published: the hand-over fails, and says how many."""
    (sender,), (receiver,) = pair.senders(7), published(pair.receivers(7), 3)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.lane(0).wanted = 2  # as at a prefill that does not compare the numbers
    sender.send([1, 2])
    until(polls([receiver], KVPoll.FAILED))
    assert receiver.failure == "p0 has sent 2 pages, and 3 were published"
    pair.settled()


def test_calls_out_of_turn(pair: Cluster) -> None:
    """The caller is told, and nothing changes."""
    (sender,), (receiver,) = pair.senders(7), pair.receivers(7)
    with pytest.raises(LocalProtocolError, match="room 7: some sink has not published"):
        sender.send([1])
    published([receiver])
    with pytest.raises(LocalProtocolError, match="has its pages"):
        receiver.publish([8], 8)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    with pytest.raises(ValueError, match=r"metadata of 1,048,577 bytes; 1,048,576 is"):
        sender.send([1], metadata=b"m" * ((1 << 20) + 1))
    sender.send([1, 2, 3])
    with pytest.raises(LocalProtocolError, match="the last pages have been sent"):
        sender.send([4])
    until(polls([receiver], KVPoll.SUCCESS))
    receiver.close()
    pair.settled()
    with pytest.raises(ValueError, match="each page once"):
        pair.receivers(8)[0].publish([1, 1], 0)
    with pytest.raises(ValueError, match="sources: want one or more endpoints"):
        pair.decodes[0].open(9, {})


def test_many_rooms_are_forgotten(pair: Cluster) -> None:
    """What is over is dropped as it goes, not at the end."""
    most = 0
    for room in range(0, 400, 20):
        senders = [s for r in range(room, room + 20) for s in pair.senders(r)]
        receivers = published(r for n in range(room, room + 20) for r in pair.receivers(n))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1, 2, 3])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        for receiver in receivers:
            receiver.close()
        most = max(most, *(len(node._node.lives) for node in pair.nodes))
    pair.settled()
    assert most <= 60


def test_a_request_of_the_loop_to_itself_is_done_at_once() -> None:
    """A callback that opens the next hand-over waits for no clock."""
    with cluster(link=CLOCKLESS, waits=NO_REPEATS) as nodes:
        (decode,) = nodes.decodes
        done = threading.Event()
        decode._core.ask(lambda: decode._core.ask(lambda: decode._core.ask(done.set)))
        assert done.wait(30)


def test_l11_a_node_says_when_no_request_can_go_on() -> None:
    """There is no staging memory, and nobody holds any that could come back."""
    with cluster(decode={"leases": 0}) as nodes:
        (decode,) = nodes.decodes
        assert decode.health() is None
        (receiver,) = published(nodes.receivers(1))
        until(lambda: decode.health() is not None)
        assert "wait for staging memory" in (decode.health() or "")
        assert decode.metrics.read()["healthy"] == 0
        receiver.abort()
        until(lambda: decode.health() is None)


def test_l11_a_loop_that_stands_still_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "STANDS_STILL_S", 0.05)
    with cluster(link=Link(sign_of_life_s=0.01)) as nodes:
        (decode,) = nodes.decodes
        go_on = threading.Event()

        def stand_still() -> None:
            go_on.wait(30)

        decode._core.ask(stand_still)
        until(lambda: "has stood still" in (decode.health() or ""))
        assert decode.metrics.read()["healthy"] == 0
        go_on.set()
        until(lambda: decode.health() is None)
    assert "is closed" in (decode.health() or "")
