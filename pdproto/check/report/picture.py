"""A trace as a message-sequence picture made of characters: a column per lane, time downwards.

Beside each row that fired are its reason, its changes and its messages. If the lanes do not fit the
width, the same facts are shown as a list. Both are lines of rich Text. A label that does not fit
between two lanes is written beside them; no text is cut off.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console
from rich.text import Text

from pdproto.check.report.narration import (
    Turn,
    addressed,
    all_lanes,
    broken_at_start,
    row_label,
    turns,
)
from pdproto.check.report.pen import Pen, TextLine
from pdproto.check.result import Arrow, Blocked, Change, Finding, Lane, Trace, TraceStep

# Narrower columns leave no room for a label between two lanes.
LANE_WIDTH_MIN: Final = 16
LANE_WIDTH_MAX: Final = 40
LANE_COLOURS: Final = ("cyan", "magenta", "blue", "green", "yellow")

WHY: Final = "dim italic"
BEFORE: Final = "dim"
AFTER: Final = "bold yellow"
BROKEN: Final = "bold red"
LOOP: Final = "bold blue"


def draw(finding: Finding, console: Console) -> Iterator[Text]:
    """Yield the lines of the finding's trace, none wider than the console.

    Raises ValueError if the finding has no trace.
    """
    trace = finding.trace
    if trace is None:
        raise ValueError(f"{finding.name}: a finding without a trace has no picture")
    pen = Pen(console)
    lanes = all_lanes(trace)
    gutter = len(str(len(trace.steps))) + 3
    lane_width = min((pen.width - gutter) // max(len(lanes), 1), LANE_WIDTH_MAX)
    view: Picture | Listing
    if lane_width >= LANE_WIDTH_MIN:
        view = Picture(pen, lanes, gutter=gutter, lane_width=lane_width)
    else:
        view = Listing(pen, lanes, gutter=gutter)
    yield from view.opening(trace)
    yield from _flags(pen, gutter, Turn(broken_at_start(finding), ()), ended="does not hold")
    for number, (step, turn) in enumerate(zip(trace.steps, turns(finding), strict=True), start=1):
        looping = trace.loop is not None and number > trace.loop
        if looping and number - 1 == trace.loop:
            yield pen.text(f"{pen.glyphs.loop_top} repeats from here", style=LOOP)
        flags = _flags(pen, gutter, turn, ended="stops holding")
        lines = [*view.step(number, step), *flags, *view.gap()]
        yield from (_bracket(pen, line) if looping else line for line in lines)
    if trace.loop is not None:
        yield _loop_foot(pen, trace, trace.loop)
    yield from _blocked(pen, trace.blocked)


class Listing:
    """The picture of a trace whose lanes do not fit: a paragraph per step."""

    def __init__(self, pen: Pen, lanes: tuple[Lane, ...], *, gutter: int) -> None:
        self.pen = pen
        self.gutter = gutter
        self.colours = lane_colours(lanes)

    def opening(self, trace: Trace) -> Iterator[Text]:
        for change in trace.start:
            yield from self._indented(
                self.pen.text(
                    (change.lane, self.colours[change.lane]),
                    f"  {change.variable} = ",
                    (change.after, "bold"),
                )
            )

    def step(self, number: int, step: TraceStep) -> Iterator[Text]:
        pen = self.pen
        head = Text.assemble(
            pen.text((step.lane, self.colours.get(step.lane, ""))), "  ", _row(pen, step)
        )
        first, *rest = pen.wrap(head, pen.width - self.gutter)
        yield Text.assemble((f" {number:>{self.gutter - 2}} ", "bold"), first)
        facts = [*_reason(pen, step), *_received(pen, step)]
        facts += [_change(pen, change, owner=step.lane) for change in step.changes]
        facts += [pen.text("sends ", (addressed(arrow), "bold")) for arrow in step.sent]
        facts += [_loss(pen, arrow) for arrow in step.lost]
        for line in rest:
            yield from self._indented(line)
        for fact in facts:
            yield from self._indented(fact, deeper=2)

    def gap(self) -> Iterator[Text]:
        """Yield the lines between two steps: none, because paragraphs are indented."""
        yield from ()

    def _indented(self, text: Text, *, deeper: int = 0) -> Iterator[Text]:
        indent = self.gutter + deeper
        for line in self.pen.wrap(text, self.pen.width - indent):
            yield Text.assemble(" " * indent, line)


class Picture:
    """Lanes as columns. Lane i has its lifeline at `columns[i]`."""

    def __init__(self, pen: Pen, lanes: tuple[Lane, ...], *, gutter: int, lane_width: int) -> None:
        self.pen = pen
        self.lanes = lanes
        self.gutter = gutter
        self.lane_width = lane_width
        self.colours = lane_colours(lanes)
        self.columns = {
            lane.name: gutter + 1 + lane_width * index for index, lane in enumerate(lanes)
        }

    def opening(self, trace: Trace) -> Iterator[Text]:
        """Yield the names of the lanes, then their initial values under each."""
        names = [
            self.pen.wrap(
                self.pen.text(lane.name, style=f"bold {self.colours[lane.name]}"),
                self.lane_width - 1,
            )
            for lane in self.lanes
        ]
        for row in range(max(map(len, names), default=0)):
            line = TextLine()
            for lane, wrapped in zip(self.lanes, names, strict=True):
                if row < len(wrapped):
                    line.put(self.columns[lane.name], wrapped[row])
            yield line.over(Text())
        yield from self._start(trace)

    def _start(self, trace: Trace) -> Iterator[Text]:
        stacks: dict[str, list[Text]] = {lane.name: [] for lane in self.lanes}
        for change in trace.start:
            value = self.pen.text(f"{change.variable} = ", (change.after, "bold"))
            stacks[change.lane] += self.pen.wrap(value, self.lane_width - 3)
        for row in range(max(map(len, stacks.values()), default=0)):
            line = TextLine()
            for name, stack in stacks.items():
                if row < len(stack):
                    line.put(self.columns[name] + 2, stack[row])
            yield line.over(self._lifelines())
        yield from self.gap()

    def step(self, number: int, step: TraceStep) -> Iterator[Text]:
        pen = self.pen
        here = self.columns[step.lane]
        arrived = step.received
        if arrived is not None and arrived.sender in self.columns and arrived.sender != step.lane:
            source = self.columns[arrived.sender]
            yield from self._arrow(arrived.message, source, (here,), style="green")
            received: list[Text] = []
        else:
            received = _received(pen, step)
        own = [change for change in step.changes if change.lane == step.lane]
        facts = [_row(pen, step), *received]
        facts += [_change(pen, change, owner=step.lane) for change in own]
        mark = pen.text(pen.glyphs.fired, style=self.colours[step.lane])
        yield from self._beside(here, facts, _reason(pen, step), mark=mark, number=number)
        for change in step.changes:
            if change.lane != step.lane:
                elsewhere = self.columns[change.lane]
                yield from self._beside(elsewhere, [_change(pen, change, owner=change.lane)], [])
        for arrow in step.sent:
            yield from self._message(arrow, lost=False)
        for arrow in step.lost:
            yield from self._message(arrow, lost=True)

    def gap(self) -> Iterator[Text]:
        """Yield the lines between two steps."""
        yield self._lifelines()

    def _message(self, arrow: Arrow, *, lost: bool) -> Iterator[Text]:
        """Draw a message to the lanes on both sides of its sender, or write it as text."""
        known = [name for name in arrow.receivers if name in self.columns]
        source = self.columns.get(arrow.sender)
        targets = sorted(self.columns[name] for name in known if self.columns[name] != source)
        if source is None or not targets or len(targets) != len(arrow.receivers):
            words = self.pen.text("sends ", (addressed(arrow), "bold"))
            at = self.gutter + 1 if source is None else source
            yield from self._beside(at, [_loss(self.pen, arrow) if lost else words], [])
            return
        for side in (
            tuple(column for column in targets if column > source),
            tuple(column for column in reversed(targets) if column < source),
        ):
            if side:
                style = "red" if lost else "cyan"
                label = f"{arrow.message} lost" if lost else arrow.message
                yield from self._arrow(label, source, side, style=style, sent=True, lost=lost)

    def _arrow(
        self,
        label: str,
        source: int,
        targets: tuple[int, ...],
        *,
        style: str,
        sent: bool = False,
        lost: bool = False,
    ) -> Iterator[Text]:
        """Draw one line from `source` to `targets`, which lie on one side of it, nearest first.

        The label goes into the widest part that no lifeline of a target cuts, or above the line.
        """
        glyphs = self.pen.glyphs
        dash = glyphs.dashed if sent else glyphs.solid
        rightward = targets[0] > source
        head = glyphs.lost if lost else glyphs.right if rightward else glyphs.left
        first, last = min(source, targets[-1]), max(source, targets[-1])
        cells = [dash] * (last - first + 1)
        cells[source - first] = glyphs.lifeline
        for target in targets:
            cells[target - first] = glyphs.lifeline
            cells[target - first + (-1 if rightward else 1)] = head
        text = self.pen.text(label)
        body = "".join(cells)
        gap = max(_runs(body, dash), key=len, default=range(0))
        if text.cell_len + 2 > len(gap):
            yield from self._beside(first, [self.pen.text((label, style))], [])
        else:
            offset = gap.start + (len(gap) - text.cell_len) // 2
            body = body[:offset] + text.plain + body[offset + text.cell_len :]
        yield TextLine([(first, Text(body, style=style))]).over(self._lifelines())

    def _beside(
        self,
        column: int,
        facts: list[Text],
        reasons: list[Text],
        *,
        mark: Text | None = None,
        number: int | None = None,
    ) -> Iterator[Text]:
        """Write facts and reasons beside a lifeline: right of it, else left, else on the wider.

        Reasons wrap and do not choose the side. They follow the first fact, the row itself.
        """
        right, left = self.pen.width - column - 2, column - self.gutter - 1
        widest = max(fact.cell_len for fact in facts)
        on_right = widest <= right or (widest > left and right >= left)
        room = right if on_right else left
        ordered = [*facts[:1], *reasons, *facts[1:]]
        wrapped = [line for text in ordered for line in self.pen.wrap(text, room)]
        for index, text in enumerate(wrapped):
            line = TextLine()
            if index == 0 and number is not None:
                line.put(1, Text(f"{number:>{self.gutter - 2}}", style="bold"))
            if index == 0 and mark is not None:
                line.put(column, mark)
            if on_right:
                line.put(column + 2, text + Text(" "))
            else:
                line.put(column - 1 - text.cell_len, text)
            yield line.over(self._lifelines())

    def _lifelines(self) -> Text:
        line = TextLine()
        for name, column in self.columns.items():
            line.put(column, Text(self.pen.glyphs.lifeline, style=f"dim {self.colours[name]}"))
        return line.over(Text())


def lane_colours(lanes: tuple[Lane, ...]) -> Mapping[str, str]:
    """Return a colour for each lane's name: one for each machine, in order of appearance."""
    machines = list(dict.fromkeys(lane.machine for lane in lanes))
    return {
        lane.name: LANE_COLOURS[machines.index(lane.machine) % len(LANE_COLOURS)] for lane in lanes
    }


