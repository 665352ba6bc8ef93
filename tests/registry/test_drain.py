"""A rank drains: the registry names it to the requests that it has, and to no other (drain.py)."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pdproto.node.link import place_of
from pdproto.registry.app import RegistryApp, RegistryServer
from pdproto.registry.changes import Register
from pdproto.registry.client import NotFoundError, RegistryClient
from pdproto.registry.desks import DecodeRegistries
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Lookup, Rank, Run
from pdproto.runtime.limits import ASKED_ROOMS_MAX
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.registry.served import group, prefill, sglang
from tests.registry.test_replica import Clock, running, shared
from tests.waiting import until, until_in_loop

DRAINS = "rank dp0 cp0 tp0 pp0 drains, and takes no new request"
HERE = Rank(0, 0, 0, 0)
ROUTE = ("/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0")


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running_:
        yield running_


@pytest.fixture
def client(server: RegistryServer) -> Iterator[RegistryClient]:
    with closing(RegistryClient(server.address)) as speaking:
        yield speaking


def names(client: RegistryClient, room: int | None = None) -> set[int]:
    """The data-parallel ranks in the answer."""
    return {rank.dp for rank in client.look_up_all(room).addresses()}


def answer(client: RegistryClient) -> str:
    """The answer to the look-up of a new request: "listed", or the refusal."""
    try:
        client.look_up_all()
    except NotFoundError as refusal:
        return str(refusal)
    return "listed"


def test_a_request_of_the_rank_finds_it_and_a_new_one_does_not(
    server: RegistryServer, client: RegistryClient
) -> None:
    client.register(prefill(of=1))
    client.register(prefill(of=1, leaving=(7, 8)))
    assert names(client, 7) == names(client, 8) == {0}
    for look_up in (client.look_up_all, lambda: client.look_up_all(9), client.health,
                    lambda: client.look_up(Lookup("d0", 1, (HERE,)))):
        with pytest.raises(NotFoundError, match=DRAINS):
            look_up()
    assert sglang(server, "GET", ROUTE) == (503, DRAINS)
    assert server.app.registry.present_ranks == server.app.registry.draining_ranks == 1
    assert "pdproto_registry_draining 1.0" in sglang(server, "GET", "/metrics")[1]


def test_the_rank_comes_off_the_list_when_it_is_empty_and_a_later_run_is_listed(
    client: RegistryClient
) -> None:
    client.register(prefill(of=1, leaving=(7,)))
    client.deregister(Run(0, 0, 0, 0, 1))
    with pytest.raises(NotFoundError, match="1 of 1 ranks are missing"):
        client.look_up_all(7)
    client.register(prefill(of=1, run=2))
    assert names(client) == {0}


def test_a_later_run_takes_the_place_of_one_that_drains(client: RegistryClient) -> None:
    client.register(prefill(of=1, leaving=()))
    client.register(prefill(of=1, run=2))
    assert names(client) == {0}


def test_a_drain_is_not_taken_back(client: RegistryClient) -> None:
    """The first registration may arrive a second time, late, and a drain may be told twice."""
    client.register(prefill(of=1, leaving=(7,)))
    client.register(prefill(of=1))
    client.register(prefill(of=1, leaving=(9,)))
    client.keep_alive(Run(0, 0, 0, 0, 1))
    assert names(client, 7) == {0}
    with pytest.raises(NotFoundError, match=DRAINS):
        client.look_up_all(9)


def test_the_other_data_parallel_ranks_are_listed_as_before(client: RegistryClient) -> None:
    client.register(group(0))
    client.register(group(1, leaving=(7,)))
    assert names(client) == names(client, 8) == {0}
    assert names(client, 7) == {0, 1}
    client.health()
    assert client.look_up(Lookup("d0", 1, (HERE,))).addresses().keys() == {HERE}
    with pytest.raises(NotFoundError, match="rank dp1 cp0 tp0 pp0 drains"):
        client.look_up(Lookup("d0", 1, (HERE, Rank(1, 0, 0, 0))))


def test_no_part_of_a_data_parallel_rank_is_listed(client: RegistryClient) -> None:
    """A sink needs both ranks of it, and one of them drains."""
    for rank in range(2):
        client.register(prefill(rank, attn_dp_size=2))
        client.register(prefill(rank, attn_dp_size=2, attn_dp_rank=1,
                                leaving=() if rank == 0 else None))
    found = client.look_up_all()
    assert names(client) == {0}
    assert len(found.ranks) == 2
    assert not found.is_whole


def test_the_desk_of_decode_looks_up_again_what_was_left_out(
    server: RegistryServer, client: RegistryClient
) -> None:
    """An answer without the rank that drains is not kept: its next run would not be found."""
    client.register(group(0))
    client.register(group(1, leaving=(7,)))
    with ExitStack() as opened:
        desk = DecodeRegistries()
        opened.callback(desk.close)
        for registered in (None, group(1, run=2)):
            found: list[Any] = []
            if registered is not None:
                client.register(registered)
            desk.look_up(server.address, 9, (), found.append, found.append)
            until(lambda: bool(found))  # noqa: B023 - of this turn
            assert found[0].sources.keys() == ({0} if registered is None else {0, 1})


@pytest.mark.parametrize("room", ["", "x", "-1", str(1 << 63), "1e3"])
def test_a_room_that_is_no_number_is_refused(server: RegistryServer, room: str) -> None:
    status, told = sglang(server, "GET", f"/ranks?room={room}")
    assert (status, told.partition(": want")[0]) == (400, f"room: {room!r}")


@pytest.mark.parametrize("leaving", [[-1], ["x"], 7, [0] * (ASKED_ROOMS_MAX + 1)])
def test_rooms_that_are_none_are_refused(server: RegistryServer, leaving: object) -> None:
    body = {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": "10.0.0.1", "rank_port": 1,
            "leaving": leaving}
    status, told = sglang(server, "PUT", "/route", body)
    assert status == 400
    assert "leaving" in told


def test_a_registry_whose_store_is_late_asks_before_it_turns_away() -> None:
    """The rank that drains has a later run, which the other registry knows."""
    async def scene() -> None:
        _, logs, registries, (first, second) = shared(2, Clock())
        async with running(first, second):
            await first.order(Register(prefill(of=1, leaving=())))
            await until_in_loop(lambda: registries[1].draining_ranks == 1)
            logs[1].shows = False
            await first.order(Register(prefill(of=1, run=2)))
            reading = asyncio.create_task(
                RegistryApp(registries[1], second)._read_store())
            await asyncio.sleep(0.02)
            assert not reading.done()
            logs[1].shows = True
            logs[1].store.show()
            await reading
            assert registries[1].look_up(HERE).incarnation == 2

    asyncio.run(scene())


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


def registrar(server: RegistryServer, nodes: Cluster, run: int = 1) -> Registrar:
    """Of the prefill node of a cluster."""
    host, port = place_of(nodes.prefills[0].endpoint)
    found = Registrar(server.address, prefill(of=1, run=run, rank_ip=host, rank_port=port),
                      sign_of_life_s=0.05, retry_s=0.02)
    found.follow(nodes.prefills[0])
    found.start()
    until(found.recorded.is_set)
    return found


def test_a_node_that_drains_tells_the_registry_and_says_goodbye_when_it_is_empty(
    server: RegistryServer, client: RegistryClient, nodes: Cluster
) -> None:
    with closing_(registrar(server, nodes)):
        senders, receivers = nodes.senders(7), published(nodes.receivers(7))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        emptied = nodes.prefills[0].drain()
        until(lambda: server.app.registry.draining_ranks == 1)
        assert names(client, 7) == {0}
        assert not emptied.done()
        for sender in senders:
            sender.send([0, 1, 2])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        for receiver in receivers:
            receiver.close()
        until(lambda: server.app.registry.draining_ranks == 0)
        assert emptied.done()
        assert "ranks are missing" in answer(client)


def test_a_registry_that_has_forgotten_the_rank_hears_of_its_drain_with_the_registration(
    server: RegistryServer, client: RegistryClient, nodes: Cluster
) -> None:
    """It must not be listed meanwhile, not even for the time between two requests."""
    with closing_(registrar(server, nodes)):
        nodes.senders(7)
        nodes.prefills[0].drain()
        registry = server.app.registry
        until(lambda: registry.draining_ranks == 1)
        registry.server = None
        answers: list[str] = []
        while not answers or DRAINS not in answers[-1]:
            answers.append(answer(client))
            assert "listed" not in answers
            assert len(answers) < 10_000
        assert names(client, 7) == {0}


def closing_(keeping: Registrar) -> ExitStack:
    opened = ExitStack()
    opened.callback(keeping.stop)
    return opened
