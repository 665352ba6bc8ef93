"""Random small systems in the language, for differential tests of every reader of the tables."""

from typing import Any, Final

from hypothesis import reject
from hypothesis import strategies as st

from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Completion,
    Formula,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Row,
    Sometimes,
    Sort,
    SpecError,
    State,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.symbols import Each, Sent, Update


class Node(Sort):
    """An unordered sort."""


class Item(Sort):
    """Another, which meets Node in a relation."""


class Epoch(Sort, ordered=True):
    """An ordered one."""


class Place(Sort, ordered=True):
    """The places of channels."""


class Phase(State):
    IDLE = auto()
    BUSY = auto()
    DONE = auto()


class Mode(State):
    OFF = auto()
    ON = auto()


n, m, i, j, e, f = Node("n"), Node("m"), Item("i"), Item("j"), Epoch("e"), Epoch("f")
s, t = Place("s"), Place("t")
SIZES: Final = {Node: 2, Item: 2, Epoch: 2, Place: 2}
SMALLER: Final = {Node: 2, Item: 1, Epoch: 1, Place: 2}


class Parts:
    """Fresh machines and symbols for one system (symbols belong to one machine each)."""

    def __init__(
        self, mode: Mode = Mode.OFF, *, known: bool = False, channels: bool = False,
        marks: bool = False,
    ) -> None:
        self.node = Machine("node", n)
        self.hub = Machine("hub")
        self.network = Machine("network", world=True)
        self.phase = self.node.function("phase", Phase)
        self.holds = self.node.relation("holds", Item)
        self.mode = self.hub.function("mode", Mode, init=mode)
        self.known = self.hub.relation("known", Node, init=known)
        self.passed = self.hub.relation("passed", Epoch)
        self.favourite = self.node.function("favourite", Item)
        self.leader = self.hub.function("leader", Node)
        self.newest = self.hub.function("newest", Epoch)
        self.ask = Message("ask", n, i, sender=self.node, receiver=self.hub)
        self.tell = Message("tell", n, e, sender=self.hub, receiver=self.node)
        self.stop = Message("stop", sender=self.hub, receiver=self.node)
        self.marks = marks  # whether there are cells over two sorts that few rows read
        if marks:
            self.mark = self.node.relation("mark", Item)
            self.seen = self.hub.relation("seen", Node, Item)
        self.channels = channels  # whether some messages wait in channels
        if not channels:
            return
        self.put = Message("put", n, i, sender=self.node, receiver=self.hub, fifo=Place)
        self.end = Message("end", n, sender=self.node, receiver=self.hub, fifo=Place)
        self.give = Message("give", n, sender=self.hub, receiver=self.node, fifo=Place)

    def node_literals(self, extra: tuple[Any, ...]) -> list[Formula]:
        literals = [self.phase(n) == value for value in Phase]
        literals += [self.phase(n) != Phase.IDLE, forall(j, ~self.holds(n, j))]
        literals += [exists(j, self.holds(n, j)), self.stop(), exists(e, self.tell(n, e))]
        literals += [self.favourite(n).unset, self.favourite(n).is_set]
        literals += [forall(j, implies(self.favourite(n) == j, self.holds(n, j)))]
        if self.marks:
            literals += [exists(j, self.mark(n, j)), forall(j, ~self.mark(n, j))]
        if i in extra:
            literals += [self.favourite(n) == i, self.favourite(n) != i]
            literals += [self.holds(n, i), ~self.holds(n, i), ~self.ask(n, i)]
            literals += [forall(j, j.same(i) | self.holds(n, j))]
        return literals

    def hub_literals(self, extra: tuple[Any, ...]) -> list[Formula]:
        literals = [self.mode() == Mode.OFF, self.mode() == Mode.ON, ~self.stop()]
        literals += [forall(m, self.known(m)), exists(m, self.known(m))]
        literals += [self.leader().unset, self.newest().is_set]
        if self.marks:
            literals += [exists(m, forall(j, self.seen(m, j))), exists((m, j), ~self.seen(m, j))]
        if n in extra:
            literals += [self.leader() == n, self.leader() != n]
            literals += [self.known(n), ~self.known(n), exists(e, ~self.tell(n, e))]
        if e in extra:
            literals += [self.passed(e), forall(f, ~f.before(e) | self.passed(f))]
            literals += [self.newest().before(e), ~self.newest().after(e)]
        return literals


