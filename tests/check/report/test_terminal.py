from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from pdproto.check.report import picture, terminal
from pdproto.check.result import Arrow, CheckResult, Lane, PropertyKind, Trace
from tests.check.report import samples
from tests.check.report.printing import assert_golden, printed


def shown(result: CheckResult, width: int, encoding: str = "utf-8") -> str:
    return printed(lambda console: terminal.render(result, console), width=width, encoding=encoding)


def traced(trace: Trace, *, width: int = 100) -> str:
    (finding, *_) = samples.safety().findings
    return printed(
        lambda console: terminal.render_trace(replace(finding, trace=trace), console), width=width
    )


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("safety", 80),
        ("safety", 160),
        ("lasso", 80),
        ("stuck", 80),
        ("stuck", 50),
        ("incomplete", 80),
        ("clean", 160),
        ("long_names", 80),
        ("at_once", 80),
    ],
)
def test_what_is_printed(name: str, width: int) -> None:
    assert_golden(f"{name}-{width}.txt", shown(samples.SAMPLES[name](), width))


@pytest.mark.parametrize("name", samples.SAMPLES)
@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_no_line_is_wider_than_the_console(name: str, width: int, encoding: str) -> None:
    lines = shown(samples.SAMPLES[name](), width, encoding).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_a_console_of_ascii_gets_ascii() -> None:
    text = shown(samples.safety(), 80, "ascii")
    assert text.isascii()
    assert "|<..prepared(p0)...|" in text
    assert "rm[p0]: working -> prepared" in text


def test_control_characters_are_never_sent_to_the_terminal() -> None:
    text = shown(samples.hostile(), 100)
    assert not any(ord(character) < 32 for character in text if character != "\n")
    assert "\u202e" not in text
    assert "[bold]markup[/bold]" in text


def test_lanes_that_do_not_fit_become_a_list() -> None:
    text = shown(samples.crowd(), 80)
    assert "●" not in text
    assert "sends token(7) to node n8" in text
    assert "receives token(7) from node n7" in text


def test_colours_tell_machines_apart_and_mark_the_violation() -> None:
    with (
        Console(width=100, force_terminal=True, color_system="standard", no_color=False) as console,
        console.capture() as capture,
    ):
        terminal.render(samples.safety(), console)
    text = capture.get()
    assert "\x1b[1;36mmanager" in text
    assert "\x1b[1;35mparticipant p0" in text
    assert "\x1b[1;31m✗ consistent stops holding" in text


def test_a_finding_without_a_trace_has_no_picture() -> None:
    (finding,) = samples.at_once().findings
    bare = replace(finding, trace=None)
    text = printed(lambda console: terminal.render_trace(bare, console), width=80)
    assert text.splitlines()[0] == "free at first violated"
    with pytest.raises(ValueError, match="free at first: a finding without a trace"):
        list(picture.draw(bare, Console(width=80)))


def test_a_property_that_holds_again_is_said_to() -> None:
    (finding, *_) = samples.safety().findings
    assert finding.trace is not None
    steps = finding.trace.steps
    healed = replace(steps[0], holds={"consistent": True, "commit means ready": True})
    text = traced(replace(finding.trace, steps=(*steps, healed)))
    assert "✓ consistent holds again" in text


def test_a_step_that_leaves_a_declared_edge_is_flagged() -> None:
    (finding, *_) = samples.safety().findings
    edges = replace(finding, kind=PropertyKind.EDGES, name="rm moves along its edges")
    text = printed(lambda console: terminal.render_trace(edges, console), width=100)
    assert text.rstrip().splitlines()[-2].strip() == "✗ rm moves along its edges stops holding"


def test_a_run_that_ends_in_stillness_says_so() -> None:
    (finding, *_) = samples.lasso().findings
    assert finding.trace is not None
    assert traced(replace(finding.trace, loop=5)).endswith("nothing more ever happens\n")


def test_lanes_that_nobody_announced_are_drawn() -> None:
    fired = samples.step(
        "tick",
        "clock",
        changes=(samples.change("bell", "rings", "false", "true"),),
        sent=(Arrow("ding", "clock", ("town",)), Arrow("dong", "clock", ())),
        received=Arrow("key", "keeper", ("clock",)),
        lost=(Arrow("gong", "tower", ("town",)),),
    )
    start = (samples.change("hand", "hour", "", "noon"),)
    text = traced(Trace((Lane("yard", "yard"),), start, (fired,)))
    for words in (
        "hour = noon",
        "tick",
        "receives key from keeper",
        "rings: false → true",
        "sends ding to town",
        "sends dong",
        "loses gong to town, sent by tower",
    ):
        assert words in text
    (first,) = (line for line in text.splitlines() if "yard" in line)
    assert first.split() == ["yard", "hand", "clock", "bell"]


def test_a_message_to_both_sides_is_two_arrows() -> None:
    both = Arrow("halt", "b", ("a", "c"))
    lanes = tuple(Lane(name, "m") for name in "abc")
    text = traced(Trace(lanes, (), (samples.step("stop", "b", sent=(both,)),)))
    arrows = [line.strip() for line in text.splitlines() if "halt" in line]
    rightward, leftward = arrows
    assert rightward.endswith("┄▶│")
    assert leftward.startswith("│◀┄")


def test_wide_characters_keep_the_columns_straight() -> None:
    lanes = (Lane("a", "m"), Lane("b", "m"))
    sent = (Arrow("語", "a", ("b",)),)
    fired = samples.step("日本", "a", parameters="語", sent=sent)
    lines = traced(Trace(lanes, (), (fired,)), width=48).splitlines()
    told = [line for line in lines if "語" in line]
    assert len(told) == 2
    assert {cell_len(line) for line in told} == {lines[-1].rindex("│") + 1}


def test_a_bare_result_is_printed() -> None:
    """Nothing was asked, so nothing holds."""
    text = shown(samples.result(sizes={}, description=""), 80)
    assert text.splitlines() == [
        "two-phase-commit",
        "UNKNOWN  288 states, 1,146 transitions, depth 11, 0.02 s, every state explored",
        "",
        "every row fired",
        "deadlocks: 0",
    ]


def test_a_row_that_cleared_bits_may_hide_is_not_said_to_have_fired() -> None:
    text = shown(replace(samples.result(), rows_hidden=("lose", "ignore_late")), 120)
    assert ("every row fired, but for 2 rows that cleared bits may hide (--no-dead-bits shows)"
            in text.splitlines())


def test_a_list_folds_rows_that_are_long() -> None:
    lines = shown(samples.long_names(), 30).splitlines()
    (start,) = (index for index, line in enumerate(lines) if line.startswith("  1 "))
    folded = "".join(line.strip() for line in lines[start : start + 9])
    assert "introduce_the_receiver_before_it_has_any_memory" in folded
