"""Measures the strength of properties: one of them must detect each mutant of the tables.

    trials = prepared([SYSTEM, SYSTEM_WITH_LOSS])
    for mutant in trials.mutants:
        print(trials.judged(mutant))

Systems that share tables are tried together. A mutant is applied to each system that has its row,
in each configuration, and is killed if one property detects it. Cheap searches come first, mostly
safety before liveness, and the first kill ends the trial. After the cheapest search lint runs: if
it finds an error, the long searches are skipped. Such a mutant has an outcome of its own and does
not count in the score, like a mutant that only declared edges detect. A mutant with the reachable
graph of the original everywhere is equivalent. Any other mutant may break a lemma of the proofs,
which is not a property. If it breaks none, it has survived: a property is missing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from time import monotonic
from typing import Final, TypeAlias

from pdproto.check.explore import GIB, SearchLimits
from pdproto.check.lint import Severity, small, subjects
from pdproto.check.lint.determinism import determinism
from pdproto.check.lint.promises import edges as forbidden_moves
from pdproto.check.lint.remark import Remark
from pdproto.check.lint.subject import LintSubject
from pdproto.check.lint.totality import totality
from pdproto.check.mutate.edits import Mutant, mutants
from pdproto.check.mutate.kills import Kill, Seen, UndecidedError, liveness, safety
from pdproto.check.mutate.same import same_graph
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Always, LeadsTo, OnRow
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.system import Configuration, System

GROWTH_MAX: Final = 10  # a mutant's search may have so many times the states of the original
STATES_MIN: Final = 10_000  # every search may have so many states
WIDE: Final = SearchLimits(bytes_max=2 * GIB)  # for an original, whose searches are known to end
LIVENESS_COSTS: Final = 6  # times the cost of safety, for the same states (measured: 2 to 10)
LEFT_OUT: Final = frozenset({"deep"})  # configurations that take too long for all mutants

Rule: TypeAlias = Callable[[LintSubject], Iterator[Remark]]
# The rules of lint that find errors. `forbidden_moves` also reports moves that it cannot exclude.
RULES: Final[tuple[Rule, ...]] = (totality, determinism)
ALL_RULES: Final[tuple[Rule, ...]] = (*RULES, forbidden_moves)


class MutantOutcome(StrEnum):
    """The result of a mutant. The score is KILLED / (KILLED + UNDECIDED + SURVIVED)."""

    KILLED = "killed"  # by a property
    REFUSED = "refused"  # the spec would be malformed
    EDGES = "edges only"  # by declared edges alone
    LINT = "lint only"  # by an error of lint, and by no property in the cheapest search
    LEMMA = "lemma only"  # by a lemma of the proofs, and by no property
    EQUIVALENT = "equivalent"  # the reachable graph is the same, at every size that is searched
    UNDECIDED = "undecided"  # a limit was reached
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of one mutant. kill: the property, edges or lemma that detects it.

    note: the reason of another outcome. seconds: the time of the trial.
    """

    number: int
    outcome: MutantOutcome
    kill: Kill | None = None
    note: str = ""
    seconds: float = 0.0


class BaseError(Exception):
    """The unchanged system violates a property, or its search reached a limit.

    configuration, property: of the violation; "" for a limit.
    """

    def __init__(self, told: str, configuration: str = "", property: str = "") -> None:  # noqa: A002
        super().__init__(told, configuration, property)
        self.told: Final = told
        self.configuration: Final = configuration
        self.property: Final = property

    def __str__(self) -> str:
        return self.told


@dataclass(frozen=True, slots=True)
class Search:
    """One search in a system. endless: for claims about runs, and not about states. states: of the
    original.
    """

    system: str
    configuration: str
    endless: bool
    states: int = 0

    @property
    def cost(self) -> int:
        """An estimate of the time, to order the searches."""
        return self.states * (LIVENESS_COSTS if self.endless else 1)

    @property
    def limits(self) -> SearchLimits:
        """The limits for the search in a mutant."""
        return SearchLimits(max(STATES_MIN, self.states * GROWTH_MAX), WIDE.bytes_max)

    @property
    def place(self) -> tuple[str, str]:
        """The names of the system and of the configuration."""
        return self.system, self.configuration

    def __str__(self) -> str:
        return f"{self.system}, {self.configuration}"


