"""`python -m lab cluster`: what it answers, what it writes, and that its commands replay."""

import json
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from lab.__main__ import main
from lab.sim import study, study_release
from lab.sim.chart import LINES, chart

FAILING = ("--seed", "0", "--requests", "30", "--pp", "2", "--faults", "abort,hang", "--bug", "B22")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = main(["cluster", "--quiet", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


def test_all_is_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answers, traces = tmp_path / "answers.json", tmp_path / "traces"
    status, told = run(capsys, "--seeds", 2, "--requests", 10, "--faults", "loss,abort",
                       "--json", answers, "--trace", traces)
    assert status == 0
    assert told.startswith("HOLDS 2 runs, ")
    assert "20 hand-overs" in told
    first, second = json.loads(answers.read_text())
    assert (first["seed"], second["seed"]) == (0, 1)
    assert first["violation"] is second["violation"] is None
    assert first["succeeded"] + first["failed"] == 10
    assert [fault["kind"] for fault in first["faults"]] == ["loss"]
    assert sorted(path.name for path in (traces / "seed-1").iterdir()) == [
        "d0-0.jsonl", "d1-0.jsonl", "p0.0-0.jsonl", "p1.0-0.jsonl"]


def test_a_failure_is_made_small_drawn_and_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page, answers = tmp_path / "failure.html", tmp_path / "failure.json"
    status, told = run(capsys, *FAILING, "--html", page, "--json", answers)
    assert status == 1
    (answer,) = json.loads(answers.read_text())
    assert answer["violation"]["name"] == "S1_writes_stay_in_own_memory"
    assert f"replay: {answer['replay']} " in told
    assert told.startswith("VIOLATED 1 runs")
    assert "S1_writes_stay_in_own_memory violated for room=" in told
    assert "abort_receive(" in told, "the picture lacks the row that does it"
    command = told.split("replay: python -m lab cluster ")[1].split(" S1_writes_stay")[0]
    assert command in page.read_text()
    status, again = run(capsys, *command.split())
    assert status == 1
    assert "S1_writes_stay_in_own_memory violated for room=" in again


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("--faults", "fire"), "want kinds among loss, "),
    (("--seed", "-1"), "want a seed of 0 or more"),
    (("--only-rooms", "1,x"), "want numbers, as in 3,17, or none"),
    (("--bug", "B99"), "--bug B99: the tables of nodes have no such defect"),
    (("--pp", "40"), "would never find room"),
    (("--plot", "x.svg"), "--plot draws a study"),
    (("--seed", "1", "--seeds", "2"), "not allowed with"),
])
def test_usage(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    status, told = run(capsys, *arguments)
    assert status == 2
    assert complaint in told


def test_only_some_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run(capsys, "--seed", 3, "--requests", 20, "--faults", "all",
                       "--only-rooms", "4,5", "--only-faults", "none")
    assert status == 0
    assert "2 hand-overs, 2 of them to Success" in told
    assert "nothing was checked" not in told


def test_nothing_of_it_holds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run(capsys, "--seed", 3, "--requests", 20, "--only-rooms", 99)
    assert status == 3
    assert told.startswith("UNKNOWN 1 runs")
    assert "no run has a hand-over, so nothing was checked" in told


@pytest.mark.nightly
@pytest.mark.slow
def test_the_documented_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of docs/optimistic.md, made again."""
    monkeypatch.setattr(study, "VARIED", {"arrival skew": (study.BASE,)})
    *_, row = study.as_markdown(study.pairs(0, Random, study.REQUESTS)).splitlines()
    document = Path(__file__).resolve().parents[2] / "docs" / "optimistic.md"
    assert row in document.read_text().splitlines()


@pytest.mark.slow
def test_the_documented_figures_of_a_release_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "VARIED", {"arrival skew": (study.BASE,)})
    monkeypatch.setattr(study_release, "VARIED", ("arrival skew",))
    *_, row = study_release.as_markdown(
        study_release.releases(0, Random, study.REQUESTS)).splitlines()
    document = Path(__file__).resolve().parents[2] / "docs" / "optimistic.md"
    assert row in document.read_text().splitlines()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of two settings and few requests."""
    kept = {"arrival skew": study.VARIED["arrival skew"][1:3]}
    monkeypatch.setattr(study, "VARIED", kept)
    monkeypatch.setattr(study, "REQUESTS", 40)


@pytest.mark.usefixtures("small")
def test_a_study() -> None:
    """Who computes while it waits is there earlier, and by no more than what it waited for."""
    found = list(study.pairs(0, Random, 40))
    assert [pair.value for pair in found] == ["5 ms", "20 ms"]
    for pair in found:
        assert pair.optimistic.median_s < pair.without.median_s
        assert pair.without.reruns == 0.0
        assert -0.5 < pair.median_change < 0.0
    table = study.as_markdown(found)
    assert table.count("\n") == 4
    assert "| arrival skew | 20 ms |" in table
    picture = ElementTree.fromstring(chart(found))  # noqa: S314 - of our own
    lines = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(LINES)  # in the legend and in the panel


@pytest.mark.usefixtures("small")
def test_a_study_from_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers, plot = tmp_path / "study.json", tmp_path / "study.svg"
    status, told = run(capsys, "--study", "optimistic", "--json", answers, "--plot", plot)
    assert status == 0
    assert told.startswith("| varied | value | median without |")
    assert len(json.loads(answers.read_text())) == 2
    assert plot.read_text().startswith("<svg ")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("where", [
    ("--workers", "2"), ("--executor", "tests.check.executor_work:two_processes"),
])
def test_a_study_elsewhere_says_the_same(
    where: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--study", "optimistic", "--json", "-")
    assert run(capsys, *asked, *where) == run(capsys, *asked)


@pytest.mark.usefixtures("small")
def test_a_release_at_once_runs_passes_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many attempts as there are, and later than if the pass had kept its KV."""
    monkeypatch.setattr(study_release, "VARIED", ("arrival skew",))
    answers = tmp_path / "study.json"
    status, told = run(capsys, "--study", "release-at-once", "--json", answers)
    assert status == 0
    assert told.startswith("| varied | value | median without | parked | at once |")
    _, late = json.loads(answers.read_text())
    assert late["optimistic"]["reruns"] < late["at_once"]["reruns"] <= study.RETRIES + 1
    assert late["optimistic"]["median_s"] < late["at_once"]["median_s"]
    assert run(capsys, "--study", "release-at-once", "--plot", tmp_path / "x.svg")[0] == 2
