"""The interpretations of the rigid symbols: the topologies that a check must explore.

A given interpretation is used if it satisfies the axioms. Otherwise all interpretations that
satisfy the axioms are enumerated. Of those that differ only in the names of interchangeable
elements, one is kept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product
from math import factorial, prod
from typing import Any, Final, TypeAlias

from pdproto.check.words import formula_text
from pdproto.ground.grounding import Interpretation
from pdproto.ground.layout import Indices, TooLargeError, at_sizes
from pdproto.spec.language.formula import (
    And,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    free_variables,
)
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Sizes, Tuples
from pdproto.spec.language.system import Configuration, System

AnyRigid: TypeAlias = Rigid[*tuple[Any, ...]]

FREE_TUPLES_MAX: Final = 20  # that is 2^20 candidates
RENAMINGS_MAX: Final = 5_040
CHOICES_MAX: Final = 5_000_000  # of elements for an axiom: they take 5 s


class TopologyError(SpecError):
    """The sizes have no interpretation: `given=` or the axioms exclude them all."""


def interpretations(
    system: System, sizes: Sizes, configuration: Configuration
) -> Iterator[Interpretation]:
    """Every interpretation to explore.

    Raises TopologyError if there is none, and TooLargeError if there are too many candidates, or
    too many choices of elements for an axiom. Raises SpecError for a sort without a size.
    """
    sizes = system.sized(sizes)
    for name, axiom in system.axioms.items():
        if (cases := choices(free_variables(axiom), axiom, sizes)) > CHOICES_MAX:
            raise TooLargeError(f"the axiom {name} has {cases:,} choices of elements at "
                                f"{told_sizes(system, sizes)}")
    fixed: dict[AnyRigid, frozenset[Indices]] = {}
    for symbol in system.rigids:
        given = configuration.given.get(symbol, symbol.given)
        if given is not None:
            fixed[symbol] = _checked(symbol, _given(symbol, given, sizes), sizes)
    free = [symbol for symbol in system.rigids if symbol not in fixed]
    found = False
    seen: set[tuple[frozenset[Indices], ...]] = set()
    for candidate in _candidates(free, sizes):
        given_all = {**fixed, **candidate}
        if not all(_true(axiom, sizes, given_all) for axiom in system.axioms.values()):
            continue
        found = True
        if _is_new(tuple(given_all.values()), list(given_all), sizes, seen):
            yield given_all
    if not found:
        raise TopologyError(system.place, _why_none(system, sizes, fixed, free))


def has_interpretation(system: System, configuration: Configuration) -> bool:
    """Whether the rigid symbols have an interpretation, or too many candidates to enumerate."""
    try:
        next(interpretations(system, configuration.sizes, configuration))
    except TopologyError:
        return False
    except TooLargeError:
        return True
    return True


def smallest_first(system: System) -> list[Configuration]:
    """The configurations of the system that give a size to each sort, the smallest first."""
    whole = [c for c in system.configurations.values() if {*system.sorts} <= {*c.sizes}]
    return sorted(whole, key=lambda configuration: sum(configuration.sizes.values()))


def told_sizes(system: System, sizes: Sizes) -> str:
    """The sizes of the system's sorts, as in `Client=3 Round=2`."""
    return at_sizes({sort: sizes[sort] for sort in system.sorts})


def choices(variables: Sequence[Sort], formula: Formula, sizes: Sizes) -> int:
    """How many choices there are of elements for these variables and the bound ones."""
    return prod(sizes[type(v)] for v in variables) * _cases(formula, sizes)


def _cases(formula: Formula, sizes: Sizes) -> int:
    match formula:
        case And(parts) | Or(parts):
            return max(1, sum(_cases(part, sizes) for part in parts))
        case Not(part):
            return _cases(part, sizes)
        case Forall(variable, body) | Exists(variable, body):
            return sizes[type(variable)] * _cases(body, sizes)
        case _:
            return 1


def _why_none(
    system: System,
    sizes: Sizes,
    fixed: Mapping[AnyRigid, frozenset[Indices]],
    free: list[AnyRigid],
) -> str:
    """The axioms that no interpretation satisfies, and the `given=` that cause it, if any."""
    at = told_sizes(system, sizes)
    alone = [
        f"{name}: {formula_text(axiom)}" for name, axiom in system.axioms.items()
        if not any(_true(axiom, sizes, {**fixed, **c}) for c in _candidates(free, sizes))
    ]
    broken = "; ".join(alone) or f"{', '.join(system.axioms)} together"
    told = f"no interpretation of {list(system.rigids)} satisfies the axioms at {at}"
    if not fixed:
        return f"{told}, because none satisfies {broken}"
    given = ", ".join(symbol.name for symbol in fixed)
    return f"{told}, because `given=` of {given} names tuples with which none satisfies {broken}"


