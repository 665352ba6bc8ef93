"""A proved ranking holds in every fair run, and a wrong reason is noticed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings

from pdproto.check.interpret import Interpreter
from pdproto.check.prove.assurance import recall, remember
from pdproto.check.prove.cutoff import decide
from pdproto.check.prove.fair_rows import proved_under
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import MONOTONE, Claim, Obligation, claims, obligations
from pdproto.check.prove.proving import ENGINES, ProofSettings, prove
from pdproto.check.prove.ranking import ranking_obligations
from pdproto.check.prove.settling import settling
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.spec.language import (
    TRUE,
    Call,
    Completion,
    Fairness,
    Formula,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Reject,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    Timer,
    auto,
    forall,
)
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness
from tests.check.fair import pending_for_ever
from tests.judging import judged, judges
from tests.prove import advancing
from tests.tiers import examples

LIMIT_S: Final = 30.0


class Job(Sort):
    """A task."""


class Turn(Sort, ordered=True):
    """When."""


class Work(State):
    WANTED = auto()
    BEGUN = auto()
    DONE = auto()


j, i, t = Job("j"), Job("i"), Turn("t")
EDGES: Final = {Work.WANTED: (Work.BEGUN, Work.DONE), Work.BEGUN: (Work.DONE,)}


@dataclass(frozen=True, slots=True)
class Shop:
    """Jobs that are begun, and done in their turn; the door opens and shuts."""

    system: System
    done: Formula
    open: Formula

    def status(self, *helpers: Help, monotone: Sequence[Monotone] = (),
               under: Sequence[Fairness] = (Fairness.TIMERS,)) -> dict[str, Status]:
        """The cut-off's verdict on every obligation of `done`."""
        claim = LeadsTo("done", TRUE, self.done, under=tuple(under))
        system = replace(self.system, properties=(claim,))
        return statuses(system, tuple(monotone), Ranking("done", helpers))


def statuses(
    system: System, monotone: tuple[Monotone, ...], ranking: Ranking
) -> dict[str, Status]:
    found = list(ranking_obligations(system, claims(system), monotone, (ranking,)))
    proof = prove(system, found, ProofSettings(timeout_s=LIMIT_S))
    return {o.name: proof.status(o) for o in found}


def shop(*rows: str, fair: bool | None = None) -> Shop:
    """A shop with these rows beside `begin` and `end`, which is all that is needed."""
    worker, door = Machine("worker", j), Machine("door")
    work = worker.function("work", Work, edges=EDGES)
    shut = door.relation("shut")
    seen = worker.relation("seen")
    nag = Message("nag", j, sender=worker, receiver=door)
    world = Machine("world", world=True)
    known = {
        "begin": Row("begin", choose=(j,), when=work(j) == Work.WANTED,
                     do=[work(j).to(Work.BEGUN)]),
        "end": Row("end", choose=(j,), when=work(j) == Work.BEGUN, do=[work(j).to(Work.DONE)],
                   fair=fair),
        "end_when_open": Row("end", choose=(j,), when=[work(j) == Work.BEGUN, ~shut()],
                             do=[work(j).to(Work.DONE)]),
        "end_late": Row("end", on=Timer("late"), choose=(j,), when=work(j) == Work.BEGUN,
                        do=[work(j).to(Work.DONE)]),
        "close": Row("close", on=Call("close"), when=~shut(), do=[shut().to(True)]),
        "open": Row("open", when=shut(), do=[shut().to(False)]),
        "nag": Row("nag", choose=(j,), when=work(j) == Work.BEGUN, send=[nag(j)]),
        "look": Row("look", choose=(j,), when=work(j) == Work.BEGUN, do=[seen(j).to(True)]),
        "forget": Row("forget", choose=(j,), when=seen(j), do=[seen(j).to(False)]),
    }
    table = Table(world, rows=tuple(known[name] for name in rows))
    others = (Table(worker, state=work), Table(door))
    return Shop(System("shop", "A shop.", (*others, table), final=TRUE),
                forall(j, work(j) == Work.DONE), ~shut())


def unproved(found: dict[str, Status]) -> set[str]:
    return {name for name, status in found.items() if status is not Status.PROVED}


def test_monotone_progress_reaches_the_goal() -> None:
    assert unproved(shop("begin", "end").status(Help("begin"), Help("end"))) == set()


def test_both_engines_agree() -> None:
    one = shop("begin", "end", "close", "open")
    system = replace(one.system, properties=(LeadsTo("done", TRUE, one.done),))
    ranking = Ranking("done", (Help("begin"), Help("end")))
    found = list(ranking_obligations(system, claims(system), (), (ranking,)))
    proof = prove(system, found, ProofSettings(engines=tuple(ENGINES), timeout_s=LIMIT_S))
    assert {proof.status(o) for o in found} == {Status.PROVED}


