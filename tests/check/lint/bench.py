"""A boss and workers, to which the tests of lint add rows; and the remarks about a system."""

from collections.abc import Mapping

from pdproto.check.lint import Remark, lint, small
from pdproto.spec.language import (
    Call,
    Ignore,
    Machine,
    Message,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
    each,
)
from pdproto.spec.language.properties import Property


class Worker(Sort):
    """One that is asked."""


class Page(Sort):
    """Something to choose."""


class Level(Sort, ordered=True):
    """A first, second, ... attempt."""


class Mood(State):
    IDLE = auto()
    BUSY = auto()
    DONE = auto()


w, v = Worker("w"), Worker("v")
page, other = Page("page"), Page("other")
network = Machine("network", world=True)


class Bench:
    """A fresh boss and worker, each with a mood, and a message each way; tests add the rows."""

    def __init__(self, *, reliable: bool = False) -> None:
        self.boss = Machine("boss")
        self.worker = Machine("worker", w)
        self.plan = self.boss.function("plan", Mood)
        self.mood = self.worker.function("mood", Mood)
        self.ask = Message("ask", w, sender=self.boss, receiver=self.worker, reliable=reliable)
        self.answer = Message("answer", w, sender=self.worker, receiver=self.boss)

    def system(
        self,
        boss: tuple[Row, ...],
        worker: tuple[Row, ...],
        properties: tuple[Property, ...] = (),
        faults: Mapping[str, tuple[Table, ...]] | None = None,
    ) -> System:
        tables = (
            Table(self.boss, state=self.plan, rows=boss),
            Table(self.worker, state=self.mood, rows=worker),
        )
        return System("bench", "A boss and workers.", tables, properties, faults=faults or {})

    @property
    def asking(self) -> Row:
        return Row(
            "begin",
            on=Call("begin"),
            at=Mood.IDLE,
            to=Mood.BUSY,
            send=[each(w, self.ask(w))],
        )

    @property
    def working(self) -> Row:
        return Row("work", on=self.ask(w), to=Mood.BUSY, send=[self.answer(w)])

    @property
    def hearing(self) -> Row:
        return Row("hear", on=self.answer(w), at=Mood.BUSY, to=Mood.DONE)

    @property
    def ignoring(self) -> Row:
        return Ignore(self.answer(w), at=(Mood.IDLE, Mood.DONE), why="one is enough")


def remarks(system: System, rule: str) -> list[Remark]:
    """Those of one rule, at the sizes that lint takes by itself."""
    return [remark for remark in lint(system, small(system)) if remark.rule == rule]


def the_remark(system: System, rule: str) -> Remark:
    """The only one of this rule; it names a line."""
    (remark,) = remarks(system, rule)
    assert remark.place.path.endswith(".py")
    assert remark.place.line > 0
    return remark
