from dataclasses import replace
from typing import Any

import pytest

from pdproto.check.report.narration import (
    addressed,
    broken_at_start,
    counted,
    headline,
    trace_lines,
    turns,
    visible,
)
from pdproto.check.result import Arrow, PropertyKind, Verdict
from tests.check.report import samples


def test_without_a_trace_there_is_nothing_to_tell() -> None:
    (finding,) = samples.at_once().findings
    bare = replace(finding, trace=None)
    assert turns(bare) == ()
    assert broken_at_start(bare) == ()
    assert list(trace_lines(bare)) == []


def test_initial_values_are_not_told_twice() -> None:
    (finding,) = samples.at_once().findings
    assert finding.trace is not None
    said = replace(finding, trace=replace(finding.trace, start_holds={"free at first": False}))
    assert broken_at_start(said) == broken_at_start(finding) == ("free at first",)


def test_a_property_broken_from_the_start_does_not_stop_holding_later() -> None:
    finding = samples.safety().findings[0]
    assert finding.trace is not None
    broken = {"consistent": False, "commit means ready": True}
    told = turns(replace(finding, trace=replace(finding.trace, start_holds=broken)))
    assert told[0].resumes == ("consistent",)
    assert told[5].stops == ("commit means ready",)


def test_edges_that_a_step_leaves_are_told_once() -> None:
    edges = replace(samples.safety().findings[0], kind=PropertyKind.EDGES)
    assert turns(edges)[-1].stops == ("consistent",)
    unnamed = turns(replace(edges, name="rm moves along its edges"))[-1]
    assert unnamed.stops == ("consistent", "rm moves along its edges")


@pytest.mark.parametrize(
    ("index", "changes", "text"),
    [
        (0, {}, "violated for p=p2, q=p1 after 8 steps"),
        (0, {"instance": ""}, "violated after 8 steps"),
        (0, {"trace": None}, "violated for p=p2, q=p1"),
        (0, {"kind": PropertyKind.SOMETIMES, "trace": None, "instance": ""}, "violated"),
        (0, {"verdict": Verdict.UNKNOWN}, "unknown: the search ended first"),
        (1, {}, "holds for p=p0, first after 1 step"),
        (2, {}, "holds"),
    ],
)
def test_headlines(index: int, changes: dict[str, Any], text: str) -> None:
    assert headline(replace(samples.safety().findings[index], **changes)) == text


def test_numbers_are_grouped_and_counted() -> None:
    assert [counted(1, "state"), counted(0, "state")] == ["1 state", "0 states"]
    assert counted(1_234_567, "state") == "1,234,567 states"


def test_messages_name_their_receivers() -> None:
    assert addressed(Arrow("halt", "a", ("b", "c"))) == "halt to b, c"
    assert addressed(Arrow("halt", "a", ())) == "halt"


def test_hidden_text_is_escaped_once() -> None:
    assert visible("a\nb\\n\x1b\u202e\ud800\uffffé") == "a\\nb\\n\\x1b\\u202e\\ud800\\uffffé"
