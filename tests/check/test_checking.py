"""Verdicts: what each kind of property says of small systems whose answer is plain."""

from dataclasses import replace

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import (
    FIRST_VIOLATION,
    NATIVE,
    PORTABLE,
    EngineChoice,
    SearchLimits,
)
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.cli.systems import load
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import (
    Always,
    Call,
    Completion,
    Configuration,
    Drains,
    Fairness,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
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
from pdproto.spec.language.properties import Property


class Client(Sort):
    """Somebody who asks."""


class Page(Sort):
    """Something to write into."""


class Phase(State):
    IDLE = auto()
    ASKED = auto()
    DONE = auto()


c, g, h = Client("c"), Page("g"), Page("h")
BOTH = (Fairness.TIMERS, Fairness.DETECTORS)


def verdicts(result: CheckResult) -> dict[str, str]:
    return {finding.name: str(finding.verdict) for finding in result.findings}


def finding(result: CheckResult, name: str) -> Finding:
    (found,) = [f for f in result.findings if f.name == name]
    return found


class Asking:
    """A client asks a server, over a network that may lose the question."""

    def __init__(self, *extra: Row, server_rows: tuple[Row, ...] | None = None) -> None:
        self.client = Machine("client", c)
        self.server = Machine("server")
        network = Machine("network", world=True)
        self.phase = self.client.function("phase", Phase)
        self.served = self.server.relation("served", Client)
        self.ask = Message("ask", c, sender=self.client, receiver=self.server)
        self.answer = Message("answer", c, sender=self.server, receiver=self.client)
        p = self.phase(c)
        self.begin = Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.ASKED,
                         send=[self.ask(c)])
        self.finish = Row("finish", on=self.answer(c), at=Phase.ASKED, to=Phase.DONE)
        self.serve = Row("serve", on=self.ask(c), do=[self.served(c).to(True)],
                         send=[self.answer(c)])
        self.again = Row("again", on=Timer("silence"), at=Phase.ASKED, send=[self.ask(c)])
        self.waits = LeadsTo("served_in_the_end", p == Phase.ASKED, p == Phase.DONE, under=BOTH)
        self.network = Table(network, rows=(lose(self.ask), lose(self.answer)))
        self.rows = (self.begin, self.finish, *extra)
        self.server_rows = (self.serve,) if server_rows is None else server_rows

    def system(self, *properties: Property) -> System:
        return System(
            "asking", "A client asks.",
            (Table(self.client, state=self.phase, rows=self.rows),
             Table(self.server, rows=self.server_rows)),
            properties,
            final=forall(c, self.phase(c).among(Phase.IDLE, Phase.DONE)),
            faults={"lossy": (self.network,)},
        )


def run(system: System, *faults: str, **sizes: int) -> CheckResult:
    by_name = {sort.__name__: sort for sort in system.sorts}
    return check(
        system,
        Configuration({by_name[name]: size for name, size in sizes.items()}, faults),
        CheckSettings(keep_going=True),
    )


def test_safety_and_witnesses() -> None:
    asking = Asking()
    p = asking.phase(c)
    result = run(asking.system(
        Always("served_before_done", implies(p == Phase.DONE, asking.served(c))),
        Always("never_done", p != Phase.DONE),
        Sometimes("done", p == Phase.DONE),
        Sometimes("served_twice", asking.served(c) & ~asking.served(c)),
    ), Client=2)
    assert verdicts(result) == {
        "served_before_done": "holds", "never_done": "violated",
        "done": "holds", "served_twice": "violated", "deadlock": "holds",
    }
    assert finding(result, "never_done").trace_length == 3
    assert finding(result, "done").trace_length == 3
    assert finding(result, "never_done").instance == "c=c0"


def test_an_implication_whose_premise_never_holds_is_said_to_be_vacuous() -> None:
    asking = Asking()
    impossible = asking.answer(c) & ~asking.ask(c)
    result = run(asking.system(Always("empty", implies(impossible, asking.served(c)))), Client=1)
    assert finding(result, "empty").verdict is Verdict.HOLDS
    assert finding(result, "empty").note == "vacuous: its premise never holds"