def prepared(
    systems: Sequence[System], lemmas: Mapping[str, tuple[Always, ...]] | None = None
) -> "Trials":
    """The trials of systems that share tables, after checking the systems. lemmas: by system.

    Raises BaseError if an unchanged system violates a property or cannot be explored within the
    limits, and SpecError or TooLargeError if there is no ground form.
    """
    measured = (measure(s, system) for system in systems for s in searches(system))
    return trials_of(systems, measured, lemmas or {})


def trials_of(
    systems: Sequence[System],
    measured: Iterable[Search],
    lemmas: Mapping[str, tuple[Always, ...]],
) -> "Trials":
    """The trials of systems whose searches have been measured, the cheapest first."""
    cheapest = sorted(measured, key=lambda search: (search.cost, str(search), search.endless))
    # Any imported system may add symbols to a machine. `replace` makes the originals anew, so that
    # they have the same symbols as their mutants.
    return Trials(tuple(map(replace, systems)), tuple(cheapest), lemmas)


def searches(system: System) -> Iterator[Search]:
    """The searches for each mutant of the system, not measured yet.

    Raises SpecError for a system without configurations.
    """
    endless = any(isinstance(claim, LeadsTo | Refines) for claim in system.properties)
    names = [name for name in system.configurations if name not in LEFT_OUT]
    if not names:
        problem = f"{system.name} names no sizes to explore: add configurations="
        raise SpecError(system.place, problem)
    for name in names:
        yield Search(system.name, name, endless=False)
        if endless:
            yield Search(system.name, name, endless=True)


def measure(search: Search, system: System) -> Search:
    """The search, with the number of states of the original. Raises the errors of `prepared`."""
    chosen = system.configurations[search.configuration]
    try:
        seen = _ask(search, system, chosen, WIDE)
        edges = seen if search.endless else safety(system, chosen, WIDE, edges=True)
    except UndecidedError as undecided:
        raise BaseError(f"{search}: {undecided} before anything was mutated") from None
    if isinstance(seen, Seen) and isinstance(edges, Seen):
        return replace(search, states=seen.states)
    kill = seen if isinstance(seen, Kill) else edges
    assert isinstance(kill, Kill)  # noqa: S101 - one of the two is
    told = f"{search}: {kill.property} is violated before anything is mutated"
    raise BaseError(told, search.configuration, kill.property)


def _ask(
    search: Search, system: System, chosen: Configuration, limits: SearchLimits
) -> Kill | Seen:
    if search.endless:
        return liveness(system, chosen, limits)
    return safety(system, chosen, limits)


