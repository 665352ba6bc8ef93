"""The words of a board in the place of messages, at the worst moments."""

from collections.abc import Callable, Iterator
from contextlib import closing
from platform import machine

import numpy as np
import pytest

from pdproto.engine import board
from pdproto.engine.board import (
    MEMBARRIER,
    MEMBARRIER_ELSEWHERE,
    Board,
    Spot,
    barrier_for,
    new_board,
    word_of,
)
from pdproto.engine.contract import EndedWrite, Lease, Result
from pdproto.engine.frames import Frame
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.source import Posted
from pdproto.runtime.errors import RemoteProtocolError
from tests.engine.engines import write

LENGTH = 4096
OLD, NEW = bytes([0xAB]) * LENGTH, bytes([0x5C]) * LENGTH


class Ends:
    """Both ends, with the memory of a lease mapped by a write that has landed."""

    def __init__(self) -> None:
        self.sink, self.source = SharedSink(), SharedSource()
        self.lease = self.leased()
        assert self.write(NEW).result is Result.LANDED

    def leased(self) -> Lease:
        lease = self.sink.lease("life", "source", LENGTH)
        assert lease is not None
        return lease

    def write(self, data: bytes, lease: Lease | None = None) -> EndedWrite:
        return write(self.source, (lease or self.lease).address, data)

    def fence(self) -> None:
        assert self.sink.fenced(self.sink.fence(self.lease))
        self.sink.release(self.lease)

    def close(self) -> None:
        self.source.close()
        self.sink.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with closing(Ends()) as both:
        yield both


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_a_processor_that_reorders_a_read_before_a_write_has_the_barrier_of_the_kernel(
    processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock orders both on x86 alone. Here the kernel is asked by this processor's number."""
    monkeypatch.setattr(board, "MEMBARRIER_ELSEWHERE",
                        MEMBARRIER.get(machine(), MEMBARRIER_ELSEWHERE))
    barrier = barrier_for(processor)
    barrier()
    assert (barrier is barrier_for("i686")) == (processor == "x86_64")


def test_a_host_that_refuses_the_barrier_is_told_which_engines_to_use(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "MEMBARRIER_ELSEWHERE", 100_000)  # no such call
    with pytest.raises(OSError, match=r"refuses it: .*; open both sides with another engine"):
        barrier_for("aarch64")()


def once(act: Callable[[], None], then: Callable[..., None]) -> Callable[..., None]:
    """A function that acts at its first call, before it does as `then`."""
    acts = [act]

    def acting(*arguments: object) -> None:
        if acts:
            acts.pop()()
        then(*arguments)

    return acting


def test_no_message_is_about_a_write_into_memory_that_is_mapped(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Frame] = []
    encode = Frame.encode

    def noting(frame: Frame) -> bytes:
        encoded.append(frame)
        return encode(frame)

    monkeypatch.setattr(Frame, "encode", noting)
    assert ends.write(OLD).result is Result.LANDED
    ends.sink.release(ends.lease)
    again = ends.leased()  # the same memory, for another life
    assert again.address.region == ends.lease.address.region
    assert ends.write(NEW, again).result is Result.LANDED
    assert encoded == []
    assert ends.sink.counts().landed_writes == 3


def test_a_fence_between_a_look_at_the_grant_and_the_writers_word_is_seen(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink has seen no writer, and keeps the memory: so the writer must not begin."""
    following: list[Lease] = []

    def fenced() -> None:
        ends.fence()
        following.append(ends.leased())
        assert following[0].address.region == ends.lease.address.region

    allows = Spot.allows
    monkeypatch.setattr(Spot, "allows", lambda spot, word: _then(allows(spot, word), asked, fenced))
    asked: list[bool] = []
    assert ends.write(OLD).result is Result.REFUSED
    assert bytes(ends.sink.view(following[0])) == NEW
    assert ends.write(OLD, following[0]).result is Result.LANDED


def _then(answer: bool, asked: list[bool], act: Callable[[], None]) -> bool:
    """The answer, behind which something happens the first time."""
    asked.append(answer)
    if len(asked) == 1:
        act()
    return answer


def test_a_fence_behind_the_writers_word_gives_the_memory_up(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the last segment, so that only the look behind it tells."""
    following: list[Lease] = []

    def fenced() -> None:
        ends.fence()
        following.append(ends.leased())

    monkeypatch.setattr(np, "copyto", once(fenced, np.copyto))
    assert ends.write(OLD).result is Result.REFUSED
    assert following[0].address.region != ends.lease.address.region
    assert ends.sink.counts().refused_writes == 1
    assert bytes(ends.sink.view(following[0])) != OLD


def test_memory_is_kept_when_its_source_has_been_told_of_the_landing(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is released as soon as the outcome is known, and the source has left by then."""
    finish = SharedSource.finish

    def releasing(source: SharedSource, posted: Posted, result: Result, why: str = "") -> None:
        ends.sink.release(ends.lease)
        finish(source, posted, result, why)

    monkeypatch.setattr(SharedSource, "finish", releasing)
    assert ends.write(OLD).result is Result.LANDED
    counts = ends.sink.counts()
    assert (counts.pooled_bytes, counts.abandoned_bytes) == (LENGTH, 0)


def test_a_late_address_disturbs_no_writer_of_another_process(ends: Ends) -> None:
    """Two connections have the memory mapped, and each has a writer's word of its own."""
    late, first = ends.lease, {*ends.sink.lines}
    ends.sink.release(late)
    with closing(SharedSource()) as other:
        lease = ends.leased()
        assert write(other, lease.address, NEW).result is Result.LANDED
        backing = ends.sink.leases._held[lease.number].backing
        assert backing is not None
        mine = next(spot for line, spot in backing.holders.items()
                    if spot is not None and not spot.allows(word_of(late.address.token))
                    and line not in first)
        assert mine.enter(word_of(lease.address.token))
        assert ends.write(OLD, late).result is Result.REFUSED
        assert mine.has_writer
        ends.sink.release(lease)
        assert ends.sink.counts().abandoned_bytes == LENGTH
        mine.leave()


def test_a_grant_of_nothing_allows_nobody() -> None:
    """An address without a token has the word that a withdrawn grant has."""
    words, file = new_board()
    with open(file):
        spot = Spot(words, 3)
        assert not spot.enter(word_of(b""))
        assert not spot.has_writer
        spot.grant(7)
        assert Spot(Board(file), 3).enter(7)
        assert spot.has_writer


def test_a_file_of_another_size_is_no_board() -> None:
    with open("/dev/null") as file, pytest.raises(RemoteProtocolError, match="no sealed file of"):
        Board(file.fileno())
