"""The times of a drill: its hand-overs, and apart from them what comes before, after and beside."""

from threading import Event, Thread
from time import process_time, thread_time
from types import SimpleNamespace
from typing import Any, cast

from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.processor import (
    COPIES,
    GROUP,
    NODE,
    OTHER,
    SCHEDULER,
    ProcessorTime,
    parts_of,
)
from pdproto.drill.handoff.rank import Report
from pdproto.drill.handoff.ranks import Progress
from pdproto.drill.handoff.receivers import Receivers
from pdproto.drill.handoff.verdict import HandoffVerdict
from tests.waiting import ended

TOPOLOGY = Topology(pp=1, tp=1, cp=1)
LOAD = Load(seed=0, requests=4, layers=1, page_bytes=8, request_pages_max=1, pool_pages=4,
            abort_rate=0.0, abort_within_s=0.0, in_flight=4)


def test_the_rate_is_of_the_hand_overs_alone() -> None:
    """The rank of prefill is ready first, and ends its last request after decode does."""
    (prefill,), (decode,) = TOPOLOGY.prefill, TOPOLOGY.decode
    reports = {
        prefill: Report(prefill, began=101.0, last_ended=105.0, processor_seconds=1.0),
        decode: Report(decode, began=103.0, last_ended=104.5, processor_seconds=0.5,
                       verify_seconds=0.25),
    }
    members = cast("Any", {name: SimpleNamespace(report=one) for name, one in reports.items()})
    verdict = HandoffVerdict(TOPOLOGY, LOAD, members, started=100.0, ended=108.0,
                             restarted=frozenset())
    assert (verdict.start_seconds, verdict.seconds, verdict.release_seconds) == (3.0, 2.0, 3.0)
    assert verdict.verify_seconds == 0.25
    assert LOAD.requests / verdict.seconds == 2.0
    assert verdict.processor_seconds == 1.5


def test_the_clock_of_a_rank_stops_when_its_last_request_has_ended() -> None:
    report = Report("decode-0")
    progress = Progress(cast("Any", SimpleNamespace(send=lambda _: None)), report, requests=2)
    assert report.began == report.last_ended
    report.outcomes[0] = True
    progress.tell()
    ended = report.last_ended
    assert ended > report.began
    used = report.processor_seconds
    assert used > 0.0
    sum(range(100_000))
    progress.tell()
    assert (report.last_ended, report.processor_seconds) == (ended, used)


def test_the_time_to_compare_bytes_is_counted() -> None:
    """At a rank that has no source, it is small, and not nothing."""
    report = Report("decode-0")
    rank = SimpleNamespace(load=LOAD)
    receivers = cast("Any", SimpleNamespace(rank=rank, pools={}, report=report))
    held = cast("Any", SimpleNamespace(request=SimpleNamespace(room=0)))
    Receivers._verify(receivers, held)
    assert report.verify_seconds > 0.0


def test_processor_time_is_split_by_thread() -> None:
    """Each thread belongs to the part that its name says, and a part has its threads' time alone.

    The threads live until they have been asked for, as those of a rank do.
    """
    asked, began = Event(), process_time()
    parts = ProcessorTime(parts_of("prefill-0-0-0"))
    threads = {part: Worker(name, asked) for part, name in (
        (NODE, "pdproto-prefill-0-0-0"), (GROUP, "pdproto-prefill.0"), (COPIES, "pdproto-pack_0"),
        (OTHER, "pdproto-registrar"))}
    for thread in threads.values():
        thread.start()
        thread.worked.wait(60.0)
    seconds = parts.by_part()
    asked.set()
    for thread in threads.values():
        ended(thread)
    for part, thread in threads.items():
        assert seconds[part] >= thread.used, part
    assert sum(seconds.values()) <= process_time() - began
    assert seconds[SCHEDULER] < sum(thread.used for thread in threads.values())


class Worker(Thread):
    """Uses the processor for a while, and then waits. used: seconds of its processor time."""

    def __init__(self, name: str, asked: Event) -> None:
        super().__init__(name=name, daemon=True)
        self.asked, self.worked, self.used = asked, Event(), 0.0

    def run(self) -> None:
        began = thread_time()
        while self.used < 0.02:
            sum(range(1_000))
            self.used = thread_time() - began
        self.worked.set()
        self.asked.wait(60.0)
