"""A breadth-first search with the interpreter: counts, verdicts, shortest lengths, vacuous claims.

Written from docs/reference/language.md and docs/explanation/checking.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations, product
from math import prod
from typing import Any

from pdproto.spec.language.computed import Chosen
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
)
from pdproto.spec.language.machine import Row
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Computed, Each, Function, Message, Rigid, Update, Variable
from pdproto.spec.language.system import Configuration, System
from pdproto.spec.language.terms import Term
from tests.oracle.interpreter import Cells, Env, Given, Interpreter, State, Step, initial

DEADLOCK = "deadlock"
PEERS = "no_peer_is_at_fault"
BUSY = "no_row_is_busy"


class TooManyError(Exception):
    """The system has more states than the oracle shall visit."""


@dataclass
class Graph:
    """The reachable states of a system under one interpretation of its rigid relations.

    depth: of each state, in steps. moves: of each state, the steps that can fire there, each with
    the state after it.
    """

    reader: Interpreter
    depth: dict[State, int] = field(default_factory=dict)
    moves: dict[State, list[tuple[Step, State]]] = field(default_factory=dict)

    def explore(self, most: int) -> "Graph":
        """Visit every state. Raises TooManyError above `most`."""
        queue = starts(self.reader, most)
        self.depth.update(dict.fromkeys(queue, 0))
        for state in queue:
            self.moves[state] = list(self.reader.successors(state))
            for _, after in self.moves[state]:
                if after not in self.depth:
                    self.depth[after] = self.depth[state] + 1
                    queue.append(after)
            if len(queue) > most:
                raise TooManyError
        return self

    @cached_property
    def fired(self) -> Counter[str]:
        """In how many states each row can fire, summed over its parameters."""
        return Counter(step.row.name for moves in self.moves.values() for step, _ in moves)

    @property
    def transitions(self) -> int:
        """Rows that can fire, counted in each state for each choice of parameters; without those
        that ignore or reject.
        """
        return sum(step.row.kind == "row" for moves in self.moves.values() for step, _ in moves)

    def is_stuck(self, state: State) -> bool:
        """Whether no row of the protocol would change the state, which is not declared final."""
        if any(after != state for step, after in self.moves[state] if not step.layer):
            return False
        final = self.reader.system.final
        return final is None or not self.reader.holds(final, dict(state), {})


@dataclass(frozen=True)
class Verdict:
    """The verdict on a property. length: of a shortest run to a state that decides it."""

    violated: bool
    length: int | None
    vacuous: bool = False


class Questions:
    """The safety questions of a system, asked of single states and the steps from them."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.reader = graph, graph.reader
        self.system: System = graph.reader.system

    def names(self) -> Iterator[str]:
        """Every question of one state, in the order of the reports."""
        yield from (p.name for p in self.system.properties
                    if isinstance(p, Always | Sometimes | OnRow))
        symbols = [s for m in self.system.machines for s in m.symbols if s in self.system.variables]
        yield from (f"{s.name}_edges" for s in symbols if isinstance(s, Variable) and s.edges)
        yield from (f"{s.name}_carries" for s in symbols if isinstance(s, Message) and s.carries)
        rows = [(table, row) for table in self._every_table() for row in table.rows]
        if any(row.kind == "reject" for _, row in rows):
            yield PEERS
        if any(row.on is None and row.send and not table.machine.world for table, row in rows):
            yield BUSY

    def _every_table(self) -> Iterator[Any]:
        yield from self.system.tables
        for layer in self.system.faults.values():
            yield from layer

    def instances(self, name: str, state: State) -> Iterator[Env]:
        """The instances of which the state decides the question: it violates the property, or is
        the witness of a `sometimes`.
        """
        cells = dict(state)
        claim = next((p for p in self.system.properties if p.name == name), None)
        match claim:
            case Always() | Sometimes():
                wanted = isinstance(claim, Sometimes)
                yield from (env for env in self.reader.choices(free(claim.claim))
                            if self.reader.holds(claim.claim, cells, env) == wanted)
            case OnRow():
                for step, _ in self.graph.moves[state]:
                    if step.row.name == claim.row:
                        more = [v for v in free(claim.claim) if v not in step.env]
                        for env in self.reader.choices(tuple(more)):
                            if not self.reader.holds(claim.claim, cells, step.env | env):
                                yield step.env | env
            case _:
                if self._is_derived_broken(name, state):
                    yield {}

    def decides(self, name: str, state: State) -> bool:
        """Whether the state decides the question, for some instance."""
        return next(self.instances(name, state), None) is not None

    def _is_derived_broken(self, name: str, state: State) -> bool:
        """Of a property that follows from declarations: edges, carries, rejects, busy rows."""
        moves = self.graph.moves[state]
        if name == PEERS:
            return any(step.row.kind == "reject" for step, _ in moves)
        if name == BUSY:
            return any(
                after == state and step.row.on is None and not step.table.machine.world
                and any(True for _ in self.reader.sent(step)) for step, after in moves)
        symbol: Any = next(s for m in self.system.machines for s in m.symbols
                           if name in (f"{s.name}_edges", f"{s.name}_carries")
                           and s in self.system.variables)
        broken = self._leaves_edges if isinstance(symbol, Function) else self._changes_carried
        return any(broken(symbol, dict(state), dict(after)) for _, after in moves)

    @staticmethod
    def _leaves_edges(symbol: Any, before: Cells, after: Cells) -> bool:
        cells = {cell for cell in (*before, *after) if cell[0] is symbol}
        first = symbol.values[0]
        pairs = [(before.get(cell, first), after.get(cell, first)) for cell in cells]
        return any(new != old and new not in symbol.edges.get(old, ()) for old, new in pairs)

    @staticmethod
    def _changes_carried(message: Any, before: Cells, after: Cells) -> bool:
        """Whether a relation that is on its way with the message changes, of the same sender."""
        changed = {cell for cell in (*before, *after) if cell[0] in message.carries and
                   before.get(cell, cell[0].values[0]) != after.get(cell, cell[0].values[0])}
        sender = [message.formals.index(v) for v in message.sender.variables]
        for symbol, at in before:
            if symbol is message:
                own = tuple(at[i] for i in sender)
                if any(cell[: len(own)] == own for _, cell in changed):
                    return True
        return False

    def verdict(self, name: str) -> Verdict:
        """The verdict on a question, over all states."""
        claim = next((p for p in self.system.properties if p.name == name), None)
        found = [depth for state, depth in self.graph.depth.items() if self.decides(name, state)]
        wanted = isinstance(claim, Sometimes)
        length = min(found, default=None)
        return Verdict(wanted == (length is None), length, self._is_vacuous(claim))

    def _is_vacuous(self, claim: object) -> bool:
        """Whether the premise of an implication never holds, or the row never can fire."""
        if isinstance(claim, OnRow):
            return claim.row not in self.graph.fired
        if isinstance(claim, Always):
            match claim.claim:
                case Or(parts=(Not(part=premise), _)):
                    variables = free(claim.claim)
                    return not any(
                        self.reader.holds(premise, dict(state), env)
                        for state in self.graph.depth for env in self.reader.choices(variables))
        return False


