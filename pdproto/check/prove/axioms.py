"""Checks that the axioms and `init=` can hold together: contradictory ones would prove everything.

Every proof assumes the axioms, that each sort has an element, and that there is an initial state.
So each engine decides once whether this is possible. The cut-off engine searches for an
interpretation with up to ELEMENTS_MAX elements of each sort. This is exact: constants may denote
the same element, so one question covers all smaller sizes. If there is none, it searches for a
contradiction among the instances that its proofs use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    all_of,
    atoms,
    bound_variables,
    free_variables,
    normal,
)
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.ranking import Ranking
from pdproto.spec.language.system import System

ELEMENTS_MAX: Final = 5
INIT: Final = "init="  # the name of the formula of the initial states; no axiom has it
Axioms = Mapping[str, Formula]


def require_possible(
    system: System, engines: Iterable[str], timeout_s: float, *, beside: Axioms | None = None
) -> Judgement:
    """PROVED if every engine finds that the axioms, and `init=`, can hold together, and UNKNOWN
    otherwise.

    beside: assumptions of a proof in addition to the axioms. Raises SpecError, with the names of
    the contradictory ones, as soon as one engine finds a contradiction.
    """
    start = {} if system.init is None else {INIT: all_of(*system.starts)}
    axioms = {**system.axioms, **start, **(beside or {})}
    judged = Judgement(Status.PROVED)
    for engine in engines if axioms else ():
        found = ENGINES[engine](system, axioms, timeout_s)
        if found.status is Status.UNKNOWN and engine != SECOND:
            # An interpretation found by one engine is enough.
            found = ENGINES[SECOND](system, axioms, timeout_s)
        if found.status is Status.FAILED:
            together = _together(system, axioms, timeout_s)
            told = "; ".join(f"{name}: {formula_text(axioms[name])}" for name in together)
            which = f"the axioms and {INIT}" if INIT in together else "the axioms"
            contradict = f"{INIT} contradicts itself" if together == (INIT,) else (
                f"{which} contradict each other")
            raise SpecError(
                system.place,
                f"{system.name}: {contradict}, so everything could be proved (each sort has an "
                f"element): drop a part of {told}",
            )
        if found.status is Status.UNKNOWN:
            judged = found
    return judged


def doubts(
    system: System, rankings: Iterable[Ranking], engines: Sequence[str], timeout_s: float
) -> Mapping[str, str]:
    """By `leads_to`, why it is unknown whether the assumptions of its ranking can hold together.

    Raises SpecError as `require_possible` does.
    """
    judged = {
        ranking.leads_to: require_possible(system, engines, timeout_s, beside=ranking.assumed)
        for ranking in rankings if ranking.assumed
    }
    return {name: found.note for name, found in judged.items()
            if found.status is not Status.PROVED}


def _together(system: System, axioms: Axioms, timeout_s: float) -> tuple[str, ...]:
    """A smallest set of axioms that contradict each other."""
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
    """Whether an interpretation with at most so many elements of each sort satisfies all."""
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
    """The tree of a closed formula in negation normal form, with every quantifier expanded."""
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

    A proof instantiates an axiom with `exists` at the variables of its goal. Here they are the
    outermost variables of the axioms.
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
SECOND: Final = "quantified"  # the engine to ask if the first one has no answer
ENGINES: Final[Mapping[str, Ask]] = {"cutoff": _by_cutoff, SECOND: _by_z3}
