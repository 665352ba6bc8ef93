"""An automaton does what its table says: held to the interpreter, on every row and event.

The oracle evaluates the table's own expressions over the cells of one instance. Where the states
come from whole systems, a second test holds the oracle to the whole system: what an instance does
by itself is what the system does.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdproto.check.interpret import Cell, Interpreter, Step, Store
from pdproto.ground.grounding import Ground, Interpretation
from pdproto.ground.layout import Indices
from pdproto.runtime.automaton import ANSWERS_MAX, Automaton, Event
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from pdproto.runtime.local_rows import AnyMessage
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.ends import Sending, Write, kv, publish, sending, write
from pdproto.spec.handoff.poll import (
    RECEIVING_POLL,
    SENDING_POLL,
    SINK_IS_OVER,
    SOURCE_IS_OVER,
    KVPoll,
)
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import Sizes, System
from pdproto.spec.language.formula import Formula, Value, atoms, free_variables
from pdproto.spec.language.machine import Call, Completion, Row, Table, Timer
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Each, Message, Rigid, Sent, Symbol, Variable
from tests.check.systems import SIZES, systems
from tests.tiers import examples

State = dict[Cell, Value]  # the cells of one instance that are not initial
Fired = tuple[Row, Indices]

ONE_OF_EACH: Sizes = dict.fromkeys(
    (roles.Source, roles.Sink, roles.Life, roles.Buffer, roles.Chunk, roles.Page, roles.Slot), 1)
SMALL: Sizes = {**ONE_OF_EACH, roles.Chunk: 2}  # with more to come after the first chunk
FAULTS = tuple(layer for layer in SYSTEM.faults if layer != "lossy")  # who dies, and who strays
WIDER: Sequence[Sizes] = (
    {roles.Sink: 2}, {roles.Source: 2}, {roles.Chunk: 2}, {roles.Sink: 2, roles.Chunk: 2},
    {roles.Source: 2, roles.Sink: 2, roles.Life: 2},
)
WALKS, STEPS = 24, 60


@dataclass(slots=True)
class Taken:
    """What an event did by the book. error: who is at fault, if nothing may be done."""

    state: State
    rows: list[Fired] = field(default_factory=list)
    sent: list[tuple[AnyMessage, Indices]] = field(default_factory=list)
    changed: Counter[tuple[Symbol, Indices, Value]] = field(default_factory=Counter)
    error: type[ProtocolError] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """An event: in the words of the table, and as the automaton knows it."""

    trigger: str
    event: Event
    candidates: tuple[tuple[Row, dict[Sort, int]], ...]
    arrived: dict[Cell, Value] = field(default_factory=dict)
    every: bool = False
    from_peer: bool = False
    may_rest: bool = False


class Oracle:
    """One instance of a table, run from its expressions."""

    def __init__(self, system: System, table: Table, sizes: Sizes, paced: Sequence[str]) -> None:
        self.table = table
        self.sizes = {**sizes, **dict.fromkeys(table.machine.sorts, 1)}
        self.automaton = Automaton(table, self.sizes, paced)
        self.kept = set(self.automaton.layout.symbols)
        self.at_once = [row for row in table.rows if row.on is None and row.name not in paced]
        everywhere = {
            symbol: frozenset(product(*(range(self.sizes[sort]) for sort in symbol.sorts)))
            for symbol in rigids(table)
        }
        self.book = Interpreter(system, self.sizes, given=everywhere)
        self.paced = paced
        self._events: dict[frozenset[tuple[Cell, Value]], list[Asked]] = {}

    def instances(self, row: Row) -> Iterator[dict[Sort, int]]:
        return self.book.environments(self.table.parameters(row))

    def enabled(self, row: Row, state: State, env: dict[Sort, int]) -> bool:
        return self.book.holds(self.table.condition(row), state, env)

    def fire(self, row: Row, state: State, env: dict[Sort, int]) -> tuple[State, list[Cell]]:
        """The state after the row, and what it sends."""
        store = self.book.after(self.table, row, state, env)
        assert store is not None, "no channel is full, because each message leaves it at once"
        after = dict(store)
        return {cell: v for cell, v in after.items() if cell[0] in self.kept}, self.sent(row, env)

    def sent(self, row: Row, env: dict[Sort, int]) -> list[Cell]:
        effects: list[tuple[Sent, dict[Sort, int]]] = []
        for effect in row.send:
            if isinstance(effect, Each):
                everyone = ({**env, effect.variable: i}
                            for i in range(self.sizes[type(effect.variable)]))
                effects += [(effect.sent, one) for one in everyone
                            if self.book.holds(effect.where, {}, one)]
            else:
                effects.append((effect, env))
        return [(sent.symbol, tuple(e[v] for v in sent.arguments)) for sent, e in effects]

    def take(self, asked: Asked, state: State) -> Taken:
        """Rules 2 and 3 of the automaton, by the book."""
        taken = Taken({**state, **{c: v for c, v in asked.arrived.items() if c[0] in self.kept}})
        met = [(r, e) for r, e in asked.candidates if self.enabled(r, taken.state, e)]
        blamed = RemoteProtocolError if asked.from_peer else LocalProtocolError
        if not asked.may_rest and (not met or met[0][0].kind == "reject"):
            return Taken(state, error=blamed)
        for row, env in met if asked.every else met[:1]:
            if self.enabled(row, taken.state, env):
                self._note(taken, row, env)
        visited: list[State] = []
        while (following := self._by_itself(taken.state)) is not None:
            self._note(taken, *following)
            if taken.state in visited:
                return Taken(state, error=LocalProtocolError)  # its rows fire without end
            visited.append(taken.state)
        return taken

    def _by_itself(self, state: State) -> tuple[Row, dict[Sort, int]] | None:
        for row in self.at_once:
            for env in self.instances(row):
                if self.enabled(row, state, env):
                    after, sent = self.fire(row, state, env)
                    if sent or after != state:
                        return row, env
        return None

    def _note(self, taken: Taken, row: Row, env: dict[Sort, int]) -> None:
        after, sent = self.fire(row, taken.state, env)
        taken.rows.append((row, tuple(env.values())))
        taken.sent += sent  # type: ignore[arg-type]  # a cell of a message is a message
        for symbol, indices in taken.state.keys() | after.keys():
            new = after.get((symbol, indices), symbol.values[0])
            old = taken.state.get((symbol, indices), symbol.values[0])
            if isinstance(symbol, Variable) and new != old:
                taken.changed[symbol, indices, new] += 1
        taken.state = after

    # Every event of the table

    def events(self, carried: State) -> list[Asked]:
        """carried: cells of other machines that a message brings along."""
        key = frozenset(carried.items())
        if key not in self._events:
            self._events[key] = [*self._every_event(carried)]
        return self._events[key]

    def _every_event(self, carried: State) -> Iterator[Asked]:
        yield from self._messages(carried)
        for kind, make in ((Call, self.automaton.call), (Completion, self.automaton.completion)):
            yield from self._named(kind, make)
        timers = dict.fromkeys(r.on.name for r in self.table.rows if isinstance(r.on, Timer))
        for name in timers:
            rows = [r for r in self.table.rows if isinstance(r.on, Timer) and r.on.name == name]
            candidates = tuple((r, e) for r in rows for e in self.instances(r))
            yield Asked(name, self.automaton.timer(name), candidates, every=True, may_rest=True)
        for name in self.paced:
            rows = [row for row in self.table.rows if row.name == name]
            candidates = tuple((r, e) for r in rows for e in self.instances(r))
            yield Asked(name, self.automaton.pace(name), candidates, may_rest=True)

    def _messages(self, carried: State) -> Iterator[Asked]:
        symbols = dict.fromkeys(r.on.symbol for r in self.table.rows if isinstance(r.on, Sent))
        heard = [symbol for symbol in symbols if isinstance(symbol, Message)]
        for message in heard:
            for indices in product(*(range(self.sizes[sort]) for sort in message.domain)):
                candidates = tuple(
                    (r, e) for r in self.table.rows
                    if isinstance(r.on, Sent) and r.on.symbol is message
                    for e in self.instances(r) if tuple(e[v] for v in r.on.arguments) == indices
                )
                bits = sum(self.automaton.bits(*cell, value) for cell, value in carried.items())
                yield Asked(
                    f"{message}{indices}", self.automaton.message(message, indices, bits),
                    candidates, {**carried, (message, indices): True}, from_peer=True,
                )

    def _named(
        self, kind: type[Call] | type[Completion], make: Callable[[str, Indices], Event]
    ) -> Iterator[Asked]:
        named = {r.on.name: r.on for r in self.table.rows if isinstance(r.on, kind)}
        for name, on in named.items():
            for indices in product(*(range(self.sizes[type(v)]) for v in on.parameters)):
                candidates = tuple(
                    (r, e) for r in self.table.rows if isinstance(r.on, kind) and r.on.name == name
                    for e in self.instances(r) if tuple(e[v] for v in r.on.parameters) == indices
                )
                yield Asked(f"{name}{indices}", make(name, indices), candidates)


def rigids(table: Table) -> set[Rigid[*tuple[Sort, ...]]]:
    return {symbol for symbol in given_to(table) if isinstance(symbol, Rigid)}


def given_to(table: Table) -> Iterator[Symbol]:
    for row in table.rows:
        wheres = [effect.where for effect in row.send if isinstance(effect, Each)]
        for formula in (*row.conditions, *wheres):
            yield from (atom.symbol for atom, _ in atoms(formula))


def assert_by_the_book(oracle: Oracle, state: State, carried: State) -> set[str]:
    """Every event in this state; returns the rows that fired."""
    automaton, fired = oracle.automaton, set()
    before = automaton.layout.encode(state)
    for asked in oracle.events(carried):
        expected = oracle.take(asked, state)
        where = f"{asked.trigger} at {automaton.words(before)}"
        if expected.error is not None:
            with pytest.raises(expected.error):
                automaton.take(asked.event, before)
            continue
        step = automaton.take(asked.event, before)
        assert list(step.rows) == expected.rows, where
        assert list(step.sent) == expected.sent, where
        assert step.state == automaton.layout.encode(expected.state), where
        assert Counter(step.changed) == expected.changed, where
        assert automaton.take(asked.event, before) is step, "the answer is kept"
        fired |= {row.name for row, _ in step.rows}
    return fired


# The states of whole systems, as one instance sees them.


def projected(oracle: Oracle, own: Mapping[type[Sort], int], store: State) -> State:
    """The cells that this instance knows, with itself as the only one of its sorts."""
    local: State = {}
    for (symbol, indices), value in store.items():
        placed = list(zip(symbol.sorts, indices, strict=True))
        mine = all(own.get(sort, index) == index for sort, index in placed)
        if mine and symbol in oracle.kept:
            local[symbol, tuple(0 if sort in own else i for sort, i in placed)] = value
    return local


def foreign(table: Table, state: State) -> State:
    """What another machine owns, and only a message brings."""
    return {cell: value for cell, value in state.items()
            if isinstance(cell[0], Variable) and cell[0].owner is not table.machine}


@cache
def ground(sizes: tuple[tuple[type[Sort], int], ...], faults: tuple[str, ...]) -> Ground:
    of = dict(sizes)
    return Ground(SYSTEM, of, faults, interpretation(of))


def interpretation(sizes: Sizes) -> Interpretation:
    return {
        symbol: frozenset(symbol.given(sizes))
        for symbol in SYSTEM.rigids if symbol.given is not None
    }


def everywhere(grounded: Ground) -> Iterator[State]:
    """Every state that is reachable."""
    actions = [row.action for row in grounded.rows]
    seen, pending = {0}, [0]
    while pending:
        state = pending.pop()
        yield named(grounded, state)
        following = {a.apply(state) for a in actions if a.guard.holds(state)} - seen
        seen |= following
        pending += following


def walked(grounded: Ground, seed: int) -> Iterator[State]:
    """The states of random walks."""
    chance = random.Random(seed)  # noqa: S311 - a walk that can be repeated
    for _ in range(WALKS):
        state = 0
        for _ in range(STEPS):
            actions = [row.action for row in grounded.rows if row.action.guard.holds(state)]
            following = [s for s in (action.apply(state) for action in actions) if s != state]
            if not following:
                break
            state = chance.choice(following)
            yield named(grounded, state)


def named(grounded: Ground | Automaton, state: int) -> State:
    cells = grounded.layout.decode(state).items()
    return {cell: value for cell, value in cells if value != cell[0].values[0]}


def instances(table: Table, sizes: Sizes) -> Iterator[Mapping[type[Sort], int]]:
    sorts = table.machine.sorts
    for indices in product(*(range(sizes[sort]) for sort in sorts)):
        yield dict(zip(sorts, indices, strict=True))


def distinct(oracle: Oracle, states: Iterator[State], sizes: Sizes) -> list[State]:
    """What any instance sees in any of these states, once each."""
    seen = {
        frozenset(projected(oracle, own, store).items())
        for store in states for own in instances(oracle.table, sizes)
    }
    return [dict(state) for state in sorted(seen, key=lambda s: (len(s), sorted(map(str, s))))]


def transfer_oracle(table: Table, sizes: Sizes) -> Oracle:
    return Oracle(SYSTEM, table, sizes, ("post",) if table is SOURCE else ())


@cache
def reached() -> list[State]:
    """Every reachable state of the small system, whoever dies."""
    return list(everywhere(ground(tuple(SMALL.items()), FAULTS)))


def seen_by(table: Table) -> list[State]:
    """What any instance sees in them."""
    return distinct(transfer_oracle(table, SMALL), iter(reached()), SMALL)


def assert_all_by_the_book(oracle: Oracle, states: Sequence[State]) -> set[str]:
    fired: set[str] = set()
    for state in states:
        carried = foreign(oracle.table, state)
        own = {cell: value for cell, value in state.items() if cell not in carried}
        fired |= assert_by_the_book(oracle, own, carried)
    return fired


def _name(wider: Sizes) -> str:
    return "-".join(f"{count}-{sort.__name__}" for sort, count in wider.items())


BOTH = pytest.mark.parametrize("table", [SOURCE, SINK], ids=["source", "sink"])


@BOTH
def test_every_row_in_every_reachable_state(table: Table) -> None:
    """One of each and two chunks: all states, all events, and every row that may fire does."""
    fired = assert_all_by_the_book(transfer_oracle(table, SMALL), seen_by(table))
    assert fired == {row.name for row in table.rows if row.kind != "reject"}


@pytest.mark.parametrize("wider", WIDER, ids=_name)
@BOTH
def test_more_peers_and_chunks(table: Table, wider: Sizes) -> None:
    """What instances see on random walks through wider systems."""
    sizes = {**ONE_OF_EACH, **wider}
    oracle = transfer_oracle(table, sizes)
    states = walked(ground(tuple(sizes.items()), FAULTS), seed=len(str(wider)))
    fired = assert_all_by_the_book(oracle, distinct(oracle, states, sizes))
    assert len(fired) > len(table.rows) // 3


@pytest.mark.parametrize("wider", WIDER, ids=_name)
def test_an_instance_takes_the_rows_of_the_system(wider: Sizes) -> None:
    """The oracle of one instance is the interpreter of the whole: the same rows can fire, and they
    lead to the same.
    """
    sizes = {**ONE_OF_EACH, **wider}
    whole = Interpreter(SYSTEM, sizes, FAULTS, interpretation(sizes))
    oracles = {table.machine: transfer_oracle(table, sizes) for table in (SOURCE, SINK)}
    compared = 0
    for store in list(walked(ground(tuple(sizes.items()), FAULTS), seed=7))[::16]:
        steps = dict(whole.steps(frozenset(store.items())))
        for oracle in oracles.values():
            for own in instances(oracle.table, sizes):
                compared += _assert_projects(oracle, own, store, steps)
    assert compared > 20


def _assert_projects(
    oracle: Oracle, own: Mapping[type[Sort], int], store: State, steps: Mapping[Step, Store]
) -> int:
    """Returns how many rows of this instance can fire."""
    state, compared = projected(oracle, own, store), 0
    for row in oracle.table.rows:
        for env in oracle.instances(row):
            placed = tuple(own.get(type(variable), index) for variable, index in env.items())
            heard = not isinstance(row.on, Sent) or (
                row.on.symbol, tuple(own.get(type(v), env[v]) for v in row.on.arguments)
            ) in store
            after = steps.get((row.name, placed))
            assert (after is not None) == (heard and oracle.enabled(row, state, env)), row.name
            if after is not None:
                compared += 1
                local, sent = oracle.fire(row, state, env)
                assert projected(oracle, own, dict(after)) == local
                new = {c for c, _ in after if c not in store and isinstance(c[0], Message)}
                assert {s.name for s, _ in new} <= {s.name for s, _ in sent}
    return compared


@settings(max_examples=examples(10, 30), deadline=None, suppress_health_check=list(HealthCheck))
@given(system=systems(), data=st.data())
def test_random_systems(system: System, data: st.DataObject) -> None:
    """Machines of all kinds, at states on a random walk."""
    whole = Interpreter(system, SIZES, ("lossy",))
    oracles = [Oracle(system, table, SIZES, ()) for table in system.tables]
    store: Store = frozenset()
    for _ in range(8):
        for oracle in oracles:
            own = next(instances(oracle.table, SIZES))
            assert_by_the_book(oracle, projected(oracle, own, dict(store)), {})
        following = [after for _, after in whole.steps(store) if after != store]
        if not following:
            break
        store = data.draw(st.sampled_from(following))


@BOTH
def test_readings_are_the_formulas(table: Table) -> None:
    """What a poll answers, what waits for a clock or for room, and what may be forgotten."""
    oracle, polls = transfer_oracle(table, SMALL), set()
    automaton, first = oracle.automaton, dict.fromkeys(table.machine.own, 0)
    reading, over = (
        (SENDING_POLL, SOURCE_IS_OVER) if table is SOURCE else (RECEIVING_POLL, SINK_IS_OVER)
    )
    for state in seen_by(table):
        def holds(formula: Formula, known: State = state) -> bool:
            free = dict.fromkeys(free_variables(formula), 0)
            return oracle.book.holds(formula, known, {**first, **free})

        code = automaton.layout.encode(state)
        answer = automaton.first_value(reading, code)
        assert answer is next(answer for formula, answer in reading if holds(formula))
        polls.add(answer)
        assert automaton.holds(over, code) == holds(over)
        armed = {row.on.name for row in table.rows if isinstance(row.on, Timer)
                 for env in oracle.instances(row) if oracle.enabled(row, state, env)}
        assert set(automaton.armed(code)) == armed
        for name in oracle.paced:
            rows = [row for row in table.rows if row.name == name]
            assert automaton.may_fire(code, name) or not any(
                oracle.enabled(row, state, env) for row in rows for env in oracle.instances(row))
    assert polls == set(KVPoll)


@BOTH
def test_a_state_goes_on_in_a_wider_automaton(table: Table) -> None:
    """Every cell keeps its value, and the way back is the same."""
    narrow = transfer_oracle(table, SMALL).automaton
    wide = transfer_oracle(table, {**SMALL, roles.Sink: 2, roles.Source: 2}).automaton
    for state in seen_by(table):
        code = narrow.layout.encode(state)
        moved = narrow.translate(code, wide)
        assert named(wide, moved) == state
        assert wide.translate(moved, narrow) == code


def test_words_are_those_of_the_table() -> None:
    automaton = transfer_oracle(SOURCE, SMALL).automaton
    opened = automaton.take(automaton.call("open_sender"), automaton.initial).state
    assert automaton.words(automaton.initial) == "initial"
    assert automaton.words(opened) == "sending(p0, h0) = bootstrapping, kv(p0, h0)"


def test_a_device_writes_only_declared_values() -> None:
    """And nothing else: no state can be assigned from outside."""
    automaton = transfer_oracle(SOURCE, SMALL).automaton
    cell = write, (0, 0, 0, 0)
    landed = automaton.take(automaton.device((*cell, Write.LANDED)), automaton.initial)
    assert automaton.value(landed.state, *cell) is Write.LANDED
    assert landed.changed == ((*cell, Write.LANDED),)
    for symbol, indices, value in (
        (write, (0, 0, 0, 0), Write.POSTED),
        (sending, (0, 0), Sending.SUCCESS),
        (kv, (0, 0), True),
    ):
        with pytest.raises(LocalProtocolError, match="no device may write this value"):
            automaton.device((symbol, indices, value))


def test_an_endpoint_that_raises_has_not_changed() -> None:
    """Decide, then change; and whose fault it is shows in the kind of error."""
    automaton = transfer_oracle(SOURCE, SMALL).automaton
    endpoint = Endpoint(automaton, None, ("sink",), None)
    endpoint.take(automaton.call("open_sender"))
    before = endpoint.state
    with pytest.raises(RemoteProtocolError, match="the message carries no address"):
        endpoint.take(automaton.message(publish, (0, 0, 0)))
    with pytest.raises(LocalProtocolError, match=r"no row for call send at source: sending"):
        endpoint.take(automaton.call("send", (0,)))
    with pytest.raises(LocalProtocolError, match="source has no call sing"):
        automaton.call("sing")
    assert endpoint.state == before
    assert endpoint.value(sending, (0, 0)) is Sending.BOOTSTRAPPING
    assert repr(endpoint).startswith("<source of no life yet: sending(p0, h0) = boot")


def test_answers_are_kept_within_bounds() -> None:
    """What a state answers is found again when the store of answers has been emptied."""
    automaton = transfer_oracle(SOURCE, SMALL).automaton
    opening = automaton.call("open_sender")
    first = automaton.take(opening, automaton.initial)
    opening.steps.update(dict.fromkeys(range(1, ANSWERS_MAX), first))
    timer = automaton.timer("bootstrap_timeout")
    timer.steps.update(dict.fromkeys(range(1, ANSWERS_MAX + 1), first))
    again = automaton.take(timer, automaton.initial)
    assert len(timer.steps) == 1
    assert again.state == automaton.initial