def free(formula: Formula) -> tuple[Sort, ...]:
    """The variables of a formula that no quantifier binds."""
    match formula:
        case And() | Or():
            parts = tuple(dict.fromkeys(v for part in formula.parts for v in free(part)))
            return (*parts, *(v for v in getattr(formula, "mentions", ()) if v not in parts))
        case Not():
            return free(formula.part)
        case Forall() | Exists():
            return tuple(v for v in free(formula.body) if v != formula.variable)
        case Same() | Before():
            return tuple(dict.fromkeys((formula.left, formula.right)))
        case AtLeast():
            return tuple(dict.fromkeys(
                v for one in formula.summands for case, _ in one.cases for v in free(case)
                if v not in one.variables))
        case Atom():
            return tuple(dict.fromkeys(formula.arguments))
    raise AssertionError(formula)


def starts(reader: Interpreter, most: int) -> list[State]:
    """The initial states: each value of the variables with init=ANY that satisfies `init=`.

    Raises TooManyError above `most` choices of values.
    """
    system, cells = reader.system, list[tuple[Any, list[Any]]]()
    for symbol in (s for s in system.variables if s.starts_free):
        values: list[Any] = list(symbol.values)
        if isinstance(symbol, ElementFunction):
            values = [None, *range(reader.sizes[symbol.sorts[-1]])]
        for at in product(*(range(reader.sizes[sort]) for sort in symbol.domain)):
            cells.append(((symbol, at), values))
    if prod(len(values) for _, values in cells) > most * 10:
        raise TooManyError
    found = []
    for chosen in product(*(values for _, values in cells)):
        state = {cell: value for (cell, _), value in zip(cells, chosen, strict=True)
                 if value != initial(cell[0])}
        if system.init is None or all(reader.holds(system.init, state, env)
                                      for env in reader.choices(free(system.init))):
            found.append(frozenset(state.items()))
    return found


