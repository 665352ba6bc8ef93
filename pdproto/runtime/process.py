"""A process that runs a machine of a system by its table: it takes events, and gives frames.

    NAMES = [("server",), ("client", "ann"), ("client", "bob")]
    ann = Process(SYSTEM, "client", "ann", among=NAMES)
    ann.call("lock", now=0.0)
    ann.outgoing()                    # [(("server",), b'["want",["ann"]]')]

It does no I/O and has no clock: drivers/ carries the frames, and says the time in seconds.

Rule 1: the table alone decides. No code here depends on the meaning of a row.
Rule 2: a row without a trigger fires as soon as its guard holds, before the next event.
Rule 3: a timer's clock starts when the guard of its row begins to hold, and starts anew when the
        row has fired. There is a clock for each element of the bounded sorts among the parameters.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Final, TypeAlias

import msgspec

from pdproto.runtime import checked
from pdproto.runtime.cells import Key
from pdproto.runtime.checked import shown
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import AnyMessage, Predicate, Shared, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, plain, shared
from pdproto.spec.language.machine import Call, Row, Table, Timer
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Symbol
from pdproto.spec.language.system import System

Name: TypeAlias = tuple[Hashable, ...]  # of an instance: its machine's name, then its own elements
Chooser: TypeAlias = Callable[..., Mapping[str, Any]]

FRAME_BYTES_MAX: Final = 65_536
FIRED_MAX: Final = 10_000  # rows without a trigger, in a row

_decoder: Final = msgspec.json.Decoder(tuple[str, list[Any]])


class Process:
    """One instance of a machine, and the frames that it has to send to other instances.

    machine: its name. own: the elements of its own variables. among: the names of all instances of
    the system, its own included; their elements are the elements of these sorts, over which
    quantifiers loop. bounded: the elements of further sorts. rigid: the rigid relations, as
    predicates. waits: the seconds of each timer, by its name. choose: by the name of a message, a
    call or a row without a trigger, a function of its arguments that returns chosen parameters, as
    in `Shared.call`; without it they are looked up. It is called whenever the row is tried. watch:
    called with every step.

    Elements that travel are strings, integers, and tuples of them. Raises SpecError for a table
    that cannot run in this way, for a timer without a wait, and for an unknown name.
    """

    def __init__(  # noqa: PLR0913 - a name for each part of what surrounds a machine
        self,
        system: System,
        machine: str,
        *own: Hashable,
        among: Collection[Name],
        bounded: Mapping[type[Sort], Collection[Hashable]] | None = None,
        rigid: Mapping[Rigid[*tuple[Any, ...]], Predicate] | None = None,
        waits: Mapping[str, float] | None = None,
        choose: Mapping[str, Chooser] | None = None,
        trace: SharedTrace | None = None,
        watch: Callable[[SharedStep], None] = lambda _step: None,
    ) -> None:
        checked.one_of("system", system, System)
        checked.text("machine", machine)
        checked.hashable("own", own)
        for named, mapping in (("bounded", bounded), ("rigid", rigid), ("waits", waits),
                               ("choose", choose)):
            checked.mapping(named, {} if mapping is None else mapping)
        checked.function("watch", watch)
        self.name: Final[Name] = (machine, *own)
        self.refused = 0  # frames that the tables do not allow; nothing has changed by them
        self._tables: Final = {table.machine.name: table for table in system.tables}
        table = self._tables.get(machine)
        if table is None:
            raise SpecError(system.place, f"{system.name} has no machine {machine!r}; it has: "
                                          f"{', '.join(self._tables)}")
        self._among: Final = names_in("among", among)
        self._check_names(system)
        elements = {**_elements(self._tables, self._among), **(bounded or {})}
        self.machine: Final[Shared] = shared(table, own, elements, rigid, trace=trace, scans=True)
        self._sending: Final = {row.on.name for row in table.rows
                                if isinstance(row.on, Call) and row.send}
        self._choose: Final = choose or {}
        self._watch: Final = watch
        own_rows = [row for row in table.rows if row.on is None]
        timed = [(row, row.on) for row in table.rows if isinstance(row.on, Timer)]
        self._unprompted: Final = [(row.name, given) for row in own_rows
                                   for given in self._given(table, row, elements)]
        self._timers: Final = [
            (row.name, given, _wait(row, timer, waits or {})) for row, timer in timed
            for given in self._given(table, row, elements)]
        self._since: Final[dict[int, tuple[Key, float]]] = {}
        self._outgoing: list[tuple[Name, bytes]] = []

    def _check_names(self, system: System) -> None:
        for name in (self.name, *self._among):
            table = self._tables.get(str(name[0]))
            if table is None or len(name) - 1 != len(table.machine.own):
                raise SpecError(system.place, f"`among`: {name!r} names no instance of "
                                              f"{system.name}: want a machine's name and its own "
                                              f"elements")
        if self.name not in self._among:
            raise SpecError(system.place, f"`among` lacks this process itself, by its "
                                          f"`machine` and `own`: {shown(self.name)}")

    @staticmethod
    def _given(
        table: Table, row: Row, elements: Mapping[type[Sort], Collection[Hashable]]
    ) -> Iterator[dict[str, Hashable]]:
        """Each choice of elements for the row's parameters of bounded sorts."""
        chosen = [v for v in table.parameters(row) if v not in table.machine.own
                  and type(v) in elements]
        for picked in product(*(elements[type(v)] for v in chosen)):
            yield {v.name: element for v, element in zip(chosen, picked, strict=True)}

    # Events.

    def call(
        self, name: str, *arguments: Hashable, now: float, choose: Mapping[str, Any] | None = None
    ) -> SharedStep:
        """Take a call of the application; see `Shared.call`. Raises LocalProtocolError if no row
        allows it; TypeError or ValueError, and nothing has changed, for elements that no frame can
        carry, if the call sends a message.
        """
        checked.text("name", name)
        checked.mapping("choose", {} if choose is None else choose)
        checked.kind("now", now, float)
        if name in self._sending:
            _require_told("arguments", arguments)
            _require_told("choose", (choose or {}).values())
        step = self.machine.call(name, *arguments, choose=choose or self._chosen(name, arguments))
        self._done(step, now)
        return step

    def take(self, frame: bytes, now: float) -> SharedStep | None:
        """Take a frame from another process; None if the tables do not allow it, which is counted.
        """
        checked.one_of("frame", frame, bytes)
        checked.kind("now", now, float)
        try:
            name, arguments = read_frame(frame)
            step = self.machine.receive(name, *arguments, choose=self._chosen(name, arguments))
        except (RemoteProtocolError, LocalProtocolError):
            self.refused += 1
            return None
        self._done(step, now)
        return step

    def turn(self, now: float) -> float | None:
        """Fire the rows whose time has come; returns the seconds to the next one, None for never.

        Call it once at the start, and whenever these seconds are over.
        """
        checked.kind("now", now, float)
        self._settle()
        for number, (row, given, wait) in enumerate(self._timers):
            found, since = self._since.get(number, (None, now))
            if found is not None and now >= since + wait:
                step = self.machine.fire(row, **given)
                del self._since[number]
                if step is not None:
                    self._done(step, now)
        self._wind(now)
        due = [since + self._timers[number][2] for number, (_, since) in self._since.items()]
        return max(0.0, min(due) - now) if due else None

    def outgoing(self) -> list[tuple[Name, bytes]]:
        """The frames to send since the last call, each with the instance that it is for."""
        sent, self._outgoing = self._outgoing, []
        return sent

    def _chosen(self, name: str, arguments: Sequence[Hashable]) -> Mapping[str, Any] | None:
        chooser = self._choose.get(name)
        return None if chooser is None else chooser(*arguments)

    def _done(self, step: SharedStep, now: float) -> None:
        """After a row has fired, keep its messages, and fire the rows without a trigger."""
        self._tell(step)
        self._settle()
        self._wind(now)

    def _tell(self, step: SharedStep) -> None:
        for message, arguments in step.sent:
            frame = write_frame(message, arguments)
            self._outgoing += [(name, frame) for name in self._receivers(message, arguments)]
        self._watch(step)

    def _settle(self) -> None:
        """Fire rows without a trigger until none can."""
        for _ in range(FIRED_MAX):
            steps = (self.machine.fire(row, **{**(self._chosen(row, ()) or {}), **given})
                     for row, given in self._unprompted)
            step = next((step for step in steps if step is not None), None)
            if step is None:
                return
            self._tell(step)
        raise SpecError(self.machine.table.place, f"the rows without a trigger of {self.name!r} "
                                                  f"fire for ever: one must make its guard false")

    def _wind(self, now: float) -> None:
        """Start the clocks of rows that can fire now, and stop those of the others."""
        for number, (row, given, _) in enumerate(self._timers):
            found = self.machine.found(row, **given)
            if found is None:
                self._since.pop(number, None)
            elif self._since.get(number, (None, now))[0] != found:
                self._since[number] = found, now

    def _receivers(self, message: AnyMessage, arguments: Key) -> Iterator[Name]:
        """The instances that the message is for: one, or all if it does not name its receiver."""
        end = message.receiver
        named = {place: arguments[message.formals.index(variable)]
                 for place, variable in enumerate(end.variables, 1) if variable in message.formals}
        for name in self._among:
            if name[0] == end.machine.name and all(name[i] == e for i, e in named.items()):
                yield name


