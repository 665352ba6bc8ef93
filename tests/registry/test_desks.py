"""Data-parallel ranks over sockets: nodes, a registry, and the desks between them."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest

from pdproto.node.decode.receiver import Addressed, Receiver
from pdproto.node.link import Link, place_of
from pdproto.node.prefill.routing import DataParallelRank
from pdproto.node.rooms import PrefillRooms
from pdproto.registry import desks
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import TIMEOUT_S, RegistryClient
from pdproto.registry.desks import DecodeRegistries, PrefillRegistry
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, Registration
from pdproto.runtime.errors import LocalProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import OWN_HOST, Fabric, SinkDataPath, SourceDataPath, idle, polls
from tests.waiting import until

RANKS = 2
LINK = Link(bind=f"tcp://{OWN_HOST}:0")
WAITS = {"no_decode": 60.0, "unresolved": 60.0}


class Server:
    """A prefill server of two data-parallel ranks, with its registry, and a decode node."""

    def __init__(
        self, closing: ExitStack, *, publishes: bool = False, limits: Limits | None = None
    ) -> None:
        self.registry = closing.enter_context(RegistryServer(OWN_HOST, limits=limits))
        self.address = f"{OWN_HOST}:{self.registry.port}"
        self.client = RegistryClient(self.address)
        closing.callback(self.client.close)
        fabric = Fabric()
        self.prefills = [self._prefill(closing, fabric, rank, publishes=publishes)
                         for rank in range(RANKS)]
        desk = DecodeRegistries()
        closing.callback(desk.close)
        self.decode = DecodeNode("d", SinkDataPath("d", fabric), link=LINK, waits=WAITS, desk=desk)
        closing.callback(self.decode.close)

    def _prefill(
        self, closing: ExitStack, fabric: Fabric, rank: int, *, publishes: bool
    ) -> PrefillNode:
        name = f"p{rank}"
        desk = PrefillRegistry(self.address, Rank(rank, 0, 0, 0))
        closing.callback(desk.close)
        node = PrefillNode(
            name, SourceDataPath(name, fabric), link=LINK, waits=WAITS,
            dp=DataParallelRank(PrefillRooms(rank, RANKS, publishes=publishes), desk))
        closing.callback(node.close)
        host, port = place_of(node.endpoint)
        self.client.register(Registration(
            attn_tp_size=1, attn_tp_rank=0, attn_dp_size=RANKS, attn_dp_rank=rank, rank_ip=host,
            rank_port=port, incarnation=node.incarnation, name=name, force_query=publishes))
        return node

    def requests(self, route: str) -> int:
        return sum(count for (_, of, _), count in self.registry.app.answers.items() if of == route)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_m2_4_a_room_that_keeps_to_the_rule_costs_one_look_up_of_the_server(
    closing: ExitStack,
) -> None:
    server = Server(closing)
    for room in range(4):
        sender = server.prefills[room % RANKS].open(room)
        receiver = server.decode.seek(room, server.address, pages=range(8 * room, 8 * room + 3))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send(range(3))
        until(polls([receiver], KVPoll.SUCCESS))
        receiver.close()
    until(lambda: idle(server.decode) and all(map(idle, server.prefills)))
    posts = {route for (method, route, _) in server.registry.app.answers if method == "POST"}
    assert (posts, server.requests("/ranks")) == (set(), 1)


@pytest.mark.parametrize("decode_first", [True, False])
def test_m2_3_a_room_on_the_wrong_rank_fails_on_both_sides_within_a_second(
    closing: ExitStack, decode_first: bool
) -> None:
    server = Server(closing)
    if decode_first:
        receiver = server.decode.seek(7, server.address, pages=range(3))
        until(lambda: bool(server.prefills[1]._node.lives))
    began = monotonic()
    sender = server.prefills[0].open(7)
    if not decode_first:
        receiver = server.decode.seek(7, server.address, pages=range(3))
    until(lambda: sender.poll() is receiver.poll() is KVPoll.FAILED)
    assert monotonic() - began < 10.0, "the clocks of both say 60 s; a busy machine is slow"
    for failure in (sender.failure, receiver.failure):
        for named in ("rank 0", "rank 1", "force_query"):
            assert named in str(failure)


def test_m2_2_a_rank_that_the_application_has_found_is_turned_away_too(
    closing: ExitStack,
) -> None:
    """As SGLang's decode does: it finds the rank by itself, and says which it is."""
    server = Server(closing)
    right = server.prefills[1]
    receiver = server.decode.open(6, {right.name: right.endpoint}, pages=range(3),
                                  addressed=Addressed(server.address, RANKS, 1))
    sender = server.prefills[0].open(6, named=1)
    until(lambda: sender.poll() is receiver.poll() is KVPoll.FAILED)
    assert "room 6 was put on data-parallel rank 0, and the request names rank 1" in str(
        receiver.failure)


