"""The registry over real sockets, row by row of the mission: M1.3, M1.4, M2.1 to M2.5."""

import http.client
import socket
import threading
from functools import partial
from queue import SimpleQueue
from time import time_ns

import pytest

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import (
    NotFoundError,
    RegistryClient,
    UnreachableError,
)
from pdproto.registry.registrar import Registrar
from pdproto.registry.registry import Registry
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, RefusedError, Room, Rooms, Run
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import VERSION
from tests.node.data_paths import OWN_HOST
from tests.registry.served import group, is_ready, prefill, sglang
from tests.registry.test_trace import NEVER_SILENT, fall_silent, heard
from tests.waiting import PATIENCE_S, ended, until


def test_m1_3_one_missing_rank_fails_the_whole_look_up(client: RegistryClient) -> None:
    """Readiness counts ranks, not registrations; nobody gets half a list of addresses."""
    with pytest.raises(NotFoundError, match="no rank has registered"):
        client.look_up_all()
    client.register(prefill(0))
    client.register(prefill(0))
    with pytest.raises(NotFoundError, match="1 of 2 ranks are missing, rank dp0 cp0 tp1 pp0"):
        client.look_up_all()
    client.register(prefill(1))
    directory = client.look_up_all()
    assert directory.server.attn_tp_size == 2
    ports = {rank.tp: address.rank_port for rank, address in directory.addresses().items()}
    assert ports == {0: 5000, 1: 5001}


def test_m1_3_a_goodbye_makes_the_server_incomplete(client: RegistryClient) -> None:
    client.register(prefill(0))
    client.register(prefill(1))
    client.health()
    client.deregister(Run(0, 0, 1, 0, incarnation=1))
    with pytest.raises(NotFoundError, match="missing"):
        client.health()
    with pytest.raises(NotFoundError, match="missing"):
        client.look_up_all()


def test_m1_4_a_restarted_rank_takes_the_place_of_its_earlier_run(client: RegistryClient) -> None:
    """An address names an incarnation; the earlier run is out for good."""
    client.register(prefill(0, of=1, run=10))
    client.register(prefill(0, of=1, run=20, rank_port=6000))
    address = client.look_up_all().addresses()[Rank(0, 0, 0, 0)]
    assert (address.incarnation, address.rank_port) == (20, 6000)
    with pytest.raises(RefusedError, match=r"incarnation: 10 .* another run of it is registered"):
        client.register(prefill(0, of=1, run=10))
    with pytest.raises(NotFoundError, match=r"incarnation: 10 .* is not recorded"):
        client.keep_alive(Run(0, 0, 0, 0, incarnation=10))
    client.deregister(Run(0, 0, 0, 0, incarnation=10))
    client.health()


def test_m1_4_a_goodbye_that_overtakes_its_registration_holds(client: RegistryClient) -> None:
    client.register(prefill(0))
    for run in range(40, 60):
        client.deregister(Run(0, 0, 1, 0, incarnation=run))
    with pytest.raises(RefusedError, match="register under one above 59") as refused:
        client.register(prefill(1, run=59))
    assert refused.value.exceed == 59
    client.register(prefill(1, run=60))
    client.health()


def test_b4_a_successor_with_an_earlier_clock_replaces_a_run_that_is_gone(
    server: RegistryServer, client: RegistryClient
) -> None:
    """As soon as the earlier run is out: until then its greater number keeps its place."""
    later = time_ns() + 10**15  # by a clock that is ahead of this one
    client.register(prefill(0, of=1, run=later))
    client.deregister(Run(0, 0, 0, 0, incarnation=later))
    successor = Registrar(f"127.0.0.1:{server.port}", prefill(0, of=1, run=5), retry_s=0.05)
    successor.start()
    assert successor.recorded.wait(PATIENCE_S)
    client.health()
    assert client.look_up_all().addresses()[Rank(0, 0, 0, 0)].incarnation == later + 1
    successor.stop()


def test_b4_a_live_run_is_not_replaced_by_a_lower_number(client: RegistryClient) -> None:
    """A process that stood still, and was replaced meanwhile, does not take the place back."""
    client.register(prefill(0, of=1, run=3))
    client.register(prefill(0, of=1, run=9))
    for say in (partial(client.register, prefill(0, of=1, run=3)),
                partial(client.register, prefill(0, of=1, run=4))):
        with pytest.raises(RefusedError, match="another run of it is registered") as refused:
            say()
        assert refused.value.exceed is None
    assert client.look_up_all().addresses()[Rank(0, 0, 0, 0)].incarnation == 9


