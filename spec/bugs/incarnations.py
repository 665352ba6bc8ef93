"""Defects of what decode knows of its sources' runs, each an edit of incarnations.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.incarnations import (
    ALL_MET,
    SYSTEM,
    Asking,
    e,
    h,
    incarnation,
    p,
    unmet,
)
from pdproto.spec.handoff.roles import Incarnation, Life, Source
from pdproto.spec.language import (
    AddClause,
    Configuration,
    DropClause,
    DropRow,
    Retarget,
    edited,
)

ONE: Final = Configuration({Life: 1, Source: 1, Incarnation: 2})
OVERWRITTEN: Final = "S1_no_write_outlives_its_memory"

BUGS: Final[tuple[Bug, ...]] = (
    Bug("I1", "pdproto, before its hand-overs waited for their sources; found by the simulator",
        "A source restarted before decode had heard of it. Its successor said that it wrote "
        "nothing, and the memory was given away while a write of the dead process was under way.",
        edited(SYSTEM, "I1", DropRow("place"), DropClause("place_and_ask", ALL_MET),
               Retarget("meet_early", at=(Asking.OPEN, Asking.ASKED)),
               AddClause("ignore_greeting_asked", ~unmet(h, p))),
        ONE, OVERWRITTEN, note="the first run that is heard of is not the first that was there"),
    Bug("I2", "pdproto, before its messages named a run",
        "The answer of a restarted source counted for the process before it, whose write was still "
        "under way.",
        edited(SYSTEM, "I2", DropClause("take", incarnation(h, p, e)), DropRow("ignore_answer")),
        ONE, OVERWRITTEN, note="a successor knows nothing of the writes before it"),
)
