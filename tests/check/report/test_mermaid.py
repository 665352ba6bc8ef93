import html
import re
from dataclasses import replace

import pytest

from pdproto.check.report import mermaid
from pdproto.check.report.narration import visible
from pdproto.check.result import Arrow, Lane, Trace
from tests.check.report import samples
from tests.check.report.printing import assert_golden

STATEMENT = re.compile(
    r"title [^;#:]+"
    r"|participant L\d+ as [^;:]+"
    r"|Note over L\d+(,L\d+)?: [^;:]+"
    r"|L\d+(->>|--\)|--x)L\d+: [^;:]+"
    r"|loop repeats for ever|rect rgba\([\d., ]+\)|end"
)


def decoded(text: str) -> str:
    """Return what Mermaid shows: its entities are those of HTML with a # for the &#."""
    return html.unescape(re.sub(r"#(\d+);", r"&#\1;", text))


@pytest.mark.parametrize("name", ["safety", "lasso", "stuck", "at_once"])
def test_what_is_written(name: str) -> None:
    (finding, *_) = samples.SAMPLES[name]().findings
    assert_golden(f"{name}.mmd", mermaid.render(finding))


@pytest.mark.parametrize(
    "name", ["safety", "lasso", "stuck", "at_once", "crowd", "hostile", "long_names"]
)
def test_every_line_is_a_statement_and_blocks_close(name: str) -> None:
    (finding, *_) = samples.SAMPLES[name]().findings
    first, *lines = mermaid.render(finding).splitlines()
    assert first == "sequenceDiagram"
    depth = 0
    for line in lines:
        statement = re.sub(r"#\d+;", "", line.strip())
        assert STATEMENT.fullmatch(statement), line
        depth += statement.startswith(("loop ", "rect ")) - (statement == "end")
        assert depth >= 0
    assert depth == 0


@pytest.mark.parametrize("hostile", samples.HOSTILE)
def test_hostile_text_comes_back_when_it_is_shown(hostile: str) -> None:
    (finding,) = samples.hostile().findings
    text = mermaid.render(finding)
    assert visible(hostile) in decoded(text)
    assert not re.search(r"\bend\b", text.replace("\n    end", ""))


def traced(*steps: object, loop: int | None = None) -> str:
    (finding, *_) = samples.safety().findings
    lanes = (Lane("a", "m"),)
    trace = Trace(lanes, (), steps, loop=loop)  # type: ignore[arg-type]  # see test_threads
    return mermaid.render(replace(finding, trace=trace))


def test_messages_without_a_lane_are_told_in_a_note() -> None:
    fired = samples.step(
        "tick",
        "a",
        fault="storm",
        received=Arrow("hello", "stranger", ("a",)),
        sent=(Arrow("ding", "a", ("town",)),),
        lost=(Arrow("gong", "stranger", ()),),
        holds={"calm": False},
    )
    calmed = samples.step("rest", "a", holds={"calm": True})
    text = traced(fired, calmed)
    assert "Note over L0: receives hello to a" in text
    assert "Note over L0: sends ding to town" in text
    assert "Note over L0: loses gong" in text
    assert "Note over L0: 1. tick<br/>fault storm" in text
    assert "Note over L0: calm stops holding" in text
    assert "Note over L0: calm holds again" in text


def test_a_run_that_ends_in_stillness_says_so() -> None:
    assert "Note over L0: nothing more ever happens" in traced(samples.step("tick", "a"), loop=1)


def test_a_finding_without_a_trace_has_no_picture() -> None:
    (finding,) = samples.at_once().findings
    with pytest.raises(ValueError, match="free at first: a finding without a trace"):
        mermaid.render(replace(finding, trace=None))
