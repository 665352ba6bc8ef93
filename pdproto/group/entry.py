"""The entry of a group: it asks every rank, makes and numbers decisions, and answers the client.

Rule 1: the table of the entry decides (spec/handoff/group.py, ENTRY). This module proposes rows,
        with the next number, a free slot or a failed rank. The guard of the row accepts or rejects
        the proposal.
Rule 2: requests that lack only a slot get one, first come first served.
Rule 3: a request is forgotten when it has its answer and all ranks have reported that they closed
        it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, get_args

from pdproto.group.members import Members
from pdproto.node.metrics import Metrics
from pdproto.node.part import Part, Turn
from pdproto.node.timers import Waits, rows_on_timers
from pdproto.runtime import checked
from pdproto.runtime.candidates import rows_after, rows_by_value
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import AnyMessage, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.wire import (
    Admit,
    AnyVote,
    Drop,
    Fail,
    GroupFrame,
    Life,
    Release,
    Request,
)
from pdproto.spec.handoff import group as tables
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.group import ENTRY, Status
from pdproto.spec.language.machine import Row

# Failures are decided first, so that no rank runs a request that will fail.
PROPOSALS: Final = ("decide_fail", "decide_admit", "decide_release", "decide_drop")
VOTES: Final = (tables.ready, tables.dead, tables.done, tables.broke, tables.closed)
TIMERS: Final = rows_on_timers(ENTRY)
ANOTHER_SLOT: Final = None  # a slot that does not exist, so it is always free


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the client. status: of HTTP, 200 or 500. reason: empty if it was served."""

    status: int
    reason: str = ""

    @property
    def served(self) -> bool:
        """Whether the request was served."""
        return self.status == 200


@dataclass(slots=True, eq=False)
class Submitted:
    """The handle of a submitted request.

    answer: None until the group has decided. on_answer: called once, in the loop, when there is an
    answer; without it, `Group.answers` returns the request. request_id: chooses requests for tests.
    """

    life: Life
    payload: bytes
    on_answer: Callable[["Submitted"], None] | None = None
    answer: Answer | None = None
    request_id: str = ""


@dataclass(slots=True, eq=False)
class Open:
    """The state of a request at the entry, besides the table.

    numbers: of its decisions. reason: of the first rank that failed. confirmed: how many ranks have
    closed it.
    """

    submitted: Submitted
    status: Status = Status.NEW
    numbers: list[int] = field(default_factory=list)
    slot: int | None = None
    reason: str = ""
    confirmed: int = 0

    @property
    def life(self) -> Life:
        """The life of the request."""
        return self.submitted.life


Writer = Callable[[Open, tuple[Any, ...]], GroupFrame]
# By message: makes the frame, from the state of the request and the message's arguments.
WRITERS: Final[Mapping[AnyMessage, Writer]] = {
    tables.request: lambda o, _: Request(o.life, o.submitted.payload),
    tables.admit: lambda o, arguments: Admit(o.life, arguments[1], arguments[3]),
    tables.fail: lambda o, arguments: Fail(o.life, arguments[1], o.reason),
    tables.release: lambda o, arguments: Release(o.life, arguments[1]),
    tables.drop: lambda o, arguments: Drop(o.life, arguments[1], o.reason),
}


