"""Exit status, terminal and every report say the same verdict, of each verb and kind of verdict."""

import json
import re
import subprocess
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from pdproto.check import suite
from pdproto.check.outcome import INTERRUPTED, NO_STEP, NONE_JUDGED, Shown
from pdproto.check.report.suite import FORMATS
from pdproto.check.result import EXIT_STATUS, Suite, Task, Verdict
from pdproto.check.stepping.walk import Walker
from pdproto.check.unjudged import ONE_RUN
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.language import (
    FALSE,
    TRUE,
    Always,
    DropRow,
    Fairness,
    LeadsTo,
    Refines,
    Sometimes,
    edited,
)
from tests.check.report.page_reader import PageReader, read_xml
from tests.check.trace.alterations import GOLDEN
from tests.cli.word_systems import ON, SWITCH, any_relation, number
from tests.cli.word_systems import told as telling

HOLDS, VIOLATED, UNKNOWN = Verdict
KEPT, BROKEN = any_relation(True), any_relation(False)
TWO: Final = replace(BROKEN, properties=(Always("true", TRUE), *BROKEN.properties), like=BROKEN)
STEADY, WRONG = number(True), number(False)
SOMETIMES: Final = replace(STEADY, properties=(Sometimes("claim", FALSE),), like=STEADY)
STILL: Final = edited(STEADY, "still", DropRow("more"))
ASSUMING: Final = replace(STEADY, properties=(
    LeadsTo("timers", TRUE, TRUE, under=Fairness.TIMERS),
    LeadsTo("consumed", TRUE, TRUE, under=Fairness.CONSUMED),
    Refines("refined", SWITCH, ON().to(FALSE))), like=STEADY)
SILENT: Final = edited(telling(True), "silent", DropRow("hear"))
SYSTEMS: Final = {"KEPT": KEPT, "BROKEN": BROKEN, "TWO": TWO, "STEADY": STEADY, "WRONG": WRONG,
                  "SOMETIMES": SOMETIMES, "STILL": STILL, "ASSUMING": ASSUMING, "SILENT": SILENT}
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


def of_runs(text: str) -> str:
    """Of `run`, `fuzz` and `sim`: the last line, or a picture of a violation."""
    words = {"no violation was seen, which proves nothing": Shown.CLEAN,
             **dict.fromkeys((NO_STEP, NONE_JUDGED, INTERRUPTED), Shown.UNKNOWN)}
    return words.get(text.rstrip().splitlines()[-1], Shown.VIOLATED)


# Of each sample: the system, the options, the verbs and the verdict.
FEW: Final = {"run": ("--runs", "4"), "fuzz": ("--runs", "1", "--steps", "5"),
             "sim": ("--seeds", "1", "--quiet")}
SAMPLED: Final = (*FEW,)
SAMPLES: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...], Shown]]] = {
    "nothing is seen": ("STEADY", (), SAMPLED, Shown.CLEAN),
    "violated": ("WRONG", (), SAMPLED, Shown.VIOLATED),
    "no step": ("STILL", (), SAMPLED, Shown.UNKNOWN),
    "interrupted": ("STEADY", (), ("run",), Shown.UNKNOWN),
    "no run judges it": ("SOMETIMES", ("--property", "claim"), ("fuzz",), Shown.UNKNOWN),
}


@pytest.mark.parametrize(("question", "verb"), [
    (question, verb) for question, (_, _, verbs, _) in SAMPLES.items() for verb in verbs])
