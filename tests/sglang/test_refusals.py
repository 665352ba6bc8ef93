"""What the backend does not do is refused when SGLang starts, in one line."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

WHY = "make test-sglang installs SGLang, 2.3 GB, and runs this"
pytest.importorskip("sglang", reason=WHY)

from pdproto.sglang import manager  # noqa: E402 - needs SGLang


def refusal(monkeypatch: pytest.MonkeyPatch, *, prefill: bool, policy: str, **asked: Any) -> str:
    """Of a rank that is asked for this."""
    parallel: dict[str, Any] = {
        "attn_cp_size": 1, "attn_dcp_size": 1, "pp_size": 1, "enable_kv_cache_sharding": False,
        "enable_dsa_cache_layer_split": False, "enable_cp_tp_group_sharing": False,
    } | {name: value for name, value in asked.items() if name not in ("device", "hybrid")}
    disagg = SimpleNamespace(disaggregation_decode_allocation_policy=policy)
    monkeypatch.setattr(manager, "get_disagg", lambda: disagg)
    args = SimpleNamespace(is_hybrid_mla_backend=asked.get("hybrid", False))
    try:
        manager._refuse(args, SimpleNamespace(device=asked.get("device", "cpu")),
                        SimpleNamespace(**parallel), is_prefill=prefill)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("prefill", "asked", "why"), [
    (True, {}, ""),
    (False, {}, ""),
    (True, {"pp_size": 2, "attn_cp_size": 2}, ""),
    (True, {"device": "cuda"}, "KV cache on a GPU"),
    (True, {"enable_kv_cache_sharding": True}, "context-parallel ranks have shares of"),
    (True, {"enable_dsa_cache_layer_split": True}, "context-parallel ranks have shares of"),
    (True, {"attn_cp_size": 2, "hybrid": True}, "context-parallel ranks have shares of"),
    (False, {"attn_cp_size": 2}, r"decode ranks of a context parallelism \(2\)"),
    (False, {"pp_size": 2}, r"decode ranks of a pipeline parallelism \(2\)"),
    (False, {"attn_dcp_size": 2}, r"decode context parallelism \(2\)"),
    (True, {"policy": "prefill_complete"}, "allocation-policy prefill_complete"),
], ids=str)
def test_a_refusal_names_what_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, prefill: bool, asked: dict[str, Any], why: str
) -> None:
    told = refusal(monkeypatch, prefill=prefill, **{"policy": "early"} | asked)
    wanted = rf"the pdproto backend does not transfer .*{why}.* yet" if why else ""
    assert re.fullmatch(wanted, told), told
