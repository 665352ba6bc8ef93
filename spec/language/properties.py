"""Properties. Free variables stand for all elements in `always` and `leads_to`, and for some
elements in `sometimes`. Give each `always` a `sometimes` beside it, so that no property passes
only because nothing happens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from .formula import TRUE, Formula
from .kinds import require, require_name, shown
from .place import Place, here
from .refines import Refines


class Fairness(StrEnum):
    """The assumptions about the environment under which a liveness property is claimed.

    Rows are weakly fair: one that stays enabled fires. Faults are never fair and happen finitely
    often, calls are not fair unless a row says so.
    """

    TIMERS = "every timer fires"  # no state waits for ever
    DETECTORS = "safety nets never fire"  # no state waits for a time-out that a message could spare
    NO_TIMERS = "there are no timers"  # messages alone are enough
    # otherwise a message in the set is resent for ever
    CONSUMED = "delivery takes the message off the network"

    @property
    def option(self) -> str:
        """Its name on the command line and in JSON: "no-timers"."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Always:
    """The claim holds in every reachable state.

    by: names of other `always` properties of the system, from which this one follows in each state.
    A proof shows that, in place of an induction over the rows.
    """

    name: str
    claim: Formula
    why: str = ""
    by: tuple[str, ...] = field(default=(), kw_only=True)
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        require_name("property", self.name, self.place)
        require(isinstance(self.by, tuple), f"property {self.name!r}: by= is {shown(self.by)}: "
                                            f'want names, as in by=("a_claim",)', self.place)


@dataclass(frozen=True, slots=True)
class InRange(Always):
    """Where nothing else stops a row, its updates stay in the ranges of their functions.

    A system has one for each row that computes numbers (numbers.py, rule 2).
    """


def in_range_name(of: str) -> str:
    """The name of the claim about the row or the property of this name."""
    return f"{of}_stays_in_range"


@dataclass(frozen=True, slots=True)
class Sometimes:
    """The claim holds in some reachable state."""

    name: str
    claim: Formula
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        require_name("property", self.name, self.place)


@dataclass(frozen=True, slots=True)
class OnRow:
    """Whenever the row can fire, the claim holds. It may use the row's parameters.

    State a permission through the row that uses it. A state formula that mentions a fence assumes
    that the fence works, and misses a fence that does nothing.
    """

    name: str
    row: str
    claim: Formula
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        require_name("property", self.name, self.place)
        require(isinstance(self.row, str), f"property {self.name!r}: want the name of a row, "
                                           f"as text, and not {shown(self.row)}", self.place)


@dataclass(frozen=True, slots=True)
class LeadsTo:
    """From every reachable state where the premise holds, every fair run comes to the goal."""

    name: str
    premise: Formula
    goal: Formula
    why: str = ""
    under: tuple[Fairness, ...] = (Fairness.TIMERS, Fairness.DETECTORS)
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    if TYPE_CHECKING:  # one assumption needs no tuple
        def __init__(
            self,
            name: str,
            premise: Formula,
            goal: Formula,
            why: str = "",
            under: Fairness | tuple[Fairness, ...] = ...,
            *,
            place: Place = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        require_name("property", self.name, self.place)
        under: object = self.under
        if isinstance(under, Fairness):
            object.__setattr__(self, "under", (under,))
            return
        right = isinstance(under, tuple) and under and all(
            isinstance(each, Fairness) for each in under)
        require(bool(right), f"property {self.name!r}: under= is {shown(under)}: want a tuple of "
                             f"Fairness ({', '.join(Fairness.__members__)})", self.place)


def Drains(  # noqa: N802 - reads as a kind of property
    name: str,
    goal: Formula,
    *,
    why: str = "",
    under: Fairness | tuple[Fairness, ...] = (Fairness.TIMERS, Fairness.DETECTORS),
) -> LeadsTo:
    """From every reachable state every fair run comes to the goal."""
    return LeadsTo(name, TRUE, goal, why=why, under=under)


Property: TypeAlias = Always | Sometimes | OnRow | LeadsTo | Refines

PROPERTY_KINDS: Final = (Always, Sometimes, OnRow, LeadsTo, Refines)


def formulas_of(claim: Property) -> Iterator[Formula]:
    """Every formula of a property about the states of its system."""
    match claim:
        case Always() | Sometimes() | OnRow():
            yield claim.claim
        case LeadsTo():
            yield claim.premise
            yield claim.goal
        case Refines():
            yield from claim.formulas
