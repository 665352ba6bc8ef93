"""Which data-parallel rank runs a room, through a real registry and between nodes; no SGLang."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import Registration
from pdproto.sglang.routing import UNKNOWN, Rooms
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair, until

RANKS = 2


class Ranks:
    """Both ranks of a server. told: what each has said to the other."""

    def __init__(self, closing: ExitStack, *, publishes: bool) -> None:
        server = closing.enter_context(RegistryServer())
        self.client = RegistryClient(f"127.0.0.1:{server.port}")
        closing.callback(self.client.close)
        self.told: list[tuple[int, str, str, str]] = []
        self.refused: list[str] = []
        self.rooms = []
        for dp in range(RANKS):
            registration = Registration(
                attn_tp_size=1, attn_tp_rank=0, attn_dp_size=RANKS, attn_dp_rank=dp,
                rank_ip="10.0.0.1", rank_port=5_000 + dp, incarnation=1, name=f"rank{dp}",
                force_query=publishes)
            self.client.register(registration)
            self.rooms.append(Rooms(f"127.0.0.1:{server.port}", registration,
                                    lambda *said: self.told.append(said)))

    def close(self) -> None:
        """Until all has been said."""
        for rooms in self.rooms:
            rooms.close()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_room_that_keeps_to_the_rule_costs_nothing(closing: ExitStack) -> None:
    ranks = Ranks(closing, publishes=False)
    for room in range(4):
        life = ranks.rooms[room % RANKS].begin(room, None, ranks.refused.append)
        ranks.rooms[room % RANKS].met(life)
        ranks.rooms[room % RANKS].end(life)
    answer = ranks.client.query_rooms(list(range(4)))
    assert (answer.dp_ranks, ranks.refused, ranks.told) == ({}, [], [])
    ranks.close()
    assert all(len(rooms._rooms._machine) == 0 for rooms in ranks.rooms)


@pytest.mark.parametrize(("room", "named", "there", "why"), [
    (6, None, 0, "room 6 was put on data-parallel rank 1, and decode looks for it on rank 0"),
    (7, 0, 0, "room 7 was put on data-parallel rank 1, and the request names rank 0")])
def test_a_room_that_is_put_elsewhere_is_refused_and_the_other_rank_is_told(
    closing: ExitStack, room: int, named: int | None, there: int, why: str
) -> None:
    ranks = Ranks(closing, publishes=False)
    life = ranks.rooms[1].begin(room, named, ranks.refused.append)
    ranks.rooms[1].end(life)
    ranks.close()
    assert [reason.startswith(why) for reason in ranks.refused] == [True]
    assert [(of, name, at) for of, _, name, at in ranks.told] == [
        (room, f"rank{there}", f"tcp://10.0.0.1:{5_000 + there}")]
    assert ranks.told[0][1].startswith(why)


@pytest.mark.parametrize("named", [1, UNKNOWN])
def test_a_room_runs_on_the_rank_that_its_request_names(closing: ExitStack, named: int) -> None:
    ranks = Ranks(closing, publishes=False)
    ranks.rooms[1].begin(6, named, ranks.refused.append)
    ranks.close()
    assert (ranks.refused, ranks.told) == ([], [])


def test_every_room_is_published_and_struck_out_at_its_end(closing: ExitStack) -> None:
    ranks = Ranks(closing, publishes=True)
    life = ranks.rooms[1].begin(6, None, ranks.refused.append)
    until(lambda: ranks.client.query_rooms([6]).dp_ranks == {6: 1})
    ranks.rooms[1].met(life)
    ranks.rooms[1].end(life)
    ranks.rooms[0].end(ranks.rooms[0].begin(8, None, ranks.refused.append))
    ranks.rooms[0]._thread.submit(int).result()  # what has been submitted before is done
    assert tuple(ranks.client.query_rooms([8]).gone) == (8,)
    assert ranks.client.query_rooms([6]).dp_ranks == {6: 1}, "an answer is given again"
    assert ranks.refused == []
    ranks.close()


@pytest.mark.parametrize("early", [True, False])
def test_decode_is_told_at_once_where_it_looks_for_a_room_that_failed_elsewhere(
    closing: ExitStack, early: bool
) -> None:
    pair = Pair(closing, [range(4), range(4)])
    (here, _), (there, _) = pair.sources
    if not early:
        here.disown(1, "it was put on rank 0", there.name, there.endpoint)
        until(lambda: len(list(there._core._unbound)) == 1)
    receiver = pair.node.open(1, {there.name: there.endpoint})
    if early:
        until(lambda: bool(there._core.lives))
        here.disown(1, "it was put on rank 0", there.name, there.endpoint)
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "it was put on rank 0" in str(receiver.failure)
