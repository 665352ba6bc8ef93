"""Items that a known source writes in place, between nodes and by themselves; without SGLang."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pdproto.engine.contract import EngineError
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.tcp_sink import TcpSink
from pdproto.items.components import Numbering
from pdproto.items.data_path import SinkItems
from pdproto.items.direct import DirectItems, ItemTarget
from pdproto.items.shares import Share, share_for
from pdproto.node.decode.receiver import Receiver
from pdproto.pages.page_target import ChunkTarget
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DirectDecodeNode
from tests.items.test_data_path import ALONE, LAYERS, ROW, Pair, components
from tests.waiting import until

LARGE = 16_384, 20_480  # bytes of an item of the KV cache, and of the state


class DirectPair(Pair):
    item_bytes = LARGE

    def sink(self) -> SinkItems:
        return DirectItems(self.ours, ALONE, TcpSink())

    def decode(self) -> DirectDecodeNode:
        return DirectDecodeNode("decode", self.data_path)

    @property
    def target_bytes(self) -> int:
        return self.data_path.engine.counts().target_bytes

    def know(self) -> None:
        """Have every source say once what it sends."""
        receiver = self.hand_over(1_000, [0], [0])
        assert receiver.failure is None
        self.over(receiver)
        for component in self.ours:
            for buffer in component.buffers:
                buffer[...] = 0

    def over(self, receiver: Receiver) -> None:
        receiver.close()
        until(lambda: receiver.released)
        assert self.target_bytes == 0


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("stages", [[range(4)], [range(2), range(2, 4)]], ids=["one", "pipeline"])
def test_every_item_arrives_through_landing_memory_first_and_in_place_then(
    closing: ExitStack, stages: list[range]
) -> None:
    pair = DirectPair(closing, stages)
    for room, direct in ((1, False), (2, True), (3, True)):
        senders, receiver = pair.begin(room, [4, 0, 6], [1], prefix=32)
        assert bool(pair.target_bytes) is direct
        for sender, (_, data_path) in zip(senders, pair.sources, strict=True):
            numbers = data_path.numbering.numbers
            for items in numbers(0, [4, 0]), numbers(0, [6]):
                sender.send(items, last=False)
            sender.send(numbers(1, [1]), metadata=ROW)
        until(lambda receiver=receiver: receiver.poll() in (KVPoll.SUCCESS, KVPoll.FAILED))  # type: ignore[misc]
        assert receiver.failure is None
        pair.check([4, 0, 6], [1])
        pair.over(receiver)


def test_a_source_in_the_same_place_is_presumed_to_have_the_share_of_this_rank(
    closing: ExitStack
) -> None:
    pair = DirectPair(closing, [range(LAYERS)])
    pair.data_path.presume("stage0")
    assert pair.hand_over(1, [4, 0, 6], [1]).failure is None
    pair.check([4, 0, 6], [1])
    assert pair.data_path.engine.counts().pooled_bytes == 0, "no staging memory was needed"


@pytest.mark.parametrize(("stage", "why"), [
    (range(1, LAYERS + 1), "kv: layer 4 is there, and here are layer 0 to layer 3"),
    (range(LAYERS - 1), "no source sends kv of layer 3")], ids=["as many", "fewer"])
def test_a_source_that_has_something_else_fails_and_says_from_then_on_what_does_not_fit(
    closing: ExitStack, stage: range, why: str
) -> None:
    pair = DirectPair(closing, [stage])
    pair.data_path.presume("stage0")
    pair.over(pair.hand_over(1, [0], [0]))
    pair.data_path.presume("stage0")
    receiver = pair.hand_over(2, [0], [0])
    assert why in str(receiver.failure)
    pair.over(receiver)


def test_items_of_a_hand_over_that_has_ended_serve_the_next_at_once(closing: ExitStack) -> None:
    pair = DirectPair(closing, [range(LAYERS)])
    for room in range(1, 40):
        receiver = pair.hand_over(room, [0, 1], [0])
        assert receiver.failure is None
        receiver.close()  # and nobody waits for its release


@pytest.mark.parametrize("item_bytes", [(640, 96), (16_384, 96)], ids=str)
def test_small_items_go_through_landing_memory(
    closing: ExitStack, monkeypatch: pytest.MonkeyPatch, item_bytes: tuple[int, int]
) -> None:
    monkeypatch.setattr(DirectPair, "item_bytes", item_bytes)
    pair = DirectPair(closing, [range(LAYERS)])
    pair.know()
    _, receiver = pair.begin(1, [0], [1])
    assert pair.target_bytes == 0
    receiver.abort("enough")
    pair.over(receiver)


def test_items_of_a_hand_over_that_fails_go_back_when_its_source_is_kept_out(
    closing: ExitStack
) -> None:
    pair = DirectPair(closing, [range(LAYERS)])
    pair.know()
    (sender,), receiver = pair.begin(1, [0], [1])
    sender.send(pair.data_path.numbering.numbers(0, [0]), last=False)
    receiver.abort("decode has changed its mind")
    until(lambda: receiver.poll() is KVPoll.FAILED and sender.poll() is KVPoll.FAILED)
    pair.over(receiver)
    assert pair.hand_over(2, [0], [1]).failure is None


def test_items_go_back_when_their_source_is_gone(closing: ExitStack) -> None:
    pair = DirectPair(closing, [range(2), range(2, LAYERS)])
    pair.know()
    (sender, _), receiver = pair.begin(1, [0, 1], [1])
    sender.send(pair.data_path.numbering.numbers(0, [0]), last=False)
    assert pair.target_bytes
    pair.sources[0][0].close()
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "stage0" in str(receiver.failure)
    pair.over(receiver)


@pytest.mark.parametrize("component", [0, 1])
def test_items_that_hold_other_bytes_than_were_sent_are_not_taken(
    closing: ExitStack, monkeypatch: pytest.MonkeyPatch, component: int
) -> None:
    pair = DirectPair(closing, [range(LAYERS)])
    pair.know()
    intact = ChunkTarget.intact

    def spoilt(chunk: ChunkTarget, key: int) -> bool:
        """Its last item is number 2 of its component."""
        if chunk.pages[-1] == 2 and len(chunk.pages) == 2 - component:
            pair.ours[component].buffers[-1][2, 77] ^= 4
        return intact(chunk, key)

    monkeypatch.setattr(ChunkTarget, "intact", spoilt)
    receiver = pair.hand_over(1, [0, 1], [1])
    assert "the digests of the bytes of stage0 do not agree" in str(receiver.failure)


def test_a_source_is_held_to_its_header(closing: ExitStack) -> None:
    """It has said so many layers, and comes with as many bytes under another header."""
    pair = DirectPair(closing, [range(LAYERS)])
    pair.know()
    share = pair.sources[0][1]._share(ALONE)
    said = bytearray(share.header)
    said[16] ^= 1  # the first layer is another
    object.__setattr__(share, "header", bytes(said))
    receiver = pair.hand_over(1, [0], [1])
    assert "it sends other layers or heads than" in str(receiver.failure)


def test_an_item_that_there_is_not_is_refused_at_the_call(closing: ExitStack) -> None:
    pair = DirectPair(closing, [range(LAYERS)])
    pair.know()
    (node, _), = pair.sources
    node.open(1)
    receiver = pair.node.open(1, {node.name: node.endpoint})
    with pytest.raises(ValueError, match="items 1 to 11, but there are 11"):
        receiver.publish([1, 11])
    assert pair.target_bytes == 0


def test_an_engine_without_a_page_fence_is_refused() -> None:
    engine = SharedSink()
    try:
        with pytest.raises(EngineError, match=r"SharedSink declares no page fence.*\(SinkItems\)"):
            DirectItems(components(range(1), None, LARGE), ALONE, engine)
    finally:
        engine.close()


@pytest.fixture
def target(closing: ExitStack) -> ItemTarget:
    """Of two items of KV, and one of the state."""
    data_path = DirectItems(ours := components(range(LAYERS), None, LARGE), ALONE, TcpSink())
    closing.callback(data_path.close)
    numbering = Numbering(ours)
    share = share_for(ours, ALONE, ALONE)
    places = data_path._places(share.header)
    assert places is not None
    return ItemTarget(share, places, numbering,
                      [*numbering.numbers(0, [3, 5]), *numbering.numbers(1, [2])],
                      key=5, worker=data_path._worker)


def lengths(share: Share) -> tuple[int, int, int]:
    """Of the header, of a chunk of both items of KV, and of one of the state's."""
    kv, state = share.parts
    return len(share.header), kv.bytes(2), state.bytes(1)


