"""Which messages, completions, calls and timers a machine answers, in which states."""

from pdproto.check.lint import Severity
from pdproto.spec.examples import ring_election, two_phase_commit
from pdproto.spec.language import (
    Call,
    Completion,
    DropRow,
    Ignore,
    Machine,
    Message,
    Reject,
    ReplaceProperties,
    Row,
    System,
    Table,
    Timer,
    each,
    edited,
    forall,
)
from tests.check.lint.bench import Bench, Mood, Page, other, page, remarks, the_remark, v, w


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

    def test_a_call_at_any_time_counts_like_a_message(self) -> None:
        bench = Bench()
        rows = (bench.asking, bench.hearing, bench.ignoring)
        stop = Call("stop", any_time=True)
        stops = Row("stop", on=stop, at=Mood.BUSY, to=Mood.DONE)
        remark = the_remark(bench.system((*rows, stops), (bench.working,)), "totality")
        assert remark.severity is Severity.ERROR
        assert remark.message == "boss in idle or done has no row for call stop"
        ended = Ignore(stop, at=(Mood.IDLE, Mood.DONE), why="there is nothing to stop")
        assert remarks(bench.system((*rows, stops, ended), (bench.working,)), "totality") == []

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
