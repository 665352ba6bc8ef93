"""Claim: where no end gives up and the caller names the request, a life and its request are bound
on every rank, or both end, for any number of ranks, lives, requests and sinks, under any loss;
where ends give up, each of them ends (L1 and L2 of `binding-named-no-timeouts`; L1 of the variants
with clocks). Where each rank decides for itself, a life is bound to some request, and each end
hears of its request and of a failure (`binding-guarded-no-timeouts`); where lives come in their
order, too, every rank binds each life to the request of its place, if no end fails (L1 of
`binding-ordered-loss`).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/binding_guarded_ranking.py, binding_named_no_timeouts_ranking.py,
binding_ordered_loss_ranking.py and binding_ranking.py, with the lemmas that only these need. They
also use the safety claims of a_life_is_one_request.py. In `binding-ordered-loss` Z3 with
quantifiers decides what the cut-off leaves open, because each place has a life, and each life a
place.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; losses happen finitely often; finitely many requests; the caller gives
each number to one life. In the order of lives there are as many lives as requests: some of them may
never begin or open.
Not covered: delivery that takes the message off the network; the claims without any timer
(`binding-named-no-timers`, `binding-guarded`); these are explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: a sink that asks once,
a rank that tells the request once, or does not bind what it has been told, a life that ends and
leaves its request, and ends without a clock; in the order of lives, a rank that binds nothing, a
sink that asks once or no more when one rank has answered, and a rank that does not meet a life
which asks.
"""

from proofs.claim import Liveness, Pending

GUARDED = Liveness("binding-guarded-no-timeouts", defects=(
    Pending("bind", "L1_a_life_and_a_request_are_bound"),
    Pending("tell_again", "L1_a_sink_learns_its_request"),
    Pending("ask_again", "L2_a_failure_reaches_the_sink"),
    Pending("abort_again", "L2_a_failure_reaches_every_rank"),
))
NAMED = Liveness("binding-named-no-timeouts", defects=(
    Pending("bind_named", "L1_a_request_on_both_servers_is_bound"),
    Pending("find_over", "L2_a_request_that_has_ended_ends_its_life"),
    Pending("end_named", "L2_a_life_that_has_ended_ends_its_request"),
    Pending("abort_again_by_name", "L2_a_failure_reaches_every_rank"),
))
NAMED_IN_TIME = Liveness("binding-named-loss", defects=(
    Pending("give_up", "L1_a_life_ends"),
    Pending("give_up_waiting", "L1_a_request_waits_no_longer"),
))
ORDERED = Liveness("binding-ordered-loss", helped=True, defects=tuple(
    Pending(row, "L1_a_life_is_bound_to_the_request_of_its_place")
    for row in ("bind", "ask_again", "be_asked_first")
))
ORDERED_IN_TIME = Liveness("binding-ordered", defects=(
    Pending("give_up", "L1_a_life_ends"),
    Pending("give_up_waiting", "L1_a_request_waits_no_longer"),
))
