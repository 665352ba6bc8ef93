"""A system with proofs in which each field of the language that names something names something."""

from typing import Any, Final

from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    AddFaults,
    AddProperty,
    AddRow,
    Always,
    Call,
    Completion,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
    ReplaceRow,
    Retarget,
    Rigid,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    auto,
    each,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.ranking import FaultFree, Help, Monotone, Ranking, Use, Witness


class Worker(Sort):
    """Works."""


class Slot(Sort, ordered=True):
    """Held by a worker."""


class Place(Sort, ordered=True):
    """Of a channel."""


class Phase(State):
    IDLE = auto()
    BUSY = auto()
    DONE = auto()


w, v = Worker("w"), Worker("v")
s, t = Slot("s"), Slot("t")
worker, pool, rack = Machine("worker", w), Machine("pool"), Machine("rack", s, host=True)
loss = Machine("loss", world=True)
phase = worker.function("phase", Phase, edges={
    Phase.IDLE: (Phase.BUSY,), Phase.BUSY: (Phase.DONE,), Phase.DONE: ()})
got = worker.relation("got", Slot)
last = worker.function("last", Slot)
lent = pool.relation("lent", Worker)
used = pool.relation("used", Slot, init=ANY)
near = Rigid("near", w, s, given=lambda _: {(0, 0)})
ask = Message("ask", w, sender=worker, receiver=pool, carries=[got])
give = Message("give", w, s, sender=pool, receiver=worker)
back = Message("back", w, sender=worker, receiver=pool, fifo=Place)

SYSTEM: Final = System("linked", "", (
    Table(worker, state=phase, rows=(
        Row("begin", on=Call("begin", s), at=Phase.IDLE, to=Phase.BUSY,
            when=[~got(w, s), near(w, s) | s.same(s)], send=[ask(w)]),
        Row("take", on=give(w, s), at=Phase.BUSY, to=Phase.DONE,
            do=[got(w, s).to(True), last(w).to(s),
                each(t, got(w, t).to(True), where=t.before(s))], send=[back(w)]),
        Row("written", on=Completion("written", t), when=[last(w) == t, ~got(w, t)],
            do=got(w, t).to(True)),
        Row("late", on=Timer("late"), at=Phase.BUSY, send=[ask(w)]),
    )),
    Table(pool, rows=(
        Row("lend", on=ask(w), choose=(s,), when=[forall(v, ~lent(v)), ~used(s)],
            do=[lent(w).to(True), used(s).to(True)], send=[each(v, give(v, s), where=near(v, s))]),
        Row("end", on=back(w), do=lent(w).to(False)),
        Ignore(ask(w), when=exists(v, lent(v)), why="busy"),
        Reject(ask(w), when=[lent(w), ~lent(w)], why="never"),
    )),
    Table(rack, rows=(Row("clear", choose=(w,), when=[used(s), got(w, s)], do=used(s).to(False)),)),
), (
    Always("one", implies(lent(w) & lent(v), w.same(v))),
    Always("used_once", implies(got(w, s), got(w, s)), by=("one",)),
    OnRow("lends_free", "lend", ~used(s)),
    Sometimes("is_done", phase(w) == Phase.DONE),
    LeadsTo("ends", phase(w) == Phase.BUSY, phase(w) == Phase.DONE, under=Fairness.TIMERS),
    LeadsTo("ends_calmly", phase(w) == Phase.BUSY, phase(w) == Phase.DONE, under=Fairness.TIMERS),
), final=forall(w, phase(w) != Phase.BUSY), init=forall(s, ~used(s)), faults={
    "lossy": (Table(loss, rows=(lose(ask),)),),
    "crash": (Table(loss, rows=(Row("crash", choose=(w, s), do=got(w, s).to(False)),)),),
}, axioms={"few": forall((w, s), implies(near(w, s), near(w, s)))}, configurations={
    "default": Configuration({Worker: 2, Slot: 1, Place: 1}),
    "lossy": Configuration({Worker: 1, Slot: 1, Place: 1}, faults=("lossy",), given={
        near: lambda _: {(0, 0)}}),
})

EDITS: Final[tuple[Any, ...]] = (
    ReplaceProperties(SYSTEM.properties[2:4]),
    DropClause("begin", ~got(w, s)),
    AddClause("begin", ~got(w, s)),
    DropEffect("lend", used(s).to(True)),
    AddEffect("lend", used(s).to(True)),
    Retarget("take", at=Phase.IDLE, to=Phase.BUSY),
    DropRow("late"),
    AddRow(worker, Row("later", on=Timer("later"), at=Phase.BUSY, send=[ask(w)])),
    ReplaceRow("clear", Row("clear_all", choose=(w,), when=got(w, s), do=used(s).to(False))),
    DropProperty("is_done"),
    AddProperty(Sometimes("is_idle", phase(w) == Phase.IDLE)),
    AddFaults("reset", Table(loss, rows=(Row("reset", choose=(s,), do=used(s).to(False)),))),
)

# What a module of proofs has beside its system.
PROOFS: Final[dict[str, Any]] = {
    "LEMMAS": (Always("lemma", implies(lent(w), lent(w)), by=()),),
    "MONOTONE": (Monotone("gets", got(w, s)),),
    "RANKINGS": (Ranking(
        "ends", (Help("late", ~ask(w)), Help("lend", ~lent(w), at={s: t})),
        pending=phase(w) == Phase.BUSY,
        witnesses=(Witness(t, got(w, t)),),
        using=(Use("one", at={v: w}),),
        assumed={"near": exists(s, near(w, s))},
    ),),
    "FAULT_FREE": FaultFree(
        ("crash",), (Always("calm", implies(lent(w), lent(w))),),
        (Ranking("ends_calmly", (Help("late", ~ask(w)),)),)),
    "ASSUMED": {"far": forall((w, s), implies(near(w, s), near(w, s)))},
}
