"""The protocol of NVIDIA Dynamo's workers, by its own module, between two servers.

Dynamo's handlers need its runtime. They give prefill's sampling parameters and decode's request the
parameters that this module names, and nothing of their own.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from pdproto.vllm.plugin import DYNAMO, NAME, plugin
from tests.vllm.engine import Engine, Servers
from tests.vllm.test_scheduler import NEW, check, prompt

sys.path.append(str(Path(__file__).parents[2] / ".vllm/dynamo"))  # by make test-vllm
protocols: Any = pytest.importorskip("dynamo.vllm.kv_connector_protocols", reason=VLLM)


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Dynamo's table as it comes."""
    table = {name: of for name, of in protocols.KV_CONNECTOR_PROTOCOLS.items() if name != NAME}
    monkeypatch.setattr(protocols, "KV_CONNECTOR_PROTOCOLS", table)
    return table


@pytest.mark.parametrize("multi", [False, True], ids=["alone", "in MultiConnector"])
def test_decode_loads_what_prefill_has_computed(
    closing: ExitStack, folder: Path, unnamed: dict[str, Any], *, multi: bool
) -> None:
    servers = Servers(Engine(closing, folder, "kv_producer", multi=multi),
                      Engine(closing, folder, "kv_consumer", multi=multi))
    with pytest.raises(ValueError, match=NAME):
        protocols.make_kv_connector_protocol(servers.prefill.config)
    plugin()
    assert NAME in unnamed
    asked, protocol = prompt(1), protocols.make_kv_connector_protocol(servers.prefill.config)
    servers.prefill.add("r", asked, 1, protocol.prefill_request_kv_transfer_params())
    servers.until(lambda: "r" in servers.prefill.ends)
    answer = SimpleNamespace(kv_transfer_params=servers.prefill.params["r"])
    servers.decode.add("r", asked, NEW, protocol.decode_request_kv_transfer_params(answer))
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == len(asked)
    servers.until_idle()
    check(servers, "r", asked)


def test_a_dynamo_without_that_table_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{DYNAMO}.kv_connector_protocols"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    plugin()
    (line,) = caplog.messages
    assert line.startswith("Dynamo has no table of connectors any more (module ")
