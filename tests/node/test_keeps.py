"""A room that several decode requests ask for, on nodes: each leg gets a life while prefill keeps
the KV, and is refused at once afterwards. The rows are those of spec/handoff/keep.py.

Where no clock is given, none runs: what a test sees then has come by messages alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill import keeps
from pdproto.node.prefill.keeps import OVER, Places, places_in
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.errors import LocalProtocolError
from pdproto.spec.bugs.keep import BUGS
from pdproto.spec.handoff import keep as tables
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.waiting import PATIENCE_S, until

ROOM: Final = 7
A, B = b"a" * 16, b"b" * 16
LONG: Final = 600.0
NO_CLOCK: Final = {"no_news": LONG, "no_bytes": LONG, "no_other_life": LONG, "keep": LONG,
                   "bootstrap_timeout": LONG, "transfer_timeout": LONG}
BRIEF: Final = {**NO_CLOCK, "keep": 0.05}
ONE, MANY = Places(1, 3), Places(8, 3)


@dataclass
class AskedRoom:
    """A room at every prefill node. senders: of all its legs. over: nodes that gave it back."""

    nodes: Cluster
    number: int = ROOM
    prompt: bytes | None = None
    pages: int = 3
    sends: bool = True
    senders: list[Sender] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    def open(self) -> "AskedRoom":
        for node in self.nodes.prefills:
            node.keep(self.number, pages=self.pages, prompt=self.prompt, watcher=self._look,
                      on_over=lambda name=node.name: self.over.append(name))  # type: ignore[misc]
        return self

    def _look(self, sender: Sender) -> None:
        if self.sends and sender not in self.senders \
                and sender.poll() is KVPoll.WAITING_FOR_INPUT:
            self.senders.append(sender)
            sender.send([1, 2, 3])

    def is_over(self) -> bool:
        return sorted(self.over) == sorted(node.name for node in self.nodes.prefills)

    def leg(self, server: int = 0, prompt: bytes | None = None, *, names: bool = False) -> Receiver:
        """A leg at this decode server, with pages of its own. names: its prompt is another."""
        node = self.nodes.decodes[server]
        sources = {node.name: node.endpoint for node in self.nodes.prefills}
        (receiver,) = published([node.open(self.number, sources,
                                           prompt=prompt if names else self.prompt)])
        return receiver


def others(nodes: Cluster, count: int = 1) -> None:
    """Add decode servers of their own."""
    for number in range(count):
        nodes.decodes.append(nodes.decode(f"other{number}", 100 + number))


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster(waits=NO_CLOCK, places=MANY) as found:
        others(found)
        yield found


@pytest.fixture
def brief() -> Iterator[Cluster]:
    with cluster(waits=BRIEF, places=MANY) as found:
        others(found)
        yield found


def served(legs: Iterable[Receiver]) -> None:
    """Each of them has the KV."""
    asked = list(legs)
    until(polls(asked, *ENDED), lambda: repr(asked))
    assert [(one.poll(), one.failure) for one in asked] == [(KVPoll.SUCCESS, None)] * len(asked)
    for one in asked:
        one.close()


def refused(leg: Receiver) -> str:
    """The reason. It says no other than `transient` whether to send the request again."""
    until(polls([leg], KVPoll.FAILED))
    told = leg.failure or ""
    assert leg.transient or "send the whole request again" not in told
    leg.close()
    return told


def given_back(room: AskedRoom) -> None:
    """Prefill has the pages again, and nothing is left."""
    until(room.is_over)
    room.nodes.settled()
    assert room.is_over(), "told twice"


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("early", [0, 1, 3])
def test_three_samples_and_a_hedged_leg_each_get_a_life(sources: int, early: int) -> None:
    """Before the room is opened, and after. Seen red without `binding.further`, and, with two
    sources, with a use of its own for each leg: the ranks bind in orders of their own.
    """
    with cluster(sources, waits={**BRIEF, "keep": 0.3}, places=MANY) as nodes:
        others(nodes)
        room = AskedRoom(nodes)
        legs = [room.leg() for _ in range(early)]
        until(lambda: all(len(node._node.lives) == early for node in nodes.prefills))
        room.open()
        legs += [room.leg() for _ in range(3 - early)] + [room.leg(1)]
        served(legs)
        given_back(room)
        assert len(room.senders) == 4 * sources
        assert {sender.use for sender in room.senders} == {0}


def test_a_leg_is_repeated_after_success_and_after_failure(nodes: Cluster) -> None:
    """As by a router whose decode server has died. No clock is needed for it."""
    room = AskedRoom(nodes).open()
    served([room.leg()])
    broken = room.leg(1)
    broken.abort("the client has left")
    until(polls([broken], KVPoll.FAILED))
    broken.close()
    served([room.leg(1)])
    served([room.leg()])
    assert room.over == []
    assert nodes.prefills[0].metrics.read()["num_prefill_kept_rooms"] == 1


def test_the_first_leg_may_fail(nodes: Cluster) -> None:
    room = AskedRoom(nodes, sends=False).open()
    first = room.leg()
    first.abort("decode has died")
    until(polls([first], KVPoll.FAILED))
    first.close()
    room.sends = True
    served([room.leg(1)])


@pytest.mark.parametrize("early", [1, 2])
def test_a_leg_that_ended_before_its_room_was_opened_is_no_leg_of_it(early: int) -> None:
    """A live one is served, and the room is kept. Seen red with the ended one served too: no life
    ever comes to that leg, so prefill held the pages until `bootstrap_timeout`.
    """
    with cluster(waits={**BRIEF, "no_other_life": 0.05}, places=MANY) as nodes:
        room = AskedRoom(nodes)
        ended, *live = [room.leg() for _ in range(early)]
        node = nodes.prefills[0]
        until(lambda: len(node._node.lives) == early)
        ended.abort("the prompts differ in length")
        until(polls([ended], KVPoll.FAILED))
        until(lambda: node.metrics.read()["bootstrap_failed_reqs"] == 1)
        ended.close()
        room.open()
        served(live)
        given_back(room)
        assert len(room.senders) == len(live)


def test_a_leg_after_the_keep_is_refused_at_once(brief: Cluster) -> None:
    """Seen red without the row `refuse_late`: an error of the tables, and the leg waits. Seen red
    where a life is forgotten that does not know its sinks yet: its abort is an early life then.
    """
    room = AskedRoom(brief).open()
    served([room.leg()])
    until(room.is_over)
    assert OVER in refused(room.leg())
    assert OVER in refused(room.leg(1))
    given_back(room)
    until(lambda: not brief.prefills[0]._node.binding.early)


def test_nothing_is_kept_without_places_and_a_leg_is_refused_at_once() -> None:
    with cluster(waits=NO_CLOCK) as nodes:
        room = AskedRoom(nodes).open()
        served([room.leg()])
        until(room.is_over)
        assert OVER in refused(room.leg())
        given_back(room)


def test_no_clock_gives_pages_back_that_a_leg_reads() -> None:
    assert pages_of_a_read_are_held()


def test_a_clock_that_gives_pages_back_under_a_read_is_seen(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect `keep-ends-under-a-read` in the table that the node runs."""
    (edited,) = (table for bug in BUGS if bug.id == "keep-ends-under-a-read"
                 for table in bug.system.tables if table.machine is tables.keeper)
    monkeypatch.setattr(tables, "KEEPER", edited)
    assert not pages_of_a_read_are_held()


