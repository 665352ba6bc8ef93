"""Random walks through a system, and what they have seen: a first look where exploring is too much.

A walk fires, at each step, one of the rows that change the state, each with the same chance.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from pdproto.check.stepping.walk import Path, Walker


@dataclass(slots=True)
class WalkCounts:
    """What the walks have seen so far.

    states: each one, with the properties that fail in it. fired, enabled: by the name of the row,
    how many steps fired it, and before how many it could fire; some rows change nothing there.
    ended: walks that came to a state that no row changes. violations: an initial state
    and the shortest path to a violation of each property. broken: how many walks violate each.
    """

    walks: int = 0
    steps: int = 0
    ended: int = 0
    states: dict[int, tuple[str, ...]] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    enabled: Counter[str] = field(default_factory=Counter)
    violations: dict[str, tuple[int, Path]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


def random_walks(walker: Walker, seed: int, walks: int, steps: int) -> WalkCounts:
    """Walk so often, with at most so many steps. After Ctrl-C: what was seen until then."""
    seen = WalkCounts()
    try:
        for number in range(walks):
            _walk(walker, random.Random(f"{seed}/{number}"), steps, seen)  # noqa: S311 - a seed
            seen.walks += 1
    except KeyboardInterrupt:
        seen.interrupted = True
    return seen


def _walk(walker: Walker, chance: random.Random, steps: int, seen: WalkCounts) -> None:
    first = state = chance.choice(walker.form.initial)
    path = list[str]()
    broken = set(_failing(walker, first, state, path, seen))
    for _ in range(steps):
        able = walker.enabled(state)
        choices = [one for one in able if one.changes]
        if not choices:
            seen.ended += 1
            break
        seen.enabled.update({one.ground.row.name for one in able})
        chosen = chance.choice(choices)
        state = chosen.ground.action.apply(state)
        path.append(chosen.label)
        seen.fired[chosen.ground.row.name] += 1
        seen.steps += 1
        broken |= set(_failing(walker, first, state, path, seen))
    seen.broken.update(broken)


def _failing(
    walker: Walker, first: int, state: int, path: list[str], seen: WalkCounts
) -> tuple[str, ...]:
    """The properties that fail in the state, noted with the path if none is shorter."""
    if state not in seen.states:
        seen.states[state] = tuple(walker.violated(state))
    for name in seen.states[state]:
        known = seen.violations.get(name)
        if known is None or len(path) < len(known[1]):
            seen.violations[name] = first, tuple(path)
    return seen.states[state]
