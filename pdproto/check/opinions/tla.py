r"""A system as a TLA+ module, so that TLC can check the same questions.

The module is written from the tables, not from the ground form: each row is an action under its own
name, sorts are constants, and the configuration files give them their sizes. So TLC stores exactly
our states, and the module can be read, changed and proved at any size by those who know TLA+.

Functions, relations and messages are functions of TLA+; the value of a relation or of a message is
a boolean. A channel is a function from its two ends to a sequence of messages, each a tuple with
the message's name. The elements of an ordered sort are numbers, all others are strings.

`Sometimes` is no formula of TLA+: TLC prints the name of such a state when it finds the first one.
A deadlock of ours is a state in which only a fault could change anything, so it is an invariant
(TLC's own deadlocks are switched off). No property is asked under `Fairness.CONSUMED`, where
delivery changes the network, and so every row. Reductions are not exported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pdproto.check.opinions.tla_context import SPECIFICATIONS, Context
from pdproto.check.opinions.tla_names import Scope
from pdproto.check.opinions.tla_properties import properties
from pdproto.check.opinions.tla_refines import refinement
from pdproto.check.opinions.tla_text import (
    ALL,
    COMPARED,
    OR,
    SOME,
    ChannelEffects,
    Effect,
    applied,
    comment,
    literal,
    string,
    symbol_of,
    tuple_of,
)
from pdproto.check.words import trigger_text
from pdproto.ground.grounding import Environment, Ground
from pdproto.spec.language.channels import Channel, channel_of
from pdproto.spec.language.formula import counts
from pdproto.spec.language.machine import Row, Table, Timer
from pdproto.spec.language.numbered import NumberAxiom
from pdproto.spec.language.properties import Fairness, LeadsTo, Sometimes
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sent, Symbol, sent_by
from pdproto.spec.language.terms import NumberFunction


@dataclass(frozen=True, slots=True)
class Model:
    """A module, and a configuration of TLC for each specification in it.

    properties: of each specification, the names that TLC can refute under it, as ours.
    sometimes: our names of the states that TLC is to find.
    """

    name: str
    text: str
    configurations: Mapping[str, str]
    properties: Mapping[str, Mapping[str, str]]
    sometimes: tuple[str, ...]


def tla(ground: Ground, name: str) -> Model:
    """The model of a system at given sizes, under the module name `name`."""
    return Module(ground, name).model()


class Module(Context):
    """The lines of a module. outer, prefix: of an abstract system in another module."""

    def __init__(
        self, ground: Ground, name: str, outer: Context | None = None, prefix: str = ""
    ) -> None:
        super().__init__(ground, outer, prefix)
        self.name: Final = name
        self.fairness: Final = tuple(
            f for f in SPECIFICATIONS if f is None or self.claimed(f))
        self.abstract: Final = tuple(
            (claim, [(self._elements_of(over), Module(
                Ground(claim.abstract, ground.sizes, tuple(claim.abstract.faults), ground.given),
                name, self, "_".join([claim.name, *(
                    type(v).element(i) for v, i in over.items()), ""])))
                for over in ground.environments(claim.over)])
            for claim in (() if prefix else self.system.refinements))

    def _elements_of(self, environment: Environment) -> Scope:
        return {v: self._element(type(v), i) for v, i in environment.items()}

    def model(self) -> Model:
        """The module with its configurations."""
        lines = [*self._head(), *self._state(), *self.actions(), *self._specifications(),
                 *properties(self), *self._refinements(), "=" * 80, ""]
        return Model(
            self.name,
            "\n".join(lines),
            {SPECIFICATIONS[f]: self._configuration(f) for f in self.fairness},
            {SPECIFICATIONS[f]: self._asked_under(f) for f in self.fairness},
            tuple(c.name for c in self.system.properties if isinstance(c, Sometimes)),
        )

    def _refinements(self) -> Iterator[str]:
        for claim, each in self.abstract:
            yield from comment(claim.why)
            yield from comment(f"{claim.abstract.name}: {claim.abstract.about}")
            for scope, abstract in each:
                yield from refinement(self, abstract, claim, scope, abstract.actions())
            yield f"{self.property_name(claim.name)} =="
            for _, abstract in each:
                yield from abstract.start()
                yield f"  /\\ [][{abstract.next_name}]_{abstract.tuple_name}"
            yield ""

    # What the module is about.

    def _head(self) -> Iterator[str]:
        title = f" MODULE {self.name} "
        yield title.center(80, "-")
        yield from comment(f"{self.system.name}: {self.system.about}")
        faults = f", with the faults {', '.join(self.ground.faults)}" if self.ground.faults else ""
        yield from comment(f"Exported by pdproto{faults}. To check it:")
        yield f"\\*   java -cp tla2tools.jar tlc2.TLC -deadlock -config {self.name}.cfg {self.name}"
        for claim in self._consumed():
            yield from comment(f"not asked here: {claim}, if {Fairness.CONSUMED}")
        numbers = bool(self.system.own_sizes) or any(
            isinstance(one, NumberFunction) for one in self.system.variables) or any(
            True for formula in self.system.formulas() for _ in counts(formula))
        more = ", Sequences" if self.channels else ""
        more += ", FiniteSets" if self.channels or numbers else ""
        yield f"EXTENDS {'Integers' if numbers else 'Naturals'}, TLC{more}"
        yield ""
        for operator, sign in (("Least", "<="), ("Greatest", ">=")) if numbers else ():
            yield f"{operator}(x1) == CHOOSE x2 \\in x1 : \\A x3 \\in x1 : x2 {sign} x3"
        constants = [self.names[key] for key in (*self._sized, *self.rigids)]
        if constants:
            yield f"CONSTANTS {', '.join(constants)}"
            yield ""
        # A configuration of TLC has no negative number.
        yield from (f"{self.names[sort]} == {{{self._elements(sort)}}}"
                    for sort in self.system.own_sizes)
        for symbol in self.rigids:
            elements = ", ".join(
                tuple_of([self._element(sort, i) for sort, i in zip(symbol.sorts, at, strict=True)])
                for at in sorted(self.ground.given[symbol])
            )
            truth = literal(bool(self.ground.given[symbol]))
            yield f"{self.names[symbol, 'given']} == {f'{{{elements}}}' if symbol.sorts else truth}"
        for title, axiom in self.system.axioms.items():
            if isinstance(axiom, NumberAxiom):
                continue
            yield from comment(title)
            yield f"ASSUME {self.closed(axiom)}"
        if self.rigids or self.system.own_sizes:
            yield ""

    def _consumed(self) -> list[str]:
        return [c.name for c in self.system.properties
                if isinstance(c, LeadsTo) and Fairness.CONSUMED in c.under]

    @property
    def _sized(self) -> list[type[Sort]]:
        """The sorts to which a configuration gives their elements."""
        return [sort for sort in self.system.sorts if sort.own_size() is None]

    @staticmethod
    def _element(sort: type[Sort], index: int) -> str:
        if not sort.ordered:
            return string(sort.element(index))
        return str(index) if sort.own_size() is None else sort.element(index)

    # The state.

    def _state(self) -> Iterator[str]:
        variables = [self.names[key] for key in (*self.plain, *self.channels)]
        yield f"VARIABLES {', '.join(variables)}"
        yield ""
        yield f"vars == <<{', '.join(variables)}>>"
        yield ""
        yield "TypeOK =="
        for symbol in self.plain:
            yield f"  /\\ {self.names[symbol]} \\in {self._values(symbol)}"
        for channel in self.channels:
            yield f"  /\\ {self.names[channel]} \\in {self._queues(channel)}"
        yield ""
        yield "Init =="
        yield from self.start()
        yield ""

    def start(self) -> Iterator[str]:
        """A conjunct for each variable: its value at the start, or that it has any; and `init=`."""
        for symbol in self.plain:
            if symbol.starts_free:
                yield f"  /\\ {self.names[symbol]} \\in {self._values(symbol)}"
            else:
                yield self._initially(symbol, symbol.sorts, literal(symbol.values[0]))
        yield from (f"  /\\ {self.closed(formula)}" for formula in self.system.starts)
        for channel in self.channels:
            yield self._initially(channel, channel.ends, "<<>>")

    def _initially(self, key: object, sorts: Sequence[type[Sort]], value: str) -> str:
        bounds = self.sort_of_each([f"x{i}" for i in range(1, len(sorts) + 1)], sorts)
        return f"  /\\ {self.names[key]} = {f'[{bounds} |-> {value}]' if bounds else value}"

    def _queues(self, channel: Channel) -> str:
        times = " \\X "
        letters = (
            times.join([f'{{"{m.name}"}}', *(self.names[sort] for sort in m.domain)])
            if m.domain else f'{{<<"{m.name}">>}}'
            for m in channel.messages(self.system.variables)
        )
        union = " \\cup ".join(f"({one})" for one in letters)
        queue = f"Seq({union})"
        domain = times.join(self.names[sort] for sort in channel.ends)
        return f"[{domain} -> {queue}]" if domain else queue

    def _values(self, symbol: Symbol) -> str:
        values = f"{{{', '.join(literal(value) for value in symbol.values)}}}"
        if symbol.is_boolean:
            values = "BOOLEAN"
        domain = " \\X ".join(self.names[sort] for sort in symbol.sorts)
        return f"[{domain} -> {values}]" if domain else values

    # One action for each row.

    def actions(self) -> Iterator[str]:
        """An action for each row."""
        for table, row, _ in self.rows:
            told = (table.machine.name, trigger_text(row.on), row.why)
            yield from comment("; ".join(text for text in told if text))
            scope = self.names.bind({}, table.parameters(row))
            yield f"{self.call(table, row)} =="
            for part in table.guard(row).parts:
                yield f"  /\\ {self.writer.formula(part, scope, COMPARED)}"
            effects: dict[Symbol, list[Effect]] = {}
            turns = self._turns(row)
            for effect in (*table.updates(row), *row.send):
                if symbol_of(effect) in self.plain:
                    effects.setdefault(symbol_of(effect), []).append(effect)
            for symbol, changes in effects.items():
                yield f"  /\\ {self.names[symbol]}' = {self.writer.after(symbol, changes, scope)}"
            for channel, turn in turns.items():
                yield f"  /\\ {self.names[channel]}' = {self.writer.queue(channel, turn, scope)}"
                yield f"  /\\ {self._fits(channel)}"
            same = [self.names[key] for key in (*self.plain, *self.channels)
                    if key not in effects and key not in turns]
            if same:
                kept = f"<<{', '.join(same)}>>" if effects or turns else self.tuple_name
                yield f"  /\\ UNCHANGED {kept}"
            yield ""

    @staticmethod
    def _turns(row: Row) -> dict[Channel, ChannelEffects]:
        """The messages that the row takes off channels, and those that it sends into them."""
        turns: dict[Channel, ChannelEffects] = {}
        if isinstance(row.on, Sent) and (channel := channel_of(row.on.message)) is not None:
            turns[channel] = ChannelEffects(row.on)
        for effect in row.send:
            sent = sent_by(effect)
            if (channel := channel_of(sent.message)) is not None:
                turns.setdefault(channel, ChannelEffects(None)).sent.append(effect)
        return turns

    def _fits(self, channel: Channel) -> str:
        """No channel has more messages than places after the row."""
        places = [f"x{i}" for i in range(1, len(channel.ends) + 1)]
        heading = f"\\A {self.sort_of_each(places, channel.ends)} : " if places else ""
        after = applied(f"{self.names[channel]}'", places)
        return f"{heading}Len({after}) <= Cardinality({self.names[channel.places]})"

    # The specifications.

    def _specifications(self) -> Iterator[str]:
        progress = [(table, row) for table, row, layer in self.rows if not layer]
        faults = [(table, row) for table, row, layer in self.rows if layer]
        yield "Progress =="
        yield from self.each_row(SOME, progress, "{}")
        yield ""
        if faults:
            yield "Fault =="
            yield from self.each_row(SOME, faults, "{}")
            yield ""
        yield f"Next == Progress{f'{OR}Fault' if faults else ''}"
        yield ""
        yield "Spec == Init /\\ [][Next]_vars"
        yield ""
        for fairness in self.fairness:
            if fairness is not None:
                yield from self._fair(fairness, progress, faults)

    def _fair(
        self, fairness: Fairness, progress: Sequence[tuple[Table, Row]],
        faults: Sequence[tuple[Table, Row]],
    ) -> Iterator[str]:
        yield from comment(f"if {fairness}: rows are fair, faults happen finitely often")
        following = "Next"
        if fairness is Fairness.NO_TIMERS:
            progress = [(t, r) for t, r in progress if not isinstance(r.on, Timer)]
            following = "WithoutTimers"
            yield "WithoutTimers =="
            yield from self.each_row(SOME, [*progress, *faults], "{}")
            yield ""
        yield f"{SPECIFICATIONS[fairness]} =="
        yield f"  /\\ Init /\\ [][{following}]_vars"
        if faults:
            yield "  /\\ <>[][Progress]_vars"
        fair = [(t, r) for t, r in progress if _is_fair(r, fairness)]
        for form, strong in (("WF_vars({})", False), ("SF_vars({})", True)):
            rows = [(table, row) for table, row in fair if row.is_strong == strong]
            if rows or not strong:
                yield from self.each_row(ALL, rows, form)
        yield ""

    # The configurations of TLC.

    def _asked_under(self, fairness: Fairness | None) -> dict[str, str]:
        """The properties to check under an assumption: the name in the module, and ours."""
        if fairness is not None:
            return {self.property_name(name): name for name in self.claimed(fairness)}
        live = {c.name for c in self.system.properties if isinstance(c, LeadsTo | Sometimes)}
        return {self.property_name(name): name for name in self.asked if name not in live}

    def _configuration(self, fairness: Fairness | None) -> str:
        moves = {self.property_name(name) for name in (
            *(f"{variable.name}_edges" for variable in self.system.bounded_variables()),
            *(f"{message.name}_carries" for message in self.carriers()),
            *(claim.name for claim in self.system.refinements))}
        asked = self._asked_under(fairness)
        temporal = [name for name in asked if fairness is not None or name in moves]
        invariants = [name for name in asked if name not in temporal]
        lines = [f"SPECIFICATION {SPECIFICATIONS[fairness]}"]
        constants = [f"  {self.names[sort]} = {{{self._elements(sort)}}}"
                     for sort in self._sized]
        constants += [f"  {self.names[symbol]} <- {self.names[symbol, 'given']}"
                      for symbol in self.rigids]
        if constants:
            lines += ["CONSTANTS", *constants]
        if fairness is None:
            told = any(isinstance(c, Sometimes) for c in self.system.properties)
            lines += ["INVARIANTS", "  TypeOK", *(["  Reached"] if told else []),
                      *(f"  {name}" for name in invariants)]
        if temporal:
            lines += ["PROPERTIES", *(f"  {name}" for name in temporal)]
        return "\n".join([*lines, ""])

    def _elements(self, sort: type[Sort]) -> str:
        return ", ".join(self._element(sort, i) for i in range(self.ground.sizes[sort]))


def _is_fair(row: Row, fairness: Fairness) -> bool:
    net = isinstance(row.on, Timer) and not row.on.detector
    return row.is_fair and not (net and fairness is Fairness.DETECTORS)
