"""A system without counts, for a proof at every size.

A proof knows elements, and not how many there are. Two kinds of counts can be said of elements:

Rule 1: "At least k choices satisfy F" names k elements, if k is at most NAMED_MAX.
Rule 2: "More than half of all elements satisfy F" says that a majority does: a set of a sort that
is added to the system, of which is known that any two have an element in common. At given sizes its
sets are the smallest majorities, so both say the same.

Any other count is refused, with its place and its text.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from types import new_class
from typing import Any, Final

from pdproto.check.prove.rewriting import renamed
from pdproto.check.words import formula_text
from pdproto.spec.language.computed import resolved
from pdproto.spec.language.formula import (
    TRUE,
    And,
    AtLeast,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Summand,
    all_of,
    any_of,
    counts,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.kinds import require
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import Place, SpecError
from pdproto.spec.language.properties import Always, InRange, LeadsTo, OnRow, Property, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort, majorities
from pdproto.spec.language.symbols import Computed, Each, Rigid, Update
from pdproto.spec.language.system import System
from pdproto.spec.language.terms import Comparison

NAMED_MAX: Final = 4  # elements that stand for a count


class WithoutCounts:
    """Rewrites the counts of one system."""

    def __init__(self, system: System) -> None:
        self.system: Final = system
        self._members: Final[dict[type[Sort], Rigid[*tuple[Any, ...]]]] = {}

    def rewritten(self) -> System:
        """The system without counts; itself if it has none. Raises SpecError for other counts."""
        system = self.system
        everywhere = (system, *(claim.abstract for claim in system.refinements))
        if not self._members and not any(True for one in everywhere
                                         for formula in one.formulas() for _ in counts(formula)):
            return system
        tables = tuple(map(self._table, system.tables))
        faults = {name: tuple(map(self._table, layer)) for name, layer in system.faults.items()}
        properties = tuple(self._property(one) for one in system.properties
                           if not isinstance(one, InRange))
        final = system.final
        if final is not None:
            final = self.formula(final, system.place, "final")
        configurations = {name: replace(one) for name, one in system.configurations.items()}
        return System(system.name, system.about, tables, properties, final, faults,
                      {**system.axioms, **dict(self._axioms())}, configurations,
                      init=self._init(system), place=system.place)

    def _init(self, system: System) -> Formula | None:
        init = system.init
        return None if init is None else self.formula(init, system.place, "init")

    def lemma(self, lemma: Always) -> Always:
        """The lemma without counts."""
        return replace(lemma, claim=self.formula(lemma.claim, lemma.place, f"lemma {lemma.name!r}"))

    def formula(
        self, formula: Formula, place: Place, what: str, text: str | None = None
    ) -> Formula:
        """The formula without counts. what: begins the error about one that cannot be rewritten.

        text: of the comparison around it, as it is written.
        """
        if not any(True for _ in counts(formula)):
            return formula
        if isinstance(formula, Comparison):
            text = text or formula_text(formula)

        def inner(part: Formula) -> Formula:
            return self.formula(part, place, what, text)

        match formula:
            case And(parts):
                return And(tuple(map(inner, parts)))
            case Or(parts):
                return Or(tuple(map(inner, parts)))
            case Not(part):
                return Not(inner(part))
            case Forall(variable, body):
                return Forall(variable, inner(body))
            case Exists(variable, body):
                return Exists(variable, inner(body))
        assert isinstance(formula, AtLeast)  # noqa: S101 - nothing else has counts inside
        found = self._said(formula)
        if found is None and (other := self._said(formula.negation)) is not None:
            found = Not(other)
        if found is None:
            raise SpecError(place, f"{what}: no proof can say "
                            f"{text or formula_text(formula)}: "
                            f"it knows counts of at most {NAMED_MAX}, and more than half of a "
                            "sort, as in count(v, vote(v)) * 2 > size(Node)")
        return inner(found)

    def _said(self, formula: AtLeast) -> Formula | None:
        found = self._majority(formula)
        return _named(formula) if found is None else found

    def _majority(self, formula: AtLeast) -> Formula | None:
        """The formula that a majority satisfies it, by rule 2; None for another one."""
        match formula:
            case AtLeast((Summand((variable,), cases), whole), bound) if bound == 1:
                pass
            case AtLeast((whole, Summand((variable,), cases)), bound) if bound == 1:
                pass
            case _:
                return None
        sort = type(variable)
        factor = max(number for _, number in cases)
        if factor <= 0 or factor % 2 or [n for _, n in whole.cases] != [-(factor // 2)] or (
                whole.cases[0][0] != TRUE or type(whole.variables[0]) is not sort
                or whole.variables[1:] or {n for _, n in cases} - {0, factor}
                or sort.ordered or sort.of is not None):
            return None
        member = self._member(sort)
        some = member.sorts[0](f"majority_of_{variable.name}")
        holds = any_of(*(case for case, number in cases if number))
        return exists(some, forall(variable, implies(member(some, variable), holds)))

    def _member(self, sort: type[Sort]) -> Rigid[*tuple[Any, ...]]:
        if sort not in self._members:
            name = f"MajorityOf{sort.__name__}"
            kind: type[Sort] = new_class(
                name, (Sort,), {"of": sort, "sets": majorities, "prefix": "majority"})
            self._members[sort] = Rigid(f"in_{name}", kind("m"), sort("x"), given=kind.members)
        return self._members[sort]

    def _axioms(self) -> Iterator[tuple[str, Formula]]:
        for sort, member in self._members.items():
            one, two, x = member.sorts[0]("one"), member.sorts[0]("two"), sort("x")
            yield (f"majorities_of_{sort.__name__}_meet",
                   forall((one, two), exists(x, all_of(member(one, x), member(two, x)))))

    def _table(self, table: Table) -> Table:
        return replace(table, rows=tuple(self._row(row) for row in table.rows))

    def _row(self, row: Row) -> Row:
        def plain(formula: Formula) -> Formula:
            return self.formula(formula, row.place, f"row {row.name!r}")

        def update(one: Update) -> Update:
            if isinstance(one.value, Computed) and any(
                    True for part in resolved(one) for _ in counts(part.where)):
                raise SpecError(row.place, f"row {row.name!r}: no proof can "
                                f"assign a count: {one!r}")
            return one if one.where == TRUE else replace(one, where=plain(one.where))

        send = tuple(replace(one, where=plain(one.where)) if isinstance(one, Each) else one
                     for one in row.send)
        return replace(row, when=tuple(map(plain, row.conditions)), do=tuple(map(update, row.do)),
                       send=send)

    def _property(self, claim: Property) -> Property:
        what = f"property {claim.name!r}"
        match claim:
            case LeadsTo():
                return replace(claim, premise=self.formula(claim.premise, claim.place, what),
                               goal=self.formula(claim.goal, claim.place, what))
            case Always() | Sometimes() | OnRow():
                return replace(claim, claim=self.formula(claim.claim, claim.place, what))
            case Refines():
                return self._refinement(claim)

    def _refinement(self, claim: Refines) -> Refines:
        """The claim without counts: in the abstract system, and in what is mapped to relations."""
        of = claim.abstract
        abstract = replace(
            of, tables=tuple(map(self._table, of.tables)), properties=(), final=None,
            init=self._init(of), configurations={}, like=of,
            faults={name: tuple(map(self._table, layer)) for name, layer in of.faults.items()})

        def plain(update: Update) -> Update:
            value = update.value
            if isinstance(value, Computed) and isinstance(value.term, Formula):
                what = f"property {claim.name!r}"
                return replace(update, value=Computed(self.formula(
                    value.term, claim.place, what)))
            return update

        found = replace(claim, abstract=abstract, mapping=tuple(map(plain, claim.mapping)))
        for formula in found.formulas:
            require(not any(True for _ in counts(formula)), f"property {claim.name!r}: no proof "
                    "can assign a count", claim.place)
        return found


def _named(formula: AtLeast) -> Formula | None:
    """The formula that so many elements satisfy the cases, by rule 1; None for another one."""
    if formula.bound <= 0:
        return TRUE if all(n >= 0 for one in formula.summands for _, n in one.cases) else None
    if formula.bound > NAMED_MAX or any(
            n < 0 or n > NAMED_MAX for one in formula.summands for _, n in one.cases) or any(
            all(n for _, n in one.cases) for one in formula.summands):
        return None
    return any_of(*_ways(formula.summands, formula.bound))


def _ways(summands: tuple[Summand, ...], bound: int) -> Iterator[Formula]:
    """The ways in which some elements together reach the bound."""
    if bound <= 0:
        yield TRUE
        return
    if not summands:
        return
    first, *rest = summands
    paying = [(case, n) for case, n in first.cases if n]
    for length in range(bound + 1):
        for numbers in _multisets(paying, length):
            total = sum(n for _, n in numbers)
            if total - max((n for _, n in numbers), default=0) >= bound:
                continue  # fewer elements suffice
            for others in _ways(tuple(rest), bound - total):
                yield all_of(_several(first.variables, [case for case, _ in numbers]), others)


def _multisets(paying: list[tuple[Formula, int]], length: int) -> Iterator[
        list[tuple[Formula, int]]]:
    if length == 0:
        yield []
        return
    for place, one in enumerate(paying):
        for rest in _multisets(paying[place:], length - 1):
            yield [one, *rest]


def _several(variables: tuple[Sort, ...], cases: list[Formula]) -> Formula:
    """So many different choices of elements, each of which satisfies its case."""
    chosen = [tuple(type(v)(f"{v.name}_{number}") for v in variables)
              for number, _ in enumerate(cases, 1)]
    parts = [renamed(case, dict(zip(variables, own, strict=True)))
             for case, own in zip(cases, chosen, strict=True)]
    parts += [Not(all_of(*(a.same(b) for a, b in zip(one, two, strict=True))))
              for one, two in combinations(chosen, 2)]
    return exists(tuple(v for own in chosen for v in own), all_of(*parts)) if parts else TRUE

