"""What a run is said to violate, the plain interpreter sees violated, and the explorer as well."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.check.runs import NoRunError, RealRun, Transition
from pdproto.ground.grounding import Ground
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    Fairness,
    Int,
    LeadsTo,
    Machine,
    Message,
    Row,
    State,
    System,
    Table,
    auto,
    implies,
    lose,
)
from pdproto.testing.cluster import Cluster
from pdproto.testing.machine import Fuzzer
from pdproto.testing.property_checker import PropertyChecker, ViolationError
from tests.property.profiles import runs


class Phase(State):
    A = auto()
    B = auto()
    C = auto()


one, two = Machine("one"), Machine("two")
boss, net = Machine("boss", host=True), Machine("net", world=True)
phase = one.function("phase", Phase)
got = two.relation("got")
m = Message("m", sender=one, receiver=two)
SEND: Final = Row("send", on=Call("send"), at=Phase.A, to=Phase.B, send=m())
END: Final = Row("end", when=[~m(), phase() == Phase.B], do=phase().to(Phase.C))
LOSSY: Final = Configuration({}, faults=("lossy",))
# The boss ends when the network has lost the message, so m() and C are never true together.
SYSTEM: Final = System("lost", "", (
    Table(one, state=phase, rows=(SEND,)), Table(boss, rows=(END,)),
    Table(two, rows=(Row("get", on=m(), do=got().to(True)),)),
), (
    Always("none_late", implies(m(), phase() != Phase.C)),
    LeadsTo("it_comes", phase() == Phase.B, got() | (phase() == Phase.C),
            under=(Fairness.TIMERS, Fairness.CONSUMED)),
), final=TRUE, faults={"lossy": (Table(net, rows=(lose(m),)),)})


def test_a_message_that_is_lost_is_not_on_the_network() -> None:
    """Seen red: a lost message counted as sent, and a run "violated" what holds."""
    found = check(SYSTEM, LOSSY, CheckSettings())
    assert {one.name: one.verdict for one in found.findings}["none_late"] is Verdict.HOLDS
    assert Fuzzer(SYSTEM, LOSSY).run(runs(50)).runs >= 50


@pytest.mark.parametrize("fairness", [Fairness.TIMERS, Fairness.CONSUMED])
def test_what_is_violated_is_shown(fairness: Fairness) -> None:
    early = replace(END, when=[phase() == Phase.B])
    system = replace(SYSTEM, tables=(
        SYSTEM.tables[0], Table(boss, rows=(early,)), SYSTEM.tables[2]), like=SYSTEM)
    ground = Ground(system, {}, consume=fairness is Fairness.CONSUMED)
    cluster, checker = Cluster(ground), PropertyChecker(ground)
    for name in ("send", *(["get"] if ground.consume else []), "end"):
        cluster.fire(next(row for row in ground.rows if row.row.name == name
                          and row.action.guard.holds(cluster.state)))
    with pytest.raises(ViolationError, match="none_late"):
        checker.check_state(cluster)


def test_a_run_that_is_none_is_not_shown() -> None:
    """Also if its states are bad: each row must be able to fire, and lead there."""
    ground = Ground(SYSTEM, {})
    cluster, checker = Cluster(ground), PropertyChecker(ground)
    send = next(row for row in ground.rows if row.row.name == "send")
    bad = ground.layout.literal(m, (), True).value | ground.layout.literal(
        phase, (), Phase.C).value
    cluster.moves, cluster.state = RealRun(0, [Transition(send, 0, bad)]), bad
    with pytest.raises(NoRunError, match=r"step 1, send.*, leads to another state"):
        checker.check_state(cluster)


clock = Machine("clock")
phase_of, seen = clock.function("turn", Int(0, 2)), clock.function("seen", Int(0, 2))
COPY: Final = Row("copy", do=seen().to(phase_of()), fair="strong")  # a case for each value
FORGET: Final = Row("forget", when=seen() == 0, do=seen().to(2))
TURN: Final = Row("turn", do=phase_of().to((phase_of() + 1) % 3))


# Of two rows that disable each other, with the same fairness or not, `second` makes the claim true.
FIRST: Final = Row("first", when=phase_of() == 1, do=[phase_of().to(2), seen().to(2)],
                   fair="strong")
SECOND: Final = replace(FIRST, name="second", do=[phase_of().to(2), seen().to(1)])


@pytest.mark.parametrize(("rows", "broken"), [
    ((COPY, FORGET, TURN), True), ((TURN, replace(COPY, when=phase_of() == 1)), False),
    ((TURN, replace(COPY, when=phase_of() == 2)), True), ((TURN, FIRST, SECOND), False),
    ((TURN, FIRST, replace(SECOND, fair="weak")), True)])
def test_a_strongly_fair_row_fires_with_any_of_its_cases(
    rows: tuple[Row, ...], *, broken: bool
) -> None:
    """In the first loop `copy` fires with 0, and is enabled with 1. The cases of `turn` go past the
    state in which a row can fire.

    Seen red: the first passed, since the case that does not fire counted as a row; the third and
    the last, since a loop that leaves a strong row out was passed over; the fourth was refuted,
    where the rows had no order.
    """
    system = System("turns", "", (Table(clock, rows=rows),), (
        LeadsTo("it_is_seen", TRUE, seen() == 1, under=Fairness.TIMERS),), final=TRUE)
    found = check(system, Configuration({}), CheckSettings()).findings
    assert {one.name: one.verdict for one in found}["it_is_seen"] is (
        Verdict.VIOLATED if broken else Verdict.HOLDS)
    with pytest.raises(ViolationError, match="it_is_seen") if broken else nullcontext():
        Fuzzer(system, Configuration({})).run(runs(5))
