"""The proof obligations of a claim. If all are met, it holds in every reachable state, at any size.

The proof is by induction: the claim holds at the start, and after each row that fires in a state in
which all claims hold. So there is an obligation for each claim and each row, also for the fault
rows of all layers. Six kinds of claims are about one state only: a claim that follows from others
(`by`); a property of states in which a row can fire (`OnRow`); what a row does to the state of a
simpler system (stepwise.py); a variable moves along its edges; no `reject` row is ever enabled; and
no row without a trigger sends in a state that it does not change.

An obligation is a *sequent*: some formulas hold for all elements, and others for some elements, its
constants. It is met if no state of any size satisfies all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.rewriting import apart, before_row, hits, initially, marked
from pdproto.check.prove.settling import unmoved, written
from pdproto.check.prove.stepwise import Stepwise
from pdproto.check.questions import (
    BUSY,
    NO_BUSY_ROW,
    NO_REJECT,
    PEERS,
    edges_text,
    name_of_edges,
    sends_unasked,
)
from pdproto.check.words import claim_text, formula_text
from pdproto.spec.language.conflicts import overriding
from pdproto.spec.language.elements import one_value
from pdproto.spec.language.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Formula,
    Not,
    Or,
    any_of,
    exists,
    free_variables,
    negated,
    normal,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import Place, SpecError
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Update, Variable
from pdproto.spec.language.system import System

MARK: Final = "_"  # on the variables of a claim, to distinguish them from those of a row
START: Final = "the start"
ANY_STATE: Final = "any state"
MONOTONE: Final = "monotone"  # the part that all obligations of monotone predicates belong to


class Method(StrEnum):
    """The method by which a claim is proved."""

    INDUCTION = "induction"
    CONSEQUENCE = "consequence"
    ON_ROW = "on its row"
    EDGES = "edges"
    REJECTS = "rejects"
    BUSY = "busy"
    REFINES = "step by step"
    COVERAGE = "coverage"
    RANKING = "ranking"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to prove. Free variables of the formula stand for all elements.

    said: the claim in words, where no formula about a state has it (EDGES, REJECTS, BUSY, REFINES;
    COVERAGE of a message without a row).
    """

    name: str
    formula: Formula
    method: Method
    place: Place
    why: str = ""
    is_lemma: bool = False
    row: str = ""  # of ON_ROW
    by: tuple[str, ...] = ()  # of CONSEQUENCE
    part_of: str = ""  # for COVERAGE and RANKING: the group of the claim
    refines: Refines | None = None  # of REFINES
    said: str = ""

    @property
    def text(self) -> str:
        """The claim as a reader sees it."""
        return self.said or formula_text(self.formula)

    @property
    def inductive(self) -> bool:
        """Whether the claim is proved by induction."""
        return self.method is Method.INDUCTION

    @property
    def holds_always(self) -> bool:
        """Whether the claim is about every state, so that a step from one may assume it."""
        return self.method in (Method.INDUCTION, Method.CONSEQUENCE)


@dataclass(frozen=True, slots=True)
class Sequent:
    """Formulas that no state may satisfy together.

    assumed: claims that hold before the row, for all elements. facts: formulas about constants,
    which are their free variables. goal: the constants of the violated claim.
    """

    assumed: tuple[Claim, ...]
    facts: tuple[Formula, ...]
    goal: tuple[Sort, ...]


