"""What the engines over a library promise whatever the library does: it lies, fails, comes late."""

import gc
import socket
import weakref
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType
from typing import Final, cast

import msgspec
import numpy as np
import pytest

from pdproto.engine import mooncake, nixl, one_sided
from pdproto.engine.contract import EngineBusy, EngineError, Extent, Lease, Result
from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, decode
from pdproto.engine.memory import Pool
from pdproto.engine.one_sided import Description, Piece, Transport, check_versions, release
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import OneSidedSource
from pdproto.kernels.chunk import register
from pdproto.pages.chunks import chunk_bytes, pack_pages, unpack_verified
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import DESCRIPTION_MAX
from tests.engine.engines import finished, write
from tests.engine.obedient import Fault, Obedient, ObedientSink, ObedientSource
from tests.waiting import until

OLD, NEW = 0xAB, 0x5C
MEGABYTE = 1 << 20


class Ends:
    """Both ends of an engine over an obedient library."""

    def __init__(self) -> None:
        self.sink, self.source = ObedientSink(), ObedientSource()
        self.obedient: Final = self.source.obedient
        self.fault: Final = Fault()

    def lease(self, length: int, life: str = "life") -> Lease:
        lease = self.sink.lease(life, "source", length)
        assert lease is not None
        return lease

    def landed(self, lease: Lease) -> np.ndarray:
        return np.frombuffer(self.sink.view(lease), np.uint8)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.source.close()
    ends.sink.close()
    assert ends.obedient.closed
    assert not Obedient.registered
    assert ends.sink.obedient.closed


def test_a_write_that_the_library_only_reports_has_no_digest(ends: Ends) -> None:
    """An engine cannot know better than its library. The sink does, and commits nothing."""
    layout = register([np.random.default_rng(1).integers(0, 256, (8, 1, 1, 4096), np.uint8)])
    lease = ends.lease(chunk_bytes(layout, 3))
    payload = pack_pages(layout, [4, 5, 6], key=7)
    ends.obedient.rule = ends.fault.lies
    assert write(ends.source, lease.address, payload).result is Result.LANDED
    assert not unpack_verified(layout, ends.sink.view(lease), [0, 1, 2], key=7).clean
    ends.obedient.rule = None
    assert write(ends.source, lease.address, payload).result is Result.LANDED
    assert unpack_verified(layout, ends.sink.view(lease), [0, 1, 2], key=7).clean


@pytest.mark.parametrize("abandons", [True, False])
def test_a_failed_write_that_lands_later_hits_no_leased_memory(
    ends: Ends,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    abandons: bool,
) -> None:
    """And where a fence leaves the memory in the pool, it lands in the next life's."""
    if not abandons:
        monkeypatch.setattr(Pool, "abandon", Pool.keep)
    lease = ends.lease(MEGABYTE)
    ends.obedient.rule = ends.fault.is_late
    outcome = write(ends.source, lease.address, np.full(MEGABYTE, OLD, np.uint8))
    assert outcome.result is Result.ERROR, "it may still come"
    for text in (outcome.reason, caplog.text):
        assert lease.address.endpoint in text
        assert "obedient" in text
    ticket = ends.sink.fence(lease)
    assert ends.sink.fenced(ticket)
    ends.sink.release(lease)
    ends.obedient.rule = None
    following = ends.lease(MEGABYTE, "following")
    assert write(ends.source, following.address, bytes([NEW]) * MEGABYTE).result is Result.LANDED
    ends.fault.land()
    assert (ends.landed(following) == (NEW if abandons else OLD)).all()


def test_a_connection_with_a_failure_ends_so_that_memory_is_counted_free(ends: Ends) -> None:
    lease = ends.lease(MEGABYTE)
    ends.obedient.rule = ends.fault.hangs
    ends.source.post(lease.address, 0, [bytes(MEGABYTE)])
    until(lambda: ends.fault.late, "the transfer to begin")
    assert ends.sink.obedient.expected == 1
    ends.sink.fence(lease)
    assert ends.sink.counts().abandoned_bytes == MEGABYTE
    ends.obedient.rule = ends.fault.is_late
    assert write(ends.source, ends.lease(9).address, bytes(9)).result is Result.ERROR
    assert ends.sink.counts().abandoned_bytes == MEGABYTE, "the other write needs the connection"
    assert ends.sink.counts().connections == 1


