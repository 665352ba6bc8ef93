"""The second engine: Z3 decides the same obligations with quantifiers, over unbounded sorts.

It shares only the claims of the obligations with the cut-off. Sorts are uninterpreted, a relation
is a boolean function, and an enum a datatype. The state after a row is a second set of symbols.
Frame axioms say that the row changes only the cells that it writes. Z3 may run for ever on such
formulas, so run it in a process that can be killed. No answer is not a proof.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import z3

from pdproto.check.prove.in_channels import refusing
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import START, Claim, Method, Obligation
from pdproto.check.prove.stratified import stratified
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
    atoms,
    free_variables,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Rigid, Symbol, sent_by
from pdproto.spec.language.system import System

OLD: Final = ""
NEW: Final = "^after"  # SMT-LIB 2 allows this character without quotes
NAMED: Final = "claim!"  # before the name of an assumed claim, so that no symbol has that name
# Making a theory takes longer than most questions, so the questions of a row share one. But the
# state that earlier questions leave in Z3 may slow it down. A question without an answer after this
# time is asked again with a theory of its own.
SHARED_S: Final = 1.0
# Without a bound on the sorts Z3 may search for ever for a state that violates a claim. Nearly all
# violated claims are violated with so many elements of each sort, where it ends at once.
FEW: Final = (2, 3)
FEW_S: Final = 1.0
# One question about several obligations takes little longer than one about a single obligation,
# unless one of them is hard.
TOGETHER_MAX: Final = 10
TOGETHER_S: Final = 0.3
Bound = Mapping[Sort, Any]


class Theory:
    """A system's sorts and symbols in Z3, before and after a row."""

    def __init__(self, system: System) -> None:
        self.system: Final = system
        self.context: Final = z3.Context()
        self.sorts: Final = {
            sort: z3.DeclareSort(sort.__name__, self.context) for sort in system.sorts
        }
        self.values: Final[dict[object, Any]] = {}
        self.functions: Final[dict[tuple[Symbol, str], Any]] = {}
        self.before: Final = {
            sort: z3.Function(f"{sort.__name__}.before", self.sorts[sort], self.sorts[sort],
                              z3.BoolSort(self.context))
            for sort in system.sorts if sort.ordered
        }
        self._ranges: Final[dict[object, Any]] = {}
        self._claims: Final[dict[int, Any]] = {}  # by identity: comparing formulas costs more
        for symbol in (*system.variables, *system.rigids):
            for time in (OLD,) if isinstance(symbol, Rigid) else (OLD, NEW):
                domain = [self.sorts[sort] for sort in symbol.sorts]
                self.functions[symbol, time] = z3.Function(
                    f"{symbol.name}{time}", *domain, self._range(symbol)
                )

    def _range(self, symbol: Symbol) -> Any:
        if symbol.is_boolean:
            return z3.BoolSort(self.context)
        if symbol.values not in self._ranges:
            name = f"{type(symbol.values[0]).__name__}{len(self._ranges)}"
            members = [f"{name}.{value}" for value in symbol.values]
            sort, constants = z3.EnumSort(name, members, self.context)
            self._ranges[symbol.values] = sort
            for value, constant in zip(symbol.values, constants, strict=True):
                self.values[symbol.values, value] = constant
        return self._ranges[symbol.values]

    def constant(self, variable: Sort, mark: str) -> Any:
        """A constant named after the variable."""
        return z3.Const(f"{variable.name}{mark}", self.sorts[type(variable)])

    def formula(self, formula: Formula, bound: Bound, time: str) -> Any:
        """The formula about the state before (OLD) or after (NEW) the row."""
        match formula:
            case And(parts):
                inner = [self.formula(part, bound, time) for part in parts]
                return z3.And(*inner, z3.BoolVal(True, self.context))
            case Or(parts):
                inner = [self.formula(part, bound, time) for part in parts]
                return z3.Or(*inner, z3.BoolVal(False, self.context))
            case Not(part):
                return z3.Not(self.formula(part, bound, time))
            case Same(left, right):
                return bound[left] == bound[right]
            case Before(left, right):
                return self.before[type(left)](bound[left], bound[right])
            case Forall(variable, body):
                inside = self.constant(variable, f"!{len(bound)}")
                claim = self.formula(body, {**bound, variable: inside}, time)
                return z3.ForAll([inside], claim)
            case Exists(variable, body):
                inside = self.constant(variable, f"!{len(bound)}")
                claim = self.formula(body, {**bound, variable: inside}, time)
                return z3.Exists([inside], claim)
            case Atom(symbol, arguments, value):
                when = OLD if isinstance(symbol, Rigid) else time
                applied = self.functions[symbol, when](*(bound[v] for v in arguments))
                return self._is(symbol, applied, value)
        raise AssertionError(formula)

    def _is(self, symbol: Symbol, applied: Any, value: object) -> Any:
        if symbol.is_boolean:
            return applied if value else z3.Not(applied)
        return applied == self.values[symbol.values, value]

    def _value(self, symbol: Symbol, value: object) -> Any:
        if symbol.is_boolean:
            return z3.BoolVal(bool(value), self.context)
        return self.values[symbol.values, value]

    def everywhere(self, formula: Formula, time: str) -> Any:
        """The formula for all choices of its free variables."""
        bound = {v: self.constant(v, "!all") for v in free_variables(formula)}
        claim = self.formula(formula, bound, time)
        return z3.ForAll(list(bound.values()), claim) if bound else claim

    def assumed(self, claims: Iterable[Claim]) -> Iterator[Any]:
        """The claims before the row, each translated once: obligations of one row share them."""
        for claim in claims:
            if id(claim) not in self._claims:
                self._claims[id(claim)] = self.everywhere(claim.formula, OLD)
            yield self._claims[id(claim)]

    @cached_property
    def axioms(self) -> tuple[Any, ...]:
        """The axioms of the system, and those of a total order for each ordered sort."""
        return tuple(self._axioms())

    def _axioms(self) -> Iterator[Any]:
        for axiom in self.system.axioms.values():
            yield self.everywhere(axiom, OLD)
        yield from self.orders()

    def orders(self) -> Iterator[Any]:
        """The axioms of a total order for each ordered sort."""
        for sort, before in self.before.items():
            x, y, z = (z3.Const(name, self.sorts[sort]) for name in ("x!", "y!", "z!"))
            yield z3.ForAll([x], z3.Not(before(x, x)))
            yield z3.ForAll([x, y], z3.Or(x == y, before(x, y), before(y, x)))
            yield z3.ForAll([x, y, z], z3.Implies(z3.And(before(x, y), before(y, z)),
                                                  before(x, z)))

    def at_most(self, size: int) -> Iterator[Any]:
        """The formulas: no sort has more elements."""
        for sort, elements in self.sorts.items():
            named = [z3.Const(f"{sort.__name__}.{i}", elements) for i in range(size)]
            x = z3.Const("x!", elements)
            yield z3.ForAll([x], z3.Or([x == one for one in named]))

    def start(self) -> Iterator[Any]:
        """The formulas: every variable is initial."""
        for formula in self.system.starts:
            yield self.formula(formula, {}, OLD)
        for symbol in (one for one in self.system.variables if not one.starts_free):
            cells = self._cells(symbol)
            claim = self._is(symbol, self.functions[symbol, OLD](*cells), symbol.values[0])
            yield z3.ForAll(cells, claim) if cells else claim

    def step(self, table: Table, row: Row, bound: Bound, read: Set[Symbol]) -> Iterator[Any]:
        """The formulas for the value after the row of each variable that is read there."""
        for symbol in (one for one in self.system.variables if one in read):
            cells = self._cells(symbol)
            old = self.functions[symbol, OLD](*cells)
            new = self.functions[symbol, NEW](*cells)
            for arguments, value, condition, variables in _effects(table, row, symbol):
                chosen = {variable: self.constant(variable, "!each") for variable in variables}
                inside = {**bound, **chosen}
                hit = [self.formula(condition, inside, OLD)]
                hit += [cell == inside[argument]
                        for cell, argument in zip(cells, arguments, strict=True)
                        if argument is not ANY]
                met = z3.And(*hit)
                if chosen:
                    met = z3.Exists([*chosen.values()], met)
                old = z3.If(met, self._value(symbol, value), old)
            yield z3.ForAll(cells, new == old) if cells else new == old

    def _cells(self, symbol: Symbol) -> list[Any]:
        return [z3.Const(f"cell{i}", self.sorts[sort]) for i, sort in enumerate(symbol.sorts)]


