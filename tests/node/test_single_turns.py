"""A prefill and a decode node, turn by turn and without a network: answers to messages, and bounds.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Final

import pytest

from pdproto.node import plans
from pdproto.node.data_path import WriteOutcome
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill import sender as senders
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.waiting_senders import ByRoom
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import SINKS_MAX
from pdproto.runtime.role import SOURCE_ROLE, SourceRole
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import (
    AbortAck,
    Done,
    Drained,
    Expecting,
    Failed,
    Introduce,
    Life,
    Publish,
    row_digest,
)
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.language.machine import Table
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath
from tests.node.offline import Offline

D0, D1, P0, P1 = (f"tcp://127.0.0.{n}:1" for n in range(1, 5))
WAITS = {"bootstrap_timeout": 20.0, "transfer_timeout": 20.0, "no_news": 1.0}
LINK = Link(sign_of_life_s=1_000.0, silent_s=2_000.0)
LIFE = Life(7, 17, 0)


class Source:
    """A prefill node p0 with its data path and its transport."""

    def __init__(self, *, at_once: bool = True, role: SourceRole = SOURCE_ROLE) -> None:
        self.path = SourceDataPath("p0", Fabric(), at_once=at_once)
        self.node = Prefill("p0", self.path, link=LINK, incarnation=5, waits=WAITS, role=role)
        self.offline = Offline(self.node.core)

    def introduced(self, life: Life = LIFE, *, sinks: Sequence[str] = ("d0",)) -> None:
        self.offline.hear("d0", Introduce(life, tuple(sinks), D0))

    def published(self, life: Life = LIFE, pages: int = 3) -> None:
        self.path.fabric.leased[b"here"] = life, "p0"
        self.offline.hear("d0", Publish(life, b"here", pages, ("d0",), D0))

    def sending(self) -> Sender:
        """A sender that has given its pages to the data path."""
        sender = self.node.open(7)
        self.introduced()
        self.published()
        sender.send([1, 2, 3])
        self.offline.turn()
        return sender

    def frames(self, kind: type) -> list[object]:
        """The frames of this kind that d0 was sent."""
        return [frame for frame in self.offline.line("d0").frames if isinstance(frame, kind)]

    def silent(self) -> None:
        """d0 is lost, and has not ended."""
        connections = self.node.core.connections
        connections.replace(connections.peers["d0"], "another process has its name")
        self.offline.turn()
        self.offline.lines.clear()

    def told(self) -> list[type]:
        """The kinds of the frames that d0 has been sent since it was silent."""
        self.offline.turn()
        return [type(frame) for line in self.offline.lines for frame in line.frames]

    def counted(self, name: str) -> float:
        return self.node.metrics.read().get(name, 0)


class Reach(SinkDataPath):
    """A data path to which no host can write."""

    def out_of_reach(self, host: str) -> str | None:
        return f"no route from {host}"


class Sink:
    """A decode node d0 with its data path and its transport."""

    def __init__(
        self, kind: type[SinkDataPath] = SinkDataPath, *, at_once: bool = True,
        trace: TraceWriter | None = None,
    ) -> None:
        self.path = kind("d0", Fabric(), at_once=at_once)
        self.node = Decode("d0", self.path, link=LINK, incarnation=17, waits=WAITS, trace=trace)
        self.offline = Offline(self.node.core)

    def opened(
        self, sources: Mapping[str, str], pages: Sequence[int] | None = (1, 2, 3)
    ) -> Receiver:
        receiver = self.node.open(7, sources, pages=pages, slot=0)
        self.offline.turn()
        return receiver


# Prefill


def test_a_sink_that_does_not_name_itself_is_a_sink_of_its_life() -> None:
    """All sinks of a source are named by each; one of them that is not is counted as well."""
    source = Source()
    sender = source.node.open(7)
    source.introduced(sinks=["d1"])
    assert sender.endpoint.peers == ("d1", "d0")
    assert source.counted("refused_frames") == 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_life_that_only_its_sink_knew_ends_the_request_that_comes(is_lost: bool) -> None:
    """The sink gives it up, or is lost, before the request comes, and its abort never comes."""
    source = Source()
    source.introduced()
    if is_lost:
        source.silent()
    else:
        source.offline.hear("d0", floor=1)
    sender = source.node.open(7)
    source.offline.turn()
    assert sender.poll() is KVPoll.BOOTSTRAPPING
    source.offline.turn(after=1.1)
    assert sender.poll() is KVPoll.FAILED
    assert ("lost connection" if is_lost else "d0 has given it up") in str(sender.reason)


def test_a_sink_that_stood_still_hears_that_its_life_has_failed() -> None:
    """Prefill takes it for dead before the request comes. It has aborted nothing, so neither answer
    to an abort may come: its table says that the source is at fault then.
    """
    source = Source()
    source.introduced()
    source.silent()
    source.published()
    assert source.told() == [Failed]


def test_a_sink_that_stood_still_hears_the_end_that_it_has_missed() -> None:
    """It asks again when it comes back. Without an answer it would wait for its longest clock."""
    source = Source()
    sender = source.node.open(7)
    source.introduced()
    source.silent()
    assert sender.poll() is KVPoll.FAILED
    source.published()
    assert source.told() == [Failed]
    source = Source()
    sender = source.sending()
    source.silent()
    assert sender.poll() is KVPoll.SUCCESS
    source.published()
    assert source.told() == [Done]


def test_the_lives_of_a_silent_sink_are_kept_for_a_while() -> None:
    source = Source()
    sender = source.sending()
    assert source.node.is_awaited(sender)
    source.silent()
    assert not source.node.is_awaited(sender), "a drain waits for no silent sink"
    assert source.counted("lives_of_silent_peers") == 1
    assert source.counted("num_remembered_lives") == 0
    source.published()
    assert source.counted("lives_of_silent_peers") == 0
    assert source.counted("num_remembered_lives") == 1
    assert source.node.is_awaited(sender)
    source.offline.turn(after=LINK.returns_s + 1)
    assert source.node.lives
    source.silent()
    source.offline.turn(after=LINK.returns_s - 1)
    assert source.node.lives
    source.offline.turn(after=2)
    assert not source.node.lives


def test_a_life_that_only_its_sink_knew_is_forgotten_with_the_floor() -> None:
    """The sink gives it up before the request comes. A later life of the room is served."""
    source = Source()
    source.introduced()
    assert source.node.lives
    source.offline.hear("d0", floor=1)
    assert not source.node.lives
    sender = source.node.open(7)
    source.introduced(Life(7, 17, 1))
    assert sender.endpoint.life == Life(7, 17, 1)
    source.introduced()
    assert source.counted("stale_frames") == 1


def test_a_life_that_its_sink_is_done_with_is_forgotten_with_its_last_write() -> None:
    """It was remembered for ever: floors were looked at when they rose, and never again."""
    source = Source(at_once=False)
    source.sending()
    source.offline.hear("d0", floor=1)
    assert source.node.lives
    source.path.end(WriteOutcome.LANDED)
    source.offline.turn()
    assert not source.node.lives


def test_a_write_that_was_skipped_ends_without_bytes() -> None:
    """The engine leaves out a write of a hand-over that has failed: nothing has landed."""
    source = Source(at_once=False)
    sender = source.sending()
    assert source.counted("num_prefill_writes") == 1
    sender.abort("the client left")
    source.offline.turn()
    assert not sender.released
    before = source.counted("skipped_chunks")
    source.path.end(WriteOutcome.SKIPPED)
    source.offline.turn()
    assert source.counted("skipped_chunks") == before + 1
    assert source.counted("num_prefill_writes") == 0
    assert (sender.released, sender.metrics.chunks) == (True, 0)


def test_a_write_that_ends_after_its_sink_was_declared_gone_counts_once() -> None:
    source = Source(at_once=False)
    sender = source.sending()
    source.path.end(WriteOutcome.ERROR)
    source.offline.turn()
    source.node.core.declare_gone("d0")
    source.offline.turn()
    assert sender.released
    counts = source.node.metrics.read()
    source.path.end(WriteOutcome.LANDED)
    source.offline.turn()
    assert source.node.metrics.read() == counts


def test_a_failed_request_tells_its_sink_until_the_bootstrap_would_have_ended() -> None:
    """A sink that asks again in time hears why. One that comes later waits for its own request.
    """
    for late in (False, True):
        source = Source()
        source.node.open(7).abort("the client left")
        source.offline.turn()
        source.offline.turn(after=WAITS["bootstrap_timeout"] + (1.0 if late else -1.0))
        source.introduced()
        assert source.frames(Failed) == [], "it may belong to the next request of the room"
        source.introduced()
        failed = [] if late else [Failed(LIFE, "the client left")]
        assert list(dict.fromkeys(source.frames(Failed))) == failed


R5: Final = next(bug.system for bug in BUGS if bug.id == "R5")


@pytest.mark.parametrize(("table", "answers"), [
    (SOURCE, 2), (next(table for table in R5.tables if table.machine is SOURCE.machine), 0)])
def test_r5_a_failure_whose_message_was_lost_answers_the_next_introduction(
    table: Table, answers: int
) -> None:
    """And each publication; with the defect in the rows that the node runs, none is answered."""
    source = Source(role=SourceRole(table))
    source.node.open(7).abort("the client left")
    source.offline.turn()
    for _ in range(2):
        source.introduced()
    told = len(source.frames(Failed))
    source.introduced()
    source.published()
    assert len(source.frames(Failed)) - told == answers


def test_a_sender_takes_a_bounded_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders, "CHUNKS_MAX", 2)
    source = Source()
    sender = source.node.open(7)
    source.introduced()
    source.published(pages=9)
    for page in range(2):
        sender.send([page], last=False)
    with pytest.raises(LocalProtocolError, match="room 7: over 2 chunks"):
        sender.send([2], last=False)


def test_a_sender_without_a_peer_has_no_life() -> None:
    source = Source()
    with pytest.raises(LocalProtocolError, match="has no life"):
        source.node.endpoints.life(source.node.open(7).endpoint)


def test_steps_are_planned_anew_when_too_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are a cache: a node that drops them answers as before."""
    said = []
    for most in (1 << 16, 1):
        monkeypatch.setattr(plans, "PLANS_MAX", most)
        source = Source()
        source.sending()
        assert len(source.node.endpoints._known) <= most
        said.append(source.offline.line("d0").frames)
    assert said[0] == said[1]
    assert any(isinstance(frame, Done) for frame in said[0])


