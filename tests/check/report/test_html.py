import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from pdproto.check.report import html
from pdproto.check.report.markup import Markup, element
from pdproto.check.report.narration import visible
from pdproto.check.report.sequence import sequence
from pdproto.check.result import Arrow, CheckResult, Lane, PropertyKind, Trace, Verdict
from tests.check.report import samples
from tests.check.report.page_reader import PageReader


def page(result: CheckResult) -> PageReader:
    return PageReader(html.render(result))


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_pages_are_well_formed(name: str) -> None:
    read = page(samples.SAMPLES[name]())
    identities = read.attributes("id")
    assert len(identities) == len(set(identities))
    assert all(target[1:] in identities for target in read.attributes("href"))
    named = [*read.attributes("aria-labelledby")]
    assert set(named) <= set(identities)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_pages_need_nothing_from_outside(name: str) -> None:
    read = page(samples.SAMPLES[name]())
    assert read.attributes("src") == []
    assert all(target.startswith("#") for target in read.attributes("href"))
    assert {tag for tag, _ in read.elements}.isdisjoint({"link", "img", "iframe", "base", "form"})
    assert not re.search(r"url\(|@import", read.raw["style"])
    assert not re.search(r"\bfetch\b|XMLHttpRequest|import\(|http", read.raw["script"])


def test_scripts_set_text_and_never_markup() -> None:
    script = page(samples.safety()).raw["script"]
    assert "textContent" in script
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in script


def test_the_policy_allows_the_page_its_own_script_alone() -> None:
    read = page(samples.safety())
    digest = base64.b64encode(hashlib.sha256(read.raw["script"].encode()).digest()).decode()
    (policy,) = (
        attributes["content"]
        for _, attributes in read.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy


@pytest.mark.parametrize("hostile", samples.HOSTILE)
def test_hostile_text_is_shown_and_is_nothing_else(hostile: str) -> None:
    read = page(samples.hostile())
    assert visible(hostile) in read.text
    tags = [tag for tag, _ in read.elements]
    assert tags.count("script") == 2
    assert "alert('x')" not in read.raw["script"]
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)


def test_the_embedded_result_is_the_result() -> None:
    read = page(samples.hostile())
    embedded = read.raw["script application/json"]
    assert "<" not in embedded
    values = json.loads(embedded)
    assert values["system"] == samples.HOSTILE[0]
    (plain,) = values["properties"]
    assert plain["trace"][0]["fault"] == visible(samples.HOSTILE[2])
    assert set(plain["colours"]) == {visible(lane["name"]) for lane in plain["lanes"]}


def test_the_page_is_complete_without_its_script() -> None:
    text = page(samples.safety()).text
    for shown in (
        "violated for p=p2, q=p1 after 8 steps",
        "a participant that can commit says so once, and from then on is bound",
        "spec/examples/two_phase_commit.py:41",
        "commit means ready stops holding",
        "consistent stops holding",
        "init → committed",
        "commit is lost",
        "rm[p0] = working",
        "decide abort",
        "vacuous: its premise never holds",
        "It holds: there is no counterexample to show.",
    ):
        assert shown in text


def test_a_page_shows_where_a_run_repeats_and_why_one_is_stuck() -> None:
    lasso = page(samples.lasso()).text
    assert "↻ repeats from here" in lasso
    assert "↺ back to step 2, for ever" in lasso
    stuck = page(samples.stuck()).text
    assert "Stuck: no fair row can fire" in stuck
    assert "free is true (it is false)" in stuck


def test_the_box_of_a_stuck_run_is_folded_to_the_nearest_row() -> None:
    text = html.render(samples.stuck())
    (box,) = re.findall(r"<details[^>]*>.*?</details>", text, flags=re.DOTALL)
    assert box.startswith('<details class="blocked"><summary>')
    blocked = trace_of(samples.stuck()).blocked[0]
    folded = re.sub(r"<[^>]*>", "", box.partition("</summary>")[0])
    assert folded == (f"Stuck: no fair row can firenearest: {blocked.row}({blocked.parameters}) "
                      f"needs {'; '.join(blocked.failing)}")


def test_a_run_that_ends_in_stillness_says_so() -> None:
    assert "nothing more ever happens" in picture(trace_of(samples.lasso(), loop=5)).text


def test_an_incomplete_run_says_why_and_claims_no_coverage() -> None:
    text = page(samples.incomplete()).text
    assert "Incomplete: the limit of 1,000,000 states was reached; raise --max-states" in text
    assert "No counterexample was found before the search ended." in text
    assert "Every row fired." not in text
    assert "Rows that never fired" not in text
    cut = replace(samples.incomplete(), rows_never_fired=("commit",))
    assert "Rows that never fired so far" in page(cut).text
    silent = page(replace(samples.incomplete(), stopped="")).text
    assert "Incomplete" in silent


def test_a_result_without_findings_says_so() -> None:
    bare = samples.result(sizes={}, description="")
    assert "No property was checked." in page(bare).text


def test_a_property_that_no_run_refutes_alone_has_no_picture() -> None:
    result = samples.at_once()
    (finding,) = result.findings
    bare = replace(finding, trace=None, assurance="")
    assert "No single run shows this" in page(replace(result, findings=(bare,))).text
    with pytest.raises(ValueError, match="free at first: a finding without a trace"):
        sequence(bare, prefix="f1")