@dataclass(frozen=True, slots=True)
class Obligation:
    """The obligation of one claim for one row, or for the initial state or any one (no row).

    row: a row that uses a channel is another one here, of the same name (places.py). beside: what
    the argument relies on beside the assumed formulas: names of claims, or of groups.
    """

    claim: Claim
    sequent: Sequent
    table: Table | None = None
    row: Row | None = None
    layer: str = ""
    beside: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The name of the claim, or of the group, whose verdict it is a part of."""
        return self.claim.part_of or self.claim.name

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The names of the claims and groups that its proof assumes."""
        return (*(claim.name for claim in self.sequent.assumed), *self.beside)

    @property
    def about_rows(self) -> bool:
        """Whether the claim is that no row of a kind fires."""
        return self.claim.method in (Method.REJECTS, Method.BUSY)

    @property
    def place(self) -> Place:
        """Of the claim; of the row that may not fire."""
        about = self.row if self.about_rows else None
        return self.claim.place if about is None else about.place

    @property
    def scope(self) -> str:
        """The name of the row, or START, or ANY_STATE."""
        if self.row is not None:
            return self.row.name
        return ANY_STATE if self.claim.method is Method.CONSEQUENCE else START

    @property
    def name(self) -> str:
        """The names of the claim and of the row, as text."""
        return f"{self.claim.name} at {self.scope}"


def claims(system: System, lemmas: Sequence[Always] = ()) -> tuple[Claim, ...]:
    """Every safety property of the system, its derived ones too, and the lemmas.

    Raises SpecError if two of them have one name.
    """
    places = ProofRows(system)
    properties, derived = [*_properties(system)], [*_derived(system, places)]
    added = [replace(_always(lemma), is_lemma=True) for lemma in lemmas]
    taken = {claim.name for claim in derived}
    for claim in (*properties, *added):
        if claim.name in taken:
            kind = "lemma" if claim.is_lemma else "property"
            raise SpecError(claim.place, f"{kind} {claim.name!r}: another claim has this name")
        taken.add(claim.name)
    found = (*properties, *derived, *added)
    return tuple(replace(claim, formula=places.claimed(claim.formula)) for claim in found)


def _always(claim: Always) -> Claim:
    method = Method.CONSEQUENCE if claim.by else Method.INDUCTION
    return Claim(claim.name, claim.claim, method, claim.place, claim.why, by=claim.by)


def _properties(system: System) -> Iterator[Claim]:
    for claim in system.properties:
        match claim:
            case Always():
                yield _always(claim)
            case OnRow():
                yield Claim(claim.name, claim.claim, Method.ON_ROW, claim.place, claim.why,
                            row=claim.row)
            case Refines():
                yield Claim(claim.name, Or(()), Method.REFINES, claim.place, claim.why,
                            refines=claim, said=claim_text(claim))
            case _:
                pass  # a witness is found by the explorer, and so is a fair run


def _derived(system: System, places: ProofRows) -> Iterator[Claim]:
    for function in system.element_functions():
        yield Claim(f"{function.name}_has_one_value", one_value(function), Method.INDUCTION,
                    function.place)
    for name, formula, message in places.one_message_a_place():
        yield Claim(name, formula, Method.INDUCTION, message.place)
    for variable in system.bounded_variables():
        yield Claim(name_of_edges(variable), Or(()), Method.EDGES, variable.place,
                    said=edges_text(variable))
    if any(row.kind == "reject" for _, row in system.rows()):
        yield Claim(PEERS, Or(()), Method.REJECTS, system.place, said=NO_REJECT)
    if any(sends_unasked(table, row) for table, row in system.rows()):
        yield Claim(BUSY, Or(()), Method.BUSY, system.place, said=NO_BUSY_ROW)


def obligations(
    system: System, every: Sequence[Claim], *, wanted: Sequence[str] = ()
) -> tuple[Obligation, ...]:
    """The obligations of the claims; a step assumes all claims that hold in every state.

    wanted: the names of claims; all if empty.
    """
    assumed = tuple(claim for claim in every if claim.holds_always)
    places = tuple(ProofRows(system).rows())
    found: list[Obligation] = []
    for claim in every:
        if wanted and claim.name not in wanted:
            continue
        if claim.inductive:
            found.append(_initiation(system, claim))
        elif claim.method is Method.CONSEQUENCE:
            found.append(_consequence(claim, every))
        elif claim.refines is not None:
            start = Stepwise(claim.refines).initially()
            found.append(_initiation(system, replace(claim, formula=start)))
        found += _steps(places, claim, assumed)
    return tuple(found)


