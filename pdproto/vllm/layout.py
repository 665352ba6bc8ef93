"""Descriptions of a server's KV cache, which two servers compare."""

from collections.abc import Mapping, Sequence
from typing import Final

from pdproto.vllm.blocks import LayerGroup

Layout = Mapping[str, str]

NOT_THERE: Final = "not said"
BLOCKS: Final = "blocks"
IN_PARTS: Final = ", or set page_tokens to a number of tokens that divides both"


def groups_told(groups: Sequence[LayerGroup]) -> str:
    """The descriptions of all groups, in order."""
    return "; ".join(map(str, groups))


def misfit(there: Layout, here: Layout) -> str | None:
    """The differences of two layouts, with both values; None if there are none."""
    told = [f"{name} is {there.get(name, NOT_THERE)} at prefill and {here.get(name, NOT_THERE)} "
            f"at decode" for name in sorted(there.keys() | here.keys())
            if there.get(name) != here.get(name)]
    if not told:
        return None
    is_size = len(told) == 1 and there.get(BLOCKS) != here.get(BLOCKS)
    return f"{'; '.join(told)}: want the same at both ends{IN_PARTS if is_size else ''}"
