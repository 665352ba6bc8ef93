"""A walk by hand has the states of the explorer, and says why a row cannot fire."""

import random
from collections.abc import Iterator

import pytest

from pdproto.check.explore import explore
from pdproto.check.interpret import Interpreter
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK, questions
from pdproto.check.stepping.standing import Stands, standings
from pdproto.check.stepping.walk import (
    Choice,
    Disabled,
    PathError,
    Walker,
    nth_walker,
)
from pdproto.ground.grounding import Ground
from pdproto.spec.catalogue import SYSTEMS
from pdproto.spec.examples.lock_server_broken import SYSTEM as BROKEN
from pdproto.spec.language.system import System

VIOLATION = ("ask(c0, r0)", "ask(c1, r0)", "give(c0, r0)", "expire(c0, r0)", "give(c1, r0)",
             "enter(c1, r0)", "enter(c0, r0)")


def walker(system: System = BROKEN) -> Walker:
    name = next(iter(system.configurations))
    chosen = system.configurations[name]
    return nth_walker(system, chosen, 1)


def random_states(walked: Walker, seed: int, walks: int = 3, steps: int = 20) -> Iterator[int]:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    for _ in range(walks):
        state = walked.initial
        for _ in range(steps):
            yield state
            after = [to for _, to in walked.successors(state)]
            if not after:
                break
            state = chance.choice(after)


def test_every_state_of_the_explorer_is_walked() -> None:
    walked = walker()
    reached, pending = {walked.initial}, [walked.initial]
    while pending:
        for _, after in walked.successors(pending.pop()):
            if after not in reached:
                reached.add(after)
                pending.append(after)
    ground = Ground(BROKEN, walked.configuration.sizes, walked.configuration.faults)
    found = explore(ground, tuple(questions(ground)), keep_going=True)
    assert len(reached) == found.engine.states == 55


@pytest.mark.parametrize("name", ["lock-server", "ring-election", "two-phase-commit",
                                  "transfer-two-lives", "registry"])
def test_a_row_is_disabled_exactly_by_the_conditions_that_fail(name: str) -> None:
    """The oracle evaluates each condition from the tables."""
    walked = walker(load(SYSTEMS[name].target))
    ground = walked.ground
    oracle = Interpreter(ground.system, ground.sizes, ground.faults, ground.given)
    for state in random_states(walked, seed=7):
        values = ground.layout.decode(state)
        able = {choice.label for choice in walked.enabled(state)}
        for one in walked.disabled(state):
            assert one.label not in able
            guard = one.ground.table.guard(one.ground.row)
            broken = [part for part in guard.parts
                      if not oracle.holds(part, values, one.ground.environment)]
            assert len(one.failing) == len(broken) > 0
        for choice in walked.enabled(state):
            row = choice.ground
            assert oracle.holds(row.table.guard(row.row), values, row.environment)


def test_a_disabled_row_shows_the_present_values() -> None:
    walked = walker()
    state = walked.after(walked.follow(["ask(c0, r0)"]))
    told = {one.label: [str(failing) for failing in one.failing]
            for one in walked.disabled(state)}
    assert told["enter(c0, r0)"] == ["message grant(c0, r0)"]
    assert told["leave(c0, r0)"] == ["phase(c0) = holding, but it is waiting"]


def test_the_nearest_instance_stands_for_its_row_and_the_others_can_be_asked_for() -> None:
    walked = walker()
    state = walked.after(walked.follow(["ask(c1, r0)"]))
    (leave,) = (one for one in walked.disabled(state) if one.ground.row.name == "leave")
    assert (leave.label, leave.others) == ("leave(c1, r0)", 1)
    assert [one.label for one in walked.instances(state, "leave")] == [
        "leave(c0, r0)", "leave(c1, r0)"]
    assert [type(one) for one in walked.instances(state, "give")] == [Disabled, Choice]
    with pytest.raises(PathError, match=r"has no row 'leav' at these sizes \(perhaps leave"):
        walked.instances(state, "leav")


def test_a_path_that_is_not_possible_says_at_which_step_and_why() -> None:
    walked = walker()
    with pytest.raises(PathError, match=r"step 2: enter\(c0, r0\) cannot fire here: it needs "
                                        r"message grant\(c0, r0\)"):
        walked.follow(["ask(c0, r0)", "enter(c0, r0)"])
    with pytest.raises(PathError, match=r"step 1: .* has no row 'aks\(c0, r0\)' at these sizes "
                                        r"\(perhaps ask\(c0, r0\) or ask\(c1, r0\)\?\)"):
        walked.follow(["aks(c0, r0)"])


def test_labels_may_be_written_without_spaces() -> None:
    walked = walker()
    compact = ["".join(label.split()) for label in VIOLATION]
    assert walked.follow(compact) == walked.follow(VIOLATION)


def test_properties_stand_as_their_path_has_made_them() -> None:
    walked = walker()
    told = {one.name: one for one in standings(walked, walked.follow(VIOLATION))}
    assert told["mutual_exclusion"].stands is Stands.VIOLATED
    assert told["mutual_exclusion"].because == (
        "c=c0, d=c1: phase(c0) = holding, phase(c1) = holding",)
    assert told["the_lock_is_held"].stands is Stands.SEEN
    assert told["the_lock_is_held"].because == ("after step 6: c=c1: phase(c1) = holding",)
    assert told["the_last_round_is_over"].stands is Stands.UNSEEN
    assert told["the_lock_comes_back"].stands is Stands.OWED
    assert told["the_lock_comes_back"].because == ("since step 5",)
    assert told[DEADLOCK].stands is Stands.HOLDS
    assert walked.violated(walked.after(walked.follow(VIOLATION))) == ["mutual_exclusion"]


def test_a_debt_is_settled_by_the_goal() -> None:
    walked = walker()
    path = ["ask(c0, r0)"]
    waits = {one.name: one.stands for one in standings(walked, walked.follow(path))}
    assert waits["a_waiting_client_gets_the_lock"] is Stands.OWED
    path += ["give(c0, r0)", "enter(c0, r0)"]
    holds = {one.name: one.stands for one in standings(walked, walked.follow(path))}
    assert holds["a_waiting_client_gets_the_lock"] is Stands.SETTLED
