"""What all parts of an exported TLA+ module share: its names, rows and formulas."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pdproto.check.opinions.tla_names import Names
from pdproto.check.opinions.tla_text import ALL, AND, COLUMNS, OPEN, OR, SOME, Writer
from pdproto.check.questions import names
from pdproto.ground.grounding import Ground
from pdproto.spec.language.channels import channels_of
from pdproto.spec.language.formula import Formula, free_variables
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message

# The formula that is the specification under each assumption; None is safety alone.
SPECIFICATIONS: Final[Mapping[Fairness | None, str]] = {
    None: "Spec",
    Fairness.TIMERS: "EveryTimerFires",
    Fairness.DETECTORS: "SafetyNetsNeverFire",
    Fairness.NO_TIMERS: "NoTimers",
}
_OWN: Final = (
    "Init", "Next", "Progress", "Fault", "WithoutTimers", "vars", "TypeOK", "Final", "Tell",
    "Reached", "Least", "Greatest", *SPECIFICATIONS.values(),
    *(f"x{i}" for i in range(1, 10)),  # places of a cell, which ranges bind
)
PARAMETERS: Final = ("i", "name")  # of the operator Tell


class Context:
    """A system at given sizes, with a name of TLA+ for everything in it.

    The keys of `names` are sorts, symbols, channels, names of rows, ("property", name),
    (rigid symbol, "given") for an interpretation, and ("parameter", name) of an operator.
    """

    def __init__(self, ground: Ground, outer: "Context | None" = None, prefix: str = "") -> None:
        """outer: of a system that refines this one, in whose module it is. prefix: of its names."""
        self.ground: Final = ground
        self.system: Final = ground.system
        self.prefix: Final = prefix
        self.rigids: Final = self.system.relations
        shared = (*self.system.sorts, *self.rigids)
        self.names: Final[Names] = Names(_OWN) if outer is None else outer.names.within(shared)
        for sort in self.system.sorts if outer is None else ():
            self.names.declare(sort, sort.__name__)
        self.plain: Final = [s for s in self.system.variables
                             if not isinstance(s, Message) or s.fifo is None]
        for symbol in (*(self.rigids if outer is None else ()), *self.plain):
            self.names.declare(symbol, f"{prefix}{symbol.name}")
        self.channels: Final = channels_of(self.system.variables)
        for channel in self.channels:
            self.names.declare(channel, channel.name)
        for symbol in self.rigids if outer is None else ():
            self.names.declare((symbol, "given"), f"{symbol.name}_given")
        self.rows: Final = [(table, row, layer)
                            for table, layer in self.system.tables_under(ground.faults)
                            for row in table.rows]
        for _, row, _ in self.rows:
            self.names.declare(row.name, f"{prefix}{row.name}")
        self.tuple_name: str = self._own_name("vars")
        self.next_name: str = self._own_name("Next")
        self.asked: Final = tuple(names(self.system)) if outer is None else ()
        for claim in self.asked:
            self.names.declare(("property", claim), claim)
        for parameter in PARAMETERS:
            self.names.declare(("parameter", parameter), parameter)
        self.writer: Final = Writer(self.names)

    def _own_name(self, name: str) -> str:
        return self.names.declare(name, f"{self.prefix}{name}") if self.prefix else name

    def property_name(self, name: str) -> str:
        """The name of the property in the module."""
        return self.names["property", name]

    def claimed(self, fairness: Fairness) -> list[str]:
        """The liveness properties under an assumption."""
        return [claim.name for claim in self.system.properties
                if isinstance(claim, LeadsTo) and fairness in claim.under]

    def carriers(self) -> list[Message[*tuple[Any, ...]]]:
        """The messages that carry relations."""
        return [s for s in self.system.variables if isinstance(s, Message) and s.carries]

    def closed(self, claim: Formula, word: str = ALL) -> str:
        """The claim for all (or some) elements of its free variables."""
        variables = free_variables(claim)
        scope = self.names.bind({}, variables)
        heading = self.writer.quantified(word, variables, scope)
        return heading + self.writer.formula(claim, scope, OPEN)

    def call(self, table: Table, row: Row) -> str:
        """The row's action with its parameters: `prepare(p)`."""
        parameters = table.parameters(row)
        scope = self.names.bind({}, parameters)
        arguments = ", ".join(scope[v] for v in parameters)
        return f"{self.names[row.name]}({arguments})" if arguments else self.names[row.name]

    def each_row(self, word: str, rows: Sequence[tuple[Table, Row]], form: str) -> Iterator[str]:
        r"""Lines for all rows: `\E p \in P : a(p) \/ b(p)` for rows with the same parameters."""
        joiner = OR if word == SOME else AND
        for parameters, group in groupby(rows, key=lambda pair: pair[0].parameters(pair[1])):
            scope = self.names.bind({}, parameters)
            calls = [form.format(self.call(table, row)) for table, row in group]
            heading = f"  {joiner.strip()} {self.writer.quantified(word, parameters, scope)}"
            line = heading + joiner.join(calls)
            yield from [line] if len(line) <= COLUMNS else (heading + call for call in calls)
        if not rows:
            yield f"  {joiner.strip()} {'FALSE' if word == SOME else 'TRUE'}"

    def sort_of_each(self, places: Sequence[str], sorts: Sequence[type[Sort]]) -> str:
        r"""`x1 \in Client, x2 \in Round`."""
        return ", ".join(f"{place} \\in {self.names[sort]}"
                         for place, sort in zip(places, sorts, strict=True))
