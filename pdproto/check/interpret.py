"""The oracle: a slow interpreter of the expression trees that is simple enough to be correct.

It does not use the ground form: states are dicts, formulas are evaluated directly, and a search is
a queue. Tests compare every faster engine with its answers.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from pdproto.ground.delivery import Marks
from pdproto.ground.layout import cells
from pdproto.spec.language.channels import channel_of, ends_of
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
    Value,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Message, Rigid, Sent, Sizes, Symbol, Update
from pdproto.spec.language.system import System

Cell: TypeAlias = tuple[Symbol, tuple[int, ...]]
Store: TypeAlias = frozenset[tuple[Cell, Value]]  # the cells that are not initial
Step: TypeAlias = tuple[str, tuple[int, ...]]


class Interpreter:
    """Runs a system at given sizes, directly from its tables.

    marks: of broadcasts, where delivery takes the message off the network (Fairness.CONSUMED); None
    where messages stay.
    """

    def __init__(
        self,
        system: System,
        sizes: Sizes,
        faults: tuple[str, ...] = (),
        given: Mapping[Rigid[*tuple[Any, ...]], frozenset[tuple[int, ...]]] | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.system = system
        self.sizes = sizes
        self.tables = system.tables_under(faults)
        self.given = given or {}
        self.marks = marks

    def holds(self, formula: Formula, state: Mapping[Cell, Value], env: Mapping[Sort, int]) -> bool:
        """Whether the formula holds in the state. env: the elements of its free variables."""
        match formula:
            case And(parts):
                return all(self.holds(part, state, env) for part in parts)
            case Or(parts):
                return any(self.holds(part, state, env) for part in parts)
            case Not(part):
                return not self.holds(part, state, env)
            case Same(left, right):
                return env[left] == env[right]
            case Before(left, right):
                return env[left] < env[right]
            case Forall(variable, body):
                return all(self.holds(body, state, e) for e in self._each(variable, env))
            case Exists(variable, body):
                return any(self.holds(body, state, e) for e in self._each(variable, env))
            case Atom(symbol, arguments, value):
                indices = tuple(env[v] for v in arguments)
                if isinstance(symbol, Rigid):
                    return indices in self.given[symbol]
                return state.get((symbol, indices), symbol.values[0]) == value
            case AtLeast(summands, bound):
                return sum(
                    number for one in summands for chosen in self.environments(one.variables)
                    for case, number in one.cases
                    if self.holds(case, state, {**env, **chosen})) >= bound
        raise AssertionError(formula)

    def _each(self, variable: Sort, env: Mapping[Sort, int]) -> Iterator[dict[Sort, int]]:
        return ({**env, variable: i} for i in range(self.sizes[type(variable)]))

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[dict[Sort, int]]:
        """Every choice of elements for the variables."""
        for choice in product(*(range(self.sizes[type(v)]) for v in variables)):
            yield dict(zip(variables, choice, strict=True))

    def steps(self, store: Store) -> Iterator[tuple[Step, Store]]:
        """Every row that can fire, with its parameters and the state after it."""
        for table, _ in self.tables:
            for row in table.rows:
                for env in self.environments(table.parameters(row)):
                    after = self.fired(table, row, store, env)
                    if after is not None:
                        yield (row.name, tuple(env.values())), after

    def fired(
        self, table: Table, row: Row, store: Store, env: Mapping[Sort, int]
    ) -> Store | None:
        """The state after the row; None where it cannot fire."""
        state = dict(store)
        return self.after(table, row, state, env) if self.holds(
            table.guard(row), state, env) else None

    def after(
        self, table: Table, row: Row, state: Mapping[Cell, Value], env: Mapping[Sort, int]
    ) -> Store | None:
        """The state after the row, whatever its guard says.

        None where a channel would have too many messages, or the instance has taken the message.
        """
        after = dict(state)
        if isinstance(row.on, Sent) and not self._delivered(after, table, row.on, env):
            return None
        for update in table.assignments(row):
            for chosen in self.environments(update.variables):
                inner = {**env, **chosen}
                if self.holds(update.where, state, inner):
                    for plain in update.symbol.plain(update):
                        self._assign(after, plain, inner)
        for sent, at in self.sent(row, state, env):
            indices = tuple(at[v] for v in sent.arguments)
            if sent.message.fifo is not None:
                length = 1 + max((place for _, place in self._waiting(after, sent, at)),
                                 default=-1)
                if length == self.sizes[sent.message.fifo]:
                    return None
                indices = (*indices, length)
            self._set(after, sent.symbol, indices, True)
        return frozenset((cell, v) for cell, v in after.items() if v != cell[0].values[0])

    def _delivered(
        self, after: dict[Cell, Value], table: Table, on: Sent, env: Mapping[Sort, int]
    ) -> bool:
        """Deliver the message of a row; False if this instance has taken it already."""
        if on.message.fifo is not None:
            self._shift(after, on, env)
            return True
        if self.marks is None:
            return True
        at = tuple(env[v] for v in on.arguments)
        given = dict(zip(on.message.formals, at, strict=True))
        receivers = product(*(
            (given[v],) if v in given else range(self.sizes[type(v)])
            for v in on.message.receiver.variables
        ))
        mark = self.marks.get(on.message)
        taken = [] if mark is None else [(mark, (*own, *at)) for own in receivers]
        if mark is not None:
            mine = mark, (*(env[v] for v in table.machine.own), *at)
            if after.get(mine):
                return False
            after[mine] = True
        if all(after.get(cell) for cell in taken):
            self._set(after, on.message, at, False)
        return True

    def _set(
        self, after: dict[Cell, Value], symbol: Symbol, at: tuple[int, ...], value: Value
    ) -> None:
        """Set a cell. Whoever took a broadcast can take it again when it is sent again."""
        after[symbol, at] = value
        mark = (self.marks or {}).get(symbol)
        if mark is not None:
            own = len(mark.sorts) - len(at)
            for cell in [one for one in after if one[0] is mark and one[1][own:] == at]:
                after[cell] = False

    def sent(
        self, row: Row, state: Mapping[Cell, Value], env: Mapping[Sort, int]
    ) -> Iterator[tuple[Sent, Mapping[Sort, int]]]:
        """The messages that the row sends, in turn, each with the elements of its variables."""
        for effect in row.send:
            if isinstance(effect, Each):
                for inner in self._each(effect.variable, env):
                    if self.holds(effect.where, state, inner):
                        yield effect.sent, inner
            else:
                yield effect, env

    def _waiting(
        self, state: Mapping[Cell, Value], sent: Sent, env: Mapping[Sort, int]
    ) -> list[tuple[Cell, int]]:
        """The cells that are set of the channel of this message, each with its place."""
        ends = [env[v] for v in ends_of(sent)]
        return [
            ((symbol, at), at[-1]) for (symbol, at), value in state.items()
            if value is True and isinstance(symbol, Message)
            and channel_of(symbol) == channel_of(sent.message)
            and [at[symbol.formals.index(v)]
                 for v in (*symbol.sender.variables, *symbol.receiver.variables)] == ends
        ]

    def _shift(self, after: dict[Cell, Value], taken: Sent, env: Mapping[Sort, int]) -> None:
        """Take the first message off the channel: those behind it move up."""
        waiting = sorted(self._waiting(after, taken, env), key=lambda cell: cell[1])
        for (symbol, at), place in waiting:
            after[symbol, at] = False
            if place:
                after[symbol, (*at[:-1], place - 1)] = True

    def _assign(
        self, after: dict[Cell, Value], update: Update, env: Mapping[Sort, int]
    ) -> None:
        places = (
            range(self.sizes[sort]) if argument is ANY else (env[argument],)
            for argument, sort in zip(update.arguments, update.symbol.sorts, strict=True)
        )
        for indices in product(*places):
            self._set(after, update.symbol, indices, update.value)

    def initial(self) -> Iterator[Store]:
        """Every initial state: all assignments of the free variables, looked at one by one."""
        free = [cell for cell in cells(self.system.variables, self.sizes) if cell[0].starts_free]
        for values in product(*(symbol.values for symbol, _ in free)):
            store = frozenset((cell, value) for cell, value in zip(free, values, strict=True)
                              if value != cell[0].values[0])
            if self.is_initial(store):
                yield store

    def is_initial(self, store: Store) -> bool:
        """Whether it is an initial state."""
        return all(symbol.starts_free for (symbol, _), _ in store) and all(
            self.holds(formula, dict(store), {}) for formula in self.system.starts)

    def explore(self, states_max: int = 100_000) -> "Explored":
        """Explore breadth first from the initial states. Raises ValueError above `states_max`."""
        depth = dict.fromkeys(self.initial(), 0)
        queue = deque(depth)
        fired: dict[Step, int] = {}
        edges: set[tuple[Store, Step, Store]] = set()
        while queue:
            store = queue.popleft()
            for step, after in self.steps(store):
                fired[step] = fired.get(step, 0) + 1
                if after != store:
                    edges.add((store, step, after))
                if after not in depth:
                    depth[after] = depth[store] + 1
                    queue.append(after)
                    if len(depth) > states_max:
                        raise ValueError(f"over {states_max:,} states")
        return Explored(depth, fired, edges)


@dataclass(frozen=True, slots=True)
class Explored:
    """The result of an exploration by the oracle.

    depth: of every state, in steps. fired: by step, the number of states in which it can fire.
    edges: without self-loops.
    """

    depth: Mapping[Store, int]
    fired: Mapping[Step, int]
    edges: set[tuple[Store, Step, Store]]

