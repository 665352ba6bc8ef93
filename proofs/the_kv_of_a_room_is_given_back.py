"""Claim: prefill gives the KV of each room back, for any number of rooms, requests and places: the
decode requests that read it end, and then a clock ends the room, or the one that read it last.

Method: a ranking (pdproto/check/prove/ranking.py), in spec/lemmas/keep_ranking.py.
Bound: none. Assumes: every timer fires; a request that is served ends (fair), which the other
tables of the hand-over show.
Vacuity: the property pends in a state in which all claims hold. Mutants: a room that gets no place
where one is free, or waits for one where none is; a read that is not noted; no clock for a kept
room, or for one that is never asked for; pages that are not given back.
"""

from proofs.claim import Liveness, Pending

PROMISE = "L4_the_kv_of_a_room_is_given_back"

CLAIM = Liveness("kept-rooms", promises=(PROMISE,), defects=tuple(
    Pending(row, PROMISE)
    for row in ("keep", "keep_not", "note_end", "end_keep", "end_unasked", "give_back")))
