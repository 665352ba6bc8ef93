"""What the backend reads of KVArgs that SGLang itself has made: prefill.py and decode.py, by pool.

Nothing here sets a field: examples/sglang_handoff/model.py calls SGLang's `_init_kv_manager` of
each side. A field that SGLang leaves out raises AttributeError where the backend reads it.
"""

from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.base.conn import KVArgs

from examples.servers.serving import free_port
from examples.sglang_handoff.load import HEADS, Load
from pdproto.items.components import DRAFT_LAYER, Heads
from tests.sglang.arguments import arguments
from tests.sglang.kvargs import Described, Told, described, switch_interval

SIDES: Final = ("prefill", "decode")
SPLIT: Final = Heads(HEADS, 16)  # of the model, and tokens of a page
ALL: Final = (0, 1, 2, 3)
DRAFT: Final = (DRAFT_LAYER, DRAFT_LAYER + 1)

# By kind of pool: the load, and the layers and heads of each component at a rank without stages.
POOLS: Final[dict[str, tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], Any]]]]] = {
    "MHA": ({}, {"kv": (ALL * 2, SPLIT)}),
    "MLA": ({"latent": True}, {"kv": (ALL, None)}),
    "window": ({"states": ("swa",)}, {"kv": ((), SPLIT), "swa": ((), SPLIT)}),
    "draft": ({"drafts": SIDES}, {"kv": (ALL * 2 + DRAFT, SPLIT)}),
    "MLA, draft": ({"latent": True, "drafts": SIDES}, {"kv": (ALL + DRAFT, None)}),
    "mamba": ({"states": ("mamba",)}, {"kv": ((0, 2) * 2, SPLIT), "mamba": ((1, 3) * 2, None)}),
    "mamba, draft": ({"states": ("mamba",), "drafts": SIDES},
                     {"kv": ((0, 2) * 2 + (4, 4), SPLIT), "mamba": ((1, 3) * 2, None)}),
    "sparse": ({"latent": True, "states": ("dsa",)}, {"kv": (ALL, None), "dsa": (ALL, None)}),
}
# Read by the manager, beside those of pools.py.
READ: Final = frozenset({"page_size", "pp_rank", "system_dp_rank", "kv_cache_dtype_str",
                         "kv_layout", "is_hybrid_mla_backend"})
NEWER: Final = frozenset({"kv_layout"}) - frozenset(KVArgs.__annotations__)  # than 0.5.22


def rank(pool: str, side: str, **changed: Any) -> Described:
    """The last rank of a server."""
    return described(Load(**{**POOLS[pool][0], **changed}), side)[-1]


def by_name(found: Described) -> dict[str, Told]:
    return {told.name: told for told in found.components}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("pool", POOLS)
def test_layers_and_heads_are_those_of_the_pool(pool: str, side: str) -> None:
    found = by_name(rank(pool, side))
    assert {name: (told.layers, told.heads) for name, told in found.items()} == POOLS[pool][1]


@pytest.mark.parametrize("pool", POOLS)
def test_both_sides_describe_the_same_pools_alike(pool: str) -> None:
    prefill, decode = (rank(pool, side) for side in SIDES)
    assert prefill.components == decode.components
    assert prefill.row_bytes == decode.row_bytes
    assert prefill.kv_dtype == decode.kv_dtype == "bfloat16"


@pytest.mark.parametrize("side", SIDES)
def test_the_fields_of_other_tests_are_those_that_sglang_sets(side: str) -> None:
    assert rank("window", side).fields >= set(vars(arguments([], []))) - NEWER


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("pool", POOLS)
def test_the_manager_reads_only_fields_that_sglang_sets(pool: str, side: str) -> None:
    assert rank(pool, side).fields >= READ - NEWER


def test_decode_gets_neither_heads_nor_a_stage_from_sglang() -> None:
    """So the backend takes them from the configuration of the model."""
    given = {"kv_head_num", "total_kv_head_num", "prefill_start_layer", "prefill_end_layer"}
    assert given <= rank("MHA", "prefill").fields
    assert not given & rank("MHA", "decode").fields


@pytest.mark.parametrize(("pool", "layers"), [
    ("MHA", (2, 3) * 2), ("MLA", (2, 3)), ("draft", (2, 3) * 2 + DRAFT)])
def test_a_later_stage_of_prefill_names_its_own_layers(pool: str, layers: tuple[int, ...]) -> None:
    assert by_name(rank(pool, "prefill", pp=2, port=free_port()))["kv"].layers == layers


def test_items_are_pages() -> None:
    (kv,) = rank("MHA", "prefill").components
    load = Load()
    padded = load.pool_pages("prefill") + 1
    assert set(kv.shapes) == {(padded, load.page_bytes)}


def test_threads_of_sglang_switch_as_often_as_the_setting_says() -> None:
    assert switch_interval(Load()) == pytest.approx(0.0005)
