"""The open hand-overs of a node, as GET /debug/handoffs shows them: the state of each, its age,
the events that it waits for, and the timers that would end it.

Rule: the loop of the node takes no part. Its hand-overs are read from the thread that asks, which
does not hold up the loop, and has an answer when the loop hangs. A hand-over may go on meanwhile.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from pdproto.node.endpoints import name_of
from pdproto.node.handle import ENDED, handles_of
from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.runtime.awaited import Awaited, awaited
from pdproto.spec.handoff.timers import WAITS

SHOWN_MAX: Final = 1_000


class WaitsFor(Struct, frozen=True):
    """An event that a hand-over waits for.

    party: the name of a peer, or a part of this process. event: the message, call or report that
    must come from it. row: of the table. why: the reason of the row. trouble: why the event may not
    come; empty if no reason is known.
    """

    party: str
    event: str
    row: str
    why: str
    trouble: str


class Clock(Struct, frozen=True):
    """A timer that runs. in_s: seconds until it ends. leads_to: the consequence."""

    name: str
    in_s: float
    leads_to: str


class OpenHandoff(Struct, frozen=True):
    """One end of a hand-over.

    for_s: seconds in this state. open_s: seconds since it was opened. repeats: how often a message
    was sent again. waits_for: events that would let it go on. fails_on: events that would fail it.
    memory: the variables of the table that do not have their first value. blame: the reason so far,
    if it fails.
    """

    room: int
    incarnation: int | None
    generation: int | None
    state: str
    for_s: float
    open_s: float
    repeats: int
    waits_for: tuple[WaitsFor, ...]
    fails_on: tuple[WaitsFor, ...]
    clocks: tuple[Clock, ...]
    memory: str
    blame: str


class OpenHandoffs(Struct, frozen=True):
    """The open hand-overs of one node.

    problem: why no hand-over can make progress; empty if some can. open: the number of open
    hand-overs that were asked for. states: how many of them are in each state. handoffs: those that
    have been longest in their state.
    """

    node: str
    side: str
    problem: str
    open: int
    states: dict[str, int]
    handoffs: tuple[OpenHandoff, ...]


def open_handoffs(
    node: Node, problem: str | None, most: int = 100, room: int | None = None,
    state: str | None = None,
) -> OpenHandoffs:
    """Describe the open hand-overs, the longest in their state first. For any thread.

    problem: why no hand-over can make progress, if so. most: how many are described. room, state:
    only hand-overs of this room, or in this state. Raises ValueError for a state that they do not
    have.
    """
    states = {name_of(stage): stage for stage in node.side.stages}
    if state is not None and state not in states:
        raise ValueError(f"state: {state[:40]!r}: want one of {', '.join(states)}")
    wanted = {*states.values()} if state is None else {states[state]}
    owners = [owner for owner in _open(node)
              if owner.stage in wanted and (room is None or owner.room == room)]
    counts = Counter([owner.stage for owner in owners])
    now = node.core.clock()
    oldest = nsmallest(min(most, SHOWN_MAX), owners, key=attrgetter("entered"))
    return OpenHandoffs(node.core.name, node.side.name, problem or "", len(owners),
                        {name_of(stage): count for stage, count in counts.items()},
                        tuple(_told(node, owner, now) for owner in oldest))


def _open(node: Node) -> list[Any]:
    """The handles that are not over."""
    ends = {id(owner): owner for owner in (*handles_of(node.lives), *node.open_ends())}
    return [owner for owner in ends.values() if owner.status not in ENDED or not owner.released]


def _told(node: Node, owner: Any, now: float) -> OpenHandoff:
    own = node.core.own_clock.at(now)
    endpoint, life = owner.endpoint, owner.endpoint.life
    state = endpoint.state  # which the loop may change meanwhile
    waiting = awaited(endpoint.automaton, state, node.side.failed)
    return OpenHandoff(
        room=int(owner.room), incarnation=None if life is None else life.incarnation,
        generation=None if life is None else life.generation, state=name_of(owner.stage),
        for_s=_seconds(now - owner.entered), open_s=_seconds(now - owner.opened),
        repeats=owner.repeats + endpoint.repeats,
        waits_for=_named(node, endpoint.peers, [one for one in waiting if not one.fails], own),
        fails_on=_named(node, endpoint.peers, [one for one in waiting if one.fails], own),
        clocks=tuple(Clock(name, _seconds(deadline - own), WAITS[name].leads_to)
                     for name, deadline in sorted(endpoint.armed.copy().items(),
                                                  key=lambda item: float(item[1]))),
        memory=endpoint.automaton.words(state), blame=owner.blame)


def _seconds(seconds: float) -> float:
    """Rounded to milliseconds; 0 for a timer that is overdue."""
    return round(max(0.0, seconds), 3)


def _named(
    node: Node, peers: Sequence[str], waiting: Sequence[Awaited], now: float
) -> tuple[WaitsFor, ...]:
    return tuple(WaitsFor(*_party_and_event(peers, one), one.row, one.why, _trouble(
        node, peers, one, now)) for one in waiting)


def _party_and_event(peers: Sequence[str], one: Awaited) -> tuple[str, str]:
    other = "a peer that has not called yet"
    if one.peer is not None and one.peer < len(peers):
        other = peers[one.peer]
    if not one.part:
        return other, one.event
    return one.part, one.event if one.peer is None else f"{one.event}, for {other}"


def _trouble(node: Node, peers: Sequence[str], one: Awaited, now: float) -> str:
    if one.part or one.peer is None or one.peer >= len(peers):
        return ""
    peer: Peer | None = node.core.peers.get(peers[one.peer])
    if peer is None or not peer.incarnation:
        return "nothing was ever heard of it"
    if peer.lost:
        return "its process has ended" if peer.ended else "it is lost: silent or unreachable"
    return peer.trouble(now)
