"""The shortest way from a state to one of the wanted states, and the states around a state."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from pdproto.check.engine import Engine
from pdproto.check.explore import GIB, STATES_PER_STEP, SearchLimits, engine_for
from pdproto.check.stepping.walk import Path, Walker
from pdproto.ground.program import Guard, Program

STATES_MAX: Final = 5_000_000  # of one search for a way: a few seconds
BYTES_MAX: Final = GIB
NEIGHBOURS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Way:
    """The answer to "how do I get there". path: None if no way was found.

    complete: whether the search has visited every state, so that without a path there is no way.
    """

    path: Path | None
    states: int
    complete: bool


def shortest(
    walker: Walker, state: int, wanted: Sequence[Guard], states_max: int = STATES_MAX
) -> Way:
    """The shortest way from the state to a state in which one of the guards holds."""
    return _searched(walker, replace(walker.form, initial=(state,), patterns=tuple(wanted)),
                     lambda engine: list(engine.hits.values()), states_max)


def shortest_to_deadlock(walker: Walker, state: int, states_max: int = STATES_MAX) -> Way:
    """The shortest way from the state to one where nothing more can happen and no run may end."""
    return _searched(walker, replace(walker.form, initial=(state,), patterns=()),
                     lambda engine: [one for one in engine.stuck[1:] if one is not None],
                     states_max)


def _searched(
    walker: Walker, form: Program, ends: Callable[[Engine], list[int]], states_max: int
) -> Way:
    """Search up to the end of the level with the first end. ends: the ids of those found so far."""
    engine = engine_for(form, 1, SearchLimits(bytes_max=BYTES_MAX))
    try:
        more = True
        while more and engine.states < states_max:
            more = engine.step(min(STATES_PER_STEP, states_max))
            if engine.at_level_end and ends(engine):
                break
        found = [_states_to(engine, identity) for identity in ends(engine)]
        visited = engine.states
    except MemoryError:
        return Way(None, engine.states, complete=False)
    finally:
        engine.close()
    path = _rows_along(walker, min(found, key=len)) if found else None
    return Way(path, visited, complete=not more)


def _states_to(engine: Engine, identity: int) -> list[int]:
    states = [engine.state(identity)]
    while (parent := engine.parent(identity)) is not None:
        identity = parent
        states.append(engine.state(identity))
    return states[::-1]


def _rows_along(walker: Walker, states: Sequence[int]) -> Path:
    return tuple(
        next(label for label, after in walker.successors(before) if after == wanted)
        for before, wanted in pairwise(states)
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A state near another one. path: the shortest way there. violated: what fails in it."""

    path: Path
    state: int
    violated: tuple[str, ...]
    stuck: bool
    expanded: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The states near a state, nearest first, with every transition between them.

    edges: (from, to, label of the row) by the numbers of the nodes. complete: whether no further
    state can be reached.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, str], ...]
    complete: bool


def neighbourhood(walker: Walker, state: int, states_max: int = NEIGHBOURS_MAX) -> Neighbourhood:
    """Up to `states_max` states around the state, breadth first."""
    paths: dict[int, Path] = {state: ()}
    numbers = {state: 0}
    edges: list[tuple[int, int, str]] = []
    queue = deque([state])
    cut: set[int] = set()
    while queue:
        here = queue.popleft()
        for label, after in walker.successors(here):
            if after not in numbers:
                if len(numbers) >= states_max:
                    cut.add(here)
                    continue
                numbers[after] = len(numbers)
                paths[after] = (*paths[here], label)
                queue.append(after)
            edges.append((numbers[here], numbers[after], label))
    nodes = tuple(
        Node(path, one, tuple(walker.violated(one)), walker.is_stuck(one), one not in cut)
        for one, path in paths.items()
    )
    return Neighbourhood(nodes, tuple(edges), not cut)
