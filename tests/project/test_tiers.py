"""The quick tier sees every historical defect, and a sample is the same each time."""

import re
from pathlib import Path

import pytest

from pdproto.spec.bugs.catalogue import BUGS
from tests import durations, night
from tests.docs.documents import ROOT
from tests.e2e.seen import PAIRS, wanted
from tests.project.defect_tiers import Tier, seen_by
from tests.tiers import COLLECTED, sampled


@pytest.mark.slow
def test_the_quick_tier_sees_every_historical_defect(request: pytest.FixtureRequest) -> None:
    collected = request.config.stash[COLLECTED]
    found = seen_by(collected)
    assert {bug.id for bug in BUGS if Tier.QUICK not in found.get(bug.id, {})} == set()


def test_a_sample_is_the_same_each_time_and_the_rest_waits_for_the_night() -> None:
    params = [pytest.param(number, marks=pytest.mark.slow) for number in range(20)]
    chosen = [
        [one.values for one in sampled(params, 5, name) if one.marks == params[0].marks]
        for name in ("rows", "rows", "rankings")
    ]
    assert [len(one) for one in chosen] == [5, 5, 5]
    assert chosen[0] == chosen[1] != chosen[2]
    rest = [one for one in sampled(params, 5, "rows") if one.values not in chosen[0]]
    assert {tuple(mark.name for mark in one.marks) for one in rest} == {("slow", "nightly")}
    assert [one.values for one in sampled(params, 5, "rows")] == [one.values for one in params]


def test_every_row_and_promise_has_a_test_by_day() -> None:
    """The tests that have been seen red for it (tests/e2e/seen.py)."""
    waiting = {name.removeprefix("tests/") for name, wait in night.NIGHT.items() if not wait.by_day}
    seen_by_day = {of for pair in PAIRS if pair.test not in waiting for of in pair.of}
    assert {*wanted()} - seen_by_day == set()


def test_a_test_that_waits_for_the_night_runs_the_cases_that_are_written(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """And as many others as are asked for, the same ones each time; a name without a case fails."""
    written = {
        "a.py::named": night.Wait("why", by_day=("1", "3")),
        "a.py::drawn": night.Wait("why", by_day=2, among="slow"),
        "a.py::whole": night.Wait("why"),
    }
    monkeypatch.setattr(night, "NIGHT", written)
    cases = [*(f"a.py::named[{number}]" for number in range(4)), "a.py::whole", "a.py::other",
             *(f"a.py::drawn[{number}-{how}]" for number in range(9) for how in ("slow", "fast"))]
    by_day = [marked_by_day(cases) for _ in range(2)]
    assert by_day[0] == by_day[1]
    assert {case for case in by_day[0] if "drawn" not in case} == {
        "a.py::named[1]", "a.py::named[3]", "a.py::other"}
    assert [sum(how in case for case in by_day[0]) for how in ("slow", "fast")] == [2, 9]
    written["a.py::named"] = night.Wait("why", by_day=("7",))
    with pytest.raises(pytest.UsageError, match=r"a.py::named has no case 7"):
        marked_by_day(cases)
    assert marked_by_day(["a.py::named[1]"]) == []


class Item:
    """What night.mark needs of a test."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def marked_by_day(cases: list[str]) -> list[str]:
    """Those of the tests that are not marked nightly."""
    items = [Item(case) for case in cases]
    night.mark(items)  # type: ignore[arg-type]
    return [item.nodeid for item in items if item.marks == []]


def test_the_tests_that_are_listed_exist() -> None:
    """A slow test that has moved to another module would count as quick, one that waits for the
    night would run by day.
    """
    missing = []
    for line in (*durations.LIST.read_text(encoding="utf-8").splitlines(), *night.NIGHT):
        module, *names = line.split("::")
        path = ROOT / module
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        missing += [line for name in names if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_list_of_slow_tests_has_those_that_take_long_on_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All phases of a case count, and the tests that the quick tier keeps are never listed."""
    monkeypatch.setattr(durations, "LIST", tmp_path / "slow.txt")
    plugin = durations.Durations()
    for case, phase, seconds in (
        ("a.py::long[1]", "setup", 0.3), ("a.py::long[1]", "call", 0.1),
        ("a.py::long[2]", "call", 0.1),
        ("a.py::short[1]", "call", 0.3), ("a.py::short[2]", "call", 0.0),
        *((f"{kept}[B05]", "call", 9.0) for kept in durations.KEPT),
    ):
        plugin.pytest_runtest_logreport(pytest.TestReport(
            case, ("a.py", 1, case), {}, "passed", None, phase, duration=seconds))  # type: ignore[arg-type]
    plugin.pytest_sessionfinish()
    assert durations.LIST.read_text(encoding="utf-8") == "a.py::long\n"