class EntryPart:
    """The entry of a group, as a part of its rank.

    say: sends a frame to a rank. slots: how many requests run at a time. over: called when a
    request is forgotten (rule 3).
    """

    def __init__(
        self,
        ranks: Collection[int],
        slots: int,
        *,
        say: Callable[[int, GroupFrame], None],
        waits: Waits[Life],
        metrics: Metrics,
        trace: SharedTrace | None = None,
    ) -> None:
        self.answers: Final[deque[Submitted]] = deque()
        self.over: Callable[[Life], None] = lambda _: None
        self.floor = 0  # every life below this generation is over for all ranks
        self._ranks: Final = tuple(ranks)
        self._say: Final = say
        self._waits: Final = waits
        self._metrics: Final = metrics
        self._machine: Final = shared(ENTRY, (), {tables.Rank: self._ranks}, trace=trace)
        proposals = tuple(map(ENTRY.row, PROPOSALS))
        self._allowed: Final = rows_by_value(ENTRY, proposals, tables.status(tables.h))
        self._enabled: Final = {vote: rows_after(ENTRY, proposals, vote) for vote in VOTES}
        # By generation, in ascending order. A plain dict looks for its oldest entry at the places
        # of all removed ones.
        self._open: Final[OrderedDict[int, Open]] = OrderedDict()
        self._generation = 0
        self._number = 0
        self._slots: Final = slots
        self._free: Final = deque(range(slots))
        self._lacking: Final[OrderedDict[int, Open]] = OrderedDict()
        self._unanswered = 0
        self._describe()

    def part(self, members: Members) -> Part:
        """The part of the node."""
        votes = dict.fromkeys(get_args(AnyVote), self.hear)
        return Part(
            "entry", runs=ENTRY, implied=(tables.lost,), frames=members.of_ranks(votes),
            writers=WRITERS, timers=dict.fromkeys(TIMERS, self.serve),
            calls={"submit": self.submit, "abort": self.abort},
            lost=lambda peer, why: self.lose(members.index_of(peer), why),
            returned=lambda _: self._waits.fire_now(members.now),  # messages may be lost
            turns={Turn.ROOMS: self.serve}, due=self._waits.next, lives_below=lambda: self.floor)

    # Requests of the application

    def submit(self, submitted: Submitted, now: float) -> None:
        """Begin to serve a request. now: in seconds of the node's clock."""
        life = submitted.life
        self._generation = life.generation + 1
        opened = Open(submitted)
        try:
            step = self._machine.call("submit", life)
        except LocalProtocolError:
            self._answer(opened, Answer(500, "the group has ended"))
            return
        self._open[life.generation] = opened
        self._unanswered += 1
        self._follow(opened, step, now)

    def abort(self, submitted: Submitted, reason: str, now: float) -> None:
        """Refuse a request. Without effect if it was decided already."""
        opened = self._open.get(submitted.life.generation)
        if opened is None or not self._machine.enabled("abort", n=self._number, h=opened.life):
            return
        opened.reason = opened.reason or checked.reason(reason)
        step = self._machine.call("abort", opened.life, choose={"n": self._number})
        self._follow(opened, step, now)
        self._give_slots(now)

    # Frames of ranks

    def hear(self, rank: int, frame: AnyVote, now: float) -> None:
        """React to a rank's vote. Raises RemoteProtocolError if the request was never submitted."""
        generation = frame.life.generation
        opened = self._open.get(generation)
        if opened is None and generation < self._generation:
            self._metrics.add("stale_frames")
            return
        if opened is None or opened.life != frame.life:
            raise RemoteProtocolError(f"{frame.life} has not been submitted")
        if frame.reason and not opened.reason:
            opened.reason = checked.reason(f"rank {rank}: {frame.reason}")
        step = self._machine.receive(frame.message, rank, frame.life)
        self._follow(opened, step, now)
        enabled = self._enabled[frame.message]
        if any(self._decided(row.name, opened, now) for row in self._allowed[opened.status]
               if row in enabled):
            self._propose(opened, now)
        self._give_slots(now)
        if opened.confirmed == len(self._ranks):
            self._forget(opened)

    def lose(self, rank: int, why: str) -> None:
        """Note that a rank is gone, which ends the group. All open requests get their answer."""
        self._machine.receive(tables.lost, rank)
        for opened in list(self._open.values()):
            opened.reason = opened.reason or checked.reason(f"rank {rank} is gone: {why}")
            step = self._machine.fire("answer_lost", h=opened.life)
            if step is not None:
                self._follow(opened, step, 0.0)
            self._waits.follow(opened.life, (), 0.0)
        self._open.clear()
        self._lacking.clear()
        self._free.extend(set(range(self._slots)) - set(self._free))

    # Timers

    def serve(self, now: float) -> None:
        """Fire the rows of the waits that have ended."""
        for name, life in self._waits.due(now):
            opened = self._open[life.generation]
            for row in TIMERS[name]:
                for parameters in self._choices(row, opened):
                    step = self._machine.fire(row.name, **parameters)
                    if step is not None:
                        self._follow(opened, step, now)
            self._arm(opened, now)

    # Decisions

    def _propose(self, opened: Open, now: float) -> None:
        while any(self._decided(row.name, opened, now) for row in self._allowed[opened.status]):
            pass

    def _decided(self, row: str, opened: Open, now: float) -> bool:
        parameters: dict[str, Any] = {"n": self._number, "h": opened.life}
        if row == "decide_admit":
            parameters["m"] = self._free[0] if self._free else ANOTHER_SLOT
            if not self._free and self._machine.enabled(row, **parameters):
                self._lacking[opened.life.generation] = opened
                return False
        elif row != "decide_fail":
            parameters["m"] = opened.slot
        step = self._machine.fire(row, **parameters)
        if step is not None:
            self._follow(opened, step, now)
        return step is not None

    def _give_slots(self, now: float) -> None:
        while self._free and self._lacking:
            self._propose(self._lacking.popitem(last=False)[1], now)

    def _choices(self, row: Row, opened: Open) -> Iterator[dict[str, Any]]:
        """Every choice of parameters for a row that a timer fires."""
        slots = () if opened.slot is None else (opened.slot,)
        among = {"r": self._ranks, "n": opened.numbers, "h": (opened.life,), "m": slots}
        names = [variable.name for variable in row.choose]
        for chosen in product(*[among[name] for name in names]):
            yield dict(zip(names, chosen, strict=True))

    # Steps

    def _follow(self, opened: Open, step: SharedStep, now: float) -> None:
        entered: Status | None = None
        for symbol, key, value in step.changed:
            if key is None:
                continue
            if symbol is tables.numbered:
                self._number += 1
                opened.numbers.append(key[0])
            elif symbol is tables.granted:
                opened.slot = key[1]
            elif symbol is tables.taken:
                self._free.popleft() if value else self._free.append(key[0])
            elif symbol is tables.confirmed:
                opened.confirmed += 1
            elif isinstance(value, Status):
                entered = value
        for message, arguments in step.sent:
            self._say(arguments[0], WRITERS[message](opened, arguments))
        if entered is not None:
            self._enter(opened, entered)
            self._arm(opened, now, further=True)

    def _enter(self, opened: Open, status: Status) -> None:
        opened.status = status
        self._lacking.pop(opened.life.generation, None)
        if status is Status.SERVED:
            self._answer(opened, Answer(200))
        elif status is Status.REFUSED:
            self._answer(opened, Answer(500, opened.reason))
        if status in (Status.SERVED, Status.REFUSED):
            self._unanswered -= 1

    def _answer(self, opened: Open, answer: Answer) -> None:
        submitted = opened.submitted
        submitted.answer = answer
        if submitted.on_answer is None:
            self.answers.append(submitted)
        else:
            submitted.on_answer(submitted)

    def _forget(self, opened: Open) -> None:
        self._machine.forget(roles.Life, opened.life)
        self._waits.follow(opened.life, (), 0.0)
        del self._open[opened.life.generation]
        self.floor = next(iter(self._open), self._generation)
        self.over(opened.life)

    def _arm(self, opened: Open, now: float, *, further: bool = False) -> None:
        """Run the timers that have an enabled row. A row stays enabled until the status changes or
        all ranks have confirmed, so this is called only then.
        """
        names = [name for name, rows in TIMERS.items() if any(
            self._machine.enabled(row.name, **parameters)
            for row in rows for parameters in self._choices(row, opened))]
        self._waits.follow(opened.life, names, now, further=further)

    def _describe(self) -> None:
        for name, about, read in (
            ("num_group_unanswered_reqs", "Requests whose client waits for an answer",
             lambda: self._unanswered),
            ("num_group_unconfirmed_reqs", "Requests that not every rank has closed",
             lambda: len(self._open)),
            ("num_group_slots_taken", "Metadata slots that admitted requests hold",
             lambda: self._slots - len(self._free)),
        ):
            self._metrics.gauge(name, about, read)

    def __repr__(self) -> str:
        return repr(self._machine)
