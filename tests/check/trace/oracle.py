"""A second judge of traces: slow, by the book, and of other making than the one that is tested.

States are dicts of cells, guards are interpreted as they are written, and files are merged by
trying each of them again and again. It knows nothing of how lines are counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pdproto.check.interpret import Interpreter
from pdproto.spec.language.formula import atoms
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Sent, Symbol, Variable
from pdproto.spec.language.system import System

Line = Mapping[str, Any]


class WrongError(Exception):
    """The line cannot be."""


class LaterError(Exception):
    """The line cannot be yet."""


def word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value.value)


def element(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class End:
    """An endpoint: what it counts, and its cells that are not initial."""

    def __init__(self, system: System, node: str, line: Line) -> None:
        self.system, self.node = system, node
        self.table = next(t for t in system.tables if t.machine.name == line["machine"])
        self.names: dict[type[Sort], list[Any]] = {s: [None] for s in self.table.machine.sorts}
        self.cells: dict[Any, Any] = {}
        self.count(line["begins"])

    def count(self, counted: Mapping[str, Any]) -> None:
        if not counted:
            raise WrongError
        sorts = {sort.__name__: sort for sort in self.system.sorts}
        for name, of in counted.items():
            names = list(range(of)) if isinstance(of, int) else of or [None]
            before = self.names.get(sorts[name], [None])
            if not isinstance(of, int) and before != [None] and names[:len(before)] != before:
                raise WrongError
            self.names[sorts[name]] = names
        for symbol, indices in self.cells:
            if any(i >= len(self.names[s]) for s, i in zip(symbol.sorts, indices, strict=True)):
                raise WrongError
        sizes = {sort: len(names) for sort, names in self.names.items()}
        given = {rigid: frozenset(product(*(range(sizes.get(s, 0)) for s in rigid.sorts)))
                 for rigid in self.system.rigids}
        self.interpreter = Interpreter(self.system, sizes, (), given)

    def index(self, sort: type[Sort], name: Any) -> int:
        if sort in self.table.machine.sorts and self.names[sort] == [None]:
            if isinstance(name, str) and name != self.node:
                raise WrongError
            self.names[sort] = [name]
        if name not in self.names[sort]:
            raise WrongError
        return self.names[sort].index(name)

    def indices(self, symbol: Symbol, names: Sequence[Any]) -> tuple[int, ...]:
        return tuple(self.index(s, n) for s, n in zip(symbol.sorts, names, strict=True))

    def elements(self, symbol: Symbol, indices: Sequence[int]) -> tuple[Any, ...]:
        return tuple(self.names[s][i] for s, i in zip(symbol.sorts, indices, strict=True))

    def own(self) -> tuple[Any, ...]:
        return (self.table.machine, *(self.names[sort][0] for sort in self.table.machine.sorts))

    def after(self, table: Table, row: Row, env: Mapping[Sort, int]) -> dict[Any, Any]:
        after = dict(self.cells)
        for update in table.updates(row):
            if isinstance(update.symbol, Variable) and update.symbol.owner is self.table.machine:
                places = (range(len(self.names[s])) if a is ANY else (env[a],)
                          for a, s in zip(update.arguments, update.symbol.sorts, strict=True))
                for indices in product(*places):
                    after[update.symbol, indices] = update.value
        return {cell: v for cell, v in after.items() if v != cell[0].values[0]}

    def sent(self, row: Row, env: Mapping[Sort, int]) -> Iterator[tuple[Any, tuple[int, ...]]]:
        for effect in row.send:
            sent = effect.sent if isinstance(effect, Each) else effect
            loop = [env]
            if isinstance(effect, Each):
                every = range(len(self.names[type(effect.variable)]))
                loop = [{**env, effect.variable: i} for i in every]
            for inner in loop:
                yield sent.message, tuple(inner[v] for v in sent.arguments)

    def environments(self, variables: Sequence[Sort]) -> Iterator[dict[Sort, int]]:
        for choice in product(*(range(len(self.names[type(v)])) for v in variables)):
            yield dict(zip(variables, choice, strict=True))

    def pending(self) -> bool:
        for row in self.table.rows:
            if row.on is None and row.is_fair:
                for env in self.environments(self.table.parameters(row)):
                    if (self.interpreter.holds(self.table.condition(row), self.cells, env)
                            and self.after(self.table, row, env) != self.cells):
                        return True
        return False


class Oracle:
    """Judges the files of one run: each a list of lines."""

    def __init__(self, system: System, files: Sequence[Sequence[Line]]) -> None:
        self.system, self.files = system, files
        self.nodes = {lines[0]["node"] for lines in files if lines}
        self.sent: dict[Any, Any] = {}
        self.ends: dict[Any, End] = {}

    def verdict(self) -> str:
        places = [0] * len(self.files)
        while True:
            moved = False
            for number, lines in enumerate(self.files):
                try:
                    while places[number] < len(lines):
                        self.line(number, lines[places[number]])
                        places[number] += 1
                        moved = True
                except LaterError:
                    continue
                except (WrongError, KeyError, ValueError):
                    return "violated"
            if not moved:
                break
        if any(place < len(lines) for place, lines in zip(places, self.files, strict=True)):
            return "violated"
        return "unknown" if any(end.pending() for end in self.ends.values()) else "holds"

    def line(self, number: int, line: Line) -> None:
        key = number, line["end"]
        if "begins" in line:
            if key in self.ends:
                raise WrongError
            self.ends[key] = End(self.system, line["node"], line)
            return
        end = self.ends[key]
        if line["machine"] != end.table.machine.name:
            raise WrongError
        if "elements" in line:
            before = dict(end.names)
            end.count(line["elements"])
            if before == end.names:
                raise WrongError
        elif "device" in line:
            self.device(end, line)
        else:
            self.row(end, line)
        own = end.own()
        if None not in own and sum(other.own() == own for (file, _), other in self.ends.items()
                                   if file == number) > 1:
            raise WrongError

    def row(self, end: End, line: Line) -> None:
        row = next((row for row in end.table.rows if row.name == line["row"]), None)
        if row is None or line["on"] != (None if row.on is None else str(row.on)):
            raise WrongError
        parameters = end.table.parameters(row)
        if {v.name for v in parameters} != set(line["with"]) or row.kind == "reject":
            raise WrongError
        env = {v: end.index(type(v), element(line["with"][v.name])) for v in parameters}
        cells = dict(end.cells)
        if isinstance(row.on, Sent):
            message = row.on.message
            names = tuple(element(line["with"][v.name]) for v in row.on.arguments)
            senders = {n for f, n in zip(message.formals, names, strict=True)
                       if f in message.sender.variables and isinstance(n, str)}
            if (message, names) not in self.sent:
                raise LaterError if senders & self.nodes else WrongError
            for symbol, elements in self.sent[message, names]:
                cells[symbol, end.indices(symbol, elements)] = True
        if not end.interpreter.holds(end.table.condition(row), cells, env):
            raise WrongError
        end.cells = cells
        end.cells = end.after(end.table, row, env)
        for message, indices in end.sent(row, env):
            self.sent[message, end.elements(message, indices)] = tuple(
                (symbol, end.elements(symbol, at)) for symbol, at in end.cells
                if symbol in message.carries)
        state = end.table.state
        if "state" in line and state is not None:
            at = state, (0,) * len(state.sorts)
            if word(end.cells.get(at, state.values[0])) != line["state"]:
                raise WrongError

    def device(self, end: End, line: Line) -> None:
        symbols = {s.name: s for s in end.table.machine.symbols}
        wanted = {(name, end.indices(symbols[name], [element(e) for e in elements]), value)
                  for name, elements, value in line["device"]}
        for table in self.system.tables:
            for row in table.rows if table.machine is not end.table.machine else ():
                own = [u for u in table.updates(row) if u.symbol in end.table.machine.symbols]
                if {u.symbol.name for u in own} != {name for name, _, _ in wanted}:
                    continue
                parts = [part for part in table.guard(row).parts if all(
                    atom.symbol in end.table.machine.symbols for atom, _ in atoms(part))]
                for env in end.environments(table.parameters(row)):
                    writes = {(u.symbol.name, tuple(env[a] for a in u.arguments), word(u.value))
                              for u in own}
                    if writes == wanted and all(
                            end.interpreter.holds(part, end.cells, env) for part in parts):
                        end.cells = end.after(table, row, env)
                        return
        raise WrongError