@st.composite
def guards(draw: st.DrawFn, literals: list[Formula]) -> list[Formula]:
    """A conjunction of small clauses."""
    clauses = draw(st.lists(st.lists(st.sampled_from(literals), min_size=1, max_size=2),
                            max_size=2))
    return [any_of(*clause) if len(clause) > 1 else clause[0] for clause in clauses]


def effects(updates: list[Update], several: list[list[Update]]) -> Any:
    """At most one update, or one of these lists, in which a later update counts."""
    one = st.lists(st.sampled_from(updates), max_size=1)
    return st.one_of(one, st.sampled_from(several)) if several else one


@st.composite
def node_rows(draw: st.DrawFn, parts: Parts, name: str) -> Row:
    on, extra = draw(st.sampled_from([
        (None, ()), (Call("go"), ()), (Call("put", i), (i,)), (Timer("late"), ()),
        (parts.tell(n, e), (e,)), (parts.stop(), ()), (Completion("ready", i), (i,)),
        *([(parts.give(n), ())] if parts.channels else []),
    ]))
    updates: list[Update] = [parts.holds(n, ANY).to(False), parts.favourite(n).clear()]
    updates += [each(j, parts.holds(n, j).to(True), where=parts.favourite(n) == j)]
    updates += [each(j, parts.holds(n, j).to(False), where=~parts.ask(n, j))]
    sends: list[Sent | Each] = [each(j, parts.ask(n, j))]
    sends += [parts.end(n), parts.end(n)] if parts.channels else []
    if parts.marks:
        updates += [parts.mark(n, ANY).to(True), parts.mark(n, ANY).to(True)]
    if i in extra:
        updates += [parts.mark(n, i).to(True)] if parts.marks else []
        updates += [parts.holds(n, i).to(True), parts.holds(n, i).to(False)]
        updates += [each(j, parts.holds(n, j).to(True), where=j.differs(i) & ~parts.holds(n, i))]
        updates += [parts.favourite(n).to(i), parts.favourite(n).to(i)]
        sends += [parts.ask(n, i), each(j, parts.ask(n, j), where=j.differs(i))]
        sends += [parts.put(n, i), parts.put(n, i)] if parts.channels else []
    several = [[parts.holds(n, ANY).to(False), parts.holds(n, i).to(True)],
               [parts.holds(n, ANY).to(True), parts.holds(n, i).to(False)],
               [each(j, parts.holds(n, j).to(True), where=parts.favourite(n) == j),
                parts.holds(n, i).to(False), parts.favourite(n).to(i)]] if i in extra else []
    return Row(
        name,
        on=on,
        at=tuple(draw(st.sets(st.sampled_from(Phase), max_size=2))),
        to=draw(st.none() | st.sampled_from(Phase)),
        when=draw(guards(parts.node_literals(extra))),
        do=draw(effects(updates, several)),
        send=draw(st.lists(st.sampled_from(sends), max_size=1 + parts.channels)),
        fair=draw(st.sampled_from([None, True, False])),
    )


