"""Mutants of the tables: which there are, which are noticed, and which are no change at all."""

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NO_LIMITS
from pdproto.check.interpret import Interpreter
from pdproto.check.mutate import trials as trials_module
from pdproto.check.mutate.edits import EditKind, Mutant, mutants
from pdproto.check.mutate.kills import UndecidedError, liveness, safety
from pdproto.check.mutate.same import same_graph
from pdproto.check.mutate.trials import (
    BaseError,
    Judged,
    MutantOutcome,
    Trials,
    prepared,
    searches,
    trials_of,
)
from pdproto.check.result import PropertyKind, Verdict
from pdproto.check.rigid import interpretations
from pdproto.spec.examples.lock_server import SYSTEM as LOCK_SERVER
from pdproto.spec.examples.lock_server import Client, Round
from pdproto.spec.examples.lock_server_broken import SYSTEM as BROKEN
from pdproto.spec.examples.two_phase_commit import SYSTEM as COMMIT
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import (
    AddEffect,
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Message,
    OnRow,
    Row,
    Sometimes,
    SpecError,
    System,
    Timer,
    each,
    edited,
    forall,
    implies,
)
from pdproto.spec.language.row import Fair
from tests import judging
from tests.check.systems import SMALLER, systems
from tests.language.tiny import Item, Mood, Parts, Phase, Turn, Worker, i, v, w
from tests.tiers import examples

TWO_AND_ONE: Final = Configuration({Worker: 2, Item: 1, Turn: 1})


def one_row(row: Row, **more: object) -> list[tuple[EditKind, str]]:
    """The edits of a system with this row."""
    parts = more.pop("parts", None) or Parts()
    assert isinstance(parts, Parts)
    system = parts.system(worker=(row,), **more)
    return [(mutant.change, mutant.words) for mutant in mutants([system])]


class TestTheEditsOfARow:
    def test_of_its_guard(self) -> None:
        parts = Parts()
        row = Row("r", on=Call("c", i), at=(Phase.IDLE, Phase.BUSY),
                  when=[parts.has(w, i) & ~parts.near(w, w), parts.phase(w) == Phase.IDLE])
        assert one_row(row, parts=parts) == [
            (EditKind.DROP_ROW, "drop the row"),
            (EditKind.DROP_CONJUNCT, "drop `has(w, i)`"),
            (EditKind.NEGATE_CONJUNCT, "negate `has(w, i)`"),
            (EditKind.DROP_CONJUNCT, "drop `not near(w, w)`"),
            (EditKind.NEGATE_CONJUNCT, "negate `not near(w, w)`"),
            (EditKind.DROP_CONJUNCT, "drop `phase(w) = idle`"),
            (EditKind.NEGATE_CONJUNCT, "negate `phase(w) = idle`"),
            (EditKind.DROP_STATE, "not at idle"),
            (EditKind.DROP_STATE, "not at busy"),
            (EditKind.DROP_CONJUNCT, "at any state"),
        ]

    def test_of_the_parts_of_a_conjunct(self) -> None:
        parts = Parts()
        row = Row("r", when=[
            parts.phase(w).among(Phase.BUSY, Phase.DONE),
            forall(i, implies(parts.has(w, i), parts.write(w, i) == Phase.IDLE)),
        ])
        among = "phase(w) in {busy, done}"
        whole = "for all i: has(w, i) implies write(w, i) = idle"
        assert [words for kind, words in one_row(row, parts=parts) if kind is EditKind.INSIDE] == [
            f"`phase(w) = done` for `{among}`",
            f"`phase(w) = busy` for `{among}`",
            f"`for some i: has(w, i) implies write(w, i) = idle` for `{whole}`",
            f"`for all i: write(w, i) = idle` for `{whole}`",
            f"`for all i: not has(w, i)` for `{whole}`",
        ]

    def test_of_its_target(self) -> None:
        assert one_row(Row("r", at=Phase.IDLE, to=Phase.BUSY)) == [
            (EditKind.DROP_ROW, "drop the row"),
            (EditKind.DROP_CONJUNCT, "at any state"),
            (EditKind.TARGET, "stay, and do not go to busy"),
            (EditKind.TARGET, "go to done"),
        ]

    def test_no_target_to_which_no_edge_leads(self) -> None:
        parts = Parts()
        stage = parts.worker.function(
            "stage", Mood, edges={Mood.CALM: [Mood.CROSS], Mood.CROSS: []}
        )
        row = Row("r", on=Call("c"), do=[stage(w).to(Mood.CROSS)])
        assert one_row(row, parts=parts) == [
            (EditKind.DROP_ROW, "drop the row"), (EditKind.DROP_UPDATE, "drop `stage(w) := cross`"),
        ]

    def test_of_its_updates(self) -> None:
        parts = Parts()
        row = Row("r", on=Call("c", i),
                  do=[parts.has(w, i).to(True), parts.write(w, i).to(Phase.BUSY)])
        assert one_row(row, parts=parts) == [
            (EditKind.DROP_ROW, "drop the row"),
            (EditKind.DROP_UPDATE, "drop `has(w, i) := true`"),
            (EditKind.DROP_UPDATE, "drop `write(w, i) := busy`"),
            (EditKind.TARGET, "`write(w, i) := idle` for `write(w, i) := busy`"),
            (EditKind.TARGET, "`write(w, i) := done` for `write(w, i) := busy`"),
            (EditKind.CELLS, "`has(w, any) := true` for `has(w, i) := true`"),
            (EditKind.CELLS, "`write(w, any) := busy` for `write(w, i) := busy`"),
        ]

    def test_of_what_it_sends(self) -> None:
        parts = Parts()
        row = Row("r", on=Call("c", i), send=[
            parts.report(w, i), each(v, parts.hint(w, v), where=parts.near(w, v)),
        ])
        near = "`hint(w, v) for each v where near(w, v)`"
        assert one_row(row, parts=parts) == [
            (EditKind.DROP_ROW, "drop the row"),
            (EditKind.DROP_SEND, "drop `report(w, i)`"),
            (EditKind.DROP_SEND, f"drop {near}"),
            (EditKind.RECEIVERS, f"`hint(w, v) for each v` for {near}"),
            (EditKind.RECEIVERS, f"`hint(w, v) for each v where not near(w, v)` for {near}"),
        ]


