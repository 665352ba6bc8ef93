"""`pdproto mutate`: what it prints, writes and returns."""

import json
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from pdproto.check.explore import SearchLimits
from pdproto.check.mutate import trials
from pdproto.check.mutate.campaign import Campaign
from pdproto.check.mutate.edits import Mutant
from pdproto.check.mutate.own_rows import own_mutants
from pdproto.check.mutate.trials import Judged, Trials, searches
from pdproto.check.report.mutants import draw
from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.cli import mutate as verb
from pdproto.cli.main import main
from pdproto.cli.systems import NOT_MUTATED, families, handover, load, parts_of
from pdproto.spec.catalogue import HANDOFF

SMALL: Final = '''"""A lamp that somebody may turn on, and that says so."""
from pdproto.spec.language import (
    Call, Configuration, Ignore, Machine, Message, Row, Sometimes, Sort, State, System, Table, auto,
    exists, forall, implies, Always,
)
class Person(Sort):
    """Who watches the lamp."""
class Lamp(State):
    OFF = auto()
    ON = auto()
p = Person("p")
lamp, person = Machine("lamp"), Machine("person", p)
light = lamp.function("light", Lamp)
told = person.relation("told")
shines = Message("shines", sender=lamp, receiver=person)
SYSTEM = System("lamp", "A lamp.", tables=(
    Table(lamp, state=light, rows=(
        Row("turn_on", on=Call("turn_on"), at=Lamp.OFF, to=Lamp.ON, send=[shines()]),
    )),
    Table(person, rows=(
        Row("see", on=shines(), when=[~told(p)], do=[told(p).to(True)]),
        Ignore(shines(), when=[told(p)], why="it has been seen"),
    )),
), properties=(
    Sometimes("everybody_knows", forall(p, told(p))),
    Always("nobody_dreams", implies(told(p), light() == Lamp.ON)),
), final=forall(p, told(p)), configurations={"default": Configuration({Person: 2})})
DARK = System("dark", "A lamp that is broken.", tables=SYSTEM.tables, properties=(
    Sometimes("everybody_knows", exists(p, ~told(p)) & forall(p, told(p))),
), final=SYSTEM.final, configurations=SYSTEM.configurations)
wind = Machine("wind", world=True)
WINDY = System("windy", "A lamp in the wind.", tables=(*SYSTEM.tables, Table(wind, rows=(
    Row("blow", when=light() == Lamp.ON, do=[light().to(Lamp.ON)], fair=False),
))), properties=SYSTEM.properties, final=SYSTEM.final, configurations=SYSTEM.configurations)
STEADY = System("steady", "A lamp that stays as it is.", tables=(
    *SYSTEM.tables, Table(lamp, rows=(Row("shine", on=Call("shine")),)),
), properties=SYSTEM.properties, final=SYSTEM.final, configurations=SYSTEM.configurations)
LAX = System("lax", "A lamp of which little is claimed.", tables=SYSTEM.tables,
             properties=SYSTEM.properties[:1], final=SYSTEM.final,
             configurations=SYSTEM.configurations)
'''

Output = pytest.CaptureFixture[str]


@pytest.fixture
def lamp(tmp_path: Path) -> str:
    path = tmp_path / "lamp_of_mutants.py"
    path.write_text(SMALL, encoding="utf-8")
    return f"{path}:SYSTEM"


def as_json(capsys: Output, *arguments: str) -> Any:
    main(["mutate", *arguments, "--quiet", "--json", "-"])
    (campaign,) = json.loads(capsys.readouterr().out)
    return campaign


def without_times(campaign: Any) -> Any:
    for end in campaign["ends"]:
        assert end.pop("seconds") >= 0
    return campaign


def test_the_ends_of_all_mutants(lamp: str, capsys: Output) -> None:
    campaign = as_json(capsys, lamp, "--workers", "1")
    ends = {(end["row"], end["edit"]): end for end in campaign["ends"]}
    assert campaign["mutants"] == len(ends) == 11
    assert campaign["systems"] == ["lamp"]
    assert campaign["killed"] == sum(campaign["killed_by"].values())
    outcomes = ("killed", "lint_only", "edges_only", "refused", "equivalent", "undecided",
                "survived")
    assert sum(campaign[outcome] for outcome in outcomes) == 11
    assert campaign["score"] == campaign["killed"] / (campaign["killed"] + campaign["survived"])
    stays = ends["turn_on", "stay, and do not go to on"]
    assert (stays["outcome"], stays["by"]) == ("killed", {
        "property": "nobody_dreams", "kind": "always", "system": "lamp",
        "configuration": "default", "steps": 2,
    })
    assert ends["see", "drop `told(p) := true`"]["by"]["property"] == "deadlock"
    again = ends["turn_on", "at any state"]
    assert (again["outcome"], again["by"]) == ("equivalent", None)
    blind = ends["ignore_shines", "drop the row"]
    assert blind["outcome"] == "lint only"
    assert blind["note"].startswith("totality: ")