def _initiation(system: System, claim: Claim) -> Obligation:
    goal = initially(negated(claim.formula))
    facts = (normal(goal), *map(normal, system.starts))
    return Obligation(claim, Sequent((), facts, free_variables(claim.formula)))


def _consequence(claim: Claim, every: Sequence[Claim]) -> Obligation:
    """The claims that it follows from are proved by induction, so there is no circle."""
    assumed = tuple(other for other in every if other.name in claim.by)
    return Obligation(claim, Sequent(
        assumed, (normal(negated(claim.formula)),), free_variables(claim.formula)))


def _steps(
    every: Sequence[tuple[Table, Row, Row, str]], claim: Claim, assumed: tuple[Claim, ...]
) -> Iterator[Obligation]:
    after = apart(claim.formula, MARK)
    for table, row, placed, layer in every:
        for facts, goal in _violations(claim, after, table, row, placed):
            guard = normal(table.guard(placed))
            yield Obligation(claim, Sequent(assumed, (guard, *facts), goal), table, placed, layer)


def rows(system: System) -> Iterator[tuple[Table, Row, str]]:
    """Every row of the protocol and of every fault layer, with its table and layer."""
    for table, layer in system.tables_under(tuple(system.faults)):
        for row in table.rows:
            yield table, row, layer


def _violations(
    claim: Claim, after: Formula, table: Table, written_row: Row, row: Row
) -> Iterator[tuple[tuple[Formula, ...], tuple[Sort, ...]]]:
    """The ways in which the row may violate the claim: further facts before it, and their goal.

    after: the claim with marked variables. row: by the rules of places.py. None if the row cannot
    violate the claim.
    """
    match claim.method:
        case Method.INDUCTION:
            before = before_row(after, table, row)
            if before != after:
                yield (normal(negated(before)),), free_variables(after)
        case Method.ON_ROW if claim.row == row.name:
            own = table.parameters(row)
            others = tuple(v for v in free_variables(claim.formula) if v not in own)
            yield (negated(claim.formula),), (*own, *others)
        case Method.EDGES:
            updates = table.assignments(row)
            for number, update in enumerate(updates):
                if name_of_edges(update.symbol) == claim.name:
                    moved = _forbidden(update, overriding(updates, number))
                    if moved is not None:
                        yield (moved,), table.parameters(row)
        case Method.REFINES if claim.refines is not None:
            stepwise = Stepwise(claim.refines)
            broken = normal(negated(stepwise.step(table, row)))
            if broken != FALSE:
                yield (broken,), (*table.parameters(row), *stepwise.over)
        case Method.REJECTS if row.kind == "reject":
            yield (), table.parameters(row)
        case Method.BUSY if sends_unasked(table, written_row):
            yield _unchanged(table, written_row), table.parameters(written_row)
        case _:
            pass


def _unchanged(table: Table, row: Row) -> tuple[Formula, ...]:
    """Formulas: the row changes no cell, and sends at least one message."""
    addressed = (exists(e.variable, e.where) if isinstance(e, Each) else TRUE for e in row.send)
    return normal(unmoved(table, row, set(written(table, row)))), normal(any_of(*addressed))


def _forbidden(update: Update, later: Sequence[Update]) -> Formula | None:
    """The formula: no edge leads from the cell's value to the assigned one; None if all do.

    later: updates that count in cells of this one.
    """
    symbol: Any = update.symbol
    assert isinstance(symbol, Variable)  # noqa: S101 - only variables have edges
    edges = symbol.edges or {}
    wrong = [
        value for value in symbol.values
        if value != update.value and update.value not in edges.get(value, ())
    ]
    if not wrong:
        return None
    cell = tuple(
        marked(sort(f"any{place}"), MARK) if argument is ANY else argument
        for place, (argument, sort) in enumerate(zip(update.arguments, symbol.sorts, strict=True))
    )
    moves = Or(tuple(Atom(symbol, cell, value) for value in wrong))
    if update.where == TRUE and not later:
        return moves
    kept = (Not(hits(cell, one.arguments, one.where, one.variables)) for one in later)
    return normal(And((update.where, moves, *kept)))