class TestASharedTable:
    def test_an_equal_row_is_mutated_once(self) -> None:
        variant = edited(COMMIT, "variant", DropRow("give_up"))
        assert mutants([COMMIT, variant]) == mutants([COMMIT])

    def test_a_row_of_its_own_is_mutated_too(self) -> None:
        parts = Parts()
        first = parts.system(worker=(Row("r", on=Call("c"), at=Phase.IDLE),))
        other = replace(first, name="other", tables=(
            replace(first.tables[0], rows=(Row("r", on=Call("c"), at=Phase.BUSY),)),
            *first.tables[1:],
        ))
        assert [m.row.at for m in mutants([first, other])] == [Phase.IDLE] * 2 + [Phase.BUSY] * 2
        (of_first, *_, of_other) = mutants([first, other])
        assert (of_first.of(other), of_other.of(first)) == (None, None)
        assert of_first.of(first) is not None

    def test_a_changed_form_of_a_row_is_edited_with_it(self) -> None:
        """The form of a variant has one effect more, and the effect is edited there alone."""
        parts = Parts()
        first = parts.system(worker=(
            Row("r", on=Call("c", i), at=Phase.IDLE, do=[parts.has(w, i).to(True)]),))
        variant = edited(first, "variant", AddEffect("r", parts.write(w, i).to(Phase.BUSY)))
        both = mutants([first, variant])
        assert [m.words for m in both if m.of(first) is None] == [
            "drop `write(w, i) := busy`", "`write(w, i) := idle` for `write(w, i) := busy`",
            "`write(w, i) := done` for `write(w, i) := busy`",
            "`write(w, any) := busy` for `write(w, i) := busy`"]
        assert [m.words for m in both if m.of(variant) is None] == []
        (dropped,) = (m for m in both if m.words == "drop `has(w, i) := true`")
        changed = dropped.of(variant)
        assert changed is not None
        found = changed.row("r")
        assert found is not None
        assert found[1].do == (parts.write(w, i).to(Phase.BUSY),)

    def test_claims_about_a_dropped_row(self) -> None:
        parts = Parts()
        system = parts.system(
            worker=(Row("r", on=Call("c"), at=Phase.IDLE),),
            properties=(OnRow("kept", "r", parts.phase(w) == Phase.IDLE),
                        Always("also", parts.phase(w) == Phase.IDLE)),
        )
        (dropped, _) = mutants([system])
        without = dropped.of(system)
        assert without is not None
        assert [claim.name for claim in without.properties] == ["also"]

    def test_faults_are_not_mutated(self) -> None:
        named = {mutant.row.name for mutant in mutants([LOCK_SERVER])}
        assert not named & {row.name for layer in LOCK_SERVER.faults.values()
                            for table in layer for row in table.rows}


