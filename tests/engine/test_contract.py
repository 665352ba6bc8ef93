"""What every engine promises: bytes land exactly, and after a fence never."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.engine.contract import (
    Address,
    Departed,
    EngineBusy,
    EngineError,
    Lease,
    Result,
    Scope,
    SinkEngine,
    Ticket,
)
from pdproto.engine.leases import Held, Leases
from pdproto.engine.memory import Pool
from pdproto.runtime.errors import RemoteProtocolError
from tests.engine.engines import ENGINES, LOCAL, SENT_BYTES, Engine, Pair, finished, write
from tests.tiers import examples
from tests.waiting import PATIENCE_S, until

SIZES = (0, 1, 63, 4097, 4 << 20)
OLD, NEW = 0xAB, 0x5C
LARGE = 8 << 20


def leased(sink: SinkEngine, length: int, life: str = "life", source: str = "source") -> Lease:
    lease = sink.lease(life, source, length)
    assert lease is not None
    return lease


def landed(sink: SinkEngine, lease: Lease) -> np.ndarray:
    return np.frombuffer(sink.view(lease), np.uint8)


def writing(pair: Pair, lease: Lease, how: str) -> subprocess.Popen[str]:
    """A process that fills the lease with OLD."""
    told = [pair.engine.name, lease.address.encode().hex(), str(OLD), how]
    command = [sys.executable, "-m", "tests.engine.writer", *told]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def stopped(pair: Pair) -> Iterator[tuple[Lease, subprocess.Popen[str]]]:
    """A lease, and a process that is stopped in the middle of a write to it."""
    lease = leased(pair.sink, LARGE)
    process = writing(pair, lease, "stopping")
    status = psutil.Process(process.pid).status
    until(lambda: status() == psutil.STATUS_STOPPED, "the writer to stop")
    yield lease, process
    process.kill()
    process.wait(PATIENCE_S)
    if process.stdout is not None:
        process.stdout.close()


# Bytes.


@st.composite
def writes(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """A lease's length, where a write begins, and the lengths of its views."""
    size = draw(st.sampled_from(SIZES) | st.integers(0, 3 << 20))
    offset = draw(st.sampled_from([0, 1, 127, 4096]))
    cuts = sorted(draw(st.lists(st.integers(0, size), max_size=3)))
    ends = [0, *cuts, size]
    behind = draw(st.sampled_from([0, 1, 4096]))
    return offset + size + behind, offset, [b - a for a, b in pairwise(ends)]


def test_the_bytes_of_a_write_land_where_they_should_and_nowhere_else(pair: Pair) -> None:
    @given(case=writes(), seed=st.integers(0, 99))
    @settings(max_examples=examples(12, 40))
    def for_every(case: tuple[int, int, list[int]], seed: int) -> None:
        length, offset, views = case
        lease = leased(pair.sink, length)
        before = landed(pair.sink, lease).copy()
        generator = np.random.default_rng(seed)
        data = [generator.integers(0, 256, size, np.uint8) for size in views]
        pair.source.post(lease.address, offset, data)
        (outcome,) = finished(pair.source)
        assert outcome.result is Result.LANDED
        joined = np.concatenate(data)
        expected = before.copy()
        expected[offset : offset + joined.size] = joined
        np.testing.assert_array_equal(landed(pair.sink, lease), expected)
        pair.sink.release(lease)
        assert pair.sink.counts().leases == 0

    for_every()


def test_wide_elements_are_written_as_their_bytes(pair: Pair) -> None:
    lease = leased(pair.sink, 80)
    assert write(pair.source, lease.address, np.arange(10)).result is Result.LANDED
    assert (landed(pair.sink, lease).view(np.int64) == np.arange(10)).all()


