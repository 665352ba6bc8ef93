"""The mutants of a protocol's tables: every single edit. They measure its properties.

A mutant changes one thing in one row. It drops the row. It drops or negates a conjunct of `when`.
Inside a conjunct it drops one of several parts, such as one value of `among`, or takes `exists` for
`forall`, or `forall` for `exists`. It drops one of several states of `at`, or all of them, so that
the row fires in any state. It changes the target state, or keeps the state. It drops an update,
changes its value, or lets it write the cells of all elements in place of those of one. It drops a
message, or drops or negates the condition of an `each`. Fault rows are not mutated, because they
are not part of the protocol. Values to which no declared edge leads are left out, because the
declaration alone would detect them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from pdproto.check.words import effect_text, formula_text, update_text
from pdproto.ground.layout import value_name
from pdproto.spec.language.edit import DropRow, ReplaceProperties, ReplaceRow, edited
from pdproto.spec.language.formula import (
    TRUE,
    And,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Value,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import Place
from pdproto.spec.language.properties import OnRow
from pdproto.spec.language.sorts import ANY
from pdproto.spec.language.symbols import Each, Update, Variable
from pdproto.spec.language.system import System


class EditKind(StrEnum):
    """The kind of an edit of a row."""

    DROP_ROW = "drop row"
    DROP_CONJUNCT = "drop conjunct"
    NEGATE_CONJUNCT = "negate conjunct"
    INSIDE = "change inside a conjunct"
    DROP_STATE = "drop state"
    TARGET = "change target"
    DROP_UPDATE = "drop update"
    DROP_SEND = "drop send"
    RECEIVERS = "change receivers"
    CELLS = "change cells"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit of a row as it is written. row: in the first system that has it. words: the edit as
    text.
    """

    number: int
    change: EditKind
    row: Row
    words: str

    @property
    def place(self) -> Place:
        """The place of the edited row."""
        return self.row.place

    def of(self, system: System) -> System | None:
        """The system with this edit; None if it has no such row, or another row of that name.

        A variant may have a changed form of the row: it gets the edit, unless it has not the part
        that is edited. Raises SpecError if the edited system is malformed.
        """
        found = system.row(self.row.name)
        if found is None or found[1].place != self.place:
            return None
        known = {(change, words): by for change, by, words in _edits(*found)}
        if (self.change, self.words) not in known:
            return None
        name, by = f"{system.name}, mutant {self.number}", known[self.change, self.words]
        if by is not None:
            return edited(system, name, ReplaceRow(self.row.name, by))
        # A property of the states in which a row can fire holds trivially without the row.
        kept = tuple(
            claim for claim in system.properties
            if not (isinstance(claim, OnRow) and claim.row == self.row.name)
        )
        return edited(system, name, ReplaceProperties(kept), DropRow(self.row.name))

    def __str__(self) -> str:
        return f"{self.place}: {self.row.name}: {self.words}"


_Edit: TypeAlias = tuple[EditKind, Row | None, str]


def is_mutated(table: Table) -> bool:
    """Whether the rows of the table are decisions of the protocol."""
    return table.machine.host or not table.machine.world


def mutants(systems: Sequence[System]) -> tuple[Mutant, ...]:
    """Every mutant of systems that share tables, in the order of the rows. A row and its forms in
    variants, which have its place in the source, count once.
    """
    edits: dict[tuple[Place, str, EditKind, str], Row] = {}
    for table, row in _rows(systems):
        for change, _, words in _edits(table, row):
            edits.setdefault((row.place, row.name, change, words), row)
    return tuple(
        Mutant(number, change, row, words)
        for number, ((_, _, change, words), row) in enumerate(edits.items())
    )


def _rows(systems: Sequence[System]) -> Iterator[tuple[Table, Row]]:
    """The rows that are mutated; equal ones once."""
    found: dict[str, list[Row]] = {}
    for system in systems:
        for table in system.tables:
            for row in table.rows if is_mutated(table) else ():
                known = found.setdefault(row.name, [])
                if row not in known:
                    known.append(row)
                    yield table, row


def _edits(table: Table, row: Row) -> Iterator[_Edit]:
    yield EditKind.DROP_ROW, None, "drop the row"
    yield from _guard_edits(row)
    yield from _state_edits(table, row)
    yield from _update_edits(row)
    yield from _wider_updates(table, row)
    yield from _send_edits(row)


def _guard_edits(row: Row) -> Iterator[_Edit]:
    conjuncts = tuple(_conjuncts(row.conditions))
    for place, conjunct in enumerate(conjuncts):
        before, behind = conjuncts[:place], conjuncts[place + 1 :]
        text = formula_text(conjunct)
        opposite = conjunct.part if isinstance(conjunct, Not) else Not(conjunct)
        yield EditKind.DROP_CONJUNCT, replace(row, when=before + behind), f"drop `{text}`"
        yield (
            EditKind.NEGATE_CONJUNCT,
            replace(row, when=(*before, opposite, *behind)),
            f"negate `{text}`",
        )
        for other in _inside(conjunct):
            yield (
                EditKind.INSIDE,
                replace(row, when=(*before, other, *behind)),
                f"`{formula_text(other)}` for `{text}`",
            )


