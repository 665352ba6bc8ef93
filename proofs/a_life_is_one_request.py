"""Claim: where the caller names the request (`binding-named`), a life is one request of its room,
on every rank of a prefill server, and no request is two lives, for any number of ranks, lives,
requests and sinks, under any loss. A sink that succeeds has the parts of all ranks, and of one
request, also where each rank decides for itself (`binding-guarded`). Where lives come in their
order (`binding-ordered`), a rank binds a life to the request of its place while no end fails there.
From that it follows that all ranks bind it alike
(`S2_ranks_bind_a_life_alike_while_nothing_fails`).

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py), in the order of lives also by Z3 with quantifiers; the lemmas are
in spec/lemmas/binding_lemmas.py, binding_named_lemmas.py, binding_ordered_lemmas.py and
binding_ordered_loss_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: the caller gives each number to one life. In the order of lives,
lives have a total order, and there are as many as requests: some of them may never begin or open.
Vacuity: every row can fire in a state in which all claims hold, but `find_mixed` where the caller
names the request, and the rows of an end where none fails. Mutants: a rank that binds a life to any
request, a sink that compares nothing, and, in the order of lives, a rank that binds any life first,
or any request, and introductions that name no earlier life.
Not covered: which lemmas of `binding-ordered` carry a proof, for the cut-off cannot say so of
obligations that only Z3 decides; liveness, see a_life_and_its_request_are_bound.py.
"""

from pdproto.check.prove.proving import QUANTIFIED
from pdproto.spec.handoff.binding_named import named
from pdproto.spec.handoff.binding_ordered import ALL_EARLIER_MET, NAMING
from pdproto.spec.handoff.binding_tables import OLDEST, d, h, knows, p, took, u, v
from pdproto.spec.language import DropClause, DropEffect, forall, implies
from proofs.claim import Known, Safety

NAMED = Safety(
    "binding-named", impossible=("find_mixed",), slow=("holds", "lemmas"),
    defects=(Known("retry-lost", row="end_named"), DropClause("bind_named", named(p, h, u))),
)
GUARDED = Safety("binding-guarded", slow=("holds", "lemmas"), defects=(
    DropClause("commit", forall((p, u, v), implies(
        took(d, h, p, u) & knows(d, h, v), u.same(v)))),
))
ORDERED = Safety(
    "binding-ordered", whole=True, helped=True, engine=QUANTIFIED, unasked=True,
    slow=("holds", "something", "defect"),
    defects=(DropClause("bind", ALL_EARLIER_MET), DropEffect("meet_first", NAMING[0]),
             DropEffect("be_asked_first", NAMING[0])),
)
# No end fails, and no part is sent.
ORDERED_LOSS = Safety(
    "binding-ordered-loss", helped=True, engine=QUANTIFIED,
    impossible=(
        "pass_failure_on", "done_again", "fail_again", "tell_failure", "stop",
        "stop_again", "ignore_abort_unbound", "ignore_bound_success", "take_first", "take",
        "ignore_done_begun", "ignore_done_success_failed", "commit", "find_mixed", "hear_failure",
        "ignore_failed_success_failed", "abort_again", "lose_abort", "lose_done", "lose_failed"),
    defects=(DropClause("bind", OLDEST), DropEffect("be_asked_first", NAMING[0])),
)