def test_more_workers_change_nothing(lamp: str, capsys: Output) -> None:
    alone = without_times(as_json(capsys, lamp, "--workers", "1"))
    assert without_times(as_json(capsys, lamp, "--workers", "2")) == alone


def test_only_the_named_rows_are_mutated(lamp: str, capsys: Output) -> None:
    every = as_json(capsys, lamp, "--workers", "1")["ends"]
    rows = ("--row", "see", "--row", "ignore_shines")
    found = as_json(capsys, lamp, *rows, "--workers", "1")["ends"]
    assert without_times({"ends": found}) == without_times(
        {"ends": [end for end in every if end["row"] in {"see", "ignore_shines"}]})
    assert main(["mutate", lamp, "--row", "sea", "--quiet"]) == 2
    assert "--row sea: no table that is mutated has such a row" in capsys.readouterr().err


def test_only_changes_of_the_named_kind_are_made(lamp: str, capsys: Output) -> None:
    every = as_json(capsys, lamp, "--workers", "1")["ends"]
    kinds = ("--change", "drop conjunct", "--change", "drop send")
    found = as_json(capsys, lamp, *kinds, "--workers", "1")["ends"]
    assert {end["change"] for end in found} == {"drop conjunct", "drop send"}
    assert without_times({"ends": found}) == without_times(
        {"ends": [end for end in every if end["change"] in {"drop conjunct", "drop send"}]})


def test_a_sample_is_the_same_each_time(lamp: str, capsys: Output) -> None:
    def numbers(seed: int) -> list[int]:
        sample = ("--sample", "4", "--seed", str(seed))
        return [end["number"] for end in as_json(capsys, lamp, *sample, "--workers", "1")["ends"]]

    drawn = [numbers(seed) for seed in range(5)]
    assert all(len(chosen) == 4 and sorted(chosen) == chosen for chosen in drawn)
    assert len({tuple(chosen) for chosen in drawn}) > 1
    assert numbers(3) == drawn[3]


