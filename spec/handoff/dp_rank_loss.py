"""The data-parallel rank of a room while frames between ranks and decode are lost, and ranks die.

In dp_rank.py `meet`, `met`, `refuse` and `disown` arrive. Here each of them may be lost. None is
sent again: a connection that breaks reports it, and the hand-over fails with its peer (ends.py). So
one property that rests on these frames alone does not hold here: that a conflict reaches decode at
once. All others do: decode never addresses another rank than the one that runs the room, and both
halves of the request end by their clocks.
"""

from typing import Final

from pdproto.spec.handoff.dp_rank import SYSTEM
from pdproto.spec.handoff.dp_rank_claims import PROPERTIES
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import (
    Group,
    Phase,
    Runs,
    disown,
    h,
    meet,
    met,
    network,
    phase,
    refuse,
    runs,
    target,
    x,
)
from pdproto.spec.language import (
    AddFaults,
    Configuration,
    ReplaceProperties,
    Sometimes,
    System,
    Table,
    all_of,
    edited,
    lose,
)

FRAMES: Final = Table(network, rows=tuple(map(lose, (meet, met, refuse, disown))))

# These need that every frame arrives.
_OF_FRAMES: Final = ("L2_a_conflict_reaches_decode", "L2_decode_is_turned_away",
                     "both_meet_without_a_clock")

LOSS: Final[System] = edited(
    SYSTEM, "dp-rank-loss", AddFaults("frames", FRAMES),
    ReplaceProperties((
        *(claim for claim in PROPERTIES if claim.name not in _OF_FRAMES),
        Sometimes("a_rank_meets_decode_which_gives_up", all_of(
            phase(h) == Phase.FAILED, target(h, x), runs(x, h) == Runs.MET)),
    )),
    about="The rank that runs a room, where frames between ranks and decode are lost and ranks "
          "die.",
    configurations={
        "default": Configuration({Group: 2, Life: 1}, faults=("lossy", "frames", "crash"),
                                 dead_bits=True),
        "deep": Configuration({Group: 2, Life: 2}, faults=("frames",), dead_bits=True),
    },
)
