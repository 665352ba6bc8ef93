"""`pdproto top`: what an operator sees of two nodes and of one that does not answer."""

import re
import socket
import time
from typing import Final

import pytest

from pdproto.cli import top
from pdproto.cli.main import main
from pdproto.cli.top import shown
from pdproto.transport import node_status
from pdproto.transport.node_status import NodeStatus, look
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import cluster, published
from tests.waiting import until

PATIENCE_S: Final = 30.0  # a busy machine is no node that does not answer


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_status, "TIMEOUT_S", PATIENCE_S)


def test_it_shows_each_stuck_hand_over_and_its_awaited_peer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with cluster(decode={"leases": 0}) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        with OperatorPort(prefill) as first, OperatorPort(decode) as second:
            assert main(["node", "top", "--once", first.address, second.address]) == 0
            assert "p0" in capsys.readouterr().out
            nodes.senders(7)
            published(nodes.receivers(7))
            until(lambda: decode.health() is not None)
            time.sleep(1.0)
            assert main(["node", "top", "--once", first.address, second.address]) == 1
            told = capsys.readouterr().out
            assert f"{second.address}: node d0: hand-overs wait for staging memory" in told
            (line,) = (line for line in told.splitlines() if "its pool: memory" in line)
            for part in ("d0", "7", "bootstrapping", "no clock"):
                assert part in line
            assert re.search(r" [1-9]\d* s ", line)


def test_a_node_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        address = f"127.0.0.1:{port.getsockname()[1]}"
    assert main(["node", "top", "--once", address]) == 1
    assert f"{address}: no answer: " in capsys.readouterr().out


def test_rates_are_of_the_time_between_two_looks() -> None:
    before = NodeStatus("a", 10.0, "", {"handoffs_succeeded_total": 100.0}, None)
    now = NodeStatus("a", 12.0, "", {"handoffs_succeeded_total": 150.0}, None)
    assert now.rate("handoffs_succeeded_total", before) == 25.0
    assert now.rate("handoffs_succeeded_total", None) is None
    assert now.rate("no_such_total", before) is None


@pytest.mark.parametrize("wrong", [["nowhere"], ["127.0.0.1:1", "--every", "0"]])
def test_a_malformed_address_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "top", *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_metric_that_it_reads_is_one_of_a_node() -> None:
    """A name that no node has would show as zero for ever."""
    with cluster() as nodes:
        names: set[str] = set()
        for node in nodes.nodes:
            with OperatorPort(node) as port:
                names |= look(port.address, 1).numbers.keys()
        read = {*top.QUEUED, *top.LEASES, *top.RATES}
        assert read - names == {"transfer_bytes_total"}  # an engine counts it, and none is here
        assert shown([], {}).renderables
