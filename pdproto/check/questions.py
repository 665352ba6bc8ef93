"""Properties at given sizes: each becomes patterns, guards that a search looks for.

There are also properties that follow from declarations: variables move only along their declared
edges; relations that a message carries do not change after it is sent; no `reject` row is ever
enabled; and no row without a trigger sends the same messages for ever.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from pdproto.check.result import PropertyKind
from pdproto.check.symmetry import interchangeable
from pdproto.check.words import formula_text
from pdproto.ground.grounding import Environment, Ground, GroundRow
from pdproto.ground.layout import TooLargeError, cell_name, value_name
from pdproto.ground.program import Guard, Literal, conjoined, conjunction
from pdproto.spec.language.formula import (
    FALSE,
    Formula,
    Not,
    Or,
    free_variables,
    negated,
    normal,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import Place
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Symbol, Variable
from pdproto.spec.language.system import System

DEADLOCK: Final = "deadlock"
PEERS: Final = "no_peer_is_at_fault"
NO_REJECT: Final = "no row that rejects is ever enabled"
NO_BUSY_ROW: Final = "no row without a trigger sends in a state that it does not change"
BUSY: Final = "no_row_is_busy"
INSTANCES_MAX: Final = 1 << 16  # of one property; each instance has at least one pattern


@dataclass(frozen=True, slots=True)
class Pattern:
    """One guard to search for, with the elements of its variables."""

    guard: Guard
    instance: str  # "p=p0, q=p1"


@dataclass(frozen=True, slots=True)
class Question:
    """A safety property, or a `sometimes` property, as patterns to search for.

    bad: a state with one of the patterns violates the property; otherwise such a state is the
    wanted witness. premises: patterns of the premise of an implication; if none of them ever
    occurs, the property holds vacuously.
    """

    name: str
    kind: PropertyKind
    claim: str
    why: str
    place: Place
    patterns: tuple[Pattern, ...]
    bad: bool = True
    premises: tuple[Guard, ...] = ()
    implication: bool = False


def names(system: System) -> tuple[str, ...]:
    """The names of all properties to which `check` gives a verdict."""
    derived = [name_of_edges(variable) for variable in system.bounded_variables()]
    derived += [f"{message.name}_carries" for message in _carriers(system)]
    if any(row.kind == "reject" for _, row in system.rows()):
        derived.append(PEERS)
    if any(sends_unasked(table, row) for table, row in system.rows()):
        derived.append(BUSY)
    return (*(claim.name for claim in system.properties), *derived, DEADLOCK)


def questions(ground: Ground) -> Iterator[Question]:
    """Every question of the system, without liveness and deadlock."""
    for claim in ground.system.properties:
        match claim:
            case Always():
                yield _always(ground, claim)
            case Sometimes():
                yield _sometimes(ground, claim)
            case OnRow():
                yield _on_row(ground, claim)
            case LeadsTo() | Refines():
                pass
    for variable in ground.system.bounded_variables():
        yield _edges(ground, variable)
    for message in _carriers(ground.system):
        yield _carried(ground, message)
    rejects = [row for row in ground.rows if row.row.kind == "reject"]
    if any(row.kind == "reject" for _, row in ground.system.rows()):
        yield Question(
            PEERS,
            PropertyKind.ALWAYS,
            NO_REJECT,
            "a reject blames the peer, and ours keeps the protocol",
            ground.system.place,
            tuple(Pattern(row.action.guard, str(row)) for row in rejects),
        )
    if any(sends_unasked(table, row) for table, row in ground.system.rows()):
        yield _busy(ground)


def _instances(ground: Ground, name: str, variables: tuple[Sort, ...]) -> Iterator[Environment]:
    """Every choice of elements for the variables. Raises TooLargeError if there are too many."""
    count = prod(ground.sizes[type(variable)] for variable in variables)
    if count > INSTANCES_MAX:
        raise TooLargeError(
            f"{name} has {count:,} choices of elements; {INSTANCES_MAX:,} is the limit"
        )
    return ground.environments(variables)


def _always(ground: Ground, claim: Always) -> Question:
    wrong = ground.remember(negated(claim.claim))
    patterns = [
        Pattern(guard, instance_text(environment))
        for environment in _instances(ground, claim.name, free_variables(claim.claim))
        for guard in ground.patterns(wrong, environment)
    ]
    premise = _premise(claim.claim)
    if premise is not None:
        ground.remember(premise)
    premises = [
        guard
        for environment in ground.instances(claim.claim)
        for guard in ([] if premise is None else ground.patterns(premise, environment))
    ]
    return Question(
        claim.name,
        PropertyKind.ALWAYS,
        formula_text(claim.claim),
        claim.why,
        claim.place,
        _distinct(patterns),
        premises=tuple(dict.fromkeys(premises)),
        implication=premise is not None,
    )


def _premise(claim: Formula) -> Formula | None:
    """The left side of an implication, in negation normal form."""
    match claim:
        case Or((Not(premise), _)):
            return normal(premise)
        case _:
            return None


def _sometimes(ground: Ground, claim: Sometimes) -> Question:
    wanted = ground.remember(normal(claim.claim))
    patterns = [
        Pattern(guard, instance_text(environment))
        for environment in _instances(ground, claim.name, free_variables(claim.claim))
        for guard in ground.patterns(wanted, environment)
    ]
    return Question(
        claim.name,
        PropertyKind.SOMETIMES,
        formula_text(claim.claim),
        claim.why,
        claim.place,
        _distinct(patterns),
        bad=False,
    )


def _on_row(ground: Ground, claim: OnRow) -> Question:
    patterns = []
    premises = []
    for row in ground.rows:
        if row.row.name != claim.row:
            continue
        premises.append(row.action.guard)
        extra = tuple(v for v in free_variables(claim.claim) if v not in row.environment)
        for more in _instances(ground, claim.name, extra):
            environment = {**row.environment, **more}
            for guard in ground.failures(claim.claim, environment):
                both = conjunction(row.action.guard, guard)
                if both is not None:
                    patterns.append(Pattern(both, instance_text(environment)))
    return Question(
        claim.name,
        PropertyKind.ALWAYS,
        f"whenever {claim.row} can fire: {formula_text(claim.claim)}",
        claim.why,
        claim.place,
        _distinct(patterns),
        premises=tuple(premises),
        implication=True,
    )


def name_of_edges(variable: Symbol) -> str:
    """The name of the claim that the variable moves along its declared edges."""
    return f"{variable.name}_edges"


def _edges(ground: Ground, variable: Variable) -> Question:
    patterns = [
        Pattern(guard, f"{row}: {text}")
        for row in ground.rows
        for guard, text in forbidden_moves(ground, row, variable)
    ]
    return Question(name_of_edges(variable), PropertyKind.EDGES, edges_text(variable), "",
                    variable.place, tuple(patterns))


def edges_text(variable: Variable) -> str:
    """The declared edges: `idle -> waiting; waiting -> held, idle; held -> nothing`."""
    return "; ".join(
        f"{value_name(value)} -> {', '.join(value_name(v) for v in targets) or 'nothing'}"
        for value, targets in (variable.edges or {}).items())


def forbidden_moves(
    ground: Ground, row: GroundRow, variable: Variable
) -> Iterator[tuple[Guard, str]]:
    """Guards of states in which the row moves the variable against its declared edges."""
    for indices in product(*(range(ground.sizes[sort]) for sort in variable.sorts)):
        if not row.action.clear & ground.layout.field(variable, indices).mask:
            continue
        target = ground.layout.value(row.action.assign, variable, indices)
        for value in variable.values:
            if value == target or target in (variable.edges or {}).get(value, ()):
                continue
            guard = conjoined(row.action.guard, ground.layout.literal(variable, indices, value))
            if guard is not None:
                cell = cell_name(variable, indices)
                yield guard, f"{cell} goes from {value_name(value)} to {value_name(target)}"


def _carriers(system: System) -> list[Message[*tuple[Any, ...]]]:
    return [s for s in system.variables if isinstance(s, Message) and s.carries]


def _carried(ground: Ground, message: Message[*tuple[Any, ...]]) -> Question:
    patterns = [
        Pattern(guard, text)
        for row in ground.rows
        for guard, text in _late_writes(ground, row, message)
    ]
    carried = ", ".join(relation.name for relation in message.carries)
    return Question(
        f"{message.name}_carries",
        PropertyKind.ALWAYS,
        f"{carried} stays as it was when {message.name} was sent",
        "what travels with a message cannot change under its receiver",
        message.place,
        tuple(patterns),
    )


def _late_writes(
    ground: Ground, row: GroundRow, message: Message[*tuple[Any, ...]]
) -> Iterator[tuple[Guard, str]]:
    """Guards of states in which the row changes a carried cell after its message was sent."""
    own = len(message.sender.variables)
    places = [message.formals.index(v) for v in message.sender.variables]
    sent = {
        indices: field for (symbol, indices), field in ground.layout.fields.items()
        if symbol is message
    }
    for (symbol, indices), field in ground.layout.fields.items():
        if symbol not in message.carries or not row.action.clear & field.mask:
            continue
        after = row.action.assign & field.mask
        for given, bit in sent.items():
            if tuple(given[i] for i in places) != indices[:own]:
                continue
            for code in range(len(symbol.values)):
                before = Literal(field.mask, code << field.offset)
                if before.value == after:
                    continue
                guard = conjoined(row.action.guard, Literal(bit.mask, bit.mask), before)
                if guard is not None:
                    cell = cell_name(symbol, indices)
                    yield guard, f"{row} writes {cell} after {cell_name(message, given)} was sent"


def sends_unasked(table: Table, row: Row) -> bool:
    """Whether a process fires the row as soon as it can, and the row sends messages."""
    return row.on is None and bool(row.send) and not table.machine.world


def _busy(ground: Ground) -> Question:
    """If such a row changes nothing, a process fires it again and again."""
    patterns = []
    for row in ground.rows:
        if sends_unasked(row.table, row.row) and any(ground.sent(row.row, row.environment)):
            guard = conjunction(row.action.guard, Guard(row.action.clear, row.action.assign))
            if guard is not None:
                patterns.append(Pattern(guard, str(row)))
    return Question(
        BUSY,
        PropertyKind.ALWAYS,
        NO_BUSY_ROW,
        "a process would fire such a row again and again, without end: give it on=Timer(...), or "
        "let it note that it has sent",
        ground.system.place,
        tuple(patterns),
    )


def _distinct(patterns: list[Pattern]) -> tuple[Pattern, ...]:
    """The patterns without those with the guard of an earlier one (p, q and q, p)."""
    return tuple({pattern.guard: pattern for pattern in reversed(patterns)}.values())[::-1]


def instance_text(environment: Environment) -> str:
    """The elements of the free variables: "p=p0, q=p1"."""
    return ", ".join(f"{v}={type(v).element(i)}" for v, i in environment.items())


def final_guards(ground: Ground) -> tuple[Guard, ...]:
    """Guards whose union is the set of final states, in which a run may end."""
    final = FALSE if ground.system.final is None else ground.system.final
    return tuple(ground.patterns(normal(final), {}))


@dataclass(frozen=True, slots=True)
class LeadsToInstance:
    """One instance of a `leads_to`: after the premise has held, the goal must be reached."""

    claim: LeadsTo
    instance: str
    premise: tuple[Guard, ...]
    goal: tuple[Guard, ...]


def leads_to_instances(ground: Ground, claim: LeadsTo) -> Iterator[LeadsToInstance]:
    """The instances of a `leads_to`; of instances that are symmetric only one."""
    both = Or((claim.premise, claim.goal))
    for environment in _instances(ground, claim.name, free_variables(both)):
        if not _representative(ground, environment):
            continue
        yield LeadsToInstance(
            claim,
            instance_text(environment),
            tuple(ground.patterns(normal(claim.premise), environment)),
            tuple(ground.patterns(normal(claim.goal), environment)),
        )


def _representative(ground: Ground, environment: Environment) -> bool:
    """Whether new interchangeable elements occur in order: first 0, then 1, ..."""
    fresh: dict[type[Sort], int] = {}
    for variable, index in environment.items():
        sort = type(variable)
        if interchangeable(ground, sort):
            if index > fresh.get(sort, 0):
                return False
            fresh[sort] = max(fresh.get(sort, 0), index + 1)
    return True
