"""Wire fuzzing: any bytes are a batch or a RemoteProtocolError, for the decoder and a live node.

A few thousand frames by default. With a million:

    HYPOTHESIS_PROFILE=nightly python -m pytest tests/fuzz

A frame is named by its number (frames.py), which is all that it takes to see a failure again. A
fuzzer that goes by coverage (atheris) has nothing to go by: the decoder is C that it cannot see
into, and of 300,000 frames it kept four, for 14 edges in all.
"""

import logging
from typing import Final

import msgspec
import psutil
import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.runtime import batches, wire
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import RunningNode
from tests.fuzz.frames import (
    GENERATIONS,
    HERE,
    PROMPTS,
    ROOMS,
    STRANGER,
    USES,
    chance,
    frame,
    frame_of,
)
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.property.profiles import NIGHTLY
from tests.transport.test_faults import foreigner
from tests.waiting import until

DECODED: Final = 1_000_000 if NIGHTLY else 6_000
SENT: Final = 500_000 if NIGHTLY else 3_000  # to each kind of node
RUNNING: Final = 100  # hand-overs that are under way meanwhile
SAID: Final = 50_000 if NIGHTLY else 500
GROWTH_MAX: Final = 24 << 20  # bytes; what a nightly run decodes is over ten times as much


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def outcome(data: bytes) -> batches.Batch | None:
    """The batch; None for a RemoteProtocolError. Anything else fails the test."""
    try:
        return batches.decode(data)
    except RemoteProtocolError:
        return None


def test_any_bytes_are_a_batch_or_an_error() -> None:
    good = 0
    before = resident()
    for number in range(DECODED):
        data = frame(number)
        batch = outcome(data)
        if batch is not None:
            good += 1
            again = msgspec.msgpack.encode(batch)
            assert outcome(again) == batch, number
        if number == DECODED // 10:
            before = resident()
    assert resident() - before < GROWTH_MAX
    assert DECODED // 100 < good < DECODED, "some are batches, and most are not"


def would_be_heard(data: bytes) -> bool:
    """Whether a node takes the bytes as what the stranger has to say: it says where it can be
    answered, or a farewell, which is nothing from somebody unknown.
    """
    batch = outcome(data)
    return batch is not None and batch.node == STRANGER and (
        batch.gone is not None or any(hasattr(said, "endpoint") for said in batch.frames))


def told(node: RunningNode) -> tuple[object, ...]:
    """All that foreign bytes must not change."""
    lives = tuple((life, endpoint.state) for life, endpoint in node._node.lives.items())
    return lives, tuple(node._core.peers), node._loop.turn_errors, node._core.mistakes


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_live_node_drops_them_all(side: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every frame is dropped and counted, and the hand-overs that are under way go on."""
    caplog.set_level(logging.CRITICAL, "pdproto")
    with cluster() as nodes:
        senders = [sender for room in range(RUNNING) for sender in nodes.senders(room)]
        receivers = published(
            receiver for room in range(RUNNING) for receiver in nodes.receivers(room))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        node: RunningNode = nodes.prefills[0] if side == "prefill" else nodes.decodes[0]
        before, memory, sent = told(node), resident(), 0
        with foreigner(node.endpoint) as stranger:
            for number in range(SENT):
                data = frame(number)
                if would_be_heard(data):
                    continue
                stranger.say(data)
                sent += 1
                if number == SENT // 10:
                    memory = resident()
            until(lambda: node._core.malformed.get(STRANGER) == sent,
                  lambda: f"{node._core.malformed} of {sent} frames have been dropped")
        assert resident() - memory < GROWTH_MAX
        assert told(node) == before
        assert node._core.malformed == {STRANGER: sent}
        _end_well(nodes, senders, receivers)


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_peer_that_says_anything_harms_nobody_else(
    side: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its frames are well-formed, and about any lives in any order: its own, and others'."""
    caplog.set_level(logging.CRITICAL, "pdproto")
    with cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        node: RunningNode = nodes.prefills[0] if side == "prefill" else nodes.decodes[0]
        state = node._node.lives[receiver.life].state
        with foreigner(node.endpoint) as stranger:
            hello = wire.Introduce(wire.Life(0, 99, 0), (STRANGER,), HERE)
            for number in range(SAID):
                some = chance(number)
                stranger.batch(hello, *(frame_of(some) for _ in range(some.randrange(4))))
            stranger.say(b"the end")
            until(lambda: node._core.malformed.get(STRANGER) == 1)
        assert node._node.lives[receiver.life].state == state
        assert node._loop.turn_errors == 0
        named = ROOMS * GENERATIONS * len(USES) * len(PROMPTS)
        assert len(node._node.lives) <= 1 + named, "its lives are as many as it has named"
        _end_well(nodes, [sender], [receiver], settled=side == "decode")


def _end_well(
    nodes: Cluster, senders: list[Sender], receivers: list[Receiver], *, settled: bool = True
) -> None:
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    for receiver in receivers:
        receiver.close()
    if settled:
        nodes.settled()