def _runs(body: str, dash: str) -> list[range]:
    """Return the index ranges where `body` has only dashes."""
    runs, start = [], 0
    for index, character in enumerate(body + " "):
        if character != dash:
            if index > start:
                runs.append(range(start, index))
            start = index + 1
    return runs


def _row(pen: Pen, step: TraceStep) -> Text:
    parts: list[str | tuple[str, str]] = [(row_label(step.row, step.parameters), "bold")]
    if step.trigger:
        parts.append((f"  {step.trigger}", "dim"))
    if step.fault:
        parts.append((f"  fault: {step.fault}", "magenta"))
    return pen.text(*parts)


def _reason(pen: Pen, step: TraceStep) -> list[Text]:
    return [pen.text(step.why, style=WHY)] if step.why else []


def _received(pen: Pen, step: TraceStep) -> list[Text]:
    if step.received is None:
        return []
    return [pen.text("receives ", (step.received.message, "bold"), f" from {step.received.sender}")]


def _change(pen: Pen, change: Change, *, owner: str) -> Text:
    whose = "" if change.lane == owner else f"{change.lane}  "
    return pen.text(
        f"{whose}{change.variable}: ",
        (change.before, BEFORE),
        f" {pen.glyphs.becomes} ",
        (change.after, AFTER),
    )


