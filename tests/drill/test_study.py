"""`python -m lab study`: its settings, arithmetic, table and picture. No process is started."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import cast
from xml.etree import ElementTree

import pytest

from lab.__main__ import main
from lab.sim.study import MS, Arm, Ways
from lab.study import lanes
from lab.study.chart import LINES, chart
from lab.study.distant import Distance
from lab.study.lanes import Measured, Ran
from lab.study.plan import BASE, CELLS, Cell, arm, planned, simulated
from lab.study.query import QueryRow as Query
from lab.study.query import Transfer, transfer
from lab.study.query import as_json as query_numbers
from lab.study.query import as_markdown as query_table
from lab.study.ranks import Answered, Computed
from lab.study.report import (
    StudyError,
    StudyRow,
    as_json,
    as_markdown,
    row,
)
from pdproto.node.peer import Peer
from pdproto.runtime.batches import Batch

CELL = Cell("arrival skew", "20 ms")


def ran(*seconds: float, reruns: int = 0, late_s: float = 0.002) -> Ran:
    return Ran(Computed(reruns, {}, {}, late_s),
               Answered(dict(enumerate(seconds)), late_s / 2, {}, ()))


def test_the_settings_vary_one_thing_each() -> None:
    """Of all that is asked for: skew, allocation and latency; and each has the base among them."""
    by_name: dict[str, list[Cell]] = {}
    for cell in CELLS:
        by_name.setdefault(cell.varied, []).append(cell)
    assert {"arrival skew", "allocation delay", "handshake latency"} <= by_name.keys()
    for varied, cells in by_name.items():
        assert len({(cell.setting, cell.overlapped) for cell in cells}) == len(cells)
        if varied != "running slots at 80 % load":
            assert any(cell.setting == BASE and not cell.overlapped for cell in cells)


def test_requests_are_a_poisson_process_that_the_seed_decides() -> None:
    requests = planned(BASE, 7, 4_000)
    assert requests == planned(BASE, 7, 4_000) != planned(BASE, 8, 4_000)
    times = [0.0, *(request.prefill_at for request in requests)]
    between = [after - before for before, after in pairwise(times)]
    mean = BASE.forward_s / BASE.load
    assert fmean(between) == pytest.approx(mean, rel=0.05)
    assert pstdev(between) == pytest.approx(mean, rel=0.05), "an exponential's is its mean"


def test_varying_a_parameter_keeps_the_others() -> None:
    base = planned(BASE, 0, 50)
    for other in (planned(replace(BASE, allocation_s=1.0), 0, 50),
                  planned(replace(BASE, running_slots=1), 0, 50)):
        assert [r.prefill_at for r in other] == [r.prefill_at for r in base]
        assert [r.decode_at for r in other] == [r.decode_at for r in base]
    busy = planned(replace(BASE, load=0.8), 0, 50)
    assert busy[-1].prefill_at == pytest.approx(base[-1].prefill_at / 2)


def test_the_simulator_is_asked_of_the_same_requests() -> None:
    setting = replace(BASE, tails=False)
    requests = planned(setting, 0, 60)
    without, optimistic = simulated(Cell("", "", setting), requests, 0)
    least = sorted(r.decode_at - r.prefill_at + r.allocation_s for r in requests)[30]
    assert without.median_s > least + setting.forward_s
    assert max(least, setting.forward_s) < optimistic.median_s < without.median_s
    assert without.reruns == 0.0


def test_the_arithmetic_of_one_way() -> None:
    """The 99th percentile of a hundred is the last but one; order does not matter."""
    found = arm([value / 100 for value in range(100, 0, -1)], reruns=25)
    assert found == Arm(median_s=0.5, p99_s=0.99, reruns=0.25)
    with pytest.raises(ValueError, match="no request has been answered"):
        arm([], 0)


def test_a_row_is_both_halves() -> None:
    both = Measured(ran(0.1, 0.2, 0.4), ran(0.1, 0.1, 0.1, reruns=3))
    found = row(CELL, (Arm(0.08, 0.2, 0.0), Arm(0.06, 0.1, 0.0)), both, 3)
    assert found.measured == Ways(Arm(0.2, 0.4, 0.0), Arm(0.1, 0.1, 1.0))
    assert found.measured.median_change == pytest.approx(-0.5)
    assert found.measured.p99_change == pytest.approx(-0.75)
    assert found.simulated.p99_change == pytest.approx(-0.5)
    assert found.late_s == 0.002
    assert as_markdown([found]).splitlines()[2:] == [
        "| arrival skew | 20 ms | simulator | 80 | 60 | -25% | 200 | 100 | -50% | 0.00 |  |",
        "| arrival skew | 20 ms | processes | 200 | 100 | -50% | 400 | 100 | -75% | 1.00 | 2.0 |",
    ]
    numbers = as_json([found], 5, 3)
    assert (numbers["seed"], numbers["requests"]) == (5, 3)
    assert numbers["rows"][0]["measured"]["optimistic"]["reruns"] == 1.0
    assert numbers["rows"][0]["cell"]["setting"]["skew_s"] == 20 * MS


@pytest.mark.parametrize(("spoilt", "complaint"), [
    (replace(ran(0.1, 0.2), computed=Computed(0, {1: "no room"}, {}, 0.0)),
     "arrival skew 20 ms: request 1 has failed: no room"),
    (replace(ran(0.1, 0.2), answered=replace(ran(0.1, 0.2).answered, corrupt=(0,))),
     "request 0: its pages hold other bytes than were sent"),
    (ran(0.1), "1 of 2 requests have been answered"),
])
def test_times_of_requests_that_fail_are_not_compared(spoilt: Ran, complaint: str) -> None:
    simulated_arms = Arm(0.1, 0.1, 0.0), Arm(0.1, 0.1, 0.0)
    for both in (Measured(spoilt, ran(0.1, 0.2)), Measured(ran(0.1, 0.2), spoilt)):
        with pytest.raises(StudyError, match=complaint):
            row(CELL, simulated_arms, both, 2)


def test_the_picture_has_a_panel_for_each_parameter() -> None:
    ways = Ways(Arm(0.1, 0.2, 0.0), Arm(0.05, 0.25, 0.0))
    rows = [StudyRow(Cell(varied, value), ways, ways, 0.0)
            for varied in ("arrival skew", "load") for value in ("low & slow", "high")]
    picture = ElementTree.fromstring(chart(rows))  # noqa: S314 - of our own
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f".//{space}polyline")) == 3 * (len(LINES) + 1)  # and the legend
    assert len(picture.findall(f".//{space}circle")) == len(rows) * len(LINES)
    told = [text.text for text in picture.iter(f"{space}text")]
    assert told.count("low & slow") == 2
    assert "+40%" in told, "what gets worse is drawn as well"


def test_delayed_batches_arrive_in_order_and_no_sooner() -> None:
    delays = iter((0.5, 0.1, 2.0))
    distance = Distance(lambda: next(delays))
    peer = cast("Peer", "a peer")
    first, second, third = (cast("Batch", number) for number in range(3))
    assert distance.arrived(10.0) is None
    assert (distance.due(None), distance.due(3.0)) == (None, 3.0)
    for batch in (first, second, third):
        distance.hold(peer, batch, 1.0)
    assert distance.arrived(1.4) is None
    assert (distance.due(None), distance.due(1.2), distance.due(9.0)) == (1.5, 1.2, 1.5)
    assert [distance.arrived(1.5) for _ in range(3)] == [(peer, first), (peer, second), None]
    assert distance.arrived(3.0) == (peer, third)


def test_a_name_that_is_not_varied_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "optimistic", "--only", "colour"]) == 2
    told = capsys.readouterr().err
    assert "--only colour" in told
    assert "arrival skew, allocation delay, handshake latency" in told


def test_the_cost_of_asking_is_a_table_too() -> None:
    rule = Ran(Computed(0, {}, {1: 0.002, 3: 0.001}, 0.0), ran(0.1, 0.1).answered)
    forced = Ran(Computed(0, {}, {1: 0.004, 3: 0.005}, 0.0, told=2),
                 replace(ran(0.1, 0.1).answered, asked=3))
    assert transfer(rule) == Transfer(0.001, 0.002, 0.0)
    assert transfer(forced) == Transfer(0.004, 0.005, 2.5)
    found = [Query(Cell("requests a second", "10"), transfer(rule), transfer(forced), 0.0004)]
    assert query_table(found).splitlines()[2] == (
        "| 10 | 1.0 | 4.0 | +3.0 | 2.0 | 5.0 | +3.0 | 0.00 | 2.50 | 0.4 |")
    assert query_numbers(found, 1, 2)["rows"][0]["forced"]["calls"] == 2.5


def test_an_option_of_one_study_is_refused_to_the_other(
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "force-query", "--only", "load"]) == 2
    assert "for the study `optimistic`: leave them out" in capsys.readouterr().err
    assert main(["study", "force-query", "--again", "-1"]) == 2
    assert "want a whole number" in capsys.readouterr().err


@pytest.mark.slow
def test_the_documented_figures_of_the_simulator() -> None:
    """A row of docs/optimistic.md, made again: 500 requests that the seed 0 decides."""
    simulated_arms = simulated(CELL, planned(BASE, 0, 500), 0)
    both = Measured(ran(*[0.1] * 500), ran(*[0.1] * 500))
    line = as_markdown([row(CELL, simulated_arms, both, 500)]).splitlines()[2]
    document = Path(__file__).resolve().parents[2] / "docs" / "optimistic.md"
    assert line in document.read_text().splitlines()


class Scripted:
    """A lane whose runs are as late as a script says, in milliseconds, by setting."""

    def __init__(self, late_ms: dict[int, list[float]]) -> None:
        self.cell: int | None = None
        self.late_ms = late_ms
        self.given: list[int] = []

    def give(self, place: int, *_: object) -> None:
        self.cell = place
        self.given.append(place)

    def hear(self) -> dict[int, Measured]:
        place, self.cell = self.cell, None
        assert place is not None
        said = ran(0.1, late_s=self.late_ms[place].pop(0) * MS)
        return {place: Measured(said, said)}


@pytest.mark.parametrize(("again", "given", "late_ms"), [
    (0, [0, 1, 2], [1.0, 90.0, 50.0]),
    (1, [0, 1, 2, 1, 2], [1.0, 70.0, 5.0]),
    (3, [0, 1, 2, 1, 2, 1, 1], [1.0, 30.0, 5.0]),
])
def test_a_disturbed_setting_is_measured_again_and_the_quietest_run_counts(
    monkeypatch: pytest.MonkeyPatch, again: int, given: list[int], late_ms: list[float]
) -> None:
    lane = Scripted({0: [1.0], 1: [90.0, 70.0, 80.0, 30.0], 2: [50.0, 5.0]})
    monkeypatch.setattr(lanes, "_lanes", lambda *_: nullcontext([lane]))
    monkeypatch.setattr(lanes, "_warm_up", lambda *_: None)
    monkeypatch.setattr(lanes, "_hear", lambda _: lane.hear())
    told: list[int] = []
    found = lanes.measure([CELL] * 3, 0, 1, 1, told.append, again=again)
    assert lane.given == given
    assert [one.late_s / MS for one in found] == pytest.approx(late_ms)
    assert told[:3] == [1, 2, 3]
