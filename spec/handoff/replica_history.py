"""Registries that share a store, where the world knows itself which beats they have read.

In replica.py a lease ends after every beat that a registry has not counted. So a registry that
counts nothing would let no lease end. Here a relation that no registry reads notes each beat that
has been read, and leases end after the others: a registry that does not count it takes a repeated
beat for a fresh one.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.replica import (
    NETWORK,
    NO_LATE_ANSWER,
    SYSTEM,
    Beat,
    Replica,
    all_copied,
    beat,
    copy,
    counted,
    replica,
)
from pdproto.spec.handoff.roles import Incarnation, Life
from pdproto.spec.language import (
    AddEffect,
    Always,
    Configuration,
    ReplaceProperties,
    ReplaceRow,
    System,
    edited,
    implies,
)

read = replica.relation("read", Beat)

HISTORY: Final[System] = edited(
    SYSTEM, "registry-replica-history",
    *(AddEffect(row, read(copy, beat).to(True)) for row in ("be_current", "stay_current")),
    ReplaceRow("end_lease", replace(NETWORK.row("end_lease"), when=all_copied(read))),
    ReplaceProperties((
        NO_LATE_ANSWER,
        Always("a_beat_that_was_read_counts", implies(read(copy, beat), counted(copy, beat)),
               why="it would make a copy current a second time"),
        Always("a_beat_that_counts_was_read", implies(counted(copy, beat), read(copy, beat)),
               why="no other copy's beat makes this one current"),
    )),
    about="Registries that share a store: leases end after the beats that were read.",
    configurations={
        "default": Configuration({Replica: 1, Incarnation: 1, Beat: 2, Life: 1}),
    },
)
