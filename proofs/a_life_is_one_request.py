"""Claim: a life is one request of its room, on every rank of a prefill server, and no request is
two lives, for any number of ranks, lives, requests and sinks, under any loss. A sink that succeeds
has the parts of all ranks, and of one request. This holds where one rank decides (`binding`), where
the caller names the request (`binding-named`), and, of a success, where each rank decides for
itself (`binding-guarded`).

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/binding_lemmas.py,
binding_named_lemmas.py and binding_guarded_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: a life has one leader; the caller gives each number to one life.
Vacuity: every row can fire in a state in which all claims hold, but `find_mixed` where no rank is
wrong, and a loss of the answer of a leader where none leads. Mutants: ranks that bind as lives
come, a life that has ended and takes any request, a rank that binds a life to any request, and a
sink that compares nothing.
Not covered: liveness, see a_life_and_its_request_are_bound.py.
"""

from pdproto.spec.handoff.binding_tables import d, h, knows, named, p, took, u, v
from pdproto.spec.language import DropClause, forall, implies
from proofs.claim import Known, Safety

LED = Safety(
    "binding", impossible=("find_mixed",), slow=("holds", "something", "lemmas", "defect"),
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
