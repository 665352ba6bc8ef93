"""Registries that share a store answer from copies of it (replica.py), which may be late.

They say that a rank is missing only after they have read the store to its end.
"""

from typing import Final

from pdproto.spec.handoff.bootstrap import (
    Record,
    d,
    e,
    entry,
    h,
    located,
    lookup,
    p,
    registry_down,
    world,
)
from pdproto.spec.handoff.registry import SYSTEM as REGISTRY
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.language import AddFaults, Configuration, Row, Table, edited

LATE: Final = Table(world, rows=(
    Row("answer_late", choose=(d, h, p, e),
        when=[lookup(d, h, p), entry(p, e) == Record.OVER, ~registry_down()],
        send=[located(d, h, p, e)], fair=False,
        why="the copy still lists a run that the store has struck out"),
))

SYSTEM: Final = edited(
    REGISTRY, "registry-late", AddFaults("late", LATE),
    about="Bootstrap where registries share a store, and answer from copies of it that are late.",
    configurations={
        "default": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("crash", "late"),
            dead_bits=True,
        ),
    },
)