def test_m1_4_a_rank_without_signs_of_life_is_removed() -> None:
    """A rank that dies without a word is noticed, and one that lives is kept."""
    with RegistryServer(limits=NEVER_SILENT) as server:
        address = f"127.0.0.1:{server.port}"
        client = RegistryClient(address)
        living = Registrar(address, prefill(0), sign_of_life_s=0.05, retry_s=0.05)
        dying = Registrar(address, prefill(1), sign_of_life_s=0.05, retry_s=0.05)
        living.start()
        dying.start()
        assert living.recorded.wait(PATIENCE_S)
        assert dying.recorded.wait(PATIENCE_S)
        client.health()
        dying.stop(goodbye=False)
        fall_silent(server, Rank(0, 0, 1, 0))
        until(lambda: server.app.registry.present_ranks == 1)
        before = heard(server, Rank(0, 0, 0, 0))
        until(lambda: heard(server, Rank(0, 0, 0, 0)) > before)
        with pytest.raises(NotFoundError, match="rank dp0 cp0 tp1 pp0 first"):
            client.look_up_all()
        client.register(prefill(1, run=2))
        client.health()
        living.stop()
        client.close()


def test_m1_4_a_registry_that_is_down_is_unreachable_and_found_again() -> None:
    """A look-up says so at once; a registrar goes on until the registry is back, and then again."""
    with RegistryServer(OWN_HOST) as first:
        port = first.port
    client = RegistryClient(f"{OWN_HOST}:{port}")
    with pytest.raises(UnreachableError, match=f"{OWN_HOST}:{port}"):
        client.look_up_all()
    registrar = Registrar(
        f"{OWN_HOST}:{port}", prefill(0, of=1), sign_of_life_s=0.05, retry_s=0.05
    )
    registrar.start()
    for _ in range(2):
        with RegistryServer(OWN_HOST, port) as server:
            until(partial(is_ready, server))
            assert client.look_up_all().addresses()
    registrar.stop()
    client.close()


def test_m2_1_the_registry_says_how_rooms_are_found(client: RegistryClient) -> None:
    """By rule as long as nothing is forced; the answer is the registry's, not each side's own."""
    client.register(group(0))
    client.register(group(1))
    assert client.look_up_all().server.follow_bootstrap_room
    assert client.look_up_all().server.dp_size == 2


def test_two_ranks_of_one_name_are_refused_to_those_who_look_them_up(
    client: RegistryClient
) -> None:
    """Seen red where decode took the latter for both, and had the bytes of one rank alone."""
    client.register(prefill(0, name="p"))
    client.register(prefill(1, name="p"))
    with pytest.raises(RefusedError, match="have registered one name 'p'"):
        client.look_up_all()
    client.register(prefill(1, run=2, name="q"))
    assert [one.address.name for one in client.look_up_all().ranks] == ["p", "q"]


def test_m2_3_forced_queries_find_every_room(client: RegistryClient) -> None:
    client.register(group(0, force_query=True))
    client.register(group(1, force_query=True))
    assert not client.look_up_all().server.follow_bootstrap_room
    for room in range(8):
        client.register_room(room, dp_rank=(room + 1) % 2)
    assert client.query_rooms(range(8)).dp_ranks == {room: (room + 1) % 2 for room in range(8)}


def test_m2_3_ranks_that_differ_serve_nobody(client: RegistryClient) -> None:
    """Force-query on one rank and not on the other is refused, and all are told which it is."""
    client.register(group(0))
    at_fault = r"force_query: rank dp1 cp0 tp0 pp0 says True .*, and the ranks before it publish no"
    with pytest.raises(RefusedError, match=at_fault) as refused:
        client.register(group(1, force_query=True))
    assert refused.value.status == 409
    with pytest.raises(NotFoundError, match=r"1 of 2 ranks are missing, .* set it alike on all"):
        client.look_up_all()
    client.deregister(Run(0, 0, 0, 0, incarnation=1))
    client.register(group(0, run=2, force_query=True))
    client.register(group(1, run=2, force_query=True))
    client.health()