def _effects(
    table: Table, row: Row, symbol: Symbol
) -> Iterator[tuple[tuple[Sort, ...], object, Formula, tuple[Sort, ...]]]:
    for update in table.updates(row):
        if update.symbol is symbol:
            yield update.arguments, update.value, update.where, update.variables
    for effect in row.send:
        sent = sent_by(effect)
        if sent.symbol is symbol:
            where = effect.where if isinstance(effect, Each) else And(())
            chosen = (effect.variable,) if isinstance(effect, Each) else ()
            yield sent.arguments, True, where, chosen


def question(theory: Theory, obligations: Sequence[Obligation], *, named: bool = False) -> Any:
    """A solver with assertions that are unsatisfiable if and only if all obligations are met.

    obligations: of one row. named: the unsatisfiable core has the names of the assumed claims that
    it needs.
    """
    first = obligations[0]
    solver = z3.Solver(ctx=theory.context)
    solver.add(*theory.axioms)
    shared = set.intersection(*({id(c) for c in o.sequent.assumed} for o in obligations))
    assumed = [claim for claim in first.sequent.assumed if id(claim) in shared]
    for one, formula in zip(assumed, theory.assumed(assumed), strict=True):
        if named:
            solver.assert_and_track(formula, z3.Bool(f"{NAMED}{one.name}", theory.context))
        else:
            solver.add(formula)
    bound = {}
    if first.scope == START:
        solver.add(*theory.start())
    if first.table is not None and first.row is not None:
        bound = {v: theory.constant(v, "!row") for v in first.table.parameters(first.row)}
        solver.add(theory.formula(first.table.guard(first.row), bound, OLD))
        read = {atom.symbol for o in obligations if o.claim.method is Method.INDUCTION
                for atom, _ in atoms(o.claim.formula)}
        solver.add(*theory.step(first.table, first.row, bound, read))
    violations = []
    for obligation in obligations:
        own = (claim for claim in obligation.sequent.assumed if id(claim) not in shared)
        violations.append(z3.And([*theory.assumed(own), *_violation(theory, obligation, bound)]))
    solver.add(violations[0] if len(violations) == 1 else z3.Or(violations))
    return solver


