"""Claim: what a node hears of a process decides about it, for any number of runs, lives and
suspicions: a refusal loses it, a proof ends it, a sign of life has it go on, the bound of the
operator ends a suspicion, and no request waits for a process that is over (L7).

Method: a ranking in which nothing need only go forward, because one row ends the wait and stays
enabled for as long (`ends`, spec/language/ranking.py); in spec/lemmas/presence*_ranking.py.
Bound: none. Assumes: every fair row that stays enabled fires; delivery leaves a message on the
network. Not covered: that the end of a process is noticed by silence alone, where old signs of life
are consumed, and that each request ends though suspicions come again and again; they are explored.
Vacuity: each property pends in a state in which all claims hold. Mutants: each of the rows is
missing.
"""

from proofs.claim import Liveness, Pending

TOLD = Liveness("presence-told", defects=(
    Pending("lose", "L7_a_refusal_loses_a_process"),
    Pending("end", "L7_a_proof_ends_a_process"),
    Pending("hear_again", "L7_a_suspected_process_goes_on"),
    Pending("begin_again", "L7_a_lost_process_goes_on"),
))
SILENCE = Liveness("presence-silence", defects=(
    Pending("give_up", "L7_a_silent_process_is_overdue"),))
WAITING = Liveness("presence-waiting", defects=(
    Pending("miss", "L7_no_request_waits_for_a_process_that_is_over"),))
