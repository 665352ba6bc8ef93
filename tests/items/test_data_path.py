"""Items of several components between nodes, under real engines; without SGLang."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations

import msgspec
import numpy as np
import pytest

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.components import Component
from pdproto.items.data_path import Coverage, Placement, SinkItems, SourceItems, placement_in
from pdproto.items.shares import TpRank, everything
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.waiting import until

ITEMS, STATES, LAYERS = 8, 3, 4
ALONE = TpRank(1, 0)
ROW = b"row"


def components(
    layers: range, seed: int | None, item_bytes: tuple[int, int] = (640, 96)
) -> list[Component]:
    """KV, and a state of other items, of these layers; zeros without a seed."""
    def buffers(shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
        if seed is None:
            return tuple(np.zeros(shape, np.uint8) for _ in layers)
        return tuple(np.random.default_rng([seed, layer]).integers(0, 256, shape, np.uint8)
                     for layer in layers)
    kv, state = item_bytes
    return [Component("kv", buffers((ITEMS, kv)), tuple(layers)),
            Component("mamba", buffers((STATES, state)), tuple(layers))]


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Pair:
    """A decode rank, and a prefill rank for each stage of a pipeline."""

    item_bytes = 640, 96  # of the KV cache, and of the state

    def __init__(self, closing: ExitStack, stages: list[range]) -> None:
        self.theirs = [components(layers, 7, self.item_bytes) for layers in stages]
        self.ours = components(range(LAYERS), None, self.item_bytes)
        self.sources = []
        for number, held in enumerate(self.theirs):
            data_path = self.source(held)
            node = PrefillNode(f"stage{number}", data_path)
            closing.callback(node.close)
            self.sources.append((node, data_path))
        self.data_path = self.sink()
        self.node = self.decode()
        closing.callback(self.node.close)

    def source(self, held: list[Component]) -> SourceItems:
        return SourceItems(held, ALONE, TcpSource())

    def sink(self) -> SinkItems:
        return SinkItems(self.ours, ALONE, TcpSink())

    def decode(self) -> DecodeNode:
        return DecodeNode("decode", self.data_path)

    def hand_over(self, room: int, kv: list[int], states: list[int], prefix: int = 0) -> Receiver:
        """From the items of these numbers to those of the numbers behind them."""
        senders, receiver = self.begin(room, kv, states, prefix)
        for sender, (_, data_path) in zip(senders, self.sources, strict=True):
            sender.send(data_path.numbering.numbers(0, kv), last=False)
            sender.send(data_path.numbering.numbers(1, states), metadata=ROW)
        until(lambda: receiver.poll() in (KVPoll.SUCCESS, KVPoll.FAILED))
        if receiver.poll() is KVPoll.SUCCESS:
            landed = sum(sender.metrics.bytes for sender in senders)
            assert receiver.metrics.bytes == landed > 0, "both ends count what went over"
        return receiver

    def begin(
        self, room: int, kv: list[int], states: list[int], prefix: int = 0
    ) -> tuple[list[Sender], Receiver]:
        """As far as every source has been told where to write."""
        senders = [node.open(room) for node, _ in self.sources]
        receiver = self.node.open(room, {node.name: node.endpoint for node, _ in self.sources})
        if prefix:
            self.data_path.expect(receiver.life, prefix)
        receiver.publish(self.wanted(kv, states))
        for sender in senders:
            until(lambda sender=sender: sender.poll() is not KVPoll.BOOTSTRAPPING)  # type: ignore[misc]
            told = [placement_in(lane.address).prefix for lane in sender.known_lanes()]
            assert told == [prefix]
        return senders, receiver

    def wanted(self, kv: list[int], states: list[int]) -> list[int]:
        """Where items of these numbers shall land."""
        numbering = self.data_path.numbering
        return (numbering.numbers(0, [one + 1 for one in kv])
                + numbering.numbers(1, [one + 1 for one in states]))

    def check(self, kv: list[int], states: list[int]) -> None:
        """That these items have arrived, and that nothing else was written."""
        whole = components(range(LAYERS), 7, self.item_bytes)
        for mine, right, indices in zip(self.ours, whole, (kv, states), strict=True):
            for got, want in zip(mine.buffers, right.buffers, strict=True):
                expected = np.zeros_like(got)
                for index in indices:
                    expected[index + 1] = want[index]
                assert (got == expected).all()


@pytest.mark.parametrize("stages", [[range(4)], [range(2), range(2, 4)]], ids=["one", "pipeline"])
def test_every_stage_fills_its_layers_of_every_component(
    closing: ExitStack, stages: list[range]
) -> None:
    pair = Pair(closing, stages)
    receiver = pair.hand_over(1, [4, 0, 6], [1], prefix=32)
    assert receiver.poll() is KVPoll.SUCCESS
    assert receiver.metadata == dict.fromkeys(receiver.endpoint.peers, ROW)
    pair.check([4, 0, 6], [1])
    receiver.close()
    until(lambda: receiver.released)


def test_items_of_a_hand_over_that_has_ended_serve_the_next_at_once(closing: ExitStack) -> None:
    pair = Pair(closing, [range(LAYERS)])
    for room in range(1, 40):
        receiver = pair.hand_over(room, [0, 1], [0])
        assert receiver.failure is None
        receiver.close()  # and nobody waits for its release


def test_a_full_share_may_come_before_an_empty_one(closing: ExitStack) -> None:
    """A rank that holds a copy of what another sends has no part of its own, and comes when it may.
    """
    ours = components(range(LAYERS), seed=None)
    sink = SinkItems(ours, ALONE, TcpSink())
    closing.callback(sink.close)
    for order in permutations((everything(ours, ALONE), frozenset[tuple[int, int, int]]())):
        coverage = Coverage(len(order))
        for brought in order:
            sink._cover(coverage, brought)
        assert coverage.covered == everything(ours, ALONE)


def test_a_layer_that_no_stage_has_fails_the_hand_over_and_says_which(closing: ExitStack) -> None:
    pair = Pair(closing, [range(2), range(3, 4)])
    receiver = pair.hand_over(1, [0], [])
    assert ("no source sends kv of layer 2: the sources send layer 0 to layer 1, layer 3, and "
            "decode has layer 0 to layer 3: want") in str(receiver.failure)


def test_a_layer_that_decode_has_not_fails_the_hand_over(closing: ExitStack) -> None:
    pair = Pair(closing, [range(1, LAYERS + 1)])
    receiver = pair.hand_over(1, [0], [])
    assert "kv: layer 4 is there, and here are layer 0 to layer 3" in str(receiver.failure)


def test_counts_that_differ_by_component_fail_the_hand_over(closing: ExitStack) -> None:
    pair = Pair(closing, [range(LAYERS)])
    (node, data_path), = pair.sources
    sender, receiver = node.open(1), pair.node.open(1, {node.name: node.endpoint})
    receiver.publish(pair.data_path.numbering.numbers(0, [1, 2]))
    until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
    sender.send(data_path.numbering.numbers(0, [1]), last=False)
    sender.send(data_path.numbering.numbers(1, [1]))
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "the digests of the bytes of stage0 do not agree" in str(receiver.failure)


@pytest.mark.parametrize("data", [
    b"", b"\xff" * 9, b"\x94\xc4\x00\x00\x00\x00", b"\x94\xc4\x00\x01\x00\xff"])
def test_bytes_that_are_no_placement_are_the_peers_fault(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="placement"):
        placement_in(data)


def test_a_place_that_there_is_not_refuses_the_write(closing: ExitStack) -> None:
    data_path = SourceItems(components(range(1), seed=1), ALONE, TcpSource())
    closing.callback(data_path.close)
    published = msgspec.msgpack.encode(Placement(b"", 2, 2))
    data_path.post(1, Life(1, 1, 0), published, 0, [0], lambda: True)
    (number, _, reason), = data_path.outcomes()
    assert (number, reason) == (1, "rank 2 does not exist in a tensor parallelism of 2")
