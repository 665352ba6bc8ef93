"""Why a `leads_to` holds for all sizes: what only goes forward, and which rows help.

    RANKINGS = (
        Ranking("L1_a_sink_ends", helpers=(Help("give_up_bootstrap"), Help("give_up_transfer"))),
    )

What is proved of it, and why that is enough: pdproto/check/prove/ranking.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .formula import TRUE, Formula
from .place import Place, SpecError, here
from .sorts import Sort


@dataclass(frozen=True, slots=True)
class Ratchet:
    """Once the claim is true of some elements, no row of the protocol makes it false of them.

    Faults may, for they happen finitely often. A symbol that can only go forward (along declared
    edges without a cycle, or into one value) is a ratchet by itself.
    """

    name: str
    claim: Formula
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Help:
    """A fair row that takes what is pending further, where `when` holds besides its guard.

    Parameters that are called like a variable of the property are that variable; the others stand
    for any elements.
    """

    row: str
    when: Formula = TRUE


@dataclass(frozen=True, slots=True)
class Least:
    """If the claim holds of any element of an ordered sort, then of a first one.

    That is so in every finite order, and not in every order, so that a proof must be told.
    """

    variable: Sort
    claim: Formula

    def __post_init__(self) -> None:
        if not self.variable.ordered:
            sort = type(self.variable).__name__
            raise SpecError(here(), f"{sort} has no order, so there is no first one")


@dataclass(frozen=True, slots=True)
class Ranking:
    """How the `leads_to` of that name is kept: in every pending state one of the helpers can fire.

    finite: first elements that the proof speaks of. assumed: what it takes for granted of rigid
    symbols, by name.
    """

    leads_to: str
    helpers: tuple[Help, ...]
    finite: tuple[Least, ...] = ()
    assumed: Mapping[str, Formula] = field(default_factory=dict)
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)
