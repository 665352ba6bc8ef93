"""Checks the safety properties of a life after every step of one of its ends.

The ends of a life are combined into one state, as the explorer would have it: an instance of the
transfer with this life's sources, its sink and its chunks. Every safety property of the tables is
checked in that state, with the explorer's own patterns. States repeat, so a state that was checked
before needs only a look-up. The bits that a step adds to the state depend only on the step, so they
are computed once.

Rule 1: an end adds the cells of its own machine to the state.
Rule 2: when a process ends, its ends are *gone*, as in the tables. Steps of its successor do not
        count as theirs.
Rule 3: properties about two lives (a page has one owner) are checked by the fabric.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from lab.sim.fabric import Blame
from lab.sim.plan import PlannedRequest
from pdproto.check.questions import questions
from pdproto.check.result import PropertyKind
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import Cell, Indices, cell_name, value_name
from pdproto.ground.local import index_tuples, rigid_relations
from pdproto.ground.program import Guard
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends, roles
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.transfer import SAFETY, SYSTEM
from pdproto.spec.language.machine import Table
from pdproto.spec.language.properties import Sometimes
from pdproto.spec.language.symbols import Symbol, Variable
from pdproto.spec.language.system import System

# The variables that end with a sink's process. The other ones are about its peers' knowledge.
_MEMORY: Final[frozenset[Symbol]] = frozenset((ends.memory, ends.lease, ends.page, ends.slot))
# Called with the time, the node, and the step.
Recorder = Callable[[float, str, Endpoint, Event, Step], None]
_STATES: Final = (ends.sending, ends.receiving)
_SAFETY: Final = tuple(claim for claim in SAFETY if not isinstance(claim, Sometimes))


class Form:
    """The transfer of one life at given sizes. sound: the states that were checked and violate no
    property.
    """

    def __init__(self, system: System, sources: int, chunks: int) -> None:
        sizes = {roles.Source: sources, roles.Sink: 1, roles.Life: 1, roles.Buffer: 1,
                 roles.Page: 1, roles.Slot: 1, roles.Chunk: chunks}
        given = {symbol: frozenset(index_tuples(symbol, sizes))
                 for table in system.tables for symbol in rigid_relations(table)}
        ground = Ground(system, sizes, given=given)
        self.sources: Final = sources
        self.chunks: Final = chunks
        self.layout: Final = ground.layout
        self.sound: Final[set[int]] = set()
        self._patterns: Final[list[tuple[str, Guard]]] = [
            (question.name, pattern.guard) for question in questions(ground)
            if question.kind is PropertyKind.ALWAYS for pattern in question.patterns
        ]
        # Messages that no property reads are left out of the state.
        read = 0
        for _, guard in self._patterns:
            read |= guard.mask
            for clause in guard.clauses:
                for literal in clause:
                    read |= literal.mask
        self.read: Final = read

    def first_broken(self, state: int) -> str:
        """The first property that the state violates, or ""."""
        broken = next((name for name, guard in self._patterns if guard.holds(state)), "")
        if not broken:
            self.sound.add(state)
        return broken


Forms: TypeAlias = dict[tuple[int, int], Form]  # by the numbers of sources and chunks


class Translation:
    """Translates the steps of one automaton to bits of a form. place: the index of the source.
    known: the bits of the steps so far.
    """

    def __init__(self, form: Form, automaton: Automaton, place: int) -> None:
        self.known: Final[dict[Step, int]] = {}
        self._form: Final = form
        self._automaton: Final = automaton
        machine = automaton.table.machine
        self._of_sink: Final = machine is ends.sink
        self._place: Final = place
        self._cells: Final = [
            (cell, there)
            for cell in automaton.layout.fields
            if isinstance(cell[0], Variable) and cell[0].owner is machine
            for there in self._there(cell)
        ]
        self.mask: Final = self._mask()

    def learn(self, step: Step) -> int:
        """The bits that an end adds after this step: its own state, and the messages it has sent.
        """
        bits = self.known[step] = self._bits(step.state) | self._sent(step)
        return bits

    def _bits(self, state: int) -> int:
        layout, bits = self._form.layout, 0
        for (symbol, indices), there in self._cells:
            value = self._automaton.value(state, symbol, indices)
            if value is not symbol.values[0]:
                bits |= layout.literal(symbol, there, value).value
        return bits

    def _sent(self, step: Step) -> int:
        bits = 0
        for message, indices in step.sent:
            there = self._renamed(message, indices)
            bits |= self._form.layout.literal(message, there, True).value
        return bits & self._form.read

    def gone(self, bits: int) -> int:
        """The bits of this end after its process has ended."""
        layout = self._form.layout
        for symbol, indices in layout.fields:
            if (self._of_sink and symbol in _MEMORY) or self._is_state(symbol, indices):
                bits &= ~layout.field(symbol, indices).mask
            if self._is_state(symbol, indices):
                value = Receiving.GONE if self._of_sink else Sending.GONE
                bits |= layout.literal(symbol, indices, value).value
        return bits

    def _is_state(self, symbol: Symbol, indices: Indices) -> bool:
        if self._of_sink:
            return symbol is ends.receiving
        return symbol is ends.sending and indices[0] == self._place

    def _there(self, cell: Cell) -> Iterator[Indices]:
        """The places of a cell of the automaton in the form. The one cell of a sink's content
        stands for all chunks. A source's cell for a chunk that the form does not have has no place.
        """
        symbol, indices = cell
        renamed = self._renamed(symbol, indices)
        if symbol is ends.content:
            for chunk in range(self._form.chunks):
                yield (*renamed[:-1], chunk)
        elif (symbol, renamed) in self._form.layout.fields:
            yield renamed

    def _renamed(self, symbol: Symbol, indices: Indices) -> Indices:
        if self._of_sink:
            return indices
        return tuple(self._place if sort is roles.Source else index
                     for sort, index in zip(symbol.sorts, indices, strict=True))

    def _mask(self) -> int:
        mask = 0
        for (symbol, _), there in self._cells:
            mask |= self._form.layout.field(symbol, there).mask
        return mask


@dataclass(slots=True, eq=False)
class View:
    """The combined state of one life. ends: its ends, by name of the node. over: how many of them
    their nodes have forgotten.
    """

    life: Life
    form: Form
    request: PlannedRequest
    sources: tuple[str, ...]
    ends: dict[str, Endpoint]
    state: int = 0
    over: int = 0


@dataclass(slots=True, eq=False)
class Part:
    """One end's part of a view. keep: the mask of the bits that belong to other ends. automaton,
    state: of the end at its last step.
    """

    view: View
    place: int
    translation: Translation
    keep: int
    automaton: Automaton
    state: int = 0


class Watch:
    """The combined states of all lives. requests: by room. sources: the names of a request's
    prefill ranks, in order. tables: of the nodes. parts: of the ends that belong to a view. steps:
    how many were checked.
    """

    def __init__(
        self, requests: Mapping[int, PlannedRequest],
        sources: Callable[[PlannedRequest], tuple[str, ...]],
        tables: tuple[Table, Table], clock: Callable[[], float], blame: Blame,
    ) -> None:
        self.system, self._forms = watched(*tables)
        self.clock: Final = clock
        self.blame: Final = blame
        self.steps = 0
        self._requests: Final = requests
        self._sources: Final = sources
        self._translations: Final[dict[tuple[Form, Automaton, int], Translation]] = {}
        self._views: Final[dict[Life, View]] = {}
        self._past: Final[set[Life]] = set()
        self.parts: Final[dict[Endpoint, Part]] = {}
        self._sound: Final[set[Step]] = set()

    def die(self, name: str) -> None:
        """Note the end of a process, and of all its ends."""
        for endpoint, part in list(self.parts.items()):
            if part.view.ends.get(name) is endpoint:
                view = part.view
                own = view.state & ~part.keep
                view.state = view.state & part.keep | part.translation.gone(own)
                part.keep = ~0  # later steps of the end add no bits
                self.over(endpoint)

    def over(self, endpoint: Endpoint) -> None:
        """Forget an end. When all ends of a life are forgotten, only the life itself is remembered:
        a later end of it belongs to a successor.
        """
        part = self.parts.pop(endpoint, None)
        if part is None:
            return
        view = part.view
        view.over += 1
        if view.over == view.form.sources + 1:
            del self._views[view.life]
            self._past.add(view.life)

    def words(self, view: View) -> str:
        """The state of a life in the words of the tables."""
        layout = view.form.layout
        return ", ".join(
            f"{cell_name(symbol, indices)} = {value_name(value)}"
            for (symbol, indices), value in layout.decode(view.state).items()
            if value != symbol.values[0] and isinstance(symbol, Variable)
        )

    def placed(
        self, name: str, endpoint: Endpoint, step: Step, part: Part | None
    ) -> Part | None:
        """The part of an end that has none yet, or that has a new automaton. None while the end
        belongs to no view.
        """
        self.check_edges(endpoint, step, part)
        if part is None:
            return self._met(name, endpoint)
        self._move(part, endpoint.automaton)
        return part

    def _met(self, name: str, endpoint: Endpoint) -> Part | None:
        """The end's part of the view of its life; None before it has a life, or for a successor."""
        life = endpoint.life
        if life is None:
            return None
        view = self._views.get(life)
        if view is None:
            if life in self._past:
                return None
            request = self._requests[life.room]
            sources = self._sources(request)
            form = self._form(len(sources), len(request.chunks))
            view = self._views[life] = View(life, form, request, sources, {})
        if view.ends.setdefault(name, endpoint) is not endpoint:
            return None
        place = view.sources.index(name) if name in view.sources else 0
        translation = self._translation(view.form, endpoint.automaton, place)
        part = Part(view, place, translation, ~translation.mask, endpoint.automaton)
        self.parts[endpoint] = part
        return part

    def _move(self, part: Part, automaton: Automaton) -> None:
        """Translate the end with its new automaton, which has more chunks or other sinks."""
        part.translation = self._translation(part.view.form, automaton, part.place)
        part.keep, part.automaton = ~part.translation.mask, automaton

    def _form(self, sources: int, chunks: int) -> Form:
        key = sources, chunks
        if key not in self._forms:
            self._forms[key] = Form(self.system, *key)
        return self._forms[key]

    def _translation(self, form: Form, automaton: Automaton, place: int) -> Translation:
        key = form, automaton, place
        if key not in self._translations:
            self._translations[key] = Translation(form, automaton, place)
        return self._translations[key]

    def check_edges(self, endpoint: Endpoint, step: Step, part: Part | None) -> None:
        """Check that variables move along their declared edges. The same event in the same state is
        the same `Step` object, so each is checked once.
        """
        if step in self._sound:
            return
        automaton = endpoint.automaton
        before = automaton.initial if part is None else part.state
        if part is not None and part.automaton is not automaton:
            before = part.automaton.translate(before, automaton)
        values: dict[Cell, Any] = {}
        for symbol, indices, value in step.changed:
            if symbol not in _STATES or not isinstance(symbol, Variable):
                continue
            was = values.get((symbol, indices))
            if was is None:
                was = automaton.value(before, symbol, indices)
            values[symbol, indices] = value
            if value != was and value not in (symbol.edges or {}).get(was, ()):
                room = -1 if endpoint.life is None else endpoint.life.room
                self.blame(f"{symbol.name}_edges", f"{endpoint!r} goes from {value_name(was)} to "
                           f"{value_name(value)}", room)
                return
        self._sound.add(step)


