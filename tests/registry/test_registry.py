"""The registry over real sockets, row by row of the mission: M1.3, M1.4, M2.1 to M2.5."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import (
    NotFoundError,
    RegistryClient,
    UnreachableError,
)
from pdproto.registry.registrar import Registrar
from pdproto.registry.registry import Registry
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, RefusedError, Registration, Room, Rooms, Run, read
from pdproto.runtime import versions
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import ASKED_ROOMS_MAX, BODY_BYTES_MAX
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff import dp_rank
from pdproto.spec.handoff import registry as registry_tables
from tests.node.data_paths import OWN_HOST
from tests.registry.test_trace import NEVER_SILENT, fall_silent, heard

PATIENCE_S = 30.0
SYSTEMS = registry_tables.SYSTEM, dp_rank.SYSTEM


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RegistryServer]:
    """A registry. What it has done is replayed in the end against both its tables."""
    with ExitStack() as opened:
        files = [(system, tmp_path / f"{system.name}.jsonl") for system in SYSTEMS]
        traces = {system.name: SharedTrace("registry", opened.enter_context(path.open("wb")))
                  for system, path in files}
        with RegistryServer(limits=NEVER_SILENT, traces=traces) as running:
            yield running
    for system, path in files:
        if path.stat().st_size:
            verified = verify(system, [path])
            assert verified.verdict is Verdict.HOLDS, verified


@pytest.fixture
def client(server: RegistryServer) -> Iterator[RegistryClient]:
    speaking = RegistryClient(f"127.0.0.1:{server.port}")
    yield speaking
    speaking.close()


def prefill(rank: int = 0, *, of: int = 2, run: int | None = 1, **other: Any) -> Registration:
    """One of `of` tensor ranks."""
    fields = {"rank_ip": "10.0.0.1", "rank_port": 5000 + rank, "version": VERSION, **other}
    return Registration(attn_tp_size=of, attn_tp_rank=rank, incarnation=run, **fields)


def group(rank: int, *, of: int = 2, run: int | None = 1, **other: Any) -> Registration:
    """One of `of` data-parallel ranks of one process each."""
    return prefill(0, of=1, run=run, attn_dp_size=of, attn_dp_rank=rank, **other)


def sglang(server: RegistryServer, method: str, path: str, body: object = None) -> tuple[int, str]:
    """What SGLang's own clients do: plain JSON, no fields of ours."""
    sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; fail after `PATIENCE_S`."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, "it never came to hold"
        time.sleep(0.01)


def is_ready(server: RegistryServer) -> bool:
    return server.app.registry.ready


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
    client.register(prefill(0, of=1, run=2**62))
    client.deregister(Run(0, 0, 0, 0, incarnation=2**62))
    successor = Registrar(f"127.0.0.1:{server.port}", prefill(0, of=1, run=5), retry_s=0.05)
    successor.start()
    assert successor.recorded.wait(PATIENCE_S)
    client.health()
    assert client.look_up_all().addresses()[Rank(0, 0, 0, 0)].incarnation == 2**62 + 1
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


def test_ranks_of_dp_attention_register_as_sglang_names_them() -> None:
    """They are of one server, and say which of its data-parallel ranks they are all the same."""
    registry = Registry()
    for rank in (0, 1):
        registry.register(group(rank, system_dp_rank=rank), now=0.0)
    assert registry.look_up(Rank(1, 0, 0, 0)).rank_port == 5000
    with pytest.raises(RefusedError, match=r"system_dp_rank: 2 is not below system_dp_size \(2\)"):
        registry.register(prefill(0, of=1, system_dp_size=2, system_dp_rank=2), now=0.0)


