"""No call that vLLM makes, in its scheduler or in a worker, waits for a peer or a name server that
hangs. The calls are all that the connector answers (test_interface.py): a new one is missing here.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from socket import EAI_AGAIN, gaierror
from threading import Event
from typing import Any, Final

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from pdproto.transport import resolver
from pdproto.vllm.connector import PdprotoConnector
from pdproto.vllm.offer import KEY
from pdproto.vllm.stats import SCHEDULER_CPU, WORKER_CPU
from tests.vllm.engine import FOR_DECODE, Engine, Servers
from tests.vllm.test_scheduler import NEW, prompt
from tests.waits import Waits, assert_brief

ALONE: Final = {  # when a server starts or ends, and one that only says why it is not answered
    "bind_gpu_block_pool", "build_kv_connector_stats", "build_prom_metrics", "get_finished",
    "get_handshake_metadata", "register_kv_caches", "set_xfer_handshake_metadata_pp_aware",
    "shutdown", "supports_sleep_mode"}
CALLS: Final = [name for name in vars(KVConnectorBase_V1)
                if not name.startswith("_") and name in vars(PdprotoConnector)
                and name not in ALONE]
SILENT: Final = "tcp://silent.test:5000"
EXTRA: Final = {"insecure": True, "absent_s": 3.0,
                "waits": {"bootstrap_timeout": 4.0, "no_news": 0.1}}


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A name server that says nothing until the test ends."""
    ended = Event()

    def ask(*_: Any, **__: Any) -> Any:
        ended.wait(60)
        raise gaierror(EAI_AGAIN, "no answer")

    monkeypatch.setattr(resolver, "getaddrinfo", ask)
    yield
    ended.set()


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    """Of a server that accepts and says nothing, one that no name server knows, and none."""
    with socket.create_server(("127.0.0.1", 0)) as hung, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield [f"tcp://127.0.0.1:{hung.getsockname()[1]}", SILENT,
               f"tcp://127.0.0.1:{closed.getsockname()[1]}"]


def at(params: dict[str, Any], name: str, endpoint: str) -> dict[str, Any]:
    """The params of a prefill server of another address."""
    return {**params, KEY: {**params[KEY], "ranks": [(0, 0, name, endpoint)]}}


def ask_for_all(servers: Servers, addresses: Sequence[str], turns: range) -> None:
    """Requests of servers that hang and of one that serves, some of which the clients abort."""
    for turn in turns:
        for number, endpoint in enumerate(addresses):
            name = f"{turn}-{number}"
            params = servers.compute(name, prompt(number))
            servers.decode.add(name, prompt(number), NEW, at(params, f"hangs-{number}", endpoint))
            servers.step()
            if turn % 2:
                servers.decode.abort(name)
        servers.serve(f"{turn}-healthy", prompt(turn), NEW)
        servers.prefill.add(f"{turn}-left", prompt(turn), NEW, FOR_DECODE)
        servers.step()
        servers.prefill.abort(f"{turn}-left")
    servers.until_idle()
    assert all(servers.decode.ends[f"{turn}-healthy"] == "length" for turn in turns)


def pair(closing: ExitStack, folder: Path) -> Servers:
    return Servers(Engine(closing, folder, "kv_producer", extra=EXTRA),
                   Engine(closing, folder, "kv_consumer", extra=EXTRA))


def test_no_call_of_vllm_waits_for_what_hangs(
    closing: ExitStack, folder: Path, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red with a name that `LoadingWorker._begin` resolves itself, with a sleep in
    `Seals.doubt`, and with a call that is left out here.
    """
    servers, waits = pair(closing, folder), Waits(monkeypatch)
    waits.watch(PdprotoConnector, CALLS)
    ask_for_all(servers, addresses, range(2))
    for half in (servers.prefill.connector, servers.decode.connector):  # as vLLM's models do
        half.wait_for_layer_load("layers.0.attn")
        half.save_kv_layer("layers.0.attn", None, None)
    servers.decode.half.request_finished(servers.decode.requests["0-0"], [])
    assert waits.found == {}
    assert waits.called == {f"PdprotoConnector.{name}" for name in CALLS}


def test_a_step_takes_no_longer_while_peers_hang(
    closing: ExitStack, folder: Path, addresses: list[str]
) -> None:
    """Seen red with 20 ms of work in `Seals.doubt`."""
    servers = pair(closing, folder)
    ask_for_all(servers, addresses, range(2))  # what is made once is made
    for engine in (servers.prefill, servers.decode):
        engine.stats.clear()
    ask_for_all(servers, addresses, range(2, 8))
    for engine in (servers.prefill, servers.decode):
        for name in (SCHEDULER_CPU, WORKER_CPU):
            assert_brief((seconds for stats in engine.stats for seconds in stats[name]), name)
