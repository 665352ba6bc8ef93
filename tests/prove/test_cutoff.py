"""The cut-off says "proved" of nothing that fails, and every refutation is a real step."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdproto.check.interpret import Interpreter
from pdproto.check.prove import quantified
from pdproto.check.prove.cutoff import decide
from pdproto.check.prove.in_channels import Decide
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.spec.language import (
    Always,
    Call,
    Formula,
    Machine,
    Rigid,
    Row,
    Sizes,
    Sort,
    System,
    Table,
    all_of,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.formula import free_variables
from tests.check import systems as random
from tests.judging import judged, judges
from tests.tiers import examples

LIMIT_S = 30.0


class Thing(Sort):
    """Anything."""


q, r, s = Thing("q"), Thing("r"), Thing("s")


def by_row(found: tuple[Obligation, ...]) -> dict[str, list[Obligation]]:
    groups: dict[str, list[Obligation]] = {}
    for obligation in found:
        groups.setdefault(obligation.scope, []).append(obligation)
    return groups


def verdicts(system: System, *lemmas: Always) -> dict[str, Status]:
    found = obligations(system, claims(system, lemmas))
    return {
        obligation.name: judgement.status
        for group in by_row(found).values()
        for obligation, judgement in zip(group, decide(system, group, LIMIT_S), strict=True)
    }


def marking(guard: tuple[Formula, ...], keeper: Any, b: Any, *properties: Always) -> System:
    row = Row("mark", on=Call("mark", r), when=guard, do=[b(r).to(True)])
    return System("marks", "", (Table(keeper, rows=(row,)),), properties)


def test_the_bound_that_counts_parameters_and_variables_alone_is_unsound() -> None:
    """The naive universe is one element; the counterexample needs two others: not all are a, and
    not all are c, a and c being disjoint."""
    keeper = Machine("keeper")
    a, b, c = (keeper.relation(name, Thing) for name in "abc")
    system = marking(
        (~forall(q, a(q)), ~forall(q, c(q))), keeper, b,
        Always("marked", implies(b(r), a(r) | c(r))), Always("disjoint", ~(a(r) & c(r))),
    )
    assert verdicts(system)["marked at mark"] is Status.FAILED
    (broken,) = [o for o in obligations(system, claims(system)) if o.name == "marked at mark"]
    found = counterexample(system, broken, LIMIT_S)
    assert found is not None
    # One element, neither a nor c, is a counterexample as well; it is the smallest.
    assert found.sizes == {Thing: 1}


def test_a_counterexample_that_needs_two_other_elements_is_found() -> None:
    """As above, but every element is a or c, so that one element cannot do."""
    keeper = Machine("keeper")
    a, b, c, d = (keeper.relation(name, Thing) for name in "abcd")
    system = marking(
        (~forall(q, a(q)), ~forall(q, c(q))), keeper, b,
        Always("marked", implies(b(r), d(r))),
        Always("either", a(r) | c(r)), Always("disjoint", ~(a(r) & c(r))),
    )
    (broken,) = [o for o in obligations(system, claims(system)) if o.name == "marked at mark"]
    found = counterexample(system, broken, LIMIT_S)
    assert found is not None
    assert found.sizes == {Thing: 2}


def test_a_question_about_too_many_elements_is_refused() -> None:
    """Of equality alone it has a clause for each three of them: once more than fit into memory."""
    keeper = Machine("keeper")
    a, b, c = (keeper.relation(name, Thing) for name in "abc")
    many = tuple(Thing(f"t{number}") for number in range(320))
    some = exists(many, all_of(*(a(one) for one in many), c(r)))
    system = marking((some,), keeper, b, Always("marked", implies(b(r), c(r))))
    (status,) = [status for name, status in verdicts(system).items() if name == "marked at mark"]
    assert status is Status.REFUSED


def test_a_claim_about_no_element_is_proved() -> None:
    keeper = Machine("keeper")
    a, b, c = (keeper.relation(name, Thing) for name in "abc")
    system = marking(
        (forall(q, a(q)), ~c(r)), keeper, b, Always("marked", implies(b(r), a(r)))
    )
    assert set(verdicts(system).values()) == {Status.PROVED}


def test_exists_under_forall_is_refused_with_its_clause() -> None:
    keeper = Machine("keeper")
    a = keeper.relation("a", Thing, Thing)
    b = keeper.relation("b", Thing)
    system = marking(
        (forall(q, exists(s, a(q, s))),), keeper, b,
        Always("marked", ~b(r)),
    )
    (group,) = [g for n, g in by_row(obligations(system, claims(system))).items() if n == "mark"]
    (judgement,) = decide(system, group, LIMIT_S)
    assert judgement.status is Status.REFUSED
    assert "a(q, s)" in judgement.note
    assert "witness" in judgement.note


def test_an_axiom_with_exists_under_forall_is_used_as_far_as_it_can_be() -> None:
    """Everything has something near it, so a row for an element without any never fires."""
    keeper = Machine("keeper")
    b = keeper.relation("b", Thing)
    near = Rigid("near", q, s)
    system = marking((forall(s, ~near(r, s)),), keeper, b, Always("marked", ~b(r)))
    assert verdicts(system)["marked at mark"] is Status.FAILED
    somewhere = {"somewhere": forall(q, exists(s, near(q, s)))}
    held = replace(system, axioms=somewhere, like=system)
    assert verdicts(held)["marked at mark"] is Status.PROVED
    far = marking((near(r, r),), keeper, b, Always("marked", ~b(r)))
    held = replace(far, axioms=somewhere, like=far)
    assert verdicts(held)["marked at mark"] is Status.REFUSED, "no model is a counterexample now"


def test_a_proof_that_needs_equal_elements_to_be_alike_is_found() -> None:
    """Only one thing is given, and it is good: the row marks no other. The first question leaves
    out that equal things are alike.
    """
    keeper = Machine("keeper")
    b = keeper.relation("b", Thing)
    good, given = Rigid("good", r), Rigid("given", r)
    some = exists(s, given(s) & good(s))
    system = marking((given(r), some), keeper, b, Always("good", implies(b(r), good(r))))
    assert verdicts(system)["good at mark"] is Status.FAILED
    one = {"one": implies(given(q) & given(s), q.same(s))}
    assert verdicts(replace(system, axioms=one, like=system))["good at mark"] is Status.PROVED


@pytest.mark.parametrize("asked", [decide, quantified.decide], ids=["cutoff", "quantified"])
def test_of_several_obligations_of_a_row_the_false_one_is_named(asked: Decide) -> None:
    """They are asked about together first."""
    keeper = Machine("keeper")
    b = keeper.relation("b", Thing)
    good, fair = Rigid("good", r), Rigid("fair", r)
    facts = {f"good{i}": good(r) for i in range(6)} | {"fair": fair(r)}
    system = marking((good(r),), keeper, b, *(
        Always(name, implies(b(r), fact)) for name, fact in sorted(facts.items())))
    found = by_row(obligations(system, claims(system)))["mark"]
    answers = zip(found, asked(system, found, LIMIT_S), strict=True)
    assert {o.claim.name: judgement.status for o, judgement in answers} == {
        name: Status.FAILED if name == "fair" else Status.PROVED for name in facts}


@judges(2)
@settings(max_examples=examples(6, 12), deadline=None, suppress_health_check=list(HealthCheck))
@given(system=random.systems(), data=st.data())
def test_random_systems(system: System, data: st.DataObject) -> None:
    """A proved property holds in every reached state; an unproved one fails in one step."""
    found = obligations(system, claims(system), wanted=("always",))
    good = True
    for group in by_row(found).values():
        for obligation, judgement in zip(group, decide(system, group, LIMIT_S), strict=True):
            if judgement.status is Status.FAILED:
                check_step(system, obligation)
                judged()
            good = good and judgement.status is Status.PROVED
    if good:
        sizes = data.draw(st.sampled_from([random.SIZES, random.SMALLER]))
        check_reachable(system, sizes)


@judges(10)
@settings(max_examples=examples(3, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(system=random.systems())
def test_the_engines_never_contradict_each_other(system: System) -> None:
    """One engine never refutes a proof of the other; either may have no answer."""
    for group in by_row(obligations(system, claims(system))).values():
        ours = decide(system, group, LIMIT_S)
        theirs = quantified.decide(system, group, 2.0)
        for obligation, one, two in zip(group, ours, theirs, strict=True):
            contradiction = {one.status, two.status} == {Status.PROVED, Status.FAILED}
            assert not contradiction, obligation.name
            if one.status is two.status:
                judged()


def check_reachable(system: System, sizes: Sizes) -> None:
    claim = system.properties[0]
    assert isinstance(claim, Always)
    oracle = Interpreter(system, sizes, tuple(system.faults))
    try:
        explored = oracle.explore(200)
    except ValueError:
        return
    for store in explored.depth:
        for environment in oracle.environments(free_variables(claim.claim)):
            assert oracle.holds(claim.claim, dict(store), environment)
    judged()


def check_step(system: System, obligation: Obligation) -> None:
    """The counterexample, by the oracle: the claim holds before, the row fires, it fails after."""
    found = counterexample(system, obligation, LIMIT_S)
    assert found is not None
    oracle = Interpreter(system, found.sizes, tuple(system.faults), found.given)
    store = frozenset((cell, v) for cell, v in found.values.items() if v != cell[0].values[0])
    everywhere = list(oracle.environments(free_variables(obligation.claim.formula)))
    claim = obligation.claim.formula
    if obligation.row is None:
        assert any(not oracle.holds(claim, {}, environment) for environment in everywhere)
        return
    assert all(oracle.holds(claim, dict(store), environment) for environment in everywhere)
    wanted = (obligation.row.name, tuple(found.environment.values()))
    after = [dict(target) for step, target in oracle.steps(store) if step == wanted]
    assert after
    assert any(not oracle.holds(claim, state, e) for state in after for e in everywhere)


