"""One machine's table at one topology, as a step function over integers.

The topology bounds the other sorts of such a machine: the sinks of a source, the chunks of a
hand-over. So the local state of an instance has a few bits, at the places that the explorer's
layout gives them. The automaton tests the masks of the rows that an event can trigger, and carries
out the row that fires. It keeps each result, so the same event in the same state is later one
look-up. All instances of one topology share an automaton.

Rule 1: the table alone decides. No code here depends on the meaning of a row.
Rule 2: decide, then change; or raise and change nothing. States are values; the caller keeps them.
Rule 3: a row without a trigger fires as soon as it can, in the order of the table. A *paced* row is
        the exception: it waits until the caller asks for it (a write waits for room).
Rule 4: another machine of the same process may write into a shared variable (a device variable).
        The caller assigns such a value. One that its declaration forbids is an error.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

from pdproto.ground.grounding import Grounder
from pdproto.ground.layout import Cell, Indices, Layout, cell_name, value_name
from pdproto.ground.local import local_symbols
from pdproto.ground.program import Action, Guard, assignment
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.local_rows import NOWHERE, AnyMessage, Conditions, LocalRow, LocalRows
from pdproto.spec.language.formula import TRUE, Formula, Value, free_variables, normal
from pdproto.spec.language.machine import Call, Completion, Row, Table, Timer
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sent, Sizes, Symbol, Variable

K = TypeVar("K")
V = TypeVar("V")
Assignment: TypeAlias = tuple[Symbol, Indices, Value]
Places: TypeAlias = tuple[type[Sort], tuple[int | None, ...]] | None

ANSWERS_MAX: Final = 1 << 16  # kept for one question; others are computed again
ROWS_MAX: Final = 1 << 12  # fired by one event: a table with more has a loop of rows


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The result of an event: the state after it, and the rows that fired, in order.

    Equal results are the same object. rows: each with its parameters, as indices in the order of
    `Table.parameters`. sent: messages with arguments. changed: cells with their new values.
    """

    state: int
    rows: tuple[tuple[Row, Indices], ...] = ()
    sent: tuple[tuple[AnyMessage, Indices], ...] = ()
    changed: tuple[Assignment, ...] = ()


@dataclass(slots=True, eq=False)
class Event:
    """Something that can happen to an instance, with the rows that answer it.

    before: bits that the event itself sets before a row is tried. every: every row that can fire
    does (a timer); otherwise only the first one. from_peer: an event without a row is the peer's
    error. steps: known results, by the state before. Look there first; `Automaton.take` fills it.
    """

    name: str
    rows: tuple[LocalRow, ...]
    before: int = 0
    every: bool = False
    from_peer: bool = False
    steps: dict[int, Step] = field(default_factory=dict)