def test_a_state_without_a_helper_is_shown() -> None:
    """Without `begin` a wanted job is never begun."""
    one = shop("end")
    system = replace(one.system, properties=(LeadsTo("done", TRUE, one.done),))
    ranking = Ranking("done", (Help("begin"), Help("end")))
    (helped,) = [o for o in ranking_obligations(system, claims(system), (), (ranking,))
                 if o.claim.name == "done: helped"]
    assert helped.claim.why == "end can fire"
    found = counterexample(system, helped, LIMIT_S)
    assert found is not None
    assert found.sizes[Job] == 1
    assert found.trace.start == ()  # everything is as at the start: the job is wanted
    assert unproved(one.status(Help("begin"), Help("end"))) == {"done: helped at done pends"}


def test_a_row_that_is_not_fair_helps_nobody() -> None:
    found = shop("begin", "end", fair=False).status(Help("begin"), Help("end"))
    assert unproved(found) == {"done: helped at done pends"}


def test_a_safety_net_helps_only_where_it_is_counted_on() -> None:
    one = shop("begin", "end_late")
    helpers = Help("begin"), Help("end")
    assert unproved(one.status(*helpers)) == set()
    for spared in (Fairness.DETECTORS, Fairness.NO_TIMERS):
        assert unproved(one.status(*helpers, under=(Fairness.TIMERS, spared))) == {
            "done: helped at done pends"}


def test_a_row_that_moves_nothing_does_not_count() -> None:
    """A message that is there already, and a look that is forgotten, go on for ever."""
    one = shop("begin", "nag", "look", "forget")
    found = unproved(one.status(Help("begin"), Help("nag"), Help("look")))
    assert found == {"done: nag counts at nag", "done: look counts at look"}


def test_a_row_that_may_be_kept_from_firing_does_not_last() -> None:
    """The door is shut again and again, whenever the job could be ended."""
    one = shop("begin", "end_when_open", "close", "open")
    found = unproved(one.status(Help("begin"), Help("end"), Help("open")))
    assert found == {
        "done: end lasts at close", "done: open lasts at open", "done: open counts at open"}
    assert unproved(shop("begin", "end_when_open", "open").status(
        Help("begin"), Help("end"), Help("open"))) == set()


def lamps(*rows: str) -> System:
    """Lamps that are switched on and off without end; the claim is about one that is broken."""
    lamp, world = Machine("lamp", j), Machine("world", world=True)
    on, broken, seen = (lamp.relation(name) for name in ("on", "broken", "seen"))
    known = {
        "light": Row("light", choose=(j,), when=~on(j), do=[on(j).to(True)]),
        "put_out": Row("put_out", choose=(j,), when=on(j), do=[on(j).to(False)], fair=False),
        "break": Row("break", choose=(j,), when=~broken(j), do=[broken(j).to(True)], fair=False),
        "mend": Row("mend", choose=(j,), when=broken(j), do=[broken(j).to(False)]),
        "mend_unseen": Row("mend", choose=(j,), when=[broken(j), ~seen(j)],
                           do=[broken(j).to(False)]),
        "mend_another": Row("mend", choose=(j, i), when=[broken(j), i.differs(j)],
                            do=[broken(i).to(False)]),
        "replace": Row("replace", choose=(j,), when=broken(j), do=[broken(j).to(False)],
                       fair=False),
        "look": Row("look", choose=(j,), when=~seen(j), do=[seen(j).to(True)], fair=False),
        "look_away": Row("look_away", choose=(j,), when=seen(j), do=[seen(j).to(False)]),
    }
    claim = LeadsTo("mended", broken(j), ~broken(j), under=(Fairness.TIMERS,))
    return System("lamps", "", (Table(lamp), Table(world, rows=tuple(known[r] for r in rows))),
                  (claim,), final=TRUE)


@pytest.mark.parametrize(("rows", "left"), [
    (("light", "put_out", "break", "mend", "replace"), set()),
    (("break", "mend_unseen", "look", "look_away"),
     {"mended: helped at mended pends", "mended: mend lasts at look"}),
    (("break", "mend_another"), {"mended: helped at mended pends", "mended: mend counts at mend"}),
])
def test_a_wait_may_end_by_one_row_where_nothing_only_goes_forward(
    rows: tuple[str, ...], left: set[str]
) -> None:
    """A row that disables the helper, or is the helper, ends the wait: if not, it does not last, or
    does not count. Seen red where these two ask for no wait that goes on.
    """
    ranking = Ranking("mended", (Help("mend", ends=True),))
    assert unproved(statuses(lamps(*rows), (), ranking)) == left
    assert "mended: mend counts at mend" in unproved(
        statuses(lamps(*rows), (), Ranking("mended", (Help("mend"),))))