def _given(
    symbol: AnyRigid, given: Callable[[Sizes], Tuples], sizes: Sizes
) -> frozenset[Indices]:
    """The tuples of the user's own function. Raises TopologyError for any error of it."""
    try:
        return frozenset(tuple(indices) for indices in given(sizes))
    except Exception as error:
        at = at_sizes(sizes)
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise TopologyError(
            symbol.place, f"`given=` of {symbol.signature} raised {said} for the sizes {at}"
        ) from error


def _checked(symbol: AnyRigid, tuples: frozenset[Indices], sizes: Sizes) -> frozenset[Indices]:
    domain = set(product(*(range(sizes[sort]) for sort in symbol.sorts)))
    stray = tuples - domain
    if stray:
        raise TopologyError(
            symbol.place,
            f"{symbol.signature} is given {min(stray, key=str)}: no such elements",
        )
    return tuples


def _candidates(
    free: list[AnyRigid], sizes: Sizes
) -> Iterator[dict[AnyRigid, frozenset[Indices]]]:
    tuples = [
        (symbol, indices)
        for symbol in free
        for indices in product(*(range(sizes[sort]) for sort in symbol.sorts))
    ]
    if len(tuples) > FREE_TUPLES_MAX:
        raise TooLargeError(
            f"2^{len(tuples)} interpretations of {free} to enumerate: give one with given="
        )
    for truth in product((False, True), repeat=len(tuples)):
        chosen = [entry for entry, holds in zip(tuples, truth, strict=True) if holds]
        yield {
            symbol: frozenset(indices for other, indices in chosen if other is symbol)
            for symbol in free
        }


def _is_new(
    interpretation: tuple[frozenset[Indices], ...],
    symbols: list[AnyRigid],
    sizes: Sizes,
    seen: set[tuple[frozenset[Indices], ...]],
) -> bool:
    """Whether no renaming of it was seen before. Adds all of its renamings to `seen`."""
    if interpretation in seen:
        return False
    sorts = list(dict.fromkeys(s for symbol in symbols for s in symbol.sorts if not s.ordered))
    if prod(factorial(sizes[sort]) for sort in sorts) > RENAMINGS_MAX:
        return True
    for names in product(*(permutations(range(sizes[sort])) for sort in sorts)):
        renaming = dict(zip(sorts, names, strict=True))
        seen.add(
            tuple(
                renamed(symbol, tuples, renaming)
                for symbol, tuples in zip(symbols, interpretation, strict=True)
            )
        )
    return True


def renamed(
    symbol: AnyRigid, tuples: frozenset[Indices], renaming: dict[type[Sort], tuple[int, ...]]
) -> frozenset[Indices]:
    """The relation after its elements have been renamed (sorts not mentioned keep their names)."""
    return frozenset(
        tuple(
            renaming[sort][i] if sort in renaming else i
            for sort, i in zip(symbol.sorts, indices, strict=True)
        )
        for indices in tuples
    )


def _true(axiom: Formula, sizes: Sizes, given: Interpretation) -> bool:
    """Whether the axiom holds for every choice of its free variables."""
    variables = free_variables(axiom)
    return all(
        _holds(axiom, dict(zip(variables, choice, strict=True)), sizes, given)
        for choice in product(*(range(sizes[type(v)]) for v in variables))
    )


def _holds(formula: Formula, env: dict[Sort, int], sizes: Sizes, given: Interpretation) -> bool:
    match formula:
        case And(parts):
            return all(_holds(part, env, sizes, given) for part in parts)
        case Or(parts):
            return any(_holds(part, env, sizes, given) for part in parts)
        case Not(part):
            return not _holds(part, env, sizes, given)
        case Same(left, right):
            return env[left] == env[right]
        case Before(left, right):
            return env[left] < env[right]
        case Forall(variable, body):
            elements = range(sizes[type(variable)])
            return all(_holds(body, {**env, variable: i}, sizes, given) for i in elements)
        case Exists(variable, body):
            elements = range(sizes[type(variable)])
            return any(_holds(body, {**env, variable: i}, sizes, given) for i in elements)
        case Atom(symbol=Rigid() as symbol, arguments=arguments):
            return tuple(env[v] for v in arguments) in given[symbol]
    raise AssertionError(formula)
