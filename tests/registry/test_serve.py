"""`pdproto registry`, as its users start and stop it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.check.trace.verify import verify
from pdproto.cli.main import parser_for
from pdproto.cli.registry import PORT
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import NotFoundError, RegistryClient
from pdproto.registry.wire import Registration
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff import dp_rank, registry

ROOT = Path(__file__).resolve().parents[2]


def started(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pdproto.cli.main", "registry", *options], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def test_it_listens_where_sglang_looks() -> None:
    """Its bootstrap port, unless told otherwise."""
    assert parser_for(["registry"]).parse_args(["registry"]).port == PORT == 8998


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    with started("--port", "0") as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().strip().removeprefix("registry at http://")
        client = RegistryClient(address)
        with pytest.raises(NotFoundError, match="no rank has registered"):
            client.health()
        client.close()
        serving.send_signal(number)
        _, errors = serving.communicate(timeout=30)
        assert (serving.returncode, errors) == (0, "")


def test_it_traces_the_rows_that_fire(tmp_path: Path) -> None:
    with started("--port", "0", "--trace", str(tmp_path / "rows")) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip().removeprefix("registry at http://")
            client = RegistryClient(address)
            client.register(Registration(
                attn_tp_size=1, attn_tp_rank=0, attn_dp_size=2, rank_ip="10.0.0.1", rank_port=1,
                incarnation=1, version=VERSION, force_query=True))
            client.register_room(7, 0, 0)
            client.close()
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(30) == 0
        finally:
            serving.kill()
    for system in (registry.SYSTEM, dp_rank.SYSTEM):
        verified = verify(system, [tmp_path / "rows" / f"{system.name}.jsonl"])
        assert verified.is_explained
        assert verified.rows


def test_a_port_in_use_is_said_in_one_line() -> None:
    with RegistryServer() as server, started("--port", str(server.port)) as serving:
        _, errors = serving.communicate(timeout=30)
        assert serving.returncode == 2
        assert errors.startswith(f"pdproto: registry at 127.0.0.1:{server.port}: ")
        assert errors.count("\n") == 1


@pytest.mark.parametrize("options", [("--port", "70000"), ("--silent", "0")])
def test_wrong_options_are_named(options: tuple[str, ...]) -> None:
    with started(*options) as serving:
        _, errors = serving.communicate(timeout=30)
        assert serving.returncode == 2
        assert options[0] in errors
