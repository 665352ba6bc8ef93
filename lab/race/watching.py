"""The steps of running tables, put together into states of a system, in which its promises are
looked for: the same patterns that the explorer looks for.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

from pdproto.check.questions import Question, instance_text, questions
from pdproto.check.result import PropertyKind
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.runtime.cells import Key
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.language.formula import Value, all_of, negated, normal
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import LeadsTo, OnRow
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol

Index = Callable[[type[Sort], Hashable], int]


class TableWatch:
    """The state of a system, as its running machines have come to it.

    index: the number of an element, -1 for one that the sizes do not have. blame: called with a
    promise and with the row that has broken it. fired: called with the name of each row.
    """

    def __init__(
        self, ground: Ground, index: Index, blame: Callable[[str, str], None],
        fired: Callable[[str], None],
    ) -> None:
        self.index: Final = index
        self.fired: Final = fired
        self._state = 0  # as all variables are declared
        self._ground: Final = ground
        self._blame: Final = blame
        self._known = True
        self._rows: Final[dict[tuple[str, tuple[int, ...]], list[GroundRow]]] = {}
        for row in ground.rows:
            key = row.row.name, tuple(row.environment.values())
            self._rows.setdefault(key, []).append(row)
        asked = [q for q in questions(ground) if q.bad]
        on_row = {claim.name: claim.row for claim in ground.system.properties
                  if isinstance(claim, OnRow)}
        self._before: Final[list[tuple[Question, str]]] = [
            (question, on_row.get(question.name, "")) for question in asked
            if question.name in on_row or question.kind is PropertyKind.EDGES]
        before = {question.name for question, _ in self._before}
        self._after: Final = [question for question in asked if question.name not in before]

    def take(self, row: Row, elements: Sequence[int]) -> None:
        """A machine has taken this row."""
        self.fired(row.name)
        if not self._known or row.kind == "ignore":
            return
        found = next((one for one in self._rows.get((row.name, tuple(elements)), ())
                      if one.action.guard.holds(self._state)), None)
        if found is None:
            self._known = False  # beyond the sizes, or with an effect that no row tells
            return
        for question, name in self._before:
            if name in ("", row.name) and self._breaks(question, found):
                self._blame(question.name, str(found))
        self._state = found.action.apply(self._state)
        for question in self._after:
            if any(pattern.guard.holds(self._state) for pattern in question.patterns):
                self._blame(question.name, f"after {found}")

    def act(self, row: GroundRow) -> None:
        """A row of the world has been arranged."""
        if row.action.guard.holds(self._state):
            self._state = row.action.apply(self._state)

    def unmet(self, promise: str) -> Iterator[str]:
        """The elements for which the premise of this liveness promise holds now, and not its goal.
        """
        for claim in self._ground.system.properties:
            if not isinstance(claim, LeadsTo) or claim.name != promise:
                continue
            missed = all_of(claim.premise, negated(claim.goal))
            for environment in self._ground.instances(missed):
                if any(guard.holds(self._state)
                       for guard in self._ground.patterns(normal(missed), environment)):
                    yield instance_text(environment)

    def _breaks(self, question: Question, row: GroundRow) -> bool:
        return any(pattern.guard.holds(self._state) and pattern.instance.startswith(row.row.name)
                   if question.kind is PropertyKind.EDGES else pattern.guard.holds(self._state)
                   for pattern in question.patterns)


class Watching(SharedTrace):
    """The trace of one process: its machines tell the watch."""

    def __init__(self, watch: TableWatch) -> None:
        self._watch: Final = watch

    def begin(self, table: Table, own: Sequence[Hashable] | None = (),
              bounded: Any = None) -> Any:  # noqa: ARG002 - as in SharedTrace
        """See SharedTrace."""
        return _Machine(self._watch, table, own)


class _Machine:
    """The witness of one machine (runtime/witness.py)."""

    def __init__(
        self, watch: TableWatch, table: Table, own: Sequence[Hashable] | None
    ) -> None:
        self._watch: Final = watch
        self._table: Final = table
        named = () if own is None else table.machine.own  # None: all instances at once
        self._own: Final = dict(zip((v.name for v in named), own or (), strict=True))

    def fired(self, row: Row, names: tuple[str, ...], parameters: Key) -> None:
        """See Witness."""
        given = {**self._own, **dict(zip(names, parameters, strict=True))}
        elements = [self._watch.index(type(v), given.get(v.name))
                    for v in self._table.parameters(row)]
        self._watch.take(row, elements)

    def heard(self, message: Symbol, arguments: Key) -> None:
        """See Witness. A sent message is in the state already."""

    def written(self, symbol: Symbol, arguments: Key, value: Value) -> None:
        """See Witness."""