def test_a_row_that_ends_a_wait_is_of_the_elements_that_wait() -> None:
    other = Job("other")
    ranking = Ranking("mended", (Help("mend", at={j: other}, ends=True),),
                      witnesses=(Witness(other, TRUE),))
    with pytest.raises(SpecError, match="`ends` is of the variables of the property"):
        statuses(lamps("break", "mend"), (), ranking)


def test_a_predicate_that_turns_false_again_is_not_monotone() -> None:
    one = shop("begin", "end_when_open", "close", "open")
    monotone = (Monotone("opened", one.open),)
    found = one.status(Help("begin"), Help("end"), Help("open"), monotone=monotone)
    assert unproved(found) == {"opened is kept at close", "done: end lasts at close"}


def climbing() -> tuple[System, Monotone, Monotone]:
    """Two steps up: a worker on the second loses the first, and has to take it again."""
    climber = Machine("climber")
    low, high, over, slipped = (
        climber.relation(name) for name in ("low", "high", "over", "slipped"))
    table = Table(climber, rows=(
        Row("step", when=~low(), do=[low().to(True)]),
        Row("climb", when=[low(), ~high()], do=[high().to(True), low().to(False)]),
        Row("cross", when=[low(), high(), ~over()], do=[over().to(True)]),
        Row("slip", when=[high(), ~slipped()],
            do=[slipped().to(True), high().to(False), low().to(False)], fair=False),
    ))
    claim = LeadsTo("crosses", TRUE, over(), under=(Fairness.TIMERS,))
    system = System("climbing", "", (table,), (claim,), final=TRUE)
    return system, Monotone("is_high", high()), Monotone("is_low", low())


def test_a_predicate_may_turn_false_when_an_earlier_one_turns_true() -> None:
    """And as a symbol moves that can only go forward."""
    system, high, low = climbing()
    ranking = Ranking("crosses", (Help("step"), Help("climb"), Help("cross")))
    assert unproved(statuses(system, (high, low), ranking)) == set()
    assert unproved(statuses(system, (low, high), ranking)) == {"is_low is kept at climb"}


def test_a_property_with_a_false_monotone_predicate_is_not_proved(tmp_path: Path) -> None:
    system, high, low = climbing()
    ranking = Ranking("crosses", (Help("step"), Help("climb"), Help("cross")))
    for monotone, known in (((low, high), set()), ((high, low), {"crosses"})):
        one = ProofSubject(system, (), {}, monotone=monotone, rankings=(ranking,))
        proof = prove(system, one.obligations(), ProofSettings(timeout_s=LIMIT_S))
        remember(tmp_path, Verdicts(one, proof))
        assert recall(tmp_path, system).keys() & {"crosses"} == known


def test_an_obligation_that_a_fault_removes_was_not_met() -> None:
    """A fault removes the premise, and then no row need help; a ranking must not assume that."""
    worker, world = Machine("worker", j), Machine("world", world=True)
    work, asked = worker.function("work", Work, edges=EDGES), worker.relation("asked")
    row = Row("end", at=(Work.WANTED, Work.BEGUN), to=Work.DONE, when=asked(j))
    forget = Row("forget", choose=(j,), when=asked(j), do=[asked(j).to(False)])
    system = System(
        "forgetful", "", (Table(worker, state=work, rows=(row,)),),
        (LeadsTo("done", asked(j), work(j) == Work.DONE, under=(Fairness.TIMERS,)),),
        final=TRUE, faults={"loss": (Table(world, rows=(forget,)),)},
    )
    found = statuses(system, (), Ranking("done", (Help("end"),)))
    assert unproved(found) == {"done: owed until it is paid at forget"}


def test_a_symbol_may_be_monotone_by_itself() -> None:
    system = shop("begin", "end", "close", "open", "look", "nag").system
    assert {symbol.name for symbol in settling(system)} == {"work", "seen", "nag"}


def test_the_ranking_needs_a_first_element() -> None:
    """Turns are taken in order: in a finite order the first that is open can always be taken."""
    clerk = Machine("clerk")
    taken = clerk.relation("taken", Turn)
    earlier, every = Turn("earlier"), Turn("every")
    row = Row("take", choose=(t,), do=[taken(t).to(True)],
              when=[~taken(t), forall(earlier, ~earlier.before(t) | taken(earlier))])
    system = System("turns", "", (Table(clerk, rows=(row,)),),
                    (LeadsTo("all", TRUE, forall(every, taken(every)), under=(Fairness.TIMERS,)),),
                    final=TRUE)
    ranking = Ranking("all", (Help("take"),))
    next_turn = Turn("next_turn")
    told = replace(ranking, witnesses=(Witness(next_turn, ~taken(next_turn)),))
    assert unproved(statuses(system, (), told)) == set()
    assert unproved(statuses(system, (), ranking)) == {"all: helped at all pends"}


