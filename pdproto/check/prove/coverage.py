"""Has every trigger one answer, in every state, however many of everything there are?

*Total*: whatever message or completion arrives at an instance, in whatever state, some row on it
can fire: one that acts, ignores it or rejects it. *Deterministic*: no two rows on one trigger can
fire for the same arguments, so that the table leaves no choice to whoever runs it. What the caller
chooses is part of the trigger, as in lint (pdproto/check/lint/determinism.py), and two ways to
ignore a message, or to reject it, are one answer. Calls and timers are offers: an endpoint without
a row makes none, so they need only be unambiguous.

That a message has been sent is not assumed: a broken peer sends what it likes, and must be answered
too. Assumed are the claims, that is a state that a run can reach.

Each question is put as an obligation about no row of the system: a row that does nothing, whose
parameters are the instance's own and the trigger's. The conditions of the rows on the trigger,
renamed to these, are the facts. Lint asks the same of ground rows at small sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeAlias

from pdproto.check.prove.obligations import Claim, Method, Obligation, Sequent
from pdproto.check.prove.rewriting import apart, marked, renamed
from pdproto.check.prove.scoping import exists_within
from pdproto.check.words import trigger_name
from pdproto.spec.language.formula import (
    TRUE,
    And,
    Formula,
    Not,
    Or,
    Same,
    atoms,
    free_variables,
    implies,
    negated,
    normal,
)
from pdproto.spec.language.machine import Call, Completion, Machine, Row, Table, Timer
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent
from pdproto.spec.language.system import System

AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]
Event: TypeAlias = Sent | Call | Timer | Completion

ROW_MARK: Final = "_of_row"  # on the variables of a row, before they become the trigger's
PEER_MARK: Final = "_of_peer"  # on arguments that are called like the instance's own variables


@dataclass(frozen=True, slots=True)
class Answers:
    """All rows of one machine on one trigger, in the protocol or in one fault layer.

    arguments: variables for the trigger's arguments; those that name the instance are its own.
    """

    table: Table
    layer: str
    on: Event
    arguments: tuple[Sort, ...]
    rows: tuple[tuple[Table, Row], ...]

    @property
    def name(self) -> str:
        """`source on publish`."""
        return f"{self.table.machine} on {trigger_name(self.on)[1]}"

    @property
    def part_of(self) -> str:
        """What all triggers of the machine are part of."""
        return f"answers_of_{self.table.machine}"

    @property
    def asked(self) -> Row:
        """A row that does nothing, whose parameters are the trigger's arguments."""
        chosen = tuple(v for v in self.arguments if v not in self.table.machine.own)
        return Row(self.name, choose=tuple(dict.fromkeys(chosen)), place=self.table.place)

    def condition(self, table: Table, row: Row) -> Formula:
        """When the row can answer, of the trigger's arguments and of what it chooses.

        An argument that the row names twice (`propose(p, n, n)`), or as the instance's own, is a
        condition: the trigger's arguments are one element there.
        """
        given = tuple(zip(_arguments(row.on), self.arguments, strict=True))
        names = {v: v for v in (*row.choose, *table.machine.own)}
        for mine, argument in given:
            names.setdefault(mine, argument)
        same = tuple(Same(names[mine], argument) for mine, argument in given
                     if names[mine] != argument)
        condition = renamed(
            apart(table.condition(row), ROW_MARK),
            {marked(old, ROW_MARK): new for old, new in names.items()},
        )
        return And((*same, condition))


def coverage(system: System, every: Sequence[Claim]) -> Iterator[Obligation]:
    """That every trigger of the system has an answer, and that it has but one."""
    assumed = tuple(claim for claim in every if claim.inductive)
    for answers in triggers(system):
        comes = answers.layer == "" and isinstance(answers.on, Sent | Completion)
        if comes and (answers.rows or not _is_read(system, answers.on)):
            yield _answered(answers, assumed)
        yield from _once(answers, assumed)


