"""`python -m lab bugs`: its output, its drawings, and its answer about a defect not found."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from lab import defect_trials
from lab.__main__ import main
from lab.designs import EVERY
from lab.verbs import bugs as verb
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import SearchLimits
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.examples.lock_server import SYSTEM as LOCK_SERVER
from pdproto.spec.examples.lock_server import Client, Round
from pdproto.spec.examples.lock_server_broken import SYSTEM as LOCK_SERVER_BROKEN
from pdproto.spec.language import Configuration

SMALL: Final = Configuration({Client: 2, Round: 1})
FOUND: Final = Bug(
    "clock", "a colleague", "Two clients at once.", LOCK_SERVER_BROKEN, SMALL, "mutual_exclusion",
    note="After a time-out.",
)
MISSED: Final = Bug("none", "nowhere", "Nothing at all.", LOCK_SERVER, SMALL, "mutual_exclusion")


def catalogue(monkeypatch: pytest.MonkeyPatch, *bugs: Bug) -> None:
    monkeypatch.setattr(verb, "EVERY", bugs)


def test_a_name_is_of_one_defect() -> None:
    """A defect of the tables is named by its id, or by the name of its system."""
    ids = Counter(bug.id for bug in EVERY)
    names = Counter(name for bug in BUGS for name in {bug.id, bug.system.name})
    assert [name for name, times in (ids | names).items() if times > 1] == []


def test_each_defect_describes_the_effect_for_users() -> None:
    for bug in EVERY:
        assert bug.source, bug.id
        assert bug.symptom.rstrip("."), bug.id


def test_each_defect_names_a_property_that_its_system_has() -> None:
    for bug in EVERY:
        declared = {claim.name for claim in bug.system.properties}
        derived = {f"{variable.name}_edges" for variable in bug.system.bounded_variables()}
        assert bug.violates in declared | derived | {"deadlock", "no_peer_is_at_fault"}, bug.id


def test_a_defect_that_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(monkeypatch, FOUND)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["bugs"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("clock"))
    assert row.split() == [
        "clock", "a", "colleague", "Two", "clients", "at", "once.", "mutual_exclusion", "7"
    ]


def test_a_defect_that_is_not_found_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(monkeypatch, FOUND, MISSED)
    assert main(["bugs"]) == 1
    assert "1 of 2 defects found; not found: none" in capsys.readouterr().out


def test_one_defect_is_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(monkeypatch, MISSED, FOUND)
    assert main(["bugs", "clock"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("clock  a colleague\nTwo clients at once.\nAfter a time-out.\n")
    assert "mutual_exclusion violated for c=c0, d=c1 after 7 steps" in text
    assert "expire(c0, r0)  timer lease_over ●" in text


def test_one_defect_that_is_not_found_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(monkeypatch, MISSED)
    assert main(["bugs", "none"]) == 1
    assert "mutual_exclusion was not found violated" in capsys.readouterr().out


def test_an_unknown_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(monkeypatch, FOUND)
    assert main(["bugs", "clack"]) == 2
    assert "there is no defect 'clack' (perhaps clock?)" in capsys.readouterr().err
    assert main(["bugs", "B999999"]) == 2
    assert "`python -m lab bugs` lists them" in capsys.readouterr().err


def test_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    catalogue(monkeypatch, FOUND, MISSED)
    assert main(["bugs", "--json", "-"]) == 1
    found, missed = json.loads(capsys.readouterr().out)
    assert found["seconds"] > 0
    found.pop("seconds")
    assert found == {
        "id": "clock",
        "source": "a colleague",
        "symptom": "Two clients at once.",
        "note": "After a time-out.",
        "system": "lock-server-broken",
        "property": "mutual_exclusion",
        "refuted": True,
        "steps": 7,
        "states": found["states"],
    }
    assert (missed["refuted"], missed["steps"]) == (False, None)
    target = tmp_path / "clock.json"
    assert main(["bugs", "clock", "--json", str(target)]) == 0
    assert "mutual_exclusion violated" in capsys.readouterr().out
    (traced,) = json.loads(target.read_text(encoding="utf-8"))
    assert len(traced["result"]["properties"][0]["trace"]) == 7


def test_a_search_that_ends_at_a_limit_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: the defect was "not found" and the status 1, as if no state violated the property;
    and of a run that was interrupted, all defects that had been tried were "1 of 1".
    """
    def few(defect: Bug) -> CheckSettings:
        limits = SearchLimits(states_max=2) if defect is MISSED else SearchLimits()
        return CheckSettings(properties=(defect.violates,), limits=limits)

    catalogue(monkeypatch, MISSED, FOUND)
    monkeypatch.setattr(defect_trials, "_settings", few)
    assert main(["bugs", "--no-cache"]) == 3
    said = capsys.readouterr()
    assert "1 of 2 defects found; not decided: none" in said.out
    assert "incomplete: 1 of 2 defects were tried" in said.err
    assert main(["bugs", "--no-cache", "--json", "-"]) == 3
    assert {one["id"]: one["refuted"] for one in json.loads(capsys.readouterr().out)} == {
        "clock": True, "none": None}