def test_a_target_takes_header_and_chunks_in_their_order(target: ItemTarget) -> None:
    head, kv, state = lengths(target.share)
    for offset, length in (0, head), (head, kv), (head + kv, 0), (head + kv, state):
        assert sum(place.nbytes for place in target.places(offset, length)) == length
    assert target.length >= head + kv + state


@pytest.mark.parametrize(("begins", "more"), [(1, 0), (0, 1), (0, -1)])
def test_a_write_elsewhere_or_of_other_bounds_is_the_peers_fault(
    target: ItemTarget, begins: int, more: int
) -> None:
    head, kv, _ = lengths(target.share)
    with pytest.raises(RemoteProtocolError, match="write: "):
        target.places(begins, head + kv + more)


def test_written_bytes_are_not_written_again(target: ItemTarget) -> None:
    """What a digest was found right of would otherwise not stay so."""
    head, kv, state = lengths(target.share)
    target.places(0, head + kv)
    with pytest.raises(RemoteProtocolError, match="the one before ended at"):
        target.places(0, head + kv)
    target.places(head + kv, state)
    with pytest.raises(RemoteProtocolError, match="no chunk of 0 items to come"):
        target.places(head + kv + state, state)


def test_a_chunk_of_two_components_is_the_peers_fault(target: ItemTarget) -> None:
    head, _, _ = lengths(target.share)
    too_many = target.share.parts[0].bytes(3)
    with pytest.raises(RemoteProtocolError, match="no chunk of 3 items to come"):
        target.places(0, head + too_many)


