"""Items of several components whose buffers are on a device (pages/host_device.py)."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import ALONE, Pair

torch = pytest.importorskip("torch")

from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch


def on_device(components: list[Component]) -> list[Component]:
    """The same memory as tensors."""
    return [replace(of, buffers=tuple(torch.from_numpy(buffer) for buffer in of.buffers))
            for of in components]


class DevicePair(Pair):
    """The prefill ranks and the decode rank, each on a device of its own."""

    def source(self, held: list[Component]) -> SourceItems:
        return SourceItems(on_device(held), ALONE, TcpSource(), device=HostDevice(len(held)))

    def sink(self) -> SinkItems:
        return SinkItems(on_device(self.ours), ALONE, TcpSink(), device=HostDevice(3))


@pytest.mark.parametrize("stages", [[range(4)], [range(2), range(2, 4)]], ids=["one", "pipeline"])
def test_items_of_all_components_arrive_from_device_to_device(stages: list[range]) -> None:
    with ExitStack() as closing:
        pair = DevicePair(closing, stages)
        receiver = pair.hand_over(1, [4, 0, 6], [1], prefix=32)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        pair.check([4, 0, 6], [1])