SMALL_COMMIT: Final = replace(COMMIT, configurations={"default": Configuration({Participant: 2})})
SMALL_LOCKS: Final = replace(LOCK_SERVER, configurations={
    "default": Configuration({Client: 2, Round: 1}, faults=("lossy",), dead_bits=True),
})
SMALL: Final = {system.name: system for system in (SMALL_COMMIT, SMALL_LOCKS)}
EITHER: Final = (SMALL_COMMIT.name, pytest.param(SMALL_LOCKS.name, marks=pytest.mark.slow))


@cache
def ends(small: str) -> tuple[tuple[Mutant, Judged], ...]:
    trials = prepared([SMALL[small]])
    return tuple((mutant, trials.judged(mutant)) for mutant in trials.mutants)


@pytest.mark.parametrize("name", EITHER)
def test_a_kill_is_a_finding_of_a_check(name: str) -> None:
    """Every verdict is that of the whole check, and every length that of its trace."""
    system = SMALL[name]
    for mutant, judged in ends(name):
        changed = mutant.of(system)
        assert changed is not None
        result = check(changed, system.configurations["default"], CheckSettings(keep_going=True))
        violated = {
            finding.name: finding for finding in result.findings
            if finding.verdict is Verdict.VIOLATED and finding.kind is not PropertyKind.EDGES
        }
        if judged.outcome is not MutantOutcome.LINT:
            assert bool(violated) == (judged.outcome is MutantOutcome.KILLED), mutant
        if judged.kill is not None and judged.outcome is MutantOutcome.KILLED:
            finding = violated[judged.kill.property]
            assert (judged.kill.kind, judged.kill.steps) == (finding.kind, finding.trace_length)
            assert (judged.kill.system, judged.kill.configuration) == (system.name, "default")


