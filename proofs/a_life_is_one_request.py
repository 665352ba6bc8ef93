"""Claim: a life is one request of its room, on every rank of a prefill server, and no request is
two lives, for any number of ranks, lives, requests and sinks, under any loss. A sink that succeeds
has the parts of all ranks, and of one request. This holds where one rank decides (`binding`), where
the caller names the request (`binding-named`), and, of a success, where each rank decides for
itself (`binding-guarded`). Where each rank decides for itself and lives come in their order
(`binding-ordered`), a rank binds a life to the request of its place while no end fails there. From
that it follows that all ranks bind it alike (`S2_ranks_bind_a_life_alike_while_nothing_fails`).

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py), in the order of lives also by Z3 with quantifiers; the lemmas are
in spec/lemmas/binding_lemmas.py, binding_named_lemmas.py, binding_guarded_lemmas.py,
binding_ordered_lemmas.py and binding_ordered_loss_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: a life has one leader; the caller gives each number to one life.
In the order of lives each rank leads, lives have a total order, and there are as many as requests:
some of them may never begin or open.
Vacuity: every row can fire in a state in which all claims hold, but `find_mixed` where no rank is
wrong, a loss of the answer of a leader where none leads, the rows of a named request where each
rank leads, and those of an end where none fails. Mutants: ranks that bind as lives come, a life
that has ended and takes any request, a rank that binds a life to any request, a sink that compares
nothing, and, in the order of lives, a rank that binds any life first, or any request, and
introductions that name no earlier life.
Not covered: which lemmas of `binding-ordered` carry a proof, for the cut-off cannot say so of
obligations that only Z3 decides; liveness, see a_life_and_its_request_are_bound.py.
"""

from pdproto.check.prove.proving import QUANTIFIED
from pdproto.spec.handoff.binding_ordered import ALL_EARLIER_MET, NAMING
from pdproto.spec.handoff.binding_tables import OLDEST, d, h, knows, named, p, took, u, v
from pdproto.spec.language import DropClause, DropEffect, forall, implies
from proofs.claim import Known, Safety

LED = Safety(
    "binding", impossible=("find_mixed",), slow=("holds", "something", "lemmas", "defect"),
    nightly=("holds-binding",),  # nodes run the tables of the other three
    defects=(Known("first-come", row="bind"), Known("retry-lost", row="end_named")),
)
NAMED = Safety(
    "binding-named", impossible=("find_mixed", "lose_bound"), slow=("holds", "lemmas"),
    defects=(DropClause("bind_named", named(p, h, u)),),
)
GUARDED = Safety("binding-guarded", slow=("holds", "lemmas"), defects=(
    DropClause("commit", forall((p, u, v), implies(
        took(d, h, p, u) & knows(d, h, v), u.same(v)))),
))
ORDERED = Safety(
    "binding-ordered", whole=True, helped=True, engine=QUANTIFIED, unasked=True,
    impossible=("learn_use_first", "learn_use", "ignore_name", "bind_named", "end_named",
                "find_over", "find_taken", "ignore_ask_of_another", "ignore_ask_bound",
                "ignore_abort_of_another", "lose_name"),
    slow=("holds", "something", "defect"),
    defects=(DropClause("bind", ALL_EARLIER_MET), DropEffect("meet_first", NAMING[0]),
             DropEffect("be_asked_first", NAMING[0])),
)
# No sink has another rank to tell, no end fails, and no part is sent.
ORDERED_LOSS = Safety(
    "binding-ordered-loss", helped=True, engine=QUANTIFIED,
    impossible=(
        "learn_use_first", "learn_use", "ignore_name", "bind_named", "end_named", "find_over",
        "find_taken", "pass_failure_on", "ignore_ask_of_another", "ignore_ask_bound", "done_again",
        "fail_again", "tell_failure", "stop", "stop_again", "ignore_abort_of_another",
        "ignore_abort_unbound", "ignore_bound_success", "take_first", "take", "ignore_done_begun",
        "ignore_done_success_failed", "commit", "find_mixed", "hear_failure",
        "ignore_failed_success_failed", "abort_again", "abort_again_by_name", "lose_name",
        "lose_abort", "lose_done", "lose_failed"),
    defects=(DropClause("bind", OLDEST), DropEffect("be_asked_first", NAMING[0])),
)
