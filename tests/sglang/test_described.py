"""What two commands of SGLang ask for is compared before either has loaded a model."""

from pathlib import Path

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.sglang_servers.tiny_models import make
from pdproto.drill.doctor.findings import compare
from pdproto.drill.doctor.host import Host
from pdproto.sglang.described import described
from pdproto.transport.described import Described


def server(folder: Path, mode: str, *more: str, backend: str = "pdproto") -> Described:
    return described(["--model-path", str(folder), "--device", "cpu", "--dtype", "float32",
                      "--disaggregation-mode", mode, "--disaggregation-transfer-backend", backend,
                      *more])


def misfits(prefill: Described, decode: Described) -> dict[str, str]:
    hosts = [Host.of(one.settings, one) for one in (prefill, decode)]
    return {one.check: one.mend for one in compare(*hosts) if one.mend}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("model"))


def test_commands_that_fit_and_commands_that_do_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill = server(folder, "prefill", "--page-size", "16")
    assert misfits(prefill, server(folder, "decode", "--page-size", "16")) == {}
    other = server(folder, "decode", "--page-size", "32")
    assert "--page-size, or PDPROTO_PAGE_TOKENS" in misfits(prefill, other)["layout, page size"]
    narrow = server(make("llama-narrow", folder.with_name("narrow")), "decode", "--page-size", "16")
    assert misfits(prefill, narrow).keys() == {"layout, KV heads"}
    assert misfits(prefill, prefill).keys() == {"command of decode"}
    monkeypatch.setenv("PDPROTO_PAGE_TOKENS", "16")
    assert misfits(prefill, server(folder, "decode", "--page-size", "32")) == {}


def test_a_command_that_will_not_start_is_told(folder: Path) -> None:
    refused = server(folder, "decode", "--disaggregation-decode-allocation-policy",
                     "prefill_complete")
    assert "disaggregation-decode-allocation-policy" in refused.refused
    assert "null: want prefill or decode" in server(folder, "null").refused
    with pytest.raises(ValueError, match="want pdproto"):
        server(folder, "decode", backend="mooncake")
