"""The cut-off: an obligation for all sizes becomes one propositional formula over few elements.

**Theorem** (Bernays and Schoenfinkel 1928; Herbrand for the finite form). Let a sequent consist of
closed formulas without function symbols from sort to sort, in negation normal form, in which no
`exists` stands under a `forall`. Name, in each sort, the free variables of its facts and the
elements of each `exists`; give a sort without any name one. Then the sequent has a model of some
size if and only if it has one all of whose elements are named.

*Proof.* Take any model, and let the names denote the elements that it chooses for them. Remove
every element without a name. The rest is a model of the same symbols, because no function leads out
of it: there are no functions into sorts. A literal about named elements keeps its truth. A `forall`
stays true, because it now ranges over fewer elements. Each `exists` keeps its witness. The other
direction is trivial. Names may denote the same element. So their identity is an arbitrary
equivalence that every symbol respects. The order of an ordered sort is an arbitrary total order,
because the restriction of a total order is a total order.

*Use.* The assumptions are the claims, closed by `forall`, and the axioms of the rigid symbols. The
interpretations of `given=` are not assumed, so a proof holds for every topology. The facts are the
guard and the violated claim, both about the state before the row (rewriting.py). There, bulk
updates and sends to `each` only add conditions on identity and rigid symbols, and need no names. So
the names are: the row's parameters, the variables of the violated claim, and one for each `exists`
that is left after negations have been pushed inwards (each negative `forall` and positive
`exists`). Parameters and variables alone would be unsound: a row "if not all q are a, and not all q
are c, then b(r)" breaks "b implies a or c" only if there are further elements.

*If the conditions fail.* A formula with `exists` under `forall` is weakened to its instances at the
existing names, each with a witness of its own. An assumed claim or an axiom is weakened to the
instances at the variables of the violated claim, and at the row's parameters of other sorts. The
formula implies its instances, so a proof from them is valid. But then a model need not be a
counterexample, so the obligation is REFUSED instead of FAILED, with the formula that causes it. A
witness relation, with a lemma about it, makes the question exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Final

from pdproto.check.prove.clauses import TRUTH, Clauses, TooManyClausesError, Vocabulary
from pdproto.check.prove.herbrand import Constants, Environment, Node, has_exists
from pdproto.check.prove.in_channels import refusing
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Claim, Method, Obligation
from pdproto.check.prove.sat import Answer, Solver
from pdproto.check.words import formula_text
from pdproto.spec.language.formula import (
    TRUE,
    And,
    Forall,
    Formula,
    atoms,
    exists,
    free_variables,
    normal,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System

# Clauses of a weakened question. More may take all memory, and Z3 with quantifiers answers sooner.
# The largest such question of the hand-over, in L6_recovery of the registry, has 2,289,930.
WEAKENED_MAX: Final = 3_000_000
EXACT_MAX: Final = 30_000_000  # of any other question: about 3 GB
ELSEWHERE: Final = ("use Z3 with quantifiers (--engine quantified), or add a relation for the "
                    "witness, with a lemma about it")


@dataclass(frozen=True, slots=True)
class Grounded:
    """Obligations of one row (or of the start) as clauses.

    selectors: a literal for each obligation. If it is assumed, the clauses are satisfiable if and
    only if that obligation is not met. inexact: formulas that were weakened.
    """

    clauses: Clauses
    selectors: tuple[int, ...]
    row: Environment  # the constants of the row's parameters
    switches: Mapping[str, int]  # by claim: the literal with which it is assumed, if they have one
    inexact: tuple[Formula, ...]


def ground(
    system: System,
    obligations: Sequence[Obligation],
    *,
    weakened: bool,
    switched: bool = False,
    most: int | None = None,
) -> Grounded:
    """The clauses of obligations that share their row. Raises TooManyClausesError beyond `most`.

    weakened: also use assumed claims with `exists`, weakened to instances; otherwise they are left
    out, which suffices for most obligations. switched: give each assumed claim its own literal.
    """
    grounding = _Grounding(system, tuple(obligations), weakened=weakened, switched=switched,
                           most=most)
    return grounding.result


class _Grounding:
    """One use of `ground`."""

    def __init__(
        self,
        system: System,
        obligations: tuple[Obligation, ...],
        *,
        weakened: bool,
        switched: bool,
        most: int | None = None,
    ) -> None:
        self.system: Final = system
        self.obligations: Final = obligations
        self.weakened: Final = weakened
        self.switched: Final = switched
        self.most: Final = most
        first = obligations[0]
        self.guard: Final[Formula] = first.sequent.facts[0] if first.row is not None else TRUE
        self.parameters: Final = (
            first.table.parameters(first.row) if first.table and first.row else ()
        )
        axioms = {name: normal(axiom) for name, axiom in system.axioms.items()}
        self.axioms: Final = tuple(a for a in axioms.values() if not has_exists(a))
        partly = tuple(Claim(name, opened(axiom), Method.INDUCTION, system.place)
                       for name, axiom in axioms.items() if has_exists(axiom))
        # Obligations share their assumptions, and to compare two claims takes long.
        shared = {id(o.sequent.assumed): o.sequent.assumed for o in obligations}.values()
        assumed = (*partly, *dict.fromkeys(chain.from_iterable(shared)))
        formulas = [(claim, normal(claim.formula)) for claim in assumed]
        self.universal: Final = tuple((c, f) for c, f in formulas if not has_exists(f))
        self.others: Final = tuple((c, f) for c, f in formulas if has_exists(f))

    @cached_property
    def result(self) -> Grounded:
        constants = Constants(self.system.sorts)
        row = constants.named(self.parameters)
        goal = self._goal_constants(constants, row)
        violations = [self._violation(obligation, {**row, **goal}) for obligation in
                      self.obligations]
        facts = constants.grounded(self.guard, row)
        violated = constants.branches(violations, {**row, **goal})
        constants.close()
        facts = constants.resolved(facts)
        instances = [(name, constants.resolved(node))
                     for name, node in self._instances(constants, goal, row)]
        violated = [constants.resolved(node) for node in violated]
        clauses = Clauses(Vocabulary(self._symbols(violations), constants.total), self.most)
        clauses.add(clauses.node(facts))
        for axiom in self.axioms:
            clauses.assume(axiom)
        named = self.universal + (self.others if self.weakened else ())
        switches = {claim.name: clauses.fresh() for claim, _ in named} if self.switched else {}
        for claim, formula in self.universal:
            clauses.assume(formula, switches.get(claim.name, TRUTH))
        for name, node in instances:
            clauses.add(-switches.get(name, TRUTH), clauses.node(node))
        selectors = []
        for node in violated:
            selectors.append(clauses.fresh())
            clauses.add(-selectors[-1], clauses.node(node))
        inexact = (*constants.alternating, *(claim.formula for claim, _ in self.others))
        return Grounded(clauses, tuple(selectors), row, switches, inexact)

    def _violation(self, obligation: Obligation, named: Environment) -> Formula:
        """The facts of the obligation without the guard; unnamed variables are closed by `exists`.
        """
        facts = obligation.sequent.facts
        own = And(facts[1:] if obligation.row is not None else facts)
        return exists(tuple(v for v in free_variables(own) if v not in named), own)

    def _goal_constants(self, constants: Constants, row: Environment) -> Environment:
        """The constants of the violated claim's variables, which only weakened claims need."""
        if not self.weakened:
            return {}
        (obligation,) = self.obligations
        new = tuple(v for v in obligation.sequent.goal if v not in row)
        return {v: row[v] for v in obligation.sequent.goal if v in row} | constants.named(new)

    def _instances(
        self, constants: Constants, goal: Environment, row: Environment
    ) -> list[tuple[str, Node]]:
        """The claims with `exists`, by name, at all choices of the violated claim's constants.

        For a sort without such a constant, the constants are those of the row's parameters.
        """
        if not self.weakened:
            return []
        by_sort: dict[type[Sort], set[int]] = {}
        for named in (goal, row):
            wanting = {type(v) for v in named} - set(by_sort)
            for variable, number in named.items():
                if type(variable) in wanting:
                    by_sort.setdefault(type(variable), set()).add(number)
        found = []
        for claim, formula in self.others:
            variables = free_variables(formula)
            for choice in product(*(sorted(by_sort.get(type(v), ())) for v in variables)):
                environment = dict(zip(variables, choice, strict=True))
                found.append((claim.name, constants.grounded(formula, environment)))
        return found

    def _symbols(self, violations: Sequence[Formula]) -> tuple[Symbol, ...]:
        formulas = [self.guard, *violations, *self.system.axioms.values()]
        formulas += [formula for _, formula in self.universal]
        if self.weakened:
            formulas += [formula for _, formula in self.others]
        return tuple(dict.fromkeys(a.symbol for f in formulas for a, _ in atoms(f)))


