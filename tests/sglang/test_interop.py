"""SGLang's look-ups against our registry, and our client against SGLang's bootstrap server."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.common import conn

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import RefusedError, Registration
from tests.sglang.releases import of_newest
from tests.waiting import until


def registration(tp: int, **changed: Any) -> Registration:
    usual: dict[str, Any] = {
        "attn_tp_size": 2, "attn_tp_rank": tp, "rank_ip": "127.0.0.1", "rank_port": 5_000 + tp,
        "page_size": 16, "kv_cache_dtype": "bfloat16",
    }
    return Registration(**usual | changed)


@pytest.fixture
def ours() -> Iterator[str]:
    with RegistryServer() as server:
        yield f"127.0.0.1:{server.port}"


def looking(page_size: int = 16) -> SimpleNamespace:
    """What SGLang's manager has of itself when it asks for a prefill server."""
    return SimpleNamespace(
        prefill_info_table={}, kv_args=SimpleNamespace(page_size=page_size, state_types=[]),
        kv_cache_dtype_str="bfloat16", attn_tp_size=2, kv_layout=None, dsv41_spec_layout=None,
    )


def test_sglang_finds_the_ranks_in_our_registry(ours: str) -> None:
    client = RegistryClient(ours)
    receiver = SimpleNamespace(bootstrap_addr=ours)
    find = conn.CommonKVReceiver._get_bootstrap_info_from_server
    client.register(registration(0))
    assert find(receiver, 0, 0, 1, 0) is None  # not ready: a rank is missing
    client.register(registration(1))
    found = find(receiver, 0, 0, 1, 0)
    assert (found["rank_ip"], found["rank_port"], found["pp_rank"]) == ("127.0.0.1", 5_001, 0)
    assert find(receiver, 0, 0, 7, 0) is None
    client.close()


@of_newest
def test_sglang_is_told_of_a_policy_that_does_not_fit(ours: str) -> None:
    client = RegistryClient(ours)
    for tp in range(2):
        client.register(registration(tp))
    with pytest.raises(RuntimeError, match="Page size mismatch"):
        conn.CommonKVManager.try_ensure_parallel_info(looking(page_size=64), ours)
    with pytest.raises(RefusedError, match="page_size"):
        client.register(registration(0, page_size=64))
    client.close()


def test_sglang_asks_our_registry_which_rank_runs_a_room(ours: str) -> None:
    client = RegistryClient(ours)
    for dp in range(2):
        client.register(registration(
            0, attn_tp_size=1, attn_dp_size=2, attn_dp_rank=dp, load_balance_method="round_robin"))
    client.register_room(7, 1)
    until(lambda: conn.CommonKVReceiver.query_prefill_dp_ranks(ours, [7, 8]) == {"7": 1})
    client.close()


@pytest.fixture
def theirs() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
    conn.CommonKVBootstrapServer("127.0.0.1", port)  # it has no end: a daemon of this process
    for _ in range(600):  # its thread begins to listen when it has come to that
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return f"127.0.0.1:{port}"
        sleep(0.05)
    raise TimeoutError("SGLang's bootstrap server does not listen")


def test_our_client_speaks_to_sglangs_server(theirs: str) -> None:
    client = RegistryClient(theirs, timeout_s=10.0)
    for tp in range(2):
        client.register(registration(tp))
    client.register_room(7, 0)
    until(lambda: conn.CommonKVReceiver.query_prefill_dp_ranks(theirs, [7]) == {"7": 0})
    with pytest.raises(RefusedError, match=rf"{theirs}: it has no list of ranks.*pdproto registry"):
        client.look_up_all()
    client.close()
