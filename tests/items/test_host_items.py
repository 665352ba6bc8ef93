"""Items that land in host memory beside the pools of decode, if the receiver names those."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from pdproto.items.components import Numbering
from pdproto.items.data_path import SinkItems
from tests.items.test_data_path import LAYERS, Pair, components
from tests.items.test_device_items import DevicePair
from tests.items.test_direct import DirectPair

HOST_ITEMS = 5  # of each buffer, fewer than the pools of decode have


class HostPair(Pair):
    """Decode has host memory for some items of each component."""

    to_host = True

    def sink(self) -> SinkItems:
        self.ours = [replace(one, host=tuple(np.zeros((HOST_ITEMS, buffer.shape[1]), np.uint8)
                                             for buffer in one.buffers)) for one in self.ours]
        return super().sink()

    def wanted(self, kv: list[int], states: list[int]) -> list[int]:
        """The first ones in host memory, or those of the pools."""
        if not self.to_host:
            return super().wanted(kv, states)
        numbering = self.data_path.numbering
        return (numbering.numbers(0, range(len(kv)), host=True)
                + numbering.numbers(1, range(len(states)), host=True))

    def check_host(self, kv: list[int], states: list[int]) -> None:
        """That these items are there, in order, and nothing was written into the pools."""
        whole = components(range(LAYERS), 7, self.item_bytes)
        for mine, right, indices in zip(self.ours, whole, (kv, states), strict=True):
            for got, want in zip(mine.host, right.buffers, strict=True):
                assert (got[:len(indices)] == want[indices]).all()
                assert not got[len(indices):].any()
        self.check([], [])


class DirectHostPair(HostPair, DirectPair):
    pass


class DeviceHostPair(HostPair, DevicePair):
    pass


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("stages", [[range(4)], [range(2), range(2, 4)]], ids=["one", "pipeline"])
@pytest.mark.parametrize("kind", [HostPair, DirectHostPair, DeviceHostPair])
def test_a_request_lands_in_host_memory_and_the_next_one_in_the_pools(
    closing: ExitStack, kind: type[HostPair], stages: list[range]
) -> None:
    """Seen red with the layout of the pools for both, and with direct writes for both."""
    pair = kind(closing, stages)
    for room in (1, 3):  # a source is known the second time
        receiver = pair.hand_over(room, [4, 0, 6], [1])
        assert receiver.failure is None
        receiver.close()
        pair.check_host([4, 0, 6], [1])
        for component in pair.ours:
            for buffer in component.host:
                buffer[...] = 0
    pair.to_host = False
    assert pair.hand_over(4, [4, 0, 6], [1]).failure is None
    pair.check([4, 0, 6], [1])
    assert not any(buffer.any() for component in pair.ours for buffer in component.host)


def test_an_item_that_host_memory_has_not_is_refused(closing: ExitStack) -> None:
    numbering = HostPair(closing, [range(4)]).data_path.numbering
    with pytest.raises(ValueError, match="kv: items 5 to 5, but it has 5 in host memory"):
        numbering.numbers(0, [HOST_ITEMS], host=True)
    with pytest.raises(ValueError, match="mamba: items 5 to 5, but it has 5 in host memory"):
        numbering.chunks([[HOST_ITEMS]], host=True)


def test_a_chunk_of_items_in_both_memories_is_refused(closing: ExitStack) -> None:
    numbering = HostPair(closing, [range(4)]).data_path.numbering
    mixed = numbering.numbers(0, [1]) + numbering.numbers(0, [1], host=True)
    for numbers in (mixed, mixed[::-1]):
        with pytest.raises(ValueError, match="a chunk of 2 items that are not all kv"):
            numbering.split(numbers)


def test_components_without_host_memory_have_no_such_item() -> None:
    numbering = Numbering(components(range(LAYERS), None))
    with pytest.raises(ValueError, match="items 0 to 0, but it has 0 in host memory"):
        numbering.numbers(0, [0], host=True)
    assert not numbering.on_host([])
