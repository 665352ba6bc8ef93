"""Claim: a sink that answers Success holds the KV of the prompt that its caller named, for any
number of ranks, lives, requests and prompts of a room, under any loss. This holds where the room
alone names the request (`binding-prompts`) and where the caller numbers it
(`binding-prompts-named`). A life and a request are told that their prompts differ only if they do.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py), in the order of lives also by Z3 with quantifiers; the lemmas are
in spec/lemmas/binding_prompts_lemmas.py and binding_prompts_named_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: each caller names one prompt, and gives one name to all that is
computed alike; the order of lives, see a_life_is_one_request.py.
Vacuity: every row can fire in a state in which all claims hold, but `find_mixed` where the number
names the request. Mutants: a rank that
compares no prompts.
Not covered: that a mix-up is told to both ends, which is explored; bytes, which have digests.
"""

from pdproto.check.prove.proving import QUANTIFIED
from pdproto.spec.handoff.binding_prompts import NAMING_ALIKE
from pdproto.spec.language import DropEffect
from proofs.claim import Known, Safety

BY_ROOM = Safety(
    "binding-prompts", whole=True, helped=True, engine=QUANTIFIED, unasked=True,
    slow=("holds", "something", "defect"),
    defects=(Known("prompt-by-room", row="bind"), DropEffect("meet_first", NAMING_ALIKE[0])),
)
BY_NUMBER = Safety(
    "binding-prompts-named", impossible=("find_mixed",), slow=("holds", "lemmas"),
    defects=(Known("prompt-by-params", row="bind_named"),),
)
