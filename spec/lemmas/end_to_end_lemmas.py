"""Why the composed parts keep their promises: registration, look-up, optimistic prefill and
transfer, for any number of requests, runs, sinks, staging buffers, chunks, pages, slots, running
slots and attempts.

The lemmas that join the bootstrap to the transfer, and a pass to the transfer, are enough for all
three: a pass does not depend on runs, nor a run on passes. One source, as in the latter.
"""

from typing import Final

from pdproto.spec.lemmas import end_to_end_attempts_lemmas as passes
from pdproto.spec.lemmas import end_to_end_bootstrap_lemmas as lookup

ASSUMED: Final = passes.ASSUMED
LEMMAS: Final = tuple({  # the transfer's lemmas are in both
    one.name: one for one in (*lookup.LEMMAS, *passes.LEMMAS)
    if one.name not in passes.NOT_OF_THE_TRANSFER
}.values())