@pytest.mark.parametrize("numbers", [[-1], [11]])
def test_an_item_that_there_is_not_is_refused(target: ItemTarget, numbers: list[int]) -> None:
    with pytest.raises(ValueError, match=f"items {numbers[0]} to {numbers[0]}, but there are 11"):
        ItemTarget(target.share, target._places, target._numbering, numbers, key=5,
                   worker=target._worker)


def test_incomplete_bytes_are_not_intact(target: ItemTarget) -> None:
    head, kv, state = lengths(target.share)
    header, *_ = target.places(0, head + kv)
    header[:] = target.share.header
    assert not target.intact([2]), "the digests have not come"
    assert not target.intact([2, 1]), "the state has not come"
    assert not target.intact([1, 1]), "the chunks were others"
    target.places(head + kv, state)
    assert not target.intact([2, 1]), "the digests of the first have been compared already"
    assert not target._verdicts[0].result()


def test_a_verdict_behind_the_answer_is_not_waited_for(target: ItemTarget) -> None:
    """A source that says *done*, and writes its last chunk then, must not stop the worker."""
    head, kv, state = lengths(target.share)
    header, *_ = target.places(0, head + kv)
    header[:] = target.share.header

    def done_too_early() -> bool:
        target.places(head + kv, state)  # queues a verdict behind this call
        return target.intact([2, 1])

    assert not target._worker.submit(done_too_early).result(timeout=10)
