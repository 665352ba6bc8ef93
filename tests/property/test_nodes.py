"""The real nodes, over real ZeroMQ and a network that goes wrong, keep what the spec promises.

Rules are what applications ask, by the calls of the tables, what engines do, and faults; after each
the properties of the spec are asked of what the nodes have come to. At the end of a run, whatever
has happened, everything is given back: each gauge is zero, and no page, thread, file, socket or
memory is left. Every byte of a success is right.

A blob replays the commands and the fates of messages, the n-th through each listener: that is
`run(SHIPPED, RUN, blob=...)`. Threads and sockets take their own time, so what was found once need
not be found again by the same blob.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import StringIO
from operator import methodcaller
from typing import Final, TypeVar

import pytest
from hypothesis import __version__, reproduce_failure, settings
from hypothesis import strategies as st
from hypothesis.errors import DidNotReproduce, Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rich.console import Console

from lab.sim.defects import base_of, roles_of, runnable
from lab.sim.outcome import SHIPPED, Roles
from lab.sim.picture import trace_of
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language.machine import Call
from pdproto.testing.machine import REPORTS, RUN, Report
from pdproto.testing.proxy import DOUBLED, LOST, PASSES, Fate
from tests.node.leftovers import held
from tests.property.network import Network, network
from tests.property.nodes import DRAIN_S, LINK, Eyes, HandOver, Nodes
from tests.property.profiles import runs
from tests.waiting import until

PICK: Final = st.integers(0, 255)
ROOMS_MAX: Final = 6
STOOD_STILL_MAX: Final = 3  # in a run: each takes half a second
FATES: Final = {
    "loses": LOST, "doubles": DOUBLED, "delays": Fate(delay_s=0.02),
    "lets overtake": Fate(delay_s=0.02, in_order=False),
}
FAULT: Final = st.one_of(
    *(st.tuples(st.just(kind), st.integers(1, 8)) for kind in sorted(FATES)),
    st.tuples(st.sampled_from(["cut", "hold", "heal"]), st.just(0)),
    st.tuples(st.just("pause"), st.integers(10, 600)),
    st.tuples(st.just("crash"), st.just(0)),
)
AT_ONCE: Final = st.sampled_from([True, True, False])
SELDOM: Final = st.sampled_from([False, False, True])
REST_MS: Final = 2  # after every command: a while for the nodes
T = TypeVar("T")


class NodesFailedError(AssertionError):
    """What went wrong, after which commands, and what the ends of that room did."""

    def __init__(self, told: str, commands: Sequence[str]) -> None:
        super().__init__(told)
        self.commands: Final = tuple(commands)


class NodesMachine(RuleBasedStateMachine):
    """Anything at any time. See the top of the file."""

    eyes: Eyes
    net: Network
    known: dict[tuple[str, ...], NodesFailedError]
    journal: list[list[str]]  # the commands of every run
    drain_s: float

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[str] = []
        self.fates: dict[str, deque[Fate]] = {}
        self.nodes: Nodes | None = None
        self.patiently = True
        self.stood_still = 0
        self.failure: NodesFailedError | None = None

    @initialize(come=st.integers(0, 3), slow=st.booleans(), sources=st.integers(1, 2),
                sinks=st.integers(1, 2), engine=st.sampled_from(["shm", "tcp"]), patiently=SELDOM)
    def begin(
        self, come: int, slow: bool, sources: int, sinks: int, engine: str, patiently: bool
    ) -> None:
        """The cluster. come: requests that are computed already. slow: writes wait until they are
        let go.
        """
        self.patiently = patiently
        self.eyes.begin()
        self.journal.append(self.commands)
        self.nodes = Nodes(self.net, self.eyes, sources=sources, sinks=sinks, engine=engine)
        self.net.do(lambda proxy: setattr(proxy, "fate", self.fate))
        for rank in self.nodes.ranks.values():
            if slow and rank.engine is not None:
                rank.engine.hold()
        engine += " that takes its time" * slow
        for number in range(come):
            self.come(self.of(self.nodes.sinks, number), (1,) * (1 + number % 2))
            hand = self.nodes.rooms[number]
            hand.wanted.update(dict.fromkeys(hand.sources, len(hand.chunks)))
        self.commands.append(f"begin {sources} sources, {sinks} sinks, {engine}, {come} requests, "
                             f"to end {'' if patiently else 'im'}patiently")

    def fate(self, listener: str) -> Fate:
        """Of the next message through a listener."""
        fates = self.fates.get(listener.split(".", maxsplit=1)[0])
        return fates.popleft() if fates else PASSES

    # What applications ask

    def of(self, things: Sequence[T], pick: int) -> T:
        return things[pick % len(things)]

    def some(self, holds: Callable[[HandOver], bool]) -> list[HandOver]:
        return [] if self.nodes is None else [h for h in self.nodes.rooms.values() if holds(h)]

    def unopened(self) -> list[tuple[HandOver, str]]:
        return [(hand, source) for hand in self.some(lambda _: True)
                for source in hand.sources if source not in hand.asked]

    def opened(self) -> list[tuple[HandOver, str]]:
        return [(hand, source) for hand in self.some(lambda _: True)
                for source in hand.sources if source in hand.asked]

    def computing(self) -> list[tuple[HandOver, str]]:
        return [(hand, source) for hand, source in self.opened()
                if hand.wanted[source] < len(hand.chunks)]

    @precondition(lambda self: self.nodes is not None and len(self.nodes.rooms) < ROOMS_MAX)
    @rule(pick=PICK, chunks=st.lists(st.integers(1, 3), min_size=1, max_size=3), both=AT_ONCE)
    def request(self, pick: int, chunks: list[int], both: bool) -> None:
        """A request comes; to both servers at once, or to neither yet."""
        sink = self.of(self.live.sinks, pick)
        self.do(f"request of chunks {chunks} at {sink}{' and all its sources' * both}",
                lambda: self.come(sink, tuple(chunks), both))

    def come(self, sink: str, chunks: tuple[int, ...], both: bool = True) -> None:
        nodes = self.live
        room = nodes.expect(sink, chunks)
        if both:
            for source in nodes.sources:
                nodes.open_sender(room, source)
            nodes.open_receiver(room)
            nodes.publish(room)

    @precondition(lambda self: self.unopened())
    @rule(pick=PICK)
    def open_sender(self, pick: int) -> None:
        hand, source = self.of(self.unopened(), pick)
        self.do(f"open_sender {hand.room} {source}",
                lambda: self.live.open_sender(hand.room, source))

    @precondition(lambda self: self.computing())
    @rule(pick=PICK, every=AT_ONCE)
    def send(self, pick: int, every: bool) -> None:
        """Prefill has computed the next chunk, or all."""
        hand, source = self.of(self.computing(), pick)
        number = len(hand.chunks) if every else hand.wanted[source] + 1

        def want() -> None:
            hand.wanted[source] = number

        self.do(f"send {hand.room} {source} up to {number}", want)

    @precondition(lambda self: self.some(lambda hand: hand.sink not in hand.asked))
    @rule(pick=PICK)
    def open_receiver(self, pick: int) -> None:
        room = self.of(self.some(lambda hand: hand.sink not in hand.asked), pick).room
        self.do(f"open_receiver {room}", lambda: self.live.open_receiver(room))

    @precondition(lambda self: self.some(lambda h: h.sink in h.asked and not h.published))
    @rule(pick=PICK)
    def publish(self, pick: int) -> None:
        room = self.of(self.some(lambda h: h.sink in h.asked and not h.published), pick).room
        self.do(f"publish {room}", lambda: self.live.publish(room))

    @precondition(lambda self: self.opened())
    @rule(pick=PICK)
    def abort_sender(self, pick: int) -> None:
        hand, source = self.of(self.opened(), pick)
        self.abort(f"abort_sender {hand.room} {source}", lambda: hand.senders.get(source))

    @precondition(lambda self: self.some(lambda hand: hand.sink in hand.asked))
    @rule(pick=PICK)
    def abort_receiver(self, pick: int) -> None:
        hand = self.of(self.some(lambda hand: hand.sink in hand.asked), pick)
        self.abort(f"abort_receiver {hand.room}", lambda: hand.receiver)

    def abort(self, command: str, of: Callable[[], Sender | Receiver | None]) -> None:
        """The client leaves, if the process lives that has its request."""

        def leave() -> None:
            end = of()
            if end is not None:
                end.abort()

        self.do(command, leave)

    @precondition(lambda self: self.some(lambda hand: not hand.finishes))
    @rule(pick=PICK)
    def finish(self, pick: int) -> None:
        """Its answer will have been generated as soon as it has succeeded."""
        hand = self.of(self.some(lambda hand: not hand.finishes), pick)
        self.do(f"finish {hand.room}", lambda: setattr(hand, "finishes", True))

    # What engines and clocks do, and what goes wrong

    @precondition(lambda self: self.stood_still < STOOD_STILL_MAX)
    @rule(pick=PICK)
    def miss_source(self, pick: int) -> None:
        """A source stands still until its sinks wait for it no longer."""
        self.stand_still(self.of(self.live.sources, pick))

    @precondition(lambda self: self.stood_still < STOOD_STILL_MAX)
    @rule(pick=PICK)
    def miss_sink(self, pick: int) -> None:
        """A sink stands still until its sources wait for it no longer."""
        self.stand_still(self.of(self.live.sinks, pick))

    def stand_still(self, name: str) -> None:
        self.stood_still += 1
        self.do(f"let {name} stand still for too long",
                lambda: self.live.pause(name, LINK.overdue_s + 2 * LINK.sign_of_life_s))

    @rule(pick=PICK, what=st.sampled_from(["hold", "let_go", "let_go", "give_up"]))
    def writes(self, pick: int, what: str) -> None:
        """A source's engine takes its time, or not; or says that it has lost track of a write.

        Which one: of those that have a write to be let go, if any have.
        """

        def let() -> None:
            engines = [rank.engine for rank in self.live.ranks.values() if rank.engine is not None]
            engine = self.of([e for e in engines if e.has_held] or engines, pick)
            getattr(engine, what)()

        self.do(f"{what} writes of an engine", let)

    @rule(pick=PICK)
    def wait(self, pick: int) -> None:
        """Let them work for a while."""
        self.do(f"wait {pick // 8} ms", lambda: self.live.rest(pick // 8))

    @rule(pick=PICK, fault=FAULT)
    def fault(self, pick: int, fault: tuple[str, int]) -> None:
        name, (kind, amount) = self.of(sorted(self.live.ranks), pick), fault
        nodes, listener = self.live, self.live.ranks[name].listener
        if kind in FATES:
            told = f"the network {kind} the next {amount} messages to {name}"
            fates = deque([FATES[kind]] * amount)
            self.do(told, lambda: self.net.do(lambda _: self.fates.update({name: fates})))
        elif kind == "pause":
            self.do(f"pause {name} for {amount} ms", lambda: nodes.pause(name, amount / 1e3))
        elif kind == "crash":
            self.do(f"crash {name}", lambda: nodes.crash(name))
        elif kind == "cut":
            self.do(f"cut connections to {name}",
                    lambda: self.net.do(methodcaller("cut", listener)))
        else:
            stands = kind == "hold"
            self.do(f"{kind} what goes to {name}",
                    lambda: self.net.do(methodcaller("hold", listener, stands)))

    # What becomes of it

    @property
    def live(self) -> Nodes:
        assert self.nodes is not None
        return self.nodes

    def do(self, command: str, action: Callable[[], object]) -> None:
        """Carry a command out, and look at what the nodes have come to.

        A failure is told at the end of the run: threads take their own time, and what is drawn must
        not depend on it.
        """
        self.commands.append(command)
        try:
            action()
            self.live.rest(REST_MS)
            self.live.check()
        except Exception as error:
            if self.failure is None:
                told = self.told(f"{type(error).__name__}: {error}")
                self.failure = NodesFailedError(told, self.commands)

    def told(self, what: str) -> str:
        """The failure, the commands and a picture of the room that it is about."""
        commands = "\n".join(f"  {command}" for command in self.commands)
        page = StringIO()
        for violation in self.eyes.blamed[:1]:
            of = self.eyes.recordings.get(violation.room)
            render_trace(Finding(
                name=violation.name, kind=PropertyKind.ALWAYS, claim=violation.about,
                verdict=Verdict.VIOLATED, assurance="tested", place=SYSTEM.place,
                trace=None if of is None else trace_of(of, violation),
                instance=f"room={violation.room}",
            ), Console(file=page, width=100, color_system=None))
        return f"{what}\nafter\n{commands}\n{page.getvalue()}"

    def teardown(self) -> None:
        if self.nodes is None:
            return
        key = tuple(self.commands)
        if self.failure is None and key not in self.known:
            self.do("end", lambda: self.live.drained(
                patiently=self.patiently, within_s=self.drain_s))
        self.nodes.close()
        self.nodes = None
        # Hypothesis comes by a failure a few times, and wants the same each time.
        if self.failure is not None:
            self.known.setdefault(key, self.failure)
        if key in self.known:
            raise self.known[key]


def run(
    roles: Roles, chosen: settings, *, drain_s: float = DRAIN_S, blob: str = "",
    journal: list[list[str]] | None = None,
) -> Report:
    """Run the machine on nodes with these tables, or what a blob replays. Raises NodesFailedError.

    journal: takes the commands of every run.
    """
    known: dict[tuple[str, ...], NodesFailedError] = {}
    eyes, journal = Eyes(roles), [] if journal is None else journal
    with network() as net:
        machine = type("NodesMachine", (NodesMachine,), {
            "eyes": eyes, "net": net, "known": known, "journal": journal, "drain_s": drain_s})
        replayed = reproduce_failure(__version__, blob.encode())(machine) if blob else machine
        try:
            run_state_machine_as_test(replayed, settings=chosen)
        except Flaky as error:
            # The same commands went well before: that they need not is what was found.
            for failure in known.values():
                failure.add_note("The same commands have gone well before, or went well after.")
                raise failure from error
            raise
    rows = {row.name for table in (SOURCE, SINK) for row in table.rows if row.kind != "reject"}
    return Report("nodes", len(journal), dict(eyes.fired), tuple(sorted(rows - eyes.fired.keys())))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread, file, socket or memory, but for what a process opens once and keeps."""
    with network() as net:
        Nodes(net, Eyes(SHIPPED)).close()
    before = held()
    yield
    until(lambda: not held() - before, lambda: f"{held() - before} are left")