@dataclass(frozen=True)
class Trials:
    """The mutants of systems that share tables, and the searches for each mutant, in order.

    lemmas: by system, the lemmas of its proofs.
    """

    systems: tuple[System, ...]
    searches: tuple[Search, ...]
    lemmas: Mapping[str, tuple[Always, ...]] = field(default_factory=dict)

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        """All mutants of the systems, by number."""
        return mutants(self.systems)

    @cached_property
    def originals(self) -> Mapping[str, System]:
        """The unchanged systems, by name."""
        return {system.name: system for system in self.systems}

    @cached_property
    def remarks(self) -> Mapping[str, frozenset[str]]:
        """The errors that lint finds in the unchanged systems, by system; usually none."""
        return {system.name: _errors(system, ALL_RULES) for system in self.systems}

    def judged(self, mutant: Mutant) -> Judged:
        """The result of the mutant; it depends neither on the machine nor on earlier trials."""
        began = monotonic()
        try:
            edited = {system.name: mutant.of(system) for system in self.systems}
            systems = {name: system for name, system in edited.items() if system is not None}
            end = _Trial(self, mutant, systems).end()
        except (SpecError, TooLargeError) as refused:
            end = Judged(mutant.number, MutantOutcome.REFUSED, note=str(refused))
        except UndecidedError as limit:
            end = Judged(mutant.number, MutantOutcome.UNDECIDED, note=str(limit))
        return replace(end, seconds=monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Trial:
    """The trial of one mutant. edited: by name, the edited systems that have its row."""

    trials: Trials
    mutant: Mutant
    edited: Mapping[str, System]
    same: dict[tuple[str, str], bool] = field(default_factory=dict)

    def end(self) -> Judged:
        number = self.mutant.number
        limits: list[str] = []
        kill = self.first_kill(self.searches[:1], limits)
        if kill is None:
            error = self.new_error(RULES, self.first_edited)
            if error is not None:
                return Judged(number, MutantOutcome.LINT, note=error)
            kill = self.first_kill(self.searches[1:], limits)
        if kill is not None:
            return Judged(number, MutantOutcome.KILLED, kill)
        if limits:
            return Judged(number, MutantOutcome.UNDECIDED, note=limits[0])
        return self.unnoticed()

    def first_kill(self, searches: Iterable[Search], limits: list[str]) -> Kill | None:
        """The first kill of the searches. A search at its limit is added to `limits`."""
        for search in searches:
            # Safety ends early at a violation. Before a long search it pays to test whether the
            # graphs differ at all.
            if (search.endless or self.quiet) and self.is_same(search):
                continue
            try:
                kill = _ask(search, self.edited[search.system], self.chosen(search), search.limits)
            except UndecidedError as limit:
                # A mutant may have more states only because fewer of them count as equal.
                if not self.is_same(search):
                    limits.append(f"{search}: {limit}")
                continue
            if isinstance(kill, Kill):
                return kill.within(*search.place)
        return None

    def new_error(self, rules: Iterable[Rule], names: Iterable[str]) -> str | None:
        """An error of these rules that the original of one of these systems does not have."""
        for name in names:
            fresh = _errors(self.edited[name], rules) - self.trials.remarks[name]
            if fresh:
                return min(fresh)
        return None

    @property
    def first_edited(self) -> tuple[str, ...]:
        """The first system that has the row; the others are variants of it."""
        return tuple(self.edited)[:1]

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches in systems that have the row, the cheapest first."""
        return tuple(s for s in self.trials.searches if s.system in self.edited)

    @property
    def quiet(self) -> bool:
        """Whether the row changes nothing, and no property mentions it.

        It may still take its message off the network, where delivery does so.
        """
        name = self.mutant.row.name
        claims = [claim for system in self.trials.systems for claim in system.properties]
        spoken_of = any(isinstance(claim, OnRow) and claim.row == name for claim in claims)
        return self.mutant.row.kind == "ignore" and not spoken_of

    def chosen(self, search: Search) -> Configuration:
        return self.trials.originals[search.system].configurations[search.configuration]

    def is_same(self, search: Search) -> bool:
        """Whether the mutant has the graph of the original in this search."""
        if search.place not in self.same:
            original, edited = self.trials.originals[search.system], self.edited[search.system]
            self.same[search.place] = same_graph(
                original, edited, self.mutant, self.chosen(search), WIDE
            )
        return self.same[search.place]

    def unnoticed(self) -> Judged:
        """The result of a mutant that no property has detected."""
        number = self.mutant.number
        different = [s for s in self.searches if not s.endless and not self.is_same(s)]
        for search in different:
            edited = self.edited[search.system]
            kill = safety(edited, self.chosen(search), search.limits, edges=True)
            if isinstance(kill, Kill):
                return Judged(number, MutantOutcome.EDGES, kill.within(*search.place))
        error = self.new_error(ALL_RULES, self.edited)
        if error is not None:
            return Judged(number, MutantOutcome.LINT, note=error)
        for search in different:
            original, edited = self.trials.originals[search.system], self.edited[search.system]
            chosen = self.chosen(search)
            if not same_graph(original, edited, self.mutant, chosen, WIDE, labels=False):
                broken = self.broken_lemma()
                end = MutantOutcome.SURVIVED if broken is None else MutantOutcome.LEMMA
                return Judged(number, end, broken, f"differs in {search}")
        return Judged(number, MutantOutcome.EQUIVALENT)

    def broken_lemma(self) -> Kill | None:
        """The first lemma that fails in a state of the mutant; None if all hold."""
        for search in self.searches:
            lemmas = self.trials.lemmas.get(search.system, ())
            if search.endless or not lemmas or self.is_same(search):
                continue
            base = self.edited[search.system]
            asked = replace(base, properties=lemmas, like=base)
            try:
                kill = safety(asked, self.chosen(search), WIDE)
            except UndecidedError:
                continue
            if isinstance(kill, Kill):
                return kill.within(*search.place)
        return None


def _errors(system: System, rules: Iterable[Rule]) -> frozenset[str]:
    """The errors of these rules as text, without places."""
    found, _ = subjects(system, small(system))
    return frozenset(
        f"{remark.rule}: {remark.message}"
        for subject in found
        for rule in rules
        for remark in rule(subject)
        if remark.severity is Severity.ERROR
    )
