"""Data-parallel ranks under vLLM: engines of their own, each of which has a rank 0.

Dense ones know nothing of one another. Where vLLM spreads experts over them, its world has the
ranks of all.
"""

import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from pdproto.net.hosts import LOOPBACK
from tests.transport.test_settings import free_ports
from tests.vllm.engine import Engine, Servers
from tests.vllm.test_scheduler import NEW, check, prompt


@pytest.mark.parametrize("has_experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize("tp", [1, 2])
def test_ranks_of_one_host_have_ports_and_names_of_their_own(
    closing: ExitStack, folder: Path, *, tp: int, has_experts: bool
) -> None:
    """All have the settings of their server. Each decode rank loads from each prefill rank."""
    ranks = 2 * tp
    first = closing.enter_context(free_ports(6 * ranks))
    spread: dict[str, list[int]] = {"kv_producer": [], "kv_consumer": []}
    made: dict[str, list[Engine]] = {}
    for place, (role, told) in enumerate(spread.items()):
        ports = first + 3 * ranks * place
        extra = {"port": ports, "operator": f"{LOOPBACK}:{ports + 2 * ranks}"}
        made[role] = [Engine(closing, folder, role, extra=extra, tp=tp, data_rank=rank,
                             spread=told if has_experts else None) for rank in range(2)]
        for rank in range(ranks):
            address = f"http://{LOOPBACK}:{ports + 2 * ranks + rank}/health"
            with urllib.request.urlopen(address) as answer:
                assert answer.status == 200
    halves = [half._offering.node for engine in made["kv_producer"] for half in engine.workers()
              if half._offering is not None]
    assert [int(node.endpoint.rpartition(":")[2]) for node in halves] == [
        first + 2 * rank for rank in range(ranks)]
    assert len({node.name for node in halves}) == ranks
    for there, prefill in enumerate(made["kv_producer"]):
        for here, decode in enumerate(made["kv_consumer"]):
            servers, asked = Servers(prefill, decode), prompt(10 * there + here, 70)
            servers.serve(f"r{there}{here}", asked, NEW)
            servers.until(lambda: f"r{there}{here}" in decode.ends)  # noqa: B023
            check(servers, f"r{there}{here}", asked)
            assert decode.loaded == 70 * (there + 1)


def test_an_operators_port_that_is_taken_is_told_and_hinders_nothing(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = closing.enter_context(free_ports(1))
    operator = {"operator": f"{LOOPBACK}:{port}"}
    servers = Servers(Engine(closing, folder, "kv_producer", extra=operator),
                      Engine(closing, folder, "kv_consumer", extra=operator))
    (line,) = (line for line in caplog.messages if "operator's port" in line and "no " in line)
    assert f"cannot listen on {LOOPBACK} port {port}" in line
    servers.serve("r", prompt(1), NEW)
    servers.until_idle()
    check(servers, "r", prompt(1))