def _violation(theory: Theory, obligation: Obligation, bound: Bound) -> Iterator[Any]:
    """The formulas of the violated claim. bound: the row's parameters."""
    claim = obligation.claim
    if obligation.row is None or claim.method is Method.INDUCTION:
        time = OLD if obligation.row is None else NEW
        yield z3.Not(theory.everywhere(claim.formula, time))
        return
    yield z3.BoolVal(True, theory.context)
    for fact in obligation.sequent.facts[1:]:
        others = {v: theory.constant(v, "!other") for v in free_variables(fact) if v not in bound}
        yield theory.formula(fact, {**bound, **others}, OLD)


@refusing
def decide(
    system: System, obligations: Sequence[Obligation], timeout_s: float
) -> Iterator[Judgement]:
    """The verdict on each obligation, in order. timeout_s: for one question, which is asked twice
    if it is not proved at once from fewer claims.
    """
    theory = Theory(system)
    groups: dict[tuple[int, ...], list[Obligation]] = {}
    for one in obligations:
        groups.setdefault(_premises(one), []).append(one)
    answers = {key: _answers(theory, group, timeout_s) for key, group in groups.items()}
    for one in obligations:
        yield next(answers[_premises(one)])


def _premises(obligation: Obligation) -> tuple[int, ...]:
    """Equal for obligations of the same row from the same claims."""
    return id(obligation.sequent.assumed), id(obligation.table), id(obligation.row)


