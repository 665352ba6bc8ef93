"""The times of a drill: its hand-overs, and apart from them what comes before, after and beside."""

from types import SimpleNamespace
from typing import Any, cast

from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.rank import Report
from pdproto.drill.handoff.ranks import Progress
from pdproto.drill.handoff.receivers import Receivers
from pdproto.drill.handoff.verdict import HandoffVerdict

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
