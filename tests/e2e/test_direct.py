"""Direct page writes, end to end: real nodes and sockets, and no memory between wire and pages."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.cli.systems import load
from pdproto.engine.contract import Address, EngineError, Result
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpLine, TcpSource
from pdproto.pages import host_copies as packing
from pdproto.pages.chunks import pack_pages
from pdproto.pages.direct import DirectPages
from pdproto.pages.page_target import PageTarget
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from tests.e2e.drill import Drill, handoff, run
from tests.e2e.pairs import NEVER, Ends, layers, until
from tests.engine.engines import write
from tests.node.data_paths import polls

FAILED, SUCCESS, WAITING = KVPoll.FAILED, KVPoll.SUCCESS, KVPoll.WAITING_FOR_INPUT
TABLES = "pdproto.spec.handoff.direct:IN_PLACE"


class DirectEnds(Ends):
    """Ends whose bytes go over TCP, from the pages of one into the pages of the other."""

    def __init__(self, sources: int, waits: dict[str, float]) -> None:
        names = [f"p{number}" for number in range(sources)]
        self.told = {name: io.BytesIO() for name in (*names, "d")}
        self.pools = {name: (layers(), layers()) for name in names}
        self.engine = TcpSink()
        chosen = NEVER | waits
        self.prefills = [
            PrefillNode(name, SourcePages(self.pools[name][0], TcpSource()), waits=chosen,
                        trace=TraceWriter(name, self.told[name]))
            for name in names]
        data_path = DirectPages({name: self.pools[name][1] for name in names}, self.engine)
        self.decode: DecodeNode = DirectDecodeNode(
            "d", data_path, waits=chosen, trace=TraceWriter("d", self.told["d"]))

    def fill(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for ours, _ in self.pools.values():
            for layer in ours:
                layer[:] = rng.integers(0, 256, layer.shape, np.uint8)

    def same(self, ours: list[int], theirs: list[int]) -> bool:
        return all(np.array_equal(mine[ours], yours[theirs])
                   for pools in self.pools.values() for mine, yours in zip(*pools, strict=True))

    def conforms(self, folder: Path) -> None:
        """What all nodes have told is what the tables of this variant allow."""
        for name, told in self.told.items():
            (folder / f"{name}.jsonl").write_bytes(told.getvalue())
        verified = verify(load(TABLES), sorted(folder.glob("*.jsonl")))
        assert verified.verdict is Verdict.HOLDS, verified


@contextmanager
def direct(tmp_path: Path, sources: int = 1, **waits: float) -> Iterator[DirectEnds]:
    nodes = DirectEnds(sources, waits)
    try:
        yield nodes
        nodes.settled()
        assert nodes.engine.counts().target_bytes == 0
        nodes.conforms(tmp_path)
    finally:
        for node in nodes.nodes:
            node.close()


def test_direct_writes_need_no_staging_memory(tmp_path: Path) -> None:
    with direct(tmp_path, sources=2) as nodes:
        for room in range(3):
            nodes.hand_over(room)
        counts = nodes.engine.counts()
        assert counts.landed_bytes > 3 * 2 * 2 * 4 * 4096
        assert counts.leased_bytes == counts.pooled_bytes == 0, "there is no staging memory"


def test_a_source_may_send_chunks_of_any_number_of_pages(tmp_path: Path) -> None:
    """Scattered pages, chunks of one page, of none, and of many."""
    ours, theirs = [5, 6, 7, 1, 9, 30], [8, 3, 4, 60, 61, 0]
    with direct(tmp_path) as nodes:
        nodes.fill(1)
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(theirs)
        until(polls([sender], WAITING))
        sender.send(ours[:1], last=False)
        sender.send([], last=False)
        sender.send(ours[1:5], last=False)
        sender.send(ours[5:], metadata=b"row")
        until(polls([sender, receiver], SUCCESS))
        assert nodes.same(ours, theirs)
        assert receiver.metadata == {"p0": b"row"}
        receiver.close()


def test_no_write_lands_between_the_commit_and_the_close(tmp_path: Path) -> None:
    with direct(tmp_path) as nodes:
        nodes.fill(1)
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish([0, 1])
        until(polls([sender], WAITING))
        address = Address.decode(sender.lane(0).address)
        sender.send([2, 3])
        until(polls([sender, receiver], SUCCESS))
        assert not receiver.released, "the answer is generated from these pages"
        again = TcpSource()
        assert write(again, address, bytes(address.length)).result is Result.REFUSED
        again.close()
        assert nodes.same([2, 3], [0, 1])
        assert nodes.decode.metrics.read()["num_decode_pages"] == 2
        receiver.close()
        until(lambda: receiver.released)


def test_pages_that_hold_other_bytes_than_were_packed_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def spoiling(*arguments: object) -> object:
        packed = pack_pages(*arguments)  # type: ignore[arg-type]
        packed[4096 + 7] ^= 1
        return packed

    with direct(tmp_path) as nodes:
        monkeypatch.setattr(packing, "pack_pages", spoiling)
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish([0, 1])
        until(polls([sender], WAITING))
        sender.send([2, 3])
        until(polls([receiver], FAILED))
        assert receiver.failure == "the digests of the bytes of p0 do not agree"
        until(lambda: receiver.released)


class Stuck:
    """Sources that stop in the middle of a write, until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.may_go_on, self.has_stopped = Event(), Event()
        flush = TcpLine.flush

        def stopping(line: TcpLine) -> None:
            if self.may_go_on.is_set() or not line.open:
                flush(line)
            elif not self.has_stopped.is_set() and line._connected and line._next():
                line._took(line.sock.send(b"".join(line._rest)[:after]))
                self.has_stopped.set()
            elif not line._connected:
                flush(line)

        monkeypatch.setattr(TcpLine, "flush", stopping)