def test_without_a_resend_a_lost_message_is_never_made_good() -> None:
    """No run without loss fails; a lost question leaves the client waiting, stuck."""
    asking = Asking()
    assert verdicts(run(asking.system(asking.waits), Client=1))["served_in_the_end"] == "holds"
    lossy = run(asking.system(asking.waits), "lossy", Client=1)
    found = finding(lossy, "served_in_the_end")
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert found.trace.loop is None
    assert [step.row for step in found.trace.steps] == ["begin", "lose_ask"]
    assert {blocked.row for blocked in found.trace.blocked} == {"finish", "serve"}
    assert finding(lossy, "deadlock").verdict is Verdict.VIOLATED


def test_a_resend_timer_makes_it_good_unless_timers_are_not_to_be_relied_on() -> None:
    resending = Asking()
    resending.rows = (*resending.rows, resending.again)
    result = run(resending.system(replace(resending.waits, under=(Fairness.TIMERS,))), "lossy",
                 Client=1)
    assert verdicts(result)["served_in_the_end"] == "holds"
    relying = run(resending.system(replace(resending.waits, under=(Fairness.DETECTORS,))), "lossy",
                  Client=1)
    assert verdicts(relying)["served_in_the_end"] == "violated"
    without = run(resending.system(replace(resending.waits, under=(Fairness.NO_TIMERS,))), "lossy",
                  Client=1)
    assert verdicts(without)["served_in_the_end"] == "violated"


def test_consumed_deliveries_show_a_missing_answer() -> None:
    """The server answers only the first question; a set message would be answered for ever."""
    asking = Asking()
    p = asking.phase(c)
    deaf = Row("deaf", on=asking.ask(c), when=[~asking.served(c)],
               do=[asking.served(c).to(True)])
    later = Row("later", on=asking.ask(c), when=[asking.served(c)], send=[asking.answer(c)])
    asking.server_rows = (deaf, later)
    waits = LeadsTo("served_in_the_end", p == Phase.ASKED, p == Phase.DONE)
    again = replace(waits, under=(Fairness.TIMERS,))
    assert verdicts(run(asking.system(again), Client=1))["served_in_the_end"] == "holds"
    once = replace(waits, under=(Fairness.CONSUMED,))
    assert verdicts(run(asking.system(once), Client=1))["served_in_the_end"] == "violated"


def test_a_loop_is_shown_as_a_loop() -> None:
    """Two steps that undo each other: the goal is never reached, and nothing is stuck."""
    machine = Machine("pendulum")
    phase = machine.function("phase", Phase)
    table = Table(machine, state=phase, rows=(
        Row("tick", at=Phase.IDLE, to=Phase.ASKED), Row("tock", at=Phase.ASKED, to=Phase.IDLE),
    ))
    result = run(System("pendulum", "", (table,), (Drains("rests", phase() == Phase.DONE),)))
    found = finding(result, "rests")
    assert found.trace is not None
    assert found.trace.loop == 0
    assert [step.row for step in found.trace.steps] == ["tick", "tock"]


def test_a_property_on_a_row_speaks_of_the_moment_it_can_fire() -> None:
    writer = Machine("writer")
    owned = writer.relation("owned", Page)
    written = writer.relation("written", Page)
    rows = (
        Row("take", on=Call("take"), choose=(g,), do=[owned(g).to(True)]),
        Row("give", on=Call("give"), choose=(g,), do=[owned(g).to(False)]),
        Row("land", on=Completion("landed", g), do=[written(g).to(True)]),
    )
    careful = replace(rows[2], when=[owned(g)])
    claim = OnRow("only_into_owned_pages", "land", owned(g))
    loose = System("pages", "", (Table(writer, rows=rows),), (claim,))
    tight = System("pages", "", (Table(writer, rows=(*rows[:2], careful)),), (claim,))
    assert verdicts(run(loose, Page=2))["only_into_owned_pages"] == "violated"
    assert verdicts(run(tight, Page=2))["only_into_owned_pages"] == "holds"


def test_declared_edges_are_kept_or_the_move_is_named() -> None:
    machine = Machine("machine")
    phase = machine.function("phase", Phase, edges={Phase.IDLE: (Phase.ASKED,)})
    rows = (Row("ask", at=Phase.IDLE, to=Phase.ASKED), Row("skip", at=Phase.ASKED, to=Phase.DONE))
    result = run(System("moving", "", (Table(machine, state=phase, rows=rows),)))
    found = finding(result, "phase_edges")
    assert (str(found.verdict), found.trace_length) == ("violated", 1)
    assert found.instance == "skip(): phase goes from asked to done"


