"""A source that looks at a few of its chunks answers as one that looks at all of them.

The endpoint that a node runs, whose automaton counts a few chunks, beside the automaton that counts
them all: the same calls, messages, completions and time-outs, in any order. Every step must fire
the same rows with the same numbers, send the same messages and change the same cells.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import SourceRole
from pdproto.runtime.sending import SendingEndpoint
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Write
from pdproto.spec.handoff.poll import SENDING_POLL, SOURCE_IS_OVER
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.window import WINDOW

CHUNKS: Final = 3 * WINDOW
ROLE: Final = SourceRole()
READ: Final = ("publish", "introduce", "abort")


@dataclass
class Pair:
    """Both ends. writes: under way, as (sink, chunk). total: how many chunks there will be."""

    sinks: int
    total: int
    ours: SendingEndpoint = field(init=False)
    whole: Automaton = field(init=False)
    state: int = field(init=False)
    handed: int = 0
    writes: list[tuple[int, int]] = field(default_factory=list)
    widest: int = 0

    def __post_init__(self) -> None:
        self.ours = SendingEndpoint(ROLE, None)
        self.ours.meet(tuple(f"d{sink}" for sink in range(self.sinks)))
        self.whole = ROLE.automaton_for(sinks=self.sinks, chunks=self.total)
        self.state = self.whole.initial

    def both(self, ours: Event, whole: Event) -> None:
        """The same event at both. Raises what both raise."""
        refused = 0
        try:
            mine = self.named(self.ours.take(ours), self.ours.number)
        except LocalProtocolError:
            refused += 1
        try:
            step = self.whole.take(whole, self.state)
        except LocalProtocolError:
            refused += 1
        assert refused in (0, 2), (ours.name, refused)
        if not refused:
            self.state = step.state
            assert mine == self.named(step, lambda _, index: index)
        self.agree()

    @staticmethod
    def named(step: Step, number: Any) -> tuple[Any, ...]:
        """What a step does, with the numbers of its chunks."""
        def at(sorts: Any, indices: Any) -> tuple[int, ...]:
            return tuple(number(sort, i) for sort, i in zip(sorts, indices, strict=True))

        rows = [(row.name, at(map(type, SOURCE.parameters(row)), indices))
                for row, indices in step.rows]
        changed = {(symbol.name, at(symbol.sorts, indices)): value
                   for symbol, indices, value in step.changed}
        return rows, [(message.name, indices) for message, indices in step.sent], changed

    def agree(self) -> None:
        """What is read off both is the same, and the chunks that ours counts stand alike."""
        ours, whole = self.ours, self.whole
        mine = ours.automaton
        polled = mine.first_value(SENDING_POLL, ours.state)
        assert polled is whole.first_value(SENDING_POLL, self.state)
        assert mine.holds(SOURCE_IS_OVER, ours.state) == whole.holds(SOURCE_IS_OVER, self.state)
        assert mine.armed(ours.state) == whole.armed(self.state)
        self.widest = max(self.widest, mine.sizes[Chunk])
        for (symbol, indices), value in mine.layout.decode(ours.state).items():
            there = tuple(ours.number(sort, i)
                          for sort, i in zip(symbol.sorts, indices, strict=True))
            if Chunk not in symbol.sorts or there[symbol.sorts.index(Chunk)] < self.total:
                assert whole.value(self.state, symbol, there) == value, (symbol, there)

    # What can happen

    def call(self, name: str) -> None:
        self.both(self.ours.automaton.call(name), self.whole.call(name))

    def hear(self, name: str, sink: int) -> None:
        message = getattr(ends, name)
        at = (sink, 0, 0)
        carried = [automaton.bits(ends.address, at) if name == "publish" else 0
                   for automaton in (self.ours.automaton, self.whole)]
        self.both(self.ours.automaton.message(message, at, carried[0]),
                  self.whole.message(message, at, carried[1]))

    def time(self, name: str) -> None:
        self.both(self.ours.automaton.timer(name), self.whole.timer(name))

    def send(self) -> None:
        if self.handed == self.total or self.whole.first_value(SENDING_POLL, self.state).value == 1:
            return
        event = self.ours.hand_over(last=self.handed + 1 == self.total)
        self.both(event, self.whole.call("send", (self.handed,)))
        self.ours.handed_over()
        self.handed += 1
        self.agree()

    def post(self, sink: int) -> None:
        """What ours posts, the other posts; which of all that it could is the caller's choice."""
        event = self.ours.post_to(sink)
        step = self.ours.automaton.take(event, self.ours.state)
        for row, indices in step.rows:
            if row.name == "post":
                chunk = self.ours.number(Chunk, indices[-1])
                self.writes.append((sink, chunk))
                among = {"d": range(sink, sink + 1), "c": range(chunk, chunk + 1)}
                self.both(event, self.whole.pace("post", **among))
                return

    def end(self, number: int, value: Write | None) -> None:
        """A write ends. None: the engine gives it up."""
        if not self.writes:
            return
        sink, chunk = self.writes[number % len(self.writes)]
        place = self.ours.place(chunk)
        if value is None:
            self.both(self.ours.automaton.completion("error", (sink, place)),
                      self.whole.completion("error", (sink, chunk)))
            return
        self.writes.remove((sink, chunk))
        if value is Write.SKIPPED:
            self.both(self.ours.automaton.completion("skipped", (sink, place)),
                      self.whole.completion("skipped", (sink, chunk)))
            return
        self.both(self.ours.automaton.device((ends.write, (0, 0, sink, place), value)),
                  self.whole.device((ends.write, (0, 0, sink, chunk), value)))
        self.ours.landed()
        self.agree()


