"""The checks after every step keep much from one step to the next: they are held to plain checks.

The plain checks keep nothing but the last state of each end and the messages that were sent. After
every step they compose the state of the hand-over from all its ends anew, and ask for every
property in it. Both must have the same state at every step, and name the same property at the same
step, or none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.sim.cluster import Cluster
from lab.sim.defects import roles_of
from lab.sim.outcome import DRAINED, ENDS, SHIPPED, STEADY, Roles
from lab.sim.plan import Fault, Kind, Plan, Shape, planned
from lab.sim.watch import Form, Watch, watched
from pdproto.ground.layout import Cell, Indices
from pdproto.node.handle import Handle
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends, roles
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import Symbol, Variable
from tests.property.profiles import runs
from tests.sim.test_defects import BUGS, CASES
from tests.tiers import examples

FORGOTTEN: Final = (ends.memory, ends.lease, ends.page, ends.slot)  # with the sink's process
OF_A_RUN: Final = (ENDS, DRAINED, STEADY)  # properties that no check after a step is about
Found = tuple[str, int]  # a property, and the number of the step that violates it


@dataclass(slots=True)
class End:
    """An end of a hand-over after its last step. place: its number among the sources."""

    endpoint: Endpoint
    place: int
    automaton: Automaton
    state: int
    sent: list[tuple[Symbol, Indices]] = field(default_factory=list)
    gone: bool = False

    @property
    def of_sink(self) -> bool:
        return self.automaton.table.machine is ends.sink

    def values(self, chunks: int) -> Iterator[tuple[Cell, Value]]:
        """The cells of the hand-over that this end says something about."""
        for symbol, indices in self.automaton.layout.fields:
            if isinstance(symbol, Variable) and symbol.owner is self.automaton.table.machine:
                value = self.automaton.value(self.state, symbol, indices)
                if self.gone and symbol in FORGOTTEN:
                    value = symbol.values[0]
                elif self.gone and symbol in (ends.sending, ends.receiving):
                    value = Receiving.GONE if self.of_sink else Sending.GONE
                if symbol is ends.content:  # one stands for all
                    for chunk in range(chunks):
                        yield (symbol, (*indices[:-1], chunk)), value
                else:
                    yield (symbol, self._renamed(symbol, indices)), value
        for message, indices in self.sent:
            yield (message, self._renamed(message, indices)), True

    def _renamed(self, symbol: Symbol, indices: Indices) -> Indices:
        return tuple(self.place if sort is roles.Source and not self.of_sink else index
                     for sort, index in zip(symbol.sorts, indices, strict=True))


class Plain:
    """The plain checks of one run. found: the first violation. apart: the number of the first step
    before which the other checks had another state; 0 if there is none.
    """

    watch: Watch

    def __init__(self, plan: Plan, of: Roles) -> None:
        self.steps = self.apart = 0
        self.found: Found | None = None
        self._plan: Final = plan
        self._system, _ = watched(of.source.table, of.sink.table)
        self._requests: Final = {request.room: request for request in plan.requests}
        self._forms: Final[dict[tuple[int, int], Form]] = {}
        self._lives: Final[dict[Life, dict[str, End]]] = {}
        self._before: Final[dict[Endpoint, tuple[Automaton, int]]] = {}

    def see(self, _at: float, name: str, endpoint: Endpoint, _event: Event, step: Step) -> None:
        """Take a step of an end."""
        self.steps += 1
        view = None if endpoint.life is None else self.watch._views.get(endpoint.life)
        if view is not None and not self.apart:
            form = self._form(view.life)
            unread = sum(place.mask for (symbol, _), place in form.layout.fields.items()
                         if not isinstance(symbol, Variable)) & ~form.read
            self.apart = self.steps * (view.state != self._state(view.life) & ~unread)
        broken = self._broken_edge(endpoint, step) or self._broken_by(name, endpoint, step)
        self._before[endpoint] = endpoint.automaton, step.state
        if broken and self.found is None:
            self.found = broken, self.steps

    def fail(self, fault: Fault) -> None:
        """Take the end of a server's processes. An end that its node has forgotten stays as it was.
        """
        if fault.kind is not Kind.CRASH:
            return
        for life in self._lives.values():
            for name, end in life.items():
                if name.partition(".")[0] == fault.server and isinstance(
                        end.endpoint.owner, Handle):
                    end.gone = True

    def _broken_edge(self, endpoint: Endpoint, step: Step) -> str:
        automaton = endpoint.automaton
        of, state = self._before.get(endpoint, (automaton, automaton.initial))
        values = of.layout.decode(state)
        for symbol, indices, value in step.changed:
            if symbol in (ends.sending, ends.receiving) and isinstance(symbol, Variable):
                was = values[symbol, indices]
                if value != was and value not in (symbol.edges or {}).get(was, ()):
                    return f"{symbol.name}_edges"
                values[symbol, indices] = value
        return ""

    def _broken_by(self, name: str, endpoint: Endpoint, step: Step) -> str:
        life = endpoint.life
        if life is None:
            return ""
        sources = self._sources(life)
        place = sources.index(name) if name in sources else 0
        known = self._lives.setdefault(life, {})
        end = known.setdefault(name, End(endpoint, place, endpoint.automaton, step.state))
        if end.endpoint is not endpoint:
            return ""  # of a process that has come after that of this life
        end.automaton, end.state = endpoint.automaton, step.state
        end.sent += step.sent
        return self._form(life).first_broken(self._state(life))

    def _sources(self, life: Life) -> list[str]:
        prefill = self._requests[life.room].prefill
        return [f"{prefill}.{rank}" for rank in range(self._plan.shape.pp)]

    def _form(self, life: Life) -> Form:
        sizes = self._plan.shape.pp, len(self._requests[life.room].chunks)
        if sizes not in self._forms:
            self._forms[sizes] = Form(self._system, *sizes)
        return self._forms[sizes]

    def _state(self, life: Life) -> int:
        form = self._form(life)
        return form.layout.encode({
            cell: value for end in self._lives[life].values() for cell, value
            in end.values(form.chunks) if cell in form.layout.fields})


def found(plan: Plan, of: Roles = SHIPPED) -> tuple[list[Found], list[Found]]:
    """What the checks after a step have found in a run, and what plain checks have."""
    plain, blamed = Plain(plan, of), list[Found]()
    cluster = Cluster(plan, Random, roles=of, recorder=plain.see, on_fault=plain.fail)
    plain.watch = watch = cluster._watch
    blame = watch.blame

    def note(name: str, about: str, room: int) -> None:
        blamed.append((name, watch.steps))
        blame(name, about, room)

    object.__setattr__(watch, "blame", note)
    cluster.run()
    assert not plain.apart
    return blamed, [] if plain.found is None else [plain.found]


@pytest.mark.parametrize("name", CASES)
def test_each_defect_is_found_at_the_same_step(name: str) -> None:
    case = CASES[name]
    plan = planned(case.seed, Shape(**{"requests": 40, **case.shape}, faults=case.faults), Random)
    blamed, plainly = found(plan, roles_of(BUGS[name].system))
    assert blamed == plainly
    assert bool(blamed) == (case.violates not in OF_A_RUN)


DEFECTS: Final = st.sampled_from([None, *sorted(BUGS)])
FAULTS: Final = st.sets(st.sampled_from(list(Kind)), max_size=4)


@given(DEFECTS, FAULTS, st.integers(0, 1 << 16), st.integers(1, 2), st.integers(1, 6))
@runs(examples(4, 20))
def test_random_runs_with_defects_are_judged_alike(
    defect: str | None, faults: set[Kind], seed: int, pp: int, chunks: int
) -> None:
    """With more chunks than an automaton counts at once, and with processes that end."""
    shape = Shape(requests=12, faults=tuple(sorted(faults)), pp=pp, chunks=chunks, buffers=4,
                  writes=2)
    of = SHIPPED if defect is None else roles_of(BUGS[defect].system)
    blamed, plainly = found(planned(seed, shape, Random), of)
    assert blamed == plainly
