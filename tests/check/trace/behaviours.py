"""A second search for the behaviour of a life, by the plain interpreter.

It reads the lines by itself, and knows only what the tables say: the state has one value for each
variable, and a row of the world changes all of its variables at once. It fires such a row wherever
it can, if a line tells of it later. So it accepts at least all that is a behaviour of the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pdproto.check.interpret import Interpreter, Store
from pdproto.spec.handoff.roles import Chunk, Life, Sink, Source
from pdproto.spec.language.formula import free_variables
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

Line = Mapping[str, Any]
Cells = frozenset[tuple[Any, Any]]


class Behaviours:
    """The behaviours of one life with these lines, by node. Rows that only faults explain are not
    known here.
    """

    def __init__(self, system: System, files: Mapping[str, Sequence[Line]], life: Any) -> None:
        self.system = system
        names = {Source: sorted(node for node in files if node.startswith("prefill")),
                 Sink: sorted(node for node in files if node.startswith("decode"))}
        self.lines = {node: list(_of_life(lines, life)) for node, lines in files.items()}
        counts = [line[key]["Chunk"] for lines in self.lines.values() for line in lines
                  for key in ("begins", "elements") if key in line][-1:] or [1]
        last = {node: [line[key]["Chunk"] for line in lines for key in ("begins", "elements")
                       if key in line][-1] for node, lines in self.lines.items() if lines}
        self.chunks = max([*counts, *last.values()])
        self.names: dict[type[Sort], list[Any]] = {
            sort: list(names.get(sort, range(1))) for sort in system.sorts}
        self.names[Chunk] = list(range(self.chunks))
        self.names[Life] = [life]
        self.last = last
        sizes = {sort: len(of) for sort, of in self.names.items()}
        given = {rigid: frozenset(product(*(range(sizes[s]) for s in rigid.sorts)))
                 for rigid in system.rigids}
        self.interpreter = Interpreter(system, sizes, (), given)
        self.events = {node: [line for line in lines if "row" in line or "device" in line]
                       for node, lines in self.lines.items()}
        self.seen: set[Any] = set()

    def exist(self) -> bool:
        """Whether there is one in which all properties hold."""
        self.nodes = [node for node in self.events if self.events[node]]
        for node in self.nodes:
            told = [cell for line in self.events[node] if "device" in line
                    for cell in self._written(node, line)]
            if len(set(told)) != len(told):
                return False  # a device writes each value once: no row takes one back
        stack: list[tuple[tuple[int, ...], Store]] = [((0,) * len(self.nodes), frozenset())]
        while stack:
            places, store = stack.pop()
            if all(place == len(self.events[node])
                   for place, node in zip(places, self.nodes, strict=True)):
                return True
            for after in self._next(places, store):
                if after not in self.seen:
                    self.seen.add(after)
                    stack.append(after)
        return False

    def _next(self, places: tuple[int, ...], store: Store
              ) -> Iterator[tuple[tuple[int, ...], Store]]:
        for after in self._world(places, store):
            yield places, after
        for number, node in enumerate(self.nodes):
            place = places[number]
            if place == len(self.events[node]):
                continue
            line = self.events[node][place]
            moved = (*places[:number], place + 1, *places[number + 1:])
            if "row" in line:
                for after in self._row(node, line, store):
                    yield moved, after
            elif self._is_told(node, line, store):
                yield moved, store

    def _row(self, node: str, line: Line, store: Store) -> Iterator[Store]:
        table = next(t for t in self.system.tables if t.machine.name == line["machine"])
        row = next(row for row in table.rows if row.name == line["row"])
        images = [self._images(node, type(v), line["with"][v.name])
                  for v in table.parameters(row)]
        for choice in product(*images):  # of a chunk that stands for several: one after the other
            env = dict(zip(table.parameters(row), choice, strict=True))
            after = self._fire(table, row, env, store)
            if after is None:
                return
            store = after
        yield store

    def _fire(
        self, table: Table, row: Row, env: Mapping[Sort, int], store: Store
    ) -> Store | None:
        state = dict(store)
        if not self.interpreter.holds(table.guard(row), state, env):
            return None
        for claim in self.system.properties:
            if isinstance(claim, OnRow) and claim.row == row.name:
                rest = tuple(v for v in free_variables(claim.claim) if v not in env)
                if not all(self.interpreter.holds(claim.claim, state, {**env, **more})
                           for more in self.interpreter.environments(rest)):
                    return None
        after = self.interpreter.after(table, row, state, env)
        if after is None or not self._holds(after):
            return None
        return after

    def _holds(self, store: Store) -> bool:
        state = dict(store)
        return all(self.interpreter.holds(claim.claim, state, env)
                   for claim in self.system.properties if isinstance(claim, Always)
                   for env in self.interpreter.environments(free_variables(claim.claim)))

    def _images(self, node: str, sort: type[Sort], element: Any) -> list[int]:
        if element is None or sort is Life:
            return [0]
        if sort is Chunk and element >= self.last[node] - 1:
            return list(range(self.last[node] - 1, self.chunks))
        return [self.names[sort].index(element)]

    def _written(self, node: str, line: Line) -> Iterator[tuple[Any, tuple[int, ...], Any]]:
        symbols = {symbol.name: symbol for symbol in self.system.variables}
        for name, elements, word in line["device"]:
            symbol = symbols[name]
            value = next(v for v in symbol.values if word == (
                str(v).lower() if isinstance(v, bool) else v.value))
            for at in product(*(self._images(node, sort, element)
                                for sort, element in zip(symbol.sorts, elements, strict=True))):
                yield symbol, at, value

    def _is_told(self, node: str, line: Line, store: Store) -> bool:
        state = dict(store)
        return all(state.get((symbol, at), symbol.values[0]) == value
                   for symbol, at, value in self._written(node, line))

    def _world(self, places: tuple[int, ...], store: Store) -> Iterator[Store]:
        """The state after a row of the world whose values a later line tells."""
        wanted = {cell for number, node in enumerate(self.nodes)
                  for line in self.events[node][places[number]:] if "device" in line
                  for cell in self._written(node, line)}
        for table in self.system.tables:
            if table.machine.name not in ("engine", "pool"):
                continue
            for row in table.rows:
                for env in self.interpreter.environments(table.parameters(row)):
                    told = {(u.symbol, tuple(env[a] for a in u.arguments), u.value)
                            for u in table.updates(row)}
                    if told & wanted:
                        after = self._fire(table, row, env, store)
                        if after is not None and after != store:
                            yield after


def _of_life(lines: Sequence[Line], life: Any) -> Iterator[Line]:
    """The lines of the endpoint of that life."""
    ends = {line["end"] for line in lines if line.get("with", {}).get("h") == life or any(
        life in elements for _, elements, _ in line.get("device", ()))}
    return (line for line in lines if line["end"] in ends)