def test_sglang_registers_and_looks_up(server: RegistryServer) -> None:
    """Its own fields and routes, byte for byte as its clients send and read them."""
    body = {
        "attn_tp_size": 2, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1,
        "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0,
        "rank_ip": "10.0.0.9", "page_size": 64, "kv_cache_dtype": "auto",
        "load_balance_method": "follow_bootstrap_room", "enable_dsa_cache_layer_split": False,
        "enable_kv_cache_sharding": False, "prefill_http_port": 30000,
        "decode_allocation_policy": "early", "a_field_of_tomorrow": [1, 2],
    }
    every = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
    one = "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank={}&target_pp_rank=0"

    def register(rank: int, port: int) -> tuple[int, str]:
        sent = {**body, "attn_tp_rank": rank, "rank_port": port}
        return sglang(server, "PUT", "/route", sent)

    assert register(0, 7000) == (200, "OK")
    assert register(0, 7000) == (200, "OK")
    assert sglang(server, "GET", every)[0] == 503
    assert register(1, 7001) == (200, "OK")
    info = json.loads(sglang(server, "GET", every)[1])
    assert info == {
        "attn_tp_size": 2, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": 64,
        "kv_cache_dtype": "auto", "kv_layout": None, "dsv41_spec_layout": None,
        "follow_bootstrap_room": True, "enable_dsa_cache_layer_split": False,
        "enable_kv_cache_sharding": False, "prefill_http_port": 30000,
        "decode_allocation_policy": "early",
    }
    assert json.loads(sglang(server, "GET", one.format(1))[1])["rank_port"] == 7001
    assert sglang(server, "GET", one.format(2))[0] == 404
    assert sglang(server, "GET", "/health") == (200, "OK")
    # It restarts behind another port, and says nothing of incarnations.
    assert register(1, 7002) == (200, "OK")
    assert json.loads(sglang(server, "GET", one.format(1))[1])["rank_port"] == 7002
    assert register(1, 7001) == (200, "OK")
    assert json.loads(sglang(server, "GET", one.format(1))[1])["rank_port"] == 7001
    assert sglang(server, "POST", "/route", {})[0] == 405
    policy = {**body, "attn_tp_rank": 0, "rank_port": 7000, "decode_allocation_policy": "late"}
    status, reason = sglang(server, "PUT", "/route", policy)
    assert status == 400
    assert "decode_allocation_policy" in reason


def test_sglang_rooms_are_asked_for_again_and_again(server: RegistryServer) -> None:
    """A room number comes again on another rank: the later publication counts."""
    client = RegistryClient(f"127.0.0.1:{server.port}")
    for rank in range(2):
        client.register(group(rank, run=None, force_query=True))
    client.close()

    def ask() -> Any:
        asked = {"bootstrap_rooms": [5, 6]}
        return json.loads(sglang(server, "POST", "/query_dp_ranks", asked)[1])

    assert ask() == {}
    for rank in (1, 1, 0):
        room = {"bootstrap_room": 5, "dp_rank": rank}
        assert sglang(server, "POST", "/register_dp_rank", room) == (200, "OK")
        assert ask() == {"5": rank}


