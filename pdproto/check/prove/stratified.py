"""Claims whose `exists` leads to no cycle of sorts, about which Z3 decides quickly.

`for all x: for some y` makes an element of y's sort from each element of x's: an edge from the one
sort to the other. Along a cycle of edges, instances make elements without an end, and each wants
instances of its own. Without a cycle there are finitely many, and the formulas are decidable
(Padon, Losa, Sagiv and Shoham, "Paxos made EPR", OOPSLA 2017, section 3).
"""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from pdproto.check.prove.obligations import Claim
from pdproto.spec.language.formula import (
    And,
    Exists,
    Forall,
    Formula,
    Or,
    free_variables,
    normal,
)
from pdproto.spec.language.sorts import Sort

Edge: TypeAlias = tuple[type[Sort], type[Sort]]


def stratified(claims: Sequence[Claim], axioms: Sequence[Formula]) -> tuple[Claim, ...]:
    """The claims without those whose edges close a cycle with the axioms and the claims before."""
    taken = {edge for axiom in axioms for edge in edges(axiom)}
    found = []
    for claim in claims:
        new = set(edges(claim.formula))
        if new <= taken or not _has_cycle(taken | new):
            taken |= new
            found.append(claim)
    return tuple(found)


def edges(formula: Formula) -> Iterator[Edge]:
    """From the sort of each `forall`, and of each free variable, to those of `exists` under it."""
    return _edges(normal(formula), tuple(type(v) for v in free_variables(formula)))


def _edges(formula: Formula, outer: tuple[type[Sort], ...]) -> Iterator[Edge]:
    match formula:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _edges(part, outer)
        case Forall(variable, body):
            yield from _edges(body, (*outer, type(variable)))
        case Exists(variable, body):
            yield from ((sort, type(variable)) for sort in outer)
            yield from _edges(body, outer)
        case _:
            pass


def _has_cycle(found: set[Edge]) -> bool:
    sorter: TopologicalSorter[type[Sort]] = TopologicalSorter()
    for start, end in found:
        sorter.add(end, start)
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False
