"""How strong are the properties? Each mutant of the tables must be noticed by one of them.

    trials = prepared([SYSTEM, SYSTEM_WITH_LOSS])
    for mutant in trials.mutants:
        print(trials.judged(mutant))

Systems that share tables are tried together: a mutant is applied to all that have its row, in each
of their configurations, and killed if any property of any notices it. The cheap searches come
first, as a rule safety before liveness, and the first kill ends the trial. Lint is asked after the
cheapest: where it finds an error the long searches are spared. That is told apart, and does not
count, and so is a mutant that declared edges alone notice. One with the reachable graph of the
original everywhere is equivalent. What is left may break a lemma of the proofs, which says why the
properties hold and is none of them; if it does not, it has survived: a property is missing.
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
from pdproto.spec.language.system import Configuration, System

GROWTH_MAX: Final = 10  # times the states of the original, before a mutant's search is given up
STATES_MIN: Final = 10_000  # which every search may see
WIDE: Final = SearchLimits(bytes_max=2 * GIB)  # of an original, whose searches are known to end
LIVENESS_COSTS: Final = 6  # times what safety costs, for as many states (measured: 2 to 10)
LEFT_OUT: Final = frozenset({"deep"})  # configurations for a night, not for a thousand mutants

Rule: TypeAlias = Callable[[LintSubject], Iterator[Remark]]
# The rules of lint that find errors; the others only remark. Of a move that no edge allows lint is
# afraid where it cannot exclude it.
RULES: Final[tuple[Rule, ...]] = (totality, determinism)
ALL_RULES: Final[tuple[Rule, ...]] = (*RULES, forbidden_moves)


class MutantOutcome(StrEnum):
    """What became of a mutant. The score is of what is killed, among that and the last two."""

    KILLED = "killed"  # by a property
    REFUSED = "refused"  # it says what no process could do: no such spec can be written
    EDGES = "edges only"  # by declared edges alone
    LINT = "lint only"  # by an error of lint, and by no property in the cheapest search
    LEMMA = "lemma only"  # by a lemma of the proofs, and by no property
    EQUIVALENT = "equivalent"  # the reachable graph is the same, at every size that is looked at
    UNDECIDED = "undecided"  # a limit was reached
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant's end. kill: by a property, by edges or by a lemma. note: what else is known."""

    number: int
    outcome: MutantOutcome
    kill: Kill | None = None
    note: str = ""
    seconds: float = 0.0


class BaseError(Exception):
    """The unmutated system does not hold, so that nothing would be learnt from its mutants.

    configuration, property: where it does not, and what, if that is why.
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
    """One question to a system. endless: liveness, instead of safety. states: of the original."""

    system: str
    configuration: str
    endless: bool
    states: int = 0

    @property
    def cost(self) -> int:
        return self.states * (LIVENESS_COSTS if self.endless else 1)

    @property
    def limits(self) -> SearchLimits:
        return SearchLimits(max(STATES_MIN, self.states * GROWTH_MAX), WIDE.bytes_max)

    @property
    def place(self) -> tuple[str, str]:
        return self.system, self.configuration

    def __str__(self) -> str:
        return f"{self.system}, {self.configuration}"


def prepared(
    systems: Sequence[System], lemmas: Mapping[str, tuple[Always, ...]] | None = None
) -> "Trials":
    """The trials of systems that share tables, which are checked first. lemmas: by system.

    Raises BaseError if a system violates a property as it stands, or cannot be explored within
    the limits; and SpecError or TooLargeError where there is no ground form.
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
    # A machine's symbols are those of every system that has been imported. Made anew, originals
    # have what their mutants have, and none of them is blamed for what another system declares.
    return Trials(tuple(map(replace, systems)), tuple(cheapest), lemmas)


def searches(system: System) -> Iterator[Search]:
    """What each mutant of the system is asked, before it has been measured.

    Raises SpecError for a system that names no sizes to explore.
    """
    endless = any(isinstance(claim, LeadsTo) for claim in system.properties)
    names = [name for name in system.configurations if name not in LEFT_OUT]
    if not names:
        problem = f"{system.name} names no sizes to explore: add configurations="
        raise SpecError(system.place, problem)
    for name in names:
        yield Search(system.name, name, endless=False)
        if endless:
            yield Search(system.name, name, endless=True)


def measure(search: Search, system: System) -> Search:
    """The search, with the states that the original has in it. Raises as `prepared` does."""
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
    """The mutants of systems that share tables, and the searches that each must pass, in order.

    lemmas: by system, what its proofs rest on besides the properties.
    """

    systems: tuple[System, ...]
    searches: tuple[Search, ...]
    lemmas: Mapping[str, tuple[Always, ...]] = field(default_factory=dict)

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        return mutants(self.systems)

    @cached_property
    def originals(self) -> Mapping[str, System]:
        return {system.name: system for system in self.systems}

    @cached_property
    def remarks(self) -> Mapping[str, frozenset[str]]:
        """What lint finds wrong before anything is mutated: as a rule nothing."""
        return {system.name: _errors(system, ALL_RULES) for system in self.systems}

    def judged(self, mutant: Mutant) -> Judged:
        """The mutant's end; the same on every machine and whatever else has been judged."""
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
    """One mutant before its judges. edited: by name, the systems that have its row."""

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
        """The first that any of the searches finds; those that come to a limit are noted."""
        for search in searches:
            # Safety ends early where something is wrong; before the long searches it pays to know
            # whether there is anything to find.
            if (search.endless or self.quiet) and self.is_same(search):
                continue
            try:
                kill = _ask(search, self.edited[search.system], self.chosen(search), search.limits)
            except UndecidedError as limit:
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
        """The system that is named first among those that have the row: the others vary it."""
        return tuple(self.edited)[:1]

    @property
    def searches(self) -> tuple[Search, ...]:
        """Those of the systems that have the row, the cheapest first."""
        return tuple(s for s in self.trials.searches if s.system in self.edited)

    @property
    def quiet(self) -> bool:
        """Whether the row changes nothing, and no property speaks of it: it can still take its
        message off the network, where delivery does.
        """
        name = self.mutant.row.name
        claims = [claim for system in self.trials.systems for claim in system.properties]
        spoken_of = any(isinstance(claim, OnRow) and claim.row == name for claim in claims)
        return self.mutant.row.kind == "ignore" and not spoken_of

    def chosen(self, search: Search) -> Configuration:
        return self.trials.originals[search.system].configurations[search.configuration]

    def is_same(self, search: Search) -> bool:
        """Whether the mutant has the graph of the original there."""
        if search.place not in self.same:
            original, edited = self.trials.originals[search.system], self.edited[search.system]
            self.same[search.place] = same_graph(
                original, edited, self.mutant, self.chosen(search), WIDE
            )
        return self.same[search.place]

    def unnoticed(self) -> Judged:
        """Whether declared edges notice a mutant that no property has, or it is no change."""
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
        """The first lemma that fails in a state which the mutant reaches."""
        for search in self.searches:
            lemmas = self.trials.lemmas.get(search.system, ())
            if search.endless or not lemmas:
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
    """The errors of these rules, without their places, which are those of the original rows."""
    found, _ = subjects(system, small(system))
    return frozenset(
        f"{remark.rule}: {remark.message}"
        for subject in found
        for rule in rules
        for remark in rule(subject)
        if remark.severity is Severity.ERROR
    )