def test_a_registration_that_is_refused_changes_nothing(client: RegistryClient) -> None:
    """Whether for its setting or its number: the server that is there serves on."""
    client.register(group(0, run=2))
    client.register(group(1, run=2))
    before = client.look_up_all()
    for run in (1, 2, 3):
        with pytest.raises(RefusedError):
            client.register(group(1, run=run, force_query=True))
    client.health()
    assert client.look_up_all() == before
    client.register(group(1, run=3))
    client.health()


def test_a_rank_that_was_refused_may_come_again(client: RegistryClient) -> None:
    client.register(group(0))
    with pytest.raises(RefusedError, match="force_query"):
        client.register(group(1, force_query=True))
    client.register(group(1, run=2))
    client.health()


def test_m2_5_other_methods_publish_as_well(client: RegistryClient) -> None:
    for rank in range(2):
        client.register(group(rank, load_balance_method="round_robin"))
    assert not client.look_up_all().server.follow_bootstrap_room


def test_m2_5_unknown_rooms_stay_pending_until_they_are_registered(client: RegistryClient) -> None:
    """One question for many rooms; the answer comes when it is known, and comes again."""
    for rank in range(2):
        client.register(group(rank, force_query=True))
    assert client.query_rooms([7, 8, 9]).dp_ranks == {}
    client.register_room(8, dp_rank=1)
    for _ in range(3):
        assert client.query_rooms([7, 8, 9]).dp_ranks == {8: 1}
    client.register_room(7, dp_rank=0)
    client.withdraw_rooms([9])
    assert client.query_rooms([7, 8, 9]).dp_ranks == {7: 0, 8: 1}


def test_m2_5_a_room_that_was_given_up_is_gone(client: RegistryClient) -> None:
    for rank in range(2):
        client.register(group(rank, force_query=True))
    client.register_room(7, 1, generation=5)
    client.retire_room(7, 1, generation=5)
    answer = client.query_rooms([7], generations=[5])
    assert (answer.dp_ranks, answer.gone) == ({}, (7,))
    client.register_room(7, 0, generation=6)
    assert client.query_rooms([7], generations=[6]).dp_ranks == {7: 0}


def test_m2_5_rooms_are_cleaned_up() -> None:
    """Also those of clients that neither retire nor withdraw: everything returns to nothing."""
    registry = Registry(Limits(room_s=240.0))
    for rank in range(2):
        registry.register(group(rank, run=None, force_query=True), now=0.0)
    before = len(registry.rooms._machine)
    for room in range(50):
        registry.rooms.publish(Room(room, dp_rank=0), now=float(room))
    registry.rooms.publish(Room(1, dp_rank=1), now=100.0)
    registry.rooms.query(Rooms(tuple(range(40, 90))), now=100.0)
    assert registry.open_rooms == 91
    registry.tick(now=300.0)
    assert registry.open_rooms == 41
    assert registry.rooms.query(Rooms((1, 2)), now=300.0).dp_ranks == {1: 1}
    registry.tick(now=1_000.0)
    assert registry.open_rooms == 0
    assert len(registry.rooms._machine) == before
    assert not registry.rooms._answers
    assert not registry.rooms._counted


def test_m2_5_too_many_open_rooms_are_refused() -> None:
    """A client cannot fill the memory; what is open goes on."""
    registry = Registry(Limits(rooms_max=3))
    registry.register(prefill(0, of=1, force_query=True), now=0.0)
    for room in range(3):
        registry.rooms.publish(Room(room, dp_rank=0), now=0.0)
    with pytest.raises(RefusedError, match="3 rooms are open") as refused:
        registry.rooms.publish(Room(3, dp_rank=0), now=0.0)
    assert refused.value.status == 503
    assert registry.rooms.query(Rooms((0, 1, 2)), now=0.0).dp_ranks == {0: 0, 1: 0, 2: 0}


def test_metrics_count_rows_and_requests(server: RegistryServer, client: RegistryClient) -> None:
    """Ranks, rows of the tables, requests by route and status."""
    client.register(prefill(0))
    client.register(prefill(1))
    with pytest.raises(NotFoundError):
        client.keep_alive(Run(0, 0, 0, 0, incarnation=99))
    metrics = sglang(server, "GET", "/metrics")[1]
    for line in (
        "pdproto_registry_ranks 2.0",
        "pdproto_registry_ready 1.0",
        "pdproto_registry_rooms 0.0",
        'pdproto_registry_rows_total{row="record"} 2.0',
        'pdproto_registry_rows_total{row="complete"} 1.0',
        'pdproto_registry_requests_total{method="PUT",route="/route",status="200"} 2.0',
        'pdproto_registry_requests_total{method="POST",route="/keepalive",status="404"} 1.0',
    ):
        assert line in metrics


