"""Strong fairness: an allocator serves everybody, as published, and weak fairness does not do."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import PORTABLE
from pdproto.check.result import Finding, Verdict
from pdproto.spec.language import (
    ANY,
    TRUE,
    Call,
    Configuration,
    Drains,
    Fairness,
    LeadsTo,
    Machine,
    Rigid,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    each,
    exists,
    forall,
    implies,
)


class Client(Sort):
    pass


class Resource(Sort):
    pass


class Several(Sort, of=Resource, sets=lambda size: [
        one for few in range(1, size + 1) for one in combinations(range(size), few)]):
    pass


c, d, r, s = Client("c"), Client("d"), Resource("r"), Several("s")
has = Rigid("has", s, r, given=Several.members)
allocator = Machine("allocator", host=True)
wanted = allocator.relation("wanted", Client, Resource)
held = allocator.relation("held", Client, Resource)


def allocating(fair: Any, *, gives_back_early: bool = True) -> System:
    served = forall(r, ~wanted(c, r))
    done = exists(r, held(c, r)) if gives_back_early else exists(r, held(c, r)) & served
    return System("allocator", "It lends resources.", tables=(Table(allocator, rows=(
        Row("request", on=Call("request", c, s), when=forall(r, ~wanted(c, r) & ~held(c, r)),
            do=each(r, wanted(c, r).to(True), where=has(s, r))),
        Row("allocate", choose=(c, s), fair=fair, when=forall(
            r, implies(has(s, r), wanted(c, r) & forall(d, ~held(d, r)))),
            do=[each(r, held(c, r).to(True), where=has(s, r)),
                each(r, wanted(c, r).to(False), where=has(s, r))]),
        Row("give_back", on=Call("give_back", c, s), when=forall(r, implies(has(s, r), held(c, r))),
            do=each(r, held(c, r).to(False), where=has(s, r))),
        Row("give_all_back", choose=c, when=done, do=held(c, ANY).to(False)),
    )),), properties=(
        LeadsTo("a_client_is_served", wanted(c, r), held(c, r), under=Fairness.TIMERS),
        Drains("again_and_again_it_wants_nothing", served),
    ), final=TRUE, configurations={"default": Configuration({Client: 3, Resource: 2})})


def findings(system: System, settings: CheckSettings) -> dict[str, Finding]:
    told = check(system, system.configurations["default"], settings)
    assert told.states == 400  # as published
    return {one.name: one for one in told.findings}


@pytest.mark.parametrize("settings", [CheckSettings(), CheckSettings(engine=PORTABLE)])
@pytest.mark.parametrize(("fair", "early", "verdict"), [
    ("strong", True, Verdict.HOLDS), ("weak", True, Verdict.VIOLATED),
    (True, True, Verdict.VIOLATED), ("strong", False, Verdict.VIOLATED)])
def test_an_allocator_serves_as_published(
    settings: CheckSettings, fair: Any, early: bool, verdict: Verdict
) -> None:
    system = allocating(fair, gives_back_early=early)
    told = findings(system, replace(settings, keep_going=True))
    for name in ("a_client_is_served", "again_and_again_it_wants_nothing"):
        assert told[name].verdict is verdict
        assert (told[name].trace is None) == (verdict is Verdict.HOLDS)
        assert ("allocate if enabled again and again" in told[name].note) == (fair == "strong")


def test_a_fairness_that_there_is_not_is_refused() -> None:
    with pytest.raises(SpecError, match="fair='sometimes': want 'weak', 'strong' or False"):
        Row("allocate", fair="sometimes")  # type: ignore[arg-type]  # the mistake
