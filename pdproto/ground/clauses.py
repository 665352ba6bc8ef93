"""Formulas in conjunctive normal form, as lists of clauses.

A list that would be longer than CLAUSES_MAX is not made (diagrams.py is for those).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pdproto.ground.program import Clause

Weighed: TypeAlias = Mapping[int, list[Clause]]

CLAUSES_MAX: Final = 10_000  # of one guard; a formula that needs more does not fit masks

NEVER: Final[list[Clause]] = [()]
TRIVIAL: Final[list[Clause]] = []
TOO_MANY: Final[list[Clause]] = [()]  # by identity: over CLAUSES_MAX clauses, which are not made


def at_least(weighed: list[Weighed], bound: int) -> list[Clause]:
    """The clauses of the formula that the numbers are at least `bound` together.

    The greater the number of the first choice, the less must the others be. So the formula is, for
    each of its numbers: it is a greater one, or the others are at least the rest of the bound.
    """
    least = [min(cases) for cases in weighed]
    most = [max(cases) for cases in weighed]
    known: dict[tuple[int, int], list[Clause]] = {}

    def from_place(place: int, rest: int) -> list[Clause]:
        if rest <= sum(least[place:]):
            return TRIVIAL
        if rest > sum(most[place:]):
            return NEVER
        if (place, rest) not in known:
            cases = weighed[place]
            known[place, rest] = joint(
                product_of([*(cases[n] for n in cases if n > number),
                          from_place(place + 1, rest - number)])
                for number in sorted(cases))
        return known[place, rest]

    return from_place(0, bound)


def static(truth: bool) -> list[Clause]:
    return TRIVIAL if truth else NEVER


def joint(parts: Iterator[list[Clause]]) -> list[Clause]:
    """The clauses of a conjunction; one alone if it cannot hold, so that products stay small."""
    joint: list[Clause] = []
    few = True
    for clauses in parts:
        if () in clauses and clauses is not TOO_MANY:
            return NEVER
        few = few and clauses is not TOO_MANY and len(joint) + len(clauses) <= CLAUSES_MAX
        if few:
            joint += clauses
    return joint if few else TOO_MANY


def product_of(parts: Iterable[list[Clause]]) -> list[Clause]:
    """The clauses of a disjunction: one clause from each part, joined. They are counted first."""
    kept: list[list[Clause]] = []
    count = 1
    for clauses in parts:
        if not clauses:
            return TRIVIAL
        count = min(count * (CLAUSES_MAX + 1 if clauses is TOO_MANY else len(clauses)),
                    CLAUSES_MAX + 1)
        kept.append(clauses)
    if count > CLAUSES_MAX:
        return TOO_MANY
    joined = NEVER
    for clauses in kept:
        joined = [one + two for one in joined for two in clauses]
    return joined
