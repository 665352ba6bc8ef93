"""Claim: a hand-over of a routed room drains as it does alone; a sink that is turned away ends; the
end of a sender ends its room; and every listed room is struck out, for any number of groups, ranks,
rooms, sinks, pages and chunks (L1 to L4 of end-to-end-routing).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of the transfer
(every_hand_over_drains.py) hold here as they are; spec/lemmas/end_to_end_routing_ranking.py has
those of the room. It also uses the safety claims of decode_addresses_the_sender_of_a_room.py.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; messages of the router are lost finitely often; finitely many rooms.
The two promises about the end of a room assume that the rule leads to this group, because rooms of
other groups have sources that are not in this system. That a listed room is struck out assumes
also that the source feeds each sink: one that feeds none succeeds at once, and the room waits.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the row
that ends a sink which is turned away, the row that ends the room of a failed sender, and the row
that retires a room.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "end-to-end-routing",
    slow=("holds", "something"),
    nightly=("holds", "something", "defect-tidy_up-a_listed_room_is_struck_out"),
    defects=(
        Pending("open_own_sender", "a_room_that_runs_here_has_a_sender"),
        Pending("open_receiver", "a_room_that_is_found_here_has_a_receiver"),
        Pending("obey_refusal", "a_refusal_ends_the_transfer"),
        Pending("end_room", "a_failed_sender_ends_its_room"),
        Pending("tidy_up", "a_listed_room_is_struck_out"),
    ),
)