def test_what_is_printed(
    lamp: str, capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(verb, "TOLD_AFTER", 0.0)
    target = tmp_path / "ends.json"
    status = main(["mutate", lamp, "--workers", "1", "--json", str(target)])
    printed, told = capsys.readouterr()
    (campaign,) = json.loads(target.read_text(encoding="utf-8"))
    survived = [end for end in campaign["ends"] if end["outcome"] == "survived"]
    assert status == int(bool(survived))
    lines = [line.split() for line in printed.splitlines()]
    assert ["mutants", "11"] in lines
    assert ["killed", str(campaign["killed"])] in lines
    assert ["survived", str(len(survived))] in lines
    for end in survived:
        assert f"{end['place']}: {end['row']}: {end['edit']}" in printed
    assert "pdproto: 1 of 1 searches before anything is mutated\n" in told
    assert "pdproto: 11 of 11 mutants\n" in told


def test_rows_of_the_environment_are_left_out_and_named(lamp: str, capsys: Output) -> None:
    windy = lamp.replace(":SYSTEM", ":WINDY")
    assert as_json(capsys, lamp, "--workers", "1")["left_out"] == {
        "environment": {}, "rows_of_parts": 0}
    campaign = as_json(capsys, windy, "--workers", "1")
    assert campaign["left_out"] == {"environment": {"wind": ["blow"]}, "rows_of_parts": 0}
    assert campaign["mutants"] == 11
    main(["mutate", windy, "--workers", "1", "--quiet"])
    assert "left out of windy: wind is the environment: blow\n" in capsys.readouterr().out
    assert main(["mutate", windy, "--row", "blow", "--quiet"]) == 2
    assert "--row blow: no table that is mutated has such a row" in capsys.readouterr().err


def test_rows_of_parts_are_counted() -> None:
    """Of a composed system only the rows that no part has may be tried."""
    trials = Trials((load("group-transfer"),), ())
    names = ("group-transfer",)
    own = own_mutants(trials.mutants, trials.systems, parts_of(names))
    assert {mutant.row.name for mutant in own} == {
        "open_own_sender", "vote_ready", "vote_dead", "begin_transfer", "hand_on", "report_done",
        "report_broken", "obey", "free_pages", "end_sender",
    }
    campaign = Campaign(names, trials, (), rows_of_parts=118)
    told = StringIO()
    draw([campaign], Console(file=told, width=100))
    assert "left out of group-transfer: 118 rows that its parts have\n" in told.getvalue()
    assert len(own) < len(own_mutants(trials.mutants, trials.systems, ())) == len(trials.mutants)


def test_a_system_that_does_not_hold(lamp: str, capsys: Output) -> None:
    assert main(["mutate", lamp.replace(":SYSTEM", ":DARK"), "--workers", "1"]) == 1
    told = capsys.readouterr().err
    assert "dark, default: everybody_knows is violated before anything is mutated" in told


def test_mutants_that_change_no_run_test_nothing(lamp: str, capsys: Output) -> None:
    steady = lamp.replace(":SYSTEM", ":STEADY")
    assert main(["mutate", steady, "--row", "shine", "--workers", "1", "--quiet"]) == 3
    printed, told = capsys.readouterr()
    assert "unknown: nothing was tested, for no mutant (of 1) changes a run" in told
    assert ["equivalent", "1"] in [line.split() for line in printed.splitlines()]
    assert main(["mutate", steady, "--row", "turn_on", "--workers", "1", "--quiet"]) != 3


def test_a_limit_before_anything_is_mutated(
    lamp: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unknown whether the unchanged tables hold, so nothing is violated."""
    monkeypatch.setattr(trials, "WIDE", SearchLimits(states_max=2))
    assert main(["mutate", lamp, "--workers", "1"]) == 3
    told = capsys.readouterr()
    assert "lamp, default: the limit of 2 states was reached before anything" in told.err
    assert not told.out


def test_a_name_stands_for_the_systems_that_share_its_tables() -> None:
    assert families(["registry-no-retry"]) == (
        ("registry", "registry-late", "registry-replica", "registry-replica-no-timeouts",
         "registry-replica-history", "registry-no-retry", "registry-no-timeouts"),)
    assert families(["lock-server"]) == (("lock-server",),)
    assert families(["end-to-end-routing"]) == (
        ("end-to-end", "end-to-end-bootstrap", "end-to-end-routing", "end-to-end-attempts",
         "end-to-end-contended"),)
    assert families(["a.py:ONE", "a.py:TWO"]) == (("a.py:ONE", "a.py:TWO"),)
    assert families([]) == handover()


def test_every_part_of_the_hand_over_comes_with_its_variants() -> None:
    parts = handover()
    assert {part[0] for part in parts} >= {"registry", "dp-rank", "transfer", "agreement"}
    assert sorted(name for part in parts for name in part) == sorted(set(HANDOFF) - NOT_MUTATED)
    assert all(name.startswith(part[0]) for part in parts for name in part)
    assert all(list(searches(load(name))) for part in parts for name in part)


def test_ctrl_c_keeps_the_mutants_that_were_checked(
    lamp: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Trials.judged

    def interrupted(self: Trials, mutant: Mutant) -> Judged:
        if mutant.number == 5:
            raise KeyboardInterrupt
        return judged(self, mutant)

    monkeypatch.setattr(Trials, "judged", interrupted)
    main(["mutate", lamp, "--workers", "1", "--json", "-"])
    written, told = capsys.readouterr()
    (campaign,) = json.loads(written)
    assert campaign["mutants"] == 5
    assert campaign["stopped"] == "interrupted: 5 of 11 mutants were tried"
    assert campaign["stopped"] in told
    assert campaign["score"] is None
    main(["mutate", lamp, "--workers", "1", "--quiet", "--no-cache"])
    assert f"incomplete: {campaign['stopped']}\n" in capsys.readouterr().out


# Of each question: the system, the options, the limit of a search and the verdict.
QUESTIONS: Final[dict[str, tuple[str, tuple[str, ...], int | None, Verdict]]] = {
    "none survives": ("SYSTEM", ("--row", "see", "--change", "drop update"), None, Verdict.HOLDS),
    "one survives": ("LAX", ("--row", "turn_on"), None, Verdict.VIOLATED),
    "none changes a run": ("STEADY", ("--row", "shine"), None, Verdict.UNKNOWN),
    "the unchanged system is violated": ("DARK", (), None, Verdict.VIOLATED),
    "its search reached a limit": ("SYSTEM", (), 2, Verdict.UNKNOWN),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_exit_status_and_json_have_one_verdict(
    question: str, lamp: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen red: the JSON told no verdict, and was not written where the unchanged system is
    violated: that of an earlier run, without a survivor, stayed.
    """
    name, options, states_max, verdict = QUESTIONS[question]
    monkeypatch.setattr(trials, "WIDE", SearchLimits(states_max=states_max))
    target = tmp_path / "ends.json"
    target.write_text("[]", encoding="utf-8")
    status = main(["mutate", lamp.replace(":SYSTEM", f":{name}"), *options, "--workers", "1",
                   "--quiet", "--json", str(target)])
    (told,) = json.loads(target.read_text(encoding="utf-8"))
    assert status == EXIT_STATUS[verdict]
    assert (told["verdict"] or Verdict.UNKNOWN) == verdict
    assert bool(told["stopped"]) == (name == "DARK" or states_max is not None)