def test_carried_values_stay_as_they_were_sent() -> None:
    sender = Machine("sender", c)
    receiver = Machine("receiver", h)
    chosen = sender.relation("chosen", Page)
    taken = receiver.relation("taken", Page)
    listing = Message("listing", c, h, sender=sender, receiver=receiver, carries=(chosen,))
    publish = Row("publish", on=Call("publish"), choose=(h,), send=[listing(c, h)])
    late = Row("choose", on=Call("choose"), choose=(g,), do=[chosen(c, g).to(True)])
    early = replace(late, when=[forall(h, ~listing(c, h))])
    take = Row("take", on=listing(c, h), choose=(g,), when=[chosen(c, g)],
               do=[taken(h, g).to(True)])
    for row, verdict in ((late, "violated"), (early, "holds")):
        tables = (Table(sender, rows=(publish, row)), Table(receiver, rows=(take,)))
        result = run(System("listing", "", tables), Client=1, Page=2)
        assert verdicts(result)["listing_carries"] == verdict


def test_a_reject_row_that_can_fire_is_a_violation() -> None:
    asking = Asking()
    twice = Reject(asking.ask(c), when=[asking.served(c)], why="asked and served already")
    asking.server_rows = (asking.serve, twice)
    result = run(asking.system(), Client=1)
    found = finding(result, "no_peer_is_at_fault")
    assert (str(found.verdict), found.instance) == ("violated", "reject_ask(c0)")


def test_a_row_that_sends_unasked_for_ever_is_a_violation() -> None:
    """A process fires it as soon as it can; what waits for a clock, or for somebody, is paced."""
    asking = Asking()
    nag = Row("nag", at=Phase.ASKED, send=[asking.ask(c)])

    def said(row: Row) -> str | None:
        asking.rows = (asking.begin, asking.finish, row)
        return verdicts(run(asking.system(), Client=1)).get("no_row_is_busy")

    assert said(nag) == "violated"
    assert said(replace(nag, at=Phase.IDLE, to=Phase.IDLE)) == "violated"
    assert said(replace(nag, when=[~asking.ask(c)])) == "holds"
    assert said(replace(nag, to=Phase.DONE)) == "holds"
    assert said(replace(nag, on=Timer("silence"))) is None
    assert said(replace(nag, send=[], do=[asking.phase(c).to(Phase.ASKED)])) is None


def test_a_row_that_sends_to_nobody_keeps_nobody_busy() -> None:
    asking = Asking()
    call = Row("call", send=[each(c, asking.answer(c), where=~c.same(c))])
    asking.server_rows = (asking.serve, call)
    assert verdicts(run(asking.system(), Client=1))["no_row_is_busy"] == "holds"


def test_every_topology_is_explored_and_the_bad_one_named() -> None:
    """Clients that are connected are served; the relation is free, so some client is not."""
    server = Machine("server", c)
    done = server.function("done", Phase)
    linked = Rigid("linked", c, g)
    rows = (Row("go", at=Phase.IDLE, to=Phase.DONE, when=[exists(g, linked(c, g))]),)
    system = System("linking", "", (Table(server, state=done, rows=rows),), (
        Always("never_done", done(c) != Phase.DONE), Sometimes("done", done(c) == Phase.DONE),
    ), final=forall(c, done(c) == Phase.DONE))
    result = run(system, Client=1, Page=1)
    assert (result.states, result.depth) == (1 + 2, 1)
    assert finding(result, "never_done").instance == "c=c0, where linked(c0, p0)"
    assert finding(result, "done").verdict is Verdict.HOLDS
    assert finding(result, "deadlock").instance == "where nothing is related"


def test_the_run_is_the_shortest_of_all_topologies() -> None:
    """Without a link, which is tried first, a client is stuck after one step; with one, at once."""
    server = Machine("server", c)
    done = server.function("done", Phase)
    linked = Rigid("linked", c, g)
    rows = (Row("go", at=Phase.IDLE, to=Phase.DONE, when=[forall(g, ~linked(c, g))]),)
    result = run(System("linking", "", (Table(server, state=done, rows=rows),)), Client=1, Page=1)
    assert finding(result, "deadlock").trace_length == 0
    assert finding(result, "deadlock").instance == "where linked(c0, p0)"


