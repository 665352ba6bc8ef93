"""Can the axioms hold together at all? From axioms that contradict each other all is proved.

Every proof assumes the axioms, and that each sort has an element. So each engine is asked once
whether that is possible. The cut-off looks for an interpretation of up to ELEMENTS_MAX elements of
each sort, which it decides exactly: constants may denote the same element, so that one question
covers all smaller sizes. Where it finds none, it asks for a contradiction among the instances that
its proofs use.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import z3

from pdproto.check.prove.clauses import Clauses, Vocabulary
from pdproto.check.prove.cutoff import ground, opened
from pdproto.check.prove.herbrand import Environment, Leaf, Node, Tree, has_exists
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Claim, Method, Obligation, Sequent
from pdproto.check.prove.quantified import OLD, Theory
from pdproto.check.prove.sat import Answer, Solver
from pdproto.check.words import formula_text
from pdproto.spec.language.formula import (
    TRUE,
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
    bound_variables,
    free_variables,
    normal,
)
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import System

ELEMENTS_MAX: Final = 5
Axioms = Mapping[str, Formula]


def require_possible(
    system: System, engines: Iterable[str], timeout_s: float, *, beside: Axioms | None = None
) -> Judgement:
    """Proved if every engine says that the axioms can hold together, and unknown otherwise.

    beside: what a proof assumes beside the axioms. Raises SpecError with the names of those that
    contradict each other, as soon as one engine finds that they do.
    """
    axioms = {**system.axioms, **(beside or {})}
    judged = Judgement(Status.PROVED)
    for engine in engines if axioms else ():
        found = ENGINES[engine](system, axioms, timeout_s)
        if found.status is Status.UNKNOWN and engine != SECOND:
            # An interpretation is one, whoever finds it.
            found = ENGINES[SECOND](system, axioms, timeout_s)
        if found.status is Status.FAILED:
            told = "; ".join(
                f"{name}: {formula_text(axioms[name])}"
                for name in _together(system, axioms, timeout_s)
            )
            raise SpecError(
                system.place,
                f"{system.name}: the axioms contradict each other, so that everything could be "
                f"proved from them (each sort has an element): {told}",
            )
        if found.status is Status.UNKNOWN:
            judged = found
    return judged


def _together(system: System, axioms: Axioms, timeout_s: float) -> tuple[str, ...]:
    """Names of axioms that contradict each other, none of which can be left out."""
    kept = dict(axioms)
    for name in axioms:
        rest = {other: axiom for other, axiom in kept.items() if other != name}
        if rest and any(ask(system, rest, timeout_s).status is Status.FAILED
                        for ask in ENGINES.values()):
            kept = rest
    return tuple(kept)


def _by_cutoff(system: System, axioms: Axioms, timeout_s: float) -> Judgement:
    formulas = [normal(axiom) for axiom in axioms.values()]
    for elements in range(1, ELEMENTS_MAX + 1):
        if _holds_within(formulas, elements, timeout_s):
            return Judgement(Status.PROVED)
    if _contradicts(system, axioms, timeout_s):
        return Judgement(Status.FAILED)
    return Judgement(
        Status.UNKNOWN,
        f"no interpretation of up to {ELEMENTS_MAX} elements of each sort satisfies "
        f"{', '.join(axioms)}, and no contradiction was found",
    )


def _holds_within(formulas: list[Formula], elements: int, timeout_s: float) -> bool:
    """Whether some interpretation of at most that many elements of each sort satisfies all."""
    symbols = tuple(dict.fromkeys(atom.symbol for f in formulas for atom, _ in atoms(f)))
    sorts = dict.fromkeys((
        *(sort for symbol in symbols for sort in symbol.sorts),
        *(type(v) for f in formulas for v in (*free_variables(f), *bound_variables(f))),
    ))
    clauses = Clauses(Vocabulary(symbols, dict.fromkeys(sorts, elements)))
    for formula in formulas:
        closed = formula
        for variable in free_variables(formula):
            closed = Forall(variable, closed)
        clauses.add(clauses.node(_spelled_out(closed, {}, elements)))
    return Solver(clauses.dimacs, timeout_s=timeout_s).ask([]) is Answer.SATISFIABLE


def _spelled_out(formula: Formula, environment: Environment, elements: int) -> Node:
    """The tree of a closed formula in negation normal form, every quantifier over the elements."""
    match formula:
        case And(parts) | Or(parts):
            inner = tuple(_spelled_out(part, environment, elements) for part in parts)
            return Tree(isinstance(formula, And), inner)
        case Forall(variable, body) | Exists(variable, body):
            each = tuple(_spelled_out(body, {**environment, variable: number}, elements)
                         for number in range(elements))
            return Tree(isinstance(formula, Forall), each)
        case Not(Atom() | Same() | Before() as basic):
            return Leaf(basic, False, environment)
        case Atom() | Same() | Before():
            return Leaf(formula, True, environment)
    raise AssertionError(f"not in negation normal form: {formula!r}")


def _contradicts(system: System, axioms: Axioms, timeout_s: float) -> bool:
    """Whether the instances of the axioms that a proof uses contradict each other.

    An axiom with `exists` is instantiated at the variables of what is to be shown: here at those
    that any of the axioms opens with.
    """
    claims = tuple(Claim(name, opened(axiom), Method.INDUCTION, system.place)
                   for name, axiom in axioms.items())
    goal = tuple(dict.fromkeys(
        variable for claim in claims if has_exists(normal(claim.formula))
        for variable in free_variables(claim.formula)
    ))
    own = {name: axiom for name, axiom in axioms.items() if name in system.axioms}
    assumed = tuple(claim for claim in claims if claim.name not in own)
    alone = replace(system, axioms=own, like=system)
    nothing = Claim("axioms", TRUE, Method.INDUCTION, system.place)
    asked = ground(alone, [Obligation(nothing, Sequent(assumed, (TRUE,), goal))], weakened=True)
    solver = Solver(asked.clauses.dimacs, timeout_s=timeout_s)
    return solver.ask(asked.selectors) is Answer.UNSATISFIABLE


def _by_z3(system: System, axioms: Axioms, timeout_s: float) -> Judgement:
    theory = Theory(system)
    solver: Any = z3.Solver(ctx=theory.context)
    solver.set("timeout", int(timeout_s * 1000))
    solver.add(*theory.orders(), *(theory.everywhere(a, OLD) for a in axioms.values()))
    answer = solver.check()
    if answer == z3.sat:
        return Judgement(Status.PROVED)
    if answer == z3.unsat:
        return Judgement(Status.FAILED)
    return Judgement(
        Status.UNKNOWN,
        f"Z3 gave up on whether {', '.join(axioms)} can hold together: {solver.reason_unknown()}",
    )


Ask = Callable[[System, Axioms, float], Judgement]
SECOND: Final = "quantified"  # who is asked where the cut-off does not know
ENGINES: Final[Mapping[str, Ask]] = {"cutoff": _by_cutoff, SECOND: _by_z3}
