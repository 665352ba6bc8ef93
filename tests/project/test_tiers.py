"""The quick tier sees every historical defect, and a sample is the same each time."""

import re
from pathlib import Path

import pytest

from pdproto.spec.bugs.catalogue import BUGS
from tests import durations
from tests.docs.documents import ROOT
from tests.project.defect_tiers import Tier, page, seen
from tests.tiers import sampled


@pytest.mark.slow
def test_the_quick_tier_sees_every_historical_defect() -> None:
    found = seen()
    assert {bug.id for bug in BUGS if Tier.QUICK not in found.get(bug.id, {})} == set()
    assert (ROOT / "docs" / "defects-by-tier.md").read_text(encoding="utf-8") == page(found), (
        "run `python -m tests.project.defect_tiers > docs/defects-by-tier.md`")


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


def test_the_slow_tests_that_are_listed_exist() -> None:
    """A test that has moved to another module would count as quick."""
    missing = []
    for line in durations.LIST.read_text(encoding="utf-8").splitlines():
        module, *names = line.split("::")
        path = ROOT / module
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        missing += [line for name in names if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_list_of_slow_tests_has_those_that_take_long_on_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All phases of a case count, and the test that the quick tier keeps is never listed."""
    monkeypatch.setattr(durations, "LIST", tmp_path / "slow.txt")
    plugin = durations.Durations()
    for case, phase, seconds in (
        ("a.py::long[1]", "setup", 0.3), ("a.py::long[1]", "call", 0.1),
        ("a.py::long[2]", "call", 0.1),
        ("a.py::short[1]", "call", 0.3), ("a.py::short[2]", "call", 0.0),
        (f"{durations.KEPT}[B05]", "call", 9.0),
    ):
        plugin.pytest_runtest_logreport(pytest.TestReport(
            case, ("a.py", 1, case), {}, "passed", None, phase, duration=seconds))  # type: ignore[arg-type]
    plugin.pytest_sessionfinish()
    assert durations.LIST.read_text(encoding="utf-8") == "a.py::long\n"
