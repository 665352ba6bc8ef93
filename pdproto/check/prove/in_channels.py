"""Obligations about the order in a channel, which no engine of the prover knows.

A row that takes or sends in a channel moves messages from place to place. The engines leave these
moves out. That is sound for a claim that mentions no message of a channel: the row then fires more
often than in the protocol, because no channel is ever full. All other claims are refused there.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Final, TypeAlias

from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Method, Obligation
from pdproto.spec.language.channels import is_about_channel, uses_channel
from pdproto.spec.language.system import System

Decide: TypeAlias = Callable[[System, Sequence[Obligation], float], Iterator[Judgement]]

REFUSED: Final = Judgement(
    Status.REFUSED,
    "the prover does not know the order of the messages in a channel: bound the search with "
    "--bmc K, or explore sizes with `pdproto check`",
)
# A claim of these kinds is about the effects of its row, and not only about its formula.
_OF_EFFECTS: Final = (Method.BUSY, Method.RANKING)


def is_refused(obligation: Obligation) -> bool:
    """Whether the obligation is about a channel, at a row that changes one."""
    claim = obligation.claim
    return obligation.row is not None and uses_channel(obligation.row) and (
        claim.method in _OF_EFFECTS or is_about_channel(claim.formula))


def without_channels(decide: Decide) -> Decide:
    """The engine's `decide`, which is not asked about what is refused."""

    @wraps(decide)
    def decided(
        system: System, obligations: Sequence[Obligation], timeout_s: float
    ) -> Iterator[Judgement]:
        asked = [one for one in obligations if not is_refused(one)]
        answers = decide(system, asked, timeout_s) if asked else iter(())
        for obligation in obligations:
            yield REFUSED if is_refused(obligation) else next(answers)

    return decided
