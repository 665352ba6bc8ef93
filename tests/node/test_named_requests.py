"""Two ranks of prefill and two of decode, and requests of one room that the caller has named.

Rule 1: the ranks open the halves of a request and of its retry in any order.
Rule 2: a request that reaches both servers succeeds, with the same request from every rank; one
        that reaches a single server is aborted there, and takes nothing of another with it.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill import binding_rooms
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.tiers import examples
from tests.waiting import until

RANKS: Final = 2  # of each server
USES: Final = 3
FIRST_ROOM: Final = 7
LEFT: Final = "the client has left"
NO_CLOCK: Final = {"no_news": 600.0, "no_bytes": 600.0, "no_other_life": 600.0}
ROOMS: Final = count(FIRST_ROOM)

# Which end opens its next request. Prefill takes the requests in an order of its own on each rank;
# all ranks of decode take them in the order of their lives.
ORDERS: Final = st.permutations([
    (side, rank) for side in ("prefill", "decode") for rank in range(RANKS) for _ in range(USES)])
OF_A_RANK: Final = st.tuples(*(st.permutations(range(USES)) for _ in range(RANKS)))
# Requests that reach one server only.
ALONE: Final = st.dictionaries(st.integers(0, USES - 1), st.sampled_from(["prefill", "decode"]))


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster(sources=RANKS, sinks=RANKS, waits=NO_CLOCK) as found:
        yield found


class Openings:
    """The halves of all requests of one room, as they are opened."""

    def __init__(self, nodes: Cluster, room: int) -> None:
        self.nodes, self.room = nodes, room
        self.senders: dict[int, list[Sender]] = {use: [] for use in range(USES)}
        self.receivers: dict[int, list[Receiver]] = {use: [] for use in range(USES)}

    def open(self, side: str, rank: int, use: int) -> None:
        if side == "prefill":
            self.senders[use].append(self.nodes.prefills[rank].open(self.room, use=use))
            return
        sources = {node.name: node.endpoint for node in self.nodes.prefills}
        (receiver,) = published([self.nodes.decodes[rank].open(
            self.room, sources, sinks=[node.name for node in self.nodes.decodes], use=use,
            generation=self.room * USES + use)])
        self.receivers[use].append(receiver)

    def conclude(self, use: int, alone: str | None) -> None:
        ends: list[Sender | Receiver] = [*self.senders[use], *self.receivers[use]]
        if alone is not None:
            for end in ends:
                end.abort(LEFT)
            until(polls(ends, KVPoll.FAILED))
            assert all(end.failure.endswith(LEFT) for end in ends if end.failure)
            return
        until(polls(self.senders[use], KVPoll.WAITING_FOR_INPUT), lambda: f"{use}: {ends}")
        for sender in self.senders[use]:
            sender.send([1, 2, 3])
        until(polls(ends, KVPoll.SUCCESS), lambda: f"{use}: {ends}")
        for receiver in self.receivers[use]:
            assert set(receiver.uses.values()) == {use}
            receiver.close()


def play(nodes: Cluster, order: list[tuple[str, int]], of_a_rank: tuple[list[int], ...],
         alone: dict[int, str]) -> None:
    """Open the halves in this order, and see how each request ends."""
    openings = Openings(nodes, next(ROOMS))
    turns = {(side, rank): iter(of_a_rank[rank] if side == "prefill" else range(USES))
             for side, rank in order}
    for side, rank in order:
        use = next(turns[side, rank])
        if alone.get(use, side) == side:
            openings.open(side, rank, use)
    for use in range(USES):
        openings.conclude(use, alone.get(use))
    assert nodes.fabric.wrong == []


@settings(max_examples=examples(10, 30), deadline=None)
@given(ORDERS, OF_A_RANK, ALONE)
def test_a_request_that_reaches_both_servers_succeeds(
    nodes: Cluster, order: list[tuple[str, int]], of_a_rank: tuple[list[int], ...],
    alone: dict[int, str],
) -> None:
    play(nodes, order, of_a_rank, alone)


def test_without_the_name_ranks_bind_different_requests(
    nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above, with prefill blind to the names: each rank takes the first request of the
    room.
    """
    def of_life(life: Life) -> binding_rooms.Group:
        return life.room, None

    def of_sender(sender: Sender) -> binding_rooms.Group:
        return sender.room, None

    monkeypatch.setattr(binding_rooms, "_of_life", of_life)
    monkeypatch.setattr(binding_rooms, "_of_sender", of_sender)
    monkeypatch.setattr("tests.waiting.PATIENCE_S", 3.0)
    order = [(side, rank) for rank in range(RANKS) for side in ("prefill", "decode")
             for _ in range(USES)]
    with pytest.raises(AssertionError):
        play(nodes, order, ([0, 1, 2], [2, 1, 0]), {})
