"""Edits: a changed system as a value. A historical defect is a name and a few of these.

    broken = edited(SYSTEM, "grants-twice", DropEffect("grant", holder(s)))

Rows and properties are found by name, clauses and effects by structure. An edit that finds nothing
is an error, so an edit never silently does nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast, get_args

from .formula import Formula
from .kinds import shown, suggestion
from .machine import Machine, Row, Table
from .place import Place, SpecError, here
from .properties import OnRow, Property
from .symbols import Each, Sent, Update
from .system import Configuration, System
from .updates import Updates


@dataclass(frozen=True, slots=True)
class DropRow:
    """Take a row out of its table."""

    row: str
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ReplaceRow:
    """Put another row in the place of the one named."""

    row: str
    by: Row
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class AddRow:
    """Append a row to a machine's table."""

    machine: Machine[*tuple[Any, ...]]
    row: Row
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DropClause:
    """Take one conjunct out of a row's `when`."""

    row: str
    clause: Formula
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class AddClause:
    """Add a conjunct to a row's `when`."""

    row: str
    clause: Formula
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DropEffect:
    """Take one update or one message out of a row."""

    row: str
    effect: Update | Updates | Sent | Each
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class AddEffect:
    """Add an update or a message to a row."""

    row: str
    effect: Update | Updates | Sent | Each
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retarget:
    """Change where a row may start and where it goes (`at` and `to`)."""

    row: str
    at: Any = None
    to: Any = None
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ReplaceProperties:
    """Check other properties instead."""

    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class AddProperty:
    """Check one more property."""

    claim: Property


@dataclass(frozen=True, slots=True)
class DropProperty:
    """Check a property no longer."""

    name: str
    place: Place = field(default_factory=here, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class AddFaults:
    """Add a layer of faults. Configurations switch it on by its name."""

    layer: str
    tables: tuple[Table, ...]
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    def __init__(self, layer: str, *tables: Table) -> None:
        object.__setattr__(self, "layer", layer)
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "place", here())


RowEdit: TypeAlias = ReplaceRow | DropClause | AddClause | DropEffect | AddEffect | Retarget
PropertyEdit: TypeAlias = ReplaceProperties | AddProperty | DropProperty
Edit: TypeAlias = DropRow | AddRow | AddFaults | PropertyEdit | RowEdit

_POSTPONING: Final[list[object]] = []  # one for each postponed_errors() that is open


class Postponed:
    """Stands for an edited system that is malformed: any use of it raises its error."""

    def __init__(self, error: SpecError) -> None:
        self.error: Final = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


@contextmanager
def postponed_errors() -> Iterator[None]:
    """Inside this context a malformed edited system raises when it is used, and not at once.

    So one bad edit of a file does not keep the other systems of the file from being checked.
    """
    _POSTPONING.append(None)
    try:
        yield
    finally:
        _POSTPONING.pop()


def edited(
    system: System,
    name: str,
    *edits: Edit,
    about: str = "",
    configurations: Mapping[str, Configuration] | None = None,
) -> System:
    """The system after the edits, in order, under a new name; it is checked like any other.

    about, configurations: those of the edited system, where they differ (a defect may show at
    other sizes). Raises SpecError, at the line of the edit, where an edit finds nothing to change
    and where the edited system is malformed.
    """
    try:
        return _edited(system, name, edits, about, configurations)
    except SpecError as error:
        if not _POSTPONING:
            raise
        return cast("System", Postponed(error))


def _edited(
    system: System,
    name: str,
    edits: tuple[Edit, ...],
    about: str,
    configurations: Mapping[str, Configuration] | None,
) -> System:
    given: object = system
    if not isinstance(given, System):
        raise SpecError(here(), f"edited({shown(given)}): want the system first, as in "
                                "edited(SYSTEM, 'broken', DropRow('lend'))")
    for edit in edits:
        if not isinstance(edit, get_args(Edit)):
            raise SpecError(here(), f"edited({system.name!r}) was given {shown(edit)}: want edits, "
                                    f"such as DropRow('lend'), one after the other")
    draft = _Draft(system.name, system.tables, system.faults, system.properties)
    for edit in edits:
        draft = _apply(draft, edit)
    rows = {row.name for table in draft.every_table() for row in table.rows}
    for claim in draft.properties:
        if isinstance(claim, OnRow) and claim.row in draft.dropped.keys() - rows:
            raise SpecError(
                draft.dropped[claim.row],
                f"property {claim.name!r} is about row {claim.row!r}: drop it too, with "
                f"DropProperty({claim.name!r})")
    try:
        return replace(
            system,
            name=name,
            about=about or system.about,
            tables=draft.tables,
            faults=draft.faults,
            properties=draft.properties,
            configurations=system.configurations if configurations is None else configurations,
            like=system,
        )
    except SpecError as error:
        raise SpecError(draft.changed.get(error.place, error.place), error.problem) from None


