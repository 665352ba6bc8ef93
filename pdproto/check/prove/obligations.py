"""What has to be shown, so that a claim holds in every state that any run of any size reaches.

A claim is shown by induction: it holds at the start, and whatever row fires in a state where all
claims hold, it holds afterwards. So there is an obligation for each claim and row, fault rows of
all layers among them. Four kinds of promise need no second state: what holds when a row fires
(`OnRow`), that a variable moves along its edges, that no `reject` row is ever enabled, and that no
row is that sends unasked and changes nothing.

An obligation is a *sequent*: some formulas hold for all elements, others for some elements, its
constants; it is met if no state of any size satisfies all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pdproto.check.prove.rewriting import apart, before_row, initially, marked
from pdproto.check.prove.settling import unmoved, written
from pdproto.check.questions import BUSY, PEERS, sends_unasked
from pdproto.spec.language.formula import (
    TRUE,
    Atom,
    Formula,
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
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Update, Variable
from pdproto.spec.language.system import System

MARK: Final = "_"  # on the variables of a claim, which must not meet those of a row
START: Final = "the start"
MONOTONE: Final = "monotone"  # the part that all obligations of monotone predicates belong to


class Method(StrEnum):
    """How a claim is shown."""

    INDUCTION = "induction"
    ON_ROW = "on its row"
    EDGES = "edges"
    REJECTS = "rejects"
    BUSY = "busy"
    COVERAGE = "coverage"
    RANKING = "ranking"


@dataclass(frozen=True, slots=True)
class Claim:
    """Something to be shown. Free variables of the formula stand for all elements."""

    name: str
    formula: Formula
    method: Method
    place: Place
    why: str = ""
    is_lemma: bool = False
    row: str = ""  # of ON_ROW
    part_of: str = ""  # of COVERAGE and RANKING: what it is a step of

    @property
    def inductive(self) -> bool:
        return self.method is Method.INDUCTION


@dataclass(frozen=True, slots=True)
class Sequent:
    """assumed: claims that hold before, for all elements. facts: formulas about constants, which
    are their free variables. goal: the constants that the violated claim speaks of.
    """

    assumed: tuple[Claim, ...]
    facts: tuple[Formula, ...]
    goal: tuple[Sort, ...]


@dataclass(frozen=True, slots=True)
class Obligation:
    """One claim against one row, or against the initial state (no row)."""

    claim: Claim
    sequent: Sequent
    table: Table | None = None
    row: Row | None = None
    layer: str = ""

    @property
    def scope(self) -> str:
        """The row, or the start."""
        return START if self.row is None else self.row.name

    @property
    def name(self) -> str:
        return f"{self.claim.name} at {self.scope}"


def claims(system: System, lemmas: Sequence[Always] = ()) -> tuple[Claim, ...]:
    """Every safety property of the system, its derived ones too, and the lemmas.

    Raises SpecError where a lemma is called like a property.
    """
    found = [*_properties(system), *_derived(system)]
    taken = {claim.name for claim in found}
    for lemma in lemmas:
        if lemma.name in taken:
            raise SpecError(lemma.place, f"lemma {lemma.name!r}: a claim is called so already")
        taken.add(lemma.name)
        found.append(Claim(
            lemma.name, lemma.claim, Method.INDUCTION, lemma.place, lemma.why, is_lemma=True
        ))
    return tuple(found)


def _properties(system: System) -> Iterator[Claim]:
    for claim in system.properties:
        match claim:
            case Always():
                yield Claim(claim.name, claim.claim, Method.INDUCTION, claim.place, claim.why)
            case OnRow():
                yield Claim(claim.name, claim.claim, Method.ON_ROW, claim.place, claim.why,
                            row=claim.row)
            case _:
                pass  # a witness is found by the explorer, and so is a fair run


def _derived(system: System) -> Iterator[Claim]:
    for variable in system.bounded_variables():
        yield Claim(f"{variable.name}_edges", Or(()), Method.EDGES, variable.place)
    if any(row.kind == "reject" for _, row in system.rows()):
        yield Claim(PEERS, Or(()), Method.REJECTS, system.place)
    if any(sends_unasked(table, row) for table, row in system.rows()):
        yield Claim(BUSY, Or(()), Method.BUSY, system.place)


def obligations(
    system: System, every: Sequence[Claim], *, wanted: Sequence[str] = ()
) -> tuple[Obligation, ...]:
    """What is to be shown for the claims of those names (empty: all), all claims assumed."""
    assumed = tuple(claim for claim in every if claim.inductive)
    found: list[Obligation] = []
    for claim in every:
        if wanted and claim.name not in wanted:
            continue
        if claim.inductive:
            found.append(_initiation(claim))
        found += _steps(system, claim, assumed)
    return tuple(found)


def _initiation(claim: Claim) -> Obligation:
    goal = initially(negated(claim.formula))
    return Obligation(claim, Sequent((), (normal(goal),), free_variables(claim.formula)))


def _steps(
    system: System, claim: Claim, assumed: tuple[Claim, ...]
) -> Iterator[Obligation]:
    for table, row, layer in rows(system):
        guard = normal(table.guard(row))
        for facts, goal in _violations(claim, table, row):
            yield Obligation(claim, Sequent(assumed, (guard, *facts), goal), table, row, layer)


def rows(system: System) -> Iterator[tuple[Table, Row, str]]:
    """Every row of the protocol and of every fault layer, with its table and layer."""
    for table, layer in system.tables_under(tuple(system.faults)):
        for row in table.rows:
            yield table, row, layer


def _violations(
    claim: Claim, table: Table, row: Row
) -> Iterator[tuple[tuple[Formula, ...], tuple[Sort, ...]]]:
    """How the claim may be violated by the row: what else must hold before it, of which constants.

    Nothing where the row can have no part in it.
    """
    match claim.method:
        case Method.INDUCTION:
            after = apart(claim.formula, MARK)
            before = before_row(after, table, row)
            if before != after:
                yield (normal(negated(before)),), free_variables(after)
        case Method.ON_ROW if claim.row == row.name:
            own = table.parameters(row)
            others = tuple(v for v in free_variables(claim.formula) if v not in own)
            yield (negated(claim.formula),), (*own, *others)
        case Method.EDGES:
            for update in table.updates(row):
                if f"{update.symbol.name}_edges" == claim.name:
                    moved = _forbidden(update)
                    if moved is not None:
                        yield (moved,), table.parameters(row)
        case Method.REJECTS if row.kind == "reject":
            yield (), table.parameters(row)
        case Method.BUSY if sends_unasked(table, row):
            yield _unchanged(table, row), table.parameters(row)
        case _:
            pass


def _unchanged(table: Table, row: Row) -> tuple[Formula, ...]:
    """Every cell is as the row leaves it; and what it sends, to one at least, has been sent."""
    addressed = (exists(e.variable, e.where) if isinstance(e, Each) else TRUE for e in row.send)
    return normal(unmoved(table, row, set(written(table, row)))), normal(any_of(*addressed))


def _forbidden(update: Update) -> Formula | None:
    """The cell has a value from which no edge leads to what is assigned; None if all have one."""
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
    return Or(tuple(Atom(symbol, cell, value) for value in wrong))
