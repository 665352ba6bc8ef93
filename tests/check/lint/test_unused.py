"""What a system declares and does not use, and rows and properties about nothing."""

from pdproto.check.lint import Severity
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    LeadsTo,
    Machine,
    OnRow,
    Reject,
    Rigid,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    all_of,
    each,
    implies,
)
from pdproto.spec.language.properties import Property
from tests.check.lint.bench import (
    Bench,
    Level,
    Mood,
    Page,
    Worker,
    network,
    other,
    page,
    remarks,
    the_remark,
    w,
)


class TestUnused:
    def unused(self, system: System) -> list[str]:
        return [remark.message for remark in remarks(system, "unused")]

    def test_a_clean_system(self) -> None:
        bench = Bench()
        rows = (bench.asking, bench.hearing, bench.ignoring)
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        assert self.unused(bench.system(rows, (bench.working, finish))) == []

    def test_variables_and_values(self) -> None:
        bench = Bench()
        bench.boss.relation("unwritten")
        unread = bench.boss.relation("unread")
        bench.worker.function("spare", Mood)
        note = Row("note", on=Call("note"), do=[unread().to(True)])
        rows = (bench.asking, bench.hearing, bench.ignoring, note)
        finish = Row("finish", at=Mood.DONE, to=Mood.BUSY)
        system = bench.system(rows, (bench.working, finish))
        assert sorted(self.unused(system)) == [
            "mood is never set to done",
            "no row and no property reads spare",
            "no row and no property reads unread",
            "no row and no property reads unwritten",
            "no row writes spare",
            "no row writes unwritten",
        ]

    def test_a_value_that_is_not_even_tested(self) -> None:
        bench = Bench()
        read = Row("rest", at=Mood.BUSY, to=Mood.IDLE)
        rows = (bench.asking, bench.hearing, bench.ignoring)
        system = bench.system(rows, (bench.working, read))
        assert self.unused(system) == ["mood is never set to done, and never tested"]

    def test_a_message_that_nobody_sends(self) -> None:
        bench = Bench()
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        system = bench.system(
            (bench.hearing, bench.ignoring, Row("begin", to=Mood.BUSY)), (bench.working, finish)
        )
        assert self.unused(system) == ["no row sends ask"]

    def test_a_message_that_the_world_puts_on_the_network_is_sent(self) -> None:
        bench = Bench()
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        forge = Row("forge", choose=(w,), do=[bench.ask(w).to(True)], why="a stranger")
        system = bench.system(
            (bench.hearing, bench.ignoring, Row("begin", to=Mood.BUSY)),
            (bench.working, finish),
            faults={"strangers": (Table(network, rows=(forge,)),)},
        )
        assert self.unused(system) == []

    def test_rigid_symbols_sorts_choices_and_layers(self) -> None:
        clerk = Machine("clerk")
        seen = clerk.relation("seen", Page)
        near = Rigid("near", page, other)
        see = Row(
            "see", on=Call("see"), choose=(page, w), when=~seen(page), do=[seen(page).to(True)]
        )
        idle = Table(network, rows=(Row("nothing", why="it is a quiet day"),))
        system = System(
            "clerk",
            "",
            (Table(clerk, rows=(see,)),),
            faults={"quiet": (idle,), "empty": ()},
            axioms={"near": ~near(page, page)},
            configurations={"default": Configuration({Page: 2, Worker: 1, Level: 2})},
        )
        assert sorted(self.unused(system)) == [
            "configuration default gives a size to Level, an unused sort",
            "fault layer empty changes nothing",
            "fault layer quiet changes nothing",
            "only axioms mention near",
            "see chooses w and does not use it",
        ]

    def test_the_variable_of_each_is_used(self) -> None:
        bench = Bench()
        near = Rigid("near", page, w)
        begin = Row(
            "begin",
            on=Call("begin"),
            choose=(page,),
            at=Mood.IDLE,
            to=Mood.BUSY,
            send=[each(w, bench.ask(w), where=near(page, w))],
        )
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        system = bench.system((begin, bench.hearing, bench.ignoring), (bench.working, finish))
        assert self.unused(system) == []


