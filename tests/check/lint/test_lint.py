"""Lint as a whole: the systems of this repository, the order of remarks, sizes, and the verb."""

import json
from pathlib import Path

import pytest

from pdproto.check.lint import Severity, lint, small
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Purpose
from pdproto.spec.examples import ring_election, two_phase_commit
from pdproto.spec.language import (
    ANY,
    Call,
    Machine,
    Row,
    SpecError,
    System,
    Table,
)
from tests.check.lint.bench import (
    Bench,
    Page,
    Worker,
    page,
    remarks,
    w,
)
from tests.language import tiny

EXAMPLES = ("two-phase-commit", "lock-server", "lock-server-broken", "ring-election",
            "paxos", "alternating-bit", "alternating-bit-broken", "snapshot")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_free_of_errors_and_warnings(name: str) -> None:
    system = load(name)
    found = lint(system, small(system))
    assert [remark for remark in found if remark.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("name", [
    entry.name for entry in CATALOGUE if entry.of_the_handoff or entry.purpose is Purpose.COMPARED])
def test_the_hand_over_is_free_of_errors(name: str) -> None:
    """Its warnings are races that are meant, and promises that only the explorer can see kept."""
    system = load(name)
    errors = {remark.rule for remark in lint(system, small(system))
              if remark.severity is Severity.ERROR}
    # A source may have forgotten a life or not, so that it has two answers on purpose.
    assert errors == ({"determinism"} if name == "transfer-forgetful" else set())


def test_sizes_are_two_or_what_some_configuration_has() -> None:
    system = ring_election.SYSTEM
    assert set(small(system).sizes.values()) == {2}
    assert set(small(system, 1).sizes.values()) == {1}
    bench = Bench()
    boss = (bench.asking, bench.hearing, bench.ignoring)
    assert small(bench.system(boss, (bench.working,))).sizes == {Worker: 2}


def test_bulk_updates_are_written_cell_by_cell() -> None:
    bench = Bench()
    seen = bench.worker.relation("seen", Page)
    see = Row("see", on=Call("see"), choose=(page,), do=[seen(w, ANY).to(True)], when=seen(w, page))
    boss = (bench.asking, bench.hearing, bench.ignoring)
    found = remarks(bench.system(boss, (bench.working, see)), "never-fires")
    assert [remark.message for remark in found] == ["see can never fire"]


def test_errors_come_first() -> None:
    bench = Bench()
    system = bench.system((bench.asking, bench.hearing), (bench.working,))
    severities = [remark.severity for remark in lint(system, small(system))]
    assert severities == sorted(severities, key=list(Severity).index)
    assert severities[0] is Severity.ERROR


def test_a_symbol_of_an_absent_machine_is_refused_at_declaration() -> None:
    bench = Bench()
    table = Table(bench.worker, state=bench.mood, rows=(bench.working,))
    with pytest.raises(SpecError, match="'work': ask belongs to no machine of the system"):
        System("half", "Workers without their boss.", (table,))


class TestVerb:
    def test_a_clean_system(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "two-phase-commit"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1] == "two-phase-commit: 3 notes"
        assert "note: offer: call prepare is not offered by participant in" in lines[0]

    def test_errors_set_the_exit_status(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bench = Bench()
        system = bench.system((bench.asking, bench.hearing), (bench.working,))
        monkeypatch.setattr("pdproto.cli.lint.load_with_module", lambda _: (system, tiny))
        assert main(["lint", "bench"]) == 1
        out = capsys.readouterr().out
        assert out.startswith(f"{system.tables[0].place}: error: totality: boss in idle or done")
        assert out.endswith("bench: 1 error, 2 warnings, 1 note\n")

    def test_nothing_to_remark(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        system = System("nothing", "", (Table(Machine("idle")),))
        monkeypatch.setattr("pdproto.cli.lint.load_with_module", lambda _: (system, tiny))
        assert main(["lint", "nothing"]) == 0
        assert capsys.readouterr().out == "nothing: nothing to remark\n"

    def test_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "two-phase-commit", "--elements", "3", "--json", "-"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["system"] == "two-phase-commit"
        assert printed["sizes"] == {"Participant": 3}
        assert printed["remarks"][0] == {
            "rule": "offer",
            "severity": "note",
            "message": "call prepare is not offered by participant in prepared, committed or "
            "aborted",
            "place": {
                "path": two_phase_commit.PARTICIPANT.rows[0].place.path,
                "line": two_phase_commit.PARTICIPANT.rows[0].place.line,
            },
            "witness": [],
        }
        target = tmp_path / "remarks.json"
        assert main(["lint", "two-phase-commit", "--json", str(target)]) == 0
        assert len(json.loads(target.read_text(encoding="utf-8"))["remarks"]) == 3
        assert "3 notes" in capsys.readouterr().out
