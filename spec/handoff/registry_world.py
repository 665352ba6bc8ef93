"""The processes of prefill ranks and the network: what starts, ends and fails under registry.py."""

from typing import Final

from pdproto.spec.handoff.bootstrap import (
    GONE,
    Ready,
    Run,
    back,
    d,
    disconnected,
    e,
    f,
    introduce,
    located,
    lookup,
    missed,
    outdated,
    p,
    ready,
    recorded,
    refuse,
    register,
    registry_down,
    run,
    suspected,
    to_exceed,
    unlocated,
    welcome,
    world,
    z,
)
from pdproto.spec.handoff.roles import Incarnation
from pdproto.spec.language import Call, Row, Table, forall, implies, lose

w = Incarnation("w")
nobody_is_up = forall(w, run(p, w) != Run.UP)

OPERATOR: Final = Table(world, rows=(
    Row("start", on=Call("start", p, e),
        when=[run(p, e) == Run.UNBORN, nobody_is_up,
              forall(f, implies(f.before(e), run(p, f).among(*GONE)))],
        do=[run(p, e).to(Run.UP)]),
    Row("come_back", choose=(p, e, f, z),
        when=[run(p, e) == Run.RENEWED, to_exceed(p, e, f), ~back(p, e),
              run(p, z) == Run.UNBORN, f.before(z), nobody_is_up],
        do=[run(p, z).to(Run.UP), back(p, e).to(True)],
        why="the process goes on, under a number above the one that the registry named"),
))
ALARM: Final = Table(world, rows=(
    Row("find_silent", choose=(p, e), when=run(p, e) == Run.UP, send=[suspected(p, e)], fair=False,
        why="the process or its network stood still: the registry's detector is wrong"),
))
CLOCKS: Final = Table(world, rows=(
    Row("start_out_of_order", choose=(p, e), when=[run(p, e) == Run.UNBORN, nobody_is_up],
        do=[run(p, e).to(Run.UP)], fair=False,
        why="the clock of a successor is behind, or was ahead before"),
))
CRASH: Final = Table(world, rows=(
    Row("crash", choose=(p, e), when=run(p, e) == Run.UP, do=[run(p, e).to(Run.CRASHED)],
        send=[suspected(p, e), missed(p, e)], fair=False, why="a process dies without a message"),
))
DISCONNECTED: Final = Table(world, rows=(
    Row("disconnect", choose=(d, p, e), when=run(p, e) == Run.UP, send=[disconnected(d, p, e)],
        fair=False, why="the network was cut for a moment: the sink's detector is wrong"),
))
OUTAGE: Final = Table(world, rows=(
    Row("go_down", when=ready() != Ready.DOWN, do=[ready().to(Ready.DOWN)], send=[registry_down()],
        fair=False, why="the registry stops, and does not come back"),
))
LOSSY: Final = Table(world, rows=tuple(
    lose(message) for message in (
        register, recorded, outdated, lookup, located, unlocated, introduce, welcome, refuse,
    )
))