def test_many_writes_of_many_leases_are_in_flight_at_once(pair: Pair) -> None:
    leases = [leased(pair.sink, 10_000, life=f"life {number}") for number in range(50)]
    for number, lease in enumerate(leases):
        pair.source.post(lease.address, 5_000, [np.full(5_000, number, np.uint8)])
        pair.source.post(lease.address, 0, [np.full(5_000, number + 100, np.uint8)])
    assert {outcome.result for outcome in finished(pair.source, 100)} == {Result.LANDED}
    for number, lease in enumerate(leases):
        expected = np.repeat(np.array([number + 100, number], np.uint8), 5_000)
        np.testing.assert_array_equal(landed(pair.sink, lease), expected)
    assert pair.sink.counts().landed_bytes == pair.source.counts().landed_bytes == 500_000


def test_two_sources_of_one_life_have_memory_of_their_own(pair: Pair) -> None:
    other = pair.engine.source()
    one = leased(pair.sink, LARGE, source="rank 0")
    two = leased(pair.sink, LARGE, source="rank 1")
    pair.source.post(one.address, 0, [np.full(LARGE, 1, np.uint8)])
    other.post(two.address, 0, [np.full(LARGE, 2, np.uint8)])
    assert finished(pair.source)[0].result is finished(other)[0].result is Result.LANDED
    pair.sink.fence(one)
    assert (landed(pair.sink, two) == 2).all()
    assert write(other, two.address, bytes(1)).result is Result.LANDED
    other.close()


def test_a_wake_comes_with_every_outcome(pair: Pair) -> None:
    woken: list[None] = []
    pair.source.attach(lambda: woken.append(None))
    lease = leased(pair.sink, 10)
    for _ in range(3):
        write(pair.source, lease.address, b"0123456789")
    pair.source.close()  # and so its thread has come so far
    assert len(woken) == 3


# Fences.


def test_the_fence_keeps_out_one_source_of_one_life(pair: Pair) -> None:
    assert pair.sink.scope is Scope.PAGE


def test_a_write_that_begins_after_a_fence_is_refused(pair: Pair) -> None:
    lease, other = leased(pair.sink, 4097), leased(pair.sink, 4097, life="other")
    assert write(pair.source, lease.address, bytes(4097)).result is Result.LANDED
    ticket = pair.sink.fence(lease)
    assert pair.sink.fence(lease) == ticket
    until(lambda: pair.sink.fenced(ticket), "the fence")
    outcome = write(pair.source, lease.address, bytes([OLD]) * 4097)
    assert outcome.result is Result.REFUSED
    assert outcome.reason
    assert pair.sink.counts().refused_writes == pair.source.counts().refused_writes == 1
    assert write(pair.source, other.address, bytes(4097)).result is Result.LANDED
    with pytest.raises(EngineError, match="fenced"):
        pair.sink.view(lease)
    pair.sink.release(lease)
    again = leased(pair.sink, 4097)
    assert OLD not in landed(pair.sink, again)


def test_a_write_to_a_lease_that_has_ended_is_refused(pair: Pair) -> None:
    lease = leased(pair.sink, 4097)
    pair.sink.release(lease)
    pair.sink.release(lease)
    again = leased(pair.sink, 4097, life="next")
    assert write(pair.source, again.address, bytes(4097)).result is Result.LANDED
    assert write(pair.source, lease.address, bytes([OLD]) * 4097).result is Result.REFUSED
    assert not landed(pair.sink, again).any()
    assert pair.sink.fenced(pair.sink.fence(lease)), "there is nothing to keep out"


def test_a_writer_stopped_in_mid_write_never_reaches_the_next_life(
    pair: Pair, stopped: tuple[Lease, subprocess.Popen[str]]
) -> None:
    lease, process = stopped
    result, memory = into_the_next_life(pair, lease, process)
    assert result == "REFUSED"
    assert (memory == NEW).all()
    assert pair.sink.counts().refused_writes == 1
    until(lambda: pair.sink.counts().abandoned_bytes == 0, "the writer to let go of the memory")


def test_a_lease_that_is_released_too_early_harms_nobody_else(
    pair: Pair, stopped: tuple[Lease, subprocess.Popen[str]]
) -> None:
    """A source that says DRAINED, and is not, loses its own bytes only."""
    result, memory = into_the_next_life(pair, *stopped, fenced=False)
    assert result == "REFUSED"
    assert (memory == NEW).all()