def opened(formula: Formula) -> Formula:
    """The formula without its outermost `forall`s: their variables become free."""
    return opened(formula.body) if isinstance(formula, Forall) else formula


@refusing
def decide(
    system: System, obligations: Sequence[Obligation], timeout_s: float
) -> Iterator[Judgement]:
    """The verdict on each obligation of one row, in order. timeout_s: for one question."""
    try:
        grounded = ground(system, obligations, weakened=False, most=EXACT_MAX)
    except TooManyClausesError as error:
        yield from (Judgement(Status.REFUSED, f"{error}; {ELSEWHERE}") for _ in obligations)
        return
    some = grounded.clauses.fresh()
    grounded.clauses.add(-some, *grounded.selectors)
    solver, answer = _asked(grounded, [some], timeout_s)
    if answer is Answer.UNSATISFIABLE:
        yield from (Judgement(Status.PROVED) for _ in obligations)
        return
    for obligation, selector in zip(obligations, grounded.selectors, strict=True):
        answer = solver.ask([selector])
        if answer is Answer.UNSATISFIABLE:
            yield Judgement(Status.PROVED)
        elif grounded.inexact:
            yield _by_itself(system, obligation, timeout_s)
        else:
            yield _judged(answer, ())


def _asked(
    grounded: Grounded, assumed: Sequence[int], timeout_s: float
) -> tuple[Solver, Answer]:
    """Whether the clauses are satisfiable together with these literals, and the solver.

    The clauses of congruence are most of them, and a proof seldom needs them: it is asked without
    them first.
    """
    others, congruence = grounded.clauses.dimacs_in_parts()
    solver = Solver(others, timeout_s=timeout_s)
    answer = solver.ask(assumed)
    if answer is not Answer.UNSATISFIABLE:
        solver.add(congruence)
        answer = solver.ask(assumed)
    return solver, answer


def _by_itself(system: System, obligation: Obligation, timeout_s: float) -> Judgement:
    """The verdict on one obligation, also with the assumed claims that have an `exists`."""
    try:
        grounded = ground(system, [obligation], weakened=True, most=WEAKENED_MAX)
    except TooManyClausesError as error:
        return Judgement(Status.REFUSED, f"{error}; {ELSEWHERE}")
    _, answer = _asked(grounded, grounded.selectors, timeout_s)
    return _judged(answer, grounded.inexact)


def _judged(answer: Answer, inexact: tuple[Formula, ...]) -> Judgement:
    if answer is Answer.UNSATISFIABLE:
        return Judgement(Status.PROVED)
    if answer is Answer.UNKNOWN:
        return Judgement(Status.UNKNOWN, "the solver gave up")
    if inexact:
        return Judgement(
            Status.REFUSED,
            f"`for some` under `for all` in {formula_text(inexact[0])}: the cut-off can use only "
            f"some instances of it, and they do not suffice; {ELSEWHERE}",
        )
    return Judgement(Status.FAILED)
