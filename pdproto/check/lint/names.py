"""Names without use: most are leftovers, some show that a row was forgotten."""

from collections.abc import Iterator
from typing import TypeAlias

from pdproto.check.lint.remark import Remark, Severity
from pdproto.ground.layout import value_name
from pdproto.spec.language.channels import uses_channel
from pdproto.spec.language.computed import mentioned
from pdproto.spec.language.formula import Atom, atoms, free_variables
from pdproto.spec.language.machine import Row
from pdproto.spec.language.place import Place
from pdproto.spec.language.properties import Always, InRange, Sometimes
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Each, Function, Message, Sent, Update, Variable, sent_by
from pdproto.spec.language.system import System

Named: TypeAlias = tuple[str, Place]  # a problem and its place


def unused_names(system: System) -> Iterator[Remark]:
    """Variables, values, messages, rigid symbols, sorts, choices and fault layers without use."""
    for message, place in (
        *_variables(system),
        *_values(system),
        *_messages(system),
        *_rigids(system),
        *_sorts(system),
        *_choices(system),
        *_layers(system),
    ):
        yield Remark("unused", Severity.WARNING, message, place)


def shared_prefixes(system: System) -> Iterator[Remark]:
    """Two sorts whose elements have the same names in runs, such as r0 of Request and of Result."""
    first: dict[str, type[Sort]] = {}
    for sort in system.sorts:
        other = first.setdefault(sort.prefix, sort)
        if other is not sort:
            problem = (f"elements of {other.__name__} and {sort.__name__} are both named "
                       f"{sort.element(0)}: write class {sort.__name__}(Sort, prefix=...)")
            yield Remark("names", Severity.NOTE, problem, system.place)


def unwitnessed(system: System) -> Iterator[Remark]:
    """`always` properties without a `sometimes` about one of the same symbols."""
    seen = {
        atom.symbol
        for claim in system.properties
        if isinstance(claim, Sometimes)
        for atom, _ in atoms(claim.claim)
    }
    for claim in system.properties:
        if isinstance(claim, InRange):
            continue  # nobody has written it
        if isinstance(claim, Always) and not any(a.symbol in seen for a, _ in atoms(claim.claim)):
            problem = f"{claim.name} has no `sometimes` beside it about one of the same symbols"
            yield Remark("witness", Severity.NOTE, problem, claim.place)


def _read(system: System) -> list[Atom]:
    """Every atom of a guard, a property or `final`; axioms do not count as a use."""
    axioms = tuple(system.axioms.values())
    return [
        atom for formula in system.formulas() if formula not in axioms for atom, _ in atoms(formula)
    ]


def _updates(system: System) -> list[Update]:
    return [update for table, row in system.rows() for update in table.updates(row)]


def _sends(row: Row) -> tuple[Sent, ...]:
    return tuple(map(sent_by, row.send))


def _variables(system: System) -> Iterator[Named]:
    read = {atom.symbol for atom in _read(system)}
    written = {update.symbol for update in _updates(system)}
    for variable in system.variables:
        if isinstance(variable, Variable):
            if variable not in read:
                yield f"no row and no property reads {variable}", variable.place
            if variable not in written:
                yield f"no row writes {variable}", variable.place


def _values(system: System) -> Iterator[Named]:
    """Values that a variable never takes. The rule `device` checks the values of engines."""
    assigned = {(update.symbol, update.value) for update in _updates(system)}
    tested = {(atom.symbol, atom.value) for atom in _read(system)}
    written = {symbol for symbol, _ in assigned}
    for function in system.variables:
        if not isinstance(function, Function) or function not in written:
            continue
        for value in function.values[1:]:
            if value not in function.engine_writes and (function, value) not in assigned:
                tail = "" if (function, value) in tested else ", and never tested"
                yield f"{function} is never set to {value_name(value)}{tail}", function.place


def _messages(system: System) -> Iterator[Named]:
    sent = {effect.message for _, row in system.rows() for effect in _sends(row)}
    put = {update.symbol for update in _updates(system) if update.value is True}
    for message in system.variables:
        if isinstance(message, Message) and message not in sent | put:
            yield f"no row sends {message}", message.place


def _rigids(system: System) -> Iterator[Named]:
    read = {atom.symbol for atom in _read(system)}
    for rigid in system.rigids:
        if rigid not in read:
            yield f"only axioms mention {rigid}", rigid.place


def _sorts(system: System) -> Iterator[Named]:
    for name, configuration in system.configurations.items():
        for sort in configuration.sizes:
            if sort not in system.sorts and sort.of is None:
                problem = f"configuration {name} gives a size to {sort.__name__}, an unused sort"
                yield problem, system.place


def _choices(system: System) -> Iterator[Named]:
    """Parameters that a row chooses and does not use."""
    for table, row in system.rows():
        used = {*free_variables(table.guard(row))}
        used.update(v for update in table.updates(row) for v in update.arguments)
        used.update(v for update in row.do for v in free_variables(update.where))
        used.update(v for update in row.do for v in mentioned(update.value))
        used.update(v for sent in _sends(row) for v in sent.arguments)
        for effect in row.send:
            if isinstance(effect, Each):
                used.update(free_variables(effect.where))
        for variable in row.choose:
            if variable not in used:
                yield f"{row.name} chooses {variable!r} and does not use it", row.place


def _layers(system: System) -> Iterator[Named]:
    for name, tables in system.faults.items():
        rows = [(table, row) for table in tables for row in table.rows]
        if not any(table.updates(row) or row.send or uses_channel(row) for table, row in rows):
            place = tables[0].place if tables else system.place
            yield f"fault layer {name} changes nothing", place