def test_the_application_is_told_when_the_pages_are_free() -> None:
    source, told = Source(), list[bool]()
    sender = source.node.open(7, on_released=lambda: told.append(sender.released))
    source.introduced()
    source.offline.turn()
    assert told == []
    sender.abort("the client left")
    source.offline.turn()
    assert told == [True]


# Decode


def test_a_source_from_which_no_bytes_can_come_fails_the_request_at_once() -> None:
    receiver = Sink(Reach).opened({"p0": P0})
    assert (receiver.poll(), receiver.failure) == (KVPoll.FAILED, "no route from 127.0.0.3")


def test_a_done_that_comes_twice_is_verified_once() -> None:
    sink = Sink(at_once=False)
    receiver = sink.opened({"p0": P0})
    sink.offline.hear("p0", Expecting(receiver.life), incarnation=5)
    (address,) = sink.path.fabric.leased
    sink.path.fabric.written[address] = [3]
    done = Done(receiver.life, (3,), b"first", row_digest(receiver.life, b"first"))
    sink.offline.hear("p0", done, done, incarnation=5)
    assert sink.path.end() == 1
    sink.offline.turn()
    assert receiver.failure is None
    assert receiver.poll() is KVPoll.SUCCESS
    assert receiver.metadata == {"p0": b"first"}
    assert receiver.metrics.chunks == 1


