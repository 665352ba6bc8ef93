"""The lemmas and rankings of a system name parts of it only: symbols, sorts, claims and rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pdproto.spec.language.formula import Formula, atoms, every_variable, free_variables
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.place import Place, SpecError
from pdproto.spec.language.properties import Always
from pdproto.spec.language.ranking import Monotone, Ranking
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System


def check_names(
    system: System, lemmas: Iterable[Always], monotone: Iterable[Monotone],
    rankings: Iterable[Ranking],
) -> None:
    """Raise SpecError for a formula about a symbol or a sort that the system lacks, and for a
    witness that is not in its claim.
    """
    for formula, place, told in _formulas(lemmas, monotone, rankings):
        for symbol in strange(system, formula):
            raise SpecError(place, f"{told} mentions {_not_of(system, symbol)}")
        free, bound = every_variable(formula)
        for variable in (*free, *bound):
            if type(variable) not in system.sorts:
                raise SpecError(place, f"{told} has {variable!r}, a variable of the sort "
                                       f"{type(variable).__name__}, which {system.name} does not "
                                       "have")


def check_rows(rankings: Iterable[Ranking], systems: Iterable[System]) -> None:
    """Raise SpecError for a helper that is a row of none of these systems."""
    known = {row.name for system in systems for _, row in system.rows()}
    for ranking in rankings:
        for helper in ranking.helpers:
            if helper.row not in known:
                raise SpecError(ranking.place, f"ranking of {ranking.leads_to!r}: there is no row "
                                f"{helper.row!r}{suggestion(helper.row, known)}")


def check_named(
    ranking: Ranking, what: str, at: Mapping[Sort, Sort], own: Sequence[Sort], named: Sequence[Sort]
) -> None:
    """Raise SpecError where `at` maps another variable than the own ones, or to an element without
    a name.
    """
    for variable, element in at.items():
        if variable not in own:
            raise SpecError(ranking.place, f"{what} has no variable {variable!r}")
        if element not in named:
            raise SpecError(ranking.place, f"{what} at {element!r}: no such witness")


def strange(system: System, formula: Formula) -> list[Symbol]:
    """The symbols of the formula that the system does not have."""
    known = {*system.variables, *system.rigids}
    return [atom.symbol for atom, _ in atoms(formula) if atom.symbol not in known]


def _formulas(
    lemmas: Iterable[Always], monotone: Iterable[Monotone], rankings: Iterable[Ranking],
) -> Iterator[tuple[Formula, Place, str]]:
    for lemma in lemmas:
        yield lemma.claim, lemma.place, f"lemma {lemma.name!r}"
    for predicate in monotone:
        yield predicate.claim, predicate.place, f"the monotone predicate {predicate.name!r}"
    for ranking in rankings:
        parts = [*ranking.assumed.values(), *(helper.when for helper in ranking.helpers)]
        parts += () if ranking.pending is None else (ranking.pending,)
        told = f"ranking of {ranking.leads_to!r}"
        for witness in ranking.witnesses:
            parts.append(witness.claim)
            if witness.variable not in free_variables(witness.claim):
                raise SpecError(ranking.place, f"{told}: the witness {witness.variable!r} is not "
                                               "in its claim")
        yield from ((part, ranking.place, told) for part in parts)


def _not_of(system: System, symbol: Symbol) -> str:
    if any(symbol.name == other.name for other in (*system.variables, *system.rigids)):
        return (f"{symbol}, which is not {system.name}'s {symbol} but another of that name: the "
                f"spec has been imported twice, by two names; import it by one")
    return f"{symbol}, which {system.name} does not have"
