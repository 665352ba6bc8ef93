"""The conformance kit: it compares an engine of your own with the tables.

    from pdproto.testing import conformance

    def test_our_engine():
        conformance(OurAdapter)      # OurAdapter() stands for a fresh pair of ranks (adapter.py)

The kit opens, publishes, sends, aborts and closes rooms. Messages and writes arrive late, twice, in
any order or never, and processes die. After every call the tables must allow the engine's answer,
and each room must hold pages if and only if it does in the tables (observer.py). An error shows the
calls so far, and a run of the tables up to the last of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pdproto.check.result import Finding
from pdproto.testing.adapter import GONE, WRITE, Adapter, Said, Side
from pdproto.testing.machine import RUN
from pdproto.testing.observer import CHUNKS, ROOMS, Observer, Past, moves
from pdproto.testing.property_checker import PropertyChecker, trace_text

OPENS: Final = {Side.PREFILL: "open_sender", Side.DECODE: "open_receiver"}
ABORTS: Final = {Side.PREFILL: "abort_sender", Side.DECODE: "abort_receiver"}
CRASHES: Final = {Side.PREFILL: "vanish", Side.DECODE: "vanish_sink"}
T = TypeVar("T")

PICK: Final = st.integers(0, 255)


class NonConformanceError(AssertionError):
    """The tables do not allow an answer of the engine.

    what: the answer, and why it is wrong. calls: the calls of the engine with its answers. finding:
    a run of the tables up to the call before.
    """

    def __init__(self, what: str, calls: tuple[str, ...], finding: Finding) -> None:
        listed = "\n".join(f"  {number:2}  {call}" for number, call in enumerate(calls, 1))
        super().__init__(f"{what}, after\n{listed}\n\nOne run of the tables up to there:"
                         f"\n{trace_text(finding)}")
        self.what: Final = what
        self.calls: Final = calls
        self.finding: Final = finding


@dataclass(frozen=True, slots=True)
class Conformed:
    """The result for an engine that conforms: how many runs and calls the kit made."""

    runs: int
    calls: int


class Kit:
    """The parts that all runs against one engine share."""

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self.make: Final = make
        self.observer: Final = Observer()
        self.checker: Final = PropertyChecker(self.observer.ground)
        self.runs = 0
        self.calls = 0


def conformance(make: Callable[[], Adapter], chosen: settings = RUN) -> Conformed:
    """Compare an engine with the tables in many random runs.

    make: returns an adapter for a new pair of ranks. chosen: Hypothesis settings. Raises
    NonConformanceError for an answer that the tables do not allow.
    """
    kit = Kit(make)
    run_state_machine_as_test(
        type("EngineMachine", (EngineMachine,), {"kit": kit}), settings=chosen)
    return Conformed(kit.runs, kit.calls)


class EngineMachine(RuleBasedStateMachine):
    """One run: calls, deliveries and crashes for which the tables have a row, in random order."""

    kit: Kit

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.wire: list[Said] = []
        self.open: set[tuple[Side, int]] = set()
        self.published: set[int] = set()
        self.closed: set[int] = set()
        self.handed = [0] * ROOMS
        self.crashed: set[Side] = set()

    @initialize()
    def begin(self) -> None:
        """Start a run with a new pair of ranks."""
        self.kit.observer.begin()
        self.kit.runs += 1
        self.engine = self.kit.make()

    # Possible calls

    def openable(self) -> list[tuple[Side, int]]:
        """The rooms that may be opened, with their sides."""
        return [(side, room) for side in Side for room in range(ROOMS)
                if (side, room) not in self.open and side not in self.crashed
                and self.kit.observer.answered(OPENS[side], room)]

    def publishable(self) -> list[int]:
        """The rooms for which decode may publish pages."""
        return [room for side, room in sorted(self.open)
                if side is Side.DECODE and room not in self.published
                and side not in self.crashed]

    def sendable(self) -> list[int]:
        """The rooms for which prefill may hand over a chunk."""
        return [room for room in range(ROOMS)
                if self.handed[room] < CHUNKS and (Side.PREFILL, room) in self.open
                and Side.PREFILL not in self.crashed
                and self.kit.observer.answered("send", room, self.handed[room])]

    def abortable(self) -> list[tuple[Side, int]]:
        """The rooms that may be aborted, with their sides."""
        return [(side, room) for side, room in sorted(self.open)
                if side not in self.crashed and self.kit.observer.answered(ABORTS[side], room)]

    def closable(self) -> list[int]:
        """The rooms that have ended at decode, and whose pages were not given back."""
        return [room for side, room in sorted(self.open)
                if side is Side.DECODE and side not in self.crashed and room not in self.closed
                and self.kit.observer.answered("finish", room)]

    def deliverable(self) -> list[Said]:
        """The messages and writes that may be delivered; "gone" only of a room open at decode."""
        return [
            said for said in self.wire
            if ((Side.DECODE, said.room) in self.open if said.kind == GONE
                else self.kit.observer.answered(said.kind, said.room, said.chunk))
        ]

    # Calls

    @rule(steps=st.integers(1, 12))
    def goes_on(self, steps: int) -> None:
        """Some steps of a hand-over without errors: random calls alone seldom reach its end."""
        for _ in range(steps):
            messages = [said for said in self.deliverable() if said.kind not in (WRITE, GONE)]
            if messages:
                self.deliver(messages[0], again=False)
            elif self.sendable():
                self.send(self.sendable()[0])
            elif self.publishable():
                self.publish(self.publishable()[0])
            elif self.openable():
                self.open_one(*self.openable()[-1])
            elif self.closable():
                self.close_one(self.closable()[0])

    @precondition(lambda self: self.openable())
    @rule(pick=PICK)
    def opens(self, pick: int) -> None:
        self.open_one(*_of(self.openable(), pick))

    def open_one(self, side: Side, room: int) -> None:
        self.open.add((side, room))
        self.kit.observer.happen(OPENS[side], room)
        self.answer(f"open({side}, {room})", self.engine.open(side, room))

    @precondition(lambda self: self.publishable())
    @rule(pick=PICK)
    def publishes(self, pick: int) -> None:
        self.publish(_of(self.publishable(), pick))

    def publish(self, room: int) -> None:
        self.published.add(room)
        self.kit.observer.publish(room)
        self.answer(f"publish({room})", self.engine.publish(room))

    @precondition(lambda self: self.sendable())
    @rule(pick=PICK)
    def sends(self, pick: int) -> None:
        self.send(_of(self.sendable(), pick))

    def send(self, room: int) -> None:
        chunk = self.handed[room]
        self.handed[room] += 1
        self.kit.observer.happen("send", room, chunk)
        last = chunk == CHUNKS - 1
        self.answer(f"send({room}, {chunk}, last={last})", self.engine.send(room, chunk, last))

    @precondition(lambda self: self.abortable())
    @rule(pick=PICK)
    def aborts(self, pick: int) -> None:
        side, room = _of(self.abortable(), pick)
        self.kit.observer.happen(ABORTS[side], room)
        self.answer(f"abort({side}, {room})", self.engine.abort(side, room))

    @precondition(lambda self: self.closable())
    @rule(pick=PICK)
    def closes(self, pick: int) -> None:
        self.close_one(_of(self.closable(), pick))

    def close_one(self, room: int) -> None:
        self.closed.add(room)
        self.kit.observer.happen("finish", room)
        self.answer(f"close({room})", self.engine.close(room))

    @precondition(lambda self: self.deliverable())
    @rule(pick=PICK, again=st.booleans())
    def delivers(self, pick: int, again: bool) -> None:
        """Deliver a message or a write. again: a message stays on the wire; a write never does."""
        self.deliver(_of(self.deliverable(), pick), again=again)

    @precondition(lambda self: self.deliverable())
    @rule()
    def delivers_all(self) -> None:
        """Deliver all messages and writes, the oldest first, so that some runs reach their end."""
        for said in self.deliverable():
            if said in self.wire and said in self.deliverable():
                self.deliver(said, again=False)

    def deliver(self, said: Said, *, again: bool) -> None:
        if said.kind == WRITE or not again:
            self.wire.remove(said)
        if said.kind == GONE:
            self.kit.observer.hear_gone(said.room)
        else:
            self.kit.observer.happen(said.kind, said.room, said.chunk)
        self.answer(f"deliver {said}", self.engine.deliver(said))

    @precondition(lambda self: len(self.crashed) < len(Side) and len(self.calls) > CRASH_AFTER)
    @rule(pick=PICK)
    def crashes(self, pick: int) -> None:
        """One of the two processes dies."""
        side = _of([side for side in Side if side not in self.crashed], pick)
        self.crashed.add(side)
        observer = self.kit.observer
        for room in range(ROOMS):
            if observer.answered(CRASHES[side], room):
                observer.happen(CRASHES[side], room)
                if side is Side.PREFILL:
                    self.wire.append(Said(GONE, room))
        self.answer(f"crash({side})", self.engine.crash(side))

    # Answers

    def answer(self, call: str, said: Iterable[Said]) -> None:
        """Compare the messages of the engine, then its polls and pages, with the tables."""
        kit, observer = self.kit, self.kit.observer
        before = next(iter(observer.fits.values()))
        heard = tuple(said)
        kit.calls += 1
        self.calls.append(f"{call}: {', '.join(map(str, heard)) or 'no message'}")
        observer.say(heard)
        if not observer.fits:
            self.wrong("the tables do not allow exactly these messages", before)
        for side, room in sorted(self.open):
            if side in self.crashed:
                continue
            answer = self.engine.poll(side, room)
            allowed = {observer.poll(state, side, room).name for state, _ in observer.fits}
            observer.polled(side, room, answer)
            if not observer.fits:
                self.wrong(f"the poll of {side} for room {room} is {answer.name}, and the tables "
                           f"allow {', '.join(sorted(allowed))}", before)
        self.count_pages(before)
        self.wire.extend(one for one in heard if one.kind == WRITE or one not in self.wire)

    def count_pages(self, before: Past | None) -> None:
        """Compare the pools of both sides with the tables."""
        owners: dict[tuple[Side, int], int] = {}
        for side, room in sorted(self.open):
            if side in self.crashed:
                continue
            pages = self.engine.pages(side, room)
            for page in pages:
                owner = owners.setdefault((side, page), room)
                if owner != room:
                    self.wrong(f"page {page} of {side} is held by room {owner} and by room {room}",
                               before)
            self.kit.observer.counted(side, room, held=bool(pages))
            if not self.kit.observer.fits:
                self.wrong(f"room {room} holds {len(pages)} pages of {side}, and the tables have "
                           f"them {'free' if pages else 'held'}", before)

    def wrong(self, what: str, before: Past | None) -> None:
        """Raise NonConformanceError. before: a path to a state before the answer."""
        finding = self.kit.checker.diverged(moves(before), what)
        raise NonConformanceError(what, tuple(self.calls), finding)


CRASH_AFTER: Final = 6  # calls: before that, a crash would have little effect


def _of(things: list[T], pick: int) -> T:
    return things[pick % len(things)]