def pages_of_a_read_are_held() -> bool:
    """A second leg reads while the clock of the room ends many times over."""
    with cluster(waits={**NO_CLOCK, "keep": 0.01}, places=MANY, prefill={"at_once": False}
                 ) as nodes:
        room = AskedRoom(nodes).open()
        legs = [room.leg(), room.leg()]
        until(lambda: len(nodes.writing.under_way) == 2)
        nodes.writing.end(most=1)
        until(lambda: sum(leg.poll() is KVPoll.SUCCESS for leg in legs) == 1)
        turned = AskedRoom(nodes, ROOM + 1)  # another room comes and goes meanwhile
        turned.open()
        third = turned.leg()
        until(lambda: len(nodes.writing.under_way) == 2)
        nodes.writing.under_way.rotate()
        nodes.writing.end(most=1)
        served([third])
        until(turned.is_over)
        is_held = not room.over
        nodes.writing.end()
        served(legs)
        given_back(room)
        return is_held


def test_a_later_room_gets_the_place_of_an_older_one() -> None:
    with cluster(waits=NO_CLOCK, places=ONE) as nodes:
        older, later = AskedRoom(nodes).open(), AskedRoom(nodes, ROOM + 1).open()
        served([older.leg()])
        assert older.over == []
        served([later.leg()])
        until(older.is_over)
        assert OVER in refused(older.leg())
        served([later.leg()])
        assert later.over == []
        assert nodes.prefills[0].metrics.read()["num_prefill_kept_rooms"] == 1


def test_a_room_that_is_read_cedes_no_place() -> None:
    with cluster(waits=NO_CLOCK, places=ONE, prefill={"at_once": False}) as nodes:
        older, later = AskedRoom(nodes).open(), AskedRoom(nodes, ROOM + 1).open()
        legs = [older.leg(), older.leg()]
        until(lambda: len(nodes.writing.under_way) == 2)
        nodes.writing.end(most=1)
        until(lambda: sum(leg.poll() is KVPoll.SUCCESS for leg in legs) == 1)
        other = later.leg()
        until(lambda: len(nodes.writing.under_way) == 2)
        nodes.writing.under_way.rotate()
        nodes.writing.end(most=1)
        served([other])
        until(later.is_over)
        assert older.over == []
        nodes.writing.end()
        served(legs)


@pytest.mark.parametrize(("pages", "is_kept"), [(9, True), (10, False)])
def test_a_room_has_the_places_that_its_pages_need_or_none(pages: int, is_kept: bool) -> None:
    with cluster(waits=NO_CLOCK, places=Places(3, 3)) as nodes:
        room = AskedRoom(nodes, pages=pages).open()
        served([room.leg()])
        if is_kept:
            served([room.leg()])
            other = AskedRoom(nodes, ROOM + 1).open()
            served([other.leg()])
        until(room.is_over)
        assert OVER in refused(room.leg())