def _answers(
    theory: Theory, group: Sequence[Obligation], timeout_s: float
) -> Iterator[Judgement]:
    """The verdict on each obligation, in order. group: all with the same premises.

    One question is whether any of several can be violated. If none can, all are met; otherwise each
    is asked about by itself.
    """
    pairs = tuple(zip(group, _from_fewer_claims(theory.system, group), strict=True))
    for first in range(0, len(pairs), TOGETHER_MAX):
        several = pairs[first : first + TOGETHER_MAX]
        if len(several) > 1:
            together = question(theory, [fewer for _, fewer in several])
            if _judged(together, min(timeout_s, TOGETHER_S)).status is Status.PROVED:
                yield from (Judgement(Status.PROVED) for _ in several)
                continue
        for obligation, fewer in several:
            judgement = _decided(theory, fewer, timeout_s)
            if fewer is not obligation and judgement.status is not Status.PROVED:
                judgement = _decided(theory, obligation, timeout_s)
            yield judgement


def cores(
    system: System, obligations: Sequence[Obligation], timeout_s: float
) -> Iterator[frozenset[str] | None]:
    """For each obligation, names of assumed claims that suffice to meet it; None if Z3 does not
    prove it. timeout_s: as in `decide`.
    """
    for obligation in obligations:
        (fewer,) = _from_fewer_claims(system, [obligation])
        names = _core(system, fewer, timeout_s)
        yield _core(system, obligation, timeout_s) if names is None else names


def _core(system: System, obligation: Obligation, timeout_s: float) -> frozenset[str] | None:
    solver = question(Theory(system), [obligation], named=True)
    if _judged(solver, timeout_s).status is not Status.PROVED:
        return None
    return frozenset(str(name).removeprefix(NAMED) for name in solver.unsat_core())


def _from_fewer_claims(
    system: System, obligations: Sequence[Obligation]
) -> Iterator[Obligation]:
    """Each without the assumed claims that close a cycle of sorts; itself if none does.

    All have the same assumptions. The violated claim is always assumed: it held before the row.
    """
    assumed = obligations[0].sequent.assumed
    kept = {id(claim) for claim in stratified(assumed, tuple(system.axioms.values()))}
    for one in obligations:
        fewer = tuple(c for c in assumed if id(c) in kept or c.name == one.claim.name)
        yield one if len(fewer) == len(assumed) else replace(
            one, sequent=replace(one.sequent, assumed=fewer))


def _decided(theory: Theory, obligation: Obligation, timeout_s: float) -> Judgement:
    judgement = _judged(question(theory, [obligation]), min(timeout_s, SHARED_S))
    if judgement.status is not Status.UNKNOWN:
        return judgement
    if any(_fails_with_few(theory.system, obligation, size, timeout_s) for size in FEW):
        return Judgement(Status.FAILED)
    return _judged(question(Theory(theory.system), [obligation]), timeout_s)


def _fails_with_few(
    system: System, obligation: Obligation, size: int, timeout_s: float
) -> bool:
    """Whether a state with at most `size` elements of each sort violates the claim."""
    theory = Theory(system)
    solver = question(theory, [obligation])
    solver.add(*theory.at_most(size))
    return _judged(solver, min(timeout_s, FEW_S)).status is Status.FAILED


def _judged(solver: Any, timeout_s: float) -> Judgement:
    solver.set("timeout", int(timeout_s * 1000))
    answer = solver.check()
    if answer == z3.unsat:
        return Judgement(Status.PROVED)
    if answer == z3.sat:
        return Judgement(Status.FAILED)
    return Judgement(Status.UNKNOWN, f"Z3 gave up: {solver.reason_unknown()}")
