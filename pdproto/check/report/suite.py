"""The result of checking the hand-over: a line for each system, and the same as JSON and XML."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final
from xml.etree import ElementTree

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.report import github, junit, sarif
from pdproto.check.report.as_json import to_json
from pdproto.check.report.terminal import VERDICT_STYLE, render_trace
from pdproto.check.result import CheckResult, Finding, PropertyKind, Suite, Task, Verdict
from pdproto.spec.language.place import Place

FORMATS: Final = ("json", "junit", "sarif")  # not a page or a diagram, which show one system


def draw(suite: Suite, seconds: float, console: Console) -> None:
    """Print a line for each check, the traces of violations, the coverage, the verdict."""
    console.print(_table(suite))
    console.print()
    for checked in suite.checked:
        for finding in checked.result.findings:
            if finding.verdict is Verdict.VIOLATED:
                console.print(Text(checked.task.title, style="bold"))
                render_trace(finding, console)
                console.print()
    for line in _coverage(suite):
        console.print(line)
    verdict = Text(suite.verdict.value.upper(), style=VERDICT_STYLE[suite.verdict])
    console.print(Text.assemble(verdict, f"  {_total(suite)}, {seconds:.1f} s"))
    if suite.stopped:
        undone = len(suite.tasks) - len(suite.checked)
        console.print(Text(f"stopped: {suite.stopped}; {undone} not checked", style="yellow"))


def _table(suite: Suite) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("system, sizes", overflow="fold")
    for name in ("states", "transitions", "depth", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for checked in suite.checked:
        result = checked.result
        table.add_row(
            Text(result.verdict.value, style=VERDICT_STYLE[result.verdict]),
            Text.assemble(checked.task.title, (_remark(result), "yellow")),
            *(f"{count:,}" for count in (result.states, result.transitions, result.depth)),
            f"{result.seconds:.1f}",
        )
    return table


def _remark(result: CheckResult) -> str:
    """The violated properties, or else the reason of an unknown verdict."""
    violated = [f.name for f in result.findings if f.verdict is Verdict.VIOLATED]
    told = "\n".join(violated) or result.stopped
    return told and f"\n{told}"


def _coverage(suite: Suite) -> list[Text]:
    if not suite.rows:
        return []
    if not suite.never_fired:
        return [Text(f"each of {suite.rows:,} rows fires in some system")]
    never = [Text(f"  {name}  {place}") for name, place in suite.never_fired]
    count = len(never)
    return [Text(f"{count:,} of {suite.rows:,} rows fire in no system:", style="bold red"), *never]


def _total(suite: Suite) -> str:
    results = [checked.result for checked in suite.checked]
    systems = len({checked.task.system for checked in suite.checked})
    findings = sum(len(result.findings) for result in results)
    states = sum(result.states for result in results)
    recalled = sum(result.recalled for result in results)
    return (
        f"{len(results):,} checks of {systems:,} systems, {findings:,} verdicts, "
        f"{states:,} states" + (f", {recalled:,} checks recalled" if recalled else "")
    )


def written(kind: str, suite: Suite, seconds: float) -> str:
    """The suite in one of FORMATS."""
    match kind:
        case "json":
            return json.dumps(_as_json(suite, seconds), indent=2)
        case "sarif":
            return sarif.render(*_results(suite))
        case "junit":
            return _junit(suite)
    raise AssertionError(kind)


def _as_json(suite: Suite, seconds: float) -> dict[str, Any]:
    return {
        "verdict": suite.verdict.value,
        "seconds": seconds,
        "stopped": suite.stopped,
        "checks": [
            {"configuration": checked.task.configuration, **to_json(checked.result)}
            for checked in suite.checked
        ],
        "not_checked": [task.title for task in _unchecked(suite)],
        "rows": suite.rows,
        "rows_never_fired": [
            {"row": name, "place": {"path": place.path, "line": place.line}}
            for name, place in suite.never_fired
        ],
    }


def _unchecked(suite: Suite) -> list[Task]:
    done = [checked.task for checked in suite.checked]
    return [task for task in suite.tasks if task not in done]


def _results(suite: Suite) -> Iterator[CheckResult]:
    """Each check under a name that says at which sizes; and what is violated or open of the whole,
    as another one.
    """
    for checked in suite.checked:
        yield replace(checked.result, system=checked.task.title)
    findings = tuple(chain(
        (Finding(f"{name} fires", PropertyKind.SOMETIMES, "it fires in some system",
                 Verdict.VIOLATED, "", place) for name, place in suite.never_fired),
        (Finding(task.title, PropertyKind.ALWAYS, "each property of the system", Verdict.UNKNOWN,
                 "", _place(task)) for task in _unchecked(suite))))
    if findings:
        yield CheckResult(
            "coverage", "Of all systems together.", {}, (), 0, 0, 0, 0.0, not suite.stopped,
            suite.stopped, findings, (), 0)


def _place(task: Task) -> Place:
    """The file of its system."""
    target = task.target.rpartition(":")[0]
    path = target if target.endswith(".py") else target.replace(".", "/") + ".py"
    return Place(path, 1)


def _junit(suite: Suite) -> str:
    """One report with a suite of cases for each check, and one for the whole."""
    whole = ElementTree.Element("testsuites", {"name": "hand-over"})
    whole.extend(map(junit.suite_of, _results(suite)))
    return junit.document(whole)


def of_github(suite: Suite) -> Iterator[str]:
    """The workflow commands of each check, and of the whole."""
    return chain.from_iterable(map(github.of_check, _results(suite)))
