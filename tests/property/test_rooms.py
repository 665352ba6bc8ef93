"""Requests of one room that no caller names, on real nodes whose messages go wrong: never mixed.

Two ranks of a prefill server, and one or two of a decode server. The router opens the requests of
the room in one order on every prefill rank, and decode begins its lives in one order on every rank;
each rank does so in its own time (spec/handoff/binding_ordered.py). Messages to a rank are lost,
late, doubled, or overtaken by the next one.

While nobody aborts, the first request has the first life on every rank, at any time, and both
succeed. If somebody aborts, a sink of both prefill ranks has no success with parts of two requests.
Sinks of one source each may then have them (decision 075), so they are left out there.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from time import sleep
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.testing.proxy import DOUBLED, LOST, PASSES, Fate
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests.node.data_paths import ENDED, Fabric, SinkDataPath, SourceDataPath, idle, polls
from tests.property.network import Network, network
from tests.property.profiles import runs
from tests.waiting import until

ROOM: Final = 7
SOURCES: Final = ("p0", "p1")
REQUESTS_MAX: Final = 4  # of the room; the table counts two at a time, and further ones queue
REST_S: Final = 0.002  # after every command: a while for the nodes
INCARNATION: Final = 17  # of both decode ranks, so that a life has one name
LINK: Final = Link(sign_of_life_s=0.05)
WAITS: Final = {"no_news": 0.05, "no_answer": 0.05, "no_bytes": 0.05, "no_drain": 0.2}
FATES: Final = {
    "loses": LOST, "doubles": DOUBLED, "delays": Fate(delay_s=0.02),
    "lets overtake": Fate(delay_s=0.02, in_order=False),
}
OUT_OF_ORDER: Final = "has bound its requests to the lives"
MIXED: Final = "has succeeded with parts of the requests"
NOT_ALIKE: Final = f"{OUT_OF_ORDER}|{MIXED}"
PICK: Final = st.integers(0, 255)
APART: Final = "each sink has one source"  # so no sink can compare what the other one is told
# The sinks, and the sources of each.
TOPOLOGIES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    APART: {"d0": SOURCES[:1], "d1": SOURCES[1:]},
    "one sink": {"d0": SOURCES},
    "each sink has all sources": {"d0": SOURCES, "d1": SOURCES},
}


@dataclass(slots=True)
class Room:
    """The nodes, and the ends of the room on each of them, in the order in which they began."""

    net: Network
    sources_of: Mapping[str, Sequence[str]]
    nodes: dict[str, RunningNode] = field(default_factory=dict)
    senders: dict[str, list[Sender]] = field(default_factory=dict)
    receivers: dict[str, list[Receiver]] = field(default_factory=dict)
    sent: set[Sender] = field(default_factory=set)
    fabric: Fabric = field(default_factory=Fabric)

    def start(self) -> None:
        for name in (*SOURCES, *self.sources_of):
            link = replace(LINK, advertise=self.net.do(methodcaller("open", name)))
            node: RunningNode
            if name in SOURCES:
                node = PrefillNode(name, SourceDataPath(name, self.fabric), link=link, waits=WAITS)
                self.senders[name] = []
            else:
                node = DecodeNode(name, SinkDataPath(name, self.fabric), link=link, waits=WAITS,
                                  incarnation=INCARNATION)
                self.receivers[name] = []
            self.net.do(methodcaller("aim", name, node.bound))
            self.nodes[name] = node

    def begun(self, name: str) -> int:
        """How many requests or lives have begun on this rank."""
        return len(self.senders[name] if name in self.senders else self.receivers[name])

    def begin(self, name: str) -> None:
        """The next request of the room on a prefill rank, or its next life on a decode rank."""
        node = self.nodes[name]
        if isinstance(node, PrefillNode):
            self.senders[name].append(node.open(ROOM))
            return
        assert isinstance(node, DecodeNode)
        number = len(self.receivers[name])
        sources = self.sources_of[name]
        sinks = [one for one, of in self.sources_of.items() if of == sources]
        receiver = node.open(ROOM, {one: self.nodes[one].endpoint for one in sources}, sinks=sinks,
                             generation=number)
        receiver.publish(range(3 * number, 3 * number + 3), number)
        self.receivers[name].append(receiver)

    def rest(self) -> None:
        for sender in self.every_sender:
            if sender not in self.sent and sender.poll() is KVPoll.WAITING_FOR_INPUT:
                self.sent.add(sender)
                sender.send([1, 2, 3])
        sleep(REST_S)

    @property
    def every_sender(self) -> list[Sender]:
        return [sender for of in self.senders.values() for sender in of]

    @property
    def ends(self) -> list[Sender | Receiver]:
        return [*self.every_sender, *(end for of in self.receivers.values() for end in of)]

    def check_order(self) -> None:
        """The request of a number has the life of that number, on every rank."""
        for name, senders in self.senders.items():
            bound = [None if (life := one.endpoint.life) is None else life.generation
                     for one in senders]
            assert all(life in (None, number) for number, life in enumerate(bound)), (
                f"{name} {OUT_OF_ORDER} {bound}")

    def check_successes(self) -> None:
        """A life that succeeded has one request, whichever ranks had a part of it."""
        parts: dict[int, dict[str, list[int]]] = {}  # by life and source: requests
        for name, receivers in self.receivers.items():
            for number, receiver in enumerate(receivers):
                if receiver.poll() is KVPoll.SUCCESS:
                    parts.setdefault(number, {}).update({
                        source: [at for at, one in enumerate(self.senders[source])
                                 if one.endpoint.life == receiver.life]
                        for source in self.sources_of[name]})
        for number, of in parts.items():
            assert len(set(map(tuple, of.values()))) == 1, (
                f"life {number} {MIXED} {of}")

    def close(self) -> None:
        for name, node in self.nodes.items():
            node.close()
            self.net.do(methodcaller("shut", name))


class RoomMachine(RuleBasedStateMachine):
    """Requests and lives begin while messages go wrong. See the top of the file."""

    net: Network
    known: dict[tuple[str, ...], str]  # failures, by their commands
    topologies: Sequence[str]
    watches_order: bool

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[str] = []
        self.fates: dict[str, deque[Fate]] = {}
        self.room: Room | None = None
        self.aborts = self.has_aborted = False
        self.failure: str | None = None

    @initialize(pick=PICK, aborts=st.booleans())
    def start(self, pick: int, aborts: bool) -> None:
        topology = self.topologies[pick % len(self.topologies)]
        self.aborts = aborts and topology != APART
        self.room = Room(self.net, TOPOLOGIES[topology])
        self.room.start()
        self.net.do(lambda proxy: setattr(proxy, "fate", self.fate))
        self.commands.append(topology)

    def fate(self, listener: str) -> Fate:
        """Of the next message to a rank."""
        fates = self.fates.get(listener)
        return fates.popleft() if fates else PASSES

    @property
    def live(self) -> Room:
        assert self.room is not None
        return self.room

    def may_begin(self) -> list[str]:
        if self.room is None:
            return []
        return [name for name in self.room.nodes if self.room.begun(name) < REQUESTS_MAX]

    @precondition(lambda self: self.may_begin())
    @rule(pick=PICK)
    def begin(self, pick: int) -> None:
        """The next request comes to a prefill rank, or the next life begins on a decode rank."""
        names = self.may_begin()
        name = names[pick % len(names)]
        self.do(f"begin {self.live.begun(name)} on {name}", partial(self.live.begin, name))

    @rule(pick=PICK, kind=st.sampled_from(sorted(FATES)), amount=st.integers(1, 4))
    def fault(self, pick: int, kind: str, amount: int) -> None:
        names = sorted(self.live.nodes)
        name = names[pick % len(names)]
        fates = deque([FATES[kind]] * amount)
        self.do(f"the network {kind} the next {amount} messages to {name}",
                lambda: self.net.do(lambda _: self.fates.update({name: fates})))

    @precondition(lambda self: self.aborts and self.live.ends)
    @rule(pick=PICK)
    def abort(self, pick: int) -> None:
        """The client of a request leaves, at one of its ends."""
        ends = self.live.ends
        self.has_aborted = True
        self.do(f"abort {pick % len(ends)}", ends[pick % len(ends)].abort)

    def do(self, command: str, action: Callable[[], object]) -> None:
        """Carry a command out, and look at the room. A failure is told at the end of the run:
        threads take their own time, and what is drawn must not depend on it.
        """
        self.commands.append(command)
        try:
            action()
            self.live.rest()
            self.check()
        except Exception as error:
            if self.failure is None:
                after = "\n".join(f"  {one}" for one in self.commands)
                self.failure = f"{type(error).__name__}: {error}\nafter\n{after}"

    def check(self) -> None:
        self.live.check_successes()
        if self.watches_order and not self.has_aborted:
            self.live.check_order()

    def end(self) -> None:
        """Every rank gets as many requests or lives as any other, and all of them end."""
        room = self.live
        self.net.do(lambda _: self.fates.clear())
        most = max(map(room.begun, room.nodes))
        for name in room.nodes:
            while room.begun(name) < most:
                room.begin(name)
        if self.has_aborted:  # an end that waits for an aborted one would wait for its clock
            for end in room.ends:
                end.abort()
        ended = polls(room.ends, *ENDED)

        def all_ended() -> bool:
            room.rest()
            return ended()

        until(all_ended, lambda: f"not ended: {[e for e in room.ends if e.poll() not in ENDED]}")
        self.check()
        if not self.has_aborted:
            failed = [end for end in room.ends if end.poll() is KVPoll.FAILED]
            assert not failed, f"nobody has aborted, and these failed: {failed}"
        for receivers in room.receivers.values():
            for receiver in receivers:
                receiver.close()
        until(lambda: all(map(idle, room.nodes.values())))

    def teardown(self) -> None:
        if self.room is None:
            return
        key = tuple(self.commands)
        if self.failure is None and key not in self.known:
            self.do("end", self.end)
        self.room.close()
        self.room = None
        # Hypothesis comes by a failure a few times, and wants the same each time.
        if self.failure is not None:
            self.known.setdefault(key, self.failure)
        assert key not in self.known, self.known[key]


def run(
    chosen: settings, topologies: Sequence[str] = tuple(TOPOLOGIES), *, watches_order: bool = True
) -> None:
    """Raises AssertionError with the first failure that was found, and the commands before it.

    watches_order: look at the order of the lives too, and not only at those that succeed.
    """
    known: dict[tuple[str, ...], str] = {}
    with network() as net:
        machine = type("RoomMachine", (RoomMachine,), {
            "net": net, "known": known, "topologies": topologies, "watches_order": watches_order})
        try:
            run_state_machine_as_test(machine, settings=chosen)
        except Flaky as error:  # the same commands went well another time
            raise AssertionError(next(iter(known.values()))) from error


def test_ranks_bind_the_requests_of_a_room_alike() -> None:
    run(runs(20, nightly=400))


# Without these a rank does not know the lives before the one that it is asked for.
UNNAMED: Final = (
    (NumberedLives, "earlier", lambda *_: ()),  # decode names no life
    (Binding, "meet_earlier", lambda *_: None),  # prefill does not meet the lives that are named
)


@pytest.mark.parametrize(("of", "name", "without"), UNNAMED)
def test_without_the_names_of_lives_requests_are_mixed(
    of: type, name: str, without: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, without)
    with pytest.raises(AssertionError, match=NOT_ALIKE):
        run(runs(200))
    with pytest.raises(AssertionError, match=MIXED):
        run(runs(200), (APART,), watches_order=False)