small = st.integers(0, 2)
LANDS: Final = st.tuples(st.just("end"), st.integers(0, 7), st.just(Write.LANDED))
GOES_ON: Final = st.one_of(
    st.tuples(st.just("send")), st.tuples(st.just("post"), small), LANDS)
ANYTHING: Final = st.one_of(
    GOES_ON, GOES_ON,
    st.tuples(st.just("hear"), st.sampled_from(READ), small),
    st.tuples(st.just("call"), st.sampled_from(["abort_sender", "open_sender"])),
    st.tuples(st.just("time"), st.sampled_from(["bootstrap_timeout", "transfer_timeout"])),
    st.tuples(st.just("end"), st.integers(0, 7), st.sampled_from([Write.REFUSED, None])),
    st.tuples(st.just("end"), st.integers(0, 7), st.just(Write.SKIPPED)),
)


def happen(pair: Pair, events: list[tuple[Any, ...]]) -> None:
    for name, *arguments in events:
        sink = arguments[-1] % pair.sinks if name in ("hear", "post") else None
        if sink is not None:
            arguments[-1] = sink
        if name == "call" and arguments == ["open_sender"] and pair.handed:
            continue  # a caller opens once
        if name == "end" and arguments[-1] is Write.SKIPPED and (
                pair.whole.first_value(SENDING_POLL, pair.state).name != "FAILED"):
            continue  # a data path skips only what nobody wants
        getattr(pair, name)(*arguments)


def begun(sinks: int, total: int) -> Pair:
    pair = Pair(sinks, total)
    pair.call("open_sender")
    for sink in range(sinks):
        pair.hear("publish", sink)
    return pair


@given(st.integers(1, 3), st.integers(1, CHUNKS), st.lists(GOES_ON, max_size=120),
       st.lists(ANYTHING, max_size=60))
@settings(deadline=None)
def test_it_answers_as_if_it_looked_at_all(
    sinks: int, total: int, quiet: list[tuple[Any, ...]], events: list[tuple[Any, ...]]
) -> None:
    pair = begun(sinks, total)
    happen(pair, quiet)
    happen(pair, events)
    assert pair.widest <= WINDOW + 2


@given(st.lists(ANYTHING, max_size=30))
@settings(deadline=None)
def test_also_where_nothing_has_begun(events: list[tuple[Any, ...]]) -> None:
    happen(Pair(2, CHUNKS), events)


@given(st.integers(1, 3), st.integers(1, CHUNKS), st.integers(0, 1 << 32))
@settings(deadline=None)
def test_in_whatever_order_the_last_chunk_ends_it(sinks: int, total: int, seed: int) -> None:
    pair, chance = begun(sinks, total), Random(seed)  # noqa: S311 - no secret
    for _ in range(100 * total):
        name = chance.choice(["send", "post", "post", "end"])
        if name == "send":
            pair.send()
        elif name == "post":
            pair.post(chance.randrange(sinks))
        else:
            pair.end(chance.randrange(8), Write.LANDED)
    assert pair.whole.first_value(SENDING_POLL, pair.state).name == "SUCCESS"
    assert pair.handed == total
    assert not pair.writes
