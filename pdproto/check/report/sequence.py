"""A trace as the sequence picture of the HTML page: plain markup, complete without a script.

A step is a band: on the left its number and the reason of its row, on the right the lanes. In the
lanes, first come the arrows of arriving messages. Below them are cards for the row and its changes,
each in the column of its lane. Below these, the messages that are sent leave the lane.

Horizontal positions are counted in lanes (lane i has its lifeline at i + 0.5) and given as CSS
variables. page.css turns them into lengths, so that the picture fits any width.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pdproto.check.report.markup import Markup, breakable, element
from pdproto.check.report.narration import (
    Turn,
    all_lanes,
    broken_at_start,
    row_label,
    start_words,
    turns,
)
from pdproto.check.report.threads import Thread, lost_at, threads
from pdproto.check.result import Arrow, Blocked, Change, Finding, Trace, TraceStep

# The distance between parallel tracks, in lanes.
TRACK_GAP: Final = 0.035
MACHINE_COLOURS: Final = 6

ARROWHEAD: Final = Markup(
    '<svg class="head" viewBox="0 0 9 10" width="9" height="10" aria-hidden="true">'
    '<path d="M0 0 9 5 0 10z"/></svg>'
)
CROSS: Final = Markup(
    '<svg class="cross" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
    '<path d="M2 2 10 10M10 2 2 10"/></svg>'
)


def sequence(
    finding: Finding, *, prefix: str, colours: Mapping[str, str] | None = None
) -> Markup:
    """Return the picture of the finding's trace; step s has the id f"{prefix}s{s}", 0 the start.

    colours: the colour class of each lane; by default `colour_classes` of the trace.
    Raises ValueError if the finding has no trace.
    """
    if finding.trace is None:
        raise ValueError(f"{finding.name}: a finding without a trace has no picture")
    picture = _Picture(finding, finding.trace, prefix, colours)
    return element(
        "div",
        element("ol", *picture.bands(), class_="sequence", style=f"--lanes:{picture.lanes_count}"),
        class_="scroller",
        tabindex="0",
        role="region",
        aria_label=f"Message sequence of {finding.name}",
    )


def blocked_rows(rows: tuple[Blocked, ...]) -> Markup:
    """Return the folded panel with the reasons why a run is stuck, or nothing.

    The line that stays names the row that is nearest to firing.
    """
    if not rows:
        return Markup()
    items = [
        element(
            "li",
            element("code", row_label(blocked.row, blocked.parameters)),
            element("span", f" at {blocked.lane} needs", class_="muted"),
            element("ul", *(element("li", failing) for failing in blocked.failing)),
        )
        for blocked in rows
    ]
    nearest = rows[0]
    return element(
        "details",
        element(
            "summary",
            element("h3", "Stuck: no fair row can fire"),
            element(
                "span",
                "nearest: ",
                element("code", row_label(nearest.row, nearest.parameters)),
                f" needs {'; '.join(nearest.failing)}",
            ),
        ),
        element("ul", *items),
        class_="blocked",
    )


def written_at(place: str) -> Markup:
    """Return a place in the source as small text."""
    return element("span", breakable(place), class_="place")


def colour_classes(trace: Trace) -> Mapping[str, str]:
    """Return the colour class of each lane: one for each machine, in order of appearance."""
    lanes = all_lanes(trace)
    machines = list(dict.fromkeys(lane.machine for lane in lanes))
    return {lane.name: f"m{machines.index(lane.machine) % MACHINE_COLOURS}" for lane in lanes}


class _Picture:
    def __init__(
        self, finding: Finding, trace: Trace, prefix: str, colours: Mapping[str, str] | None
    ) -> None:
        self.finding = finding
        self.trace = trace
        self.prefix = prefix
        self.lanes = all_lanes(trace)
        self.lanes_count = max(len(self.lanes), 1)
        self.columns = {lane.name: index for index, lane in enumerate(self.lanes)}
        self.colours = colour_classes(trace) if colours is None else colours
        self.threads = threads(trace, self.columns)

    def bands(self) -> Iterator[Markup]:
        yield self._header()
        yield self._start()
        for index, (step, turn) in enumerate(
            zip(self.trace.steps, turns(self.finding), strict=True)
        ):
            if index == self.trace.loop:
                yield self._loop_note(index, "loop-top", "↻ repeats from here")
            yield self._band(index, step, turn)
        end = len(self.trace.steps)
        if self.trace.loop == end:
            yield self._loop_note(end, "loop-still", "nothing more ever happens")
        elif self.trace.loop is not None:
            text = f"↺ back to step {self.trace.loop + 1}, for ever"
            yield self._loop_note(end, "loop-foot", text)

    def _header(self) -> Markup:
        names = [
            element(
                "span",
                element("span", breakable(lane.name), class_="lane-name"),
                class_=f"lane {self.colours[lane.name]}",
                title=f"an instance of {lane.machine}" if lane.machine else "",
            )
            for lane in self.lanes
        ]
        return element(
            "li",
            element("div", element("span", "step", class_="muted"), class_="story"),
            element("div", *names, class_="lanes"),
            class_="lane-header",
        )

    def _start(self) -> Markup:
        cards = {}
        for lane in self.lanes:
            values = [
                element("p", element("code", f"{change.variable} = "), element("b", change.after))
                for change in self.trace.start
                if change.lane == lane.name
            ]
            if values:
                cards[lane.name] = element("div", *values, class_="values")
        broken = broken_at_start(self.finding)
        return element(
            "li",
            self._story(0, start_words(self.trace), ""),
            element(
                "div",
                self._lifelines(),
                self._cards(cards),
                *_banners(Turn(broken, ()), ended="does not hold"),
                class_="picture",
            ),
            class_="band broken" if broken else "band",
            id=f"{self.prefix}s0",
        )

    def _band(self, index: int, step: TraceStep, turn: Turn) -> Markup:
        classes = ["band"]
        classes += ["broken"] if turn.stops else []
        classes += ["looping"] if self.trace.loop is not None and index >= self.trace.loop else []
        return element(
            "li",
            self._story(index + 1, step.why, str(step.place)),
            element(
                "div",
                self._lifelines(),
                *(self._passing(thread) for thread in self.threads if thread.passes(index)),
                *self._arrivals(index, step),
                self._cards(self._fired(step)),
                self._tail(index, turn),
                class_="picture",
            ),
            class_=" ".join(classes),
            id=f"{self.prefix}s{index + 1}",
        )

    def _story(self, number: int, why: str, place: str) -> Markup:
        return element(
            "div",
            element("a", str(number), class_="number", href=f"#{self.prefix}s{number}"),
            element(
                "div",
                element("p", why, class_="why") if why else "",
                written_at(place) if place else "",
            ),
            class_="story",
        )

    def _lifelines(self) -> Markup:
        lines = [
            Markup(f'<line class="{self.colours[lane.name]}" x1="{x}%" x2="{x}%" y2="100%"/>')
            for lane in self.lanes
            for x in [_number((self.columns[lane.name] + 0.5) * 100 / self.lanes_count)]
        ]
        return element("svg", *lines, class_="lifelines", aria_hidden="true")

    def _cards(self, cards: Mapping[str, Markup]) -> Markup:
        placed = [
            element(
                "div",
                card,
                class_=f"cell {self.colours[lane]}",
                style=f"grid-column:{self.columns[lane] + 1}",
            )
            for lane, card in cards.items()
        ]
        return element("div", *placed, class_="cards")

    def _fired(self, step: TraceStep) -> Mapping[str, Markup]:
        """Return the card of the row, and one for each other lane that it changed."""
        own = [change for change in step.changes if change.lane == step.lane]
        card = element(
            "div",
            element("p", element("b", row_label(step.row, step.parameters)), class_="row"),
            element("p", f"fault: {step.fault}", class_="fault") if step.fault else "",
            element("p", step.trigger, class_="trigger") if step.trigger else "",
            *map(_change, own),
            *(self._told("receives", arrow) for arrow in _optional(step.received)),
            *(self._told("sends", arrow) for arrow in step.sent),
            *(self._told("loses", arrow) for arrow in step.lost),
            class_="card fault-card" if step.fault else "card",
        )
        cards = {step.lane: card}
        for change in step.changes:
            if change.lane != step.lane:
                cards[change.lane] = Markup(cards.get(change.lane, "") + _change(change))
        return {
            lane: card if lane == step.lane else element("div", card, class_="card aside")
            for lane, card in cards.items()
        }

    def _told(self, verb: str, arrow: Arrow) -> Markup:
        """Return a message as text; if an arrow shows all of it, only for screen readers."""
        peers = [arrow.sender] if verb == "receives" else list(arrow.receivers)
        preposition = " from " if verb == "receives" else " to "
        return element(
            "p",
            element("span", f"{verb} ", class_="verb"),
            element("code", arrow.message),
            element("span", preposition + ", ".join(peers), class_="muted") if peers else "",
            class_=f"message {verb}",
        )

    def _passing(self, thread: Thread) -> Markup:
        """Return the line of a message that is on its way during the whole band."""
        return element(
            "div",
            class_=f"passing {self.colours[thread.sender]}",
            style=f"--at:{_number(self._position(thread))}",
            aria_hidden="true",
        )

    def _loop_note(self, index: int, class_: str, text: str) -> Markup:
        """Return the band before step `index` that marks the begin or end of a loop."""
        passing = [
            self._passing(thread)
            for thread in self.threads
            if thread.ends and thread.sent < index <= thread.ends[-1]
        ]
        return element(
            "li",
            element("p", text),
            element("div", self._lifelines(), *passing, class_="picture"),
            class_=f"loop-note {class_}",
        )

    def _arrivals(self, index: int, step: TraceStep) -> Iterator[Markup]:
        """Yield a strip for each message that the step receives or takes off the network."""
        arrivals = [(arrow, self.columns[step.lane], False) for arrow in _optional(step.received)]
        arrivals += [(arrow, lost_at(arrow, self.columns), True) for arrow in step.lost]
        for strip, (arrow, target, lost) in enumerate(arrivals):
            thread = self._feeding(index, arrow, target)
            line = self._arrow(arrow, target, thread, strip=strip, lost=lost)
            yield element("div", *line, class_="arrival", aria_hidden="true")

    def _arrow(
        self, arrow: Arrow, target: int, thread: Thread | None, *, strip: int, lost: bool
    ) -> Iterator[Markup]:
        """Yield the line into lane `target`, from its thread or else from its lane, and its label.

        A thread comes from the top of the band, `strip` strips above. A sender that has no lane
        is taken to stand left of the receiver.
        """
        end = target + 0.5
        if thread is None:
            source = self.columns.get(arrow.sender, target - 0.5) + 0.5
        else:
            source = self._position(thread)
        classes = [
            self.colours.get(arrow.sender, "m0"),
            "rightward" if source <= end else "leftward",
            *(["lost"] if lost else []),
        ]
        straight = ["straight"] if thread is None else []
        yield element(
            "div",
            CROSS if lost else ARROWHEAD,
            class_=" ".join(["arrow", *classes, *straight]),
            style=f"{_span(source, end)};--strip:{strip}",
        )
        yield element(
            "span",
            f"{arrow.message} is lost" if lost else arrow.message,
            class_=" ".join(["label", *classes]),
            style=f"--at:{_number(end)}",
            title=arrow.message,
        )

    def _tail(self, index: int, turn: Turn) -> Markup:
        """Return the foot of the band: the messages that leave, then the properties that change."""
        leaving = [thread for thread in self.threads if thread.sent == index]
        lines = []
        for strip, thread in enumerate(leaving):
            lane, track = self.columns[thread.sender] + 0.5, self._position(thread)
            classes = ["departure", self.colours[thread.sender]]
            classes.append("rightward" if track > lane else "leftward")
            classes += [] if thread.ends else ["unreceived"]
            lines.append(
                element(
                    "div",
                    class_=" ".join(classes),
                    style=f"{_span(lane, track)};--strip:{strip}",
                    aria_hidden="true",
                )
            )
        return element(
            "div",
            *lines,
            *_banners(turn, ended="stops holding"),
            class_="tail",
            style=f"--strips:{len(leaving)}",
        )

    def _feeding(self, index: int, arrow: Arrow, target: int) -> Thread | None:
        """Return the thread of the message that arrives in column `target` at step `index`."""
        source = self.columns.get(arrow.sender, target)
        gutter = source if target < source else source + 1
        for thread in self.threads:
            same = thread.message == arrow.message and thread.sender == arrow.sender
            if same and index in thread.ends and thread.gutter == gutter:
                return thread
        return None

    def _position(self, thread: Thread) -> float:
        return thread.gutter + (0, -TRACK_GAP, TRACK_GAP)[thread.track]


def _optional(arrow: Arrow | None) -> list[Arrow]:
    return [] if arrow is None else [arrow]


def _change(change: Change) -> Markup:
    return element(
        "p",
        element("code", change.variable),
        element("span", element("del", change.before), " → ", element("ins", change.after)),
        class_="change",
    )


def _banners(turn: Turn, *, ended: str) -> Iterator[Markup]:
    for name in turn.stops:
        yield element("p", "✗ ", element("b", name), f" {ended}", class_="banner")
    for name in turn.resumes:
        yield element("p", "✓ ", element("b", name), " holds again", class_="banner resumed")


def _span(one: float, other: float) -> str:
    """Return the two ends of a line, the left one first, as CSS variables."""
    return f"--from:{_number(min(one, other))};--to:{_number(max(one, other))}"


def _number(value: float) -> str:
    """Return a position as a short decimal; four places are a fraction of a pixel."""
    return f"{value:.4f}".rstrip("0").rstrip(".")
