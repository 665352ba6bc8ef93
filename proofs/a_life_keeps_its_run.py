"""Claim: a transfer begins with the run of each rank that the sink has looked up and met, and with
no other. A failed look-up begins no transfer, no other run takes a life over, and the promises
of the transfer alone hold behind a bootstrap too, for any number of ranks, runs, lives, sinks,
pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/end_to_end_bootstrap_lemmas.py, each
with its reason, and those of both parts.
Bound: none, on any sort. Assumes: a run that is found gone is gone; a finished fence keeps writes
out (rule 2 of spec/handoff/engine.py).
Vacuity: every row can fire in a state in which all claims hold. Mutants: a run that welcomes a sink
that means another run; a sink that opens its receiver before every rank has welcomed it; a
process that dies and takes only one of its lives along, which no search with one life can see.
Not covered: liveness (a_looked_up_hand_over_drains.py).
"""

from dataclasses import replace

from pdproto.spec.handoff.bootstrap import Phase, d, e, f, h
from pdproto.spec.handoff.end_to_end_bootstrap import CRASH, TAKEN_ALONG, begun, phase
from pdproto.spec.handoff.ends import Sending, p, sending
from pdproto.spec.language import DropClause, ReplaceRow
from pdproto.spec.lemmas.end_to_end_bootstrap_lemmas import BRIDGE
from proofs.claim import Safety

_DIES = CRASH.row("crash")
ONE_ALONE = replace(
    _DIES, choose=(p, e, h), when=[*_DIES.conditions, begun(p, e, h)],
    do=[*(one for one in _DIES.do if one != TAKEN_ALONG), sending(p, h).to(Sending.GONE)])

CLAIM = Safety(
    "end-to-end-bootstrap", whole=True, bridge=BRIDGE, slow=("holds", "lemmas"),
    nightly=("holds-end-to-end-bootstrap",),
    defects=(
        DropClause("accept", f.same(e)),
        DropClause("open_receiver", phase(d, h) == Phase.WAITING_FOR_INPUT),
        ReplaceRow("crash", ONE_ALONE),
    ),
)
