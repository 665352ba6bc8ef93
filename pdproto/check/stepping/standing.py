"""How each property stands at the end of a path: whether it holds there, and if not, why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from pdproto.check.questions import (
    DEADLOCK,
    LeadsToInstance,
    Pattern,
    Question,
    leads_to_instances,
)
from pdproto.check.refining import refinements
from pdproto.check.runs import Transition
from pdproto.check.stepping.walk import Walker
from pdproto.check.words import claim_text
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.refines import Refines

REASONS_MAX: Final = 3  # of one property in one state


class Stands(StrEnum):
    """How a property stands. A single state decides the first two only."""

    HOLDS = "holds"
    VIOLATED = "violated"
    SEEN = "seen"  # a `sometimes` that has held on the path
    UNSEEN = "not seen yet"
    OWED = "owed"  # a `leads to` whose premise has held, and whose goal has not held since
    SETTLED = "nothing owed"


@dataclass(frozen=True, slots=True)
class Standing:
    """One property at the end of a path. because: the values behind it, one line an instance."""

    name: str
    kind: str
    claim: str
    why: str
    stands: Stands
    because: tuple[str, ...] = ()


def standings(walker: Walker, moves: Sequence[Transition]) -> Iterator[Standing]:
    """Every property of the system, in the order of `pdproto check`."""
    states = [walker.initial, *(move.after for move in moves)]
    for question in walker.questions:
        if question.bad:
            yield _of_state(walker, question, states[-1])
        else:
            yield _on_path(walker, question, states)
    for claim in walker.system.properties:
        if isinstance(claim, LeadsTo):
            yield _leads_to(walker, claim, states)
        elif isinstance(claim, Refines):
            yield _refines(walker, claim, states)
    yield _deadlock(walker, states[-1])


def _of_state(walker: Walker, question: Question, state: int) -> Standing:
    broken = [one for one in question.patterns if one.guard.holds(state)]
    because = tuple(_because(walker, one, state) for one in broken[:REASONS_MAX])
    stands = Stands.VIOLATED if broken else Stands.HOLDS
    return Standing(question.name, question.kind.value, question.claim, question.why, stands,
                    because)


def _because(walker: Walker, pattern: Pattern, state: int) -> str:
    where = f"{pattern.instance}: " if pattern.instance else ""
    return where + ", ".join(walker.values(pattern.guard, state))


def _on_path(walker: Walker, question: Question, states: Sequence[int]) -> Standing:
    told = Standing(question.name, question.kind.value, question.claim, question.why,
                    Stands.UNSEEN)
    for number, state in enumerate(states):
        held = next((one for one in question.patterns if one.guard.holds(state)), None)
        if held is not None:
            when = f"after step {number}" if number else "at the start"
            return Standing(told.name, told.kind, told.claim, told.why, Stands.SEEN,
                            (f"{when}: {_because(walker, held, state)}",))
    return told


def _leads_to(walker: Walker, claim: LeadsTo, states: Sequence[int]) -> Standing:
    owed = []
    for instance in leads_to_instances(walker.ground, claim):
        since = _owed_since(instance, states)
        if since is not None:
            where = f"{instance.instance}: " if instance.instance else ""
            owed.append(f"{where}since {f'step {since}' if since else 'the start'}")
    return Standing(
        claim.name, "leads_to", claim_text(claim), claim.why,
        Stands.OWED if owed else Stands.SETTLED, tuple(owed[:REASONS_MAX]),
    )


def _refines(walker: Walker, claim: Refines, states: Sequence[int]) -> Standing:
    wrong = []
    for one in refinements(walker.ground, claim):
        images = [one.image(state) for state in states]
        wrong += [one.starts(images[0]), *(
            f"at step {number}: {one.told(before, after)}"
            for number, (before, after) in enumerate(pairwise(images), 1)
            if not one.allows(before, after))]
    because = tuple(filter(None, wrong))[:REASONS_MAX]
    return Standing(claim.name, "refines", claim_text(claim), claim.why,
                    Stands.VIOLATED if because else Stands.HOLDS, because)


def _owed_since(instance: LeadsToInstance, states: Sequence[int]) -> int | None:
    """The number of the step since which the goal is owed; None if it is not."""
    since = None
    for number, state in enumerate(states):
        if any(guard.holds(state) for guard in instance.goal):
            since = None
        elif since is None and any(guard.holds(state) for guard in instance.premise):
            since = number
    return since


def _deadlock(walker: Walker, state: int) -> Standing:
    claim = "wherever nothing more can happen, the state is declared final"
    if not walker.is_stuck(state):
        return Standing(DEADLOCK, "deadlock", claim, "", Stands.HOLDS)
    if walker.is_final(state):
        return Standing(DEADLOCK, "deadlock", claim, "", Stands.HOLDS,
                        ("nothing more can happen, and the run may end here",))
    return Standing(DEADLOCK, "deadlock", claim, "", Stands.VIOLATED,
                    ("nothing more can happen, and the run may not end here",))