def test_every_form_of_some_runs_has_one_verdict(
    question: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen red: JSON told "unknown", or nothing, of all without a violation; `run` without a step,
    or after Ctrl-C, had status 0; so had `fuzz` of a property that it judges in no run.
    """
    name, options, _, verdict = SAMPLES[question]
    if question == "interrupted":
        moves = Walker.enabled
        monkeypatch.setattr(Walker, "enabled", lambda walker, state: (
            moves(walker, state) if not state else interrupt()))
    target = tmp_path / "json"
    status = main([verb, f"systems_of_verdicts:{name}", *FEW[verb], *options,
                   "--json", str(target)])
    told = json.loads(target.read_text())
    assert (of_runs(capsys.readouterr().out), told["verdict"]) == (verdict, verdict)
    assert status == {Shown.CLEAN: 0, Shown.VIOLATED: 1, Shown.UNKNOWN: 3}[verdict]


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("verb", SAMPLED)
def test_runs_name_the_properties_on_which_they_have_no_verdict(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: "no violation was seen" of a `sometimes` without a witness, and nothing else."""
    told = {}
    for target in ("-", str(tmp_path / "json")):
        main([verb, "systems_of_verdicts:SOMETIMES", *FEW[verb], "--json", target])
        told[target] = capsys.readouterr().out
    assert json.loads(told["-"])["not_judged"] == [f"claim: {ONE_RUN}"]
    assert f"not judged: claim: {ONE_RUN}\n" in told[str(tmp_path / "json")]


def test_runs_name_the_properties_whose_assumption_none_of_them_made(
    capsys: pytest.CaptureFixture[str]
) -> None:
    """A run makes one assumption, and a deadlock is looked for where every timer fires."""
    told = {}
    for seed in ("0", "1"):
        main(["sim", "systems_of_verdicts:ASSUMING", "--seed", seed, "--quiet", "--json", "-"])
        told[seed] = {one.partition(":")[0]
                      for one in json.loads(capsys.readouterr().out)["not_judged"]}
    assert told == {"0": {"consumed"}, "1": {"timers", "refined", "deadlock"}}
    main(["sim", "systems_of_verdicts:ASSUMING", "--seeds", "2", "--quiet", "--json", "-"])
    assert json.loads(capsys.readouterr().out)["not_judged"] == []


@pytest.mark.parametrize("verb", ["fuzz", "sim"])
def test_a_page_without_a_violation_is_not_written(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: nothing was said of it."""
    for name, drawn in (("STEADY", False), ("WRONG", True)):
        target = tmp_path / name
        main([verb, f"systems_of_verdicts:{name}", *FEW[verb], "--html", str(target)])
        said = f"no run has a violation to draw: {target} is not written"
        assert (said in capsys.readouterr().err, target.exists()) == (not drawn, drawn)


# Commands that end without an answer, each with its reason.
NO_ANSWER: Final[Mapping[tuple[str, ...], str]] = {
    ("check", "systems_of_verdicts:KEPT", "--property", "nothing"): "no property",
    ("check", "systems_of_verdicts:KEPT", "--quiet"): "cannot write",  # the disk is full
    ("prove", "nowhere.py:SYSTEM"): "nowhere.py",
    ("fuzz", "systems_of_verdicts:STEADY", "--replay", "AAAA"): "no run of this system",
    ("sim", "systems_of_verdicts:KEPT"): "lit of hall",
    ("mutate", "systems_of_verdicts:KEPT", "--row", "nothing", "--workers", "1"): "nothing",
    ("trace", "nowhere.jsonl"): "nowhere.jsonl",
    ("lint", "nowhere.py:SYSTEM"): "nowhere.py",
}


@pytest.mark.parametrize("command", NO_ANSWER)
def test_a_command_without_an_answer_leaves_no_earlier_report(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen red: the report of an earlier run stayed, with its verdict."""
    def full(path: Path, *_: object, **__: object) -> NoReturn:
        raise OSError(ENOSPC, "No space left on device", str(path))

    target = tmp_path / "earlier.json"
    target.write_text('{"verdict": "holds"}')
    monkeypatch.setattr(Path, "write_text", full)
    assert main([*command, "--json", str(target)]) == 2
    assert NO_ANSWER[command] in capsys.readouterr().err
    assert not target.exists()


def test_a_report_may_go_where_the_shell_sends_the_output(tmp_path: Path) -> None:
    """Seen red: the file of the shell was removed, and the report had another name."""
    target = tmp_path / "reports" / "report.json"
    target.parent.mkdir()
    with target.open("w") as output:
        subprocess.run([sys.executable, "-m", "pdproto", "check", "lock-server", "--json",
                        "/dev/stdout"], stdout=output, check=True)
    assert json.loads(target.read_text())
    assert [*target.parent.iterdir()] == [target]


def test_a_report_takes_the_place_of_no_file_that_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = tmp_path / "10:41 trace.jsonl"
    read.write_bytes(next(iter(sorted(GOLDEN.glob("*.jsonl")))).read_bytes())
    before = read.read_bytes()
    spec = tmp_path / "spec.py"
    spec.write_text("SYSTEM = None")
    for command in (("trace", str(read)), ("check", "--merge", str(read)),
                    ("lint", f"{spec}:SYSTEM"),
                    ("prove", "two-phase-commit", "--lemmas", f"{spec}:LEMMAS")):
        target = spec if command[0] in ("lint", "prove") else read
        assert main([*command, "--json", str(target)]) == 2
        assert f"{target} is read: write the result to another file" in capsys.readouterr().err
    assert (read.read_bytes(), spec.read_text()) == (before, "SYSTEM = None")


@pytest.mark.parametrize(("name", "errors"), [("STEADY", 0), ("SILENT", 1)])
def test_every_form_of_lint_has_the_same_errors(
    name: str, errors: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "json"
    status = main(["lint", f"systems_of_verdicts:{name}", "--format", "github",
                   "--json", str(target)])
    out = capsys.readouterr().out
    remarks = json.loads(target.read_text())["remarks"]
    told = {"json": sum(one["severity"] == "error" for one in remarks),
            "github": len(re.findall(r"^::error ", out, re.MULTILINE)),
            "terminal": len(re.findall(r": error: ", out)),
            "summary": int((re.findall(r"(\d+) errors?\b", out) or [0])[-1])}
    assert told == dict.fromkeys(told, errors)
    assert status == bool(errors)
