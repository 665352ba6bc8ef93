"""A row that is missing is a violation of the check, as it is an error of lint."""

import json
from pathlib import Path
from typing import Final

import pytest

from pdproto.check.answers import ANSWERED, LINT, MAY_WAIT, WAITS, with_answers
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import SearchLimits, silent
from pdproto.check.lint import Severity, lint
from pdproto.check.result import Verdict
from pdproto.check.suite import perform
from pdproto.check.suite import tasks as suite_tasks
from pdproto.cli.main import main
from pdproto.spec.examples.lock_server import SYSTEM, Client, Round
from pdproto.spec.language import (
    TRUE,
    Call,
    Configuration,
    DropRow,
    Formula,
    Ignore,
    Machine,
    Message,
    Rigid,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
    edited,
    forall,
)

SMALL: Final = Configuration({Client: 2, Round: 1})
# What the row answered changes nothing, so that every property holds without it.
HOLE: Final = edited(SYSTEM, "hole", DropRow("ignore_request_taken"))

MINE = """
from pdproto.spec.examples.lock_server import SYSTEM
from pdproto.spec.language import DropRow, edited
HOLE = edited(SYSTEM, "hole", DropRow("ignore_request_taken"))
"""


class Tank(Sort):
    """It is filled."""


class Level(State):
    LOW = auto()
    HIGH = auto()


t = Tank("t")


def tank(*, twice: bool, stops: bool = False) -> System:
    """A full tank has no row for `refill`. twice: it is sent when the tank is full. stops: the
    system may stop anywhere.
    """
    tap, own = Machine("tap"), Machine("tank", t)
    fill = Message("fill", t, sender=tap, receiver=own)
    refill = Message("refill", t, sender=tap, receiver=own)
    full = Message("full", t, sender=own, receiver=tap)
    level = own.function("level", Level)
    more = (Row("open_again", on=full(t), send=refill(t)),) if twice else (
        Ignore(full(t), why="it is full"),)
    return System("tank", "", (
        Table(tap, rows=(Row("open", on=Call("open", t), send=fill(t)), *more)),
        Table(own, state=level, rows=(
            Row("rise", on=fill(t), at=Level.LOW, to=Level.HIGH, send=full(t)),
            Ignore(fill(t), at=Level.HIGH, why="it comes again"),
            Row("rise_again", on=refill(t), at=Level.LOW, to=Level.HIGH))),
    ), final=TRUE if stops else forall(t, ~fill(t) | (level(t) == Level.HIGH)))


@pytest.mark.parametrize(("system", "answered"), [(SYSTEM, True), (HOLE, False)])
def test_a_missing_row_is_found_though_exploring_does_not_miss_it(
    system: System, answered: bool
) -> None:
    explored = check(system, SMALL, CheckSettings())
    assert explored.verdict is Verdict.HOLDS
    result = with_answers(system, SMALL, CheckSettings(), explored)
    assert (result.verdict is Verdict.HOLDS) is answered
    finding = result.findings[-1]
    assert finding.name == ANSWERED
    assert (finding.verdict is Verdict.HOLDS) is answered
    if not answered:
        assert finding.claim == "server has no row for request(c, r) (where c=c0, r=r0)"
        assert finding.trace is not None
        assert [step.row for step in finding.trace.steps] == ["ask", "give"]


@pytest.mark.parametrize(("asked", "verdict"), [
    (tank(twice=False), Verdict.HOLDS), (tank(twice=True), Verdict.VIOLATED)])
def test_a_state_that_is_not_reached_needs_no_row(asked: System, verdict: Verdict) -> None:
    """Lint tells of it in both: a machine by itself does not know that it is told once."""
    chosen = Configuration({Tank: 1})
    result = with_answers(asked, chosen, CheckSettings(), check(asked, chosen, CheckSettings()))
    finding = result.findings[-1]
    assert (finding.name, finding.verdict) == (ANSWERED, verdict)
    assert (LINT in finding.note) == (verdict is Verdict.HOLDS)
    assert finding.assurance.endswith("for Tank=1")
    assert [remark.rule for remark in lint(asked, chosen) if remark.severity is Severity.ERROR]


