"""Sieves of guessed lemmas: which claims the start and each row keep, and which ones they need."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.cutoff import WEAKENED_MAX, ground
from pdproto.check.prove.obligations import Claim, Obligation
from pdproto.check.prove.sat import Answer, Solver
from pdproto.spec.language.system import System

CLAUSES_MAX: Final = 20_000_000  # of all questions of a search, which are kept: about 2 GB
ALONE_MAX: Final = 3_000_000  # clauses of what is asked about one obligation: about 20 s
SOLVER: Final = 170_000  # clauses that take as much memory as a solver without any, 17 MB


class Budget:
    """The clauses that the questions of one search may still have, all together."""

    def __init__(self) -> None:
        self.left = CLAUSES_MAX
        self._alone = ALONE_MAX

    def ask_alone(self, clauses: int) -> None:
        """Ask about one obligation. Raises TooManyClausesError if that was done too often."""
        self._alone -= clauses
        if self._alone < 0:
            raise TooManyClausesError(f"the questions about claims with an `exists` have more than "
                                      f"{ALONE_MAX:,} clauses together")

    def take(self, clauses: int) -> None:
        """Keep a question with so many. Raises TooManyClausesError if there is no room for it."""
        if SOLVER + clauses > self.left:
            raise TooManyClausesError(
                f"the questions have more than {CLAUSES_MAX:,} clauses together")
        self.left -= SOLVER + clauses


def sieves_of(
    system: System, every: Sequence[Obligation], timeout_s: float
) -> tuple["Sieve", ...]:
    """A sieve for the start and for each row, with its obligations.

    Raises TooManyClausesError if they take too much memory together.
    """
    groups: dict[str, list[Obligation]] = {}
    for obligation in every:
        groups.setdefault(obligation.scope, []).append(obligation)
    budget = Budget()
    return tuple(Sieve(system, group, timeout_s, budget) for group in groups.values())


def inductive_of(every: tuple[Claim, ...], sieves: Sequence["Sieve"]) -> tuple[Claim, ...]:
    """The greatest set of the claims that is inductive."""
    live = {claim.name for claim in every}
    while True:
        before = len(live)
        for sieve in sieves:
            sieve.drop_from(live)
        if len(live) == before:
            return tuple(claim for claim in every if claim.name in live)


def needed_of(every: Sequence[Claim], sieves: Sequence["Sieve"]) -> frozenset[str]:
    """Names of claims that suffice, short ones first; no single lemma of them can be left out."""
    order = [claim.name for claim in every]
    waiting = [claim.name for claim in every if not claim.is_lemma]
    needed = set(waiting)
    while waiting:
        name = waiting.pop(0)
        for sieve in sieves:
            fresh = sieve.missing(name, needed, order)
            needed |= fresh
            waiting += sorted(fresh, key=order.index)
    # A lemma that came in early may follow from those that came later.
    for name in [claim.name for claim in reversed(every) if claim.is_lemma]:
        rest = needed - {name}
        if name in needed and all(sieve.keeps(rest) for sieve in sieves):
            needed = rest
    return frozenset(needed)


class Sieve:
    """The obligations of one row, or of the start: drops claims that are not met."""

    def __init__(
        self, system: System, group: Sequence[Obligation], timeout_s: float, budget: Budget
    ) -> None:
        self._question: Final = _Question(system, group, timeout_s, budget, weakened=False)
        self._system: Final = system
        self._timeout_s: Final = timeout_s
        self._budget: Final = budget
        self._group: Final = tuple(group)
        self._alone: Final[dict[int, _Question | None]] = {}

    def drop_from(self, live: set[str]) -> None:
        """Remove from `live` the claims that are not met where all live claims hold."""
        met: set[int] = set()  # by themselves, with the claims that have an `exists`
        while left := [n for n, one in enumerate(self._group)
                       if one.claim.name in live and n not in met]:
            broken = self._question.broken(left, live)
            if not broken:
                return
            for number in broken:
                name = self._group[number].claim.name
                if name in live and self._core_alone(number, live) is None:
                    live.remove(name)
                else:
                    met.add(number)

    def keeps(self, names: set[str]) -> bool:
        """Whether each of these claims is met where all of them hold."""
        live = set(names)
        self.drop_from(live)
        return live == names

    def missing(self, name: str, needed: set[str], order: Sequence[str]) -> frozenset[str]:
        """Names, of those in `order`, that prove with the needed ones that the claim is met.

        The first ones in `order` that can do it.
        """
        found: set[str] = set()
        for number in (n for n, one in enumerate(self._group) if one.claim.name == name):
            if self._core(number, needed | found) is not None:
                continue
            core = {*(self._core(number, {*order}) or ())}
            for one in sorted(core - needed - found, key=order.index, reverse=True):
                if self._core(number, (needed | found | core) - {one}) is not None:
                    core.remove(one)
            found |= core - needed
        return frozenset(found)

    def _core(self, number: int, names: Collection[str]) -> frozenset[str] | None:
        """Names of claims, of these, that suffice for the obligation; None if all do not."""
        core = self._question.core(number, names)
        return self._core_alone(number, names) if core is None else core

    def _core_alone(self, number: int, names: Collection[str]) -> frozenset[str] | None:
        """The same, as the prover asks a second time: also with claims that have an `exists`."""
        if not self._question.inexact:
            return None
        if number not in self._alone:
            try:
                self._alone[number] = _Question(
                    self._system, self._group[number:number + 1], self._timeout_s, self._budget,
                    weakened=True)
            except TooManyClausesError:
                self._alone[number] = None
        alone = self._alone[number]
        if alone is None:
            return None
        self._budget.ask_alone(alone.count)
        return alone.core(0, names)


class _Question:
    """Obligations of one row as clauses, in which each assumed claim has a switch."""

    def __init__(
        self, system: System, group: Sequence[Obligation], timeout_s: float, budget: Budget, *,
        weakened: bool
    ) -> None:
        most = min(budget.left, WEAKENED_MAX) if weakened else budget.left
        grounded = ground(system, group, weakened=weakened, switched=True, most=most)
        budget.take(grounded.clauses.count)
        self.inexact: Final = bool(grounded.inexact)
        self.count: Final = grounded.clauses.count
        self._solver: Final = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
        self._switches: Final = grounded.switches
        self._selectors: Final = grounded.selectors
        self._fresh: Final[Any] = grounded.clauses.fresh
        self._always: Final = frozenset(system.axioms)  # those with an `exists` have switches too

    def broken(self, numbers: Sequence[int], names: Collection[str]) -> list[int]:
        """Obligations, of these, that are not met where these claims hold; none if all are."""
        some = self._fresh()
        self._solver.require(-some, *(self._selectors[number] for number in numbers))
        answer = self._solver.ask([some, *self._assumed(names)])
        if answer is Answer.UNSATISFIABLE:
            return []
        if answer is Answer.UNKNOWN:
            return [*numbers]
        hit = self._solver.true([self._selectors[number] for number in numbers])
        return [number for number, broken in zip(numbers, hit, strict=True) if broken]

    def core(self, number: int, names: Collection[str]) -> frozenset[str] | None:
        """Names of claims, of these, that suffice for the obligation; None if all do not."""
        asked = [self._selectors[number], *self._assumed(names)]
        if self._solver.ask(asked) is not Answer.UNSATISFIABLE:
            return None
        named = {switch: name for name, switch in self._switches.items()
                 if name not in self._always}
        return frozenset(named[one] for one in self._solver.core() if one in named)

    def _assumed(self, names: Collection[str]) -> list[int]:
        return [switch for name, switch in self._switches.items()
                if name in names or name in self._always]
