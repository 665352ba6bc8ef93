"""The drill that can see: the race of each defect is arranged on nodes, or refused by its name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pdproto
from lab.__main__ import main
from lab.race import arrange
from lab.race.arrange import Arranged, NotArrangedError, arranged
from lab.race.conduct import conduct
from lab.race.counterexample import runs, shortest
from lab.race.refusals import KEEPS
from lab.race.stage import Step
from lab.race.transfer import Transfer
from lab.sim.defects import base_of, roles_of
from pdproto.cli.main import main as product
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import group
from tests.drill.races import KEPT, RACES, outcome, recorded
from tests.tiers import sampled

BY_DAY = 6
AT_LEAST = 90


def bug_of(name: str) -> Bug:
    return RACES[name]


def test_every_defect_has_an_outcome() -> None:
    known = recorded()
    assert known.keys() == RACES.keys(), "run python -m tests.drill.races"
    assert sum(not seen.startswith(KEPT) for seen in known.values()) >= AT_LEAST


@pytest.mark.parametrize("name", sampled(
    [pytest.param(name, id=name) for name in RACES], BY_DAY, "races of defects"))
def test_a_race_ends_as_recorded(name: str) -> None:
    """Seen or refused. Which of several shortest counterexamples the checker finds is its own."""
    now, then = outcome(RACES[name]), recorded()[name]
    assert now.startswith(KEPT) == then.startswith(KEPT), now


@pytest.mark.parametrize("name", ["B22", "B31", "B09", "agreement-B13", "O1", "early-yield",
                                  "registrations-counted", "I1", "empty-before-confirmed",
                                  "misplaced-served", "other-rank-number", "conflict-unsaid",
                                  "met-by-any"])
def test_a_defect_of_each_part_is_seen(name: str) -> None:
    race = arranged(bug_of(name))
    assert race.seen
    assert race.steps


@pytest.mark.parametrize(("name", "why"), [
    ("B74", "it edits engine.drain_of_another_life, of the engine or the network"),
    ("two-pass", "nodes load no table of pipeline from two-pass"),
    ("refused-late", "it edits host.end_room, which ties two machines of a process together"),
    ("R19-restart", "step 10, disown_abort(p0, h0, d0): no frame abort of room 0 is under way"),
    ("copy-runs-on", "keep S1_writes_stay_in_own_pages"),
])
def test_a_defect_that_cannot_be_arranged_is_refused_by_its_name(name: str, why: str) -> None:
    with pytest.raises(NotArrangedError, match=r".") as raised:
        arranged(bug_of(name))
    assert why in str(raised.value)
    assert str(raised.value).startswith(f"{bug_of(name).id}: ")
    assert "\n" not in str(raised.value)


def test_a_refusal_says_what_it_would_take() -> None:
    """Of each defect that no race shows, and of no other."""
    known = recorded()
    refused = {name for name, seen in known.items() if seen.startswith(KEPT)}
    assert {name for name in refused if "; it takes " not in known[name]} == set()
    assert KEEPS.keys() <= refused


def test_what_is_seen_is_due_to_the_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the unedited tables break a promise in the same race, nothing was seen."""
    example = shortest(bug_of("B22"))
    broken = conduct(example, Transfer(example, roles_of(bug_of("B22").system)))
    monkeypatch.setattr(arrange, "conduct", lambda *_: broken)
    with pytest.raises(NotArrangedError, match="the unedited tables break S1"):
        arranged(bug_of("B22"))


def test_without_its_race_a_defect_does_no_harm() -> None:
    """The edited tables alone are not what is seen: without the abort the hand-over is fine."""
    example = shortest(bug_of("B22"))
    names = [row.row.name for row in example.rows]
    assert names[-5:] == ["abort_receive", "learn", "send", "post", "land"]
    peaceful = replace(example, rows=tuple(
        row for row in example.rows if row.row.name != "abort_receive"))
    roles = roles_of(bug_of("B22").system)
    assert conduct(example, Transfer(example, roles)).seen
    assert not conduct(peaceful, Transfer(peaceful, roles)).seen


def test_the_tables_of_a_group_are_put_back() -> None:
    before = group.RANK.rows, group.ENTRY.rows
    arranged(bug_of("agreement-B13"))
    assert (group.RANK.rows, group.ENTRY.rows) == before


def test_other_runs_leave_rows_out() -> None:
    """B09: a source that has given up waiting gets a new sender in a node, and one that was told of
    an abort does not.
    """
    bug = bug_of("B09")
    first, *others = runs(bug)
    assert "give_up_waiting" in [row.row.name for row in first.rows]
    assert any("stop" in [row.row.name for row in other.rows] for other in others)


def test_a_step_names_the_first_element_of_each_sort() -> None:
    row = next(row for row in shortest(bug_of("B27")).rows if row.row.name == "hear_failure")
    step = Step(row)
    assert str(step) == "hear_failure(d0, h0, p0)"
    assert [step.of(type(v)) for v in row.environment] == [0, 0, 0]


Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def run(*words: str) -> tuple[int, str, str]:
        status = main(["race", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_verb_names_the_promise_and_the_place(told: Told) -> None:
    status, out, _ = told("local-drain")
    assert status == 1
    assert "drain_locally(k0, h0)" in out
    assert "✗ S5_same_decisions_same_queue: after drain_locally(k0, h0)" in out
    assert "With the unedited tables, the same race breaks no promise." in out


def test_the_verb_refuses_with_another_status(told: Told) -> None:
    status, out, err = told("local-slot")
    assert (status, out) == (3, "")
    assert err.startswith("pdproto: local-slot is refused")
    assert "local-slot: nodes do not run its counterexample: step " in err
    assert err.count("\n") == 1


def test_the_verb_knows_every_defect_and_no_other(told: Told) -> None:
    status, _, err = told("B999")
    assert status == 2
    assert "B999: there is no such defect" in err


def test_the_hand_over_arranges_the_race_of_a_defect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a clone; a package that was installed from a wheel has no laboratory."""
    assert product(["handoff", "--bug", "local-drain", "--pp", "2"]) == 1
    assert "✗ S5_same_decisions_same_queue" in capsys.readouterr().out
    monkeypatch.setattr(pdproto, "__file__", str(tmp_path / "pdproto" / "__init__.py"))
    assert product(["handoff", "--bug", "local-drain"]) == 2
    assert "--bug needs the laboratory" in capsys.readouterr().err


def test_the_numbers_name_the_steps(told: Told) -> None:
    status, out, _ = told("B22", "--json", "-")
    assert status == 1
    numbers: dict[str, Any] = json.loads(out)
    assert numbers["bug"] == "B22"
    assert numbers["steps"][0] == "begin_receive(d0, h0)"
    assert numbers["seen"][0]["promise"] == numbers["violates"] == "S1_writes_stay_in_own_memory"


def test_a_base_is_the_system_without_the_defect() -> None:
    race = arranged(bug_of("B22"))
    assert isinstance(race, Arranged)
    assert base_of(race.bug.system).name == "transfer"
