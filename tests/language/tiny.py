"""The words of a tiny system, of which tests of the language make rows."""

from typing import Any

from pdproto.spec.language import (
    Machine,
    Message,
    Rigid,
    Sort,
    State,
    System,
    Table,
    auto,
)


class Worker(Sort):
    """Who does the work."""


class Item(Sort):
    """What there is to do."""


class Turn(Sort, ordered=True, prefix="turn"):
    """When."""


class Phase(State):
    IDLE = auto()
    BUSY = auto()
    DONE = auto()


class Mood(State):
    CALM = auto()
    CROSS = auto()


class Nothing(State):
    """An enum without members."""


w, v, i, j, t, u = Worker("w"), Worker("v"), Item("i"), Item("j"), Turn("t"), Turn("u")


class Parts:
    """Fresh machines and symbols, for each system its own."""

    def __init__(self) -> None:
        self.worker = Machine("worker", w)
        self.boss = Machine("boss")
        self.device = Machine("device", w)
        self.world = Machine("world", world=True)
        self.phase = self.worker.function("phase", Phase)
        self.has = self.worker.relation("has", Item)
        self.write = self.worker.function("write", Phase, Item)
        self.mood = self.boss.function("mood", Mood)
        self.knows = self.boss.relation("knows", Worker)
        self.best = self.worker.function("best", Item)
        self.latest = self.boss.function("latest", Turn, Item)
        self.near = Rigid("near", w, v)
        self.secret = Rigid("secret", w, visible_to=[self.boss])
        self.report = Message("report", w, i, sender=self.worker, receiver=self.boss)
        self.listing = Message(
            "listing", w, sender=self.worker, receiver=self.boss, carries=[self.has]
        )
        self.order = Message("order", w, i, sender=self.boss, receiver=self.worker)
        self.stop = Message("stop", sender=self.boss, receiver=self.worker)
        self.hint = Message("hint", w, v, sender=self.worker, receiver=self.worker.at(v))

    def system(self, *, worker: Any = (), boss: Any = (), world: Any = (), **more: Any) -> System:
        tables = (
            Table(self.worker, state=self.phase, rows=worker),
            Table(self.boss, state=self.mood, rows=boss),
            Table(self.world, rows=world),
        )
        return System("tiny", "A tiny system.", tables=tables, **more)
