"""The data-parallel rank of a room, on both sides and through a real registry: M2.1 to M2.5."""

from collections.abc import Iterator

import pytest

from pdproto.node.rooms import DecodeRooms, PrefillRooms
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.lives import ask_again, post
from pdproto.registry.wire import Registration
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.spec.handoff import routing

RANKS = 2
LIFE = (7, 1)  # a room, and its generation


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


@pytest.fixture
def client(server: RegistryServer) -> Iterator[RegistryClient]:
    speaking = RegistryClient(f"127.0.0.1:{server.port}")
    yield speaking
    speaking.close()


def both_sides(
    client: RegistryClient, *, force_query: bool
) -> tuple[list[PrefillRooms], DecodeRooms]:
    """All ranks of a server, registered, and a decode node that has looked them up."""
    for rank in range(RANKS):
        client.register(Registration(
            attn_tp_size=1, attn_tp_rank=0, attn_dp_size=RANKS, attn_dp_rank=rank,
            rank_ip="10.0.0.1", rank_port=5000 + rank, incarnation=1, force_query=force_query,
        ))
    info = client.look_up_all().server
    prefill = [PrefillRooms(rank, RANKS, publishes=force_query) for rank in range(RANKS)]
    return prefill, DecodeRooms(info.dp_size, follows_rule=info.follow_bootstrap_room)


def requests(server: RegistryServer) -> int:
    """How many requests about rooms the registry has seen."""
    return sum(count for (method, route, _), count in server.app.answers.items()
               if method == "POST" and "rank" in route)


def test_m2_1_the_rank_is_named_or_alone_or_by_rule_or_asked_for(client: RegistryClient) -> None:
    _, decode = both_sides(client, force_query=False)
    assert decode.want((7, 1), named=0).row == "take_named"
    assert decode.rank_of((7, 1)) == 0
    assert decode.want((7, 2)).row == "take resolve_by_rule"
    assert decode.rank_of((7, 2)) == 1
    alone = DecodeRooms(1, follows_rule=False)
    assert alone.want(LIFE).row == "take resolve_alone"
    assert alone.rank_of(LIFE) == 0
    asking = DecodeRooms(RANKS, follows_rule=False)
    assert asking.want(LIFE).row == "take ask"
    assert asking.rank_of(LIFE) is None


def test_m2_2_a_room_on_the_wrong_rank_fails_at_once_and_names_both(
    client: RegistryClient,
) -> None:
    """The other rank, where decode asks, turns decode away at once instead of leaving it to wait.
    """
    prefill, decode = both_sides(client, force_query=False)
    outcome = prefill[0].put(LIFE)
    assert outcome.row == "fail_conflict"
    assert outcome.failure is not None
    for named in ("room 7", "rank 0", "rank 1", "force_query"):
        assert named in outcome.failure
    assert outcome.sent == ((routing.disown, (0, LIFE, 1)),)
    decode.want(LIFE)
    assert prefill[1].meet(LIFE).row == "hear_meet"
    turned_away = prefill[1].disown(LIFE, by=0)
    assert turned_away.sent == ((routing.refuse, (1, LIFE)),)
    assert decode.hear(routing.refuse, 1, LIFE).row == "be_turned_away"
    assert decode.failed(LIFE)


def test_m2_2_a_rank_that_the_request_names_wrongly_is_detected() -> None:
    outcome = PrefillRooms(0, RANKS, publishes=True).put(LIFE, named=1)
    assert outcome.row == "fail_misplaced"
    assert outcome.failure == (
        "room 7 was put on data-parallel rank 0, and the request names rank 1"
    )


def test_m2_3_with_forced_queries_every_room_is_found(client: RegistryClient) -> None:
    """Also those that keep to the rule, in whatever order the two halves arrive."""
    prefill, decode = both_sides(client, force_query=True)
    lives = [(room, 1) for room in range(8)]
    for life in lives[:4]:
        decode.want(life)
    assert ask_again(decode, client) == 0
    for life in lives:
        assert post(client, prefill[life[0] // 4].put(life).sent) == 1
    for life in lives[4:]:
        decode.want(life)
    assert ask_again(decode, client) == 8
    assert [decode.rank_of(life) for life in lives] == [0, 0, 0, 0, 1, 1, 1, 1]
    met = prefill[0].meet(lives[0])
    assert met.row == "hear_meet greet tidy_up"
    decode.hear(routing.met, 0, lives[0])
    assert post(client, met.sent) == 1


def test_m2_4_without_a_conflict_the_rule_costs_no_request(
    server: RegistryServer, client: RegistryClient
) -> None:
    """Not one HTTP request about rooms, on either side, from the request to the end."""
    prefill, decode = both_sides(client, force_query=False)
    for room in range(100):
        life = (room, 1)
        sent = [*prefill[room % RANKS].put(life).sent, *decode.want(life).sent]
        assert decode.rank_of(life) == room % RANKS
        sent += prefill[room % RANKS].meet(life).sent
        decode.hear(routing.met, room % RANKS, life)
        assert post(client, sent) == 0
        prefill[room % RANKS].forget(life)
        decode.forget(life)
    assert ask_again(decode, client) == 0
    assert requests(server) == 0
    assert len(decode._machine) == 1  # that the server keeps to the rule


def test_m2_5_a_room_that_never_comes_ends_by_the_clock(
    server: RegistryServer, client: RegistryClient
) -> None:
    """Each half that arrives alone ends, and leaves nothing in the registry to ask for."""
    prefill, decode = both_sides(client, force_query=True)
    decode.want(LIFE)
    ask_again(decode, client)
    with pytest.raises(LocalProtocolError, match="not concluded"):
        decode.forget((7, 1))
    assert post(client, decode.give_up(LIFE).sent) == 1
    assert decode.failed(LIFE)
    assert not decode.asking
    decode.forget(LIFE)
    post(client, prefill[1].put((9, 1)).sent)
    with pytest.raises(LocalProtocolError, match="not concluded"):
        prefill[1].forget((9, 1))
    ended = prefill[1].stop_waiting((9, 1))
    assert ended.row == "stop_waiting tidy_up"
    assert post(client, ended.sent) == 1
    decode.want((9, 1))
    assert ask_again(decode, client) == 1
    assert decode.failed((9, 1))
    assert requests(server) == 5  # ask, withdraw, publish, retire, ask


def test_an_answer_that_nobody_asked_for_is_the_peers_fault() -> None:
    decode = DecodeRooms(RANKS, follows_rule=True)
    with pytest.raises(RemoteProtocolError, match="reject_answer_idle"):
        decode.hear(routing.answer, LIFE, 0)
    decode.want(LIFE)
    with pytest.raises(RemoteProtocolError, match="9 is no Group"):
        decode.hear(routing.met, 9, LIFE)
    assert decode.hear(routing.refuse, 1, LIFE).row == "be_turned_away"
