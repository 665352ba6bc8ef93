"""A program of one bit, and what tests ask an engine: its states, edges and depths."""

import pytest

from pdproto.check import native
from pdproto.check.engine import Engine
from pdproto.ground.program import (
    Action,
    Guard,
    Program,
)

needs_compiler = pytest.mark.skipif(
    not native.available(), reason="the native engine was not compiled: no C compiler at install"
)
NOWHERE = Guard(clauses=((),))
ONE_BIT = Program(
    bits=1,
    initial=(0,),
    rows=(Action(Guard(mask=1, value=0), clear=1, assign=1),),
    progress=(True,),
    patterns=(Guard(), NOWHERE, Guard(mask=1, value=1)),
)


def explored(engine: Engine, states_max: int = 1 << 20) -> Engine:
    while engine.step(states_max):
        pass
    return engine


def stored(engine: Engine) -> list[int]:
    """The states by position."""
    return [engine.state(engine.identity(position)) for position in range(engine.states)]


def depth(engine: Engine, identity: int) -> int:
    steps, parent = 0, engine.parent(identity)
    while parent is not None:
        steps, parent = steps + 1, engine.parent(parent)
    return steps


def steps(engine: Engine) -> set[tuple[int, int, int]]:
    """The edges as (state, row, target); checks on the way that rows ascend in each state."""
    states, edges = stored(engine), engine.edges()
    found = set()
    for position, state in enumerate(states):
        mine = slice(edges.starts[position], edges.starts[position + 1])
        rows = edges.rows[mine].tolist()
        assert rows == sorted(set(rows))
        found |= {(state, r, states[t]) for r, t in zip(rows, edges.targets[mine], strict=True)}
    assert len(found) == len(edges.rows) == len(edges.targets)
    return found


def everything(engine: Engine, sample: int = 997) -> list[object]:
    """All that an engine can be asked, ids and positions included; states by a sample."""
    edges = engine.edges()
    identities = [engine.identity(position) for position in range(0, engine.states, sample)]
    return [
        *(engine.states, engine.levels, engine.hits, engine.stuck, engine.bytes),
        *(engine.fired.tobytes(), identities, [engine.state(i) for i in identities]),
        *([engine.parent(i) for i in identities], edges.starts.tobytes()),
        *(edges.targets.tobytes(), edges.rows.tobytes()),
    ]
