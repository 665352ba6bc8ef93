"""Safety, looked at after every step, on what the step has touched.

The ends of one life, wherever they run, are put together into the state that the explorer would
have of it: an instance of the transfer with this life's sources, its sink and its chunks. Every
safety property of the tables is then looked for in that state by the explorer's own patterns.
States come again and again, so what has been judged once is one look-up.

What a step adds to that state depends on the step alone, so it too is worked out once.

Rule 1: an end adds the cells that its own machine owns; a life counts as one at each end.
Rule 2: a process that dies takes its ends with it: they are *gone*, as in the tables, and what its
        successor does under their name is not counted as theirs.
Rule 3: what speaks of two lives at once (a page has one owner) is seen by the fabric.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from pdproto.check.questions import questions
from pdproto.check.result import PropertyKind
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import Cell, Indices, cell_name, value_name
from pdproto.ground.local import index_tuples, rigid_relations
from pdproto.ground.program import Guard
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.trace import Trace
from pdproto.runtime.wire import Life
from pdproto.sim.fabric import Blame
from pdproto.sim.plan import Request
from pdproto.spec.handoff import ends, roles
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.transfer import SAFETY, SYSTEM
from pdproto.spec.language.machine import Table
from pdproto.spec.language.properties import Sometimes
from pdproto.spec.language.symbols import Symbol, Variable
from pdproto.spec.language.system import System

# What a dead sink's process takes with it; the rest is what others know of it.
_MEMORY: Final[frozenset[Symbol]] = frozenset((ends.memory, ends.lease, ends.page, ends.slot))
# When, at which node, and what happened there.
Recorder = Callable[[float, str, Endpoint, Event, Step], None]
_STATES: Final = (ends.sending, ends.receiving)
_SAFETY: Final = tuple(claim for claim in SAFETY if not isinstance(claim, Sometimes))


class Form:
    """The transfer of one life at given sizes. sound: the states that have been looked at, and
    violate nothing.
    """

    def __init__(self, system: System, sources: int, chunks: int) -> None:
        sizes = {roles.Source: sources, roles.Sink: 1, roles.Life: 1, roles.Landing: 1,
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
        # Messages that no property reads need not be noted.
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


Forms: TypeAlias = dict[tuple[int, int], Form]  # by how many sources and chunks they count


class Translation:
    """From the steps of one automaton to bits of a form. place: which source this is. known: the
    bits of the steps that have been taken.
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
        """What an end contributes after this step: its own state, and what it has just sent."""
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
        """What remains of this end's bits when its process dies."""
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
        """Where a cell of the automaton lies in the form: all chunks of a sink's content are one
        cell there, and a chunk that a source only counts on lies nowhere.
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
    """One life, as all its ends together have it. ends: those that it is made of, by name. over:
    how many of them their nodes have forgotten.
    """

    life: Life
    form: Form
    request: Request
    sources: tuple[str, ...]
    ends: dict[str, Endpoint]
    state: int = 0
    over: int = 0


@dataclass(slots=True, eq=False)
class Part:
    """One end's share in a view. keep: the bits that are not its own. automaton, state: of the end
    when it was last seen.
    """

    view: View
    place: int
    translation: Translation
    keep: int
    automaton: Automaton
    state: int = 0


class Watch:
    """What all witnesses have seen so far. requests: by room. sources: the names of a request's
    prefill ranks, in order. tables: those that the nodes run. parts: of the ends that have a share
    in a view.
    """

    def __init__(
        self, requests: Mapping[int, Request], sources: Callable[[Request], tuple[str, ...]],
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
        """A process dies, and with it every end that it had."""
        for endpoint, part in list(self.parts.items()):
            if part.view.ends.get(name) is endpoint:
                view = part.view
                own = view.state & ~part.keep
                view.state = view.state & part.keep | part.translation.gone(own)
                part.keep = ~0  # what the end does after its death is nobody's
                self.over(endpoint)

    def over(self, endpoint: Endpoint) -> None:
        """The end takes no step that matters any more. Of a life whose ends are all over, only that
        it has been is kept: whoever comes for it then is a successor.
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
        """The share of an end that has none yet, or that counts other peers or chunks than before;
        None while it cannot have one.
        """
        self.check_edges(endpoint, step, part)
        if part is None:
            return self._met(name, endpoint)
        self._move(part, endpoint.automaton)
        return part

    def _met(self, name: str, endpoint: Endpoint) -> Part | None:
        """The end's share in the view of its life; None before it has one, or for a successor."""
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
        """The end counts more chunks, or other sinks, than before."""
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
        """Variables move along their declared edges. A step is the same object when it is the
        same event in the same state, so it is looked at once.
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


class Witness(Trace):
    """What a node takes for its trace: every step passes here."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name: Final = name
        self._watch: Final = watch

    def write(self, endpoint: Endpoint, _event: Event, step: Step) -> None:
        """A step has been taken by this end; the end stands where the step leads."""
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
        """The node has forgotten this end."""
        self._watch.over(endpoint)


class Telling(Witness):
    """A witness that has a trace kept, or a recorder told, or both."""

    def __init__(
        self, name: str, watch: Watch, kept: Trace | None, recorder: Recorder | None
    ) -> None:
        super().__init__(name, watch)
        self._clock: Final = watch.clock
        self._kept: Final = kept
        self._recorder: Final = recorder

    def write(self, endpoint: Endpoint, event: Event, step: Step) -> None:
        if self._kept is not None:
            self._kept.write(endpoint, event, step)
        if self._recorder is not None:
            self._recorder(self._clock(), self._name, endpoint, event, step)
        super().write(endpoint, event, step)


def watched(source: Table, sink: Table) -> tuple[System, Forms]:
    """The transfer with the tables that are run, and the safety properties of every transfer; and
    its forms, as far as they are known. Those of the tables themselves serve all runs.
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


