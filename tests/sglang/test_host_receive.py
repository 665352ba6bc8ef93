"""Requests whose pages land in SGLang's host pool: of its own pools, and as its own queue asks."""

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import torch
from sglang.srt.arg_groups.fields.disagg import Disagg
from sglang.srt.disaggregation import decode
from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.disaggregation.utils import ReqToMetadataIdxAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

from examples.sglang_handoff.request import request_of
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems
from pdproto.sglang.parts import RankParts
from pdproto.sglang.pools import Model, kv_component
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode
from tests.items.test_data_path import ALONE, ROW, Pair
from tests.sglang.releases import of_newest
from tests.sglang.test_receiver import Manager, receiver_of
from tests.waiting import until

pytestmark = of_newest  # 0.5.22 has no such setting

PAGE: Final = 8
LAYERS: Final = 4
HEADS: Final = 4
PROMPT: Final = 20  # tokens


def pool() -> Any:
    return MHATokenToKVPool(64, PAGE, torch.bfloat16, HEADS, 512, LAYERS, "cpu",
                            enable_memory_saver=False)


def host_pool(of: Any) -> Any:
    """SGLang's host pool for that one, with memory that CUDA does not know."""
    from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: PLC0415 - not in 0.5.22
    from sglang.srt.mem_cache.pool_host.group import (  # noqa: PLC0415
        HostPoolGroup,
        PoolEntry,
    )
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: PLC0415

    host = MHATokenToKVPoolHost(
        of._mha_buffer_info(), host_to_device_ratio=2.0, host_size=0, page_size=PAGE,
        layout="layer_first", pin_memory=False, device_capacity_tokens=64, start_layer=0,
        end_layer=LAYERS)
    return HostPoolGroup([PoolEntry(PoolName.KV, host, of, lambda layer: layer,
                                    is_primary_index_anchor=True)])


def component_of(kv: Any, group: Any = None) -> Component:
    """As decode.py fills KVArgs."""
    args = KVArgs()
    args.kv_data_ptrs, args.kv_data_lens, args.kv_item_lens = kv.get_contiguous_buf_infos()
    args.kv_layer_ids, args.num_draft_entries, args.page_size = [], 0, PAGE
    args.mla_compression_ratios, args.kv_layout = None, None
    if group is not None:
        (args.host_kv_data_ptrs, args.host_kv_data_lens,
         args.host_kv_item_lens) = group.get_contiguous_buf_infos()[1]
    return kv_component(args, Model(HEADS, (0, LAYERS)))


class PoolPair(Pair):
    """Two nodes with pools of SGLang's. theirs_pool: of prefill, with a prompt in every page."""

    def source(self, _: list[Component]) -> SourceItems:
        self.theirs_pool = pool()
        for layer, buffer in enumerate(self.theirs_pool.k_buffer + self.theirs_pool.v_buffer):
            buffer.copy_(torch.randn(buffer.shape, generator=torch.Generator().manual_seed(layer)))
        return SourceItems([component_of(self.theirs_pool)], ALONE, TcpSource())

    def sink(self) -> SinkItems:
        self.kv = pool()
        self.host = host_pool(self.kv)
        return SinkItems([component_of(self.kv, self.host)], ALONE, TcpSink())


class DirectPoolPair(PoolPair):
    def sink(self) -> SinkItems:
        super().sink().close()
        return DirectItems([component_of(self.kv, self.host)], ALONE, TcpSink())

    def decode(self) -> DecodeNode:
        return DirectDecodeNode("decode", self.data_path)


@pytest.fixture(params=[PoolPair, DirectPoolPair])
def pair(request: pytest.FixtureRequest) -> Iterator[PoolPair]:
    with ExitStack() as closing:
        yield request.param(closing, [range(LAYERS)])


def queue_of(pair: PoolPair) -> Any:
    """SGLang's queue of requests that wait for memory, with as much around it as it reads."""
    from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: PLC0415 - not in 0.5.22

    queue: Any = decode.DecodePreallocQueue.__new__(decode.DecodePreallocQueue)
    queue.host_pool, queue.host_swa_pool = pair.host.get_pool(PoolName.KV), None
    queue.host_reserved_tokens = queue._num_published_destinations = 0
    queue.tree_cache = SimpleNamespace(disable=True, sidecar_pool_specs=())
    queue.req_to_metadata_buffer_idx_allocator = ReqToMetadataIdxAllocator(4)
    queue.token_to_kv_pool_allocator = PagedTokenToKVPoolAllocator(
        pair.kv.size, PAGE, pair.kv.dtype, "cpu", pair.kv, need_sort=False)
    queue.transfer_queue = SimpleNamespace(enable_staging=False)
    queue.scheduler = SimpleNamespace(
        metrics_reporter=SimpleNamespace(current_scheduler_metrics_enabled=False))
    return queue


def waiting(receiver: Any) -> Any:
    return decode.DecodeRequest(request_of(1, range(PROMPT), "decode"), receiver)


def test_a_request_lands_in_the_pages_that_sglang_takes_of_its_host_pool(
    pair: PoolPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red with pages that are looked up in the pool of decode."""
    monkeypatch.setattr(decode, "get_disagg", lambda: Disagg(
        disaggregation_mode="decode", disaggregation_decode_host_receive_threshold=0.5))
    manager = Manager(pair)
    manager.parts, manager.supports_host_destination = RankParts(PAGE, 0), True
    (node, data_path), = pair.sources
    untouched = [buffer.clone() for buffer in pair.kv.k_buffer + pair.kv.v_buffer]
    for room, pages in ((1, [2, 0, 5]), (2, [7, 3, 1])):  # prefill is known the second time
        receiver = receiver_of(manager, room)
        assert receiver.supports_host_destination
        receiver.init(0)
        receiver.poll()
        request = waiting(receiver)
        assert queue_of(pair)._pre_alloc_host(request)
        assert request.host_staged
        sender = node.open(room)
        until(lambda sender=sender: sender.poll() is not KVPoll.BOOTSTRAPPING)  # type: ignore[misc]
        sender.send(data_path.numbering.numbers(0, pages), metadata=ROW)
        until(lambda receiver=receiver: receiver.poll() is KVPoll.SUCCESS)  # type: ignore[misc]
        assert receiver.is_abort_release_safe(), "also while SGLang waits for memory of its pool"
        receiver.clear()
        theirs = pair.theirs_pool.k_buffer + pair.theirs_pool.v_buffer
        here = request.req.kv.retraction_backup.host_indices
        there = torch.cat([torch.arange(page * PAGE, (page + 1) * PAGE) for page in pages])
        for got, want in zip(pair.host.entries[0].host_pool.host_kv_data_refs, theirs, strict=True):
            assert torch.equal(got[here], want[there])
        for got, want in zip(pair.kv.k_buffer + pair.kv.v_buffer, untouched, strict=True):
            assert torch.equal(got, want), "nothing lands in the pool of decode"
