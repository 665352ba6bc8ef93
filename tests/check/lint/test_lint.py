"""Every rule of lint: a tiny spec that breaks it once, and its repair that does not."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pdproto.check.lint import Remark, Severity, lint, small
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Purpose
from pdproto.spec.examples import ring_election, two_phase_commit
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Completion,
    Configuration,
    DropRow,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
    Rigid,
    Row,
    Sometimes,
    Sort,
    SpecError,
    State,
    System,
    Table,
    Timer,
    auto,
    each,
    edited,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.properties import Property
from tests.language import tiny


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


EXAMPLES = ("two-phase-commit", "lock-server", "lock-server-broken", "ring-election",
            "paxos")


def remarks(system: System, rule: str) -> list[Remark]:
    return [remark for remark in lint(system, small(system)) if remark.rule == rule]


def the_remark(system: System, rule: str) -> Remark:
    (remark,) = remarks(system, rule)
    assert remark.place.path.endswith(".py")
    assert remark.place.line > 0
    return remark


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_free_of_errors_and_warnings(name: str) -> None:
    system = load(name)
    found = lint(system, small(system))
    assert [remark for remark in found if remark.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("name", [
    entry.name for entry in CATALOGUE if entry.of_the_handoff or entry.purpose is Purpose.COMPARED])
def test_the_hand_over_is_free_of_errors(name: str) -> None:
    """Its warnings are races that are meant, and promises that only the explorer can see kept."""
    system = load(name)
    errors = {remark.rule for remark in lint(system, small(system))
              if remark.severity is Severity.ERROR}
    # A source may have forgotten a life or not, so that it has two answers on purpose.
    assert errors == ({"determinism"} if name == "transfer-forgetful" else set())


class TestTotality:
    def test_a_state_without_an_answer(self) -> None:
        bench = Bench()
        hole = bench.system((bench.asking, bench.hearing), (bench.working,))
        remark = the_remark(hole, "totality")
        assert remark.severity is Severity.ERROR
        assert remark.message == "boss in idle or done has no row for answer(w)"
        assert remark.place == hole.tables[0].place
        whole = bench.system((bench.asking, bench.hearing, bench.ignoring), (bench.working,))
        assert remarks(whole, "totality") == []

    def test_a_broadcast_needs_an_answer_too(self) -> None:
        without = edited(
            two_phase_commit.SYSTEM,
            "forgetful",
            DropRow("committed"),
            ReplaceProperties(()),
        )
        remark = the_remark(without, "totality")
        assert remark.message == "participant has no row for commit(), in any state"
        assert remark.place == two_phase_commit.commit.place

    def test_the_witness_names_the_instance_and_the_cells(self) -> None:
        bench = Bench()
        tired = bench.worker.relation("tired")
        work = Row("work", on=bench.ask(w), when=~tired(w), do=[tired(w).to(True)])
        rows = (bench.asking, bench.hearing, bench.ignoring)
        remark = the_remark(bench.system(rows, (work,)), "totality")
        assert remark.message == "worker in idle has no row for ask(w)"
        assert remark.witness == ("w = w0", "tired(w0)")
        assert str(remark).endswith(
            "error: totality: worker in idle has no row for ask(w) (where w = w0, tired(w0))"
        )

    def test_repeated_arguments_are_one_instance_of_several(self) -> None:
        without = edited(ring_election.SYSTEM, "open", DropRow("reject_propose_asleep_beaten"))
        remark = the_remark(without, "totality")
        assert remark.message == "node in asleep or beaten has no row for propose(n, m, k)"

    def test_a_clause_covers_what_a_case_distinction_covers(self) -> None:
        bench = Bench()
        tired, away = bench.worker.relation("tired"), bench.worker.relation("away")
        call = Row("tire", on=Call("tire"), do=[tired(w).to(True)])
        leave = Row("leave", on=Call("leave"), do=[away(w).to(True)])
        either = Row("work", on=bench.ask(w), when=tired(w) | away(w), send=[bench.answer(w)])
        neither = Ignore(bench.ask(w), when=[~tired(w), ~away(w)], why="too fresh")
        rows = (bench.asking, bench.hearing, bench.ignoring)
        assert remarks(bench.system(rows, (call, leave, either, neither)), "totality") == []
        remark = the_remark(bench.system(rows, (call, leave, either)), "totality")
        assert remark.message == "worker in idle has no row for ask(w)"
        assert remark.witness == ("w = w0", "not tired(w0)", "not away(w0)")

    def test_a_completion_counts_like_a_message(self) -> None:
        bench = Bench()
        wrote = Row("wrote", on=Completion("write", page), at=Mood.BUSY, to=Mood.DONE)
        rows = (bench.asking, bench.hearing, bench.ignoring)
        worker = (bench.working, wrote)
        remark = the_remark(bench.system(rows, worker), "totality")
        assert remark.message == "worker in idle or done has no row for completion write(page)"
        late = Reject(Completion("write", page), at=(Mood.IDLE, Mood.DONE), why="none is under way")
        assert remarks(bench.system(rows, (*worker, late)), "totality") == []

    def test_a_machine_without_a_state_variable(self) -> None:
        clerk, public = Machine("clerk"), Machine("public")
        closed = clerk.relation("closed")
        letter = Message("letter", w, sender=public, receiver=clerk)
        write = Row("write", on=Call("write", w), send=[letter(w)])
        close = Row("close", on=Call("close"), do=[closed().to(True)])
        take = Row("take", on=letter(w), when=~closed())
        tables = (Table(clerk, rows=(close, take)), Table(public, rows=(write,)))
        remark = the_remark(System("clerk", "", tables), "totality")
        assert remark.message == "clerk has no row for letter(w)"
        assert remark.witness == ("w = w0", "closed")

    def test_a_message_that_guards_read_needs_no_row(self) -> None:
        bench = Bench()
        all_in = Row("finish", at=Mood.BUSY, to=Mood.DONE, when=forall(v, bench.answer(v)))
        assert remarks(bench.system((bench.asking, all_in), (bench.working,)), "totality") == []

    def test_states_that_cannot_be_reached_need_no_answer(self) -> None:
        bench = Bench()
        hear = Row("hear", on=bench.answer(w), at=(Mood.IDLE, Mood.BUSY))
        assert remarks(bench.system((bench.asking, hear), (bench.working,)), "totality") == []


class TestOffer:
    def test_a_call_and_a_timer_are_noted_once_each(self) -> None:
        bench = Bench()
        tick = Row("tick", on=Timer("tick"), at=Mood.BUSY, send=[each(w, bench.ask(w))])
        rows = (bench.asking, tick, bench.hearing, bench.ignoring)
        found = remarks(bench.system(rows, (bench.working,)), "offer")
        assert [(remark.severity, remark.message) for remark in found] == [
            (Severity.NOTE, "call begin is not offered by boss in busy or done"),
            (Severity.NOTE, "timer tick is not offered by boss in idle or done"),
        ]

    def test_one_that_is_always_offered_is_not(self) -> None:
        bench = Bench()
        poke = Row("poke", on=Call("poke"), send=[each(w, bench.ask(w))])
        rows = (poke, bench.hearing, bench.ignoring)
        assert remarks(bench.system(rows, (bench.working,)), "offer") == []


class TestDeterminism:
    def test_two_answers_to_one_message(self) -> None:
        bench = Bench()
        twice = Row("hear_too", on=bench.answer(w), at=(Mood.BUSY, Mood.DONE), to=Mood.IDLE)
        idle = Ignore(bench.answer(w), at=Mood.IDLE, why="nothing is asked")
        rows = (bench.asking, bench.hearing, idle, twice)
        remark = the_remark(bench.system(rows, (bench.working,)), "determinism")
        assert remark.severity is Severity.ERROR
        assert remark.message == "hear and hear_too can both answer answer(w)"
        assert set(remark.witness) == {
            "hear(w0)", "hear_too(w0)", "plan = busy", "answer(w0)",
        }
        assert remark.place == twice.place

    def test_guards_that_exclude_each_other_are_no_overlap(self) -> None:
        bench = Bench()
        rows = (bench.asking, bench.hearing, bench.ignoring)
        assert remarks(bench.system(rows, (bench.working,)), "determinism") == []

    def test_two_ways_to_ignore_are_a_warning(self) -> None:
        bench = Bench()
        again = Ignore(bench.answer(w), at=Mood.DONE, why="it is over")
        rows = (bench.asking, bench.hearing, bench.ignoring, again)
        remark = the_remark(bench.system(rows, (bench.working,)), "determinism")
        assert remark.severity is Severity.WARNING

    def test_a_choice_is_the_callers(self) -> None:
        bench = Bench()
        taken = bench.worker.relation("taken", Page)
        take = Row(
            "take",
            on=Call("take"),
            choose=(page,),
            when=~taken(w, page),
            do=[taken(w, page).to(True)],
        )
        give = Row("give", on=Call("take"), choose=(page,), when=taken(w, page))
        rows = (bench.asking, bench.hearing, bench.ignoring)
        assert remarks(bench.system(rows, (bench.working, take, give)), "determinism") == []
        free = Row("give", on=Call("take"), choose=(other,), when=taken(w, other))
        remark = the_remark(bench.system(rows, (bench.working, take, free)), "determinism")
        assert remark.message == "take and give can both answer call take"

    def test_steps_whose_order_matters_are_a_warning(self) -> None:
        bench = Bench()
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        reset = Row("reset", at=Mood.BUSY, to=Mood.IDLE)
        rows = (bench.asking, bench.hearing, bench.ignoring, finish)
        assert remarks(bench.system(rows, (bench.working,)), "determinism") == []
        remark = the_remark(bench.system((*rows, reset), (bench.working,)), "determinism")
        assert remark.severity is Severity.WARNING
        assert remark.message == "finish and reset can both fire, and their order matters"

    def test_a_step_that_takes_another_steps_guard_away(self) -> None:
        bench = Bench()
        noted, told = bench.boss.relation("noted"), bench.boss.relation("told")
        finish = Row("finish", at=Mood.BUSY, to=Mood.DONE)
        note = Row("note", at=Mood.BUSY, do=[noted().to(True)])
        tell = Row("tell", when=~told(), do=[told().to(True)])
        rows = (bench.asking, bench.hearing, bench.ignoring, finish)
        late = remarks(bench.system((*rows, note), (bench.working,)), "determinism")
        assert [r.message for r in late] == [
            "finish and note can both fire, and their order matters"
        ]
        assert remarks(bench.system((*rows, tell), (bench.working,)), "determinism") == []

    def test_a_fault_does_not_compete_with_the_protocol(self) -> None:
        bench = Bench()
        crash = Row("crash", on=bench.ask(w), to=Mood.DONE)
        rows = (bench.asking, bench.hearing, bench.ignoring)
        faults = {"crash": (Table(bench.worker, state=bench.mood, rows=(crash,)),)}
        system = bench.system(rows, (bench.working,), faults=faults)
        assert remarks(system, "determinism") == []


class TestEdges:
    def lamp(self, at: Mood | tuple[Mood, ...]) -> System:
        lamp = Machine("lamp", w)
        light = lamp.function(
            "light", Mood, edges={Mood.IDLE: (Mood.BUSY,), Mood.BUSY: (Mood.DONE,)}
        )
        rows = (
            Row("on", on=Call("on"), at=Mood.IDLE, to=Mood.BUSY),
            Row("off", on=Call("off"), at=at, to=Mood.DONE),
        )
        return System("lamp", "", (Table(lamp, state=light, rows=rows),))

    def test_a_move_that_the_guard_does_not_exclude(self) -> None:
        remark = the_remark(self.lamp((Mood.IDLE, Mood.BUSY)), "edges")
        assert remark.severity is Severity.ERROR
        assert remark.message == "off does not exclude that light(w0) goes from idle to done"
        assert remark.witness == ("light(w0) = idle",)

    def test_a_guard_that_excludes_it(self) -> None:
        assert remarks(self.lamp(Mood.BUSY), "edges") == []


class TestAttachments:
    def letters(self, *, careful: bool, posted: bool = True) -> System:
        scribe, reader = Machine("scribe"), Machine("reader")
        page_list = scribe.relation("page_list", Page)
        letter = Message("letter", sender=scribe, receiver=reader, carries=(page_list,))
        write = Row(
            "write",
            on=Call("write"),
            choose=(page,),
            do=[page_list(page).to(True)],
            when=[~letter()] if careful else [],
        )
        send = Row("post", on=Call("post"), send=[letter()] if posted else [])
        read = Row("read", on=letter(), choose=(page,), when=page_list(page))
        none = Ignore(letter(), when=forall(page, ~page_list(page)), why="it is empty")
        return System(
            "letters", "", (Table(scribe, rows=(write, send)), Table(reader, rows=(read, none)))
        )

    def test_a_late_write(self) -> None:
        remark = the_remark(self.letters(careful=False), "carries")
        assert remark.severity is Severity.WARNING
        assert remark.message == (
            "no guard excludes that write(p0) writes page_list(p0) after letter was sent"
        )

    def test_one_that_reads_its_own_sent_bit_first(self) -> None:
        assert remarks(self.letters(careful=True), "carries") == []

    def test_a_row_on_a_message_that_is_never_sent(self) -> None:
        assert remarks(self.letters(careful=False, posted=False), "carries") == []


class TestDevices:
    def device(self, *, busy: bool) -> System:
        owner, engine = Machine("owner", w), Machine("engine", w)
        copy = owner.function("copy", Mood)
        copy.shared_with(engine, writes=(Mood.DONE,))
        start = Row("start", on=Call("start"), at=Mood.IDLE, to=Mood.BUSY)
        finish = Row("finish", when=copy(w) == Mood.BUSY, do=[copy(w).to(Mood.DONE)])
        tables = (
            Table(owner, state=copy, rows=(start,)),
            Table(engine, rows=(finish,) if busy else ()),
        )
        return System("device", "", tables)

    def test_a_value_that_the_engine_never_writes(self) -> None:
        remark = the_remark(self.device(busy=False), "device")
        assert remark.message == "engine never writes copy := done"
        assert remarks(self.device(busy=False), "unused") == []

    def test_one_that_it_writes(self) -> None:
        assert remarks(self.device(busy=True), "device") == []


class TestResend:
    def system(self, *again: Row, reliable: bool = False, lossy: bool = True) -> System:
        bench = Bench(reliable=reliable)
        rows = tuple(
            Row(r.name, on=r.on, at=Mood.BUSY, send=[each(w, bench.ask(w))], fair=r.fair)
            for r in again
        )
        faults = {"lossy": (Table(network, rows=(lose(bench.ask),)),)} if lossy else None
        boss = (bench.asking, bench.hearing, bench.ignoring, *rows)
        return bench.system(boss, (bench.working,), faults=faults)

    def test_a_lost_message_that_nobody_repeats(self) -> None:
        remark = the_remark(self.system(), "resend")
        assert remark.severity is Severity.WARNING
        assert remark.message == (
            "work waits for ask, which layer lossy can lose, and no fair row sends it again"
        )

    def test_a_call_is_not_fair(self) -> None:
        assert len(remarks(self.system(Row("again", on=Call("again"))), "resend")) == 1
        assert remarks(self.system(Row("again", on=Call("again"), fair=True)), "resend") == []

    def test_a_timer_a_transport_or_a_safe_network_will_do(self) -> None:
        assert remarks(self.system(Row("again", on=Timer("slow"))), "resend") == []
        assert remarks(self.system(reliable=True), "resend") == []
        assert remarks(self.system(lossy=False), "resend") == []

    def test_nobody_waits_for_a_message_that_is_ignored(self) -> None:
        bench = Bench()
        faults = {"lossy": (Table(network, rows=(lose(bench.answer),)),)}
        once = Row("work", on=bench.ask(w), at=Mood.IDLE, to=Mood.BUSY, send=[bench.answer(w)])
        more = Ignore(bench.ask(w), at=Mood.BUSY, why="it has been done")
        deaf = Ignore(bench.answer(w), why="nobody cares")
        system = bench.system((bench.asking, deaf), (once, more), faults=faults)
        assert remarks(system, "resend") == []
        boss = (bench.asking, bench.hearing, bench.ignoring)
        assert len(remarks(bench.system(boss, (once, more), faults=faults), "resend")) == 1

    def test_other_faults_lose_nothing(self) -> None:
        bench = Bench()
        strike = Row("strike", choose=(w,), do=[bench.mood(w).to(Mood.DONE)])
        faults = {"strike": (Table(network, rows=(strike,)),)}
        boss = (bench.asking, bench.hearing, bench.ignoring)
        assert remarks(bench.system(boss, (bench.working,), faults=faults), "resend") == []

    def test_a_row_that_can_fire_once_only_repeats_nothing(self) -> None:
        bench = Bench()
        begin = Row(
            "begin", on=Timer("start"), at=Mood.IDLE, to=Mood.BUSY, send=[each(w, bench.ask(w))]
        )
        faults = {"lossy": (Table(network, rows=(lose(bench.ask),)),)}
        boss = (begin, bench.hearing, bench.ignoring)
        system = bench.system(boss, (bench.working,), faults=faults)
        assert len(remarks(system, "resend")) == 1

    def test_an_echo_is_worth_as_much_as_what_it_answers(self) -> None:
        bench = Bench()
        faults = {"lossy": (Table(network, rows=(lose(bench.ask), lose(bench.answer))),)}
        boss = (bench.asking, bench.hearing, bench.ignoring)
        system = bench.system(boss, (bench.working,), faults=faults)
        found = [remark.message for remark in remarks(system, "resend")]
        assert [message.split(", ")[0] for message in found] == [
            "work waits for ask",
            "hear waits for answer",
        ]
        again = Row("again", on=Timer("slow"), at=Mood.BUSY, send=[each(w, bench.ask(w))])
        system = bench.system((*boss, again), (bench.working,), faults=faults)
        assert remarks(system, "resend") == []


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


def test_sizes_are_two_or_what_some_configuration_has() -> None:
    system = ring_election.SYSTEM
    assert set(small(system).sizes.values()) == {2}
    assert set(small(system, 1).sizes.values()) == {1}
    bench = Bench()
    boss = (bench.asking, bench.hearing, bench.ignoring)
    assert small(bench.system(boss, (bench.working,))).sizes == {Worker: 2}


def test_bulk_updates_are_written_cell_by_cell() -> None:
    bench = Bench()
    seen = bench.worker.relation("seen", Page)
    see = Row("see", on=Call("see"), choose=(page,), do=[seen(w, ANY).to(True)], when=seen(w, page))
    boss = (bench.asking, bench.hearing, bench.ignoring)
    found = remarks(bench.system(boss, (bench.working, see)), "never-fires")
    assert [remark.message for remark in found] == ["see can never fire"]


def test_errors_come_first() -> None:
    bench = Bench()
    system = bench.system((bench.asking, bench.hearing), (bench.working,))
    severities = [remark.severity for remark in lint(system, small(system))]
    assert severities == sorted(severities, key=list(Severity).index)
    assert severities[0] is Severity.ERROR


def test_a_symbol_of_an_absent_machine_is_refused_at_declaration() -> None:
    bench = Bench()
    table = Table(bench.worker, state=bench.mood, rows=(bench.working,))
    with pytest.raises(SpecError, match="'work': ask belongs to no machine of the system"):
        System("half", "Workers without their boss.", (table,))


class TestVerb:
    def test_a_clean_system(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "two-phase-commit"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1] == "two-phase-commit: 3 notes"
        assert "note: offer: call prepare is not offered by participant in" in lines[0]

    def test_errors_set_the_exit_status(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bench = Bench()
        system = bench.system((bench.asking, bench.hearing), (bench.working,))
        monkeypatch.setattr("pdproto.cli.lint.load_with_module", lambda _: (system, tiny))
        assert main(["lint", "bench"]) == 1
        out = capsys.readouterr().out
        assert out.startswith(f"{system.tables[0].place}: error: totality: boss in idle or done")
        assert out.endswith("bench: 1 error, 2 warnings, 1 note\n")

    def test_nothing_to_remark(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        system = System("nothing", "", (Table(Machine("idle")),))
        monkeypatch.setattr("pdproto.cli.lint.load_with_module", lambda _: (system, tiny))
        assert main(["lint", "nothing"]) == 0
        assert capsys.readouterr().out == "nothing: nothing to remark\n"

    def test_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lint", "two-phase-commit", "--elements", "3", "--json", "-"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["system"] == "two-phase-commit"
        assert printed["sizes"] == {"Participant": 3}
        assert printed["remarks"][0] == {
            "rule": "offer",
            "severity": "note",
            "message": "call prepare is not offered by participant in prepared, committed or "
            "aborted",
            "place": {
                "path": two_phase_commit.PARTICIPANT.rows[0].place.path,
                "line": two_phase_commit.PARTICIPANT.rows[0].place.line,
            },
            "witness": [],
        }
        target = tmp_path / "remarks.json"
        assert main(["lint", "two-phase-commit", "--json", str(target)]) == 0
        assert len(json.loads(target.read_text(encoding="utf-8"))["remarks"]) == 3
        assert "3 notes" in capsys.readouterr().out