def triggers(system: System) -> Iterator[Answers]:
    """Every trigger of every process, with the rows on it."""
    for layer in ("", *system.faults):
        tables = system.tables if not layer else system.faults[layer]
        for machine in dict.fromkeys(t.machine for t in tables if not t.machine.world):
            own = [table for table in tables if table.machine is machine]
            for on in _events(system, machine, own, protocol=not layer):
                rows = tuple((table, row) for table in own for row in table.rows
                             if trigger_name(row.on) == trigger_name(on))
                yield Answers(own[0], layer, on, _canonical(on, machine, rows), rows)


def _events(
    system: System, machine: AnyMachine, tables: Sequence[Table], *, protocol: bool
) -> Iterator[Event]:
    """Each trigger once; messages as they are declared, and those that no row is on too."""
    if protocol:
        for symbol in system.variables:
            if isinstance(symbol, Message) and symbol.receiver.machine is machine:
                yield symbol(*symbol.formals)
    found: dict[tuple[str, str], Event] = {}
    for table in tables:
        for row in table.rows:
            if row.on is not None and not (protocol and isinstance(row.on, Sent)):
                found.setdefault(trigger_name(row.on), row.on)
    yield from found.values()


def _arguments(on: Event | None) -> tuple[Sort, ...]:
    match on:
        case Sent():
            return on.arguments
        case Call() | Completion():
            return on.parameters
        case _:
            return ()


def _canonical(
    on: Event, machine: AnyMachine, rows: Sequence[tuple[Table, Row]]
) -> tuple[Sort, ...]:
    """The arguments, where those that name the receiving instance are its own variables.

    Where the instance or a row's choice has the name of another argument, that one is marked.
    """
    receiver = on.message.receiver.variables if isinstance(on, Sent) else machine.own
    here = dict(zip(receiver, machine.own, strict=True))
    taken = {*machine.own, *(variable for _, row in rows for variable in row.choose)}
    return tuple(
        here[given] if given in here else marked(given, PEER_MARK) if given in taken else given
        for given in _arguments(on)
    )


def _is_read(system: System, on: Event) -> bool:
    """A message that guards look at where it lies needs no row of its own."""
    return isinstance(on, Sent) and any(
        atom.symbol is on.message
        for table, row in system.rows() if table.machine is on.message.receiver.machine
        for condition in row.conditions
        for atom, _ in atoms(condition)
    )


def _answered(answers: Answers, assumed: tuple[Claim, ...]) -> Obligation:
    """No state in which no row answers."""
    told = Or(tuple(_possible(answers, table, row) for table, row in answers.rows))
    claim = Claim(f"{answers.name}: answered", told, Method.COVERAGE, answers.table.place,
                  why="whatever arrives is acted on, ignored or rejected", part_of=answers.part_of)
    return _asked(answers, claim, negated(told), assumed)


def _possible(answers: Answers, table: Table, row: Row) -> Formula:
    """Some choice lets the row answer."""
    chosen = tuple(v for v in row.choose if v not in answers.arguments)
    return exists_within(chosen, answers.condition(table, row))


def _once(answers: Answers, assumed: tuple[Claim, ...]) -> Iterator[Obligation]:
    """No state in which two rows answer."""
    for (table, one), (other_table, other) in combinations(answers.rows, 2):
        if one.kind == other.kind != "row":
            continue
        first = answers.condition(table, one)
        second = answers.condition(other_table, other)
        claim = Claim(
            f"{answers.name}: {one.name} or {other.name}", implies(first, Not(second)),
            Method.COVERAGE, other.place, why="a trigger has one answer", part_of=answers.part_of,
        )
        yield _asked(answers, claim, normal(And((first, second))), assumed)


def _asked(
    answers: Answers, claim: Claim, fact: Formula, assumed: tuple[Claim, ...]
) -> Obligation:
    row = answers.asked
    parameters = answers.table.parameters(row)
    others = tuple(v for v in free_variables(fact) if v not in parameters)
    sequent = Sequent(assumed, (TRUE, fact), (*parameters, *others))
    return Obligation(claim, sequent, answers.table, row, answers.layer)
