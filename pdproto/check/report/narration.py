"""The text about a trace that all formats share.

This module is independent of any format. Text of a spec may have any characters, so `visible` makes
one printable line of it, before a format escapes it in its own way.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pdproto.check.result import (
    Arrow,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    TraceStep,
    Verdict,
)


def visible(text: str) -> str:
    """Return `text` on one line, its control and format characters as backslash escapes.

    Terminals execute control characters. XML 1.0 cannot contain them, nor code points that are no
    characters. Text direction marks can change the apparent meaning of a trace.
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in {"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"}
        else character
        for character in text
    )


def row_label(row: str, parameters: str) -> str:
    """Return the name of the row with its parameters: "prepare(p0)", or "decide" without any."""
    return visible(f"{row}({parameters})" if parameters else row)


def counted(count: int, noun: str) -> str:
    """Return "1 step" or "1,146 steps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def sizes_phrase(sizes: Mapping[str, int]) -> str:
    """Return the sizes as "Worker=2, Key=3"."""
    return ", ".join(f"{visible(sort)}={size}" for sort, size in sizes.items())


PROOF_WORDS: Final = {
    Verdict.HOLDS: "proved", Verdict.VIOLATED: "not proved", Verdict.UNKNOWN: "not decided",
}


def verdict_word(finding: Finding) -> str:
    """Return the verdict as a word: a claim that is not proved need not be violated."""
    proof = finding.kind is PropertyKind.INDUCTIVE
    return PROOF_WORDS[finding.verdict] if proof else finding.verdict.value


def start_words(trace: Trace) -> str:
    """Return the name of the state in which the trace starts."""
    return "a supposed state" if trace.supposed else "the initial state"


def headline(finding: Finding) -> str:
    """Return one sentence with the verdict on the property, without its name."""
    if finding.kind is PropertyKind.INDUCTIVE:
        return verdict_word(finding)
    for_instance = f" for {visible(finding.instance)}" if finding.instance else ""
    count = finding.trace_length
    if finding.verdict is Verdict.UNKNOWN:
        return "unknown: the search ended first"
    if count is None:
        return f"{finding.verdict.value}{for_instance}"
    if finding.verdict is Verdict.HOLDS:
        return f"holds{for_instance}, first after {counted(count, 'step')}"
    when = f"after {counted(count, 'step')}" if count else "at the start"
    return f"violated{for_instance} {when}"


def addressed(arrow: Arrow) -> str:
    """Return "prepared(p0) to manager", or the message alone if it has no receiver."""
    receivers = ", ".join(visible(receiver) for receiver in arrow.receivers)
    message = visible(arrow.message)
    return f"{message} to {receivers}" if receivers else message


def counts_phrase(result: CheckResult) -> str:
    """Return the numbers of states and transitions, and the depth, as text."""
    states = counted(result.states, "state")
    return f"{states}, {counted(result.transitions, 'transition')}, depth {result.depth:,}"


def coverage_lines(result: CheckResult) -> tuple[str, ...]:
    """Return each row that never fired, with its place if that is known."""
    return tuple(
        f"{visible(row)}  {visible(str(result.row_places[row]))}"
        if row in result.row_places
        else visible(row)
        for row in result.rows_never_fired
    )


def so_far(result: CheckResult) -> str:
    """The words behind a number that a longer search may raise; empty after a whole search."""
    return "" if result.complete else " so far"


def every_row(result: CheckResult) -> str:
    """The sentence where no row is known that never fired; empty if rows are not known."""
    if not result.rows_known:
        return ""
    hidden = len(result.rows_hidden)
    return "every row fired" + (f", but for {counted(hidden, 'row')} that cleared bits may hide "
                                "(--no-dead-bits shows)" if hidden else "")


@dataclass(frozen=True, slots=True)
class Turn:
    """The properties whose truth a step changes."""

    stops: tuple[str, ...]
    resumes: tuple[str, ...]


def turns(finding: Finding) -> tuple[Turn, ...]:
    """Return one Turn per step of the finding's trace.

    A property without a value in the initial state counts as true there. A step, not a state,
    violates edges, so `holds` need not name them: then it is the last step.
    """
    if finding.trace is None:
        return ()
    before = dict(finding.trace.start_holds)
    found = []
    for step in finding.trace.steps:
        stops = [name for name, now in step.holds.items() if not now and before.get(name, True)]
        resumes = [name for name, now in step.holds.items() if now and not before.get(name, True)]
        found.append(Turn(tuple(stops), tuple(resumes)))
        before |= step.holds
    edges = finding.kind is PropertyKind.EDGES and finding.verdict is Verdict.VIOLATED
    if found and edges and finding.name not in found[-1].stops:
        found[-1] = Turn((*found[-1].stops, finding.name), found[-1].resumes)
    return tuple(found)


def broken_at_start(finding: Finding) -> tuple[str, ...]:
    """Return the properties that do not hold in the initial state."""
    if finding.trace is None:
        return ()
    broken = [name for name, holds in finding.trace.start_holds.items() if not holds]
    at_once = finding.verdict is Verdict.VIOLATED and not finding.trace.steps
    if at_once and finding.kind is PropertyKind.ALWAYS and finding.name not in broken:
        broken.append(finding.name)
    return tuple(broken)


def all_lanes(trace: Trace) -> tuple[Lane, ...]:
    """Return the lanes of the trace, and a lane for each name that only a step or a value uses.

    So a picture shows every step, also one without a declared lane.
    """
    lanes = {lane.name: lane for lane in trace.lanes}
    for change in trace.start:
        lanes.setdefault(change.lane, Lane(change.lane, ""))
    for step in trace.steps:
        for name in (step.lane, *(change.lane for change in step.changes)):
            lanes.setdefault(name, Lane(name, ""))
    return tuple(lanes.values())


def step_lines(step: TraceStep, turn: Turn) -> Iterator[str]:
    """Yield the effects of one step, one in a line. The first line has the row, lane and place."""
    trigger = f", {visible(step.trigger)}" if step.trigger else ""
    fault = f" [fault: {visible(step.fault)}]" if step.fault else ""
    called = row_label(step.row, step.parameters)
    yield f"{visible(step.lane)}: {called}{trigger}{fault}  ({visible(str(step.place))})"
    if step.why:
        yield f"why: {visible(step.why)}"
    if step.received is not None:
        yield f"receives {visible(step.received.message)} from {visible(step.received.sender)}"
    for change in step.changes:
        owner = "" if change.lane == step.lane else f"{visible(change.lane)}: "
        variable, before, after = map(visible, (change.variable, change.before, change.after))
        yield f"{owner}{variable}: {before} -> {after}"
    for arrow in step.sent:
        yield f"sends {addressed(arrow)}"
    for arrow in step.lost:
        yield f"loses {addressed(arrow)}, sent by {visible(arrow.sender)}"
    for name in turn.stops:
        yield f"here {visible(name)} stops holding"
    for name in turn.resumes:
        yield f"here {visible(name)} holds again"


def start_lines(trace: Trace) -> Iterator[str]:
    """Yield the initial values, by which initial states of a system differ."""
    if trace.start:
        yield "start:"
        for change in trace.start:
            yield "    " + " ".join(map(visible, (change.lane, change.variable, "=", change.after)))


def trace_lines(finding: Finding) -> Iterator[str]:
    """Yield the finding's trace as lines of plain text."""
    trace = finding.trace
    if trace is None:
        return
    yield from start_lines(trace)
    for name in broken_at_start(finding):
        yield f"    here {visible(name)} does not hold"
    for number, (step, turn) in enumerate(zip(trace.steps, turns(finding), strict=True), start=1):
        if trace.loop == number - 1:
            yield "repeats for ever from here:"
        first, *rest = step_lines(step, turn)
        yield f"{number:>3} {first}"
        yield from (f"    {line}" for line in rest)
    if trace.loop == len(trace.steps):
        yield "nothing more ever happens"
    if trace.blocked:
        yield "stuck: no fair row can fire"
        for blocked in trace.blocked:
            called = row_label(blocked.row, blocked.parameters)
            failing = "; ".join(map(visible, blocked.failing))
            yield f"    {visible(blocked.lane)}: {called} needs {failing}"
