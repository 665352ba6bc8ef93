"""The registry over real sockets: bodies as SGLang sends them, of other versions, of any bytes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import (
    RegistryClient,
)
from pdproto.registry.registry import Registry
from pdproto.registry.wire import Rank, RefusedError, Registration, Room, Rooms, Run, read
from pdproto.runtime import versions
from pdproto.runtime.limits import ASKED_ROOMS_MAX, BODY_BYTES_MAX
from pdproto.runtime.versions import VERSION
from tests.registry.served import group, prefill, sglang
from tests.tiers import examples


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


@settings(max_examples=examples(60, 200), deadline=None)
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