@st.composite
def hub_rows(draw: st.DrawFn, parts: Parts, name: str) -> Row:
    on, extra = draw(st.sampled_from([
        (None, ()), (Call("flip"), ()), (parts.ask(n, i), (n, i)),
        *([(parts.put(n, i), (n, i)), (parts.end(n), (n,))] if parts.channels else []),
        (Timer("lost", detector=True), ()),
    ]))
    choose = draw(st.sampled_from([(), (e,)]))
    given: tuple[Sort, ...] = (*extra, *choose)
    updates: list[Update] = [parts.known(ANY).to(False), parts.leader().clear()]
    updates += [each(m, parts.known(m).to(True), where=exists(e, parts.tell(m, e)))]
    updates += [each(m, parts.known(m).to(False), where=parts.leader() != m)]
    sends: list[Sent | Each] = [parts.stop()]
    sends += [each(m, parts.give(m))] if parts.channels else []
    if parts.marks:
        updates += [parts.seen(ANY, ANY).to(True)]
        updates += [parts.seen(n, ANY).to(True)] if n in given else []
        updates += [parts.seen(n, i).to(True)] if i in given else []
    if n in given:
        updates += [parts.known(n).to(True), parts.known(n).to(False)]
        updates += [parts.leader().to(n), parts.leader().to(n)]
        if parts.channels:
            sends += [parts.give(n), each(m, parts.give(m), where=m.differs(n))]
    if e in given:
        updates += [parts.passed(e).to(True), parts.newest().to(e), parts.newest().to(e)]
        updates += [each(f, parts.passed(f).to(True), where=f.before(e))]
        sends += [each(m, parts.tell(m, e))]
    several: list[list[Update]] = []
    if n in given:
        several += [[parts.known(ANY).to(False), parts.known(n).to(True)],
                    [each(m, parts.known(m).to(False), where=parts.leader() != m),
                     parts.known(n).to(True)]]
    if e in given:
        several += [[parts.passed(ANY).to(False), parts.passed(e).to(True)],
                    [each(f, parts.passed(f).to(True), where=f.before(e)),
                     parts.passed(e).to(False)]]
    if n in given and e in given:
        sends += [parts.tell(n, e)]
    return Row(
        name,
        on=on,
        at=tuple(draw(st.sets(st.sampled_from(Mode), max_size=1))),
        to=draw(st.none() | st.sampled_from(Mode)),
        when=draw(guards(parts.hub_literals(given))),
        choose=choose,
        do=draw(effects(updates, several)),
        send=draw(st.lists(st.sampled_from(sends), max_size=1 + parts.channels)),
        fair=draw(st.sampled_from([None, True, False])),
    )


@st.composite
def claims(draw: st.DrawFn, parts: Parts) -> Formula:
    """A claim about a state, with free variables n and i."""
    literals = [*parts.node_literals((i,)), *parts.hub_literals((n,)), parts.ask(n, i)]
    if parts.channels:
        literals += [parts.end(n).queued, parts.put(n, i).arrived, exists((s, t), all_of(
            parts.put(n, i).at(s), parts.end(n).at(t), s.before(t)))]
    one, two = draw(st.tuples(st.sampled_from(literals), st.sampled_from(literals)))
    return draw(st.sampled_from([one, implies(one, two), implies(one, ~two), one | two, ~one]))


@st.composite
def place_claims(draw: st.DrawFn, parts: Parts) -> Formula:
    """A claim about places of channels; s and t are bound, or free."""
    literals = [parts.put(n, i).at(s), parts.put(n, i).at(t), parts.end(n).at(t),
                parts.end(m).at(s), parts.give(n).at(s), s.before(t), t.before(s), s.same(t),
                parts.put(n, i).arrived, parts.end(n).queued]
    signed = st.sampled_from(literals).flatmap(lambda one: st.sampled_from([one, ~one]))
    clauses = draw(st.lists(st.lists(signed, min_size=1, max_size=2), min_size=1, max_size=3))
    claim = draw(st.sampled_from([all_of, any_of]))(
        *(any_of(*clause) if len(clause) > 1 else clause[0] for clause in clauses))
    for bound in draw(st.permutations([s, t, m])):
        claim = draw(st.sampled_from([forall, exists, lambda _, body: body]))(bound, claim)
    return claim


