"""Claim: a hand-over drains behind a bootstrap as it does alone; a completed look-up begins the
transfer; a failed one gives everything back; and a run that ends takes its transfers along, for any
number of ranks, runs, lives, sinks, pages and chunks (L1, L3 and L4 of end-to-end-bootstrap).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of the transfer
(every_hand_over_drains.py) hold here as they are, but for the claim of a sink on a run that has
ended; spec/lemmas/end_to_end_bootstrap_ranking.py has that and the others. It also uses the safety
claims of a_life_keeps_its_run.py.
Bound: none, on any sort; but that a run takes its transfers along is shown for one source. Where
there are two, a sink that has the part of a dead one waits for the other, and no message ends that
wait. Assumes: every timer and every fair row that stays enabled fires; messages that are there are
received; runs end finitely often; finitely many lives. A failed look-up and the end of a run assume
that the source feeds each sink.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the row
by which a receiver learns that a run is dead, by which a receiver is opened, and by which a source
gives up a sink that never came.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "end-to-end-bootstrap",
    slow=("holds", "something"),
    nightly=("holds", "something",
             "defect-give_up_waiting-a_failed_look_up_gives_everything_back"),
    defects=(
        Pending("disown", "a_run_disowns_the_lives_of_the_run_before"),
        Pending("notice", "a_run_that_ends_takes_its_transfers_along"),
        Pending("open_receiver", "a_completed_look_up_begins_the_transfer"),
        Pending("give_up_waiting", "a_failed_look_up_gives_everything_back"),
    ),
)