def test_every_call_of_the_tables_is_a_rule() -> None:
    calls = {row.on.name for table in (SOURCE, SINK) for row in table.rows
             if isinstance(row.on, Call)}
    assert calls <= vars(NodesMachine).keys()


def test_everything_that_is_promised_holds() -> None:
    report = run(SHIPPED, runs(20, nightly=400))
    REPORTS.append(report)
    assert report.runs >= 20
    assert report.steps > 300
    assert {"commit", "succeed", "stop", "abort_receive", "release_kv"} <= report.fired.keys()


BUGS: Final = {bug.id: bug for bug in runnable()}


@pytest.mark.parametrize(("bug", "complaint"), [
    ("B22", "S1_writes_stay_in_own_memory"),  # memory is free as soon as ABORT is sent
    ("B54", "S10_drained_means_quiescent"),  # DRAINED while a write is under way
    ("B10", "sending_edges"),  # an aborted request turns to Success
    ("B62", "S8_source_pages_are_held"),  # pages are free before the engine has read them
    ("B46", r"after all faults: .* (has not ended|holds \d+)"),  # a failure leaves pages behind
])
def test_a_defect_is_caught(bug: str, complaint: str) -> None:
    """Nodes that run tables with a historical defect, against the same rules."""
    tables = BUGS[bug].system
    assert base_of(tables) is SYSTEM, "nothing else is wrong with them"
    # Who is slow on a busy machine has no defect; what never ends is waited for again and again.
    drain_s = 5.0 if "has not ended" in complaint else DRAIN_S
    with pytest.raises(NodesFailedError, match=complaint) as raised:
        run(roles_of(tables), runs(200), drain_s=drain_s)
    assert "after\n  begin" in str(raised.value)
    assert re.search("reproduce_failure|have gone well", "".join(raised.value.__notes__))


def test_a_blob_replays_the_commands() -> None:
    """All of them, whatever comes of it this time, unless the defect shows sooner."""
    roles = roles_of(BUGS["B43"].system)
    with pytest.raises(NodesFailedError) as raised:
        run(roles, runs(200))
    found = re.search(r"reproduce_failure\('[^']*', b'([^']*)'\)", "".join(raised.value.__notes__))
    assert found is not None
    journal: list[list[str]] = []
    with suppress(DidNotReproduce, NodesFailedError):
        run(roles, RUN, blob=found.group(1), journal=journal)
    told = [*raised.value.commands]
    assert len(told) > 1
    assert max(map(len, journal)) > 1
    for again in journal:
        both = min(len(told), len(again))
        assert again[:both] == told[:both]
