"""How `pdproto check` marks a proved property, and for which tables."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pdproto.check.prove.assurance import recall, remember
from pdproto.check.prove.examination import without
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.verdicts import Verdicts
from pdproto.cli.main import main
from pdproto.cli.systems import subject
from pdproto.spec.language import Always, DropRow, ReplaceProperties, edited

SYSTEM = "two-phase-commit"


def remembered(folder: Path, *left_out: str) -> Mapping[str, str]:
    """What is known of the system once it has been proved, without some of its lemmas."""
    one = subject(SYSTEM)
    found = one.obligations(())
    for name in left_out:
        found = without(found, name)
    remember(folder, Verdicts(one, prove(one.system, found, ProofSettings())))
    return recall(folder, one.system)


def test_a_proof_counts_only_for_its_own_tables(tmp_path: Path) -> None:
    system = subject(SYSTEM).system
    assert recall(tmp_path, system) == {}
    proved = remembered(tmp_path)
    safety = {claim.name for claim in system.properties if isinstance(claim, Always)}
    assert safety
    assert safety <= set(proved)
    assert recall(tmp_path, edited(system, SYSTEM, DropRow("give_up"))) == {}
    weaker = ReplaceProperties(system.properties[:1])
    assert recall(tmp_path, edited(system, SYSTEM, weaker)) == {}


def test_a_property_is_proved_only_with_its_lemmas(tmp_path: Path) -> None:
    assert remembered(tmp_path, "heard_has_been_said") == {}


def test_check_marks_proved_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["check", SYSTEM, "--quiet"]) == 0
    assert "proved" not in capsys.readouterr().out
    assert main(["prove", SYSTEM, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["check", SYSTEM, "--quiet"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "exhaustive for Participant=3; proved for every size from 1 on with 7 lemmas" in told


def words(name: str) -> dict[str, str]:
    """By leads_to with a ranking, the text of its proof."""
    one = subject(name)
    return {ranking.leads_to: one.proved_words(ranking.leads_to) for ranking in one.every_ranking}


def test_check_names_the_assumptions_of_a_leads_to() -> None:
    """Under which assumption of fairness, of which formulas, and without which faults."""
    told = words("registry")
    assert any(text.endswith("assuming runs_end: for some e: for all f: not (e before f)")
               for text in told.values())
    assert all(", where " in text for text in told.values())
    assert any("in runs without lossy faults" in text for text in words("agreement").values())