def test_a_run_under_another_network_says_what_holds_in_its_states() -> None:
    """Where deliveries are counted, a state has other bits than in the search for the safety."""
    server, client = Machine("server"), Machine("client", c)
    phase = client.function("phase", Phase)
    tell = Message("tell", sender=server, receiver=client)
    system = System("telling", "", (
        Table(server, rows=(Row("say", on=Call("say"), send=[tell()]),)),
        Table(client, state=phase, rows=(
            Row("hear", on=tell(), at=Phase.IDLE, to=Phase.ASKED),
            Row("hear_again", on=tell(), at=Phase.ASKED, to=Phase.DONE),
        )),
    ), (
        Always("never_asked", phase(c) != Phase.ASKED),
        Always("never_done", phase(c) != Phase.DONE),
        LeadsTo("ends", phase(c) == Phase.ASKED, phase(c) == Phase.DONE, under=Fairness.CONSUMED),
    ))
    trace = finding(run(system, Client=2), "ends").trace
    assert trace is not None
    assert [step.row for step in trace.steps] == ["say", "hear", "hear"]
    assert [step.holds["never_asked"] for step in trace.steps] == [True, False, False]
    assert [step.holds["never_done"] for step in trace.steps] == [True, True, True]


def test_the_search_ends_with_the_level_of_the_first_violation() -> None:
    asking = Asking()
    system = asking.system(Always("never_asked", asking.phase(c) != Phase.ASKED))
    result = check(system, Configuration({Client: 3}), CheckSettings())
    assert result.stopped == FIRST_VIOLATION
    assert not result.complete
    assert finding(result, "deadlock").verdict is Verdict.UNKNOWN
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (SearchLimits(states_max=100), "limit of 100 states"),
        (SearchLimits(bytes_max=1), "GiB was reached"),
    ],
)
def test_limits_end_in_an_honest_partial_answer(limits: SearchLimits, reason: str) -> None:
    result = check(load("two-phase-commit"), Configuration({Participant: 7}),
                   CheckSettings(limits=limits))
    assert reason in result.stopped
    assert not result.complete
    assert result.verdict is Verdict.UNKNOWN
    assert "committed" in result.rows_never_fired  # nobody has come so far yet
    assert finding(result, "agreement").assurance == "not decided"


@pytest.mark.parametrize("engine", [NATIVE, PORTABLE])
def test_a_limit_of_states_is_looked_at_inside_a_level(engine: EngineChoice) -> None:
    """A level that begins below the limit has several times as many states."""
    limit = 20_000
    settings = CheckSettings(limits=SearchLimits(states_max=limit), engine=engine)
    result = check(load("two-phase-commit"), Configuration({Participant: 9}), settings)
    assert result.stopped == "the limit of 20,000 states was reached"
    assert limit <= result.states < 1.1 * limit


def test_rows_that_never_fire_are_named() -> None:
    asking = Asking()
    never = Row("never", at=Phase.DONE, when=[~asking.ask(c)], to=Phase.IDLE)
    asking.rows = (*asking.rows, never)
    assert run(asking.system(), Client=2).rows_never_fired == ("never",)


def test_only_the_properties_asked_for_are_judged() -> None:
    result = check(load("two-phase-commit"), Configuration({Participant: 3}),
                   CheckSettings(properties=("agreement",)))
    assert [f.name for f in result.findings] == ["agreement"]


def test_a_spec_without_states_is_one_state() -> None:
    nothing = Machine("nothing")
    result = run(System("empty", "", (Table(nothing, rows=()),)))
    assert (result.states, result.transitions, result.depth) == (1, 0, 0)
    assert finding(result, "deadlock").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("states", [3, 20, 1_000])
@pytest.mark.parametrize("name", ["lock-server", "lock-server-broken"])
def test_an_assurance_claims_its_verdict_alone(name: str, states: int) -> None:
    system = load(name)
    result = check(system, system.configurations["default"],
                   CheckSettings(limits=SearchLimits(states_max=states), keep_going=True))
    for found in result.findings:
        whole = "exhaustive" if result.complete else "seen"
        word = {Verdict.VIOLATED: "refuted", Verdict.UNKNOWN: "not decided",
                Verdict.HOLDS: whole}[found.verdict]
        assert found.assurance.startswith(word), found
        assert found.kind is PropertyKind.SOMETIMES or word != "seen"
