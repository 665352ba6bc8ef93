"""Claim: a hand-over of decode asks for memory, when it knows the run of each source; no write of
another run outlives the memory; and the memory comes back, for any number of hand-overs, sources
and runs of each (`incarnations`).

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py), and a ranking by
local progress (pdproto/check/prove/ranking.py); the lemmas are in
spec/lemmas/incarnations_lemmas.py, the helping rows in incarnations_ranking.py.
Bound: none, on any sort. Assumes: the last run of a source goes on, and gives signs of life; every
fair row that stays enabled fires; a finished fence keeps writes out.
Vacuity: every row can fire in a state in which all claims hold, and each property pends in some.
Mutants: an answer of any run counts; a hand-over that asks while a source is unknown; and tables
without the last greeting, and without the fence.
"""

from pdproto.spec.handoff.incarnations import e, h, incarnation, p
from pdproto.spec.language import DropClause
from proofs.claim import Known, Liveness, Pending, Safety

SAFE = Safety("incarnations", slow=("holds", "lemmas"), defects=(
    DropClause("take", incarnation(h, p, e)),
    Known("I1", row="place_and_ask"),
))
LIVE = Liveness("incarnations", defects=(
    Pending("meet_last", "a_request_asks_for_memory"),
    Pending("fence", "L4_the_memory_comes_back"),
))
