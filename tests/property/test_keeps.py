"""Legs of kept rooms in any order on real nodes, and decode servers that die: whatever happens,
prefill has its pages again soon after the last leg has ended (spec/handoff/keep.py).

Real frames and no socket: Hypothesis chooses what is delivered when. Time passes at the end of a
run, and then only the short clocks of the tables end (NO_LONG_CLOCK): a leg that has an end has it
by messages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.node.ports import ConnectionChange
from pdproto.node.prefill import keeps
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.keeps import Places
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.wire import Frame, Introduce
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Fabric, SinkDataPath, SourceDataPath
from tests.node.routed import Network, Process
from tests.property.profiles import runs

A, B = b"a" * 16, b"b" * 16
LONG: Final = 1e5
KEEP_S: Final = 4.0
NO_LONG_CLOCK: Final = {"bootstrap_timeout": LONG, "transfer_timeout": LONG, "keep": KEEP_S}
SOON_S: Final = 20.0  # ends every short clock many times
LINK: Final = Link(sign_of_life_s=1.0, silent_s=1e6, absent_s=1e6, returns_s=1.0)
GIVEN_UP, LEFT = "prefill has given the request up", "the client has left"
DRAINS: Final = "drain"
PICK: Final = st.integers(0, 255)
STEP: Final = st.one_of(
    st.tuples(st.just("leg"), PICK, st.sampled_from([A, A, A, B])),
    st.tuples(st.sampled_from(["open", "open", "leave", "leave", "give up", "die", "drain"]), PICK),
    st.tuples(st.sampled_from(["deliver"] * 4 + ["write", "rest", "rest", "lose"]), PICK))
STEPS: Final = st.lists(STEP, min_size=2, max_size=30)
RANKS: Final = st.sampled_from([  # of prefill, of each decode; and data-parallel ones of prefill
    (1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2), (2, 2, 2)])
Step: TypeAlias = tuple[Any, ...]
Ranks: TypeAlias = tuple[int, int, int]
Run: TypeAlias = tuple[Ranks, int, Sequence[Step]]


@dataclass
class Room:
    """A request that a data-parallel rank of prefill has computed. ranks: the nodes of that rank.
    opened: by which of them, and when. over: those that have given its pages back. given_up: by
    prefill.
    """

    number: int
    ranks: Sequence[str]
    opened: dict[str, float] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)
    senders: list[Sender] = field(default_factory=list)
    given_up: bool = False


@dataclass
class Leg:
    """ranks: of its server. left: decode has ended it itself, or has died. is_unsaid: and prefill
    may not have heard of it.
    """

    room: Room
    prompt: bytes
    server: dict[str, Decode]
    ranks: list[Receiver]
    left: bool = False
    is_unsaid: bool = False

    def __repr__(self) -> str:
        told = [(one.poll().name, one.failure) for one in self.ranks]
        return f"leg of room {self.room.number} and {self.prompt[:1]!r}: {told}"


class Servers(Network):
    """A prefill server that keeps rooms, and decode servers. Each data-parallel rank of prefill has
    rooms of its own, as under vLLM. wrong: what must not be.
    """

    def __init__(self, sources: int, sinks: int, data_ranks: int, places: Places) -> None:
        super().__init__()
        self.fabric: Final = Fabric()
        self.prefills: Final[dict[str, Prefill]] = {}
        self.decodes: Final[list[dict[str, Decode]]] = []
        ranks = [[f"p{data}.{number}" for number in range(sources)] for data in range(data_ranks)]
        self.rooms: Final[list[Room]] = [Room(7, ranks[0]), Room(8, ranks[-1])]
        self.legs: Final[list[Leg]] = []
        self.wrong: Final[list[str]] = []
        self.drains = False
        self._sinks: Final = sinks
        self._places: Final = places.number
        self._numbers: Final = count()
        for number, name in enumerate(name for names in ranks for name in names):
            path = SourceDataPath(name, self.fabric, at_once=False)
            self.prefills[name] = Prefill(name, path, link=LINK, incarnation=10 + number,
                                          waits=NO_LONG_CLOCK, places=places)
            self.run(Process(self, name), self.prefills[name].core)
        for _ in range(2):
            self.start()

    def start(self) -> None:
        """One more decode server."""
        number = next(self._numbers)
        names = [f"d{number}.{rank}" for rank in range(self._sinks)]
        self.decodes.append({name: Decode(
            name, SinkDataPath(name, self.fabric), link=LINK, incarnation=100 + number,
            waits=NO_LONG_CLOCK) for name in names})
        for name, node in self.decodes[-1].items():
            self.run(Process(self, name), node.core)

    def take(self, kind: str, pick: int, *of: bytes) -> None:
        room = self.rooms[pick % 2]
        match kind:
            case "leg":
                self.ask(room, pick // 2 % len(self.decodes), *of)
            case "open":
                self.open(room, room.ranks[pick // 2 % len(room.ranks)])
            case "leave" if self.legs:
                self.leave(self.legs[pick % len(self.legs)])
            case "give up":
                self.give_up(room)
            case "die":
                self.die(pick % len(self.decodes), told=pick % 3 == 0)
            case "drain" if pick % 4 == 0:
                self.drains = True
                for name, node in self.prefills.items():
                    node.core.ask(partial(node.core.drain, DRAINS))
                    self.processes[name].turn()
            case "deliver" if ready := self.choices():
                ready[pick % len(ready)]()
            case "lose" if under_way := [one for _, one in sorted(self.batches.items()) if one]:
                under_way[pick % len(under_way)].popleft()
            case "write":
                self.write(most=1)
            case "rest":
                self.rest()
        self.send()

    # What servers do

    def ask(self, room: Room, server: int, prompt: bytes) -> Leg:
        nodes = self.decodes[server]
        first = 3 * len(self.legs)
        ranks = [node.open(room.number, {name: name for name in room.ranks},
                           sinks=tuple(nodes), prompt=prompt, pages=range(first, first + 3),
                           slot=len(self.legs))
                 for node in nodes.values()]
        self.legs.append(Leg(room, prompt, nodes, ranks))
        self.turns(nodes)
        return self.legs[-1]

    def open(self, room: Room, name: str) -> None:
        if name not in room.opened:
            room.opened[name] = self.now
            sender = self.prefills[name].keep(room.number, 3, partial(self._look, room),
                                              partial(self._note_over, room, name), prompt=A)
            if self.drains:  # as Drain.meet does
                sender.abort(DRAINS)
            self.processes[name].turn()

    def _look(self, room: Room, sender: Sender) -> None:
        if sender not in room.senders:
            room.senders.append(sender)
        if room.given_up and sender.poll() not in ENDED:
            sender.abort(GIVEN_UP)

    def _note_over(self, room: Room, name: str) -> None:
        room.over.append(name)
        path = self.prefills[name].data_path
        is_short = self._places < sum(name in one.ranks for one in self.rooms)
        assert isinstance(path, SourceDataPath)
        if any(life.room == room.number for _, life, *_ in path.under_way):
            self.wrong.append(f"pages of room {room.number} are free while {name} reads")
        if not (is_short or room.given_up or self.drains or self.now >= room.opened[name] + KEEP_S):
            self.wrong.append(f"{name} has not kept room {room.number}")

    def send(self) -> None:
        """Prefill sends what is asked for."""
        for room in self.rooms:
            for sender in room.senders:
                if sender.poll() is KVPoll.WAITING_FOR_INPUT and not sender.chunks:
                    sender.send([1, 2, 3])
        self.turns(self.prefills)

    def leave(self, leg: Leg) -> None:
        leg.left = True
        for one in leg.ranks:
            one.close(LEFT)
        self.turns(self.processes)

    def give_up(self, room: Room) -> None:
        room.given_up = True
        for sender in room.senders:
            if sender.poll() not in ENDED:
                sender.abort(GIVEN_UP)
        self.turns(self.prefills)

    def die(self, server: int, *, told: bool) -> None:
        """A decode server is killed; another one is started. told: what it has sent arrives."""
        dead = self.decodes.pop(server)
        for leg in self.legs:
            leg.left |= leg.server is dead
            leg.is_unsaid |= leg.server is dead and not told
        while told and (said := [way for way, batches in self.batches.items()
                                 if way[0] in dead and way[1] not in dead and batches]):
            self.deliver(said[0])
        for way in [way for way in self.batches if {*way} & dead.keys()]:
            self.batches[way].clear()
        for name in dead:
            del self.processes[name]
        for process in self.processes.values():
            process.turn(changes=[
                ConnectionChange(line, **change) for line in process.lines if line.target in dead
                for change in ({"up": True}, {"up": False}, {"up": False, "refused": True})])
        self.start()

    def write(self, most: int = 1 << 30) -> None:
        for name, node in self.prefills.items():
            assert isinstance(node.data_path, SourceDataPath)
            node.data_path.end(most=most)
            self.processes[name].turn()

    def rest(self, seconds: float = 0.0) -> None:
        """All that is under way arrives, and so much time passes."""
        self.settle()
        until = self.now + seconds
        while True:
            self.send()
            self.write()
            self.settle()
            if self.now >= until:
                return
            self.now += 1.0
            self.turns(self.processes)

    def turns(self, of: Iterable[str]) -> None:
        for name in of:
            self.processes[name].turn()

    # What must hold

    def end(self) -> None:
        """Raises AssertionError."""
        for room in self.rooms:
            for name in room.ranks if room.opened else ():
                self.open(room, name)
        self.rest(SOON_S / 2)
        self._check_legs()
        for room in self.rooms:
            if room.opened and not any(leg.room is room and leg.prompt == A and not leg.is_unsaid
                                       for leg in self.legs):
                self.ask(room, 0, A)  # otherwise the long clock of an unasked room runs
        self.rest(SOON_S)
        self._check_legs()
        for leg in self.legs:
            self.leave(leg)
        self.rest(SOON_S)
        for room in self.rooms:
            over = sorted(room.over)
            assert over == sorted(room.ranks if room.opened else ()), \
                f"pages of room {room.number} are given back by {over}"
        for name, node in self.prefills.items():
            assert node.keeps._legs == 0, f"{name} counts legs"
            assert not node.keeps._shelf, f"{name} has rooms on its shelf"
            assert not [early for room in self.rooms if room.opened
                        for early in node.binding.early.of_room(room.number)
                        if early.poll() not in ENDED], f"{name} has early lives"
            assert not node.lives, f"{name} remembers {list(node.lives)}"
            assert node.core.mistakes == 0, name
            assert node.metrics.read().get("refused_frames", 0) == 0, name
        assert not self.wrong, self.wrong
        assert not self.fabric.wrong, self.fabric.wrong
        assert not [to for to in self.fabric.leased if to.split(b"/")[0].decode() in self.processes]

    def _check_legs(self) -> None:
        for leg in self.legs:
            if leg.left or not leg.room.opened:
                continue
            for one in leg.ranks:
                assert one.poll() in ENDED, f"has no end: {leg}"
                assert one.poll() is KVPoll.SUCCESS or self._may_fail(leg, one), f"{leg}"
                assert leg.prompt == A or one.poll() is KVPoll.FAILED, f"another prompt: {leg}"

    def _may_fail(self, leg: Leg, one: Receiver) -> bool:
        return bool(leg.room.over or leg.room.given_up or self.drains
                    or (leg.prompt == B and "two prompts" in (one.failure or "")))


def run(ranks: Ranks, places: int, steps: Sequence[Step]) -> None:
    """Take these steps, and then end everything. Raises AssertionError."""
    servers = Servers(*ranks, Places(places, 3))
    for step in steps:
        servers.take(*step)
    servers.end()


@runs(40, nightly=4_000)
@given(ranks=RANKS, places=st.sampled_from([0, 1, 2, 2]), steps=STEPS)
def test_prefill_has_its_pages_again_whatever_decode_does(
    ranks: Ranks, places: int, steps: list[Step]
) -> None:
    run(ranks, places, steps)


def name_alone(of: Binding, peer: Peer, frame: Introduce) -> None:
    """Meet the lives that this one names, and note of none that its sink is known."""
    for generation in frame.earlier:
        life = msgspec.structs.replace(frame.life, generation=generation)
        if (met := of.endpoint_of(peer, life, Frame)) is not None and not met.peers:
            met.owner.endpoint.meet((peer.name,))


def refuse_all(of: Binding, _why: str) -> None:
    """Forget each life that has no sender, also one that has failed."""
    for early in list(of.early):
        of.early.drop(early)
        of.rooms.forget_life(of._endpoints.life(early.endpoint))


ENDED_EARLY: Final = ((1, 1, 1), 2, [("leg", 0, A), ("rest", 0), ("leave", 0), ("rest", 0),
                                  ("open", 0)])
DRAINED: Final = ((1, 1, 2), 2, [*ENDED_EARLY[2], ("drain", 0)])
NAMED_ALONE: Final = ((1, 1, 1), 2, [("leg", 2, A), ("leg", 2, A), ("lose", 0), ("die", 3),
                                  ("rest", 0), ("open", 0)])
OTHER_EARLY: Final = ((2, 1, 2), 2, [("open", 2), ("leg", 0, B), ("rest", 0)])  # to one of two


@pytest.mark.parametrize(("found", "place", "name", "defect", "told"), [
    (ENDED_EARLY, keeps, "Sending", SimpleNamespace(FAILED=None), "pages of room 7"),
    (ENDED_EARLY, keeps.Keeps, "_pass_by", lambda *_: None, "p0.0 has not kept room 7"),
    (OTHER_EARLY, keeps.Keeps, "_pass_by", lambda *_: None, "p0.0 has not kept room 7"),
    (NAMED_ALONE, Binding, "meet_earlier", name_alone, "pages of room 7"),
    (DRAINED, Binding, "_refuse_early", refuse_all, "pages of room 7"),
], ids=["an ended leg is served", "an ended leg ends its room", "another prompt ends a room",
        "a life that only a later one names outlives its server", "a drain forgets an end"])
def test_what_was_found_stays_mended(
    found: Run, place: object, name: str, defect: object, told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is seen with its defect."""
    run(*found)
    monkeypatch.setattr(place, name, defect)
    with pytest.raises(AssertionError, match=told):
        run(*found)
