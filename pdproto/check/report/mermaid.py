"""A trace as a Mermaid sequence diagram, for pages that draw Mermaid text: issues, READMEs.

An open dashed arrow is a message that is sent, a solid one is its receipt, a cross is its loss.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pdproto.check.report.narration import (
    Turn,
    addressed,
    all_lanes,
    broken_at_start,
    headline,
    row_label,
    turns,
    visible,
)
from pdproto.check.result import Arrow, Blocked, Finding, Trace, TraceStep

BREAK: Final = "<br/>"
# Mermaid does not wrap notes, and a wide one covers the lanes beside its own.
NOTE_WIDTH: Final = 48
# Both dark and light text are readable on it.
BROKEN: Final = "rect rgba(220, 60, 50, 0.18)"

# All other ASCII characters may have a meaning in Mermaid: a comment, a directive, an arrow, an
# entity, the end of a statement, or (a colon) an instruction to wrap.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 _.,()\[\]/='!?*\u0080-\U0010ffff-]")
# "end" closes a block, also as a word within a text.
_END: Final = re.compile(r"\bend\b", re.IGNORECASE)


def render(finding: Finding) -> str:
    """Return the text of a `sequenceDiagram`.

    Raises ValueError if the finding has no trace.
    """
    trace = finding.trace
    if trace is None:
        raise ValueError(f"{finding.name}: a finding without a trace has no picture")
    lanes = all_lanes(trace)
    names = {lane.name: f"L{index}" for index, lane in enumerate(lanes)}
    lines = [f"    participant {alias} as {_text(name)}" for name, alias in names.items()]
    lines += [f"    {line}" for line in _statements(finding, trace, names)]
    title = f"    title {_text(finding.name)} {_text(headline(finding))}"
    return "\n".join(["sequenceDiagram", title, *lines]) + "\n"


def _text(text: str) -> str:
    """Return text that Mermaid shows unchanged: special characters become character entities."""
    safe = _UNSAFE.sub(lambda match: f"#{ord(match[0])};", visible(text))
    return _END.sub(lambda match: f"#{ord(match[0][0])};{match[0][1:]}", safe)


def _statements(finding: Finding, trace: Trace, names: Mapping[str, str]) -> Iterator[str]:
    starting: dict[str, list[str]] = {}
    for change in trace.start:
        values = starting.setdefault(change.lane, [])
        values.append(f"{_text(change.variable)} = {_text(change.after)}")
    for lane, values in starting.items():
        yield f"Note over {names[lane]}: {BREAK.join(values)}"
    everyone = _across(names)
    yield from _broken(everyone, broken_at_start(finding), "does not hold")
    for index, (step, turn) in enumerate(zip(trace.steps, turns(finding), strict=True)):
        if index == trace.loop:
            yield "loop repeats for ever"
        if turn.stops:
            yield BROKEN
        yield from _step(index + 1, step, turn, names, everyone)
        if turn.stops:
            yield "end"
    if trace.loop is not None and trace.loop < len(trace.steps):
        yield "end"
    elif trace.loop is not None:
        yield f"Note over {everyone}: nothing more ever happens"
    yield from _blocked(everyone, trace.blocked)


def _step(
    number: int, step: TraceStep, turn: Turn, names: Mapping[str, str], everyone: str
) -> Iterator[str]:
    if step.received is not None:
        yield from _message(step.received, "->>", [step.lane], names, step.lane)
    trigger = f", {_text(step.trigger)}" if step.trigger else ""
    told = [f"{number}. {_text(row_label(step.row, step.parameters))}{trigger}"]
    told += [f"fault {_text(step.fault)}"] if step.fault else []
    told += [_text(line) for line in textwrap.wrap(visible(step.why), NOTE_WIDTH)]
    told += [
        f"{_text(change.variable)} = {_text(change.before)} → {_text(change.after)}"
        for change in step.changes
        if change.lane == step.lane
    ]
    yield f"Note over {names[step.lane]}: {BREAK.join(told)}"
    for change in step.changes:
        if change.lane != step.lane:
            became = f"{_text(change.before)} → {_text(change.after)}"
            yield f"Note over {names[change.lane]}: {_text(change.variable)} = {became}"
    for arrow in step.sent:
        yield from _message(arrow, "--)", arrow.receivers, names, step.lane)
    for arrow in step.lost:
        yield from _message(arrow, "--x", arrow.receivers, names, step.lane)
    yield from _broken(everyone, turn.stops, "stops holding")
    yield from _broken(everyone, turn.resumes, "holds again")


def _message(
    arrow: Arrow, line: str, receivers: Iterable[str], names: Mapping[str, str], lane: str
) -> Iterator[str]:
    """Yield an arrow to each receiver, or a note at `lane` if an end of it has no lane."""
    known = [receiver for receiver in receivers if receiver in names]
    if arrow.sender not in names or not known:
        verb = {"->>": "receives", "--)": "sends", "--x": "loses"}[line]
        yield f"Note over {names[lane]}: {verb} {_text(addressed(arrow))}"
        return
    for receiver in known:
        yield f"{names[arrow.sender]}{line}{names[receiver]}: {_text(arrow.message)}"


def _broken(everyone: str, properties: tuple[str, ...], verb: str) -> Iterator[str]:
    for name in properties:
        yield f"Note over {everyone}: {_text(name)} {verb}"


def _blocked(everyone: str, rows: tuple[Blocked, ...]) -> Iterator[str]:
    if rows:
        told = ["stuck, no fair row can fire"]
        for blocked in rows:
            called = _text(row_label(blocked.row, blocked.parameters))
            needs = ", ".join(map(_text, blocked.failing))
            told.append(f"{called} at {_text(blocked.lane)} needs {needs}")
        yield f"Note over {everyone}: {BREAK.join(told)}"


def _across(names: Mapping[str, str]) -> str:
    """Return the first and the last lane, between which a note spans them all."""
    aliases = list(names.values())
    return aliases[0] if len(aliases) == 1 else f"{aliases[0]},{aliases[-1]}"
