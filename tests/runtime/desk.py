"""A machine with forms of formulas and updates that no table of the hand-over has."""

from pdproto.spec.language import (
    ANY,
    Call,
    Configuration,
    Machine,
    Message,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
    each,
    exists,
)


class Job(Sort):
    """Without a bound."""


class Tray(Sort):
    """Few, and known from the first."""


class Phase(State):
    NEW = auto()
    OPEN = auto()
    DONE = auto()


j, i, k = Job("j"), Job("i"), Job("k")
t = Tray("t")
desk = Machine("desk")
phase = desk.function("phase", Phase, Job, Tray)  # a row gives it to all jobs that there can be
lies = desk.function("lies", Phase, Job, Tray)
near, far = desk.relation("near", Job, Job), desk.relation("far", Job, Job)
held, urgent = desk.relation("held", Job), desk.relation("urgent", Job)
note = Message("note", j, sender=desk, receiver=desk)


TABLE = Table(desk, rows=(
    Row("take", on=Call("take", j), when=[~held(j)], do=[held(j).to(True)], send=[note(j)]),
    Row("hurry", on=Call("hurry", j), when=[note(j)], do=[urgent(j).to(True)]),
    Row("drop", on=Call("drop", j), when=[held(j)], do=[held(j).to(False), urgent(j).to(False)]),
    # Of two relations, either of which may speak of an element that a look-up finds.
    Row("join", on=Call("join", i, j), when=[exists(k, held(k) | urgent(k))],
        do=[near(i, j).to(True)]),
    Row("part", on=Call("part", i, j), when=[near(i, j)],
        do=[near(i, j).to(False), far(i, j).to(True)]),
    Row("pass_over", on=Call("pass_over", j),
        when=[exists(i, ~held(i) & (near(i, j) | far(i, j)))], do=[urgent(j).to(True)]),
    Row("keep", on=Call("keep", j), when=[exists(i, i.same(j) & held(i))],
        do=[lies(j, ANY).to(Phase.OPEN)]),
    Row("close", on=Call("close", j, t), when=[lies(j, t) == Phase.OPEN],
        do=[lies(j, t).to(Phase.DONE)]),
    Row("clear", on=Call("clear", t), do=[lies(ANY, t).to(Phase.NEW)]),
    Row("gather", on=Call("gather", i),
        do=[each(j, held(j).to(True), where=near(i, j) & ~urgent(j)), urgent(i).to(False)]),
    # Both read the state before the row.
    Row("calm", on=Call("calm"),
        do=[each(j, held(j).to(False), where=urgent(j)), urgent(ANY).to(False)]),
    Row("spread", on=Call("spread", i),
        do=[each((j, t), lies(j, t).to(Phase.OPEN), where=far(i, j) & (lies(i, t) == Phase.DONE))]),
    # Once a row gives a value to all jobs, other rows still give it to the trays of one.
    Row("end", on=Call("end"), do=[phase(ANY, ANY).to(Phase.DONE)]),
    Row("open", on=Call("open", j), do=[phase(j, ANY).to(Phase.OPEN)]),
    Row("reset", on=Call("reset", j), do=[phase(j, ANY).to(Phase.NEW)]),
    Row("renew", on=Call("renew", j, t), when=[phase(j, t) == Phase.OPEN],
        do=[phase(j, t).to(Phase.NEW)]),
    # The later of two updates counts.
    Row("only", on=Call("only", i, j), do=[near(i, ANY).to(False), near(i, j).to(True)]),
    Row("all_but", on=Call("all_but", j, t),
        do=[lies(ANY, t).to(Phase.NEW), lies(j, t).to(Phase.OPEN)]),
    Row("save", on=Call("save", i, j), do=[
        each(k, held(k).to(False), where=near(i, k)), held(j).to(True)]),
    Row("end_but", on=Call("end_but", j, t), do=[
        phase(ANY, ANY).to(Phase.DONE), phase(j, ANY).to(Phase.OPEN), phase(j, t).to(Phase.NEW)]),
))
SYSTEM = System("desk", "Jobs on a desk.", tables=(TABLE,), properties=(),
                configurations={"default": Configuration({Job: 2, Tray: 2})})
