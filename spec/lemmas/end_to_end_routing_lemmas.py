"""Why a routed room is transferred by the group that runs it, for any number of groups, ranks,
rooms, sinks and chunks.

The lemmas of the transfer and of the resolution of the rank hold here too. The lemmas below say: a
source has opened its sender for a room of its own group, and a sink its receiver for the group that
it addresses.
"""

from typing import Final

from pdproto.spec.handoff import dp_rank_claims
from pdproto.spec.handoff.end_to_end_routing import HAS_THE_ROOM, ROUTING, addressed, ours
from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    Write,
    c,
    d,
    h,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.routing import x
from pdproto.spec.language import Always, implies
from pdproto.spec.lemmas import dp_rank_lemmas, transfer_lemmas

BRIDGE: Final = (
    Always("a_sending_source_has_the_room",
           implies(ours(x) & ~sending(p, h).among(Sending.UNKNOWN, Sending.FAILED), HAS_THE_ROOM),
           why="a source opens its sender for a room that its own group runs"),
    Always("a_write_is_of_the_room",
           implies(ours(x) & (write(p, h, d, c) != Write.NONE), HAS_THE_ROOM),
           why="a source opens its sender for a room that its own group runs"),
    Always("an_opened_receiver_is_addressed",
           implies(ours(x) & (receiving(d, h) != Receiving.UNKNOWN), addressed(h, x)),
           why="a sink opens its receiver for the group that it addresses"),
    Always("no_source_dies", sending(p, h) != Sending.GONE,
           why="no process dies here"),
)
_PROMISED: Final = tuple(
    ROUTING.claim(one) for one in dp_rank_claims.PROPERTIES if isinstance(one, Always))
LEMMAS: Final = (
    *transfer_lemmas.LEMMAS, *map(ROUTING.claim, dp_rank_lemmas.LEMMAS), *_PROMISED, *BRIDGE,
)
