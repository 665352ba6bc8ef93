"""Pools that do not lie alike fail the request at both ends; and a damaged metadata row does."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from pdproto.engine.engines import open_sink, open_source
from pdproto.engine.tcp_sink import TcpSink
from pdproto.kernels.layout import Order
from pdproto.pages.direct import DirectPages
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime import batches
from pdproto.runtime.wire import Done, Life, row_digest
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from tests.node.data_paths import ENDED, idle
from tests.waiting import until


def pools(
    count: int = 2, tokens: int = 16, heads: int = 2, dim: int = 8, kind: Any = np.uint16
) -> list[Any]:
    return [np.zeros((8, tokens, heads, dim), kind) for _ in range(count)]


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[tuple[PrefillNode, DecodeNode]]:
    theirs, ours = request.param
    prefill = PrefillNode("p0", SourcePages(theirs, open_source("tcp")))
    decode = DecodeNode("d0", SinkPages({"p0": ours}, open_sink("tcp")))
    yield prefill, decode
    prefill.close()
    decode.close()


MISFITS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "dtype": ({}, {"kind": np.float16}, "of uint16 a page", "of float16 a page"),
    "heads": ({"heads": 2, "dim": 4}, {"heads": 4, "dim": 2}, "2 heads x 8", "4 heads x 4"),
    "page size": ({"tokens": 16}, {"tokens": 32}, "16 tokens", "32 tokens"),
    "layers": ({"count": 2}, {"count": 4}, "has 2 pools", "d0 4 pools"),
    "dim": ({"dim": 8}, {"dim": 16}, "x 16 bytes", "x 32 bytes"),
}


@pytest.mark.parametrize("early", [False, True], ids=["sender first", "receiver first"])
@pytest.mark.parametrize(
    ("nodes", "told"),
    [((pools(**theirs), pools(**ours)), told) for theirs, ours, *told in MISFITS.values()],
    ids=list(MISFITS), indirect=["nodes"])
def test_pools_that_do_not_lie_alike_fail_the_request_at_both_ends(
    nodes: tuple[PrefillNode, DecodeNode], told: list[str], early: bool
) -> None:
    prefill, decode = nodes
    began = time.monotonic()
    if not early:
        sender = prefill.open(7)
    receiver = decode.open(7, {"p0": prefill.endpoint}, pages=[1, 2])
    if early:
        until(lambda: prefill._node.lives)
        sender = prefill.open(7)
    until(lambda: sender.poll() in ENDED and receiver.poll() in ENDED)
    assert time.monotonic() - began < 5  # no wait has ended it
    for end in (sender, receiver):
        assert end.poll() is KVPoll.FAILED
        for part in ("pages do not fit: p0 has ", ", and d0 ", *told):
            assert part in str(end.failure)
        assert ("page sizes differ, convertible" in str(end.failure)) is ("16 tokens" in told)
    receiver.close()
    until(lambda: idle(prefill) and idle(decode))


@pytest.mark.parametrize("nodes", [
    (pools(), pools()),
    (pools(heads=2), [np.zeros((8, 16, 4, 8), np.uint16)[:, :, 2:] for _ in range(2)]),
], ids=["alike", "a share of the heads"], indirect=True)
def test_pools_that_lie_alike_pass(nodes: tuple[PrefillNode, DecodeNode]) -> None:
    prefill, decode = nodes
    sender = prefill.open(7)
    receiver = decode.open(7, {"p0": prefill.endpoint}, pages=[1, 2])
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
    sender.send([3, 4], metadata=b"a row")
    until(lambda: receiver.poll() in ENDED)
    assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
    assert receiver.metadata == {"p0": b"a row"}
    receiver.close()


def ordered(order: Order, heads: int, dim: int, seed: int | None) -> list[Any]:
    """Pools with the axes of a page in this order; zeros without a seed."""
    shape = (8, 16, heads, dim) if order is Order.NHD else (8, heads, 16, dim)
    if seed is None:
        return [np.zeros(shape, np.uint16) for _ in range(2)]
    return list(np.random.default_rng(seed).integers(0, 1 << 16, (2, *shape), np.uint16))


def handed_over(theirs: Order, ours: Order, there: list[Any], here: list[Any], *,
                direct: bool = False) -> str:
    """Why pages 3 and 4 have not come to pages 1 and 2; "" if they have."""
    kind, begin = (DirectPages, DirectDecodeNode) if direct else (SinkPages, DecodeNode)
    with ExitStack() as closing:
        prefill = PrefillNode("p0", SourcePages(there, open_source("tcp"), order=theirs))
        closing.callback(prefill.close)
        decode = begin("d0", kind({"p0": here}, TcpSink(), order=ours))
        closing.callback(decode.close)
        sender = prefill.open(7)
        receiver = decode.open(7, {"p0": prefill.endpoint}, pages=[1, 2])
        until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
        if sender.poll() is KVPoll.WAITING_FOR_INPUT:
            sender.send([3, 4])
        until(lambda: receiver.poll() in ENDED)
        return receiver.failure or ""


@pytest.mark.parametrize("dim", [8, 512], ids=["packed", "as they lie"])
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("direct", [False, True])
def test_pools_of_either_order_are_handed_over(order: Order, dim: int, direct: bool) -> None:
    there, here = ordered(order, 2, dim, 1), ordered(order, 2, dim, None)
    assert not handed_over(order, order, there, here, direct=direct)
    for theirs, ours in zip(there, here, strict=True):
        assert (ours[[1, 2]] == theirs[[3, 4]]).all()


def test_pools_of_two_orders_are_refused_with_both() -> None:
    told = handed_over(Order.NHD, Order.HND, ordered(Order.NHD, 2, 8, 1),
                       ordered(Order.HND, 2, 8, None))
    assert "p0 has 2 pools of 16 tokens x 2 heads x 16 bytes of uint16 a page" in told
    assert "d0 2 pools of 2 heads x 16 tokens x 16 bytes of uint16 a page" in told


def test_the_order_of_pools_with_one_head_does_not_matter() -> None:
    there, here = ordered(Order.NHD, 1, 8, 1), ordered(Order.HND, 1, 8, None)
    assert not handed_over(Order.NHD, Order.HND, there, here)
    assert (here[0][[1, 2], 0] == there[0][[3, 4], :, 0]).all()


@pytest.mark.parametrize("nodes", [(pools(), pools())], ids=[""], indirect=True)
@pytest.mark.parametrize("digest", [
    lambda done: row_digest(done.life, b"another row"),
    lambda done: row_digest(Life(done.life.room, done.life.incarnation, 99), done.metadata),
    lambda _: b"",
], ids=["damaged", "of another life", "none"])
def test_a_metadata_row_that_is_not_the_one_that_was_sent_is_refused(
    nodes: tuple[PrefillNode, DecodeNode], digest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the wire: what prefill says is taken apart there, and put together with another digest."""
    prefill, decode = nodes
    encode = batches._encoder.encode

    def damaged(batch: batches.Batch) -> bytes:
        frames = tuple(
            Done(of.life, of.chunks, of.metadata, digest(of))
            if isinstance(of, Done) else of for of in batch.frames)
        return encode(batches.Batch(batch.version, batch.format, batch.node, batch.call,
                                 batch.incarnation, batch.floor, frames, batch.gone,
                                 batch.unheard_ms))

    class Damaging:
        encode = staticmethod(damaged)

    monkeypatch.setattr(batches, "_encoder", Damaging)
    sender = prefill.open(7)
    receiver = decode.open(7, {"p0": prefill.endpoint}, pages=[1, 2])
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
    sender.send([3, 4], metadata=b"a row")
    until(lambda: receiver.poll() in ENDED)
    assert receiver.poll() is KVPoll.FAILED
    assert receiver.failure == (
        "p0 has sent 5 bytes of metadata with another digest")
    assert receiver.metadata == {}
    receiver.close()
    until(lambda: idle(prefill) and idle(decode))
