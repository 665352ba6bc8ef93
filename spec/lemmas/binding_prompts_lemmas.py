"""Why a life gets the KV of its prompt, for any number of ranks, lives, requests and prompts.

As in binding_ordered_lemmas.py and binding_named_lemmas.py, with an order for each prompt.
"""

from typing import Final

from pdproto.spec.handoff.binding_prompts import alike
from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Opening,
    d,
    done,
    h,
    meeting,
    opening,
    p,
    took,
    u,
    v,
)
from pdproto.spec.language import Always, all_of, any_of, implies
from pdproto.spec.lemmas import binding_ordered_lemmas

_ORDER: Final = "requests_are_opened_in_their_order"

# A life that has ended has been bound to a request of another prompt, too: to say so.
SENT: Final = Always(
    "a_part_is_of_a_life_that_is_sent",
    implies(any_of(done(p, h, d, u), took(d, h, p, u)), meeting(p, h) == Meeting.SENT),
    why="a rank sends its part once, and a life that it has sent does not fail there")
LEMMAS: Final = (
    *(lemma for lemma in binding_ordered_lemmas.LEMMAS if lemma.name != _ORDER),
    Always(_ORDER,
           implies(all_of(v.before(u), alike(u, v), opening(p, u) != Opening.NEVER),
                   opening(p, v) != Opening.NEVER),
           why="the ranks open the requests of a prompt in one order"),
    SENT,
)