class TestVacuity:
    def system(self, *properties: Property, rows: tuple[Row, ...] = ()) -> System:
        bench = Bench()
        boss = (bench.asking, bench.hearing, bench.ignoring, *rows)
        return bench.system(boss, (bench.working,), properties)

    def test_a_row_that_never_fires(self) -> None:
        bench = Bench()
        quit_ = Row("quit", at=Mood.BUSY, when=bench.plan() == Mood.DONE)
        boss = (bench.asking, bench.hearing, bench.ignoring)
        remark = the_remark(bench.system((*boss, quit_), (bench.working,)), "never-fires")
        assert remark.message == "quit can never fire"
        assert remark.place == quit_.place
        assert remarks(bench.system(boss, (bench.working,)), "never-fires") == []

    def test_a_row_behind_one_that_never_fires(self) -> None:
        bench = Bench()
        drop = Row("drop", on=bench.ask(w), at=Mood.DONE, to=Mood.IDLE)
        work = Row("work", on=bench.ask(w), at=(Mood.IDLE, Mood.BUSY), to=Mood.BUSY)
        boss = (bench.asking, bench.hearing, bench.ignoring)
        found = remarks(bench.system(boss, (work, drop)), "never-fires")
        assert [r.message for r in found] == [
            "hear can never fire",
            "ignore_answer_idle_done can never fire",
            "drop can never fire",
        ]

    def test_a_reject_should_never_fire(self) -> None:
        bench = Bench()
        refuse = Reject(bench.ask(w), at=Mood.DONE, why="it is over")
        boss = (bench.asking, bench.hearing, bench.ignoring)
        assert remarks(bench.system(boss, (bench.working, refuse)), "never-fires") == []

    def test_properties_about_nothing(self) -> None:
        bench = Bench()
        mood, plan = bench.mood, bench.plan
        boss = (bench.asking, bench.hearing, bench.ignoring)
        empty = (
            Always("a", implies(mood(w) == Mood.DONE, plan() == Mood.BUSY)),
            Sometimes("s", mood(w) == Mood.DONE),
            LeadsTo("p", mood(w) == Mood.DONE, plan() == Mood.DONE),
            LeadsTo("g", plan() == Mood.BUSY, mood(w) == Mood.DONE),
            OnRow("r", "drop", plan() == Mood.BUSY),
        )
        drop = Row("drop", at=Mood.DONE, to=Mood.IDLE)
        found = remarks(bench.system(boss, (bench.working, drop), empty), "vacuous")
        assert [remark.message for remark in found] == [
            "a: its premise never holds: mood(w) = done",
            "s: it can never be seen: mood(w) = done",
            "p: its premise never holds: mood(w) = done",
            "g: its goal can never hold: mood(w) = done",
            "r: drop can never fire",
        ]
        assert all(remark.severity is Severity.WARNING for remark in found)

    def test_properties_about_something(self) -> None:
        bench = Bench()
        mood, plan = bench.mood, bench.plan
        boss = (bench.asking, bench.hearing, bench.ignoring)
        full = (
            Always("a", implies(mood(w) == Mood.BUSY, plan() == Mood.BUSY)),
            Always("plain", plan() == Mood.BUSY),
            Sometimes("s", mood(w) == Mood.BUSY),
            LeadsTo("p", mood(w) == Mood.BUSY, plan() == Mood.DONE),
            OnRow("r", "work", plan() == Mood.BUSY),
        )
        assert remarks(bench.system(boss, (bench.working,), full), "vacuous") == []


class TestWitness:
    def test_an_always_without_a_sometimes(self) -> None:
        bench = Bench()
        boss = (bench.asking, bench.hearing, bench.ignoring)
        safe = Always("safe", bench.mood(w) != Mood.DONE)
        seen = Sometimes("seen", bench.mood(w) == Mood.BUSY)
        elsewhere = Sometimes("elsewhere", bench.plan() == Mood.BUSY)
        remark = the_remark(bench.system(boss, (bench.working,), (safe, elsewhere)), "witness")
        assert remark.severity is Severity.NOTE
        assert remark.message.startswith("safe has no `sometimes`")
        assert remarks(bench.system(boss, (bench.working,), (safe, seen)), "witness") == []


class TestInterpretations:
    def system(self, *, given: bool) -> System:
        clerk = Machine("clerk")
        seen = clerk.relation("seen", Page, Worker)
        near = Rigid("near", page, w, given=(lambda _: {(0, 0)}) if given else None)
        far = Rigid("far", page, w, given=(lambda _: {(0, 0)}) if given else None)
        see = Row(
            "see", on=Call("see"), choose=(page, w), when=near(page, w), do=[seen(page, w).to(True)]
        )
        look = Row("look", on=Call("look"), choose=(page, w), when=[far(page, w), seen(page, w)])
        return System("clerk", "", (Table(clerk, rows=(see, look)),))

    def test_a_row_that_fires_in_one_topology_fires(self) -> None:
        assert remarks(self.system(given=True), "never-fires") == []
        assert remarks(self.system(given=True), "incomplete") == []

    def test_a_row_is_not_called_impossible_before_all_states_were_seen(self) -> None:
        # Two relations over pairs have 256 interpretations, 76 of them different but for names.
        system = self.system(given=False)
        remark = the_remark(system, "incomplete")
        assert remark.message == "only 64 interpretations of the rigid symbols were examined"
        assert remarks(system, "never-fires") == []


class Moment(Sort, ordered=True):
    """A time."""


class Reply(Sort):
    """An answer."""


class Request(Sort):
    """A question."""


def clock() -> System:
    """A clock whose rows compare three moments."""
    machine = Machine("clock")
    now, seen = machine.function("now", Moment), machine.function("seen", Moment)
    t, u, v = Moment("t"), Moment("u"), Moment("v")
    order = [t.before(u), u.before(v)]
    return System("clock", "A clock.", tables=(Table(machine, rows=(
        Row("start", on=Call("start"), choose=(t, u), when=[now().unset, t.before(u)],
            do=[now().to(u), seen().to(t)]),
        Row("later", on=Call("later"), choose=(t, u, v), when=[*order, now() == u, seen() == t],
            do=now().to(v)),
        Row("never", on=Call("never"), choose=(t, u, v),
            when=[*order, now() == t, seen() == u, now() == v], do=now().to(v)),
    )),), properties=(
        Sometimes("two_passed", all_of(seen() == t, t.before(u), u.before(v), now() == v)),
        Sometimes("backwards", all_of(seen() == t, now() == u, u.before(v), v.before(u))),
    ))


def test_what_needs_three_elements_of_a_sort_is_possible() -> None:
    """Two moments are examined, and then as many as a row has variables for them."""
    system = clock()
    assert {one.message for one in remarks(system, "never-fires")} == {"never can never fire"}
    (told,) = remarks(system, "vacuous")
    assert told.message.startswith("backwards: it can never be seen")


def test_two_sorts_whose_elements_have_one_name() -> None:
    server = Machine("server")
    server.relation("asked", Request, Reply)
    same = System("rpc", "Answers.", tables=(Table(server),))
    assert the_remark(same, "names").message == (
        "elements of Request and Reply are both named r0: write class Reply(Sort, prefix=...)")
    assert the_remark(same, "names").severity is Severity.NOTE
    assert remarks(clock(), "names") == []