def into_the_next_life(
    pair: Pair, lease: Lease, process: subprocess.Popen[str], *, fenced: bool = True
) -> tuple[str, np.ndarray]:
    """Fence the stopped writer, lease what memory there is to another life, and let it go on."""
    if fenced:
        ticket = pair.sink.fence(lease)
        until(lambda: pair.sink.fenced(ticket), "the fence of a stopped writer")
    pair.sink.release(lease)
    following = leased(pair.sink, LARGE, life="following")
    assert write(pair.source, following.address, np.full(LARGE, NEW, np.uint8)).result is (
        Result.LANDED
    )
    process.send_signal(signal.SIGCONT)
    result, _ = process.communicate()
    return result.strip(), landed(pair.sink, following)


@pytest.mark.parametrize("engine", LOCAL.values(), ids=LOCAL)
def test_memory_that_is_not_given_up_would_show_the_old_life(
    pair: Pair, stopped: tuple[Lease, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: here a fence leaves the memory in the pool."""
    monkeypatch.setattr(Pool, "abandon", Pool.keep)
    result, memory = into_the_next_life(pair, *stopped)
    assert result == "REFUSED"
    assert (memory == OLD).sum() >= 1 << 20


@pytest.mark.parametrize("engine", [ENGINES["tcp"]], ids=["tcp"])
@pytest.mark.parametrize("asked", [True, False])
def test_over_tcp_nothing_lands_in_fenced_memory_because_the_lease_is_asked(
    pair: Pair,
    stopped: tuple[Lease, subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    asked: bool,
) -> None:
    """Not even where nobody else is yet. And a receiver that does not ask lets it all in."""
    lease, process = stopped
    memory = landed(pair.sink, lease)
    until(lambda: (memory == OLD).sum() == SENT_BYTES, "what was sent before")
    if not asked:
        monkeypatch.setattr(Leases, "enter", enter_without_asking)
    ticket = pair.sink.fence(lease)
    until(lambda: pair.sink.fenced(ticket), "the fence")
    process.send_signal(signal.SIGCONT)
    result, _ = process.communicate()
    assert result.strip() == "REFUSED"
    assert (memory == OLD).sum() == (SENT_BYTES if asked else LARGE)


def enter_without_asking(_leases: Leases, held: Held) -> bool:
    held.busy += 1
    return True


def test_memory_in_a_stopped_writers_reach_counts_until_it_is_gone(
    engine: Engine,
) -> None:
    """Admission stops before there is no memory: what is abandoned is of the capacity."""
    pair = Pair(engine, capacity_bytes=LARGE + (4 << 20))
    lease = leased(pair.sink, LARGE)
    process = writing(pair, lease, "stopping")
    status = psutil.Process(process.pid).status
    until(lambda: status() == psutil.STATUS_STOPPED, "the writer to stop")
    ticket = pair.sink.fence(lease)
    until(lambda: pair.sink.fenced(ticket), "the fence")
    pair.sink.release(lease)
    counts = pair.sink.counts()
    assert counts.leased_bytes == 0
    assert counts.abandoned_bytes in {0, LARGE}  # an engine that places the bytes needs not
    if counts.abandoned_bytes:
        assert pair.sink.lease("next", "source", LARGE) is None
    process.kill()
    process.communicate()
    if engine.keeps:
        until(lambda: not pair.sink.counts().connections, "the writer's connection to end")
        assert pair.sink.lease("next", "source", LARGE) is None
    else:
        until(lambda: pair.sink.lease("next", "source", LARGE), "the memory")
    pair.close()


def test_a_fence_ends_a_write_that_is_under_way_in_this_process(pair: Pair) -> None:
    """Whatever the moment: it has landed wholly before the fence, or it is refused."""
    for _ in range(20):
        lease = leased(pair.sink, LARGE)
        pair.source.post(lease.address, 0, [np.full(LARGE, OLD, np.uint8)])
        before = pair.sink.counts()
        until(lambda: pair.sink.fenced(pair.sink.fence(lease)), "the fence")  # noqa: B023
        (outcome,) = finished(pair.source)
        assert outcome.result in {Result.LANDED, Result.REFUSED}
        pair.sink.release(lease)
        after = pair.sink.counts()
        assert after.landed_writes + after.refused_writes >= before.landed_writes
        following = leased(pair.sink, LARGE, life="following")
        write(pair.source, following.address, np.full(LARGE, NEW, np.uint8))
        assert (landed(pair.sink, following) == NEW).all()
        pair.sink.release(following)


def test_a_fence_of_nothing_is_done(pair: Pair) -> None:
    assert pair.sink.fenced(Ticket(999))


# Deaths and ends.


def test_a_writer_killed_in_mid_write_departs(
    pair: Pair, stopped: tuple[Lease, subprocess.Popen[str]]
) -> None:
    lease, process = stopped
    process.kill()
    departed: list[Departed] = []

    def gone() -> bool:
        departed.extend(pair.sink.departed())
        return bool(departed)

    until(gone, "the departure")
    assert [one.source for one in departed] == ["source"]
    assert departed[0].reason
    assert pair.sink.counts().leases == 1, "only the tables end a lease"
    ticket = pair.sink.fence(lease)
    until(lambda: pair.sink.fenced(ticket), "the fence of a dead writer")
    pair.sink.release(lease)
    again = leased(pair.sink, LARGE)
    assert write(pair.source, again.address, bytes([NEW]) * LARGE).result is Result.LANDED
    assert (landed(pair.sink, again) == NEW).all()
    if pair.engine.keeps:
        assert pair.sink.counts().abandoned_bytes == LARGE
    else:
        until(lambda: pair.sink.counts().abandoned_bytes == 0, "the memory")


def test_a_writer_in_another_process_lands_its_bytes(pair: Pair) -> None:
    lease = leased(pair.sink, LARGE)
    process = writing(pair, lease, "through")
    result, _ = process.communicate()
    assert result.strip() == "LANDED"
    assert (landed(pair.sink, lease) == OLD).all()


def test_a_source_that_closes_in_mid_write_leaves_nothing_running(pair: Pair) -> None:
    source = pair.engine.source()
    lease = leased(pair.sink, LARGE)
    source.post(lease.address, 0, [np.zeros(LARGE, np.uint8)])
    source.close()
    source.close()
    with pytest.raises(EngineError, match="closed"):
        source.post(lease.address, 0, [b""])
    ticket = pair.sink.fence(lease)
    until(lambda: pair.sink.fenced(ticket), "the fence")
    pair.sink.release(lease)
    assert write(pair.source, leased(pair.sink, 9).address, bytes(9)).result is Result.LANDED


def test_a_sink_that_closes_in_mid_write_ends_the_writes(engine: Engine) -> None:
    pair = Pair(engine)
    lease = leased(pair.sink, LARGE)
    for _ in range(4):
        pair.source.post(lease.address, 0, [np.zeros(LARGE, np.uint8)])
    pair.sink.close()
    pair.sink.close()
    assert len(finished(pair.source, 4)) == 4
    with pytest.raises(EngineError, match="closed"):
        pair.sink.lease("life", "source", 1)
    pair.source.close()


def test_a_write_to_a_sink_that_is_gone_is_refused(pair: Pair) -> None:
    sink = pair.engine.sink()
    lease = leased(sink, 10)
    sink.close()
    pair.source.connect(lease.address)
    outcome = write(pair.source, lease.address, bytes(10))
    assert outcome.result is Result.REFUSED
    assert lease.address.endpoint in outcome.reason
    assert write(pair.source, leased(pair.sink, 9).address, bytes(9)).result is Result.LANDED


# Limits and wrong arguments.


def test_a_source_takes_no_more_than_is_bounded(pair: Pair) -> None:
    source = pair.engine.source(bytes_max=1)
    lease = leased(pair.sink, LARGE)
    data, posted, refusals = np.zeros(LARGE, np.uint8), 0, 0
    for _ in range(50):
        try:
            source.post(lease.address, 0, [data])
            posted += 1
        except EngineBusy:
            refusals += 1
        assert source.counts().bytes <= LARGE, "the last write may pass the bound, and no other"
    assert refusals
    assert {outcome.result for outcome in finished(source, posted)} == {Result.LANDED}
    assert source.has_room
    assert source.counts().bytes == source.counts().writes == 0
    source.close()


def test_memory_is_bounded_and_comes_back(engine: Engine) -> None:
    pair = Pair(engine, capacity_bytes=LARGE)
    first = leased(pair.sink, LARGE)
    assert pair.sink.lease("life", "source", 1) is None
    with pytest.raises(ValueError, match=f"all staging memory is {LARGE}"):
        pair.sink.lease("life", "source", LARGE + 1)
    with pytest.raises(ValueError, match="0 bytes or more"):
        pair.sink.lease("life", "source", -1)
    assert write(pair.source, first.address, bytes(LARGE)).result is Result.LANDED
    pair.sink.release(first)
    assert pair.sink.counts().pooled_bytes == LARGE
    # Another size: what is kept makes room, as soon as the source has unmapped it.
    until(lambda: pair.sink.lease("life", "source", 5_000_000), "memory of another size")
    pair.close()


def test_memory_that_ended_cleanly_is_leased_again(pair: Pair) -> None:
    regions = set()
    for _ in range(5):
        lease = leased(pair.sink, 4 << 20)
        regions.add(lease.address.region)
        write(pair.source, lease.address, bytes(4 << 20))
        pair.sink.release(lease)
    assert len(regions) == 1


def test_a_write_past_the_lease_is_not_posted(pair: Pair) -> None:
    lease = leased(pair.sink, 100)
    for offset, length in ((0, 101), (100, 1), (-1, 1)):
        with pytest.raises(ValueError, match="of a lease of 100"):
            pair.source.post(lease.address, offset, [bytes(length)])
    with pytest.raises(ValueError, match="of engine 'another'"):
        pair.source.post(msgspec.structs.replace(lease.address, engine="another"), 0, [b""])
    assert pair.source.counts().writes == 0


def test_a_forged_token_fails_only_its_own_write(pair: Pair) -> None:
    """Writes of others may run over the same connection, which goes on."""
    lease = leased(pair.sink, 100)
    token = bytes([lease.address.token[0]]) + bytes(len(lease.address.token) - 1)
    forged = msgspec.structs.replace(lease.address, token=token)
    assert write(pair.source, lease.address, bytes([NEW]) * 100).result is Result.LANDED
    assert write(pair.source, forged, bytes([OLD]) * 100).result is Result.REFUSED
    assert np.all(landed(pair.sink, lease) == NEW)
    assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED
    assert not landed(pair.sink, lease).any()
    counts = pair.sink.counts()
    assert (counts.refused_writes, counts.connections, counts.dropped_peers) == (1, 1, 0)
    assert pair.sink.departed() == []


def test_a_lease_that_claims_to_be_longer_is_found_out(pair: Pair) -> None:
    """A source that writes past its lease is at fault, and dropped."""
    lease = leased(pair.sink, 4096)
    longer = msgspec.structs.replace(lease.address, length=8192)
    outcome = write(pair.source, longer, bytes(8192))
    assert outcome.result is not Result.LANDED
    until(lambda: pair.sink.counts().dropped_peers == 1, "the peer to be dropped")


# Addresses.


@given(data=st.binary(max_size=600))
def test_any_bytes_are_an_address_or_a_remote_error(data: bytes) -> None:
    try:
        address = Address.decode(data)
    except RemoteProtocolError:
        return
    assert Address.decode(address.encode()) == address


def test_a_malformed_address_is_named() -> None:
    for data in (b"", b"x" * 600, msgspec.msgpack.encode(["tcp", "", 0, 0, 0, b""])):
        with pytest.raises(RemoteProtocolError, match="address"):
            Address.decode(data)


def test_an_address_travels(pair: Pair) -> None:
    lease = leased(pair.sink, 77)
    assert Address.decode(lease.address.encode()) == lease.address
    assert replace(lease).address.length == 77