def ends(parts: Parts) -> st.SearchStrategy[Formula]:
    """When a run may end."""
    finals: list[Formula] = [forall(n, parts.phase(n) == Phase.DONE), parts.mode() == Mode.ON]
    if parts.marks:
        finals += [exists(i, forall(n, ~parts.mark(n, i))), exists(n, forall(i, ~parts.seen(n, i)))]
        finals += [forall(n, exists(i, ~parts.mark(n, i))), ~exists((n, i), parts.ask(n, i))]
    return st.sampled_from(finals)


@st.composite
def systems(
    draw: st.DrawFn, *, channels: bool | None = None, sparse: bool = False
) -> System:
    """A system of up to seven rows with one property of each kind and a lossy layer.

    channels: with messages that wait in channels, and rows that are always there for them; None
    draws whether some messages wait. sparse: without rows that are always there, and with cells
    over two sorts that few rows read, so that bits die.
    """
    chosen = draw(st.sampled_from([False, False, True])) if channels is None else channels
    parts = Parts(draw(st.sampled_from(Mode)), known=draw(st.booleans()), channels=chosen,
                  marks=sparse)
    some_claims = st.one_of(claims(parts), place_claims(parts)) if chosen else claims(parts)
    try:
        # Two rows that are always there, so that something happens in most systems.
        nodes = [Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.BUSY,
                     send=[each(j, parts.ask(n, j))])]
        led = draw(st.sampled_from([[], [parts.leader().to(n)]]))
        hubs = [Row("learn", on=parts.ask(n, i), at=Mode.OFF,
                    do=[parts.known(n).to(True), *led])]
        if sparse:
            nodes, hubs = [], []
        if channels:
            nodes.append(Row("push", on=Call("push", i), send=[parts.put(n, i), parts.end(n)]))
            hubs += [Row("pull", on=parts.put(n, i), send=[parts.give(n)]),
                     Row("finish", on=parts.end(n), do=[parts.known(n).to(True)])]
        nodes += [draw(node_rows(parts, f"node_{k}")) for k in range(draw(st.integers(1, 3)))]
        hubs += [draw(hub_rows(parts, f"hub_{k}")) for k in range(draw(st.integers(1, 3)))]
        return System(
            "random",
            "A random system.",
            tables=(
                Table(parts.node, state=parts.phase, rows=tuple(nodes)),
                Table(parts.hub, state=parts.mode, rows=tuple(hubs)),
            ),
            properties=(
                Always("always", draw(some_claims)),
                Sometimes("sometimes", draw(claims(parts))),
                OnRow("on_row", "node_0", draw(st.sampled_from(parts.node_literals(())))),
                LeadsTo("leads_to", draw(claims(parts)), draw(claims(parts))),
            ),
            final=draw(ends(parts)),
            faults={"lossy": (Table(parts.network, rows=(
                lose(parts.ask), lose(parts.tell),
                *([lose(parts.put)] if parts.channels else []),
                Row("crash", choose=(n,), when=[parts.phase(n) != Phase.IDLE],
                    do=[parts.phase(n).to(Phase.IDLE), parts.holds(n, ANY).to(False),
                        parts.favourite(n).clear()]),
                Row("settle", choose=(n, i), when=[parts.known(n)],
                    do=[parts.phase(ANY).to(Phase.IDLE), parts.phase(n).to(Phase.DONE),
                        parts.holds(ANY, ANY).to(True), parts.holds(n, ANY).to(False),
                        parts.holds(n, i).to(True), parts.favourite(ANY).clear(),
                        parts.favourite(n).to(i)]),
                Row("flood", when=[parts.mode() == Mode.ON],
                    do=[each((n, i), parts.holds(n, i).to(True), where=parts.favourite(n) == i),
                        each(n, parts.favourite(n).clear(), where=parts.phase(n) == Phase.DONE)]),
            )),)},
        )
    except SpecError:
        reject()
