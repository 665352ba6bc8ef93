"""Servers of SGLang whose pages have different numbers of tokens: parts of pages go over."""

from math import gcd
from typing import Any, Final

import numpy as np
import pytest

from pdproto.items.components import Heads
from pdproto.sglang.parts import RankParts
from pdproto.sglang.pools import Model, kv_component
from tests.sglang.arguments import arguments
from tests.skips import SGLANG

SIZES: Final = [(16, 64), (64, 16), (32, 48), (48, 32)]


@pytest.mark.parametrize(("there", "here"), SIZES)
@pytest.mark.parametrize("pages", [0, 1, 3])
@pytest.mark.parametrize("behind", [1, 15, 16, 17, 100])
def test_both_ends_name_the_parts_of_the_same_tokens(
    there: int, here: int, pages: int, behind: int
) -> None:
    """pages: that decode has cached. behind: tokens of the prompt behind them."""
    part, prefix = gcd(there, here), pages * here
    prefill, decode = (RankParts(size, part) for size in (there, here))
    tokens, first = prefix + behind, prefill.begin(prefix)
    assert first <= prefix
    assert first % there == 0
    sent = prefill.numbers(np.arange(first // there, -(-tokens // there)), tokens - first, prefix)
    wanted = decode.numbers(np.arange(pages, -(-tokens // here)), behind)
    assert sent.tolist() == wanted.tolist() == [*range(prefix // part, -(-tokens // part))]


def test_chunks_end_with_pages_of_prefill() -> None:
    parts = RankParts(64, 16)
    assert parts.begin(80) == 64
    assert parts.numbers([5, 2], 128, 80).tolist() == [21, 22, 23, 8, 9, 10, 11]
    assert parts.numbers([7], 20).tolist() == [28, 29]
    assert parts.numbers([7]).tolist() == [28, 29, 30, 31]


def test_whole_pages_are_their_own_parts_whatever_the_tokens() -> None:
    """SGLang may count other tokens than those of its pages, as with compressed KV in host memory.
    """
    for parts in (RankParts(16, 0), RankParts(16, 16, ["swa"])):
        assert (parts.tokens, parts.each) == (16, 1)
        assert parts.numbers([3, 1, 4], 5).tolist() == [3, 1, 4]
        assert parts.begin(48) == 48


def test_pages_without_such_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="page_tokens=16: pages of 24 tokens have no parts of 16"):
        RankParts(24, 16)
    with pytest.raises(ValueError, match="page_tokens=16: states of type dsa, swa have pages of 64 "
                                         r"tokens, too, .* --page-size"):
        RankParts(64, 16, ["swa", "mamba", "dsa"])


@pytest.mark.parametrize(("field", "value"), [
    ("kv_layout", "uniform_fp8"), ("mla_compression_ratios", [4]), ("kv_item_lens", [66])])
def test_pages_that_are_not_tokens_in_a_row_are_refused(field: str, value: object) -> None:
    """Compressed ones, as DeepSeek V4 has them, and those with a tail."""
    args = arguments([np.zeros((6, 64), np.uint8)], [], page_size=16)
    setattr(args, field, value)
    with pytest.raises(ValueError, match="page_tokens: the pages of this model do not hold tokens "
                                         r"one behind another, .* --page-size"):
        kv_component(args, Model(None, None), parts=4)


def test_an_item_is_a_part() -> None:
    kv: list[Any] = [np.zeros((6, 64, 2, 4), np.uint8) for _ in range(2)]
    args = arguments(kv, [], page_size=64)
    component = kv_component(args, Model(heads=2, stage=(0, 1)), parts=4)
    assert [one.shape for one in component.buffers] == [(24, 128)] * 2
    assert component.heads == Heads(2, 16)
    component.buffers[0][13] = 1
    assert kv[0][3, 16:32].all()
    assert kv[0].sum() == 128


CASES: dict[str, dict[str, Any]] = {
    "larger at decode": {"page_tokens": (16, 64), "pages": 9, "prefix": 2, "chunks": 3},
    "larger at prefill": {"page_tokens": (64, 16), "pages": 9, "prefix": 7, "chunks": 2},
    "neither divides the other": {"page_tokens": (48, 32), "pages": 9, "prefix": 4, "chunks": 2},
    "in place": {"page_tokens": (64, 32), "pages": 6, "prefix": 2, "page_bytes": 32_768},
    "latent, wider prefill": {"page_tokens": (64, 16), "pages": 9, "prefix": 3, "latent": True,
                              "prefill_tp": 2},
    "wider decode": {"page_tokens": (32, 48), "pages": 9, "prefix": 2, "decode_tp": 2},
    "pipeline, drafts": {"page_tokens": (16, 64), "pages": 9, "pp": 2, "chunks": 2,
                         "drafts": ("prefill", "decode")},
    "states": {"page_tokens": (64, 16), "pages": 9, "prefix": 2, "states": ("mamba",)},
    "shared memory": {"page_tokens": (16, 64), "pages": 9, "prefix": 1, "engine": "shm"},
}


@pytest.mark.parametrize("case", CASES)
def test_every_byte_is_right_between_pages_of_two_sizes(case: str) -> None:
    pytest.importorskip("sglang", reason=SGLANG)
    from tests.sglang.test_drill import REQUESTS, drill  # noqa: PLC0415 - only with SGLang

    assert drill(**CASES[case])["succeeded"] == REQUESTS


@pytest.mark.parametrize("case", ["larger at decode", "neither divides the other"])
def test_pages_of_two_sizes_go_from_device_to_device(case: str) -> None:
    pytest.importorskip("sglang", reason=SGLANG)
    from tests.sglang.test_devices import drill  # noqa: PLC0415 - only with SGLang

    assert drill(**CASES[case], requests=16)["succeeded"] == 16