def _require_told(name: str, elements: Iterable[Any]) -> None:
    """Raise TypeError or ValueError unless a frame can carry these elements, or lists of them."""
    for element in elements:
        candidates = element if isinstance(element, list) else [element]
        try:
            size = len(msgspec.json.encode([plain(one) for one in candidates]))
            for one in candidates:
                _element(msgspec.json.decode(msgspec.json.encode(plain(one))))
        except Exception:  # an element may raise any
            raise TypeError(f"{name}: element {shown(element)}: want text that can be written in "
                            f"UTF-8, a whole number of 64 bits, or a tuple of them") from None
        if size > FRAME_BYTES_MAX // 2:
            raise ValueError(f"{name}: element {shown(element)}: {size:,} bytes; a frame has at "
                             f"most {FRAME_BYTES_MAX:,}")


def write_frame(message: Symbol, arguments: Key) -> bytes:
    """A message as bytes: JSON, its name and its arguments."""
    return msgspec.json.encode((message.name, [plain(element) for element in arguments]))


def read_frame(frame: bytes) -> tuple[str, tuple[Hashable, ...]]:
    """The name and the arguments of a message. Raises RemoteProtocolError for any other bytes."""
    if len(frame) > FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a frame of {len(frame):,} bytes: {FRAME_BYTES_MAX:,} at most")
    try:
        name, arguments = _decoder.decode(frame)
        return name, tuple(_element(part) for part in arguments)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"no frame: {error}") from error


