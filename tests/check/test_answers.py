"""A row that is missing is a violation of the check, as it is an error of lint."""

import json
from pathlib import Path
from typing import Final

import pytest

from pdproto.check.answers import ANSWERED, is_answered, with_answers
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import silent
from pdproto.check.result import Verdict
from pdproto.check.suite import perform
from pdproto.check.suite import tasks as suite_tasks
from pdproto.cli.main import main
from pdproto.spec.examples.lock_server import SYSTEM, Client, Round
from pdproto.spec.language import Configuration, DropRow, System, edited

SMALL: Final = Configuration({Client: 2, Round: 1})
# What the row answered changes nothing, so that every property holds without it.
HOLE: Final = edited(SYSTEM, "hole", DropRow("ignore_request_taken"))

MINE = """
from pdproto.spec.examples.lock_server import SYSTEM
from pdproto.spec.language import DropRow, edited
HOLE = edited(SYSTEM, "hole", DropRow("ignore_request_taken"))
"""


@pytest.mark.parametrize(("system", "answered"), [(SYSTEM, True), (HOLE, False)])
def test_a_missing_row_is_found_though_exploring_does_not_miss_it(
    system: System, answered: bool
) -> None:
    explored = check(system, SMALL, CheckSettings())
    assert explored.verdict is Verdict.HOLDS
    result = with_answers(system, explored)
    assert is_answered(result) is answered
    assert (result.verdict is Verdict.HOLDS) is answered
    finding = result.findings[-1]
    assert finding.name == ANSWERED
    if not answered:
        assert finding.claim == (
            "server in taken has no row for request(c, r) (where c = c0, r = r0)")


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