def test_bytes_that_are_compared_after_the_lease_are_of_no_life() -> None:
    """The lease of an aborted life ends while its pages are compared: another life may write there.
    """
    told = BytesIO()
    sink = Sink(at_once=False, trace=TraceWriter("d0", told))
    receiver = sink.opened({"p0": P0})
    life = receiver.life
    sink.offline.hear("p0", Expecting(life), incarnation=5)
    (address,) = sink.path.fabric.leased
    sink.path.fabric.written[address] = [3]
    done = Done(life, (3,), b"first", row_digest(life, b"first"))
    sink.offline.hear("p0", done, incarnation=5)
    receiver.abort()
    sink.offline.hear("p0", AbortAck(life), Drained(life), incarnation=5)
    assert sink.path.end() == 2
    sink.offline.turn()
    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert "end_lease" in [line.get("row") for line in lines]
    assert [line for line in lines if line.get("device", [[""]])[0][0] == "content"] == []


def test_an_address_takes_the_place_of_an_introduction_that_was_not_sent() -> None:
    """It says the same and more. One that was sent, or is of another life, stays."""
    sink = Sink()
    node, offline = sink.node, sink.offline

    def opened(room: int, *, pages: bool) -> Receiver:
        numbers = (room,) if pages else None
        return node.open(room, {"p0": P0}, pages=numbers, slot=room if pages else None)

    def said() -> list[tuple[type, int]]:
        line = offline.line("p0")
        told = [(type(frame), frame.life.room) for frame in line.frames]
        line.said.clear()
        return told

    first = opened(1, pages=True)
    offline.turn()
    assert said() == [(Introduce, 1)], "nothing has been heard of the source"
    offline.hear("p0", Expecting(first.life), incarnation=5)
    assert said() == [(Publish, 1)]
    late, _ = opened(2, pages=False), opened(3, pages=True)
    offline.turn()
    assert said() == [(Introduce, 2), (Publish, 3)]
    late.publish((2,), slot=2)
    opened(4, pages=True)
    offline.turn()
    assert said() == [(Publish, 4), (Publish, 2)]
    line = offline.line("p0")
    line.full = True
    later = opened(5, pages=False)
    offline.turn()
    line.full = False
    later.publish((5,), slot=5)
    offline.turn()
    assert said() == [(Publish, 5)], "the introduction still waits"


