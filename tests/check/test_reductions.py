"""Two reductions at once: what their proof counts on (decision 092), and what they once missed."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import Reductions, program
from pdproto.check.narrative import Narrator
from pdproto.check.questions import leads_to_instances, questions
from pdproto.check.result import CheckResult, Finding
from pdproto.check.runs import NoRunError, RealRun, Transition, run, until_stuck
from pdproto.ground.grounding import Ground, ground_for
from pdproto.ground.program import Program
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Fairness,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sort,
    State,
    System,
    Table,
    Timer,
    all_of,
    auto,
    each,
    exists,
    forall,
)
from tests.check.systems import SIZES, systems
from tests.judging import judged, judges
from tests.tiers import examples

STATES_MAX = 200
BOTH = Reductions(symmetry=True, dead_bits=True)
RANDOM = settings(
    max_examples=examples(8, settings().max_examples // 2),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


class Left(Sort):
    """One side of a relation."""


class Right(Sort):
    """The other side."""


class Place(Sort, ordered=True):
    """Places of channels."""


a, b, c = Left("a"), Right("b"), Right("c")


def checked(system: System, sizes: dict[type[Sort], int], reductions: Reductions) -> CheckResult:
    return check(
        system,
        Configuration(sizes, symmetry=reductions.symmetry, dead_bits=reductions.dead_bits),
        CheckSettings(),
    )


def named(result: CheckResult, name: str) -> Finding:
    return next(finding for finding in result.findings if finding.name == name)


# ---- Systems that two reductions, or one, once got wrong

EVERY = [Reductions(*chosen) for chosen in product((False, True), repeat=2)]
reduced = pytest.mark.parametrize("reductions", EVERY, ids=lambda r: f"{r.symmetry}-{r.dead_bits}")


@reduced
def test_a_mark_that_dies_by_another_one_hides_no_deadlock(reductions: Reductions) -> None:
    """Either mark makes the other one dead, so the last state looks like the one before."""
    machine = Machine("marker", a)
    mark = machine.relation("mark", Right)
    machine.function("other", Left)  # so the elements have no columns, and the least image is taken
    go = Row("go", on=Call("go"), do=[mark(a, ANY).to(True)])
    system = System("marks", "", (Table(machine, rows=(go,)),),
                    final=exists(b, forall(a, ~mark(a, b))))
    found = named(checked(system, {Left: 2, Right: 1}, reductions), "deadlock")
    assert (found.verdict, found.trace_length) == ("violated", 2)
    assert found.note.endswith("up to dead bits") == reductions.dead_bits


@reduced
def test_full_channels_are_drawn(reductions: Reductions) -> None:
    """Nobody reads what waits in a channel, but whether there is room for more."""

    class Phase(State):
        OPEN = auto()
        SHUT = auto()

    one, two = Machine("one", a), Machine("two", b)
    phase = one.function("phase", Phase)
    told = Message("told", a, b, sender=one, receiver=two, fifo=Place)
    row = Row("go", on=Timer("late", detector=True), to=Phase.SHUT, send=[each(c, told(a, c))])
    system = System("channels", "", (Table(one, state=phase, rows=(row,)), Table(two, rows=())))
    found = named(checked(system, {Left: 2, Right: 2, Place: 1}, reductions), "deadlock")
    assert (found.verdict, found.trace_length) == ("violated", 2)


@reduced
def test_a_run_to_a_deadlock_goes_on_until_nothing_changes(reductions: Reductions) -> None:
    """Nobody reads the two ticks, yet a state is not stuck before they are made."""

    class Phase(State):
        IDLE = auto()
        BUSY = auto()

    worker = Machine("worker")
    phase = worker.function("phase", Phase)
    ticks = worker.relation("first"), worker.relation("second")
    rows = [Row("go", on=Call("go"), at=Phase.IDLE, to=Phase.BUSY)]
    rows += [Row(tick.name, at=Phase.BUSY, do=[tick().to(True)]) for tick in ticks]
    system = System("ticks", "", (Table(worker, state=phase, rows=tuple(rows)),))
    found = named(checked(system, {}, reductions), "deadlock")
    assert (found.verdict, found.trace_length) == ("violated", 3)
    assert found.trace is not None
    assert {step.row for step in found.trace.steps} == {"go", "first", "second"}


@reduced
def test_the_elements_that_are_named_are_those_that_are_drawn(reductions: Reductions) -> None:
    machine = Machine("node", a)
    up = machine.relation("up")
    row = Row("go", on=Call("go"), do=[up(a).to(True)])
    system = System("nodes", "", (Table(machine, rows=(row,)),), (Always("never", ~up(a)),),
                    final=all_of())
    found = named(checked(system, {Left: 3}, reductions), "never")
    assert found.trace is not None
    (step,) = found.trace.steps
    assert found.instance == f"a={step.parameters}"


# ---- What the proof counts on, in the first states of random systems


def first_states(form: Program) -> list[int]:
    """States that the rows reach, neither swept nor renamed."""
    states = list(form.initial)
    seen = set(states)
    for state in states:
        for row in form.rows:
            after = row.apply(state)
            if row.guard.holds(state) and after not in seen and len(seen) < STATES_MAX:
                seen.add(after)
                states.append(after)
    return states


def idle_bits(form: Program, state: int) -> int:
    """The bits that are idle in the state."""
    bits = 0
    for action in form.idle:
        if action.guard.holds(state):
            bits |= action.clear
    return bits


@judges(100)
@given(systems(sparse=True), st.sampled_from([(), ("lossy",)]), st.sampled_from(Fairness))
@RANDOM
def test_sweeps_and_renamings_keep_the_idle_bits(
    system: System, faults: tuple[str, ...], fairness: Fairness
) -> None:
    """A swept state has the idle bits of the state, and differs in none but those. A renamed one
    has the renamed idle bits.
    """
    ground = ground_for(system, Configuration(SIZES, faults), {}, fairness)
    form = program(ground, tuple(questions(ground)), BOTH)
    for state in first_states(form):
        bits = idle_bits(form, state)
        swept = form.swept(state)
        assert idle_bits(form, swept) == bits
        assert not (state ^ swept) & ~bits
        if swept != state:
            judged()
        assert form.swept(swept) == swept
        renaming = form.symmetry.renaming(state)
        renamed = form.symmetry.renamed(state, renaming)
        assert idle_bits(form, renamed) == form.symmetry.renamed(bits, renaming)


@judges(100)
@given(systems(sparse=True), st.sampled_from([(), ("lossy",)]), st.sampled_from(Fairness))
@RANDOM
def test_rows_change_a_state_and_the_swept_one_alike(
    system: System, faults: tuple[str, ...], fairness: Fairness
) -> None:
    """But for idle bits. With `exact` they do so to the last bit."""
    ground = ground_for(system, Configuration(SIZES, faults), {}, fairness)
    for exact in (False, True):
        form = program(ground, tuple(questions(ground)), Reductions(dead_bits=True, exact=exact))
        for state in first_states(form):
            swept, kept = form.swept(state), ~idle_bits(form, state)
            for row, ground_row in zip(form.rows, ground.rows, strict=True):
                if ground_row.layer or ground_row.row.kind != "row":
                    continue
                assert row.guard.holds(state) == row.guard.holds(swept)
                if row.guard.holds(state):
                    changes = [(row.apply(one) ^ one) & (-1 if exact else kept)
                               for one in (state, swept)]
                    assert changes[0] == changes[1]
                    if swept != state:
                        judged()


@judges(5)
@given(systems(sparse=True), st.sampled_from([(), ("lossy",)]), st.sampled_from(Fairness))
@RANDOM
def test_a_state_that_counts_as_stuck_comes_to_rest(
    system: System, faults: tuple[str, ...], fairness: Fairness
) -> None:
    """By rows of the protocol, in a state of which the same questions hold."""
    ground = ground_for(system, Configuration(SIZES, faults), {}, fairness)
    form = program(ground, tuple(questions(ground)), BOTH)
    for state in first_states(form):
        if form.moves(state):
            continue
        begun = [Transition(ground.rows[0], state, state)]
        end = until_stuck(ground, RealRun(state, begun)).end
        assert not any(row.guard.holds(end) and row.apply(end) != end
                       for row, own in zip(form.rows, form.progress, strict=True) if own)
        for guard in (*form.patterns, *form.final):
            assert guard.holds(state) == guard.holds(end)
        judged()


# ---- No run is drawn that the interpreter does not take, to its end


class Light(State):
    """A lamp that goes round."""

    RED = auto()
    GREEN = auto()
    OFF = auto()


def lamps() -> System:
    lamp = Machine("lamp", a)
    light = lamp.function("light", Light)
    rows = (Row("on", at=Light.RED, to=Light.GREEN), Row("off", at=Light.GREEN, to=Light.RED),
            Row("broken", at=Light.RED, to=Light.OFF, fair=True))
    world = Machine("world", world=True)
    cut = Row("cut", choose=(a,), do=[light(a).to(Light.OFF)])
    mend = Row("mend", choose=(a,), do=[light(a).to(Light.RED)])
    return System(
        "lamps", "", (Table(lamp, state=light, rows=rows),),
        (Always("never_green", light(a) != Light.GREEN),
         LeadsTo("goes_out", light(a) == Light.RED, light(a) == Light.OFF)),
        final=exists(a, light(a) != Light.OFF), faults={"world": (Table(world, rows=(cut, mend)),)},
    )


LAMPS = Ground(lamps(), {Left: 2}, ("world",))
NARRATOR = Narrator(LAMPS, tuple(questions(LAMPS)))
(NEVER_GREEN,) = [q for q in NARRATOR.always if q.name == "never_green"]
(PROMISE,) = [claim for claim in LAMPS.system.properties if isinstance(claim, LeadsTo)]
GOES_OUT = next(leads_to_instances(LAMPS, PROMISE))  # for l0


def moves_of(*labels: str) -> RealRun:
    """The run in which these rows fire."""
    rows = {str(row): row for row in LAMPS.rows}
    return run(0, [rows[label] for label in labels])


def test_a_true_run_is_drawn() -> None:
    trace, instance = NARRATOR.showing(NEVER_GREEN, moves_of("on(l1)"))
    assert (len(trace.steps), instance) == (1, "a=l1")
    assert len(NARRATOR.deadlocked(moves_of("broken(l0)", "cut(l1)")).steps) == 2
    fair = moves_of("on(l0)", "off(l0)", "broken(l1)", "on(l0)", "off(l0)")
    assert NARRATOR.unfulfilled(GOES_OUT, Fairness.TIMERS, fair, 3).loop == 3


@pytest.mark.parametrize(("labels", "loop", "problem"), [
    ((), None, "it does not owe|changes the state in which it ends"),
    (("on(l0)", "off(l0)"), 0, "leaves on.l1. out, which stays enabled and is fair"),
    (("on(l0)", "off(l0)", "on(l0)"), 0, "its loop does not close"),
    (("on(l0)", "off(l0)", "cut(l1)", "mend(l1)"), 0, "a fault is in its loop"),
    (("cut(l0)", "cut(l1)"), None, "it does not owe goes_out for a=l0"),
])
def test_a_run_that_comes_to_the_goal_or_is_not_fair_is_refused(
    labels: tuple[str, ...], loop: int | None, problem: str
) -> None:
    with pytest.raises(NoRunError, match=problem):
        NARRATOR.unfulfilled(GOES_OUT, Fairness.TIMERS, moves_of(*labels), loop)


@pytest.mark.parametrize(("labels", "problem"), [
    (("cut(l0)",), "it ends in a final state"),
    (("cut(l0)", "cut(l1)", "mend(l1)"), "it ends in a final state"),
])
def test_a_run_to_no_deadlock_is_refused(labels: tuple[str, ...], problem: str) -> None:
    with pytest.raises(NoRunError, match=problem):
        NARRATOR.deadlocked(moves_of(*labels))


def test_a_state_that_still_moves_is_no_deadlock() -> None:
    ground = Ground(replace(lamps(), final=None), {Left: 1})
    with pytest.raises(NoRunError, match="changes the state in which it ends"):
        Narrator(ground, ()).deadlocked(RealRun(0))


def test_a_run_to_a_good_state_is_refused() -> None:
    with pytest.raises(NoRunError, match="without its patterns"):
        NARRATOR.showing(NEVER_GREEN, moves_of("cut(l0)"))


def test_the_interpreter_must_agree_on_the_elements() -> None:
    """A pattern with the name of another element: what --symmetry alone once printed."""
    first = NEVER_GREEN.patterns[0]
    wrong = replace(NEVER_GREEN, patterns=(replace(first, instance="a=l1"),))
    with pytest.raises(NoRunError, match="does not show never_green for a=l1"):
        NARRATOR.showing(wrong, moves_of("on(l0)"))


@pytest.mark.parametrize(("change", "problem"), [
    ({"after": moves_of("on(l1)")[0].after}, "step 1, on.l0., leads to another state"),
    ({"row": next(r for r in LAMPS.rows if str(r) == "off(l0)")}, "step 1, off.l0., cannot fire"),
])
def test_a_step_that_the_tables_do_not_take_is_refused(
    change: dict[str, Any], problem: str
) -> None:
    (move,) = moves_of("on(l0)")
    with pytest.raises(NoRunError, match=problem):
        NARRATOR.showing(NEVER_GREEN, RealRun(0, [replace(move, **change)]))
