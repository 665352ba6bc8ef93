"""Why only a process that has ended counts as ended, for any number of its runs."""

from typing import Final

from pdproto.spec.handoff.presence import e, ended, proof
from pdproto.spec.language import Always, implies

LEMMAS: Final = (
    Always("a_proof_is_of_an_end", implies(proof(e), ended(e)),
           why="a process knows its own end, and a successor that of the run before"),
)
