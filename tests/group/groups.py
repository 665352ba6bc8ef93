"""Groups for tests: every rank a node with sockets of its own, and a small scheduler on each."""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdproto.check.result import Verdict as Outcome
from pdproto.check.trace.verify import verify
from pdproto.group.entry import Submitted
from pdproto.group.group import Group
from pdproto.group.rank import Decision
from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import AnyFrame, GroupFrame, Life
from pdproto.spec.handoff.agreement import SYSTEM
from pdproto.spec.handoff.group import Verdict
from tests.waiting import until

PATIENCE_S = 60.0
# Nothing is repeated unless a test wants it, so that no clock makes good what a message should do.
NEVER = {"no_votes": 1e6, "no_decision": 1e6, "no_confirmation": 1e6, "no_release": 1e6}
LINK = Link(sign_of_life_s=0.2, silent_s=20.0)


class Lossy(Group):
    """A rank that loses frames as they go out, also to itself."""

    chance: random.Random | None = None
    lost = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        core, lossy = self._core, self
        say = core.say

        def say_or_lose(peer: Peer, frame: AnyFrame) -> None:
            if not self._loses_it():
                say(peer, frame)

        class Own(deque[GroupFrame]):
            def append(self, frame: GroupFrame, /) -> None:
                if not lossy._loses_it():
                    super().append(frame)

        core.say = say_or_lose  # the network
        self._node.members.own = Own()

    def _loses_it(self) -> bool:
        if self.chance is None or self.chance.random() >= 0.3:
            return False
        self.lost += 1
        return True


@dataclass(slots=True, eq=False)
class Scheduler:
    """A rank's scheduler: it votes as the test says, and writes down what it applies.

    holds: rooms that it does not vote for yet. dead: rooms whose bootstrap fails here. late_dead:
    rooms that fail here right after the ready vote. breaks: rooms whose transfer fails here. runs:
    whether transfers end by themselves.
    """

    group: Group
    holds: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    late_dead: set[int] = field(default_factory=set)
    breaks: set[int] = field(default_factory=set)
    runs: bool = True
    queue: dict[Life, None] = field(default_factory=dict)
    running: dict[Life, int] = field(default_factory=dict)
    applied: list[Decision] = field(default_factory=list)
    arrived: list[Life] = field(default_factory=list)

    def turn(self) -> None:
        for decision in self.group.decisions():
            self._apply(decision)
        for arrival in self.group.arrivals():
            self.arrived.append(arrival.life)
            self.queue[arrival.life] = None
            self.group.prepared(arrival.life)
            self.vote(arrival.life)

    def vote(self, life: Life) -> None:
        if life.room in self.dead:
            self.group.failed(life, f"no KV for room {life.room}")
        elif life.room not in self.holds:
            self.group.bootstrapped(life)
            if life.room in self.late_dead:
                self.group.failed(life, f"room {life.room} was lost")

    def _apply(self, decision: Decision) -> None:
        self.applied.append(decision)
        life = decision.life
        self.queue.pop(life, None)
        if decision.verdict is not Verdict.ADMIT:
            self.running.pop(life, None)
            return
        assert decision.slot is not None
        assert decision.slot not in self.running.values(), "a slot with two owners"
        self.running[life] = decision.slot
        if decision.transfers and self.runs:
            self.end(life)

    def end(self, life: Life) -> None:
        if life.room in self.breaks:
            self.group.transfer_failed(life, f"the sink of room {life.room} went away")
        else:
            self.group.transferred(life)


@dataclass(slots=True, eq=False)
class Ranks:
    """All ranks of a group, in one process. answered: the requests that were, in that order."""

    schedulers: list[Scheduler]
    answered: list[Submitted] = field(default_factory=list)

    @property
    def entry(self) -> Group:
        return self.schedulers[0].group

    def submit(self, room: int, payload: bytes = b"") -> Submitted:
        return self.entry.submit(room, payload, self.answered.append)

    def until(self, done: Callable[[], bool]) -> None:
        """Let all schedulers run until it has come about."""
        def turned() -> bool:
            if done():
                return True
            for scheduler in self.schedulers:
                scheduler.turn()
            return False

        until(turned, lambda: str(self.schedulers), within_s=PATIENCE_S)

    def until_answered(self, *requests: Submitted) -> None:
        self.until(lambda: all(request.answer is not None for request in requests))

    def gauges(self) -> dict[str, float]:
        """What is not 0, by rank and gauge."""
        return {
            f"{s.group.me}:{name}": value for s in self.schedulers
            for name, value in s.group.metrics.read().items()
            if name.startswith("num_") and value
        }

    def until_idle(self) -> None:
        """With no traffic, every gauge is 0 on every rank."""
        self.until(lambda: not self.gauges())
        assert not any(s.queue or s.running for s in self.schedulers)

    def assert_same_decisions(self) -> None:
        """Each rank has applied the same decisions in the same order, and each once."""
        of_all = [
            [(d.number, d.verdict, d.life, d.slot, d.reason) for d in s.applied]
            for s in self.schedulers
        ]
        assert [number for number, *_ in of_all[0]] == list(range(len(of_all[0])))
        assert all(of_one == of_all[0] for of_one in of_all)


@contextmanager
def ranks(
    folder: Path, count: int = 4, *, slots: int = 4, kind: type[Group] = Group,
    link: Link = LINK, stop: Callable[[Life], bool] = lambda _: True,
    waits: Mapping[str, float] | None = None, strangers: Collection[str] = (),
) -> Iterator[Ranks]:
    """A group of ranks (2 stages x 2 tensor ranks, unless it is told otherwise).

    strangers: who may say what is dropped, at any time until the end. What its ranks have done is
    replayed in the end against the tables.
    """
    endpoints = {index: f"ipc://{folder}/{index}" for index in range(count)}
    groups: list[Group] = []
    files = [folder / f"rank-{index}.jsonl" for index in endpoints]
    targets = [path.open("wb") for path in files]
    try:
        for index, target in enumerate(targets):
            groups.append(kind("prefill", endpoints, me=index, slots=slots, stop=stop, link=link,
                               waits=NEVER | dict(waits or {}),
                               trace=SharedTrace(f"prefill.{index}", target)))
        yield Ranks([Scheduler(group) for group in groups])
        for group in groups:
            assert group._loop.turn_errors == 0
            assert group._core.mistakes == 0
            assert group._core.malformed.keys() <= {*strangers}
            assert group.metrics.read()["refused_frames"] == 0
    finally:
        for group in groups:
            group.close()
        for target in targets:
            target.close()
    verified = verify(SYSTEM, files)
    assert verified.verdict is Outcome.HOLDS, verified
