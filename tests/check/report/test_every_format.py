"""Whatever a trace holds, every format tells every row, every message and every change of it."""

import html as entities
import json
import os
import re
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.check.report import github, html, junit, mermaid, sarif, terminal
from pdproto.check.report.as_json import to_json
from pdproto.check.report.narration import broken_at_start, turns, visible
from pdproto.check.result import (
    Arrow,
    Blocked,
    Change,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    Verdict,
)
from pdproto.spec.language.place import Place
from tests.check.report import samples
from tests.check.report.page_reader import PageReader, read_xml
from tests.check.report.printing import printed
from tests.tiers import examples

# Rendering is no matter of milliseconds on a busy machine, and a few dozen traces cover the shapes.
thorough = settings(deadline=None, max_examples=examples(10, 30))

LANES = ("alpha", "beta", "gamma", "delta")
# A lane that no trace announces: pictures must not lose what happens there.
NAMES = st.sampled_from((*LANES, "epsilon"))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Steps whose rows, messages and values are words of their own, so that each can be found."""
    lanes = tuple(Lane(name, name[0]) for name in LANES[: draw(st.integers(1, 4))])
    known: list[Arrow] = []
    steps = []
    for number in range(draw(st.integers(0, 5))):
        receivers = st.lists(NAMES, max_size=3, unique=True).map(tuple)
        sent = tuple(
            Arrow(f"msg{number}{letter}", draw(NAMES), draw(receivers))
            for letter in "xy"[: draw(st.integers(0, 2))]
        )
        earlier = st.sampled_from(known) if known else st.nothing()
        steps.append(
            samples.step(
                f"row{number}",
                draw(NAMES),
                parameters=draw(st.sampled_from(("", "p0"))),
                why=draw(st.sampled_from(("", "a reason of some length, as reasons are"))),
                fault=draw(st.sampled_from(("", "loss"))),
                received=draw(st.none() | earlier),
                sent=sent,
                lost=tuple(draw(st.lists(earlier, max_size=2, unique=True))) if known else (),
                changes=tuple(
                    Change(name, f"var{number}", f"old{number}", f"new{number}")
                    for name in draw(st.lists(NAMES, max_size=2, unique=True))
                ),
                holds={"safe": draw(st.booleans())},
            )
        )
        known += sent
    return Trace(
        lanes=lanes,
        start=(Change(lanes[0].name, "freevar", "", "initialvalue"),),
        steps=tuple(steps),
        loop=draw(st.none() | st.integers(0, len(steps))),
        blocked=(Blocked("blockedrow", "", lanes[0].name, ("because",)),)[
            : draw(st.integers(0, 1))
        ],
    )


def result_of(trace: Trace) -> CheckResult:
    return samples.result(
        Finding(
            name="safe",
            kind=PropertyKind.ALWAYS,
            claim="nothing bad",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive",
            place=Place("spec.py", 1),
            trace=trace,
        )
    )


def shown_in_each_format(result: CheckResult) -> dict[str, str]:
    """Return the text that each format shows, without its own escapes."""
    diagram = mermaid.render(result.findings[0])
    return {
        "terminal": printed(lambda console: terminal.render(result, console), width=120),
        "narrow terminal": printed(lambda console: terminal.render(result, console), width=40),
        "ascii terminal": printed(
            lambda console: terminal.render(result, console), width=120, encoding="ascii"
        ),
        "mermaid": entities.unescape(re.sub(r"#(\d+);", r"&#\1;", diagram)),
        "html": PageReader(html.render(result)).text,
        "junit": "\n".join(read_xml(junit.render(result)).itertext()),
        "json": json.dumps(to_json(result), ensure_ascii=False),
        "sarif": sarif.render(result),
    }


@thorough
@given(traces())
def test_every_format_tells_every_step(trace: Trace) -> None:
    words = {word for step in trace.steps for word in (step.row, *(a.message for a in step.sent))}
    words |= {change.variable for step in trace.steps for change in step.changes}
    words |= {change.after for step in trace.steps for change in step.changes}
    words |= {"freevar", "initialvalue"}  # they tell initial states apart
    for name, text in shown_in_each_format(result_of(trace)).items():
        missing = {word for word in words if word not in text}
        assert not missing, f"{name} lacks {missing}"
        # SARIF has places for steps only: what a run is stuck at is no step.
        assert name == "sarif" or not trace.blocked or "blockedrow" in text
    # GitHub's line names the rows, without their effects.
    told = "\n".join(github.of_check(result_of(trace)))
    assert {word for word in ("freevar", "initialvalue", *(step.row for step in trace.steps))
            if word not in told} == set()


DIGEST = """
import hashlib
from tests.check.report import samples
from tests.check.report.test_every_format import shown_in_each_format
for name in ("safety", "lasso", "stuck", "hostile"):
    shown = shown_in_each_format(samples.SAMPLES[name]())
    print(name, hashlib.sha256(repr(shown).encode()).hexdigest())
"""


def test_the_same_result_is_the_same_text_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    assert told.pop().count(b"\n") == 4


@thorough
@given(traces())
def test_a_property_turns_exactly_where_its_truth_does(trace: Trace) -> None:
    (finding,) = result_of(trace).findings
    holds = True
    for step, turn in zip(trace.steps, turns(finding), strict=True):
        assert (turn.stops == ("safe",)) == (holds and not step.holds["safe"])
        assert (turn.resumes == ("safe",)) == (not holds and step.holds["safe"])
        holds = step.holds["safe"]


@thorough
@given(traces())
def test_every_format_tells_where_a_property_turns(trace: Trace) -> None:
    result = result_of(trace)
    (finding,) = result.findings
    shown = shown_in_each_format(result)
    (told,) = json.loads(shown.pop("json"))["properties"]
    assert [step["holds"]["safe"] for step in told["trace"]] == [
        step.holds["safe"] for step in trace.steps]
    stops = any(turn.stops for turn in turns(finding))
    resumes = any(turn.resumes for turn in turns(finding))
    for name, text in shown.items():
        line = "".join(c for c in text if c.isalpha())  # a narrow terminal breaks lines
        assert ("safestopsholding" in line) == stops, name
        assert ("safeholdsagain" in line) == resumes, name
        assert ("safedoesnothold" in line) == (broken_at_start(finding) != () and name != "sarif")


@thorough
@given(st.text())
def test_any_text_comes_back_as_it_is_shown(text: str) -> None:
    step = samples.step(f"row {text}", "alpha", why=text)
    trace = Trace((Lane("alpha", "a"),), (), (step,))
    result = result_of(trace)
    (finding,) = result.findings
    label = visible(f"row {text}")
    assert label in PageReader(html.render(result)).text
    assert label in "".join(read_xml(junit.render(result)).itertext())
    diagram = mermaid.render(finding)
    assert label in entities.unescape(re.sub(r"#(\d+);", r"&#\1;", diagram))
    assert json.loads(json.dumps(to_json(result)))["properties"][0]["trace"][0]["why"] == text
    printed(lambda console: terminal.render(result, console), width=60, encoding="ascii")
    printed(lambda console: terminal.render(result, console), width=60)
