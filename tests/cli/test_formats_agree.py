"""Exit status, terminal and every report say the same verdict, of each verb and kind of verdict."""

import json
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from pdproto.check import suite
from pdproto.check.report.suite import FORMATS
from pdproto.check.result import EXIT_STATUS, Suite, Task, Verdict
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.language import TRUE, Always
from tests.check.report.page_reader import PageReader, read_xml
from tests.check.trace.alterations import GOLDEN
from tests.cli.word_systems import any_relation

HOLDS, VIOLATED, UNKNOWN = Verdict
KEPT, BROKEN = any_relation(True), any_relation(False)
TWO: Final = replace(BROKEN, properties=(Always("true", TRUE), *BROKEN.properties), like=BROKEN)
SYSTEMS: Final = {"KEPT": KEPT, "BROKEN": BROKEN, "TWO": TWO}
# Of each question: the system, the options and the verdict.
QUESTIONS: Final[Mapping[str, tuple[str, tuple[str, ...], Verdict]]] = {
    "holds": ("KEPT", (), HOLDS),
    "violated": ("BROKEN", (), VIOLATED),
    "one of two is violated": ("TWO", ("--keep-going",), VIOLATED),
    "only what holds is asked": ("TWO", ("--property", "true"), HOLDS),
    "only what is violated is asked": ("TWO", ("--property", "claim"), VIOLATED),
    "too many states": ("KEPT", ("--max-states", "1"), UNKNOWN),
    "violated, and the other is open": ("TWO", ("--no-keep-going",), VIOLATED),
}


def of_text(text: str) -> Verdict:
    (word,) = re.findall(r"^(HOLDS|VIOLATED|UNKNOWN)  ", text, re.MULTILINE)
    return Verdict(word.lower())


def of_json(text: str) -> Verdict:
    told = json.loads(text)
    verdicts = {one["verdict"] for one in told["properties"]}
    first = next((one for one in (VIOLATED, UNKNOWN, HOLDS) if one in verdicts), UNKNOWN)
    assert told["verdict"] == first
    return first


def of_page(text: str) -> Verdict:
    """Of the heading, its colour and the title."""
    (kind,) = (re.findall(r'<p class="verdict (\w+)">(\w+)</p>', text))
    assert kind[0] == kind[1]
    assert f": {kind[0]}</title>" in text
    PageReader(text)
    return Verdict(kind[0])


def of_junit(text: str) -> Verdict:
    """A server of CI shows a failure, or else an error, or else that all has passed."""
    root = read_xml(text)
    for part in root.findall("testsuite"):
        for name, tag in (("failures", "failure"), ("errors", "error"), ("tests", "name")):
            cases = part.findall("testcase")
            found = cases if tag == "name" else [one for one in cases if one.find(tag) is not None]
            assert int(part.get(name, "")) == len(found)
    if root.findall(".//failure"):
        return VIOLATED
    return UNKNOWN if root.findall(".//error") or not root.findall(".//testcase") else HOLDS


def of_sarif(text: str) -> Verdict:
    runs = json.loads(text)["runs"]
    kinds = {one["kind"] for run in runs for one in run["results"]}
    assert all(run["tool"]["driver"]["rules"] for run in runs)
    return VIOLATED if "fail" in kinds else UNKNOWN if "open" in kinds else HOLDS


def of_github(text: str) -> Verdict:
    commands = set(re.findall(r"^::(\w+) ", text, re.MULTILINE))
    return VIOLATED if "error" in commands else UNKNOWN if "warning" in commands else HOLDS


REPORTS: Final[Mapping[str, Callable[[str], Verdict]]] = {
    "json": of_json, "html": of_page, "junit": of_junit, "sarif": of_sarif}


@pytest.fixture(autouse=True)
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("systems_of_verdicts")
    for name, system in SYSTEMS.items():
        setattr(module, name, system)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_form_of_a_check_has_one_verdict(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, options, verdict = QUESTIONS[question]
    files = [part for kind in REPORTS for part in (f"--{kind}", str(tmp_path / kind))]
    status = main(["check", f"systems_of_verdicts:{name}", "--quiet", "--format", "github",
                   *options, *files])
    out = capsys.readouterr().out
    told = {kind: read((tmp_path / kind).read_text()) for kind, read in REPORTS.items()}
    told |= {"terminal": of_text(out), "github": of_github(out)}
    assert told == dict.fromkeys(told, verdict)
    assert status == EXIT_STATUS[verdict]


HOLDING, VIOLATING = ("two-phase-commit",), ("two-phase-commit", "lock-server-broken")
UNFIRED: Final = ("agreement-once",)
# Of each run of several systems: the systems, the number that is checked, and the verdict.
SUITES: Final[Mapping[str, tuple[tuple[str, ...], int, Verdict]]] = {
    "holds": (HOLDING, 1, HOLDS),
    "violated": (VIOLATING, 2, VIOLATED),
    "one is not checked": (VIOLATING, 1, UNKNOWN),
    "a row fires nowhere": (UNFIRED, 1, VIOLATED),
}


@pytest.mark.parametrize("question", SUITES)
def test_every_form_of_a_check_of_several_systems_has_one_verdict(
    question: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Seen red: no annotation for GitHub in any of them, and in SARIF no unchecked system and no
    row that fires nowhere.
    """
    names, count, verdict = SUITES[question]
    monkeypatch.setattr("pdproto.cli.check_all.HANDOFF", names)
    known = suite.run

    def stopped(wanted: Sequence[Task], *arguments: Any, **given: Any) -> Suite:
        found = known(wanted[:count], *arguments, **given)
        lacking = "" if count == len(wanted) else "interrupted"
        return replace(found, tasks=tuple(wanted), stopped=lacking)

    monkeypatch.setattr(suite, "run", stopped)
    if names == UNFIRED:
        calm = load(names[0])
        plain = replace(calm.configurations["default"], faults=())
        calm = replace(calm, configurations={"default": plain})
        monkeypatch.setattr(suite, "load", lambda _: calm)
    files = [part for kind in FORMATS for part in (f"--{kind}", str(tmp_path / kind))]
    status = main(["check", "--quiet", "--workers", "1", "--format", "github", *files])
    out = capsys.readouterr().out
    text = {kind: (tmp_path / kind).read_text() for kind in FORMATS}
    told = {kind: REPORTS[kind](text[kind]) for kind in ("junit", "sarif")}
    told |= {"terminal": of_text(out), "github": of_github(out)}
    told |= {"json": Verdict(json.loads(text["json"])["verdict"])}
    assert told == dict.fromkeys(told, verdict)
    assert status == EXIT_STATUS[verdict]


@pytest.mark.parametrize("verdict", Verdict)
def test_every_form_of_a_replay_has_one_verdict(
    verdict: Verdict, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given: list[object] = [*sorted(GOLDEN.glob("*.jsonl"))]
    if verdict is UNKNOWN:
        given.pop()  # the trace of one process
    if verdict is VIOLATED:
        given += ["--system", "agreement"]
    files = [part for kind in ("json", "html") for part in (f"--{kind}", str(tmp_path / kind))]
    status = main(["trace", *map(str, given), *files])
    words = {"CONFORMS": HOLDS, "REJECTED": VIOLATED, "INCOMPLETE": UNKNOWN}
    told = {"terminal": words[capsys.readouterr().out.split()[0]],
            "json": words[json.loads((tmp_path / "json").read_text())["verdict"].upper()],
            "html": of_page((tmp_path / "html").read_text())}
    assert told == dict.fromkeys(told, verdict)
    assert status == EXIT_STATUS[verdict]