class Witness(TraceWriter):
    """The trace of a node: it gives every step to the watch."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name: Final = name
        self._watch: Final = watch

    def write(self, endpoint: Endpoint, _event: Event, step: Step) -> None:
        """Check a step that this end has just taken."""
        watch = self._watch
        watch.steps += 1
        part = watch.parts.get(endpoint)
        if part is None or part.automaton is not endpoint.automaton:
            part = watch.placed(self._name, endpoint, step, part)
            if part is None:
                return
        view = part.view
        bits = part.translation.known.get(step)
        if bits is None:
            watch.check_edges(endpoint, step, part)
            bits = part.translation.learn(step)
        part.state = step.state
        view.state = whole = view.state & part.keep | bits
        if whole not in view.form.sound:
            broken = view.form.first_broken(whole)
            if broken:
                watch.blame(broken, watch.words(view), view.request.room)

    def over(self, endpoint: Endpoint) -> None:
        """Note that the node has forgotten this end."""
        self._watch.over(endpoint)


class Telling(Witness):
    """A witness that also writes a trace, or calls a recorder, or both."""

    def __init__(
        self, name: str, watch: Watch, kept: TraceWriter | None, recorder: Recorder | None
    ) -> None:
        super().__init__(name, watch)
        self._clock: Final = watch.clock
        self._kept: Final = kept
        self._recorder: Final = recorder

    def write(self, endpoint: Endpoint, event: Event, step: Step) -> None:
        """See Witness. The step is also recorded."""
        if self._kept is not None:
            self._kept.write(endpoint, event, step)
        if self._recorder is not None:
            self._recorder(self._clock(), self._name, endpoint, event, step)
        super().write(endpoint, event, step)


def watched(source: Table, sink: Table) -> tuple[System, Forms]:
    """The transfer with these tables and the safety properties of every transfer, and the cache of
    its forms. With the unchanged tables, all runs share one cache.
    """
    if source is SOURCE and sink is SINK:
        return _shipped()
    run = {SOURCE.machine: source, SINK.machine: sink}
    return replace(
        SYSTEM, tables=tuple(run.get(table.machine, table) for table in SYSTEM.tables),
        properties=_SAFETY), {}


@cache
def _shipped() -> tuple[System, Forms]:
    return replace(SYSTEM, properties=_SAFETY), {}


