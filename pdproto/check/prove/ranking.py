"""Progress for all sizes: in every pending state a fair row is enabled that raises the rank.

The claim is a `leads_to`: from every reachable state where the premise holds, every fair run
reaches the goal. A run is fair if each fair ground row that stays enabled fires. The rank of a
state measures local progress (spec/language/ranking.py). It says how far each symbol has gone that
can only go forward (settling.py), and which monotone predicates are true, for each choice of
elements. There are five kinds of obligations, at all sizes:

  kept     a row of the protocol that makes a monotone predicate false moves a symbol that can
           only go forward, or makes an earlier predicate true
  owed     the premise makes the claim pending, and no row, of the protocol or a fault, ends this
           before the goal holds
  helped   where the claim is pending and the goal does not hold, some helper can fire
  counts   a helper that fires raises the rank: a symbol goes forward, or a predicate becomes true
  lasts    a row that does not change the rank does not disable a helper that is weakly fair

Of a helper that `ends` the wait, the last two are about its parameters alone that are variables of
the claim, and about rows after which the claim there still waits.

**Theorem.** If all obligations are met, and the assumed claims are invariants, then the `leads_to`
holds at every size under the fairness of its helpers.

*Proof.* Take a fair run in which the premise holds at some time and the goal never follows. By
`owed` the claim is pending from then on. Faults happen finitely often; consider the run after the
last one. There each symbol goes forward finitely often, at each of finitely many cells. After the
last such move, by `kept`, no row makes the first predicate false. So it becomes true at most once
more for each choice of finitely many elements. After the last such time the same is true of the
second predicate, and so on: the rank rises finitely often. Consider the run after the last rise. By
`helped` some helper can fire in each state there. A weakly fair one stays enabled by `lasts`, so it
fires. If none can, then of the finitely many strongly fair ones one is enabled again and again, so
it fires. By `counts` the rank rises again. This is a contradiction, so there is no such run. (Such
a run is one in which the claim waits for ever at its elements. So of a helper that is enabled at
these, `lasts` and `counts` are needed only of rows that leave the claim waiting there.)

*Further assumptions*, as for every liveness property here: each sort is finite and has an element,
so finitely many hand-overs arrive; faults, including losses, happen finitely often; delivery leaves
a message on the network (only the explorer checks `Fairness.CONSUMED`). A fault may lower the rank:
a crash begins another incarnation, attempt or life, which is an element of its own. A helper is
fair under each of the property's other assumptions, so a property without safety nets does not
depend on one. The rank counts the progress of all elements, so the owner of a resource may be the
helper of an element that waits for it. Their order does not matter, as there are finitely many.

A property without any timer holds only while no message is lost. It is proved for the system
without the fault layers that are named beside it (`FaultFree`), with the lemmas that hold only
there. The runs of that system are the runs of the whole system without these faults. So a proof for
all runs also holds for them, but not the other way round. A layer that one of the system's
configurations explores cannot be left out.

A system that runs in a loop for ever without faults has no such ranking. Its `leads_to` properties
are checked by the explorer only (pdproto/check/liveness.py), which is exact at the given sizes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pdproto.check.prove.fair_rows import fires, proved_under, strong_rows
from pdproto.check.prove.herbrand import has_exists
from pdproto.check.prove.names import check_named
from pdproto.check.prove.obligations import (
    MARK,
    MONOTONE,
    Claim,
    Method,
    Obligation,
    Sequent,
)
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.ranking_in_channels import in_places
from pdproto.check.prove.rewriting import apart, before_row, marked, renamed
from pdproto.check.prove.scoping import conjuncts, exists_within, forall_within
from pdproto.check.prove.settling import by_edges, settling, unmoved, written
from pdproto.check.prove.waiting import first_of, opened, pends, waiting
from pdproto.check.questions import PEERS, name_of_edges
from pdproto.spec.language.formula import (
    And,
    Forall,
    Formula,
    Not,
    all_of,
    any_of,
    atoms,
    forall,
    free_variables,
    implies,
    negated,
    normal,
)
from pdproto.spec.language.machine import Machine, Row, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.ranking import Monotone, Ranking
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

HELP_MARK: Final = "_helping"  # on the variables of a helper


@dataclass(frozen=True, slots=True)
class Helper:
    """A helper: a row, and the formula under which it helps. at, ends: see `Help`."""

    table: Table
    row: Row
    formula: Formula
    at: Mapping[Sort, Sort]
    ends: bool


def spared(system: System, layers: Sequence[str]) -> System:
    """The system without those fault layers.

    Raises SpecError for a layer that a configuration explores, or that the system lacks.
    """
    for name, configuration in system.configurations.items():
        for layer in layers:
            if layer in configuration.faults:
                raise SpecError(system.place, f"{system.name} is explored with {layer} ({name})")
    unknown = [layer for layer in layers if layer not in system.faults]
    if unknown:
        raise SpecError(system.place, f"{system.name} has no fault layer {unknown[0]!r}")
    kept = {name: tables for name, tables in system.faults.items() if name not in layers}
    return replace(system, faults=kept, like=system) if layers else system


def ranking_obligations(
    system: System, every: Sequence[Claim], monotone: Sequence[Monotone],
    rankings: Sequence[Ranking],
) -> Iterator[Obligation]:
    """The obligations of the rankings; every claim about every state is assumed.

    Raises SpecError for a ranking that names no `leads_to` of the system, or an element without a
    variable, or depends on the number of places of a channel (ranking_in_channels.py).
    """
    if not rankings:
        return
    places = ProofRows(system)
    monotone, rankings = in_places(places, monotone, rankings)
    prover = _Rankings(system, every, tuple(monotone), places)
    yield from prover.kept()
    for ranking in rankings:
        yield from prover.obligations(ranking)


class _Rankings:
    """The obligations of one system's rankings."""

    def __init__(
        self, system: System, every: Sequence[Claim], monotone: tuple[Monotone, ...],
        places: ProofRows,
    ) -> None:
        self.system: Final = system
        self.assumed: Final = tuple(claim for claim in every if claim.holds_always)
        # A pending claim has many variables. Assumed claims with `exists` would have too many
        # instances there, so a ranking names those that it uses, and they become facts.
        self.universal: Final = tuple(
            claim for claim in self.assumed if not has_exists(normal(claim.formula))
        )
        self.monotone: Final = monotone
        self.settled: Final = settling(system)
        edges = sorted(map(name_of_edges, by_edges(system)))
        self.beside: Final = (PEERS, *(claim.name for claim in self.assumed), *edges)
        self.places: Final = places
        # A row that uses a channel fires by the rules of places.py. `fair` is as it was written.
        every_row = [(table, placed, layer, frozenset(f for f in Fairness if fires(row, f)))
                     for table, row, placed, layer in places.rows()]
        self.rows: Final = tuple((table, row, layer) for table, row, layer, _ in every_row)
        self.protocol: Final = tuple((table, row) for table, row, layer in self.rows if not layer)
        self.fires_under: Final = {id(row): fair for _, row, _, fair in every_row}

    def kept(self) -> Iterator[Obligation]:
        """The obligations `kept`: see the top of the file."""
        for place, predicate in enumerate(self.monotone):
            claim = Claim(
                f"{predicate.name} is kept", predicate.claim, Method.RANKING, predicate.place,
                why=predicate.why, part_of=MONOTONE)
            before = apart(predicate.claim, MARK)
            for table, row in self.protocol:
                after = before_row(before, table, row)
                if after != before:
                    idle = self._idle(table, row, self.monotone[:place])
                    yield self._on(claim, table, row, (before, Not(after), *idle))

    def obligations(self, ranking: Ranking) -> Iterator[Obligation]:
        """The obligations of one `leads_to`, without those of the monotone predicates."""
        claim = _leads_to(self.system, ranking)
        claim = replace(claim, premise=self.places.claimed(claim.premise),
                        goal=self.places.claimed(claim.goal))
        helpers = tuple(self._helpers(ranking, proved_under(claim)))
        yield from self._owed(ranking, claim)
        yield self._helped(ranking, claim, helpers)
        for helper in helpers:
            yield self._counts(ranking, claim, helper)
            if not helper.row.is_strong:
                yield from self._lasts(ranking, claim, helper)

    def _helpers(self, ranking: Ranking, under: Sequence[Fairness]) -> Iterator[Helper]:
        """The helpers that exist in the system and are fair under the assumptions.

        A missing helper is no error here: then `helped` may fail.
        """
        for help_ in ranking.helpers:
            for table, row in self.protocol:
                if row.name != help_.row or not self.fires_under[id(row)].issuperset(under):
                    continue
                for variable in (*free_variables(help_.when), *help_.at):
                    if variable not in table.parameters(row):
                        problem = f"{row.name} has no parameter {variable!r}"
                        raise SpecError(ranking.place, problem)
                formula = all_of(*table.guard(row).parts, help_.when)
                if help_.ends and help_.at:
                    raise SpecError(ranking.place, f"{row.name}: `ends` is of the variables of the "
                                                   f"property, and `at` names others")
                yield Helper(table, row, formula, help_.at, help_.ends)

    def _owed(self, ranking: Ranking, claim: LeadsTo) -> Iterator[Obligation]:
        """The obligations `owed`: see the top of the file."""
        pending = pends(ranking, claim)
        step = self._claim(ranking, "owed until it is paid", implies(pending, claim.goal))
        if pending != claim.premise:
            variables = free_variables(all_of(claim.premise, claim.goal))
            granted = (_closed(apart(formula, MARK), ()) for formula in ranking.assumed.values())
            yield self._about(ranking, step, variables, all_of(claim.premise, Not(claim.goal)),
                              "begins", (Not(pending), *granted))
        before, goal = apart(pending, MARK), apart(claim.goal, MARK)
        for table, row, layer in self.rows:
            owed, paid = (before_row(part, table, row) for part in (before, goal))
            if owed != before:
                yield self._on(step, table, row, (before, Not(goal), Not(owed), Not(paid)), layer)

    def _helped(
        self, ranking: Ranking, claim: LeadsTo, helpers: Sequence[Helper]
    ) -> Obligation:
        """The obligation `helped`: see the top of the file."""
        variables, goal = opened(ranking, claim)
        named, first = list(variables), []
        for witness in ranking.witnesses:
            fact = first_of(witness, named)
            named += [v for v in free_variables(witness.claim) if v not in named]
            first.append(fact)
        granted = (apart(formula, MARK) for formula in ranking.assumed.values())
        facts = [*granted, *self._used(ranking, named)]
        closed = [_closed(fact, named) for fact in facts]
        for helper in helpers:
            check_named(ranking, helper.row.name, helper.at, tuple(helper.at), named)
        unhelpful = _unhelpful([_able(helper, variables) for helper in helpers])
        names = ", ".join(dict.fromkeys(helper.row.name for helper in helpers)) or "nothing"
        told = any_of(claim.goal, *(helper.formula for helper in helpers))
        why = f"{names} can fire{strong_rows(helper.row for helper in helpers)}"
        step = self._claim(ranking, "helped", told, why)
        return self._about(ranking, step, tuple(named),
                           all_of(pends(ranking, claim), Not(goal)), "pends",
                           (*first, *closed, *unhelpful))

    def _used(self, ranking: Ranking, named: Sequence[Sort]) -> Iterator[Formula]:
        """The claims that the ranking names, as facts at its elements."""
        for use in ranking.using:
            if use.claim not in self.usable:
                raise SpecError(ranking.place, f"there is no claim {use.claim!r} to use")
            claim = self.usable[use.claim]
            check_named(ranking, use.claim, use.at, free_variables(claim), named)
            claim = apart(claim, MARK)
            yield renamed(claim, {marked(v, MARK): element for v, element in use.at.items()})

    @cached_property
    def usable(self) -> Mapping[str, Formula]:
        """By name, the assumed claims, and for each `reject` row that it cannot fire."""
        rejected = {row.name: Not(all_of(*table.guard(row).parts))
                    for table, row in self.protocol if row.kind == "reject"}
        return rejected | {claim.name: claim.formula for claim in self.assumed}

    def _about(
        self, ranking: Ranking, claim: Claim, variables: tuple[Sort, ...], when: Formula,
        what: str, facts: Sequence[Formula],
    ) -> Obligation:
        """An obligation for an artificial row that does nothing, with these parameters."""
        anybody = Table(Machine("anybody"), place=ranking.place)
        row = Row(f"{ranking.leads_to} {what}", choose=variables, when=when, place=ranking.place)
        found = self._on(claim, anybody, row, facts)
        return replace(found, sequent=replace(found.sequent, assumed=self.universal))

    def _counts(self, ranking: Ranking, claim: LeadsTo, helper: Helper) -> Obligation:
        step = self._claim(ranking, f"{helper.row.name} counts", helper.formula)
        table, row = helper.table, helper.row
        waits = waiting(
            ranking, claim, table, row, MARK, table.parameters(row)) if helper.ends else ()
        return self._on(step, table, row, (helper.formula, *self.idle[id(row)], *waits))

    def _lasts(
        self, ranking: Ranking, claim: LeadsTo, helper: Helper
    ) -> Iterator[Obligation]:
        step = self._claim(ranking, f"{helper.row.name} lasts", helper.formula)
        restless = {a.symbol for a, _ in atoms(helper.formula)} - self.settled
        before = apart(helper.formula, HELP_MARK)
        for table, row in self.protocol:
            if restless.isdisjoint(written(table, row)):
                continue
            after = before_row(before, table, row)
            if after != before:
                waits = waiting(ranking, claim, table, row, HELP_MARK) if helper.ends else ()
                yield self._on(step, table, row, (
                    before, Not(after), *self.idle[id(row)], *waits))

    @cached_property
    def idle(self) -> Mapping[int, tuple[Formula, ...]]:
        """By `id` of a row of the protocol, the formulas: it does not change the rank."""
        return {id(row): tuple(self._idle(table, row, self.monotone))
                for table, row in self.protocol}

    def _idle(
        self, table: Table, row: Row, monotone: Sequence[Monotone]
    ) -> Iterator[Formula]:
        """The formulas: the row moves no symbol that only goes forward, and makes none of these
        predicates true.
        """
        yield unmoved(table, row, self.settled)
        for predicate in monotone:
            before = apart(predicate.claim, MARK)
            after = before_row(before, table, row)
            if after != before:
                yield forall(free_variables(before), implies(after, before))

    def _claim(self, ranking: Ranking, what: str, formula: Formula, why: str = "") -> Claim:
        return Claim(f"{ranking.leads_to}: {what}", formula, Method.RANKING, ranking.place,
                     why=why or ranking.why, part_of=ranking.leads_to)

    def _on(
        self, claim: Claim, table: Table, row: Row, facts: Sequence[Formula], layer: str = ""
    ) -> Obligation:
        """The obligation: no state in which the row can fire satisfies all facts."""
        told = tuple(normal(fact) for fact in facts)
        parameters = table.parameters(row)
        others = tuple(v for v in free_variables(And(told)) if v not in parameters)
        sequent = Sequent(self.assumed, (normal(table.guard(row)), *told), (*parameters, *others))
        return Obligation(claim, sequent, table, row, layer, (*self.beside, MONOTONE))


