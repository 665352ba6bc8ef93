"""Rankings: why a `leads_to` holds for all sizes, by what only goes forward and rows that help.

    RANKINGS = (
        Ranking("L1_a_sink_ends", helpers=(Help("give_up_bootstrap"), Help("give_up_transfer"))),
    )

What is proved of it, and why that is enough: pdproto/check/prove/ranking.py.
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

    Exempt is a row that moves a symbol which can only go forward, or that makes a predicate true
    which is named before this one. Exempt are faults, for they happen finitely often. A symbol that
    can only go forward (along declared edges without a cycle, or into one value) is monotone by
    itself, and need not be named.
    """

    name: str
    claim: Formula
    why: str = ""
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Help:
    """A fair row that takes what is pending further, where `when` holds besides its guard.

    at: which of its parameters is which witness, or variable of the property. A parameter that is
    called like a variable of the property is that variable; all others stand for any elements.
    """

    row: str
    when: Formula = TRUE
    at: Mapping[Sort, Sort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Witness:
    """The variable stands for an element of which the claim holds, if there is any.

    Where the sort is ordered, for the first one: there is one in every finite order, though not in
    every order, so that a proof must be told. Further variables of the claim that are named here
    first are chosen with it.
    """

    variable: Sort
    claim: Formula


@dataclass(frozen=True, slots=True)
class Use:
    """A claim with an `exists` that the proof needs, where its variables are these elements.

    at: which of them is which witness, or variable of the property; the others are any elements.
    """

    claim: str
    at: Mapping[Sort, Sort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How the `leads_to` of that name is kept: in every pending state one of the helpers can fire.

    pending: what holds from the premise to the goal, if that is not the premise itself. witnesses:
    elements that the proof speaks of, in turn. assumed: what it takes for granted of every state
    of a run, by name, above all of rigid symbols.
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
    """Rankings of promises that are made only for runs in which some faults never happen.

    without: the names of those fault layers. lemmas: claims that hold in such runs, and perhaps in
    no others, so that no other ranking rests on them.
    """

    without: tuple[str, ...] = ()
    lemmas: tuple[Always, ...] = ()
    rankings: tuple[Ranking, ...] = ()