def test_a_failure_alone_ends_the_connection(ends: Ends) -> None:
    lease = ends.lease(MEGABYTE)
    ends.obedient.rule = ends.fault.is_late
    assert write(ends.source, lease.address, bytes(9)).result is Result.ERROR
    until(lambda: ends.sink.counts().connections == 0, "the connection to end")
    assert [one.source for one in ends.sink.departed()] == ["source"]
    ends.sink.fence(lease)
    assert ends.sink.counts().abandoned_bytes == 0
    ends.obedient.rule = None
    assert write(ends.source, ends.lease(9).address, bytes(9)).result is Result.LANDED


def test_a_refused_write_has_its_outcome_when_the_library_has_ended(ends: Ends) -> None:
    """Until then it reads from the caller's memory, which must not change."""
    lease = ends.lease(MEGABYTE)
    ends.obedient.rule = ends.fault.hangs
    ends.source.post(lease.address, 0, [bytes(MEGABYTE)])
    until(lambda: ends.obedient.transfers, "the transfer to begin")
    ends.sink.fence(lease)
    until(lambda: ends.sink.counts().refused_writes == 1, "the refusal")
    assert ends.source.completed() == []
    assert ends.sink.counts().abandoned_bytes == MEGABYTE
    ends.obedient.transfers[0].well = True
    (outcome,) = finished(ends.source)
    assert outcome.result is Result.REFUSED
    until(lambda: ends.sink.counts().abandoned_bytes == 0, "the source to say that it has ended")


def test_a_refusal_stops_a_write_between_two_transfers(ends: Ends) -> None:
    lease = ends.lease(12 * MEGABYTE)
    ends.obedient.rule = ends.fault.hangs
    ends.source.post(lease.address, 0, [np.zeros(12 * MEGABYTE, np.uint8)])
    until(lambda: ends.obedient.transfers, "the first transfer to begin")
    ends.sink.fence(lease)
    until(lambda: ends.sink.counts().refused_writes == 1, "the refusal")
    ends.source.post(ends.lease(0).address, 0, [])
    (outcome,) = finished(ends.source)
    assert outcome.result is Result.LANDED, "and so the refusal has come before it"
    ends.obedient.transfers[0].well = True
    (outcome,) = finished(ends.source)
    assert outcome.result is Result.REFUSED
    assert [transfer.bytes for transfer in ends.obedient.transfers] == [4 * MEGABYTE]