class Automaton:
    """The table of one machine, for instances of one topology.

    sizes: elements of every sort in the table; 1 for the machine's own. paced: rows without a
    trigger that wait for `pace`. conditions: of the table, where automata share them. An instance
    counts only elements related to it by rigid relations.
    """

    def __init__(self, table: Table, sizes: Sizes, paced: Sequence[str] = (),
                 conditions: Conditions | None = None) -> None:
        self.table: Final = table
        self.sizes: Final = sizes
        symbols = tuple(dict.fromkeys(local_symbols(table)))
        self.layout: Final = Layout(symbols, sizes)
        conditions = conditions or Conditions(table)
        self._ground: Final = Grounder(self.layout, conditions.related(sizes), table.place)
        self._events: Final[dict[object, Event]] = {}
        self._cells: Final = {
            place.offset: (rank, symbol, indices, place) for rank, ((symbol, indices), place)
            in enumerate(self.layout.fields.items())}
        self.rows: Final = LocalRows(conditions, self._ground)
        by_itself = {row.name: row for row in table.rows if row.on is None}
        self._at_once: Final = [
            self.rows.family(row) for name, row in by_itself.items() if name not in paced]
        self.paced: Final = {name: by_itself[name] for name in paced if name in by_itself}
        self._premises: Final = {n: self.rows.premise(row) for n, row in self.paced.items()}
        self._paces: Final[dict[tuple[object, ...], Event]] = {}
        timers = dict.fromkeys(row.on.name for row in table.rows if isinstance(row.on, Timer))
        self._timers: Final = {name: self._timer(name) for name in timers}
        self._armed: Final[dict[int, tuple[str, ...]]] = {}
        self._named_together: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}  # of its timers
        # By `id`. The object is kept beside its readings, so that no other object gets its `id`.
        self._readings: Final[dict[int, tuple[dict[int, Any], list[Any], object]]] = {}
        self._guards: Final[dict[tuple[object, ...], tuple[dict[int, bool], Guard, Formula]]] = {}
        self._moves: Final[dict[tuple[int, int, Places], int]] = {}
        self.initial: Final = 0

    # Events. Each is kept: the next call with the same arguments returns the same object.

    def message(self, message: AnyMessage, arguments: Indices, carried: int = 0) -> Event:
        """The arrival of a message. carried: bits (see `bits`) that travel with it."""
        key = message, arguments, carried
        return self._events.get(key) or self._keep_event(key, Event(
            f"{message}{arguments}",
            self.rows.answering(Sent, message.name, arguments),
            before=carried | self._mark(message, arguments),
            from_peer=True,
        ))

    def call(self, name: str, arguments: Indices = ()) -> Event:
        """A call by the application. Raises LocalProtocolError for one that the table lacks."""
        key = Call, name, arguments
        return self._events.get(key) or self._keep_event(
            key, Event(f"call {name}", self._named(Call, name, arguments)))

    def completion(self, name: str, arguments: Indices) -> Event:
        """A completion that a device reports. Raises LocalProtocolError if the table lacks it."""
        key = Completion, name, arguments
        return self._events.get(key) or self._keep_event(
            key, Event(f"completion {name}", self._named(Completion, name, arguments)))

    def timer(self, name: str) -> Event:
        """A clock that runs out. Raises KeyError if the table has no timer of this name."""
        return self._timers[name]

    def pace(self, row: str, **among: range) -> Event:
        """The permission for a paced row to fire once. If it cannot fire, the step has no rows.

        among: for a parameter, by its name, the elements that the row may choose from.
        """
        key = row, *among.items()
        known = self._paces.get(key)
        if known is None:
            of = self.paced[row]
            known = self._paces[key] = Event(row, tuple(self.rows.instances(of, among)))
        return known

    def device(self, *assignments: Assignment) -> Event:
        """A write of another owner into shared variables; LocalProtocolError as in rule 4."""
        key = "device", assignments
        known = self._events.get(key)
        if known is not None:
            return known
        for symbol, indices, value in assignments:
            if not isinstance(symbol, Variable) or value not in symbol.engine_writes:
                raise LocalProtocolError(
                    f"{cell_name(symbol, indices)} := {value}: no device may write this value; "
                    f"see the declaration of {symbol.name}"
                )
        return self._keep_event(key, Event("device", self._writes(assignments)))

    def noted_message(self, message: AnyMessage, *each: Indices) -> Event:
        """The arrival of messages that trigger no row; rows read whether they have arrived."""
        name = f"{message}{''.join(map(str, each))}"
        return self._events.get(name) or self._keep_event(name, Event(name, (_IDLE,), before=sum(
            self._mark(message, arguments) for arguments in each)))

    def take(self, event: Event, state: int) -> Step:
        """The step of the event in this state. If no row answers the event, or a row rejects it:
        RemoteProtocolError for an event from a peer, LocalProtocolError for any other.
        """
        known = event.steps.get(state)
        if known is not None:
            return known
        step = self._step(event, state)
        _keep(event.steps, state, step)
        return step

    # States

    def bits(self, symbol: Symbol, indices: Indices, value: Value = True) -> int:
        """The bits that give a cell this value."""
        return symbol.values.index(value) << self.layout.field(symbol, indices).offset

    def value(self, state: int, symbol: Symbol, indices: Indices) -> Value:
        """The value of a cell in this state."""
        return self.layout.value(state, symbol, indices)

    def armed(self, state: int) -> tuple[str, ...]:
        """The timers with a row that could fire in this state. Equal answers are one object."""
        known = self._armed.get(state)
        if known is None:
            known = tuple(name for name, event in self._timers.items()
                          if any(row.action.guard.holds(state) for row in event.rows))
            known = self._named_together.setdefault(known, known)
            _keep(self._armed, state, known)
        return known

    def may_fire(self, state: int, row: str) -> bool:
        """Whether the part of a paced row's guard that is about this machine alone holds."""
        return self._premises[row].holds(state)

    def holds(self, formula: Formula, state: int, **elements: int) -> bool:
        """Whether a formula about this machine's own variables holds in the state.

        elements: the element of each free variable, by its name; 0 for a variable not given.
        """
        if elements:
            return self._holds_at(formula, state, elements)
        readings = self._readings.get(id(formula))
        known: bool | None = None if readings is None else readings[0].get(state)
        if known is None:
            known = self.first_value(((formula, True), (TRUE, False)), state, key=formula)
        return known

    def first_value(
        self, table: Sequence[tuple[Formula, V]], state: int, *, key: object = None
    ) -> V:
        """The value of the first formula that holds; one must (spec/handoff/poll.py).

        Answers are kept by the `id` of `key`, or of `table` if there is no key.
        """
        keyed = table if key is None else key
        readings = self._readings.get(id(keyed))
        if readings is None:
            patterns = [(self._patterns(formula), value) for formula, value in table]
            readings = self._readings[id(keyed)] = {}, patterns, keyed
        known: V | None = readings[0].get(state)
        if known is None:
            known = next(value for patterns, value in readings[1]
                         if any(pattern.holds(state) for pattern in patterns))
            _keep(readings[0], state, known)
        return known

    def _holds_at(self, formula: Formula, state: int, elements: Mapping[str, int]) -> bool:
        """Whether a conjunction holds at these elements."""
        key = id(formula), *elements.items()
        if (known := self._guards.get(key)) is None:
            environment = {v: elements.get(v.name, 0) for v in free_variables(formula)}
            guard = self._ground.guard(normal(formula), environment)
            known = self._guards[key] = {}, NOWHERE if guard is None else guard, formula
        if (answer := known[0].get(state)) is None:
            _keep(known[0], state, answer := known[1].holds(state))
        return answer

    def _patterns(self, formula: Formula) -> list[Guard]:
        environment = dict.fromkeys(free_variables(formula), 0)
        return self._ground.patterns(normal(formula), environment)

    def translate(self, state: int, other: "Automaton", places: Places = None) -> int:
        """The same state in another automaton of this table, which has every cell that is set.

        places: a sort, and for each element here the element there; None leaves the element out.
        """
        key = (id(other), state, places)
        known = self._moves.get(key)
        if known is None:
            kept = {(symbol, indices): value
                    for (symbol, indices), value in self.layout.decode(state).items()
                    if value != symbol.values[0]}
            if places is not None:
                kept = dict(_renumbered(kept, *places))
            known = other.layout.encode(kept)
            _keep(self._moves, key, known)
        return known

    def words(self, state: int) -> str:
        """The state as text: every cell that is not initial, in the names of the table."""
        return ", ".join(self._words(state)) or "initial"

    def _words(self, state: int) -> Iterator[str]:
        for (symbol, indices), value in self.layout.decode(state).items():
            if value != symbol.values[0]:
                name = cell_name(symbol, indices)
                yield name if value is True else f"{name} = {value_name(value)}"

    # How a step is made

    def _step(self, event: Event, state: int) -> Step:
        rows: list[tuple[Row, Indices]] = []
        sent: list[tuple[AnyMessage, Indices]] = []
        changed: list[Assignment] = []

        def fire(local: LocalRow, before: int) -> int:
            after = local.action.apply(before)
            rows.append((local.row, local.parameters))
            sent.extend(local.sent)
            changed.extend(self._difference(before, after))
            return after

        after = state | event.before
        met = [local for local in event.rows if local.action.guard.holds(after)]
        self._refuse_unanswered(event, met, state)
        waiting = {local.key for local in met}
        # The first rows of a timer may change which case of a later one holds.
        for local in event.rows if event.every else met[:1]:
            if local is _IDLE or local.row is _DEVICE:
                changed.extend(self._difference(after, local.action.apply(after)))
                after = local.action.apply(after)
            elif local.key in waiting and local.action.guard.holds(after):
                waiting.remove(local.key)
                after = fire(local, after)
        while (following := self._next(after)) is not None:
            after = fire(following, after)
            if len(rows) > ROWS_MAX:
                raise LocalProtocolError(f"{event.name}: rows of {self.table.machine} fire without "
                                         f"end, from the state {self.words(state)}")
        return Step(after, tuple(rows), tuple(sent), tuple(changed))

    def _refuse_unanswered(self, event: Event, met: list[LocalRow], state: int) -> None:
        if event.every or event.name in self.paced:
            return
        where = f"{event.name} at {self.table.machine}: {self.words(state)}"
        if not met:
            raise (RemoteProtocolError if event.from_peer else LocalProtocolError)(
                f"no row for {where}")
        if met[0].row.kind == "reject":
            raise (RemoteProtocolError if event.from_peer else LocalProtocolError)(
                f"{where}: {met[0].row.why}"
            )

    def _next(self, state: int) -> LocalRow | None:
        """The first row without a trigger that fires in this state and has an effect."""
        for family in self._at_once:
            if family.premise.holds(state):
                for local in family.locals:
                    if self.moves_on(local, state):
                        return local
        return None

    @staticmethod
    def moves_on(local: LocalRow, state: int) -> bool:
        """Whether the row fires in this state and has an effect."""
        return local.action.guard.holds(state) and (
            bool(local.sent) or local.action.apply(state) != state
        )

    def _difference(self, before: int, after: int) -> Iterator[Assignment]:
        found, left = [], before ^ after
        while left:
            bit = (left & -left).bit_length() - 1
            while bit not in self._cells:
                bit -= 1  # within a cell that is wider than a bit
            found.append(self._cells[bit])
            left &= ~found[-1][-1].mask
        for _, symbol, indices, _ in sorted(found, key=itemgetter(0)):
            if isinstance(symbol, Variable):
                yield symbol, indices, self.layout.value(after, symbol, indices)

    # How rows become masks

    def _keep_event(self, key: object, event: Event) -> Event:
        _keep(self._events, key, event)
        return event

    def _timer(self, name: str) -> Event:
        rows = [r for r in self.table.rows if isinstance(r.on, Timer) and r.on.name == name]
        return Event(f"timer {name}", self._local(rows), every=True)

    def _named(self, kind: type, name: str, arguments: Indices) -> tuple[LocalRow, ...]:
        """The rows on a call or completion."""
        if (kind, name) not in self.rows.triggers:
            raise LocalProtocolError(f"{self.table.machine} has no {kind.__name__.lower()} {name}")
        return self.rows.answering(kind, name, arguments)

    def _local(self, rows: Iterator[Row] | Sequence[Row]) -> tuple[LocalRow, ...]:
        return tuple(local for row in rows for local in self.rows.instances(row))

    def _mark(self, message: AnyMessage, indices: Indices) -> int:
        """The bit of a message that has been sent; 0 if no row reads it."""
        return self.bits(message, indices) if message in self.layout.symbols else 0

    def _writes(self, assignments: tuple[Assignment, ...]) -> tuple[LocalRow, ...]:
        literals = [self.layout.literal(*assignment) for assignment in assignments]
        return (LocalRow(_DEVICE, (), Action(Guard(), *assignment(literals)), ()),)


def _keep(answers: dict[K, V], key: K, answer: V) -> None:
    """Store an answer. Above ANSWERS_MAX all are dropped first; they will be computed again."""
    if len(answers) >= ANSWERS_MAX:
        answers.clear()
    answers[key] = answer


def _renumbered(
    cells: Mapping[Cell, Value], sort: type[Sort], places: Sequence[int | None]
) -> Iterator[tuple[Cell, Value]]:
    """The cells with the elements of one sort renumbered, without the elements left out."""
    for (symbol, indices), value in cells.items():
        moved = [places[i] if of is sort else i
                 for of, i in zip(symbol.sorts, indices, strict=True)]
        if None not in moved:
            yield (symbol, tuple(i for i in moved if i is not None)), value


_DEVICE: Final = Row("device", why="another owner of the variable has written it")
_IDLE: Final = LocalRow(Row("mark"), (), Action(Guard(), 0, 0), ())
