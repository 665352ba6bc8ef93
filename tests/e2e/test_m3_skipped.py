"""M3.3, end to end: a chunk that has not begun to move is not moved once its hand-over has failed.

Real nodes over every engine. The abort comes in the very step in which the second chunk lands.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Final

import numpy as np
import pytest

from pdproto.engine.contract import Address, SourceCounts
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.data_path import WriteOutcome
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests.e2e.pairs import until
from tests.e2e.test_real_engines import needs
from tests.node.work import assert_no_slow_turn, clock_counts_work

CHUNKS: Final = 16
CHUNK_BYTES: Final = 4 << 20  # a page each
ENGINES: Final = ["shm", "tcp", needs("mooncake"), needs("nixl")]


class Nodes:
    """A prefill node with pages of 4 MiB, and decode nodes that it feeds."""

    def __init__(self, engine: str, sinks: int) -> None:
        shape = (CHUNKS, 1, 1, CHUNK_BYTES)
        self.data_path: Final = SourcePages([np.ones(shape, np.uint8)], open_source(engine))
        self.prefill: Final = PrefillNode("p", self.data_path)
        self.decodes: Final = [
            DecodeNode(f"d{number}", SinkPages([np.zeros(shape, np.uint8)], open_sink(engine)),
                       incarnation=17)
            for number in range(sinks)]

    @property
    def nodes(self) -> list[RunningNode]:
        return [self.prefill, *self.decodes]

    def opened(self) -> tuple[Sender, list[Receiver]]:
        """Both ends of a hand-over whose chunks may be sent."""
        sender = self.prefill.open(7)
        receivers = [node.open(7, {"p": self.prefill.endpoint}, generation=0,
                               sinks=[each.name for each in self.decodes],
                               pages=range(CHUNKS), slot=1) for node in self.decodes]
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        return sender, receivers

    def fail_after(self, landed: int) -> None:
        """Hand all chunks over, and abort when so many have landed. Returns when all is back."""
        sender, receivers = self.opened()

        def look() -> None:
            if sender.landed_chunks >= landed:
                sender.watchers = ()
                self.prefill._node.give_up(sender, "the client has left")

        self.prefill._core.ask(lambda: setattr(sender, "watchers", (look,)))
        self.send(sender)
        self.ended(sender, receivers)

    def send(self, sender: Sender) -> None:
        """Hand every chunk over."""
        for chunk in range(CHUNKS):
            sender.send([chunk], last=chunk == CHUNKS - 1)

    @contextmanager
    def failed_before_the_worker(self, sender: Sender) -> Iterator[None]:
        """The worker has chunks of a hand-over that has failed, and takes them up after that."""
        takes_up = Event()
        self.data_path._worker.submit(takes_up.wait)
        self.send(sender)
        until(lambda: self.writes() >= 4)
        sender.abort("the client has left")
        until(lambda: sender.poll() is KVPoll.FAILED)
        try:
            yield
        finally:
            takes_up.set()

    def writes(self) -> float:
        """The number of chunks that the worker or the engine has."""
        return self.prefill.metrics.read()["num_prefill_writes"]

    def ended(self, sender: Sender, receivers: Sequence[Receiver]) -> None:
        """Return when a hand-over that fails has given everything back."""
        until(lambda: sender.released and all(receiver.released for receiver in receivers))
        assert {end.poll() for end in (sender, *receivers)} == {KVPoll.FAILED}
        until(lambda: not self.writes())


@contextmanager
def nodes(engine: str, sinks: int = 1) -> Iterator[Nodes]:
    with clock_counts_work():
        given = Nodes(engine, sinks)
        try:
            yield given
            for node in given.nodes:
                assert_no_slow_turn(node.name, node._loop.pace)
        finally:
            for node in given.nodes:
                node.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_abort_after_two_chunks_skips_twelve_chunks(engine: str) -> None:
    with nodes(engine) as given:
        given.fail_after(2)
        numbers = given.prefill.metrics.read()
        assert numbers["skipped_chunks"] >= 12
        assert numbers["landed_chunks"] + numbers["skipped_chunks"] == CHUNKS
        assert numbers["engine_refused_writes"] == numbers["engine_failed_writes"] == 0


def test_an_abort_skips_chunks_for_every_destination() -> None:
    with nodes("tcp", sinks=2) as given:
        given.fail_after(2)
        numbers = given.prefill.metrics.read()
        assert numbers["skipped_chunks"] >= 2 * CHUNKS - 6
        assert numbers["landed_chunks"] + numbers["skipped_chunks"] == 2 * CHUNKS


def test_the_worker_moves_no_chunk_of_a_failed_hand_over() -> None:
    """Of the chunks that it has when the hand-over fails, it moves none."""
    with nodes("tcp", sinks=2) as given:
        sender, receivers = given.opened()
        with given.failed_before_the_worker(sender):
            pass
        given.ended(sender, receivers)
        numbers = given.prefill.metrics.read()
        assert numbers["landed_chunks"] == 0
        assert numbers["skipped_chunks"] == 2 * CHUNKS


def test_s8_pages_are_not_free_while_the_worker_may_read_them() -> None:
    with nodes("tcp", sinks=2) as given:
        sender, receivers = given.opened()
        with given.failed_before_the_worker(sender):
            until(lambda: all(receiver.poll() is KVPoll.FAILED for receiver in receivers))
            assert not sender.released
        given.ended(sender, receivers)


class Full:
    """A source engine that has no room until it is told."""

    def __init__(self) -> None:
        self.has_room = False
        self.posted: list[int] = []

    def attach(self, wake: Callable[[], None]) -> None: ...

    def connect(self, address: Address) -> None: ...

    def post(self, _address: Address, offset: int, _views: Sequence[object]) -> int:
        self.posted.append(offset)
        return len(self.posted)

    def completed(self) -> list[object]:
        return []

    def counts(self) -> SourceCounts:
        return SourceCounts()

    def close(self) -> None: ...


@pytest.mark.parametrize("where", ["before it is packed", "before it is posted"])
def test_the_data_path_skips_a_chunk_that_is_no_longer_wanted(where: str) -> None:
    engine, packed, wanted = Full(), Event(), Event()
    data_path = SourcePages([np.zeros((2, 1, 1, 64), np.uint8)], engine)  # type: ignore[arg-type]
    asked: list[bool] = []

    def is_wanted() -> bool:
        asked.append(wanted.is_set())
        packed.set()
        return wanted.is_set()

    if where == "before it is posted":
        wanted.set()
    address = Address("full", "here", 0, 0, 1 << 20, b"").encode()
    data_path.post(1, Life(1, 1, 1), address, 0, [0], is_wanted)
    assert packed.wait(10)
    wanted.clear()
    engine.has_room = True
    ended: list[tuple[int, WriteOutcome, str]] = []

    def has_ended() -> bool:
        ended.extend(data_path.outcomes())
        return bool(ended)

    until(has_ended)
    assert ended == [(1, WriteOutcome.SKIPPED, "")]
    assert engine.posted == []
    data_path.close()