def test_another_rank_may_set_a_property_left_open(client: RegistryClient) -> None:
    """The first word counts; HTTP ports are each rank's own."""
    client.register(prefill(0, of=3, prefill_http_port=3000, version=None))
    client.register(prefill(1, of=3, page_size=64, prefill_http_port=3001))
    with pytest.raises(RefusedError, match="page_size"):
        client.register(prefill(2, of=3, page_size=16))
    client.register(prefill(2, of=3))
    server = client.look_up_all().server
    assert (server.page_size, server.prefill_http_port, server.version) == (64, 3000, VERSION)


def test_a_server_of_another_shape_may_follow_when_all_ranks_are_gone(
    client: RegistryClient,
) -> None:
    client.register(prefill(0))
    with pytest.raises(RefusedError, match="attn_tp_size"):
        client.register(prefill(0, of=1, run=2))
    client.deregister(Run(0, 0, 0, 0, incarnation=1))
    client.register(prefill(0, of=1, run=2))
    assert len(client.look_up_all().ranks) == 1


def test_a_registrar_says_why_it_is_refused(server: RegistryServer, client: RegistryClient) -> None:
    client.register(prefill(0, of=1, run=9))
    reasons: SimpleQueue[str] = SimpleQueue()
    registrar = Registrar(
        f"127.0.0.1:{server.port}", prefill(0, of=1, run=3), retry_s=0.02,
        on_refused=reasons.put,
    )
    registrar.start()
    assert reasons.get(timeout=PATIENCE_S).endswith(
        "another run of it is registered, a rank without a name at 10.0.0.1:5000: end one of the "
        "two, or correct its rank")
    registrar.stop()
    registrar.stop()
    assert reasons.empty()
    client.health()


def test_a_registrar_tells_the_same_trouble_ever_less_often(
    caplog: pytest.LogCaptureFixture
) -> None:
    """A registry that is down for a day made a line each 2.5 s. After an answer it is told anew."""
    with socket.create_server((OWN_HOST, 0)) as reserved:
        port = reserved.getsockname()[1]
    trouble = "Connection refused') ("
    registrar = Registrar(
        f"{OWN_HOST}:{port}", prefill(0, of=1), retry_s=0.0, sign_of_life_s=0.01)
    registrar.start()
    until(lambda: f"{trouble}64 so far)" in caplog.text)
    assert caplog.text.count(trouble) in (7, 8)
    with RegistryServer(OWN_HOST, port):
        assert registrar.recorded.wait(PATIENCE_S)
    until(lambda: caplog.text.count(f"{trouble}1 so far)") == 2)
    registrar.stop()


@pytest.mark.parametrize(("answer", "error", "named"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", RemoteProtocolError, "not a FullAnswer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xff", RemoteProtocolError,
     "not a FullAnswer"),
    (b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nwhy", RefusedError, "why"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", UnreachableError, "lacks 18 bytes"),
    (b"\x00\x01\x02 I speak something else\r\n\r\n", UnreachableError, "BadStatusLine"),
    (b"", UnreachableError, "RemoteDisconnected"),
])
def test_a_registry_that_lies_is_named(answer: bytes, error: type[Exception], named: str) -> None:
    """Whatever answers in its place, the client says what was wrong, and with whom."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def lie() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(1 << 16):
                    pass  # to close on bytes that nobody read would reset the connection

        lying = threading.Thread(target=lie)
        lying.start()
        client = RegistryClient(f"127.0.0.1:{port}")
        with pytest.raises(error, match=named) as raised:
            client.query_rooms([1])
        assert f"127.0.0.1:{port}" in str(raised.value)
        client.close()
        ended(lying)


def test_a_port_in_use_is_one_clear_error(server: RegistryServer) -> None:
    before = set(threading.enumerate())
    with pytest.raises(OSError, match=rf"registry at 127.0.0.1:{server.port}: .*in use"):
        RegistryServer(port=server.port).start()
    assert set(threading.enumerate()) <= before


def test_it_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with RegistryServer() as server:
        kept_open = http.client.HTTPConnection("127.0.0.1", server.port)
        kept_open.request("GET", "/health")
        assert kept_open.getresponse().status == 503
    server.stop()
    assert set(threading.enumerate()) <= before
    kept_open.close()
