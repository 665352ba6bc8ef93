"""Random small systems that go forward most of the time, with a `leads_to` and why it may hold."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hypothesis import strategies as st

from pdproto.spec.language import (
    TRUE,
    Call,
    Fairness,
    Formula,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sizes,
    Sort,
    State,
    System,
    Table,
    Timer,
    all_of,
    auto,
    exists,
    forall,
    lose,
)
from pdproto.spec.language.ranking import Help, Monotone, Ranking
from pdproto.spec.language.symbols import Sent, Update


class Worker(Sort):
    """A process that makes progress."""


class Stage(State):
    FIRST = auto()
    SECOND = auto()
    THIRD = auto()


w, v, u = Worker("w"), Worker("v"), Worker("u")
SIZES: Final[Sizes] = {Worker: 2}
STAGES: Final = tuple(Stage)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A system and the reasons that are given for its only `leads_to`."""

    system: System
    monotone: tuple[Monotone, ...]
    ranking: Ranking


class Parts:
    """Fresh machines and symbols for one system."""

    def __init__(self) -> None:
        self.worker = Machine("worker", w)
        self.network = Machine("network", world=True)
        self.stage = self.worker.function("stage", Stage, edges={
            Stage.FIRST: (Stage.SECOND, Stage.THIRD), Stage.SECOND: (Stage.THIRD,),
        })
        self.busy = self.worker.relation("busy")  # comes and goes
        self.ready = self.worker.relation("ready")  # stays
        self.word = Message("word", w, v, sender=self.worker, receiver=self.worker.at(v))

    def literals(self) -> list[Formula]:
        """Facts about a worker."""
        return [TRUE, self.busy(w), ~self.busy(w), self.ready(w), ~self.ready(w),
                exists(u, self.word(u, w)), forall(u, ~self.word(w, u))]

    def claims(self) -> list[Formula]:
        stages = [self.stage(w) == stage for stage in STAGES]
        return [*stages, *(~stage for stage in stages), self.ready(w), ~self.busy(w),
                all_of(self.ready(w), ~self.busy(w)), exists(u, self.ready(u))]

    def premises(self) -> list[Formula]:
        """Likely premises."""
        return [TRUE, TRUE, *[self.stage(w) != Stage.THIRD] * 3, self.stage(w) != Stage.FIRST]

    def goals(self) -> list[Formula]:
        """Likely goals."""
        third = self.stage(w) == Stage.THIRD
        return [*[third] * 4, third | ~self.busy(w), forall(u, self.stage(u) == Stage.THIRD)]


@st.composite
def rows(draw: st.DrawFn, parts: Parts, name: str) -> Row:
    """A step forward, or one that only keeps a worker busy."""
    start, end = draw(st.sampled_from([
        (0, 1), (0, 2), (1, 2), (0, None), (1, None), (2, None), (None, None),
    ]))
    updates: list[Update] = [parts.busy(w).to(True), parts.busy(w).to(False),
                             parts.ready(w).to(True)]
    sends: list[Sent] = [parts.word(w, v)]
    return Row(
        name,
        on=draw(st.sampled_from([None, None, Timer("late"), Call("go"), parts.word(v, w)])),
        choose=(),
        at=() if start is None else STAGES[start],
        to=None if end is None else STAGES[end],
        when=[draw(st.sampled_from(parts.literals()))],
        do=draw(st.lists(st.sampled_from(updates), max_size=1)),
        send=[],
        fair=draw(st.sampled_from([None, None, True, False])),
    ) if draw(st.integers(0, 4)) else Row(
        name, choose=(v,), at=() if start is None else STAGES[start], send=sends,
        when=[draw(st.sampled_from(parts.literals()[:5]))],
    )


@st.composite
def ranked(draw: st.DrawFn) -> Ranked:
    """A system of up to five rows, with monotone and helpers that may or may not be any."""
    parts = Parts()
    steps = [
        Row(f"to_{end.name.lower()}", at=start, to=end,
            when=[draw(st.sampled_from([*[TRUE] * 24, *parts.literals()]))])
        for start, end in pairwise(STAGES)
    ]
    others = [draw(rows(parts, f"row_{number}")) for number in range(draw(st.integers(0, 3)))]
    table = Table(parts.worker, state=parts.stage, rows=(*steps, *others))
    faults = (lose(parts.word), Row("crash", choose=(w,), do=[parts.ready(w).to(False)]))
    system = System(
        "advancing", "A random system.", (table,),
        (LeadsTo("arrives", draw(st.sampled_from([*parts.premises(), *parts.claims()])),
                 draw(st.sampled_from([*parts.goals(), *parts.claims()])),
                 under=(Fairness.TIMERS,)),),
        final=TRUE,
        faults={"faulty": (Table(parts.network, rows=faults),)},
    )
    whens = st.sampled_from([TRUE, TRUE, ~parts.busy(w), ~parts.ready(w)])
    helpers = tuple(Help(row.name, draw(whens)) for row in table.rows if draw(st.integers(0, 7)))
    monotone = tuple(
        Monotone(f"ratchet_{number}", draw(st.sampled_from(parts.claims())))
        for number in range(draw(st.integers(0, 2)))
    )
    return Ranked(system, monotone, Ranking("arrives", helpers))