def _leads_to(system: System, ranking: Ranking) -> LeadsTo:
    for claim in system.properties:
        if isinstance(claim, LeadsTo) and claim.name == ranking.leads_to and proved_under(claim):
            return claim
    raise SpecError(ranking.place, f"{system.name} has no leads_to {ranking.leads_to!r}")


def _closed(fact: Formula, named: Sequence[Sort]) -> Formula:
    """The fact for all elements without a name."""
    others = tuple(v for v in free_variables(fact) if v not in named)
    return forall_within(others, normal(fact))


def _able(helper: Helper, own: Sequence[Sort]) -> tuple[Formula, ...]:
    """The conjuncts of "the helper can fire", at its bound parameters and some other elements.

    own: the property's variables, to which parameters of the same name are bound.
    """
    parameters = helper.table.parameters(helper.row)
    bound = {v: v for v in parameters if v in own} | dict(helper.at)
    free = tuple(marked(v, HELP_MARK) for v in parameters if v not in bound)
    names = {marked(v, HELP_MARK): element for v, element in bound.items()}
    condition = normal(renamed(apart(helper.formula, HELP_MARK), names))
    return tuple(conjuncts(exists_within(free, condition)))


def _unhelpful(able: Sequence[tuple[Formula, ...]]) -> Iterator[Formula]:
    """The formulas: no helper can fire.

    A `forall` that several helpers share is negated once, so that it needs one element for which it
    fails, instead of one for each helper.
    """
    shared: dict[Formula, list[tuple[Formula, ...]]] = {}
    for parts in able:
        first = next((part for part in parts if isinstance(part, Forall)), And(()))
        shared.setdefault(first, []).append(tuple(part for part in parts if part != first))
    for common, rest in shared.items():
        yield any_of(negated(common), all_of(*(negated(And(parts)) for parts in rest)))
