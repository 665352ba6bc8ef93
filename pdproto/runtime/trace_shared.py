"""The trace of machines that many hand-overs share: a group's rank, its entry, a registry.

JSON lines as in trace.py, with the same `n`, `node`, `machine` and `end`. An `end` is one instance,
or all instances, of a machine that is run from its table (store.py).

* `begins`: the elements of the sorts over which quantifiers loop. `own`: the elements of the
  machine's own variables; null if the end stands for all instances. `tables`: as in trace.py.
* `row`, `on`, `with`: a row that fired, its trigger, and its parameters by name, without those in
  `own`. An element of several parts is a list: [room, incarnation, generation] for a life.
* `heard`, `of`: a message that triggers no row, with its arguments. Rows read that it has arrived.
* `device`: a value that another owner has written, as [variable, arguments, value].
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple

from pdproto.ground.layout import value_name
from pdproto.ground.structure import table_digest
from pdproto.runtime import checked
from pdproto.runtime.cells import Key
from pdproto.runtime.rows import require_instance
from pdproto.runtime.store import Predicate, Shared
from pdproto.runtime.trace import Lines, TraceTarget
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Symbol


class SharedTrace(Lines):
    """Writes the steps of the shared machines of one process. One thread at a time.

    ran: False for the steps of a program that has not run the tables: then no digest is written.
    """

    def __init__(self, node: str, target: TraceTarget, *, ran: bool = True) -> None:
        super().__init__(node, target)
        checked.flag("ran", ran)
        self._ran: Final = ran
        self._ends = 0

    def begin(
        self, table: Table, own: Sequence[Hashable] | None = (),
        bounded: Mapping[type[Sort], Collection[Hashable]] | None = None,
    ) -> "End":
        """Begin the trace of one machine, and return its witness. The arguments are those of
        `Shared`.
        """
        require_instance(table, own, bounded)
        self._ends += 1
        end = End(self, table.machine.name, self._ends)
        variables = () if own is None else table.machine.own
        named = zip((v.name for v in variables), own or (), strict=True)
        end.tell({
            "begins": {sort.__name__: [plain(element) for element in elements]
                       for sort, elements in (bounded or {}).items()},
            **({"tables": table_digest(table)} if self._ran else {}),
            "own": None if own is None else {name: plain(element) for name, element in named},
        })
        return end


class End:
    """Writes the steps of one machine into the trace: the `witness` of a `Shared`."""

    def __init__(self, trace: SharedTrace, machine: str, number: int) -> None:
        self._trace = trace
        self._machine = machine
        self._number = number

    def tell(self, told: Mapping[str, Any]) -> None:
        """Write one line."""
        if self._trace.ended is None:
            self._trace.put(self._machine, self._number, [told])

    def fired(self, row: Row, names: tuple[str, ...], parameters: Key) -> None:
        """See witness.Witness. A rejected event writes nothing."""
        if row.kind != "reject":  # a refused event changes nothing
            self.tell({"row": row.name, "on": None if row.on is None else str(row.on),
                       "with": dict(zip(names, map(plain, parameters), strict=True))})

    def heard(self, message: Symbol, arguments: Key) -> None:
        """See witness.Witness."""
        self.tell({"heard": message.name, "of": [*map(plain, arguments)]})

    def written(self, symbol: Symbol, arguments: Key, value: Value) -> None:
        """See witness.Witness."""
        self.tell({"device": [[symbol.name, [*map(plain, arguments)], value_name(value)]]})


def shared(
    table: Table,
    own: Sequence[Hashable] | None = (),
    bounded: Mapping[type[Sort], Collection[Hashable]] | None = None,
    rigid: Mapping[Rigid[*tuple[Any, ...]], Predicate] | None = None,
    *,
    trace: SharedTrace | None,
    scans: bool = False,
) -> Shared:
    """A machine run from its table (see `Shared`) that writes every step into the trace, if any."""
    if trace is not None:
        checked.one_of("trace", trace, SharedTrace)
    witness = None if trace is None else trace.begin(table, own, bounded)
    return Shared(table, own, bounded, rigid, witness, scans=scans)


def plain(element: Hashable) -> Any:
    """An element as a JSON value: a list if it has parts."""
    if isinstance(element, Struct):
        return [plain(part) for part in astuple(element)]
    return [plain(part) for part in element] if isinstance(element, tuple) else element
