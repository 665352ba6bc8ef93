"""Why the parts hold together: registration, look-up, optimistic prefill and transfer of a room,
for any number of runs, sinks, landings, chunks, pages, slots, running slots and attempts.

What joins the bootstrap to the transfer, and a pass to the transfer, is all that joins the three: a
pass knows nothing of runs, and a run nothing of passes. One life and one source, as each of the two
has it.
"""

from typing import Final

from pdproto.spec.lemmas import end_to_end_attempts_lemmas as passes
from pdproto.spec.lemmas import end_to_end_bootstrap_lemmas as lookup

ASSUMED: Final = {**passes.ASSUMED, **lookup.ASSUMED}
LEMMAS: Final = tuple({  # those of the transfer are in both
    one.name: one for one in (*lookup.LEMMAS, *passes.LEMMAS)
    if one.name not in passes.NOT_OF_THE_TRANSFER
}.values())
