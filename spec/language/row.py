"""Rows: the lines of a machine's table (machine.py)."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from .computed import mentioned
from .formula import And, Formula, free_variables
from .kinds import require, require_name, shown
from .numbered import standing
from .place import Place, here
from .sequences import equals
from .sorts import Sort
from .symbols import Each, Sent, Update
from .triggers import Call, Trigger
from .updates import Updates, flat


def _parts(given: object) -> Iterable[object]:
    return given if isinstance(given, list | tuple) else (given,)


def _named(part: object) -> Iterator[Sort]:
    """The variables of a condition, an update or an effect."""
    match part:
        case Formula():
            yield from free_variables(part)
        case Update():
            yield from (*part.arguments, *mentioned(part.value), *free_variables(part.where))
        case Each():
            yield from part.sent.arguments


RowKind: TypeAlias = Literal["row", "ignore", "reject"]
Fair: TypeAlias = Literal["weak", "strong"] | bool | None


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One line of a table.

    on: the trigger; None is a step that the instance takes by itself as soon as the guard holds.
    at, to: values of the table's state variable, before and after. at=() is any state.
    when: further conditions. choose: parameters that the caller supplies (which page, which slot).
    Every parameter is the machine's own, the trigger's, or chosen: there is no hidden choice.
    fair: whether it fires if it stays enabled ("weak", or True), or also if it is enabled again and
    again ("strong"), or may never fire (False). By default calls may never, all else is weak.
    kind: "ignore" tolerates the trigger (why gives the reason); "reject" blames the peer.
    """

    name: str
    on: Trigger = None
    at: enum.Enum | tuple[enum.Enum, ...] = ()
    to: enum.Enum | None = None
    when: Formula | Sequence[Formula] = ()
    choose: tuple[Sort, ...] = ()
    do: Sequence[Update] = ()
    send: Sequence[Sent | Each] = ()
    fair: Fair = None
    why: str = ""
    kind: RowKind = "row"
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    if TYPE_CHECKING:  # one update, message or variable needs no list: see __post_init__
        def __init__(  # noqa: PLR0913 - one for each field
            self,
            name: str,
            on: Trigger = None,
            *,
            at: enum.Enum | tuple[enum.Enum, ...] = (),
            to: enum.Enum | None = None,
            when: Formula | Sequence[Formula] = (),
            choose: Sort | tuple[Sort, ...] = (),
            do: Update | Sequence[Update | Updates] = (),
            send: Sent | Each | Sequence[Sent | Each] = (),
            fair: Fair = None,
            why: str = "",
            kind: RowKind = "row",
            place: Place = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        require_name("row", self.name, self.place)
        require(self.kind in get_args(RowKind), f"row {self.name!r}: kind={self.kind!r}: want one "
                f"of {', '.join(map(repr, get_args(RowKind)))}", self.place)
        fair: object = self.fair
        require(fair is None or isinstance(fair, bool) or fair in ("weak", "strong"),
                f"row {self.name!r}: fair={shown(fair)}: want 'weak', 'strong' or False",
                self.place)
        # One update, message or variable needs no list, as one condition does not.
        for name, single in (("do", Update), ("send", Sent | Each), ("choose", Sort)):
            value = getattr(self, name)
            if isinstance(value, single):
                object.__setattr__(self, name, (value,))
        object.__setattr__(self, "do", flat(self.do))
        self._compute()

    def _compute(self) -> None:
        """Choose the numbers that arguments compute (numbered.py, rule 2)."""
        named = [v for part in (*_parts(self.when), *_parts(self.do), *_parts(self.send))
                 for v in _named(part)]
        found = [(v, of) for v, of in standing(named) if v not in self.choose]
        if found:
            object.__setattr__(self, "choose", (*self.choose, *(v for v, _ in found)))
            object.__setattr__(self, "when", (*self.conditions, *(
                equals(v, of) for v, of in found)))

    @property
    def states(self) -> tuple[enum.Enum, ...]:
        return self.at if isinstance(self.at, tuple) else (self.at,)

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The conjuncts of `when`."""
        if type(self.when) is And:  # a comparison is one conjunct
            return self.when.parts
        return (self.when,) if isinstance(self.when, Formula) else tuple(self.when)

    @property
    def is_fair(self) -> bool:
        return not isinstance(self.on, Call) if self.fair is None else bool(self.fair)

    @property
    def is_strong(self) -> bool:
        """Whether it fires if it is enabled again and again."""
        return self.fair == "strong"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Row({self.name!r})"