def _element(told: Any) -> Hashable:
    if isinstance(told, list):
        return tuple(_element(part) for part in told)
    if isinstance(told, str) or type(told) is int:
        return told
    raise RemoteProtocolError(f"no element: {told!r}")


def _elements(
    tables: Mapping[str, Table], among: Collection[Name]
) -> dict[type[Sort], tuple[Hashable, ...]]:
    """The elements of the machines' own sorts, as the names of the instances say them."""
    found: dict[type[Sort], dict[Hashable, None]] = {}
    for machine, *own in among:
        for sort, element in zip(tables[str(machine)].machine.sorts, own, strict=True):
            found.setdefault(sort, {})[element] = None
    return {sort: tuple(elements) for sort, elements in found.items()}


def _wait(row: Row, timer: Timer, waits: Mapping[str, float]) -> float:
    if timer.name not in waits:
        raise SpecError(row.place, f"timer {timer.name!r} has no wait: pass "
                                   f"waits={{{timer.name!r}: seconds}}")
    return checked.seconds(f"waits[{timer.name!r}]", waits[timer.name])


def names_in(argument: str, told: object) -> tuple[Name, ...]:
    """The names of instances. Raises TypeError for anything else."""
    with suppress(TypeError, ValueError):  # it may have no dimensions, or have been released
        if isinstance(told, Collection) and all(isinstance(one, tuple) and one for one in told):
            return tuple(told)
    raise TypeError(f"{argument} {shown(told)}: want the names of all instances, each a tuple that "
                    f"begins with the name of a machine")
