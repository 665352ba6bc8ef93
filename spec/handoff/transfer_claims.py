"""More of what the transfer promises: who takes part in it, and that an address is learnt.

A rank whose KV another rank has too feeds no sink, and knows every life all the same.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Memory,
    Receiving,
    Sending,
    abort,
    b,
    claim,
    d,
    feeds,
    h,
    introduce,
    memory,
    p,
    publish,
    receiving,
    sending,
    target,
)
from pdproto.spec.language import Always, Fairness, LeadsTo, all_of, any_of, exists, implies

PARTIES: Final = (
    Always("who_feeds_nothing_is_told_nothing",
           implies(any_of(introduce(d, h, p), publish(d, h, p), abort(d, h, p)), feeds(p, d)),
           why="a rank that takes no part is not failed with those that do"),
    Always("who_feeds_nothing_is_not_awaited",
           implies(~claim(d, h, p).among(Claim.NONE, Claim.TOLD, Claim.OUT), feeds(p, d)),
           why="nobody stops, fences or waits for what cannot write"),
    Always("who_has_failed_asks_for_no_memory",
           implies(receiving(d, h) == Receiving.FAILED, memory(d, h) == Memory.UNASKED),
           why="a failure withdraws the request, whether or not it was granted"),
)

LEARNT: Final = LeadsTo(
    "an_address_is_learnt",
    all_of(receiving(d, h) == Receiving.WAITING, feeds(p, d),
           sending(p, h) == Sending.BOOTSTRAPPING),
    any_of(exists(b, target(p, h, d, b)), sending(p, h) != Sending.BOOTSTRAPPING,
           receiving(d, h) != Receiving.WAITING),
    under=(Fairness.TIMERS, Fairness.CONSUMED),
    why="what is published arrives once, and that is enough",
)
