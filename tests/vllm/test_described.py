"""What two commands of `vllm serve` ask for is compared before either has loaded a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from pdproto.drill.doctor.findings import compare
from pdproto.drill.doctor.host import Host
from pdproto.transport.described import Described
from pdproto.vllm.described import described
from tests.vllm.engine import model_folder


def server(folder: Path, role: str, *more: str, **extra: Any) -> Described:
    transfer = {"kv_connector": "PdprotoConnector", "kv_role": role,
                "kv_connector_extra_config": extra}
    return described([str(model_folder(folder)), "--port", "8000", "--dtype", "float32",
                      "--skip-tokenizer-init", "--kv-transfer-config", json.dumps(transfer), *more])


def misfits(prefill: Described, decode: Described) -> dict[str, str]:
    hosts = [Host.of(one.settings, one) for one in (prefill, decode)]
    return {one.check: one.mend for one in compare(*hosts) if one.mend}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


def test_commands_that_fit_and_commands_that_do_not(folder: Path) -> None:
    prefill = server(folder, "kv_producer", "--block-size", "32")
    assert misfits(prefill, server(folder, "kv_consumer", "--block-size", "32")) == {}
    other = server(folder, "kv_consumer", "--block-size", "64")
    assert "--block-size, or page_tokens" in misfits(prefill, other)["layout, block size"]
    parts = server(folder, "kv_consumer", "--block-size", "64", page_tokens=32)
    assert misfits(prefill, parts) == {}
    engine = server(folder, "kv_consumer", "--block-size", "32", engine="shm")
    assert misfits(prefill, engine).keys() == {"engine"}
    assert misfits(prefill, prefill).keys() == {"command of decode"}


def test_a_command_that_will_not_start_is_told(folder: Path) -> None:
    refused = server(folder, "kv_producer", "--pipeline-parallel-size", "2")
    assert "pipeline_parallel_size is 2" in refused.refused
    assert "command of prefill" in misfits(refused, server(folder, "kv_consumer"))
    with pytest.raises(ValueError, match="names no PdprotoConnector"):
        described([str(folder), "--skip-tokenizer-init"])
