"""Hand-overs between pools whose pages have different numbers of tokens."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.engine.contract import EngineError
from pdproto.engine.engines import open_sink, open_source
from pdproto.kernels.chunk import Order, plan_for
from pdproto.node.data_path import Verified, WriteOutcome
from pdproto.pages.direct import DirectPages
from pdproto.pages.page_target import places_in
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import ENDED
from tests.tiers import examples
from tests.waiting import until

HEADS: Final = 2
ROW_BYTES: Final = 6
LIFE: Final = Life(7, 1, 1)
SOURCE: Final = "p0"
SIZES: Final = (1, 2, 3, 4, 6, 16, 64)


@dataclass(frozen=True, slots=True)
class End:
    """Pools at one end. tokens: of a page. pages: of the request, in order. paired: K and V of a
    page lie side by side.
    """

    tokens: int
    pages: tuple[int, ...]
    order: Order = Order.NHD
    paired: bool = False

    def pools(self, seed: int, row_bytes: int = ROW_BYTES) -> list[NDArray[np.uint8]]:
        """Two pools of random bytes, with a page more than the request has."""
        axes = ((self.tokens, HEADS) if self.order is Order.NHD else (HEADS, self.tokens))
        whole = np.random.default_rng(seed).integers(
            0, 256, (len(self.pages) + 1, 2, *axes, row_bytes), np.uint8)
        return [whole[:, half] if self.paired else whole[:, half].copy() for half in range(2)]

    def by_token(self, pool: NDArray[np.uint8], pages: tuple[int, ...]) -> NDArray[np.uint8]:
        """The bytes of these pages, [token, head, byte]."""
        of = pool[list(pages)]
        of = of if self.order is Order.NHD else of.swapaxes(1, 2)
        return of.reshape(-1, HEADS, of.shape[-1])

    @property
    def spare(self) -> tuple[int, ...]:
        """The page that the request does not have."""
        return tuple(set(range(len(self.pages) + 1)) - set(self.pages))


@dataclass(frozen=True, slots=True)
class Request:
    """tokens: of the request. cuts: where its chunks begin and end."""

    part: int
    tokens: int
    cuts: tuple[int, ...]
    there: End
    here: End

    @property
    def chunks(self) -> list[range]:
        """The tokens of each chunk."""
        return [range(*pair) for pair in pairwise(self.cuts)]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Two page sizes, and chunks that begin anywhere between two parts."""
    sizes = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    part = gcd(*sizes)
    tokens = draw(st.integers(1, 3 * max(sizes)))
    cuts = draw(st.sets(st.integers(1, max(1, (tokens - 1) // part)), max_size=3))
    inner = sorted(part * cut for cut in cuts if part * cut < tokens)
    order = draw(st.sampled_from(Order))
    ends = [End(size, tuple(draw(st.permutations(range(-(-tokens // size) + 1)))[:-1]), order,
                draw(st.booleans())) for size in sizes]
    return Request(part, tokens, (0, *inner, tokens), *ends)


class Pair:
    """The data paths of two ends, without nodes."""

    def __init__(self, closing: ExitStack, request: Request, engine: str = "tcp",
                 row_bytes: int = ROW_BYTES, **given: Any) -> None:
        self.request: Final = request
        self.theirs: Final = request.there.pools(1, row_bytes)
        self.ours: Final = request.here.pools(2, row_bytes)
        self.before: Final = [pool.copy() for pool in self.ours]
        self.source: Final = SourcePages(
            self.theirs, open_source(engine), order=request.there.order,
            page_tokens=request.part, **given)
        closing.callback(self.source.close)
        self.sink: Final = SinkPages(self.ours, open_sink(engine), order=request.here.order,
                                     page_tokens=request.part, **given)
        closing.callback(self.sink.close)

    def hand_over(self, damage: Callable[["Pair"], None] = lambda _: None) -> bool:
        """Hand over in chunks. Returns whether the digests agree."""
        request = self.request
        into = self.sink.parts(request.here.pages, range(request.tokens))
        addresses = self.sink.lease(LIFE, {SOURCE: into})
        assert addresses is not None
        offset, counts = 0, []
        for number, tokens in enumerate(request.chunks):
            parts = self.source.parts(request.there.pages, tokens)
            counts.append(len(parts))
            _, offset = self.source.post(
                number, LIFE, addresses[SOURCE], offset, parts, lambda: True)
        landed: list[WriteOutcome] = []

        def have_landed() -> bool:
            landed.extend(end for _, end, _ in self.source.outcomes())
            return len(landed) == len(counts)

        until(have_landed)
        assert set(landed) == {WriteOutcome.LANDED}
        damage(self)
        self.sink.verify(LIFE, SOURCE, counts, into)
        found: list[Verified] = []

        def is_compared() -> bool:
            found.extend(one for one in self.sink.reports() if isinstance(one, Verified))
            return bool(found)

        until(is_compared)
        return found[0].clean

    def check(self) -> None:
        """The tokens have come, each to its place, and nothing else was written."""
        request, here, there = self.request, self.request.here, self.request.there
        filled = -(-request.tokens // request.part) * request.part  # whole parts are copied
        for theirs, ours, before in zip(self.theirs, self.ours, self.before, strict=True):
            came, sent = here.by_token(ours, here.pages), there.by_token(theirs, there.pages)
            assert np.array_equal(came[:filled], sent[:filled])
            assert np.array_equal(came[filled:], here.by_token(before, here.pages)[filled:])
            assert np.array_equal(ours[list(here.spare)], before[list(here.spare)])


@pytest.mark.parametrize("engine", ["tcp", "shm"])
@given(request=requests())
@settings(max_examples=examples(8, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tokens_come_to_pages_of_another_size(request: Request, engine: str) -> None:
    with ExitStack() as closing:
        pair = Pair(closing, request, engine)
        assert pair.hand_over()
        pair.check()


@pytest.mark.parametrize("order", Order)
def test_large_parts_are_written_from_the_pool(order: Order) -> None:
    """Without packing, where the engine gathers, and parts are contiguous."""
    request = Request(2, 5, (0, 2, 5), End(4, (1, 2), order), End(2, (3, 0, 1), order))
    with ExitStack() as closing:
        pair = Pair(closing, request, "shm", row_bytes=1 << 14)
        assert (places_in(pair.source.layout) is not None) is (order is Order.NHD)
        assert pair.hand_over()
        pair.check()


@pytest.mark.slow
def test_tokens_come_from_device_to_device() -> None:
    pytest.importorskip("torch")
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
    from pdproto.pages.host_device import HostDevice  # noqa: PLC0415 - needs torch

    request = Request(1, 5, (0, 3, 5), End(1, (4, 0, 2, 1, 3)), End(4, (2, 0)))
    with ExitStack() as closing:
        pair = Pair(closing, request, "cuda-ipc", device=HostDevice(3, "interpreter"))
        assert pair.hand_over()
        pair.check()


def swap(change: Callable[[NDArray[Any], int], None]) -> Callable[[Pair], None]:
    """Damage the one chunk of a pair, [entry, part, byte], and its digests, [entry, part]."""
    def damage(pair: Pair) -> None:
        (held,) = pair.sink.engine.leases._held.values()  # type: ignore[attr-defined]
        chunk = np.frombuffer(held.view, np.uint8)
        count = len(pair.sink.parts(pair.request.here.pages, range(pair.request.tokens)))
        plan = plan_for(pair.sink.layouts[0], count).only
        change(chunk[:plan.payload_bytes].reshape(2, count, -1), count)
        digests = chunk[plan.digest_offset:plan.digest_offset + 16 * count]
        change(digests.view(np.uint64).reshape(2, count, 1), count)
    return damage


def swap_parts(of: NDArray[Any], _: int) -> None:
    of[:, [0, 1]] = of[:, [1, 0]]


def swap_pools(of: NDArray[Any], _: int) -> None:
    of[[0, 1]] = of[[1, 0]]


@pytest.mark.parametrize("change", [swap_parts, swap_pools])
def test_parts_that_changed_places_with_their_digests_are_found(
    change: Callable[[NDArray[Any], int], None]
) -> None:
    request = Request(2, 7, (0, 7), End(4, (1, 0)), End(2, (3, 0, 1, 2)))
    with ExitStack() as closing:
        assert not Pair(closing, request).hand_over(swap(change))


@pytest.mark.parametrize(("size", "tokens", "told"), [
    (4, range(2, 6), "tokens 2 to 6: want them to begin at a multiple of 4, within 2 pages of 8"),
    (4, range(17), "tokens 0 to 17: want them to begin at a multiple of 4, within 2 pages of 8"),
    (4, range(8, 4), "tokens 8 to 4"),
    (4, range(0, 8, 2), "tokens 0 to 8"),
    (None, range(8), "page_tokens: not set, so whole pages are handed over"),
])
def test_tokens_that_are_not_of_parts_are_refused(
    size: int | None, tokens: range, told: str
) -> None:
    with ExitStack() as closing:
        source = SourcePages(End(8, (0, 1)).pools(1), open_source("tcp"), page_tokens=size)
        closing.callback(source.close)
        with pytest.raises(ValueError, match=told):
            source.parts([0, 1], tokens)


def test_pages_without_such_parts_are_refused() -> None:
    with ExitStack() as closing:
        engine = open_source("tcp")
        closing.callback(engine.close)
        with pytest.raises(ValueError, match="a page of 8 tokens has no parts of 3"):
            SourcePages(End(8, (0,)).pools(1), engine, page_tokens=3)


def test_direct_writes_refuse_another_page_size_by_name() -> None:
    with ExitStack() as closing:
        engine = open_sink("tcp")
        closing.callback(engine.close)
        with pytest.raises(EngineError, match=(
                r"TcpSink writes straight into pages, and converts no page sizes "
                r"\(page_tokens=4\): use staging memory \(SinkPages\)")):
            DirectPages(End(8, (0,)).pools(1), engine, page_tokens=4)


def between_nodes(there: End, here: End, page_tokens: int | None) -> tuple[str, Any, Any]:
    """Hand 70 tokens over. Returns the failure, if it has failed, and the pools of both ends."""
    theirs, ours = there.pools(1), here.pools(2)
    with ExitStack() as closing:
        source = SourcePages(theirs, open_source("tcp"), page_tokens=page_tokens)
        prefill = PrefillNode("p0", source)
        closing.callback(prefill.close)
        sink = SinkPages({"p0": ours}, open_sink("tcp"), page_tokens=page_tokens)
        decode = DecodeNode("d0", sink)
        closing.callback(decode.close)
        sender = prefill.open(7)
        into = [1, 0] if page_tokens is None else sink.parts(here.pages, range(70), "p0")
        receiver = decode.open(7, {"p0": prefill.endpoint}, pages=into)
        until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
        if sender.poll() is KVPoll.WAITING_FOR_INPUT:
            sender.send(source.parts(there.pages, range(32)), last=False)
            sender.send(source.parts(there.pages, range(32, 70)))
        until(lambda: receiver.poll() in ENDED)
        return receiver.failure or "", theirs, ours


def test_nodes_hand_over_from_pages_of_16_tokens_to_pages_of_64() -> None:
    """The refusal says how, and then it works."""
    there, here = End(16, (5, 2, 4, 0, 1)), End(64, (1, 0))
    failure, _, _ = between_nodes(there, here, None)
    assert failure.endswith("page sizes differ, convertible: open the data paths of both with "
                            "page_tokens=16")
    failure, theirs, ours = between_nodes(there, here, 16)
    assert not failure
    for pool, came in zip(theirs, ours, strict=True):
        assert np.array_equal(here.by_token(came, here.pages)[:80],
                              there.by_token(pool, there.pages))