def test_a_ranking_may_use_that_a_row_never_fires() -> None:
    """A job that is asked for is taken up, because its rejection cannot happen."""
    clerk = Machine("clerk")
    asked, allowed, taken = (clerk.relation(name, Job) for name in ("asked", "allowed", "taken"))
    rows = (
        Row("ask", on=Call("ask", j), when=~asked(j),
            do=[asked(j).to(True), allowed(j).to(True)]),
        Row("take", choose=(j,), when=[asked(j), allowed(j), ~taken(j)], do=[taken(j).to(True)]),
        Reject(Completion("look", j), when=[asked(j), ~allowed(j)], why="both come at once"),
        Ignore(Completion("look", j), when=~asked(j) | allowed(j), why="all is well"),
    )
    system = System("clerk", "", (Table(clerk, rows=rows),),
                    (LeadsTo("taken", asked(j), taken(j), under=(Fairness.TIMERS,)),), final=TRUE)
    ranking = Ranking("taken", (Help("take"),))
    told = replace(ranking, using=(Use("reject_look", {j: j}),))
    assert unproved(statuses(system, (), told)) == set()
    assert unproved(statuses(system, (), ranking)) == {"taken: helped at taken pends"}
    wrong = replace(told, using=(Use("ignore_look", {j: j}),))
    with pytest.raises(SpecError, match="no claim 'ignore_look' to use"):
        statuses(system, (), wrong)


def test_a_malformed_ranking_is_refused() -> None:
    one = shop("begin", "end")
    with pytest.raises(SpecError, match="no leads_to 'other'"):
        statuses(one.system, (), Ranking("other", ()))
    with pytest.raises(SpecError, match="end has no parameter i"):
        one.status(Help("end", i.same(j)))
    with pytest.raises(SpecError, match="end at i: no such witness"):
        one.status(Help("end", at={j: i}))
    claim = LeadsTo("done", TRUE, one.done, under=(Fairness.TIMERS,))
    system = replace(one.system, properties=(claim,))
    with pytest.raises(SpecError, match="no claim 'other' to use"):
        statuses(system, (), Ranking("done", (), using=(Use("other"),)))


def test_delivery_that_consumes_is_left_to_the_explorer() -> None:
    both = (Fairness.TIMERS, Fairness.CONSUMED)
    assert proved_under(LeadsTo("x", TRUE, TRUE, under=both)) == (Fairness.TIMERS,)
    only = LeadsTo("done", TRUE, TRUE, under=(Fairness.CONSUMED,))
    system = replace(shop("begin").system, properties=(only,))
    with pytest.raises(SpecError, match="no leads_to"):
        statuses(system, (), Ranking("done", ()))


def all_proved(system: System, found: Sequence[Obligation]) -> bool:
    groups: dict[str, list[Obligation]] = {}
    for obligation in found:
        groups.setdefault(obligation.scope, []).append(obligation)
    return all(
        judgement.status is Status.PROVED
        for group in groups.values() for judgement in decide(system, group, LIMIT_S)
    )


def pruned(one: advancing.Ranked, every: Sequence[Claim]) -> list[Obligation]:
    """All obligations, of those monotone predicates that are kept and those helpers that count and
    last."""

    def found(monotone: tuple[Monotone, ...], *helpers: Help) -> list[Obligation]:
        ranking = replace(one.ranking, helpers=helpers)
        return list(ranking_obligations(one.system, every, monotone, (ranking,)))

    monotone: tuple[Monotone, ...] = ()
    for predicate in one.monotone:
        longer = (*monotone, predicate)
        if all_proved(one.system, [o for o in found(longer) if o.claim.part_of == MONOTONE]):
            monotone = longer
    helpers = [
        helper for helper in one.ranking.helpers
        if all_proved(one.system, [o for o in found(monotone, helper)
                                   if o.claim.name.endswith((" counts", " lasts"))])
    ]
    return found(monotone, *helpers)


@judges(1)
@settings(max_examples=examples(25, 40), deadline=None, suppress_health_check=list(HealthCheck))
@given(advancing.ranked())
def test_a_property_proved_of_a_random_system_holds_in_fair_runs(one: advancing.Ranked) -> None:
    """Against the fixpoint of Emerson and Lei on the oracle's graph; a seventh has something to
    prove, and is proved.
    """
    every = claims(one.system)
    if not all_proved(one.system, [*obligations(one.system, every), *pruned(one, every)]):
        return
    oracle = Interpreter(one.system, advancing.SIZES, tuple(one.system.faults))
    explored = oracle.explore(5_000)
    assert not pending_for_ever(one.system, advancing.SIZES, explored, Fairness.TIMERS)
    judged()
