"""A server of SGLang and one of vLLM: how pages lie is compared, and both ends say what differs."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems
from pdproto.items.shares import TpRank
from pdproto.sglang.pools import Model, kv_component
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from pdproto.vllm.pools import components
from tests.sglang.arguments import arguments
from tests.vllm.pair import ALONE
from tests.waiting import until

PAGES, LAYERS, HEADS, SIZE = 16, 2, 2, 4
BLOCK = 32


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def of_vllm(closing: ExitStack) -> list[Component]:
    layers = {f"layers.{number}.attn": torch.zeros(PAGES, HEADS, BLOCK, 2 * SIZE)
              for number in range(LAYERS)}
    closing.callback(layers.clear)  # the memory lives as long
    return components(layers, [list(layers)], HEADS)


def of_sglang(closing: ExitStack, page: int) -> list[Component]:
    """As SGLang describes its pool of K and V, with pages of so many tokens. SGLang itself is not
    installed beside vLLM: tests/sglang/test_kvargs.py holds these fields to SGLang's.
    """
    buffers: list[Any] = [
        np.zeros((PAGES, page, HEADS, SIZE), np.float32) for _ in range(2 * LAYERS)]
    closing.callback(buffers.clear)
    return [kv_component(arguments(buffers, [], page_size=page), Model(HEADS, (0, LAYERS)))]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("page", [1, BLOCK])
@pytest.mark.parametrize("first", ["SGLang", "vLLM"])
def test_a_server_of_another_engine_is_refused_with_both_layouts(
    closing: ExitStack, first: str, page: int, direct: bool
) -> None:
    """When decode introduces itself, by the heads and rows of a page and the buffers of a layer."""
    ends = {"SGLang": of_sglang(closing, page), "vLLM": of_vllm(closing)}
    theirs = ends.pop(first)
    (ours,) = ends.values()
    prefill = PrefillNode("prefill", SourceItems(theirs, ALONE, TcpSource()))
    closing.callback(prefill.close)
    kind, begin = (DirectItems, DirectDecodeNode) if direct else (SinkItems, DecodeNode)
    decode = begin("decode", kind(ours, TpRank(1, 0), TcpSink()))
    closing.callback(decode.close)
    sender = prefill.open(7)
    receiver = decode.open(7, {"prefill": prefill.endpoint})
    until(lambda: receiver.poll() is sender.poll() is KVPoll.FAILED)
    rows = {"SGLang": f"2 heads, {page} row{'s' * (page > 1)} a page, 2 buffers a layer",
            "vLLM": "2 heads, 1 row a page, 1 buffer a layer"}
    theirs_told, (ours_told,) = rows.pop(first), rows.values()
    for failure in (sender.failure, receiver.failure):
        assert (f"pages do not fit: prefill has kv: {theirs_told}, and decode kv: {ours_told}"
                in str(failure))