def sought(server: Server, room: int, pages: range) -> Receiver:
    """A request whose room decode has asked for in vain."""
    asked = server.requests("/query_dp_ranks")
    receiver = server.decode.seek(room, server.address, pages=pages)
    until(lambda: server.requests("/query_dp_ranks") > asked + 1)
    return receiver


@pytest.mark.parametrize("room", [7, 6], ids=["on another rank than the rule says", "by the rule"])
def test_m2_3_decode_asks_until_the_room_is_published(closing: ExitStack, room: int) -> None:
    server = Server(closing, publishes=True)
    receiver = sought(server, room, range(3))
    sender = server.prefills[0].open(room)
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
    until(lambda: server.requests("/retire_dp_rank") == 1)
    sender.send(range(3))
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
    left = sought(server, 8, range(8, 11))
    left.abort("the client has left")
    until(lambda: left.failure == "the client has left")
    until(lambda: server.requests("/withdraw_dp_ranks") == 1)


def test_m1_2_a_look_up_fails_its_request_for_its_reason(closing: ExitStack) -> None:
    server = Server(closing)
    server.decode.seek(7, server.address, pages=range(3))
    nowhere = server.decode.seek(8, f"{OWN_HOST}:1", pages=range(8, 11))
    until(lambda: nowhere.poll() is KVPoll.FAILED)
    assert str(nowhere.failure).startswith(f"prefill server {OWN_HOST}:1: registry at")
    empty = closing.enter_context(RegistryServer(OWN_HOST))
    early = server.decode.seek(9, f"{OWN_HOST}:{empty.port}", pages=range(16, 19))
    until(lambda: early.poll() is KVPoll.FAILED)
    assert "no rank has registered" in str(early.failure)
    no_address = server.decode.seek(10, "nowhere", pages=range(24, 27))
    until(lambda: no_address.poll() is KVPoll.FAILED)
    assert "registry address" in str(no_address.failure)


def test_a_registry_that_hangs_delays_no_request_of_another_server(closing: ExitStack) -> None:
    """Seen red with one thread for all servers: the healthy one is asked after 15 s."""
    server = Server(closing)
    hung = closing.enter_context(socket.create_server((OWN_HOST, 0)))
    address = f"{OWN_HOST}:{hung.getsockname()[1]}"
    stuck = [server.decode.seek(room, address, pages=[room]) for room in range(20, 23)]
    began = monotonic()
    sender = server.prefills[1].open(7)
    receiver = server.decode.seek(7, server.address, pages=range(3))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send(range(3))
    until(polls([receiver], KVPoll.SUCCESS))
    assert monotonic() - began < 2 * TIMEOUT_S
    assert any(one.poll() is not KVPoll.FAILED for one in stuck)
    hung.close()


def test_threads_for_servers_that_are_asked_nothing_any_more_end(
    closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "SERVERS_MAX", 2)
    server = Server(closing)
    for port in range(1, 6):
        receiver = server.decode.seek(port, f"{OWN_HOST}:{port}", pages=[port])
        until(polls([receiver], KVPoll.FAILED))
        receiver.close()
    desk: Any = server.decode._node.routing._desk
    until(lambda: sum(one._thread.is_alive() for one in desk._desks.values()) <= 2)


def test_a_room_that_the_registry_does_not_list_fails_at_once(closing: ExitStack) -> None:
    server = Server(closing, publishes=True, limits=Limits(rooms_max=0))
    sender = server.prefills[0].open(7)
    until(lambda: sender.poll() is KVPoll.FAILED)
    assert "the registry does not list it" in str(sender.failure)


def test_a_node_without_a_desk_seeks_nothing(closing: ExitStack) -> None:
    node = DecodeNode("d", SinkDataPath("d", Fabric()), link=LINK)
    closing.callback(node.close)
    with pytest.raises(LocalProtocolError, match="has no desk"):
        node.seek(7, "127.0.0.1:1", pages=range(3))