def worlds(system: System, configuration: Configuration) -> list[list[Given]]:
    """The interpretations of the rigid relations that satisfy the axioms.

    Those that differ only in the names of elements of unordered sorts are in one list.
    """
    sizes = configuration.sizes
    rigids = _rigids(system)
    candidates: list[list[frozenset[tuple[int, ...]]]] = []
    for rigid in rigids:
        given = configuration.given.get(rigid, rigid.given)
        if given is not None:
            candidates.append([frozenset(tuple(one) for one in given(sizes))])
            continue
        every = list(product(*(range(sizes[sort]) for sort in rigid.sorts)))
        candidates.append([frozenset(one for one, taken in zip(every, choice, strict=True) if taken)
                           for choice in product((False, True), repeat=len(every))])
    found: list[list[Given]] = []
    seen: dict[tuple[frozenset[tuple[int, ...]], ...], int] = {}
    for chosen in product(*candidates):
        world = dict(zip(rigids, chosen, strict=True))
        reader = Interpreter(system, sizes, (), world)
        if all(reader.holds(axiom, {}, env) for axiom in system.axioms.values()
               for env in reader.choices(free(axiom))):
            known = seen.get(chosen)
            if known is None:
                known = len(found)
                found.append([])
                for alike in _renamed(rigids, chosen, sizes):
                    seen[alike] = known
            found[known].append(world)
    return found


def _symbols_in(part: object) -> Iterator[Any]:
    """The symbols in any part of a system."""
    match part:
        case And() | Or():
            yield from _symbols_in(part.parts)
        case Not():
            yield from _symbols_in(part.part)
        case Forall() | Exists():
            yield from _symbols_in(part.body)
        case AtLeast():
            yield from _symbols_in([case for one in part.summands for case, _ in one.cases])
        case Atom():
            yield part.symbol
        case LeadsTo():
            yield from _symbols_in((part.premise, part.goal))
        case Always() | Sometimes() | OnRow():
            yield from _symbols_in(part.claim)
        case Refines():
            yield from _symbols_in(part.mapping)
        case tuple() | list():
            for one in part:
                yield from _symbols_in(one)
        case _:
            yield from _symbols_of_effect(part)


def _symbols_of_effect(part: object) -> Iterator[Any]:
    match part:
        case Row():
            yield from _symbols_in((part.when, part.do, part.send))
        case Update(value=Computed(term=term), where=where):
            yield from _symbols_in((term, where))
        case Update() | Each():
            yield from _symbols_in(part.where)
        case Term():
            yield from _symbols_in([*part.about()])
        case Chosen():
            yield from _symbols_in((part.where, part.yes, part.no))


def _rigids(system: System) -> list[Rigid[*tuple[Any, ...]]]:
    """Every rigid relation that the system mentions."""
    tables = (*system.tables, *(t for layer in system.faults.values() for t in layer))
    rows = tuple(row for table in tables for row in table.rows)
    found = _symbols_in((rows, system.properties, system.final, system.init,
                          tuple(system.axioms.values())))
    return [symbol for symbol in dict.fromkeys(found) if isinstance(symbol, Rigid)]


def _renamed(
    rigids: list[Rigid[*tuple[Any, ...]]], chosen: tuple[frozenset[tuple[int, ...]], ...],
    sizes: Mapping[type[Sort], int],
) -> Iterator[tuple[frozenset[tuple[int, ...]], ...]]:
    sorts = list(dict.fromkeys(s for rigid in rigids for s in rigid.sorts if not s.ordered))
    for names in product(*(permutations(range(sizes[sort])) for sort in sorts)):
        new = dict(zip(sorts, names, strict=True))
        yield tuple(
            frozenset(tuple(new[s][i] if s in new else i for s, i in zip(r.sorts, at, strict=True))
                      for at in relation)
            for r, relation in zip(rigids, chosen, strict=True))