@pytest.mark.parametrize(("method", "path", "body", "status", "named"), [
    ("PUT", "/route", b"", 400, "no JSON"),
    ("PUT", "/route", b"\xff\xfe{", 400, "Registration"),
    ("PUT", "/route", b"[" * 100_000, 400, "Registration"),
    ("PUT", "/route", {"attn_tp_size": "2"}, 400, "$.attn_tp_size"),
    ("PUT", "/route", {"attn_tp_size": 2, "attn_tp_rank": 2, "rank_ip": "x", "rank_port": 1},
     400, "attn_tp_rank"),
    ("PUT", "/route", {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": "x", "rank_port": 99999},
     400, "$.rank_port"),
    ("PUT", "/route", {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": "x", "rank_port": 1,
                       "version": VERSION + 1}, 409, f"speaks {VERSION + 1}, and the registry "),
    ("PUT", "/route", {"attn_tp_size": 4096, "attn_tp_rank": 0, "pp_size": 4096, "rank_ip": "x",
                       "rank_port": 1}, 400, "attn_tp_size"),
    ("PUT", "/route", b"x" * (BODY_BYTES_MAX + 1), 413, "exceeded"),
    ("DELETE", "/route", {"dp": 0}, 400, "`cp`"),
    ("GET", "/route?prefill_dp_rank=0", None, 400, "prefill_cp_rank is missing"),
    ("GET", "/route?prefill_dp_rank=a&prefill_cp_rank=0", None, 400, "prefill_dp_rank: 'a'"),
    ("POST", "/register_dp_rank", {"bootstrap_room": -1, "dp_rank": 0}, 400, "$.bootstrap_room"),
    ("POST", "/register_dp_rank", {"bootstrap_room": 1, "dp_rank": 2}, 400, "dp_rank: 2"),
    ("POST", "/query_dp_ranks", {"bootstrap_rooms": [1] * (ASKED_ROOMS_MAX + 1)}, 400,
     "$.bootstrap_rooms"),
    ("POST", "/query_dp_ranks", {"bootstrap_rooms": [1, 2], "generations": [1]}, 400,
     "generations"),
    ("POST", "/keepalive", {"dp": 0, "cp": 0, "tp": 9, "pp": 0, "incarnation": 1}, 404, "tp9"),
    ("GET", "/nothing", None, 404, ""),
    ("PATCH", "/health", None, 405, ""),
])
def test_any_body_has_an_answer_that_names_the_field(
    server: RegistryServer, method: str, path: str, body: object, status: int, named: str
) -> None:
    """Nothing that a client sends changes what is known, and it is counted."""
    client = RegistryClient(f"127.0.0.1:{server.port}")
    for rank in range(2):
        client.register(group(rank))
    assert len(client.look_up_all().ranks) == 2
    got, reason = sglang(server, method, path, body)
    assert got == status, reason
    assert named in reason
    assert len(client.look_up_all().ranks) == 2
    metrics = sglang(server, "GET", "/metrics")[1]
    assert f'status="{status}"' in metrics
    client.close()


def test_ranks_of_another_version_or_with_other_capabilities_are_refused(
    client: RegistryClient,
) -> None:
    client.register(prefill(0, capabilities=("direct",), page_size=16))
    with pytest.raises(RefusedError, match=r"capabilities: rank .* says \(\), .* \('direct',\)"):
        client.register(prefill(1))
    with pytest.raises(RefusedError, match=f"version: .* speaks 99, and the registry {VERSION}"):
        client.register(prefill(1, version=99))
    with pytest.raises(RefusedError, match=r"page_size: .* says 64"):
        client.register(prefill(1, capabilities=("direct",), page_size=64))


def test_a_decode_node_of_another_version_is_refused(
    client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, with both versions named: it has nothing to gain from going on."""
    client.register(prefill(0, of=1))
    monkeypatch.setattr(versions, "VERSION", 99)
    monkeypatch.setattr(versions, "OLDEST", 98)
    with pytest.raises(RefusedError, match=f"speaks {VERSION}, and this node 98 to 99"):
        client.look_up_all()


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from([Registration, Run, Room, Rooms]),
    body=st.binary(max_size=200) | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda parts: st.lists(parts, max_size=3) | st.dictionaries(
            st.sampled_from([*Registration.__struct_fields__, *Run.__struct_fields__,
                             *Room.__struct_fields__, *Rooms.__struct_fields__]),
            parts, max_size=20,
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_any_bytes_are_a_body_or_a_refusal(kind: type[Any], body: bytes) -> None:
    refusals = []
    try:
        assert isinstance(read(body, kind), kind)
    except RefusedError as refused:
        refusals.append(refused)
    assert all(refused.status == 400 for refused in refusals)
    assert all(refused.reason.startswith(kind.__name__) for refused in refusals)


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
    assert "another run of it is registered" in reasons.get(timeout=PATIENCE_S)
    registrar.stop()
    registrar.stop()
    assert reasons.empty()
    client.health()


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
        lying.join()


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
