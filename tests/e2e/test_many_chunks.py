"""Any number of chunks, and many sinks: a node serves the others meanwhile, and its trace replays.

No turn of a loop may do more than its share of work: see tests/node/work.py.
"""

from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import zmq

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.cli.systems import load
from pdproto.node.prefill import waiting_senders
from pdproto.runtime.batches import encode
from pdproto.runtime.limits import CHUNKS_MAX, SINKS_MAX
from pdproto.runtime.wire import Introduce, Life, Publish
from pdproto.spec.handoff.poll import KVPoll
from tests.e2e.pairs import ENDED, PAGES, Ends, ends, until
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.node.work import assert_no_slow_turn, clock_counts_work

MANY: Final = 1_024  # chunks
ROOM: Final = 2  # writes that an engine takes at once
FAR: Final = 100  # a generation, from which `published` counts the pages


def hand_over(nodes: Ends, room: int, chunks: int) -> None:
    """A request in so many chunks, each of one page, or of none where there are more than pages."""
    for ours, theirs in nodes.pools.values():
        for layer in (*ours, *theirs):
            layer[:] = np.random.default_rng(room).integers(0, 256, layer.shape, np.uint8)
    (sender,), receiver = nodes.senders(room), nodes.receiver(room)
    receiver.publish(range(PAGES - 1, -1, -1))
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
    for chunk in range(chunks):
        sender.send([chunk] if chunk < PAGES else [], last=chunk == chunks - 1)
    until(lambda: receiver.poll() in ENDED and sender.poll() in ENDED)
    assert receiver.poll() is sender.poll() is KVPoll.SUCCESS, receiver.failure
    for ours, theirs in nodes.pools.values():
        for mine, yours in zip(ours, theirs, strict=True):
            assert np.array_equal(mine, yours[::-1])
    receiver.close()


def test_a_hand_over_in_64_chunks_replays_with_the_number_of_each(tmp_path: Path) -> None:
    with ends() as nodes:
        hand_over(nodes, 1, 64)
        told = dict(nodes.told)
    paths = [tmp_path / f"{name}.jsonl" for name in told]
    for path in paths:
        path.write_bytes(told[path.stem].getvalue())
    verified = verify(load("transfer"), paths)
    assert verified.verdict is Verdict.HOLDS, verified.rejection
    posted = [line for line in told["p0"].getvalue().decode().splitlines() if '"post"' in line]
    assert [f'"c":{chunk}' in line for chunk, line in enumerate(posted)] == [True] * 64


def hand_over_in(chunks: int, nodes: Cluster) -> None:
    """Hand over so many pages, each in a chunk of its own, until nobody holds anything."""
    (receiver,) = published(nodes.receivers(1, generation=0), chunks)
    (sender,) = nodes.senders(1)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    for chunk in range(chunks):
        sender.send([chunk], last=chunk == chunks - 1)
    until(polls([sender, receiver], KVPoll.SUCCESS))
    receiver.close()
    nodes.settled()


def test_a_hand_over_in_the_largest_number_of_chunks_succeeds() -> None:
    with clock_counts_work(), cluster() as nodes:
        hand_over_in(CHUNKS_MAX, nodes)
        for node in nodes.nodes:
            assert_no_slow_turn(node.name, node._loop.pace)


def work_of(chunks: int) -> int:
    """The functions that both loops call for a hand-over of so many chunks."""
    with clock_counts_work() as calls, closing(Cluster()) as nodes:
        hand_over_in(chunks, nodes)
    return calls.total()


