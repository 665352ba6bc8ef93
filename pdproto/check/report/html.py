"""A result as one self-contained HTML file: no network, no fonts, no other files.

Without its script, the page has the list of findings and a picture for each trace. The script adds
the choice of one finding and one step, the state of every lane at that step, and the keyboard. It
reads the result as JSON, and writes text only through `textContent`.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from pdproto.check.report.as_json import to_json
from pdproto.check.report.markup import Markup, breakable, element
from pdproto.check.report.narration import (
    counted,
    every_row,
    headline,
    so_far,
    verdict_word,
    visible,
)
from pdproto.check.report.sequence import blocked_rows, colour_classes, sequence, written_at
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict

MARK: Final = {Verdict.HOLDS: "✓", Verdict.VIOLATED: "✗", Verdict.UNKNOWN: "?"}

NO_TRACE: Final = {
    Verdict.HOLDS: "It holds: there is no counterexample to show.",
    Verdict.VIOLATED: "No single run shows this, so there is no trace.",
    Verdict.UNKNOWN: "No counterexample was found before the search ended.",
}

NOT_DRAWN: Final = {  # of a claim of a proof
    Verdict.HOLDS: "It is proved, as is told above: there is no counterexample to show.",
    Verdict.VIOLATED: "No smallest state that shows this was found to draw.",
    Verdict.UNKNOWN: "An obligation of it, or of a claim that it rests on, is not proved.",
}

KEYS: Final = (
    ("↓ → j", "next step"),
    ("↑ ← k", "previous step"),
    ("Home End", "first and last step"),
    ("1 … 9", "choose a finding"),
    ("n p", "next and previous finding"),
    ("?", "show or hide this help"),
)


@dataclass(frozen=True, slots=True)
class Masthead:
    """The verdict in words, and the figures, each with its name."""

    verdict: str
    figures: Sequence[tuple[str, str]]


def render(result: CheckResult, masthead: Masthead | None = None) -> str:
    """Return the whole page. masthead: by default that of an exploration, with its coverage."""
    script = resource("steps.js") + resource("page.js")
    coverage = _coverage(result) if masthead is None else ()
    masthead = masthead or _explored(result)
    title = f"{visible(result.system)}: {masthead.verdict}"
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'),
        element("title", title),
        element("style", Markup(resource("page.css"))),
    )
    body = element(
        "body",
        _masthead(result, masthead),
        element(
            "div",
            _findings(result, *coverage),
            element("main", *_sections(result)),
            element("aside", id="inspector", aria_label="The selected step", hidden=True),
            class_="workspace",
        ),
        _help(),
        element("script", Markup(_embedded(result)), type="application/json", id="result"),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


@cache
def resource(name: str) -> str:
    """Return the text of a file of this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Return a policy under which the page runs its own script, and loads no resources."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _embedded(result: CheckResult) -> str:
    """Return the result as JSON in which no text can end the script element."""
    values = _printable(to_json(result))
    for finding, plain in zip(result.findings, values["properties"], strict=True):
        plain["headline"] = headline(finding)
        if finding.trace is not None:
            colours = colour_classes(finding.trace)
            plain["colours"] = {visible(lane): colour for lane, colour in colours.items()}
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def _printable(value: Any) -> Any:
    """Return the JSON values with all strings made `visible`, as the page shows them."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {visible(key): _printable(item) for key, item in value.items()}
    return value


def _explored(result: CheckResult) -> Masthead:
    return Masthead(result.verdict.value, [
        # A replayed trace has no states of a whole system.
        *([("states", f"{result.states:,}")] if result.states else []),
        ("transitions", f"{result.transitions:,}"),
        ("depth", f"{result.depth:,}"),
        ("seconds", f"{result.seconds:.2f}"),
        (f"deadlocks{so_far(result)}", f"{result.deadlocks:,}"),
        *((sort, str(size)) for sort, size in result.sizes.items()),
    ])


def _masthead(result: CheckResult, head: Masthead) -> Markup:
    facts = [
        element("p", label, element("b", ", ".join(values)))
        for label, values in (("faults ", result.faults), ("reductions ", result.reductions))
        if values
    ]
    stopped = f"Incomplete: {result.stopped}" if result.stopped else "Incomplete"
    return element(
        "header",
        element(
            "div",
            element("p", head.verdict, class_=f"verdict {result.verdict.value}"),
            element("h1", breakable(result.system)),
            element("p", result.description, class_="description") if result.description else "",
            class_="title",
        ),
        element(
            "dl",
            *(
                element("div", element("dt", name), element("dd", value))
                for name, value in head.figures
            ),
            class_="figures",
        ),
        element("div", *facts, class_="facts") if facts else "",
        "" if result.complete else element("p", stopped, class_="stopped"),
        class_="masthead",
    )


def _findings(result: CheckResult, *coverage: Markup) -> Markup:
    items = [_item(number, finding) for number, finding in enumerate(result.findings, start=1)]
    return element(
        "nav",
        element("h2", "Findings"),
        element("ol", *items),
        *coverage,
        class_="findings",
        aria_label="Findings",
    )


def _item(number: int, finding: Finding) -> Markup:
    kind = "" if finding.kind is PropertyKind.INDUCTIVE else f", {finding.kind.value}"
    steps = "" if finding.trace_length is None else f", {counted(finding.trace_length, 'step')}"
    return element(
        "li",
        element(
            "a",
            element("span", MARK[finding.verdict], class_="mark", aria_hidden="true"),
            element(
                "span",
                element("b", breakable(finding.name)),
                element("small", f"{verdict_word(finding)}{kind.replace('_', ' ')}{steps}"),
                element("small", finding.note, class_="note") if finding.note else "",
            ),
            href=f"#f{number}",
            class_=finding.verdict.value,
        ),
    )


def _coverage(result: CheckResult) -> Iterator[Markup]:
    if result.rows_never_fired:
        yield element("h2", f"Rows that never fired{so_far(result)}")
        rows = [
            element(
                "li",
                element("code", row),
                written_at(str(result.row_places[row])) if row in result.row_places else "",
            )
            for row in result.rows_never_fired
        ]
        yield element("ul", *rows, class_="coverage")
    elif result.complete and (text := every_row(result)):
        yield element("p", f"{text[0].upper()}{text[1:]}.", class_="coverage muted")


def _sections(result: CheckResult) -> Iterator[Markup]:
    for number, finding in enumerate(result.findings, start=1):
        yield _section(f"f{number}", finding)
    if not result.findings:
        yield element("p", "No property was checked.", class_="empty")


def _section(prefix: str, finding: Finding) -> Markup:
    facts = [str(finding.place), finding.assurance]
    parts: list[Markup] = []
    if finding.trace is None:
        proof = finding.kind is PropertyKind.INDUCTIVE
        told = (NOT_DRAWN if proof else NO_TRACE)[finding.verdict]
        parts.append(element("p", told, class_="empty"))
    else:
        parts += [sequence(finding, prefix=prefix), blocked_rows(finding.trace.blocked)]
    return element(
        "section",
        element(
            "div",
            element(
                "h2",
                element("span", breakable(finding.name), id=f"{prefix}-name"),
                element("span", headline(finding), class_=f"outcome {finding.verdict.value}"),
            ),
            element("p", finding.claim, class_="claim"),
            element("p", *(element("span", fact) for fact in facts if fact), class_="facts"),
            element("p", finding.note, class_=f"note {finding.verdict.value}")
            if finding.note
            else "",
            class_="finding-head",
        ),
        *parts,
        id=prefix,
        class_="finding",
        aria_labelledby=f"{prefix}-name",
    )


def _help() -> Markup:
    rows = [
        element(
            "div",
            element("dt", *(element("kbd", key) for key in keys.split())),
            element("dd", meaning),
        )
        for keys, meaning in KEYS
    ]
    return element(
        "dialog",
        element("h2", "Keys", id="help-name"),
        element("dl", *rows),
        element("button", "Close", type="button"),
        id="help",
        aria_labelledby="help-name",
    )
