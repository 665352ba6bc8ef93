"""A declaration uses only the vocabulary: mistakes that a type checker refuses are refused here
too.

Python accepts anything: `x is y`, `a and b`, a relation without its arguments. Most of it would
make a row that silently means something else.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING

from .formula import Formula, every_variable, strangers
from .kinds import shown, suggestion
from .machine import Call, Completion, Row, Table, Timer
from .no_formula import NoFormula
from .numbered import standing
from .place import Place, SpecError
from .properties import PROPERTY_KINDS, Always, formulas_of
from .sorts import Sort
from .symbols import Each, Sent, Update

if TYPE_CHECKING:
    from .system import System


def check_vocabulary(system: "System", rows: Sequence[tuple[Table, Row]]) -> None:
    """Raise SpecError for the first value in these rows of the system, or around them, that does
    not belong to the language.
    """
    for table, row in rows:
        problem = next(chain(_no_states(table, row), _strange(row)), None)
        if problem:
            raise SpecError(row.place, f"row {row.name!r} of {table.machine.name}: {problem}")
    _check_alike(system)
    for formula, place, name in _claims(system):
        for stranger in strangers(formula):
            raise SpecError(place, f"{name}: {_no_formula(stranger)}")
        for variable, of in standing(every_variable(formula)[0] if isinstance(
                formula, Formula) else ()):
            raise SpecError(place, f"{name}: {of!r} is an argument: only a row computes one; write "
                            f"exists(x, (x == {of!r}) & ...) with a variable of "
                            f"{type(variable).__name__}")
    for name, configuration in system.configurations.items():
        for layer in configuration.faults:
            if layer not in system.faults:
                known = ", ".join(system.faults) or "none"
                problem = f"there is no fault layer {layer!r}; there is: {known}"
                raise SpecError(system.place, f"configuration {name!r}: {problem}")
        for symbol in configuration.given:
            # An edit may drop the rows that read a rigid relation.
            if symbol not in system.rigids and system.base is None:
                raise SpecError(system.place, f"configuration {name!r}: given= has {symbol}, which "
                                f"no row, property or axiom of {system.name} reads")


def check_parts(system: "System") -> None:
    """Raise SpecError where `tables=` or `properties=` is no tuple, for instance a single one, or
    where `by=` of a property names another than an `always` property without it.
    """
    for name, kind, given in (
        ("tables", Table, system.tables), ("properties", PROPERTY_KINDS, system.properties),
    ):
        parts: object = given
        if isinstance(parts, kind):
            told = f"{name}= is one {type(parts).__name__}: write {name}=(..., ), with a comma"
            raise SpecError(system.place, told)
        for part in _items(parts):
            if not isinstance(part, kind):
                wanted = "Table" if kind is Table else (
                    "Always, Sometimes, OnRow, LeadsTo and Refines")
                problem = f"{name}= has {shown(part)}: want a tuple of {wanted}"
                raise SpecError(system.place, problem)
    claims = [claim for claim in system.properties if isinstance(claim, Always)]
    first = [claim.name for claim in claims if not claim.by]
    for claim in claims:
        for wrong in set(claim.by).difference(first):
            problem = f"by= names {wrong!r}{suggestion(wrong, first)}: want `always` properties"
            raise SpecError(claim.place, f"property {claim.name!r}: {problem} without by=")


def _check_alike(system: "System") -> None:
    """Raise SpecError where two rows of a machine declare one call, timer or completion unlike."""
    first: dict[tuple[object, type, str], Row] = {}
    for table, row in system.rows():
        if isinstance(row.on, Call | Timer | Completion):
            other = first.setdefault((table.machine, type(row.on), row.on.name), row)
            if _declared(row.on) != _declared(other.on):
                problem = (f"{row.on} is another one in row {other.name!r}: declare it with the "
                           "same arguments, any_time= and detector= in each row")
                raise SpecError(row.place, f"row {row.name!r} of {table.machine.name}: {problem}")


def _declared(on: object) -> tuple[object, ...]:
    """How a trigger is declared, beside its name and the names of its parameters."""
    sorts = tuple(map(type, getattr(on, "parameters", ())))
    return sorts, getattr(on, "any_time", False), getattr(on, "detector", False)


def _no_states(table: Table, row: Row) -> Iterator[str]:
    """The mistake in the types of `at` and `to`; None if there is none."""
    values = table.state.values if table.state is not None else ()
    members = {text.lower(): value for value in values if isinstance(value, Enum)
               for text in (value.name, str(value))}
    for name, given in (("at", row.at), ("to", row.to)):
        several: object = given
        if isinstance(several, list):
            inner = ", ".join(map(shown, several))
            comma = "," if len(several) == 1 else ""
            yield f"{name}=[{inner}] is a list: write {name}=({inner}{comma})"
            continue
        for value in several if isinstance(several, tuple) else (several,):
            if isinstance(value, Enum) or (value is None and name == "to"):
                continue
            if value is None:
                yield "at=None: leave at= out, or write at=(), for any state"
                continue
            meant = members.get(str(value).lower()) or next(iter(members.values()), None)
            advice = "" if meant is None else f": write {name}={shown(meant)}"
            of = "" if table.state is None else f" of {table.state.signature}"
            yield f"{name}={shown(value)} is no value{of}{advice}"


def _strange(row: Row) -> Iterator[str]:
    """The mistake in the types of the row's parts; None if there is none."""
    trigger: object = row.on
    if not isinstance(trigger, Sent | Call | Timer | Completion | None):
        yield (
            f"on={shown(trigger)} is no trigger: "
            f"want a message with its arguments, Call, Timer or Completion"
        )
    when: object = row.when
    conditions = (when,) if isinstance(when, Formula) else _items(when)
    for condition in conditions:
        yield from (_no_formula(stranger) for stranger in strangers(condition))
    for variable in _items(row.choose):
        if not isinstance(variable, Sort):
            yield f"choose has {shown(variable)}: want variables, such as (p,)"
    for update in _items(row.do):
        if not isinstance(update, Update):
            yield f"do has {shown(update)}: want updates, such as heard(p).to(True)"
        else:
            yield from (_no_formula(stranger) for stranger in strangers(update.where))
    for effect in _items(row.send):
        if not isinstance(effect, Sent | Each):
            yield f"send has {shown(effect)}: want messages with their arguments, or each(...)"
        elif isinstance(effect, Each):
            yield from (_no_formula(stranger) for stranger in strangers(effect.where))
    if row.kind != "row" and (row.to is not None or row.do or row.send):
        yield f"{row.kind}s change nothing: write it as a Row"


def _items(value: object) -> Iterable[object]:
    """The members of a list or tuple; anything else counts as one member."""
    return value if isinstance(value, list | tuple) else (value,)


def _no_formula(stranger: object) -> str:
    if isinstance(stranger, NoFormula):
        return f"{stranger!r} is no formula: {stranger.advice}"
    if isinstance(stranger, bool):
        return (f"{stranger} is no formula, because Python has computed it at once: compare a "
                "function with ==, variables with same() and differs(), and write heard(p) or "
                "~heard(p) for a relation")
    return f"{shown(stranger)} is no formula: use ==, != and among, and join with &, |, ~"


def _claims(system: "System") -> Iterator[tuple[object, Place, str]]:
    for claim in system.properties:
        for formula in formulas_of(claim):
            yield formula, claim.place, f"property {claim.name!r}"
    if system.final is not None:
        yield system.final, system.place, "final"
    if system.init is not None:
        yield system.init, system.place, "init"
    for name, axiom in system.axioms.items():
        yield axiom, system.place, f"axiom {name}"