def test_a_leg_of_another_prompt_is_refused_with_both_names(nodes: Cluster) -> None:
    room = AskedRoom(nodes, prompt=A).open()
    served([room.leg()])
    told = refused(room.leg(prompt=B, names=True))
    assert f"{A.hex()} at prefill and {B.hex()} at decode" in told
    served([room.leg()])


def test_a_room_that_nobody_asks_for_is_given_back() -> None:
    with cluster(waits={**NO_CLOCK, "bootstrap_timeout": 0.1}, places=MANY) as nodes:
        room = AskedRoom(nodes).open()
        given_back(room)
        assert OVER in refused(room.leg())


def test_a_room_that_the_application_gives_up_is_given_back(nodes: Cluster) -> None:
    room = AskedRoom(nodes)
    sender = nodes.prefills[0].keep(ROOM, pages=3, watcher=lambda _: None,
                                    on_over=lambda: room.over.append("p0"))
    sender.abort("the client has left")
    given_back(room)


def test_a_drain_gives_a_kept_room_back(nodes: Cluster) -> None:
    """Seen red without the row `leave`: the node waits for the clock."""
    room = AskedRoom(nodes).open()
    served([room.leg()])
    assert room.over == []
    nodes.prefills[0].drain().result(PATIENCE_S)
    given_back(room)
    assert refused(room.leg())


def test_a_drain_waits_for_the_first_leg_and_serves_no_other(nodes: Cluster) -> None:
    room = AskedRoom(nodes).open()
    until(lambda: nodes.prefills[0].metrics.read()["handoffs_opened"])
    emptied = nodes.prefills[0].drain()
    until(lambda: nodes.prefills[0].metrics.read()["draining"])
    served([room.leg()])
    emptied.result(PATIENCE_S)
    given_back(room)


def test_so_many_ended_rooms_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeps, "ENDED_ROOMS_MAX", 2)
    with cluster(waits=NO_CLOCK) as nodes:
        rooms = [AskedRoom(nodes, number).open() for number in range(4)]
        for room in rooms:
            served([room.leg()])
            until(room.is_over)
        assert OVER in refused(rooms[3].leg())
        part = nodes.prefills[0]._node.keeps
        assert set(part._rooms) == {2, 3}
        assert len(part._machine) < 10


def test_lives_of_a_room_are_bounded(monkeypatch: pytest.MonkeyPatch, nodes: Cluster) -> None:
    monkeypatch.setattr(keeps, "EARLY_LIVES_MAX", 2)
    room = AskedRoom(nodes, sends=False).open()
    for _ in range(4):
        room.leg()
    until(lambda: nodes.prefills[0].metrics.read()["refused_frames"])
    assert nodes.prefills[0]._node.keeps._legs == 2


def test_places_hold_so_many_pages_together() -> None:
    assert places_in(640) == Places(64, 10)
    assert places_in(650) == Places(64, 10)
    assert places_in(7) == Places(7, 1)
    assert places_in(0) == Places(0, 1)


@pytest.mark.parametrize(("named", "error"), [
    ({"pages": "3"}, TypeError), ({"pages": -1}, ValueError), ({"on_over": None}, TypeError),
    ({"watcher": 3}, TypeError), ({"prompt": "a"}, TypeError),
])
def test_wrong_arguments_are_refused(
    nodes: Cluster, named: dict[str, Any], error: type[Exception]
) -> None:
    given = {"pages": 3, "watcher": lambda _: None, "on_over": lambda: None, **named}
    with pytest.raises(error):
        nodes.prefills[0].keep(ROOM, **given)


def test_a_closed_node_keeps_no_room(nodes: Cluster) -> None:
    nodes.prefills[0].close()
    with pytest.raises(LocalProtocolError):
        nodes.prefills[0].keep(ROOM, pages=3, watcher=lambda _: None, on_over=lambda: None)


def test_a_room_that_no_decode_request_asks_for_ends_for_the_reason_of_its_clock() -> None:
    """Seen red with the reason of a room that was served."""
    with cluster(waits=NO_CLOCK | {"bootstrap_timeout": 0.1}, places=MANY) as nodes:
        seen: list[Sender] = []
        over: list[int] = []
        nodes.prefills[0].keep(ROOM, pages=3, watcher=seen.append, on_over=lambda: over.append(1))
        until(lambda: over)
        assert {(one.failure, one.transient) for one in seen} == {
            ("bootstrap_timeout after 0.1 s", True)}


def test_a_decode_request_that_names_a_use_of_a_kept_room_hears_why(nodes: Cluster) -> None:
    """Seen red with the reason of two prompts, both of one name."""
    room = AskedRoom(nodes, prompt=A).open()
    node = nodes.decodes[0]
    (leg,) = published([node.open(ROOM, {"p0": nodes.prefills[0].endpoint}, prompt=A, use=2)])
    assert refused(leg) == ("p0: room 7 is kept for several decode requests, and this one names "
                            "request 2 of it: want it without a use")
    served([room.leg()])
