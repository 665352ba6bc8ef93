"""Obligations that every trigger has exactly one answer, in every state, at every size.

*Total*: for every message or completion at an instance, in every state, some row can fire: it acts,
ignores or rejects. *Deterministic*: no two rows on one trigger can fire for the same arguments, so
a runtime has no choice. The caller's choices are part of the trigger, as in lint
(pdproto/check/lint/determinism.py). Two rows that ignore a message, or two that reject it, are one
answer. Calls and timers need not be answered: an endpoint without a row does not offer them.

The obligations assume the claims, which hold in every reachable state. They do not assume that the
message has been sent, because a faulty peer may send any message and must be answered too.

Each obligation has an artificial row that does nothing. Its parameters are those of the instance
and of the trigger. The conditions of the rows on the trigger, renamed to these parameters, are the
facts. Lint checks the same for ground rows at small sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
PEER_MARK: Final = "_of_peer"  # on arguments with the names of the instance's own variables


@dataclass(frozen=True, slots=True)
class Answers:
    """All rows of one machine on one trigger, in the protocol or in one fault layer.

    arguments: variables for the trigger's arguments; the machine's own variables name the instance.
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
        """The name of the group of obligations for all triggers of the machine."""
        return f"answers_of_{self.table.machine}"

    @property
    def asked(self) -> Row:
        """The artificial row, which does nothing; its parameters are the trigger's arguments."""
        chosen = tuple(v for v in self.arguments if v not in self.table.machine.own)
        return Row(self.name, choose=tuple(dict.fromkeys(chosen)), place=self.table.place)

    @property
    def some(self) -> Formula:
        """The formula: some row answers."""
        return Or(tuple(_possible(self, table, row) for table, row in self.rows))

    @property
    def arrived(self) -> Formula:
        """The formula: the trigger is there. A completion or a call may come at any time."""
        on = self.on
        return replace(on, arguments=self.arguments).arrived if isinstance(on, Sent) else TRUE

    def condition(self, table: Table, row: Row) -> Formula:
        """The condition of the row, over the trigger's arguments and the row's choices.

        If the row names an argument twice (`propose(p, n, n)`), or uses an own variable of the
        instance, the condition includes that the arguments are the same element.
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
    """The obligations that every trigger of the system has exactly one answer.

    every: all claims; those about every state are assumed.
    """
    assumed = tuple(claim for claim in every if claim.holds_always)
    for answers in triggers(system):
        if is_owed(system, answers):
            yield _answered(answers, assumed)
        yield from _once(answers, assumed)


def is_owed(system: System, answers: "Answers") -> bool:
    """Whether the trigger comes in any state: a message, a completion, or a call at any time.

    A message without a row, which guards of the receiver read, is owed no answer.
    """
    comes = answers.layer == "" and _comes_in_any_state(answers.on)
    return comes and (bool(answers.rows) or not _is_read(system, answers.on))


def _comes_in_any_state(on: Event | None) -> bool:
    match on:
        case Sent() | Completion() | Call(any_time=True):
            return True
    return False


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
    """Each trigger once. protocol: with all declared messages, also those without a row."""
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
    """The arguments of the trigger; those that name the receiver become its own variables.

    Another argument with the name of an own variable or of a choice gets a mark.
    """
    receiver = on.message.receiver.variables if isinstance(on, Sent) else machine.own
    here = dict(zip(receiver, machine.own, strict=True))
    taken = {*machine.own, *(variable for _, row in rows for variable in row.choose)}
    return tuple(
        here[given] if given in here else marked(given, PEER_MARK) if given in taken else given
        for given in _arguments(on)
    )


def _is_read(system: System, on: Event) -> bool:
    """Whether guards of the receiver read the message, so that it needs no row."""
    return isinstance(on, Sent) and any(
        atom.symbol is on.message
        for table, row in system.rows() if table.machine is on.message.receiver.machine
        for condition in row.conditions
        for atom, _ in atoms(condition)
    )


def _answered(answers: Answers, assumed: tuple[Claim, ...]) -> Obligation:
    """The obligation that some row answers in every state."""
    told = answers.some
    said = "" if answers.rows else ("no row is on it: write a Row, an Ignore or a Reject in the "
                                    f"table of {answers.table.machine}")
    claim = Claim(f"{answers.name}: answered", told, Method.COVERAGE, answers.table.place,
                  why="each arriving event is acted on, ignored or rejected",
                  part_of=answers.part_of, said=said)
    return _asked(answers, claim, negated(told), assumed)


def _possible(answers: Answers, table: Table, row: Row) -> Formula:
    """The formula: the row can answer for some choice."""
    chosen = tuple(v for v in row.choose if v not in answers.arguments)
    return exists_within(chosen, answers.condition(table, row))


def _once(answers: Answers, assumed: tuple[Claim, ...]) -> Iterator[Obligation]:
    """The obligations that no two rows answer in one state."""
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
