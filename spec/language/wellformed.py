"""The rules that a declaration must keep, so that a process could take every row.

Each function checks one rule and raises SpecError with the file and line of the row.
The checker's lint checks all that needs sizes or search (totality, overlap, reachability).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from .channels import check_channels, check_place, unreadable_in_channel
from .computed import mentioned
from .conflicts import check_conflicts
from .deliveries import check_own_messages
from .formula import Atom, Formula, atoms, bound_variables, counts, free_variables, normal
from .kinds import no_value, suggestion
from .machine import Call, Completion, Machine, Row, Table
from .place import Place, SpecError
from .properties import OnRow, formulas_of
from .refines import check_refines
from .sorts import ANY, Sort
from .symbols import Each, Message, Rigid, Sent, Symbol, Update, Variable, sent_by
from .updates import check_each
from .vocabulary import check_parts, check_vocabulary

if TYPE_CHECKING:
    from .system import System

UNNAMED: Final = ("ignore_", "reject_")  # rows that are named after their trigger begin like this


def check_system(system: "System", like: "System | None" = None) -> None:
    """Raise SpecError for the first rule that the system breaks.

    like: a checked system; the rows that this one shares with it break no rule.
    """
    check_parts(system)
    fresh = _fresh(system, like)
    check_vocabulary(system, fresh)
    # Worlds without variables are one environment, though each part of a system may make its own.
    _unique("machine", ((machine.name, machine.place) for machine in system.machines
                        if machine.symbols or machine.own or not machine.world))
    _unique("row", ((row.name, row.place) for _, row in system.rows()))
    _unique("property", ((claim.name, claim.place) for claim in system.properties))
    _unique("symbol", ((symbol.name, symbol.place) for symbol in system.variables))
    _unique("sort", ((sort.__name__, system.place) for sort in _sorts(system, like, fresh)))
    _check_rows(fresh)
    check_own_messages(system, fresh, like)
    known = set(system.variables)
    for table, row in fresh:
        for symbol in symbols_of_row(table, row):
            if not isinstance(symbol, Rigid) and symbol not in known:
                raise SpecError(row.place, f"row {row.name!r}: {symbol} belongs to no machine of "
                                           "the system")
    for symbol in system.variables:
        if isinstance(symbol, Message) and symbol.receiver.machine not in system.machines:
            raise SpecError(symbol.place, f"{symbol.name}: its receiver has no table here")
    for formula, place, name in _claims(system):
        for atom, _ in atoms(formula):
            _no_bulk(atom.arguments, place, name)
            check_place(atom, place, name)
            if not isinstance(atom.symbol, Rigid) and atom.symbol not in known:
                raise SpecError(place, f"{name}: {atom.symbol} belongs to no machine of the system")
    for claim in system.refinements:
        check_refines(system, claim)
    for name, axiom in system.axioms.items():
        if any(not isinstance(atom.symbol, Rigid) for atom, _ in atoms(axiom)):
            raise SpecError(system.place, f"axiom {name}: it may use rigid symbols only")
        for _ in counts(axiom):
            raise SpecError(system.place, f"axiom {name} counts, {axiom!r}: say what follows, by "
                            "exists: that two quorums have an element in common")


def _check_rows(rows: Iterable[tuple[Table, Row]]) -> None:
    for table, row in rows:
        try:
            check_row(table, row)
        except SpecError as error:
            raise SpecError(row.place, f"row {row.name!r} of {table.machine.name}: "
                                       f"{error.problem}") from None


def symbols_of_edit(system: "System", like: "System") -> Iterator[Symbol]:
    """The symbols of the properties, and of the rows that the other system does not have."""
    for table, row in _fresh(system, like):
        with suppress(SpecError):  # a malformed row is refused where it is checked
            yield from symbols_of_row(table, row)
    for claim in system.properties:
        yield from (atom.symbol for part in formulas_of(claim) for atom, _ in atoms(part))


def _fresh(system: "System", like: "System | None") -> list[tuple[Table, Row]]:
    """The rows that the other system does not have, or not in this place; compared as objects."""
    alike = like is not None and like.machines == system.machines
    old = {_identity(table, row) for table, row in like.rows()} if like and alike else set()
    return [(table, row) for table, row in system.rows() if _identity(table, row) not in old]


def _sorts(
    system: "System", like: "System | None", fresh: list[tuple[Table, Row]]
) -> Iterable[type[Sort]]:
    """The sorts of the system, and perhaps some that only the other has."""
    if like is None:
        return system.sorts
    variables = [variable for table, row in fresh for variable in table.parameters(row)]
    formulas = [formula for table, row in fresh for formula in table.formulas(row)]
    for formula in (*formulas, *(formula for formula, _, _ in _claims(system))):
        variables += (*free_variables(formula), *bound_variables(formula))
    return dict.fromkeys((*like.sorts, *map(type, variables)))


def _identity(table: Table, row: Row) -> tuple[int, int, int]:
    return id(table.machine), id(table.state), id(row)


def symbols_of_row(table: Table, row: Row) -> Iterable[Symbol]:
    """Every symbol of the row: of its guard, its updates and what it sends."""
    yield from (atom.symbol for formula in table.formulas(row) for atom, _ in atoms(formula))
    yield from (update.symbol for update in table.assignments(row))
    for effect in row.send:
        yield effect.sent.symbol if isinstance(effect, Each) else effect.symbol


def _claims(system: "System") -> Iterable[tuple[Formula, Place, str]]:
    for claim in system.properties:
        name = f"property {claim.name!r}"
        if isinstance(claim, OnRow) and system.row(claim.row) is None:
            near = suggestion(claim.row, [one.name for _, one in system.rows()])
            raise SpecError(claim.place, f"{name}: there is no row {claim.row!r}{near}")
        for formula in formulas_of(claim):
            yield formula, claim.place, name
    if system.final is not None:
        if free_variables(system.final):
            raise SpecError(system.place, "final: bind its variables with forall or exists")
        yield system.final, system.place, "final"
    if system.init is not None:
        yield system.init, system.place, "init"


def _unique(what: str, named: Iterable[tuple[str, Place]]) -> None:
    first: dict[str, Place] = {}
    for name, place in named:
        if name in first:
            advice = "; give one of them a name=" if name.startswith(UNNAMED) else ""
            problem = f"{what} {name!r} is declared twice, first at {first[name]}{advice}"
            raise SpecError(place, problem)
        first[name] = place


def check_row(table: Table, row: Row) -> None:
    """Raise SpecError (the caller adds the row's name) for the first rule the row breaks."""
    _check_states(table, row)
    _check_trigger(table.machine, row)
    _check_parameters(table, row)
    guard = normal(table.guard(row))
    check_channels(table, row)
    for atom, positive in atoms(guard):
        _no_bulk(atom.arguments, row.place, "the guard")
        problem = _unreadable(atom, positive, table.machine, row)
        if problem:
            raise SpecError(row.place, problem)
    for update in table.assignments(row):
        problem = _unwritable(update, table.machine) or _unselectable(update, table.machine, row)
        if problem:
            raise SpecError(row.place, problem)
    for effect in row.send:
        _check_send(effect, table.machine, row)
    check_conflicts(table, row, guard)
    if row.kind != "row" and not row.why:
        raise SpecError(row.place, f"{row.kind}s need their reason: why=")


def _check_states(table: Table, row: Row) -> None:
    named = (*row.states, *((row.to,) if row.to is not None else ()))
    if named and table.state is None:
        raise SpecError(row.place, "it has at/to, but its table has no state=: write "
                                   f"{table.with_state}")
    if table.state is not None and table.state.owner is not table.machine:
        raise SpecError(table.place, f"state={table.state} is not {table.machine.name}'s")
    if table.state is not None and table.state.sorts != table.machine.sorts:
        raise SpecError(table.place, f"state={table.state} must be one value for each instance")
    for value in named:
        if table.state is not None and value not in table.state.values:
            raise SpecError(
                row.place, no_value(value, table.state.signature, table.state.values))


def _check_trigger(machine: Machine[*tuple[Any, ...]], row: Row) -> None:
    if not isinstance(row.on, Sent):
        return
    message = row.on.message
    _no_bulk(row.on.arguments, row.place, "the trigger")
    if machine.world and message.fifo is not None:
        return
    if message.receiver.machine is not machine:
        raise SpecError(row.place, f"{message} goes to {message.receiver.machine}, not here")
    if not _names_self(row.on, message.receiver.variables, machine):
        raise SpecError(row.place, f"{row.on.symbol.signature} must name its receiver: "
                                   f"{_self(machine)}{_to_its_sender(message)}")


def _to_its_sender(message: Message[*tuple[Any, ...]]) -> str:
    """Advice for a message from each instance of a machine to itself, which is seldom meant."""
    if message.sender != message.receiver or not message.sender.variables:
        return ""
    machine, own = message.sender.machine.name, ", ".join(map(repr, message.sender.variables))
    return (f"; {own} is also its sender, so each {machine} sends {message} to itself: write "
            f"sender={machine}.at(...) with other variables than {own} for a message to all")


def _check_parameters(table: Table, row: Row) -> None:
    parameters = table.parameters(row)
    repeated = [name for name, n in Counter(v.name for v in parameters).items() if n > 1]
    if repeated:
        raise SpecError(row.place, f"two sorts share the variable name {repeated[0]!r}")
    given = (*table.machine.own, *_trigger_parameters(row))
    for variable in row.choose:
        if variable in given:
            raise SpecError(row.place, f"choose={variable!r}: the trigger already gives it")
    _check_binding(row, parameters, bound_variables(table.guard(row)))
    used = list(free_variables(table.guard(row)))
    for update in table.assignments(row):
        _check_binding(row, parameters, (*update.variables, *bound_variables(update.where)))
        inner = (*update.arguments, *free_variables(update.where))
        used += [v for v in inner if v not in update.variables]
    for update in row.do:
        check_each(update, row.place)
        used += [v for v in mentioned(update.value) if v not in update.variables]
    for effect in row.send:
        match effect:
            case Each(variable, sent, where):
                _check_binding(row, parameters, (variable, *bound_variables(where)))
                inner = (*sent.arguments, *free_variables(where))
                used += [v for v in inner if v != variable]
            case Sent():
                used += effect.arguments
    for variable in used:
        # ANY has rules of its own: see _no_bulk.
        if variable is not ANY and variable not in parameters:
            raise SpecError(
                row.place,
                f"{variable!r} comes neither from the machine nor from the trigger: "
                f"name it in choose=, or bind it with forall",
            )


def _check_binding(row: Row, parameters: tuple[Sort, ...], bound: Iterable[Sort]) -> None:
    """A quantifier over `self` would read every sibling while it looks as if it read one."""
    for variable in bound:
        if variable in parameters:
            raise SpecError(
                row.place,
                f"forall, exists or each binds {variable!r}, which is the row's own parameter: "
                f"bind another variable of {type(variable).__name__}",
            )


def _trigger_parameters(row: Row) -> tuple[Sort, ...]:
    match row.on:
        case Sent():
            return row.on.arguments
        case Call() | Completion():
            return row.on.parameters
        case _:
            return ()


def _no_bulk(arguments: tuple[Sort, ...], place: Place, where: str) -> None:
    if any(argument is ANY for argument in arguments):
        raise SpecError(place, f"{where}: ANY stands only in updates; bind a variable with forall")


def _names_self(
    sent: Sent, variables: tuple[Sort, ...], machine: Machine[*tuple[Any, ...]]
) -> bool:
    """Whether the message instance, if it names an instance, names this one."""
    given = dict(zip(sent.message.formals, sent.arguments, strict=False))
    return all(
        given[variable] == own
        for variable, own in zip(variables, machine.own, strict=True)
        if variable in given
    )


def _unreadable(
    atom: Atom, positive: bool, machine: Machine[*tuple[Any, ...]], row: Row
) -> str | None:
    """Why this instance cannot know the atom; None if it can."""
    symbol = atom.symbol
    if machine.world:
        return None
    match symbol:
        case Rigid():
            if symbol.visible_to and machine not in symbol.visible_to:
                return f"it reads {symbol}, which is visible to {list(symbol.visible_to)} only"
            return None
        case Message() if symbol.fifo is not None:
            return unreadable_in_channel(atom, row)
        case Message():
            return _unreadable_message(atom, symbol, positive, machine)
        case Variable() if machine in (symbol.owner, symbol.engine):
            if atom.arguments[: len(machine.own)] != machine.own:
                return (f"it reads {_cell(atom)}, which is a sibling's: {_self(machine)}; "
                        "let a message tell it")
            return None
        case Variable() if isinstance(row.on, Sent) and symbol in row.on.message.carries:
            sender = row.on.addressed(row.on.message.sender)
            if atom.arguments[: len(sender)] == sender:
                return None
            return f"{row.on.message} carries {symbol} of its own sender only"
        case _:
            owner = cast("Variable", symbol).owner
            if owner.world:
                return (f"it reads {symbol}, which is owned by {owner.name}: give {machine.name} a "
                        f"variable of its own, which rows of {owner.name} write too")
            return (f"it reads {symbol}, which is owned by {owner.name}: let a message from "
                    f"{owner.name} bring it")


def _unreadable_message(
    atom: Atom,
    message: Message[*tuple[Any, ...]],
    positive: bool,
    machine: Machine[*tuple[Any, ...]],
) -> str | None:
    sent = Sent(message, atom.arguments, True)
    if message.sender.machine is machine and _names_self(sent, message.sender.variables, machine):
        return None
    if message.receiver.machine is not machine:
        return f"it reads {message}, which is neither from nor to {machine.name}"
    if not _names_self(sent, message.receiver.variables, machine):
        return f"it reads {_cell(atom)}, which is addressed to a sibling: {_self(machine)}"
    if not positive:
        return (f"it reads the absence of {message}: a receiver cannot know what was not sent: let "
                f"a row on {message} note that it came, in a relation of {machine.name}")
    return None


def _cell(of: Atom | Update) -> str:
    arguments, _ = of.symbol.reading(of.arguments, of.value)
    return f"{of.symbol}({', '.join(map(repr, arguments))})"


def _self(machine: Machine[*tuple[Any, ...]]) -> str:
    return f"this instance is {', '.join(map(repr, machine.own))}"


def _unwritable(update: Update, machine: Machine[*tuple[Any, ...]]) -> str | None:
    """Why this instance may not make the update; None if it may."""
    symbol = update.symbol
    if machine.world:
        return None
    if not isinstance(symbol, Variable):
        return f"it writes {symbol}: messages go through send="
    if machine not in (symbol.owner, symbol.engine):
        return f"it writes {symbol}, which is owned by {symbol.owner.name}"
    if update.arguments[: len(machine.own)] != machine.own:
        return f"it writes {_cell(update)}, which is a sibling's: {_self(machine)}; send a message"
    if symbol.engine is not None:
        by_engine = update.value in symbol.engine_writes
        if by_engine != (machine is symbol.engine):
            writer = symbol.engine.name if by_engine else symbol.owner.name
            return f"it writes {update!r}, which only {writer} may write"
    return None


def _unselectable(update: Update, machine: Machine[*tuple[Any, ...]], row: Row) -> str | None:
    """Why this instance cannot know for which cells the update is; None if it can."""
    for atom, positive in atoms(normal(update.where)):
        if any(argument is ANY for argument in atom.arguments):
            return "each: ANY stands only in updates; bind a variable with forall"
        problem = _unreadable(atom, positive, machine, row)
        if problem is None and isinstance(atom.symbol, Message) and not machine.world and (
                atom.symbol.sender.machine is not machine):
            problem = (f"each: `where` reads {atom.symbol}: where it has not arrived, the update "
                       "would depend on its absence")
        if problem:
            return problem
    return None


def _check_send(
    effect: Sent | Each, machine: Machine[*tuple[Any, ...]], row: Row
) -> None:
    sent = sent_by(effect)
    _no_bulk(sent.arguments, row.place, "send: use each() to send to many")
    if not machine.world:
        if sent.message.sender.machine is not machine:
            raise SpecError(row.place, f"only {sent.message.sender.machine.name} sends "
                                       f"{sent.message}")
        if not _names_self(sent, sent.message.sender.variables, machine):
            raise SpecError(row.place, f"it sends {sent.message} in a sibling instance's name")
    if isinstance(effect, Each):
        for atom, positive in atoms(normal(effect.where)):
            problem = _unreadable(atom, positive, machine, row) if isinstance(
                atom.symbol, Rigid) else (f"each: `where` reads {atom.symbol}, which is not rigid: "
                                          "let a row with choose= and when= send to one at a time")
            if problem:
                raise SpecError(row.place, problem)