def source_states(automaton: Automaton) -> set[int]:
    """Every state that a source with one sink and one chunk can reach."""
    here, write = (0, 0, 0), (0, 0, 0, 0)
    carried = automaton.bits(ends.address, here)
    events = [
        *(automaton.call(name) for name in ("open_sender", "abort_sender")),
        automaton.call("send", (0,)), automaton.pace("post"),
        automaton.completion("error", (0, 0)), automaton.completion("skipped", (0, 0)),
        automaton.message(ends.introduce, here), automaton.message(ends.abort, here),
        automaton.message(ends.publish, here, carried),
        automaton.noted_message(ends.sink_over, here),
        *(automaton.timer(name) for name in ("bootstrap_timeout", "heartbeat", "transfer_timeout")),
        *(automaton.device((ends.write, write, value))
          for value in (ends.Write.LANDED, ends.Write.REFUSED)),
    ]
    found, left = {automaton.initial}, [automaton.initial]
    while left:
        state = left.pop()
        for event in events:
            with suppress(LocalProtocolError, RemoteProtocolError):
                after = automaton.take(event, state).state
                left += {after} - found
                found.add(after)
    return found


def test_an_address_makes_its_source_know_all_that_an_introduction_does() -> None:
    """So an introduction may be left out (Part.replaces). What the source no longer says is that it
    expects the sink, to which a sink that has published does not listen.
    """
    automaton, here = SOURCE_ROLE.automaton_for(sinks=1, chunks=1), (0, 0, 0)
    introduced = automaton.message(ends.introduce, here)
    published = automaton.message(ends.publish, here, automaton.bits(ends.address, here))
    states = source_states(automaton)
    assert len(states) > 50
    for state in states:
        both = [automaton.take(introduced, state)]
        both.append(automaton.take(published, both[0].state))
        alone = automaton.take(published, state)
        assert alone.state == both[1].state
        said = {message for step in both for message, _ in step.sent}
        assert said - {ends.expecting} == {message for message, _ in alone.sent}


def test_memory_that_can_never_be_had_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()

    def never(_life: Life, _pages: object) -> None:
        raise ValueError("3 pages: more than all staging memory")

    monkeypatch.setattr(sink.path, "lease", never)
    receiver = sink.opened({"p0": P0})
    sink.offline.hear("p0", Expecting(receiver.life), incarnation=5)
    assert receiver.poll() is KVPoll.FAILED
    assert receiver.failure == "3 pages: more than all staging memory"


def test_a_life_has_a_bounded_number_of_sinks() -> None:
    sinks = [f"d{number}" for number in range(SINKS_MAX + 1)]
    with pytest.raises(ValueError, match=r"sinks .*: want at most 32, each once"):
        Sink().node.open(7, {"p0": P0}, sinks=sinks)
    with pytest.raises(RemoteProtocolError, match=r"33 sinks of .* source; 32 is the limit"):
        Source().node.open(7).endpoint.meet(sinks)


def test_pages_are_given_for_exactly_the_sources_of_a_life() -> None:
    receiver = Sink().opened({"p0": P0, "p1": P1}, pages=None)
    for pages in ({"p0": [1]}, {"p0": [1], "p1": [2], "p2": [3]}):
        with pytest.raises(LocalProtocolError, match="want pages for p0, p1"):
            receiver.publish(pages)
    receiver.publish({"p0": [1], "p1": [2]})
    assert receiver.pages == {"p0": (1,), "p1": (2,)}


def test_a_sender_that_does_not_wait_is_dropped_without_a_trace() -> None:
    source = Source()
    first, second = source.node.open(7), source.node.open(7)
    waiting = ByRoom()
    waiting.add(first)
    waiting.drop(second)
    assert list(waiting) == [first]
    waiting.drop(first)
    waiting.drop(first)
    assert (list(waiting), len(waiting)) == ([], 0)
