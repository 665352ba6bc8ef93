"""Settings of SGLang that work, each under the code of SGLang or of ours that reads it."""

import http.client
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import torch
from sglang.srt.arg_groups import validation_hook
from sglang.srt.disaggregation.base.conn import BaseKVManager
from sglang.srt.disaggregation.common.conn import CommonKVReceiver
from sglang.srt.disaggregation.utils import MetadataBuffers
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import prepare_server_args

from examples.servers.serving import free_port
from examples.sglang_handoff.load import Load
from examples.sglang_handoff.pools import write_config
from examples.sglang_handoff.request import request_of
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import Registration
from pdproto.sglang import settings
from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.pools import MetadataRows
from pdproto.sglang.server import PdprotoKVBootstrapServer
from pdproto.transport.keys import new_secret
from tests.sglang.releases import of_newest
from tests.waiting import until

ROWS, MASK_TOKENS, ROOM = 4, 32, 7


def rows(
    masked: pytest.MonkeyPatch | None, *, summed: bool = False
) -> tuple[MetadataBuffers, MetadataRows]:
    """SGLang's buffers of metadata with a sampling mask or checksums, and ours over them."""
    if masked is not None:
        masked.setenv(settings.SAMPLING_MASK, "1")
    buffers = MetadataBuffers(ROWS, 16, torch.float16, MASK_TOKENS, kv_checksum_enabled=summed)
    pointers, lengths, widths = buffers.get_buf_infos()
    described: Any = SimpleNamespace(
        aux_data_ptrs=pointers, aux_data_lens=lengths, aux_item_lens=widths)
    return buffers, MetadataRows(described)


def test_the_sampling_mask_goes_over_with_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    prefill, source = rows(monkeypatch)
    decode, sink = rows(monkeypatch)
    prefill.output_token_sampling_mask_len[1, 0] = 3
    prefill.output_token_sampling_mask_idx[1, :3] = torch.tensor([7, 8, 9], dtype=torch.int32)
    prefill.output_token_sampling_logprobs[1, :3] = torch.tensor([-1.0, -2.0, -3.0])
    sink.write(2, source.read(1))
    assert decode.output_token_sampling_mask_len[2, 0] == 3
    assert decode.output_token_sampling_mask_idx[2, :4].tolist() == [7, 8, 9, 0]
    assert decode.output_token_sampling_logprobs[2, :3].tolist() == [-1.0, -2.0, -3.0]


def test_a_sampling_mask_on_one_side_only_is_refused_with_the_length_of_both_rows(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sink = rows(None)
    _, source = rows(monkeypatch)
    with pytest.raises(ValueError, match=rf"a metadata row of {source.row_bytes} bytes, but rows "
                                         rf"here have {sink.row_bytes}"):
        sink.write(0, source.read(0))


@of_newest
def test_sglangs_checksum_goes_over_with_the_row() -> None:
    """By disaggregation_enable_kv_checksum. Its scheduler writes it before the last `send`, and
    compares it where both took the same layout: the signature, and the manager's own arguments.
    """
    prefill, source = rows(None, summed=True)
    decode, sink = rows(None, summed=True)
    request = request_of(1, [1], "prefill")
    request.metadata_buffer_index = 1
    prefill.set_kv_checksum(request, 2**32 - 5, 2**63 - 1)
    sink.write(2, source.read(1))
    assert decode.get_kv_checksum(2) == (2**32 - 5, 2**63 - 1)
    assert PdprotoKVManager.should_verify_kv_checksum is BaseKVManager.should_verify_kv_checksum
    assert decode.get_kv_checksum(1) == (0, 0)


def test_a_checksum_on_one_side_only_is_refused_with_the_length_of_both_rows() -> None:
    _, sink = rows(None)
    _, source = rows(None, summed=True)
    with pytest.raises(ValueError, match="both servers need the same aux buffers"):
        sink.write(0, source.read(0))


def test_sglang_refuses_its_old_limit_of_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.MASK_MAX, "8")
    with pytest.raises(ValueError, match=f"{settings.MASK_MAX} is no longer supported"):
        validation_hook.validate_sampling_mask_max_tokens(SimpleNamespace())


@pytest.mark.parametrize(("flag", "why"), [
    ("--encoder-only", "Cannot set --encoder-only and --disaggregation-mode prefill/decode toge"),
    ("--language-model-only", "--language-model-only is incompatible with --disaggregation-mode"),
    ("--enable-pdmux", "PD-Multiplexing is not compatible with disaggregation mode"),
])
def test_sglang_refuses_a_flag_beside_disaggregation(flag: str, why: str, tmp_path: Path) -> None:
    """encoder_only, language_model_only, enable_pdmux: as its launcher reads a command line."""
    write_config(Load(), tmp_path)
    ours, theirs = (context := get_context("fork")).Pipe()
    process = context.Process(target=refused, args=([
        "--model-path", str(tmp_path), "--device", "cpu", "--disaggregation-mode", "prefill",
        "--disaggregation-transfer-backend", "pdproto", "--chunked-prefill-size", "-1",
        "--skip-tokenizer-init", flag], theirs))
    process.start()
    theirs.close()
    told = ours.recv()
    process.join(60.0)
    assert why in told


def refused(argv: list[str], pipe: "Connection[Any, Any]") -> None:
    """Say why SGLang refuses a command line."""
    try:
        load_plugins()
        read = prepare_server_args(argv)
        read.resolve_once()
        read.check_server_args()
    except (AssertionError, ValueError) as error:
        pipe.send(str(error))
    else:
        pipe.send("it does not")


def test_the_registry_keeps_a_room_for_twice_the_cleanup_interval(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that ends no room, as SGLang's own does."""
    monkeypatch.setenv(settings.CLEANUP, "1")
    address = f"127.0.0.1:{(port := free_port())}"
    server, client = PdprotoKVBootstrapServer("127.0.0.1", port), RegistryClient(address)
    try:
        for dp in range(2):
            client.register(Registration(
                attn_tp_size=1, attn_tp_rank=0, attn_dp_size=2, attn_dp_rank=dp,
                rank_ip="127.0.0.1", rank_port=5_000 + dp, page_size=16,
                kv_cache_dtype="bfloat16", load_balance_method="round_robin"))
        began = monotonic()
        client.register_room(ROOM, 1)
        query: Any = CommonKVReceiver.query_prefill_dp_ranks  # or that of another test's manager
        ask = getattr(query, "ask", query)
        assert ask(address, [ROOM]) == {str(ROOM): 1}
        until(lambda: not ask(address, [ROOM]))
        assert monotonic() - began >= 2.0
    finally:
        client.close()
        server.close()


def test_the_operators_port_of_the_registry_opens_and_closes_with_it(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("PDPROTO_SECRET", new_secret())
    monkeypatch.setenv("PDPROTO_REGISTRY_OPERATOR", address)
    server = PdprotoKVBootstrapServer("127.0.0.1", free_port())
    asking = http.client.HTTPConnection(address, timeout=30.0)
    try:
        asking.request("GET", "/metrics")
        assert "pdproto_registry_ranks 0.0" in asking.getresponse().read().decode()
    finally:
        asking.close()
        server.close()
    with pytest.raises(ConnectionRefusedError):
        asking.request("GET", "/metrics")