class Node(Sort):
    """Three of them can differ."""


a, b, c = Node("a"), Node("b"), Node("c")
near = Rigid("near", a, b)


def told_once(taken: Formula) -> System:
    """A message of three nodes is sent once; a row takes it where this holds."""
    teller, taker = Machine("teller"), Machine("taker")
    ask = Message("ask", a, b, c, sender=teller, receiver=taker)
    told, got = teller.relation("told"), taker.relation("got")
    return System("told", "", (
        Table(teller, rows=(Row("tell", on=Call("tell", a, b, c), when=~told(),
                                do=told().to(True), send=ask(a, b, c)),)),
        Table(taker, rows=(Row("take", on=ask(a, b, c), when=taken, do=got().to(True)),)),
    ), final=got() | ~got(), configurations={"default": Configuration({Node: 1})})


@pytest.mark.parametrize(("taken", "chosen", "verdict"), [
    (a.same(b) | b.same(c) | a.same(c), Configuration({Node: 2}), Verdict.HOLDS),
    (a.same(b) | b.same(c) | a.same(c), Configuration({Node: 3}), Verdict.VIOLATED),
    (near(a, b), Configuration({Node: 1}, given={near: lambda _: {(0, 0)}}), Verdict.HOLDS),
    (near(a, b), Configuration({Node: 1}, given={near: lambda _: set()}), Verdict.VIOLATED),
])
def test_a_row_is_missing_only_at_these_sizes_or_in_this_topology(
    taken: Formula, chosen: Configuration, verdict: Verdict
) -> None:
    asked = told_once(taken)
    explored = check(asked, chosen, CheckSettings())
    assert explored.verdict is Verdict.HOLDS
    finding = with_answers(asked, chosen, CheckSettings(), explored).findings[-1]
    assert finding.verdict is verdict


@pytest.mark.parametrize("limit", ["PAIRS_MAX", "INTERPRETATIONS_MAX"])
def test_what_lint_cannot_look_at_is_explored(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the last of two topologies a row is missing: lint looks at the first alone, or at none."""
    asked, chosen = told_once(~near(a, b)), Configuration({Node: 1})
    module = "bounds." if limit == "PAIRS_MAX" else ""
    monkeypatch.setattr(f"pdproto.check.lint.{module}{limit}", 1)
    explored = check(asked, chosen, CheckSettings())
    finding = with_answers(asked, chosen, CheckSettings(), explored).findings[-1]
    assert finding.verdict is Verdict.VIOLATED
    assert finding.trace is not None


def test_an_unfinished_search_answers_nothing() -> None:
    asked, chosen = tank(twice=False), Configuration({Tank: 1})
    few = CheckSettings(limits=SearchLimits(states_max=1))
    result = with_answers(asked, chosen, few, check(asked, chosen, few))
    assert result.findings[-1].verdict is Verdict.UNKNOWN
    assert "every state" not in result.findings[-1].assurance


def test_a_message_may_wait_where_every_state_is_final() -> None:
    asked, chosen = tank(twice=True, stops=True), Configuration({Tank: 1})
    result = with_answers(asked, chosen, CheckSettings(), check(asked, chosen, CheckSettings()))
    finding = result.findings[-1]
    assert (finding.verdict, finding.claim, finding.note) == (Verdict.HOLDS, MAY_WAIT, WAITS)


def test_the_command_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "mine.py:HOLE", "--quiet", "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    found = {finding["name"]: finding["verdict"] for finding in told["properties"]}
    assert {name for name, verdict in found.items() if verdict == "violated"} == {ANSWERED}
    # Who asks for one property gets no other.
    assert main(["check", "mine.py:HOLE", "--quiet", "--property", "mutual_exclusion"]) == 0


def test_the_suite_looks_at_each_system_once() -> None:
    wanted = suite_tasks({"lock-server": "pdproto.spec.examples.lock_server:SYSTEM"}, deep=False)
    found = [perform(CheckSettings(), task, silent).result.findings for task in wanted]
    assert len(found) > 1
    assert [any(one.name == ANSWERED for one in each) for each in found] == [
        True, *[False] * (len(found) - 1)]
