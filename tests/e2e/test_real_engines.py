"""The hand-over over Mooncake and NIXL: real processes, and libraries that lie, fail, come late."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pdproto.cli.main import main
from pdproto.engine import one_sided
from pdproto.engine.contract import SinkEngine, SourceEngine
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.e2e.drill import handoff
from tests.engine.engines import ENGINES, MISSING
from tests.engine.obedient import Fault, ObedientSink, ObedientSource
from tests.node.work import assert_no_slow_turn, clock_counts_work
from tests.waiting import until

ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)
WAITS: Final = {"no_drain": 0.2}  # until a silent source is fenced


def needs(name: str) -> Any:
    return pytest.param(
        name, marks=pytest.mark.skipif(bool(MISSING[name]), reason=MISSING[name] or "there"))


REAL: Final = [needs("mooncake"), needs("nixl")]


@pytest.mark.parametrize("engine", REAL)
def test_every_byte_is_right_while_a_fifth_is_aborted(engine: str) -> None:
    numbers = handoff("--engine", engine, "--requests", "60", "--abort-rate", "0.2")
    assert 0 < numbers["failed"] < 40


@pytest.mark.slow
@pytest.mark.parametrize("engine", REAL)
def test_stages_and_tensor_ranks_hand_over_their_parts(engine: str) -> None:
    numbers = handoff("--engine", engine, "--requests", "40", "--pp", "2", "--tp", "2")
    assert len(numbers["ranks"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("engine", REAL)
def test_a_killed_rank_is_noticed_and_comes_back(engine: str) -> None:
    numbers = handoff("--engine", engine, "--requests", "150", "--abort-rate", "0", "--kill")
    assert numbers["restarted"] == ["prefill-0-0-0"]
    assert numbers["succeeded"] > 60


class Hand:
    """A prefill and a decode node of one page size, over two ends of an engine."""

    def __init__(
        self, sink: SinkEngine, source: SourceEngine, waits: Mapping[str, float]
    ) -> None:
        self.ours, self.theirs = self._pool(1), self._pool(2)
        self.prefill: Final = PrefillNode("p", SourcePages([self.ours], source), waits=waits)
        self.decode: Final = DecodeNode("d", SinkPages({"p": [self.theirs]}, sink), waits=waits)

    @staticmethod
    def _pool(seed: int) -> NDArray[np.uint8]:
        return np.random.default_rng(seed).integers(0, 256, (32, 1, 1, 4096), np.uint8)

    def under_way(self, room: int) -> tuple[Sender, Receiver]:
        """Send four pages, from the first of ours to page 8 of theirs."""
        sender, receiver = self.prefill.open(room), self.decode.open(
            room, {"p": self.prefill.endpoint})
        receiver.publish(range(8, 12))
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT, "the address")
        sender.send(range(4))
        return sender, receiver

    def over(self, room: int) -> tuple[Sender, Receiver]:
        """Hand the pages over, and close the hand-over."""
        sender, receiver = self.under_way(room)
        until(lambda: receiver.poll() in ENDED and sender.poll() in ENDED, "the end")
        receiver.close()
        until(lambda: receiver.released, "the pages")
        return sender, receiver

    @property
    def is_right(self) -> bool:
        return bool(np.array_equal(self.theirs[8:12], self.ours[:4]))

    def nothing_is_held(self) -> None:
        nodes = (self.prefill, self.decode)
        until(lambda: not any(value for node in nodes for name, value in
                              node.metrics.read().items() if name.startswith("num_")),
              "everything to be given back")
        assert self.leases == 0

    @property
    def leases(self) -> int:
        """The leases of the sink's staging memory."""
        counts = self.decode._node.data_path.engine.counts()  # type: ignore[attr-defined]
        assert bool(counts.leases) == bool(counts.leased_bytes)
        return int(counts.leases)


@contextmanager
def hand(
    sink: SinkEngine, source: SourceEngine, waits: Mapping[str, float] = WAITS
) -> Iterator[Hand]:
    with clock_counts_work():
        hand = Hand(sink, source, waits)
        try:
            yield hand
        finally:
            hand.prefill.close()
            hand.decode.close()
    for node in (hand.prefill, hand.decode):
        assert_no_slow_turn(node.name, node._loop.pace)


@pytest.fixture
def obedient() -> Iterator[tuple[Hand, ObedientSource, Fault]]:
    source = ObedientSource()
    with hand(ObedientSink(), source) as both:
        yield both, source, Fault()


@pytest.mark.parametrize("engine", REAL)
def test_nodes_hand_over_and_hold_nothing(engine: str) -> None:
    with hand(ENGINES[engine].sink(), ENGINES[engine].source()) as both:
        for room in range(3):
            both.theirs[:] = 0
            sender, receiver = both.over(room)
            assert receiver.poll() is sender.poll() is KVPoll.SUCCESS
            assert both.is_right
        both.nothing_is_held()


def test_a_write_that_did_not_land_fails_by_its_digest(
    obedient: tuple[Hand, ObedientSource, Fault]
) -> None:
    both, source, fault = obedient
    source.obedient.rule = fault.lies
    _, receiver = both.over(1)
    assert receiver.poll() is KVPoll.FAILED
    assert "the digests of the bytes of p do not agree" in str(receiver.failure)
    source.obedient.rule = None
    _, receiver = both.over(2)
    assert receiver.poll() is KVPoll.SUCCESS
    assert both.is_right
    both.nothing_is_held()


def test_a_failed_write_that_lands_later_spoils_no_page(
    obedient: tuple[Hand, ObedientSource, Fault], caplog: pytest.LogCaptureFixture
) -> None:
    """The hand-over fails, the memory is given up, and the next one is right."""
    both, source, fault = obedient
    source.obedient.rule = fault.is_late
    sender, receiver = both.over(1)
    assert receiver.poll() is sender.poll() is KVPoll.FAILED
    assert "the engine gave up writing to d" in str(sender.failure)
    assert "by obedient to the sink at 127.0.0.1:" in caplog.text
    until(lambda: both.decode.metrics.read()["fences_done"],
          "the fence of a write that may still land: its source must not say DRAINED")
    source.obedient.rule = None
    _, receiver = both.over(2)
    assert receiver.poll() is KVPoll.SUCCESS
    fault.land()
    assert both.is_right
    both.nothing_is_held()


def test_m3_4_memory_is_leased_while_a_write_of_an_aborted_hand_over_is_under_way() -> None:
    """Without a clock only DRAINED ends the lease, so the next hand-over gets other memory."""
    source, fault = ObedientSource(), Fault()
    with hand(ObedientSink(), source, {"no_drain": 600.0}) as both:
        source.obedient.rule = fault.hangs
        sender, receiver = both.under_way(1)
        until(lambda: fault.late, "the write")
        receiver.abort("the client has left")
        until(lambda: sender.poll() is receiver.poll() is KVPoll.FAILED, "the abort")
        assert both.leases == 1
        source.obedient.rule = None
        _, receiver = both.over(2)
        assert receiver.poll() is KVPoll.SUCCESS
        fault.land()
        assert both.is_right
        assert both.leases == 1
        source.obedient.transfers[0].well = True
        both.nothing_is_held()


@pytest.mark.parametrize("name", ["mooncake", "nixl"])
def test_an_engine_that_is_not_installed_gives_one_clear_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the library's package is hidden from the command."""

    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(one_sided, "version", missing)
    assert main(["handoff", "--engine", name]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"engine {name!r} is not installed: pip install" in told