def _loss(pen: Pen, arrow: Arrow) -> Text:
    return pen.text((f"loses {addressed(arrow)}", "red"), f", sent by {arrow.sender}")


def _flags(pen: Pen, gutter: int, turn: Turn, *, ended: str) -> Iterator[Text]:
    """Yield a line for each property that the step changes; `ended` is the verb for broken ones."""
    flags = [pen.text(f"{pen.glyphs.broken} {name} {ended}", style=BROKEN) for name in turn.stops]
    flags += [
        pen.text(f"{pen.glyphs.holds} {name} holds again", style="green") for name in turn.resumes
    ]
    for flag in flags:
        for line in pen.wrap(flag, pen.width - gutter):
            yield Text.assemble(" " * gutter, line)


def _bracket(pen: Pen, line: Text) -> Text:
    return Text.assemble((pen.glyphs.loop_side, LOOP), line[1:])


def _loop_foot(pen: Pen, trace: Trace, loop: int) -> Text:
    if loop == len(trace.steps):
        return pen.text("nothing more ever happens", style=LOOP)
    return pen.text(f"{pen.glyphs.loop_foot} back to step {loop + 1}, for ever", style=LOOP)


def _blocked(pen: Pen, rows: tuple[Blocked, ...]) -> Iterator[Text]:
    if not rows:
        return
    yield pen.text("stuck: no fair row can fire", style=BROKEN)
    for blocked in rows:
        head = pen.text(
            (row_label(blocked.row, blocked.parameters), "bold"), f" at {blocked.lane} needs"
        )
        for line in pen.wrap(head, pen.width - 2):
            yield Text.assemble("  ", line)
        for failing in blocked.failing:
            for line in pen.wrap(pen.text(failing), pen.width - 6):
                yield Text.assemble("      ", line)
