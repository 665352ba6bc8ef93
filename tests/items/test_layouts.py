"""Two ranks compare how their items lie when one introduces itself: nothing is published before."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.components import DRAFT_LAYER, Component, Heads
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems
from pdproto.items.shares import TpRank, layout_told
from pdproto.node.prefill.sinks import misfit
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from tests.waiting import until

ALONE = TpRank(1, 0)


def kv(heads: int = 2, tokens: int = 16, each: int = 1) -> Component:
    layers = tuple(layer for layer in range(4) for _ in range(each))
    return Component("kv", tuple(np.zeros((8, 640), np.uint8) for _ in layers), layers,
                     Heads(heads, tokens))


STATE = Component("mamba", (np.zeros((3, 96), np.uint8),), (0,))
EMPTY = replace(kv(), buffers=(), layers=())  # a pipeline stage without such layers
NAMELESS = replace(kv(each=2), layers=())
DRAFTED = replace(kv(each=2), layers=(0, 0, 1, 1, 2, 2, 3, DRAFT_LAYER))


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("theirs", "ours", "there", "here"), [
    ([kv(heads=4)], [kv()], "kv: 4 heads, 16 rows", "kv: 2 heads, 16 rows"),
    ([kv(tokens=1)], [kv()], "kv: 2 heads, 1 row a page", "kv: 2 heads, 16 rows a page"),
    ([kv(each=2)], [kv()], "2 buffers a layer", "1 buffer a layer"),
    ([replace(kv(), heads=None)], [kv()], "kv: no heads", "kv: 2 heads"),
    ([kv(), STATE], [kv()], "1 buffer a layer; mamba: no heads, 1 buffer", "1 buffer a layer"),
])  # fmt: skip
def test_ranks_that_differ_fail_both_ends_before_anything_is_published(
    closing: ExitStack, theirs: list[Component], ours: list[Component], there: str, here: str,
    direct: bool,
) -> None:
    prefill = PrefillNode("p0", SourceItems(theirs, ALONE, TcpSource()))
    closing.callback(prefill.close)
    kind, begin = (DirectItems, DirectDecodeNode) if direct else (SinkItems, DecodeNode)
    decode = begin("d0", kind(ours, ALONE, TcpSink()))
    closing.callback(decode.close)
    sender, receiver = prefill.open(7), decode.open(7, {"p0": prefill.endpoint})
    until(lambda: receiver.poll() is sender.poll() is KVPoll.FAILED)
    for failure in (sender.failure, receiver.failure):
        first, _, second = str(failure).partition(", and d0 ")
        assert "pages do not fit: p0 has " in first
        assert there in first
        assert here in second


@pytest.mark.parametrize("theirs", [kv(), EMPTY, NAMELESS, DRAFTED])
def test_a_number_of_buffers_that_one_end_does_not_know_is_not_compared(
    closing: ExitStack, theirs: Component
) -> None:
    source = SourceItems([kv()], ALONE, TcpSource())
    closing.callback(source.close)
    assert misfit(source.layout_for("d0"), "p0", "d0", layout_told([theirs])) == ""
