"""The properties that runs or traces do not judge, each with the reason; reports name them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from pdproto.check.questions import names
from pdproto.spec.language.properties import Property
from pdproto.spec.language.system import System

ONE_RUN: Final = "one run does not show that a state is never reached"
SHOWN: Final = 3

# The reason why a property of this name is not judged; empty if it is. None: it is derived.
Reason: TypeAlias = Callable[[str, Property | None], str]


def unjudged(system: System, reason: Reason) -> dict[str, str]:
    """Of each property that `check` judges, and others do not, the reason."""
    claims: dict[str, Property] = {claim.name: claim for claim in system.properties}
    return {name: why for name in names(system) if (why := reason(name, claims.get(name)))}


def unjudged_lines(found: Mapping[str, str]) -> Iterator[str]:
    """A line for each reason, with the first properties of which it is one."""
    by_reason: dict[str, list[str]] = {}
    for claim, why in found.items():
        by_reason.setdefault(why, []).append(claim)
    for why, claims in by_reason.items():
        more = len(claims) - SHOWN
        shown = "; ".join(claims[:SHOWN]) + (
            f"; and {more:,} more, which --json lists" if more > 0 else "")
        yield f"not judged: {shown}: {why}"
