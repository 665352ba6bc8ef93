"""Random walks through a system, and what they have seen: a first look where exploring is too much.

A walk fires, at each step, one of the rows that change the state, each with the same chance.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from pdproto.check.refining import Refinement, refinements
from pdproto.check.stepping.walk import Path, Walker


@dataclass(slots=True)
class WalkCounts:
    """What the walks have seen so far.

    states: each one, with the properties that fail in it. unrefined: by the states before and after
    a step, the refinements that it violates. fired, enabled: by the name of the row, how many steps
    fired it, and before how many it could fire; some rows change nothing there.
    ended: walks that came to a state that no row changes. violations: an initial state
    and the shortest path to a violation of each property. broken: how many walks violate each.
    """

    walks: int = 0
    steps: int = 0
    ended: int = 0
    states: dict[int, tuple[str, ...]] = field(default_factory=dict)
    unrefined: dict[tuple[int | None, int], tuple[str, ...]] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    enabled: Counter[str] = field(default_factory=Counter)
    violations: dict[str, tuple[int, Path]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


def random_walks(walker: Walker, seed: int, walks: int, steps: int) -> WalkCounts:
    """Walk so often, with at most so many steps. After Ctrl-C: what was seen until then."""
    seen = WalkCounts()
    try:
        watch = _Watch(walker, refinements(walker.ground), seen)
        for number in range(walks):
            chance = random.Random(f"{seed}/{number}")  # noqa: S311 - a seed
            _walk(walker, chance, steps, seen, watch)
            seen.walks += 1
    except KeyboardInterrupt:
        seen.interrupted = True
    return seen


def _walk(
    walker: Walker, chance: random.Random, steps: int, seen: WalkCounts, watch: "_Watch"
) -> None:
    first = state = chance.choice(walker.form.initial)
    path = list[str]()
    broken = set(watch.failing(first, None, state, path))
    for _ in range(steps):
        able = walker.enabled(state)
        choices = [one for one in able if one.changes]
        if not choices:
            seen.ended += 1
            break
        seen.enabled.update({one.ground.row.name for one in able})
        chosen = chance.choice(choices)
        before, state = state, chosen.ground.action.apply(state)
        path.append(chosen.label)
        seen.fired[chosen.ground.row.name] += 1
        seen.steps += 1
        broken |= set(watch.failing(first, before, state, path))
    seen.broken.update(broken)


@dataclass(frozen=True, slots=True)
class _Watch:
    """Judges each state and each step, and notes what it finds."""

    walker: Walker
    refinements: list[Refinement]
    seen: WalkCounts

    def failing(
        self, first: int, before: int | None, after: int, path: list[str]
    ) -> tuple[str, ...]:
        """The properties that fail in the state after the step, or in the step; noted with the path
        if none is shorter. first: the initial state. before: None at the start.
        """
        seen = self.seen
        if after not in seen.states:
            seen.states[after] = tuple(self.walker.violated(after))
        if (before, after) not in seen.unrefined:
            seen.unrefined[before, after] = tuple(dict.fromkeys(
                one.claim.name for one in self.refinements if self._breaks(one, before, after)))
        found = (*seen.states[after], *seen.unrefined[before, after])
        for name in found:
            known = seen.violations.get(name)
            if known is None or len(path) < len(known[1]):
                seen.violations[name] = first, tuple(path)
        return found

    @staticmethod
    def _breaks(one: Refinement, before: int | None, after: int) -> bool:
        if before is None:
            return bool(one.starts(one.image(after)))
        return not one.allows(one.image(before), one.image(after))