@dataclass(frozen=True, slots=True)
class _Draft:
    """A system while it is edited: between two edits it need not be well formed.

    dropped: the rows that are gone, by name, each with the place of its edit. changed: by the place
    of a row, that of the last edit of it.
    """

    name: str
    tables: tuple[Table, ...]
    faults: Mapping[str, tuple[Table, ...]]
    properties: tuple[Property, ...]
    dropped: Mapping[str, Place] = field(default_factory=dict)
    changed: Mapping[Place, Place] = field(default_factory=dict)

    def every_table(self) -> Iterator[Table]:
        yield from self.tables
        for layer in self.faults.values():
            yield from layer


def _apply(draft: _Draft, edit: Edit) -> _Draft:
    match edit:
        case ReplaceProperties(properties):
            return replace(draft, properties=properties)
        case AddProperty(claim):
            return replace(draft, properties=(*draft.properties, claim))
        case DropProperty(name):
            kept = tuple(claim for claim in draft.properties if claim.name != name)
            problem = f"{draft.name} has no property {name!r} to drop"
            _must_differ(kept, draft.properties, edit.place, problem)
            return replace(draft, properties=kept)
        case AddFaults(layer, tables):
            if layer in draft.faults:
                raise SpecError(edit.place, f"{draft.name} has a fault layer {layer!r} already")
            return replace(draft, faults={**draft.faults, layer: tables})
        case AddRow(machine, row):
            if machine not in {table.machine for table in draft.every_table()}:
                raise SpecError(edit.place, f"{draft.name} has no table of {machine.name}")
            return _tables(
                draft, lambda t: replace(t, rows=(*t.rows, row)) if t.machine is machine else t
            )
        case DropRow(name):
            _found(draft, name, edit.place)
            draft = replace(draft, dropped={**draft.dropped, name: edit.place})
            return _tables(
                draft, lambda t: replace(t, rows=tuple(r for r in t.rows if r.name != name))
            )
        case _:
            old = _found(draft, edit.row, edit.place)
            new = _changed(old, edit)
            dropped = {} if new.name == old.name else {old.name: edit.place}
            changed = {} if isinstance(edit, ReplaceRow) else {new.place: edit.place}
            draft = replace(draft, dropped={**draft.dropped, **dropped},
                            changed={**draft.changed, **changed})
            return _tables(
                draft, lambda t: replace(t, rows=tuple(new if r is old else r for r in t.rows))
            )


def _tables(draft: _Draft, change: Callable[[Table], Table]) -> _Draft:
    return replace(
        draft,
        tables=tuple(change(table) for table in draft.tables),
        faults={name: tuple(map(change, layer)) for name, layer in draft.faults.items()},
    )


def _found(draft: _Draft, name: str, place: Place) -> Row:
    for table in draft.every_table():
        for row in table.rows:
            if row.name == name:
                return row
    near = suggestion(name, [row.name for table in draft.every_table() for row in table.rows])
    raise SpecError(place, f"{draft.name} has no row {name!r} to edit{near}")


def _changed(row: Row, edit: RowEdit) -> Row:
    match edit:
        case ReplaceRow(by=by):
            return by
        case Retarget(at=at, to=to):
            return replace(row, at=row.at if at is None else at, to=row.to if to is None else to)
        case DropClause(clause=clause):
            kept = tuple(c for c in row.conditions if c != clause)
            _must_differ(kept, row.conditions, edit.place, f"{row.name} has no clause {clause!r}; "
                         f"it has: {', '.join(map(repr, row.conditions)) or 'none'}")
            return replace(row, when=kept)
        case AddClause(clause=clause):
            return replace(row, when=(*row.conditions, clause))
        case DropEffect(effect=Update() | Updates() as update):
            dropped = update if isinstance(update, Updates) else (update,)
            known = all(one in row.do for one in dropped)
            updates = tuple(u for u in row.do if not known or u not in dropped)
            _must_differ(updates, tuple(row.do), edit.place, f"{row.name} has no {update!r}")
            return replace(row, do=updates)
        case DropEffect(effect=effect):
            sends = tuple(s for s in row.send if s != effect)
            _must_differ(sends, tuple(row.send), edit.place, f"{row.name} does not send {effect!r}")
            return replace(row, send=sends)
        case AddEffect(effect=Update() | Updates() as added):
            more = added if isinstance(added, Updates) else (added,)
            return replace(row, do=(*row.do, *more))
        case AddEffect(effect=Sent() | Each() as effect):
            return replace(row, send=(*row.send, effect))
    raise AssertionError(edit)


def _must_differ(
    kept: tuple[object, ...], before: tuple[object, ...], place: Place, problem: str
) -> None:
    if len(kept) == len(before):
        raise SpecError(place, problem)