@pytest.mark.nightly
def test_a_limit_does_not_hide_that_a_mutant_is_no_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have more states than the original only because fewer of them count as equal."""
    def limited(*_: object) -> None:
        raise UndecidedError("the limit was reached")

    found = ends(SMALL_LOCKS.name)
    monkeypatch.setattr(trials_module, "_ask", limited)
    trials = trials_of([SMALL_LOCKS], searches(SMALL_LOCKS), {})
    now: dict[MutantOutcome, Counter[MutantOutcome]] = {end: Counter() for end in MutantOutcome}
    for mutant, judged in found:
        now[judged.outcome][trials.judged(mutant).outcome] += 1
    assert set(now[MutantOutcome.KILLED]) == {MutantOutcome.UNDECIDED, MutantOutcome.LINT}
    assert now[MutantOutcome.EQUIVALENT][MutantOutcome.EQUIVALENT] >= 1


def graph(
    system: System, configuration: Configuration
) -> tuple[frozenset[Any], frozenset[Any]]:
    """The reachable graph, as the interpreter of the tables sees it."""
    (given_to,) = interpretations(system, configuration.sizes, configuration)
    seen = Interpreter(system, configuration.sizes, configuration.faults, given_to).explore(5_000)
    return frozenset(seen.depth), frozenset(seen.edges)


def without_labels(found: tuple[frozenset[Any], frozenset[Any]]) -> object:
    states, edges = found
    return states, {(before, after) for before, _, after in edges}


def without_consumption(system: System) -> System:
    """The system with properties of one graph only, which the interpreter can make."""
    return replace(system, properties=tuple(
        replace(claim, under=(Fairness.TIMERS,)) if isinstance(claim, LeadsTo) else claim
        for claim in system.properties
    ))


@pytest.mark.parametrize("name", EITHER)
def test_equivalent_mutants_have_the_same_graph(name: str) -> None:
    system = without_consumption(SMALL[name])
    configuration = replace(system.configurations["default"], faults=())
    original = graph(system, configuration)
    seen: Counter[bool] = Counter()
    for mutant in mutants([system]):
        changed = mutant.of(system)
        assert changed is not None
        equal = graph(changed, configuration) == original
        assert same_graph(system, changed, mutant, configuration, NO_LIMITS) == equal, mutant
        alike = same_graph(system, changed, mutant, configuration, NO_LIMITS, labels=False)
        assert alike == (without_labels(graph(changed, configuration)) == without_labels(original))
        seen[equal] += 1
    assert min(seen[True], seen[False]) >= 4


@pytest.mark.parametrize(("other", "fair", "alike"), [
    ("soon", None, True), ("late", None, False), ("soon", False, False), ("soon", "strong", False)])
def test_a_row_on_another_timer_or_with_other_fairness_makes_up_for_no_row(
    other: str, fair: Fair, alike: bool
) -> None:
    system = Parts().system(worker=(
        Row("first", on=Timer("soon"), at=Phase.IDLE, to=Phase.BUSY),
        Row("second", on=Timer(other), at=Phase.IDLE, to=Phase.BUSY, fair=fair),
    ), configurations={"default": TWO_AND_ONE})
    (dropped,) = (m for m in mutants([system])
                  if (m.row.name, m.change) == ("second", EditKind.DROP_ROW))
    changed = dropped.of(system)
    assert changed is not None
    assert same_graph(system, changed, dropped, TWO_AND_ONE, NO_LIMITS, labels=False) is alike


def test_where_delivery_consumes_an_ignored_message_matters() -> None:
    """The graphs are equal, but for the one in which an ignored message is gone."""
    (dropped,) = (
        mutant for mutant in mutants([SMALL_LOCKS])
        if (mutant.row.name, mutant.words) == ("ignore_grant_holding", "at any state")
    )
    changed = dropped.of(SMALL_LOCKS)
    assert changed is not None
    chosen = SMALL_LOCKS.configurations["default"]
    assert not same_graph(SMALL_LOCKS, changed, dropped, chosen, NO_LIMITS)
    assert same_graph(without_consumption(SMALL_LOCKS), changed, dropped, chosen, NO_LIMITS)


@judging.judges(1)
@settings(max_examples=examples(2, 20), deadline=None)
@given(system=systems(), data=st.data())
def test_equivalence_of_random_mutants(system: System, data: st.DataObject) -> None:
    mutant = data.draw(st.sampled_from(mutants([system])))
    reduced = data.draw(st.booleans())
    configuration = Configuration(SMALLER, ("lossy",), symmetry=reduced, dead_bits=reduced)
    try:
        changed = mutant.of(system)
    except SpecError:
        return
    assert changed is not None
    try:
        now, before = graph(changed, configuration), graph(system, configuration)
    except ValueError:
        reject()  # too many states for the interpreter
    assert same_graph(system, changed, mutant, configuration, NO_LIMITS) == (now == before)
    judging.judged()
    if same_graph(system, changed, mutant, configuration, NO_LIMITS, labels=False):
        assert without_labels(now) == without_labels(before)
    else:
        assert now != before


class TestWhatBecomesOfAMutant:
    def outcomes(self, system: System) -> dict[str, Judged]:
        trials = prepared([system])
        return {mutant.words: trials.judged(mutant) for mutant in trials.mutants}

    def test_edges_are_told_apart(self) -> None:
        parts = Parts()
        stage = parts.boss.function(
            "stage", Phase,
            edges={Phase.IDLE: [Phase.BUSY], Phase.BUSY: [Phase.DONE], Phase.DONE: []},
        )
        system = parts.system(
            boss=(Row("begin", on=Call("begin"), when=[stage() == Phase.IDLE],
                      do=[stage().to(Phase.BUSY)]),),
            properties=(Sometimes("moves", stage() != Phase.IDLE),),
            final=stage() != Phase.IDLE,
            configurations={"default": TWO_AND_ONE},
        )
        outcomes = self.outcomes(system)
        skipped = outcomes["`stage := done` for `stage := busy`"]
        assert (skipped.outcome, skipped.kill and skipped.kill.property) == (
            MutantOutcome.EDGES, "stage_edges"
        )
        assert outcomes["drop the row"].outcome is MutantOutcome.KILLED

    def test_lint_is_told_apart(self) -> None:
        parts = Parts()
        system = parts.system(
            worker=(Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.BUSY,
                        send=[parts.report(w, i)], choose=(i,)),),
            boss=(Ignore(parts.report(w, i), why="it knows already"),),
            properties=(Sometimes("begun", parts.phase(w) == Phase.BUSY),),
            final=parts.mood() == Mood.CALM,
            configurations={"default": TWO_AND_ONE},
        )
        trials = prepared([system])
        judged = [(m.row.name, trials.judged(m)) for m in trials.mutants]
        (ignored,) = (end for name, end in judged if name == "ignore_report")
        assert ignored.outcome is MutantOutcome.LINT
        assert ignored.note.startswith("totality: ")

    def test_lint_is_asked_of_every_variant_before_a_mutant_survives(self) -> None:
        """What the first system answers by another row, its variant answers by none."""
        parts = Parts()
        system = parts.system(
            worker=(Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.BUSY,
                        send=[parts.report(w, i)], choose=(i,)),),
            boss=(Ignore(parts.report(w, i), at=Mood.CALM, why="it knows already"),
                  Ignore(parts.report(w, i), why="it never wants to know")),
            properties=(Sometimes("begun", parts.phase(w) == Phase.BUSY),),
            final=parts.mood() == Mood.CALM,
            configurations={"default": TWO_AND_ONE},
        )
        without = edited(system, "without", DropRow("ignore_report"))
        for tried, end in (
            ([system], MutantOutcome.EQUIVALENT),
            ([system, without], MutantOutcome.LINT),
        ):
            trials = prepared(tried)
            (mutant,) = (m for m in trials.mutants
                         if (m.row.name, m.words) == ("ignore_report_calm", "drop the row"))
            assert trials.judged(mutant).outcome is end

    def test_an_impossible_mutant_is_refused(self) -> None:
        parts = Parts()
        system = parts.system(
            boss=(Row("hear", choose=(w, i), when=[parts.report(w, i)], to=Mood.CROSS),),
            final=parts.mood() == Mood.CALM,
            configurations={"default": TWO_AND_ONE},
        )
        refused = self.outcomes(system)["negate `report(w, i)`"]
        assert refused.outcome is MutantOutcome.REFUSED
        assert "cannot know what was not sent" in refused.note

    def test_a_broken_lemma_is_told_apart(self) -> None:
        """No property asks for it, but a proof might."""
        parts = Parts()
        system = parts.system(
            worker=(Row("begin", on=parts.stop(), at=Phase.IDLE, to=Phase.BUSY),
                    Ignore(parts.stop(), at=(Phase.BUSY, Phase.DONE), why="it has begun")),
            boss=(Row("order", on=Call("order"), when=[parts.mood() == Mood.CALM],
                      do=[parts.mood().to(Mood.CROSS)], send=[parts.stop()]),),
            properties=(Sometimes("begun", parts.phase(w) == Phase.BUSY),),
            final=parts.mood().among(Mood.CALM, Mood.CROSS),
            configurations={"default": TWO_AND_ONE},
        )
        lemma = Always("who_orders_is_cross", implies(parts.stop(), parts.mood() == Mood.CROSS))
        trials = prepared([system], {system.name: (lemma,)})
        (mutant,) = (m for m in trials.mutants if m.words == "drop `mood := cross`")
        judged = trials.judged(mutant)
        assert judged.outcome is MutantOutcome.LEMMA
        assert judged.kill is not None
        assert (judged.kill.property, judged.kill.steps) == (lemma.name, 1)
        assert prepared([system]).judged(mutant).outcome is MutantOutcome.SURVIVED

    def test_a_fault_of_another_system_is_no_fault_of_the_mutant(self) -> None:
        """A message that only another system knows is declared after this system was made."""
        parts = Parts()
        system = parts.system(
            boss=(Row("order", on=Call("order"), to=Mood.CROSS),),
            final=parts.mood().among(Mood.CALM, Mood.CROSS),
            configurations={"default": TWO_AND_ONE},
        )
        assert system.variables
        Message("late", w, sender=parts.worker, receiver=parts.boss)
        trials = prepared([system])
        notes = [trials.judged(mutant).note for mutant in trials.mutants]
        assert [note for note in notes if "late" in note] == []
        assert len(notes) == len(mutants([system])) > 0

    @pytest.mark.nightly
    def test_a_search_that_grows_too_large_is_undecided(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pdproto.check.mutate.trials.GROWTH_MAX", 0)
        monkeypatch.setattr("pdproto.check.mutate.trials.STATES_MIN", 20)
        outcomes = self.outcomes(SMALL_LOCKS).values()
        (note, *_) = (end.note for end in outcomes if end.outcome is MutantOutcome.UNDECIDED)
        assert note.startswith("lock-server, default: the limit of ")

    def test_a_variant_kills_too(self) -> None:
        """A mutant of a shared table is killed by the property of any system that has it."""
        mute = replace(SMALL_COMMIT, name="mute", properties=(), final=None)
        with pytest.raises(BaseError, match="mute, default: deadlock is violated"):
            prepared([mute])
        open_ended = replace(COMMIT, name="lenient", properties=(), final=SMALL_COMMIT.final,
                             configurations=SMALL_COMMIT.configurations)
        trials = prepared([open_ended, SMALL_COMMIT])
        kills = [end.kill for m in trials.mutants if (end := trials.judged(m)).kill is not None]
        assert {kill.system for kill in kills} == {"lenient", "two-phase-commit"}


class TestTheOriginalComesFirst:
    def test_it_must_hold(self) -> None:
        with pytest.raises(BaseError, match="default: mutual_exclusion is violated before"):
            prepared([BROKEN])

    def test_its_edges_too(self) -> None:
        parts = Parts()
        stage = parts.boss.function("stage", Mood, edges={Mood.CALM: [], Mood.CROSS: []})
        system = parts.system(
            boss=(Row("begin", on=Call("begin"), do=[stage().to(Mood.CROSS)]),),
            final=parts.mood() == Mood.CALM,
            configurations={"default": TWO_AND_ONE},
        )
        with pytest.raises(BaseError, match="stage_edges is violated before"):
            prepared([system])

    def test_deep_configurations_are_left_out(self) -> None:
        system = replace(SMALL_COMMIT, configurations={
            **SMALL_COMMIT.configurations, "deep": Configuration({Participant: 40}),
        })
        trials = prepared([system])
        assert {search.configuration for search in trials.searches} == {"default"}

    def test_without_sizes_there_is_nothing_to_learn(self) -> None:
        with pytest.raises(SpecError, match="names no sizes to explore: add configurations="):
            prepared([replace(COMMIT, configurations={})])

    def test_the_cheapest_search_comes_first(self) -> None:
        trials = prepared([SMALL_COMMIT])
        assert [search.endless for search in trials.searches] == [False, True]
        assert all(search.states == trials.searches[0].states for search in trials.searches)
        assert isinstance(trials, Trials)


def test_limits_leave_a_question_open() -> None:
    configuration = Configuration({Client: 2, Round: 1}, faults=("lossy",))
    few = replace(NO_LIMITS, states_max=3)
    for ask in (safety, liveness):
        with pytest.raises(UndecidedError, match="the limit of 3 states was reached"):
            ask(LOCK_SERVER, configuration, few)
