"""The rows by which a prefill rank binds lives to requests, run by nodes: a room comes again.

Where no clock is given, none runs: what a test sees then has come by messages alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill import binding
from pdproto.node.prefill.binding_rooms import BindingRooms
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.automaton import Automaton, Event
from pdproto.runtime.local_rows import AnyMessage, Conditions
from pdproto.runtime.role import RANK_ALONE, WINDOW, RankRole
from pdproto.runtime.wire import Abort, Life
from pdproto.spec.handoff import binding_prompts, roles
from pdproto.spec.handoff import binding_tables as tables
from pdproto.spec.handoff.binding_ordered import earlier
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language import DropClause, ReplaceRow, edited
from pdproto.spec.language.machine import Table
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

ROOM: Final = 7
SINK: Final = "d0"
MOST: Final = 4  # lives and requests of a prompt; more than the automaton of a node counts
PROMPTS: Final = (None, b"A", b"B")


def table_of(*edits: DropClause | ReplaceRow) -> Table:
    """The rows that nodes run, with these edits."""
    system = edited(binding_prompts.ORDERED, "defect", *edits)
    return next(table for table in system.tables if table.machine is RANK_ALONE.machine)


UNNAMED: Final = (None, None)  # the uses that the caller gives for a request and its retry
BOTH: Final = pytest.mark.parametrize("uses", [UNNAMED, (0, 1)], ids=["unnamed", "named"])
Uses: TypeAlias = tuple[int | None, int | None]
NO_CLOCK: Final = {"no_news": 600.0, "no_bytes": 600.0, "no_other_life": 600.0}


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    """Nothing is repeated, and nobody waits for another life in vain."""
    with cluster(waits=NO_CLOCK) as found:
        yield found


@pytest.fixture
def asking() -> Iterator[Cluster]:
    """A life asks again at once, and a request waits for another life for as long."""
    with cluster(waits=dict.fromkeys(NO_CLOCK, 0.1)) as found:
        yield found


def early_of(nodes: Cluster) -> list[Sender]:
    """The lives of the prefill node that have no sender."""
    return [*nodes.prefills[0]._node.binding.early]


def concluded(sender: Sender, receiver: Receiver) -> tuple[KVPoll, KVPoll]:
    """How a hand-over ends, of which both halves are open and decode has published."""
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT or KVPoll.FAILED in (
        sender.poll(), receiver.poll()))
    if sender.poll() is KVPoll.WAITING_FOR_INPUT:
        sender.send([1, 2, 3])
        until(polls([sender, receiver], KVPoll.SUCCESS, KVPoll.FAILED))
    receiver.close()
    return sender.poll(), receiver.poll()


def of_prefill_alone(nodes: Cluster, uses: Uses = UNNAMED) -> tuple[KVPoll, KVPoll]:
    """The first request of the room comes to prefill alone, and its client leaves. It comes again,
    to both servers; decode is the first, and publishes before prefill has the retry.
    """
    (first,) = nodes.senders(ROOM, uses[0])
    first.abort("the client has left")
    until(polls([first], KVPoll.FAILED))
    (receiver,) = published(nodes.receivers(ROOM, use=uses[1]))
    until(lambda: any(end.owner.lanes for end in nodes.prefills[0]._node.lives.values())
          or receiver.poll() is KVPoll.FAILED)
    (sender,) = nodes.senders(ROOM, uses[1])
    return concluded(sender, receiver)


def of_decode_alone(nodes: Cluster, uses: Uses = UNNAMED) -> tuple[KVPoll, KVPoll]:
    """The first request of the room comes to decode alone, and its client leaves. It comes again,
    to both servers, and prefill is the first.
    """
    (first,) = nodes.receivers(ROOM, use=uses[0])
    first.abort("the client has left")
    until(lambda: [early.poll() for early in early_of(nodes)] == [KVPoll.FAILED])
    (sender,) = nodes.senders(ROOM, uses[1])
    until(lambda: sender.stage is not Sending.UNKNOWN)
    (receiver,) = published(nodes.receivers(ROOM, use=uses[1]))
    return concluded(sender, receiver)


@BOTH
def test_a_retry_is_not_failed_by_a_request_that_reached_prefill_alone(
    nodes: Cluster, uses: Uses
) -> None:
    assert of_prefill_alone(nodes, uses) == (KVPoll.SUCCESS, KVPoll.SUCCESS)


@BOTH
def test_a_retry_is_not_failed_by_a_life_that_reached_decode_alone(
    nodes: Cluster, uses: Uses
) -> None:
    assert of_decode_alone(nodes, uses) == (KVPoll.SUCCESS, KVPoll.SUCCESS)


def test_a_named_request_that_has_ended_ends_its_life_by_a_message(nodes: Cluster) -> None:
    (sender,) = nodes.senders(ROOM, 3)
    sender.abort("the client has left")
    until(polls([sender], KVPoll.FAILED))
    (receiver,) = published(nodes.receivers(ROOM, use=3))
    until(polls([receiver], KVPoll.FAILED))
    assert receiver.failure == "p0: the client has left"


def test_a_named_life_that_has_ended_ends_its_request_by_a_message(nodes: Cluster) -> None:
    (receiver,) = nodes.receivers(ROOM, use=3)
    receiver.abort("the client has left")
    until(lambda: [early.poll() for early in early_of(nodes)] == [KVPoll.FAILED])
    (sender,) = nodes.senders(ROOM, 3)
    until(polls([sender], KVPoll.FAILED))
    assert sender.failure == "d0: the client has left"


def test_a_reason_of_a_peer_is_one_line_at_both_ends(nodes: Cluster) -> None:
    """It is logged, and a client may have written it."""
    (sender,) = nodes.senders(ROOM, 3)
    sender.abort("left\nnode d0: all is well\x1b[2J")
    (receiver,) = published(nodes.receivers(ROOM, use=3))
    (other,) = nodes.receivers(ROOM, use=4)
    other.abort("left\r\x1b[2J")
    (late,) = nodes.senders(ROOM, 4)
    until(polls([sender, receiver, late], KVPoll.FAILED))
    assert receiver.failure == r"p0: left\nnode d0: all is well\x1b[2J"
    assert late.failure == r"d0: left\r\x1b[2J"


def test_a_request_that_has_ended_answers_a_life_that_asks_again(asking: Cluster) -> None:
    """No later request of the room has come, so the life is the other half of this one."""
    (first,) = asking.senders(ROOM)
    first.abort("the client has left")
    until(polls([first], KVPoll.FAILED))
    (receiver,) = published(asking.receivers(ROOM))
    until(polls([receiver], KVPoll.FAILED))
    assert receiver.failure == "p0: the client has left"
    receiver.close()
    asking.settled()


def test_a_life_that_its_sink_has_ended_ends_a_request_that_no_other_life_comes_for(
    asking: Cluster
) -> None:
    (receiver,) = asking.receivers(ROOM)
    receiver.abort("the client has left")
    until(lambda: [early.poll() for early in early_of(asking)] == [KVPoll.FAILED])
    (sender,) = asking.senders(ROOM)
    until(polls([sender], KVPoll.FAILED))
    assert sender.failure == "d0: the client has left"
    assert asking.prefills[0].metrics.read()["bootstrap_failed_reqs"] == 1
    asking.settled()


@cache
def counting() -> Automaton:
    """The table of a rank, with all lives and requests, MOST of each prompt."""
    count = MOST * len(PROMPTS)
    sizes = {roles.Source: 1, roles.Life: count, roles.Use: count, roles.Sink: 1,
             roles.Prompt: len(PROMPTS)}
    return Automaton(RANK_ALONE, sizes, conditions=Conditions(
        RANK_ALONE, (earlier, *binding_prompts.BY_PROMPT)))


class Whole:
    """The same table, in an automaton that counts all."""

    def __init__(self) -> None:
        self.automaton = counting()
        self.state = self.automaton.initial
        self.bound: list[tuple[int, int]] = []
        self.told: list[tuple[int, int]] = []

    def call(self, name: str, use: int) -> None:
        self._take(self.automaton.call(name, (use,)))

    def hear(self, message: AnyMessage, life: int) -> None:
        self._take(self.automaton.message(message, (0, life, 0)))

    def _take(self, event: Event) -> None:
        step = self.automaton.take(event, self.state)
        self.state = step.state
        self.bound += [(indices[1], indices[2]) for symbol, indices, value in step.changed
                       if symbol is tables.binds and value is True]
        self.told += [(indices[1], indices[2]) for symbol, indices, value in step.changed
                      if symbol is binding_prompts.differ and value is True]


class Plain:
    """Stands for a sender."""

    def __init__(self, room: int, prompt: bytes | None) -> None:
        self.room = room
        self.given_use = None
        self.prompt = prompt


EVENTS: Final = st.lists(st.tuples(
    st.sampled_from(["open", "leave", "introduce", "introduce", "abort"]),
    st.integers(0, MOST - 1), st.integers(0, len(PROMPTS) - 1)), max_size=32)


@given(EVENTS)
def test_a_window_binds_as_an_automaton_that_counts_all(events: list[tuple[str, int, int]]) -> None:
    """For any events of one room, as long as no aborted life has given its place up."""
    bound: list[tuple[int, int]] = []
    told: list[tuple[int, int]] = []
    senders: dict[Sender, int] = {}
    window = BindingRooms(
        lambda life, sender, _: bound.append((life.generation, senders[sender])),
        lambda life, sender: told.append((life.generation, senders[sender])))
    whole = Whole()
    opened = dict.fromkeys(range(len(PROMPTS)), 0)
    order = {prompt: dict[int, int]() for prompt in opened}  # both count lives as they come
    introduced, left, aborted = set[int](), set[int](), set[int]()
    for name, drawn, prompt in events:
        lives, uses = {life for life, _ in bound}, {use for _, use in bound}
        first = prompt * MOST
        number = first + (drawn if name in ("open", "leave") else
                          order[prompt].setdefault(drawn, len(order[prompt])))
        life = Life(ROOM, 1, number, prompt=PROMPTS[prompt])
        if name == "open" and opened[prompt] < MOST:
            number = first + opened[prompt]
            opened[prompt] += 1
            sender = Plain(ROOM, PROMPTS[prompt])
            senders[sender] = number  # type: ignore[index]
            window.open(sender)  # type: ignore[arg-type]
            whole.call("open_sender", number)
        elif name == "leave" and drawn < opened[prompt] and number not in uses | left:
            left.add(number)
            window.leave(next(one for one, use in senders.items() if use == number))
            whole.call("abort_sender", number)
        elif name == "introduce" and number not in lives | aborted:
            whole.hear(tables.ask if number in introduced else tables.introduce, number)
            introduced.add(number)
            window.hear(life, SINK)
        elif name == "abort" and number not in lives | aborted and sum(
            one // MOST == prompt for one in aborted
        ) < WINDOW:
            aborted.add(number)
            introduced.add(number)
            whole.hear(tables.abort, number)
            window.hear(life, SINK, Abort)
        assert sorted(bound) == sorted(whole.bound)
        assert {life for life, _ in told} == {life for life, _ in whole.told}
    assert all(use // MOST == life // MOST for life, use in bound)


# What the first tests see, with these defects in the rows that the node runs.
DEFECTS: Final = (
    # The failure of a request answers the first life that comes, which may be of a retry.
    (UNNAMED, of_prefill_alone, table_of(DropClause(
        "bind", tables.opening(tables.p, tables.u) == tables.Opening.WAITING))),
    # A life that has ended ends the next request of the room, which may be a retry.
    (UNNAMED, of_decode_alone, table_of(ReplaceRow(
        "end_with_life", replace(RANK_ALONE.row("end_with_life"), on=None)))),
)


@pytest.mark.parametrize(("uses", "retry", "table"), DEFECTS)
def test_with_the_defect_in_the_rows_the_retry_fails(
    uses: Uses, retry: Callable[[Cluster, Uses], tuple[KVPoll, KVPoll]], table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "BindingRooms", partial(BindingRooms, role=RankRole(table)))
    with cluster(waits=NO_CLOCK) as nodes:
        assert KVPoll.FAILED in retry(nodes, uses)