def trace_of(result: CheckResult, *, loop: int | None = None) -> Trace:
    trace = result.findings[0].trace
    assert trace is not None
    return replace(trace, loop=loop)


def picture(trace: Trace) -> PageReader:
    (finding, *_) = samples.safety().findings
    return PageReader(sequence(replace(finding, trace=trace), prefix="f1"))


def classed(read: PageReader, name: str) -> list[str]:
    """Return the class attribute of each element that has the class."""
    return [value for value in read.attributes("class") if name in (value or "").split()]


def test_messages_run_as_lines_from_where_they_are_sent_to_where_they_arrive() -> None:
    read = picture(trace_of(samples.safety()))
    assert classed(read, "departure") == [
        "departure m1 leftward",
        "departure m1 leftward",
        "departure m0 rightward",
    ]
    assert classed(read, "arrow") == [
        "arrow m1 leftward",
        "arrow m1 leftward",
        "arrow m0 rightward lost",
        "arrow m0 rightward",
    ]
    # The commit to p1 passes the step that loses the commit to p0.
    assert len(classed(read, "passing")) == 1


def test_a_message_nobody_receives_ends_beside_its_lane() -> None:
    read = picture(trace_of(samples.stuck()))
    assert classed(read, "unreceived") == ["departure m1 leftward unreceived"]


def test_a_message_from_nowhere_goes_straight_into_its_lane() -> None:
    fired = samples.step("hear", "a", received=Arrow("hello", "stranger", ("a",)))
    known = samples.step("hear", "a", received=Arrow("hello again", "b", ("a",)))
    read = picture(Trace((Lane("a", "m"), Lane("b", "n")), (), (fired, known)))
    assert classed(read, "arrow") == ["arrow m0 rightward straight", "arrow m1 leftward straight"]
    assert "receives hello from stranger" in read.text


def test_a_line_passes_the_note_where_a_loop_begins() -> None:
    lanes = (Lane("a", "m"), Lane("b", "m"))
    message = Arrow("ping", "a", ("b",))
    steps = (
        samples.step("send", "a", sent=(message,)),
        samples.step("wait", "a"),
        samples.step("hear", "b", received=message),
    )
    read = picture(Trace(lanes, (), steps, loop=1))
    assert len(classed(read, "passing")) == 2
    assert len(classed(read, "looping")) == 2


def test_a_trace_without_lanes_is_a_picture_of_nothing() -> None:
    read = picture(Trace((), (), ()))
    assert "the initial state" in read.text


def test_a_property_that_holds_again_is_said_to() -> None:
    trace = trace_of(samples.safety())
    healed = replace(trace.steps[0], holds={"consistent": True})
    read = picture(replace(trace, steps=(*trace.steps, healed)))
    assert "consistent holds again" in read.text


def test_changes_elsewhere_stand_in_their_own_lane() -> None:
    read = picture(trace_of(samples.lasso()))
    assert "grid-column:1" in read.attributes("style")
    assert classed(read, "aside") == ["card aside"]
    two = samples.step(
        "reset",
        "a",
        changes=(samples.change("b", "x", "1", "0"), samples.change("b", "y", "1", "0")),
    )
    assert len(classed(picture(Trace((), (), (two,))), "aside")) == 1


def test_elements_escape_text() -> None:
    built = element("p", "<i>", Markup("<b>x</b>"), title='"', aria_hidden=True, lang=False)
    assert built == '<p title="&quot;" aria-hidden>&lt;i&gt;<b>x</b></p>'


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_level_aa(scheme: str) -> None:
    style = (files("pdproto.check.report") / "page.css").read_text(encoding="utf-8")
    schemes = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in schemes)
    colours = light if scheme == "light" else light | dark
    pairs = [
        (ink, paper)
        for ink in ("ink", "muted", "bad", "good", "warn", "accent")
        for paper in ("page", "surface", "raised", "selected")
    ]
    pairs += [(f"m{n}", paper) for n in range(6) for paper in ("surface", "page", "selected")]
    pairs += [("bad", "bad-tint"), ("good", "good-tint"), ("warn", "warn-tint")]
    pairs += [("ink", "changed"), ("ink", "bad-tint"), ("muted", "bad-tint")]
    pairs += [("surface", "accent"), ("surface", "bad")]
    poor = {
        (ink, paper): round(contrast(colours[ink], colours[paper]), 2)
        for ink, paper in pairs
        if contrast(colours[ink], colours[paper]) < 4.5
    }
    assert poor == {}


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize(("kind", "told"), [
    (PropertyKind.ALWAYS, {"It holds:", "No single run shows this", "No counterexample was found"}),
    (PropertyKind.INDUCTIVE, {"It is proved, as is told above", "No smallest state that shows this",
                              "is not proved."}),
])
def test_a_finding_without_a_trace_claims_its_verdict_alone(
    kind: PropertyKind, told: set[str], verdict: Verdict
) -> None:
    finding = replace(samples.safety().findings[0], kind=kind, verdict=verdict, trace=None, note="")
    text = page(replace(samples.safety(), findings=(finding,))).text
    (shown,) = (one for one in told if one in text)
    assert (shown in {"It holds:", "It is proved, as is told above"}) == (verdict is Verdict.HOLDS)
    assert ("No single" in shown or "No smallest" in shown) == (verdict is Verdict.VIOLATED)
