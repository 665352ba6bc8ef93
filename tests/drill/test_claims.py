"""What a drill and a soak claim at their end, and that they claim nothing beside a complaint."""

from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from lab.soak.books import Totals
from lab.soak.report import SoakResult
from lab.soak.report import show as show_soak
from lab.soak.state import SoakSettings, SoakState
from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.rank import Report
from pdproto.drill.handoff.verdict import HandoffVerdict

TOPOLOGY = Topology(pp=1, tp=1, cp=1)
LOAD = Load(seed=0, requests=1, layers=1, page_bytes=8, request_pages_max=1, pool_pages=4,
            abort_rate=0.0, abort_within_s=0.0, in_flight=4)
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a wrong byte": ("decode", {"corrupt": [0]}, "the pages hold other bytes than were sent"),
    "a lost end": ("prefill", {"outcomes": {}}, "has not seen the end of 1 requests"),
    "a byte that is not looked at": ("decode", {"verified_bytes": 0},
                                     "has compared 0 bytes, and has taken 8"),
    "a disagreement": ("prefill", {"outcomes": {0: False}}, "has succeeded, and "),
    "a kept page": ("decode", {"left": {"pages": 2.0}}, "still has 2 pages"),
}


def ended(wrong: str = "", *, success: bool = True) -> HandoffVerdict:
    """The end of a drill of one request, in which this goes wrong."""
    side, changes, _ = WRONG.get(wrong, ("nowhere", {}, ""))
    reports = {}
    for name in (*TOPOLOGY.prefill, *TOPOLOGY.decode):
        right: dict[str, Any] = {"outcomes": {0: success}, "latencies": [0.1], "verified_bytes":
                                 8 if success and name in TOPOLOGY.decode else 0}
        reports[name] = Report(name, **{**right, **(changes if name.startswith(side) else {})})
    members = cast("Any", {
        name: SimpleNamespace(report=report, rank=SimpleNamespace(name=name), leftovers={})
        for name, report in reports.items()})
    return HandoffVerdict(TOPOLOGY, LOAD, members, started=0.0, ended=1.0, restarted=frozenset())


def shown(wrong: str = "") -> str:
    return printed(ended(wrong).show)


def printed(show: Any, *arguments: object) -> str:
    with StringIO() as out:
        show(*arguments, Console(file=out, width=200))
        return " ".join(out.getvalue().split())


def test_a_drill_claims_what_it_has_compared() -> None:
    told = shown()
    assert "each of the 8 bytes that decode has taken was compared, and is as it was sent" in told
    assert "every rank has given everything back" in told
    assert ended().has_compared
    assert ended().numbers()["verdict"] == "holds"


def test_a_drill_in_which_nothing_succeeds_claims_no_byte() -> None:
    nothing = ended(success=False)
    assert nothing.complaints == ()
    assert not nothing.has_compared
    assert nothing.numbers()["verdict"] == "unknown"
    told = printed(nothing.show)
    assert "no hand-over has succeeded, so no byte was compared" in told
    assert "each of the" not in told


@pytest.mark.parametrize("wrong", WRONG)
def test_a_drill_claims_nothing_beside_a_complaint(wrong: str) -> None:
    told = shown(wrong)
    assert WRONG[wrong][2] in told
    assert ended(wrong).numbers()["verdict"] == "violated"
    assert "each of the" not in told
    assert "given everything back" not in told


def test_a_soak_claims_nothing_beside_a_complaint() -> None:
    totals = Totals(routed=1, succeeded=1, verified_bytes=8)
    state = SoakState(settings=SoakSettings(), totals=totals)
    assert "so nothing was compared" in printed(show_soak, SoakResult(state))
    state.rests = 1
    told = printed(show_soak, SoakResult(state))
    assert "each of the 8 bytes that were compared is as it was sent; both sides agree" in told
    totals.verified_bytes = 0
    assert "as it was sent" not in printed(show_soak, SoakResult(state))
    totals.complaints.append("decode-0 holds 1 lives")
    told = printed(show_soak, SoakResult(state))
    assert "decode-0 holds 1 lives" in told
    assert "as it was sent" not in told
    assert "agree" not in told