def _inside(formula: Formula) -> Iterator[Formula]:
    """The formula with one part of a part left out, or with one quantifier changed."""
    match formula:
        case And(parts) | Or(parts) if _is_written(formula):
            for place, part in enumerate(parts):
                before, behind = parts[:place], parts[place + 1 :]
                if len(parts) > 1:
                    yield type(formula)(before + behind)
                yield from (type(formula)((*before, one, *behind)) for one in _inside(part))
        case Forall(variable, body) | Exists(variable, body):
            yield (Exists if isinstance(formula, Forall) else Forall)(variable, body)
            yield from (type(formula)(variable, one) for one in _inside(body))
        case Not(part):
            yield from map(Not, _inside(part))


def _is_written(formula: Formula) -> bool:
    """Whether its parts are written. A comparison of numbers, and a condition that reads a list,
    stand for others: they are one conjunct, which says by itself where it is meant (defined.py).
    """
    return type(formula) in (And, Or)


def _conjuncts(parts: Iterable[Formula]) -> Iterator[Formula]:
    """The parts of nested conjunctions, each by itself."""
    for part in parts:
        if isinstance(part, And) and _is_written(part):
            yield from _conjuncts(part.parts)
        else:
            yield part


def _state_edits(table: Table, row: Row) -> Iterator[_Edit]:
    """Edits of `at` and `to`."""
    if row.states:
        # Without its only state, the row would be dropped.
        for state in row.states if len(row.states) > 1 else ():
            fewer = tuple(other for other in row.states if other is not state)
            yield EditKind.DROP_STATE, replace(row, at=fewer), f"not at {value_name(state)}"
        yield EditKind.DROP_CONJUNCT, replace(row, at=()), "at any state"
    if row.to is None or table.state is None:
        return
    if row.states != (row.to,):
        yield EditKind.TARGET, replace(row, to=None), f"stay, and do not go to {value_name(row.to)}"
    before = row.states or table.state.values
    for value in type(row.to):
        if value is not row.to and row.states != (value,) and _allowed(table.state, before, value):
            yield EditKind.TARGET, replace(row, to=value), f"go to {value_name(value)}"


def _allowed(variable: Variable, before: Iterable[Value], value: Value) -> bool:
    """Whether the declared edges allow the move from at least one of the values."""
    return variable.edges is None or any(value in variable.edges.get(b, ()) for b in before)


def _update_edits(row: Row) -> Iterator[_Edit]:
    updates = tuple(row.do)
    for place, update in enumerate(updates):
        before, behind = updates[:place], updates[place + 1 :]
        text = update_text(update)
        yield EditKind.DROP_UPDATE, replace(row, do=before + behind), f"drop `{text}`"
        for value in _other_values(update):
            other = replace(update, value=value)
            yield (
                EditKind.TARGET,
                replace(row, do=(*before, other, *behind)),
                f"`{update_text(other)}` for `{text}`",
            )
        for where in (TRUE, Not(update.where)) if update.where != TRUE else ():
            other = replace(update, where=where)
            yield (
                EditKind.CELLS,
                replace(row, do=(*before, other, *behind)),
                f"`{update_text(other)}` for `{text}`",
            )


def _wider_updates(table: Table, row: Row) -> Iterator[_Edit]:
    """Edits that write the cells of all elements, and not those of one element alone."""
    updates = tuple(row.do)
    for number, update in enumerate(updates):
        for place, argument in enumerate(update.arguments):
            if argument in (ANY, *table.machine.own, *update.variables):
                continue
            arguments = (*update.arguments[:place], ANY, *update.arguments[place + 1 :])
            other = replace(update, arguments=arguments)
            yield (
                EditKind.CELLS,
                replace(row, do=(*updates[:number], other, *updates[number + 1 :])),
                f"`{update_text(other)}` for `{update_text(update)}`",
            )


def _other_values(update: Update) -> Iterator[Value]:
    """The other values of an enum to which an edge leads; none for a relation.

    A relation has only one other value, which is nearly the same as no update.
    """
    symbol = update.symbol
    if isinstance(symbol, Variable) and not isinstance(update.value, bool):
        for value in symbol.values:
            if value is not update.value and _allowed(symbol, symbol.values, value):
                yield value


def _send_edits(row: Row) -> Iterator[_Edit]:
    effects = tuple(row.send)
    for place, effect in enumerate(effects):
        before, behind = effects[:place], effects[place + 1 :]
        text = effect_text(effect)
        yield EditKind.DROP_SEND, replace(row, send=before + behind), f"drop `{text}`"
        if isinstance(effect, Each) and effect.where != TRUE:
            for where in (TRUE, Not(effect.where)):
                other = replace(effect, where=where)
                yield (
                    EditKind.RECEIVERS,
                    replace(row, send=(*before, other, *behind)),
                    f"`{effect_text(other)}` for `{text}`",
                )