@pytest.mark.parametrize("after", [0, 72 * 2 + 5000])
def test_no_other_request_gets_pages_until_a_stopped_writer_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """A write that has begun, or is to begin, when its hand-over fails; then it goes on."""
    theirs = list(range(8))
    with direct(tmp_path, no_drain=0.4) as nodes:
        nodes.fill(1)
        nodes.hand_over(0)  # so that there is a connection
        stuck, may_be_up, fenced = Stuck(monkeypatch, after), Event(), nodes.engine.fenced
        monkeypatch.setattr(nodes.engine, "fenced",
                            lambda ticket: may_be_up.is_set() and fenced(ticket))
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(theirs)
        until(polls([sender], WAITING))
        sender.send(theirs)
        until(stuck.has_stopped.is_set)
        receiver.abort("the client has left")
        until(polls([sender, receiver], FAILED))
        assert not receiver.released, "the writer may go on at any moment"
        eager = nodes.receiver(2)
        eager.publish([7, 60])  # the second is nobody's, nor was it the first hand-over's
        until(lambda: nodes.decode.metrics.read()["num_decode_memory_queue_reqs"] == 1)
        assert eager.poll() is KVPoll.BOOTSTRAPPING, "it waits for page 7"
        eager.abort("the client has left")
        until(polls([eager], FAILED))
        may_be_up.set()
        nodes.decode._loop.wake()
        until(lambda: receiver.released)
        assert nodes.decode.metrics.read()["fences_done"] == 1

        following = nodes.receiver(3)
        following.publish(theirs)
        (late,) = nodes.senders(3)
        until(polls([late], WAITING))
        before = [layer.copy() for layer in nodes.pools["p0"][1]]
        stuck.may_go_on.set()
        nodes.prefills[0]._node.data_path.engine.loop.call(lambda: None)  # type: ignore[attr-defined]
        until(lambda: nodes.prefills[0].metrics.read().get("refused_writes"))
        for layer, old in zip(nodes.pools["p0"][1], before, strict=True):
            assert np.array_equal(layer, old), "a byte of the dead life has landed"
        nodes.fill(2)
        late.send(list(range(8, 16)))
        until(polls([late, following], SUCCESS))
        assert nodes.same(list(range(8, 16)), theirs)
        following.close()


