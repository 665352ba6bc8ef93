"""Effects of rows: moves along edges, attachments, devices, and messages that are sent again."""

from pdproto.check.lint import Severity
from pdproto.spec.language import (
    Call,
    Ignore,
    Machine,
    Message,
    Row,
    System,
    Table,
    Timer,
    each,
    forall,
    lose,
)
from tests.check.lint.bench import Bench, Mood, Page, network, page, remarks, the_remark, w


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
            "work waits for ask, which layer lossy can lose, and no fair row sends it again: "
            "add a timer's row that does, unless it may be lost for good"
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
