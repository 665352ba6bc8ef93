"""A quick check that ends at the first violated property, which *kills* the mutant.

It runs the searches of `check`, but makes no traces. Declared edges are checked separately, because
they are not properties.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from pdproto.check.explore import Exploration, Reductions, SearchLimits, explore
from pdproto.check.liveness import Liveness, graph_for
from pdproto.check.questions import (
    DEADLOCK,
    LeadsToInstance,
    Question,
    leads_to_instances,
    questions,
)
from pdproto.check.refining import refinements
from pdproto.check.result import PropertyKind
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground, ground_for
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.system import Configuration, System

GRAPHS: Final = (Fairness.TIMERS, Fairness.NO_TIMERS, Fairness.CONSUMED)


@dataclass(frozen=True, slots=True)
class Kill:
    """The property that detects a mutant.

    steps: of the shortest run that shows it, a loop included; None for a missing witness.
    """

    property: str
    kind: PropertyKind
    system: str = ""
    configuration: str = ""
    steps: int | None = None

    def within(self, system: str, configuration: str) -> "Kill":
        """The same, with the system and configuration of the search."""
        return replace(self, system=system, configuration=configuration)


class UndecidedError(Exception):
    """A limit was reached before a violation was found."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A search without a violation. states: the sum over all interpretations."""

    states: int


def safety(
    system: System, configuration: Configuration, limits: SearchLimits, *, edges: bool = False
) -> Kill | Seen:
    """The first violated safety property, missing witness or deadlock.

    edges: search only for moves against declared edges. Raises UndecidedError at a limit, and
    SpecError or TooLargeError if there is no ground form.
    """
    missing: dict[str, Kill] | None = None
    states = 0
    for ground in _grounds(system, configuration):
        asked = tuple(q for q in questions(ground) if (q.kind is PropertyKind.EDGES) == edges)
        found = explore(
            ground, asked, reductions=_reductions(configuration), limits=limits,
            deadlocks_matter=not edges,
        )
        try:
            kill = _violated(found, asked, deadlock=not edges)
            if kill is not None:
                return kill
            if not found.complete:
                raise UndecidedError(found.stopped)
            states += found.engine.states
            unseen = dict(_unseen(found, asked))
        finally:
            found.engine.close()
        # A witness in one interpretation is enough.
        missing = unseen if missing is None else {n: k for n, k in missing.items() if n in unseen}
    return next(iter((missing or {}).values()), Seen(states))


def _violated(found: Exploration, asked: Iterable[Question], *, deadlock: bool) -> Kill | None:
    """The first bad pattern that was found; of several in one level, the one declared first."""
    kills = []
    for question in asked:
        hit = found.hit(question) if question.bad else None
        if hit is not None:
            kills.append((found.depth_of(hit), question.name, question.kind))
    _, stuck = found.engine.stuck
    if deadlock and stuck is not None:
        kills.append((found.depth_of(stuck), DEADLOCK, PropertyKind.DEADLOCK))
    if not kills:
        return None
    steps, name, kind = min(kills, key=lambda kill: kill[0])
    return Kill(name, kind, steps=steps)


def _unseen(found: Exploration, asked: Iterable[Question]) -> Iterator[tuple[str, Kill]]:
    for question in asked:
        if not question.bad and found.hit(question) is None:
            yield question.name, Kill(question.name, question.kind)


def liveness(system: System, configuration: Configuration, limits: SearchLimits) -> Kill | Seen:
    """The first refinement that a step violates, or the first `leads_to` that a fair run does.

    Raises the errors of `safety`.
    """
    claims = [claim for claim in system.properties if isinstance(claim, LeadsTo)]
    states = 0
    for ground in _grounds(system, configuration) if system.refinements else ():
        found = _unrefined(ground, configuration, limits)
        if isinstance(found, Kill):
            return found
        states += found.states
    for fairness in GRAPHS:
        owed = [
            (claim, under)
            for claim in claims
            if (under := tuple(f for f in claim.under if graph_for(f) is fairness))
        ]
        for ground in _grounds(system, configuration, fairness) if owed else ():
            watched = [
                (obligation, under)
                for claim, under in owed
                for obligation in leads_to_instances(ground, claim)
            ]
            search = explore(
                ground,
                reductions=Reductions(dead_bits=configuration.dead_bits),
                limits=limits,
                watched=[
                    g for obligation, _ in watched for g in (*obligation.premise, *obligation.goal)
                ],
                keep_going=True,
            )
            try:
                kill = _unfulfilled(search, watched, limits)
                states += search.engine.states
            finally:
                search.engine.close()
            if kill is not None:
                return kill
    return Seen(states)


def _unrefined(ground: Ground, configuration: Configuration, limits: SearchLimits) -> Kill | Seen:
    """The first refinement that a step violates, in one interpretation."""
    every = refinements(ground)
    found = explore(
        ground, reductions=Reductions(dead_bits=configuration.dead_bits), limits=limits,
        watched=[guard for one in every for guard in one.watched], keep_going=True)
    try:
        if stopped := found.stopped or limits.forbid(found.liveness_bytes):
            raise UndecidedError(stopped)
        for one in every:
            broken, _ = one.broken(found)
            if broken is not None:
                return Kill(one.claim.name, PropertyKind.REFINES, steps=len(broken.rows))
        return Seen(found.engine.states)
    finally:
        found.engine.close()


def _unfulfilled(
    found: Exploration,
    watched: Iterable[tuple[LeadsToInstance, tuple[Fairness, ...]]],
    limits: SearchLimits,
) -> Kill | None:
    stopped = found.stopped or limits.forbid(found.liveness_bytes)
    if stopped:
        raise UndecidedError(stopped)
    checked = Liveness(found)
    for obligation, under in watched:
        unfulfilled = checked.unfulfilled(obligation, under)
        if unfulfilled is not None:
            return Kill(
                obligation.claim.name, PropertyKind.LEADS_TO, steps=len(unfulfilled[0].rows)
            )
    return None


def _grounds(
    system: System, configuration: Configuration, fairness: Fairness = Fairness.TIMERS
) -> Iterator[Ground]:
    """The system in each interpretation of its rigid symbols."""
    for given in interpretations(system, configuration.sizes, configuration):
        yield ground_for(system, configuration, given, fairness)


def _reductions(configuration: Configuration) -> Reductions:
    return Reductions(configuration.symmetry, configuration.dead_bits)
