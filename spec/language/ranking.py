"""Rankings: why a `leads_to` holds for all sizes, by monotone predicates and rows that help.

    RANKINGS = (
        Ranking("L1_a_sink_ends", helpers=(Help("give_up_bootstrap"), Help("give_up_transfer"))),
    )

The proof obligations, and why they are enough: pdproto/check/prove/ranking.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .formula import TRUE, Formula
from .place import Place, here
from .properties import Always
from .sorts import Sort


@dataclass(frozen=True, slots=True)
class Monotone:
    """A monotone predicate: once it is true of some elements, no row of the protocol makes it
    false.

    Exempt is a row that moves a symbol which can only go forward, or that makes an earlier
    predicate of the list true. Faults are exempt too, because they happen finitely often. A symbol
    that can only go forward (along declared edges without a cycle, or into one value) is monotone
    by itself, and need not be named.
    """

    name: str
    claim: Formula
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Help:
    """A fair row that makes progress in a pending state, where `when` holds besides its guard.

    at: the witness, or the variable of the property, for each of its parameters. A parameter with
    the name of a variable of the property is that variable; all others stand for any elements.

    ends: the row, and each that disables it, ends the wait itself where it moves nothing that only
    goes forward. Not with `at`.
    """

    row: str
    when: Formula = TRUE
    at: Mapping[Sort, Sort] = field(default_factory=dict)
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Witness:
    """The variable stands for an element for which the claim holds, if there is any.

    Where the sort is ordered, for the first one. Every finite order has a first one, though not
    every order, so a proof must assume it. Further variables of the claim that are named here
    first are chosen with it.
    """

    variable: Sort
    claim: Formula


@dataclass(frozen=True, slots=True)
class Use:
    """A claim with an `exists` that the proof needs, where its variables are these elements.

    claim: its name, or that of a `reject` row, which can never fire. at: the witness, or the
    variable of the property, for each of them; the others are any elements.
    """

    claim: str
    at: Mapping[Sort, Sort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How the `leads_to` of that name is kept: in every pending state one of the helpers can fire.

    pending: the condition from the premise to the goal, if it is not the premise itself. witnesses:
    elements that the proof names, in turn. assumed: assumptions about every state of a run, by
    name, above all about rigid symbols.
    """

    leads_to: str
    helpers: tuple[Help, ...]
    pending: Formula | None = None
    witnesses: tuple[Witness, ...] = ()
    using: tuple[Use, ...] = ()
    assumed: Mapping[str, Formula] = field(default_factory=dict)
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class FaultFree:
    """Rankings for promises about runs in which some faults never happen.

    without: the names of those fault layers. lemmas: claims that hold in such runs, and perhaps in
    no others, so no other ranking uses them.
    """

    without: tuple[str, ...] = ()
    lemmas: tuple[Always, ...] = ()
    rankings: tuple[Ranking, ...] = ()