def test_digests_are_computed_of_the_bytes_in_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes a page between the last byte and the commit is found."""
    intact = PageTarget.intact
    with direct(tmp_path) as nodes:
        def spoilt(target: PageTarget, chunks: list[int], key: int) -> bool:
            nodes.pools["p0"][1][1][5] ^= 1
            return intact(target, chunks, key)

        monkeypatch.setattr(PageTarget, "intact", spoilt)
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish([4, 5])
        until(polls([sender], WAITING))
        sender.send([2, 3])
        until(polls([receiver], FAILED))
        assert "digest" in (receiver.failure or "")
        until(lambda: receiver.released)


def test_an_abort_before_anything_is_written_gives_the_pages_back(tmp_path: Path) -> None:
    with direct(tmp_path, sources=2) as nodes:
        senders, receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(range(8))
        until(polls(senders, WAITING))
        receiver.abort("the client has left")
        until(polls([*senders, receiver], FAILED))
        until(lambda: receiver.released)
        nodes.hand_over(2)


def test_a_page_number_out_of_range_is_refused_at_the_call(tmp_path: Path) -> None:
    with direct(tmp_path) as nodes:
        (sender,), receiver = nodes.senders(1), nodes.receiver(1)
        with pytest.raises(ValueError, match="pages: 64: want 0 to 63"):
            receiver.publish([64])
        receiver.abort()
        until(polls([sender, receiver], FAILED))
        nodes.hand_over(2)


def test_an_engine_without_a_page_fence_is_refused_at_the_start() -> None:
    engine = SharedSink()
    with pytest.raises(EngineError, match=r"SharedSink declares no page fence.*\(SinkPages\)"):
        DirectPages(layers(), engine)
    engine.close()


def test_no_source_keeps_pages_when_one_source_gets_none() -> None:
    data_path = DirectPages(layers(), TcpSink())
    with pytest.raises(ValueError, match="page 64 does not exist"):
        data_path.lease(Life(1, 2, 3), {"p0": [0], "p1": [64]})
    assert not data_path._targets
    assert data_path.engine.counts().target_bytes == 0
    data_path.close()


def test_m3_4_every_byte_is_right_while_a_fifth_is_aborted(tmp_path: Path) -> None:
    """Real processes: every byte verified, everything given back, the traces are the tables'."""
    drill = Drill(tmp_path, "--direct", "--engine", "tcp", "--requests", "120",
                  "--abort-rate", "0.2")
    assert 0 < drill.numbers["failed"] < 60
    rank = drill.numbers["ranks"]["decode-0"]
    assert rank["landed_chunks"] > 0
    assert rank["engine_pooled_bytes"] == 0, "no staging memory has been used"
    verified = verify(load(TABLES), sorted(tmp_path.glob("*.jsonl")))
    assert verified.verdict is Verdict.HOLDS, verified


@pytest.mark.slow
def test_m1_4_a_rank_that_is_killed_in_mid_write_leaves_nothing_in_pages() -> None:
    numbers = handoff("--direct", "--engine", "tcp", "--requests", "300", "--abort-rate", "0.1",
                      "--kill")
    assert numbers["restarted"] == ["prefill-0-0-0"]
    assert numbers["succeeded"] > 100


@pytest.mark.slow
def test_m1_3_ranks_write_their_own_parts_straight_into_pages() -> None:
    numbers = handoff("--direct", "--engine", "tcp", "--requests", "60", "--pp", "2", "--tp", "2",
                      "--abort-rate", "0.2")
    assert numbers["succeeded"] > 30


def test_the_command_names_the_engines_that_have_a_page_fence() -> None:
    done = run("--direct", "--engine", "shm")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "engine shm declares no page fence" in done.stderr
    assert "tcp" in done.stderr