def test_a_chunk_costs_no_more_where_there_are_many() -> None:
    """Twice as much is allowed: how many of them a turn takes depends on the machine."""
    few, many = (work_of(chunks) / chunks for chunks in (MANY // 16, MANY))
    assert many < 2 * few, f"{few:.0f} calls a chunk, and {many:.0f} of {MANY:,}"


def test_a_request_beside_one_of_many_chunks_waits_for_a_few_of_them() -> None:
    with cluster(prefill={"at_once": False, "room": ROOM}) as nodes:
        writing = nodes.writing
        (long,), far = nodes.senders(1), published(nodes.receivers(1, generation=0), MANY)
        (short,), near = nodes.senders(2), published(nodes.receivers(2, generation=FAR), 1)
        until(polls([long, short], KVPoll.WAITING_FOR_INPUT))
        for chunk in range(MANY):
            long.send([chunk], last=chunk == MANY - 1)
        short.send([0])
        until(lambda: short.endpoint.handed)
        ended = 0
        while short.landed_chunks == 0:
            until(lambda: short.landed_chunks or len(writing.under_way) == ROOM)
            ended += writing.end(most=1)
            assert ended <= 3 * ROOM
        writing.at_once = True
        writing.end()
        until(polls([long, short, *far, *near], KVPoll.SUCCESS))
        for receiver in (*far, *near):
            receiver.close()
        nodes.settled()


def test_a_frame_that_names_many_sinks_delays_no_other_hand_over() -> None:
    life, address = Life(7, 17, 0), "tcp://127.0.0.1:1"
    names = ["stranger", *(f"d{number}" for number in range(SINKS_MAX - 1))]
    with ends() as nodes, zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        (node,) = nodes.prefills
        stranger.setsockopt_string(zmq.IDENTITY, "stranger")
        stranger.setsockopt(zmq.LINGER, 1_000)
        stranger.connect(node.endpoint)
        stranger.send(encode("stranger", 17, 0, [
            Introduce(life, tuple(names), address), Publish(life, b"", 1, tuple(names), address)]))
        until(lambda: life in node._node.lives)
        many = tuple(f"d{number}" for number in range(1_024))
        stranger.send(encode("stranger", 17, 0, [Introduce(life, many, address)]))
        until(lambda: node.metrics.read()["malformed_frames"] == 1)
        nodes.hand_over(1)
        stranger.send(encode("stranger", 17, 1, []))
        until(lambda: life not in node._node.lives or node._core.peers["stranger"].heard)
        node.declare_gone("stranger")


def test_no_sink_joins_a_hand_over_that_has_begun() -> None:
    with cluster(sinks=2) as nodes:
        first, second = nodes.decodes
        sources = {node.name: node.endpoint for node in nodes.prefills}
        receiver = first.open(1, sources, sinks=[first.name], generation=0, pages=[1, 2], slot=0)
        (sender,) = nodes.senders(1)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1], last=False)
        late = second.open(1, sources, sinks=[second.name], generation=0, pages=[1, 2], slot=0)
        until(lambda: nodes.prefills[0].metrics.read()["refused_frames"])
        sender.send([2])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        late.abort("it was never fed")
        receiver.close()


def test_a_node_bounds_the_lives_without_a_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is served when there is room again."""
    monkeypatch.setattr(waiting_senders, "EARLY_LIVES_MAX", 3)
    with cluster(waits={"no_news": 0.05}) as nodes:
        receivers = [one for room in range(5)
                     for one in published(nodes.receivers(room, generation=room), 2)]
        until(lambda: nodes.prefills[0].metrics.read()["refused_frames"] >= 2)
        senders = [one for room in range(5) for one in nodes.senders(room)]
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([0, 1])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        for receiver in receivers:
            receiver.close()
        nodes.settled()


def test_servers_that_begin_lives_without_end_stop_no_other(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are six places for lives without a sender. A stranger begins ten, and has three. Then
    another begins ten, and has two. One is left for decode, which repeats nothing. When the first
    stranger's three have senders, it may begin two others beside the three that wait.
    """
    monkeypatch.setattr(waiting_senders, "EARLY_LIVES_MAX", 6)
    with ends() as nodes, zmq.Context() as context, \
            context.socket(zmq.DEALER) as first, context.socket(zmq.DEALER) as second:
        (node,) = nodes.prefills

        def begin(stranger: zmq.Socket[bytes], name: str, lives: list[Life], *, waiting: int
                  ) -> None:
            refused = node.metrics.read()["refused_frames"]
            added = waiting - len(node._node.binding.early)
            stranger.send(encode(name, lives[0].incarnation, 0, [
                Introduce(life, (name,), "tcp://127.0.0.1:1") for life in lives]))
            until(lambda: node.metrics.read()["refused_frames"] == refused + len(lives) - added)
            assert len(node._node.binding.early) == waiting

        lives = [Life(1_000 + number, 17, number) for number in range(20)]
        for stranger, name in ((first, "first"), (second, "second")):
            stranger.setsockopt_string(zmq.IDENTITY, name)
            stranger.setsockopt(zmq.LINGER, 1_000)
            stranger.connect(node.endpoint)
        begin(first, "first", lives[:10], waiting=3)
        begin(second, "second", [Life(2_000 + number, 18, number) for number in range(10)],
              waiting=5)
        receiver = nodes.receiver(1)
        until(lambda: len(node._node.binding.early) == 6)
        senders = [node.open(life.room) for life in lives[:3]]
        until(lambda: len(node._node.binding.early) == 3)
        begin(first, "first", lives[10:], waiting=5)
        receiver.abort("it was for this test")
        for sender in senders:
            sender.abort("it was for this test")
        for name in ("first", "second"):
            node.declare_gone(name)