def test_memory_that_nobody_has_registered_fails_its_write(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = ends.lease(4096)
    monkeypatch.setattr(Obedient, "registered", {})
    outcome = write(ends.source, lease.address, bytes(4096))
    assert outcome.result is Result.ERROR
    assert "is not registered" in outcome.reason
    assert lease.address.endpoint in outcome.reason
    monkeypatch.undo()


def test_landing_memory_that_cannot_be_registered_is_said(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Obedient, memory: Extent) -> None:
        raise EngineError(f"no room for {memory.length} bytes")

    monkeypatch.setattr(Obedient, "register", refuse)
    with pytest.raises(EngineError, match="no room for 4096 bytes"):
        ends.lease(4096)
    monkeypatch.undo()
    assert ends.lease(4096).length == 4096


def test_memory_is_registered_for_as_long_as_it_is_read(ends: Ends) -> None:
    lease, data = ends.lease(4096), np.zeros(2048, np.uint8)
    for offset in (0, 2048):
        ends.source.post(lease.address, offset, [data])
    assert {outcome.result for outcome in finished(ends.source, 2)} == {Result.LANDED}
    place = data.ctypes.data, data.nbytes
    assert place in ends.obedient.enlisted
    until(lambda: data.ctypes.data not in Obedient.registered, "the memory to be forgotten")


def test_an_address_is_landing_memory_once(ends: Ends) -> None:
    """Whatever its sizes are, and however often memory makes room for that of another size."""
    ends.source.close()
    used: dict[int, int] = {}
    sink = ObedientSink(capacity_bytes=2 * MEGABYTE)
    for number in range(40):
        lease = sink.lease("life", "source", 40_000 * (number % 25 + 1))
        assert lease is not None
        held = sink.leases._held[lease.number]
        assert isinstance(held.backing, one_sided.Piece)
        start = held.backing.address
        region = used.setdefault(start, held.backing.region)
        assert region == held.backing.region, "another piece has been here"
        sink.release(lease)
    sink.close()


def test_memory_that_is_given_up_goes_back_to_the_system(ends: Ends) -> None:
    lease = ends.lease(8 * MEGABYTE)
    ends.obedient.rule = ends.fault.hangs
    backing = ends.sink.leases._held[lease.number].backing
    assert isinstance(backing, Piece)
    np.frombuffer(backing.view(8 * MEGABYTE), np.uint8)[:] = OLD
    ends.source.post(lease.address, 0, [bytes(9)])
    until(lambda: ends.fault.late, "the transfer to begin")
    ends.sink.fence(lease)
    assert not any(backing.memory[:4096])
    ends.fault.land()


def test_a_source_that_ends_keeps_the_memory_that_the_library_reads(ends: Ends) -> None:
    lease = ends.lease(4096)
    ends.obedient.rule = ends.fault.hangs
    ends.source.post(lease.address, 0, [bytes(4096)])
    until(lambda: ends.fault.late, "the transfer to begin")
    ends.source.close()
    ends.source.close()
    assert not ends.source.movers
    assert ends.sink.fenced(ends.sink.fence(lease))


def test_a_source_takes_no_more_than_is_bounded(ends: Ends) -> None:
    source = ObedientSource(writes_max=1)
    lease = ends.lease(4096)
    source.obedient.rule = ends.fault.hangs
    source.post(lease.address, 0, [bytes(9)])
    with pytest.raises(EngineBusy):
        source.post(lease.address, 0, [bytes(9)])
    until(lambda: ends.fault.late, "the transfer to begin")
    source.close()


# What the two ends say to each other.


def test_ends_of_two_releases_name_both(ends: Ends) -> None:
    other = ObedientSource("1.3.0")
    outcome = write(other, ends.lease(9).address, bytes(9))
    assert outcome.result is Result.REFUSED
    assert "the sink has obedient 1.2.3, and this source 1.3.0" in outcome.reason
    other.close()


def test_a_build_of_the_same_release_is_no_difference() -> None:
    check_versions("any", ours="0.3.13", theirs="0.3.13.post1")
    assert release("1.5.1.dev2") == (1, 5, 1)
    assert release("unknown") == ()


@pytest.mark.parametrize(
    "answer",
    [
        Frame(Kind.GRANTED, 1, 4096, 0, 1).encode(),
        Frame(Kind.GRANTED, 1, 4096, 70_000, 1).encode(),
        Frame(Kind.GRANTED, 1, 4096, 9, 1).encode() + bytes(9),
        Frame(Kind.GRANTED, 2, 4096, 0, 1).encode(),
        Frame(Kind.LANDED, 1).encode(),
        Frame(Kind.REVOKED, 1).encode(),
    ],
    ids=["no description", "too long", "nonsense", "another write", "not written", "no such kind"],
)
def test_a_sink_that_grants_nonsense_is_left(ends: Ends, answer: bytes) -> None:
    lease = ends.lease(9)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        address = msgspec.structs.replace(lease.address, endpoint=f"{host}:{port}")
        ends.source.post(address, 0, [bytes(9)])
        sock, _ = listener.accept()
        sock.sendall(Frame(Kind.CHALLENGE, token=bytes(32)).encode())
        assert decode(sock.recv(FRAME_BYTES), frozenset(Kind)).kind is Kind.WRITE
        sock.sendall(answer)
        (outcome,) = finished(ends.source)
        sock.close()
    assert outcome.result is Result.REFUSED
    assert not ends.obedient.transfers
    assert write(ends.source, lease.address, bytes(9)).result is Result.LANDED


def test_a_description_at_the_limit_is_read_and_one_past_it_fails_the_lease(ends: Ends) -> None:
    def described(length: int) -> Description:
        empty = len(Description("1.2.3", "here", bytes(1 << 15)).encode()) - (1 << 15)
        return Description("1.2.3", "here", bytes(length - empty))

    for length, result in ((DESCRIPTION_MAX, Result.LANDED), (DESCRIPTION_MAX + 1, Result.REFUSED)):
        ends.sink.obedient.description = described(length)
        assert len(ends.sink.obedient.description.encode()) == length
        lease = ends.lease(9, f"life {length}")
        outcome = write(ends.source, lease.address, bytes(9))
        assert outcome.result is result, outcome
    assert f"description: {DESCRIPTION_MAX + 1} bytes" in outcome.reason


def test_an_empty_write_is_enough_to_meet_a_sink(ends: Ends) -> None:
    lease = ends.lease(9)
    assert write(ends.source, lease.address, b"").result is Result.LANDED
    assert ends.obedient.met == 1
    assert write(ends.source, lease.address, bytes(9)).result is Result.LANDED
    assert ends.obedient.met == 1


def test_a_sink_that_the_library_cannot_meet_is_left(ends: Ends) -> None:
    ends.sink.obedient.description = Description("1.2.3", "elsewhere")
    outcome = write(ends.source, ends.lease(9).address, bytes(9))
    assert outcome.result is Result.REFUSED
    assert "nobody is called 'elsewhere'" in outcome.reason
    ends.sink.obedient.description = None
    assert write(ends.source, ends.lease(9).address, bytes(9)).result is Result.LANDED


def test_a_sink_that_is_not_met_leaves_nothing_of_the_library(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it raised holds its frames, and they its agent, sockets and all: until a collection."""
    frames = weakref.WeakSet[Obedient]()

    def meet(_: Obedient, description: Description) -> None:
        frames.add(agent := Obedient())
        raise RemoteProtocolError(f"{agent.engine} does not take {description.peer}")

    monkeypatch.setattr(Obedient, "meet", meet)
    gc.collect()
    gc.disable()
    try:
        outcome = write(ends.source, ends.lease(9).address, bytes(9))
        assert "does not take here" in outcome.reason
        until(lambda: not frames, "the frames to be freed")
    finally:
        gc.enable()


def test_a_library_that_stumbles_ends_its_engine_loudly(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(*_: object) -> None:
        raise ZeroDivisionError("in the library")

    monkeypatch.setattr(Obedient, "begin", stumble)
    lease = ends.lease(9)
    ends.source.post(lease.address, 0, [bytes(9)])
    until(lambda: "has failed" in caplog.text, "the failure to be logged")
    with pytest.raises(EngineError, match="in the library"):
        ends.source.post(lease.address, 0, [bytes(9)])


def test_a_source_that_copied_without_a_grant_is_dropped(ends: Ends) -> None:
    lease = ends.lease(9)
    host, _, port = lease.address.endpoint.rpartition(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(Frame(Kind.COPIED, 1).encode())
        assert len(sock.recv(2 * FRAME_BYTES, socket.MSG_WAITALL)) == FRAME_BYTES  # a challenge
    until(lambda: ends.sink.counts().dropped_peers == 1, "the peer to be dropped")


def test_an_engine_that_another_one_answers_is_said(ends: Ends) -> None:
    """The peer has not the engine that the address is of."""
    with pytest.raises(ValueError, match="of engine 'another': this engine is 'obedient'"):
        ends.source.connect(msgspec.structs.replace(ends.lease(9).address, engine="another"))


def test_descriptions_are_read_or_refused() -> None:
    description = Description("1.2.3", "here", b"data")
    assert Description.decode(description.encode()) == description
    for data in (b"", b"nonsense", Frame(Kind.WRITE).encode()):
        with pytest.raises(RemoteProtocolError, match="description"):
            Description.decode(data)


# Libraries that are not there.


@pytest.mark.parametrize("library", [mooncake, nixl])
def test_an_engine_that_is_not_installed_says_how(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(one_sided, "version", missing)
    with pytest.raises(EngineError, match=r"^engine '(mooncake|nixl)' is not installed: pip inst"):
        library.load_library()


@pytest.mark.parametrize(("library", "old"), [(mooncake, "0.3.10.post2"), (nixl, "0.7.1")])
def test_a_release_that_is_too_old_is_named(
    library: ModuleType, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_sided, "version", lambda _package: old)
    with pytest.raises(EngineError, match=rf"{old} is installed, and .* or later .*: pip install"):
        library.load_library()


def test_a_library_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_module: str) -> object:
        raise ImportError("libibverbs.so.1: cannot open shared object file")

    monkeypatch.setattr(one_sided, "version", lambda _package: "99.0.0")
    monkeypatch.setattr(one_sided, "import_module", broken)
    with pytest.raises(EngineError, match=r"does not load: libibverbs.*apt-get install"):
        mooncake.load_library()


class Half:
    """A library of which a part was forgotten."""

    engine = "half"
    version = "1"

    def unknown(self, *_: object) -> None:
        raise AssertionError

    register = unregister = describe = meet = begin = ended = unknown


@pytest.mark.parametrize("side", [OneSidedSink, OneSidedSource])
def test_a_library_that_lacks_a_part_is_refused_at_once(
    side: type[OneSidedSink] | type[OneSidedSource]
) -> None:
    """A thread called it, and died: the drill waited for its time-out."""
    with pytest.raises(EngineError, match=r"^Half lacks expect, close: want every part of a"):
        side(cast("Transport", Half()))
