"""Random systems with every word of the language: `draw(seed)` gives the same one every time."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from pdproto.spec.language import (
    AddClause,
    AddEffect,
    AddFaults,
    AddProperty,
    AddRow,
    Always,
    Call,
    Completion,
    Configuration,
    Drains,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Fairness,
    Formula,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
    ReplaceRow,
    Retarget,
    Row,
    Sometimes,
    Sort,
    SpecError,
    System,
    Table,
    Timer,
    all_of,
    each,
    edited,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.wellformed import check_row
from tests.oracle.numbers import NumberParts, Uncounted
from tests.oracle.parts import Own, Parts
from tests.oracle.refined import with_refinement
from tests.oracle.starting import StartingParts, with_init

TRIES = 12  # of a part that the language may refuse
LAYERS = "lossy", "crash"
NUMBERS = 100_000_000  # from this seed on, systems have numbers
STRONG = 300_000_000  # from this seed on, they also have rows that are strongly fair
ABOVE = 200_000_000  # from this seed on, they also have a claim of refinement
STARTS = 400_000_000  # from this seed on, and variables that start with any value, and no others
PROVABLE = 500_000_000  # from this seed on, they have such a claim, and no counts


def draw(seed: int) -> tuple[System, Configuration]:
    """The system of this seed, with the configuration in which to explore it."""
    for number in range(100):
        with suppress(SpecError, RefusedError, IndexError):
            return made(Random(f"{seed} {number}"), seed)  # noqa: S311 - no secret
    raise AssertionError(f"no system at seed {seed}")


def made(rng: Random, seed: int) -> tuple[System, Configuration]:
    """The system that these numbers draw, with what the seed says. Raises SpecError, RefusedError
    or IndexError where the language refuses it.
    """
    parts = (Uncounted if seed >= PROVABLE else StartingParts if seed >= STARTS else
             NumberParts if seed >= NUMBERS else Parts)
    drawing = Draw(rng, parts)
    system, configuration = drawing.system()
    if STARTS <= seed < PROVABLE:
        system = with_init(drawing, system)
    elif STRONG <= seed < STARTS:
        return strengthened(drawing, system), configuration
    plain = seed % 3 > 0 if STARTS <= seed < PROVABLE else seed < ABOVE
    return (system if plain else with_refinement(drawing, system)), configuration


def strengthened(drawing: "Draw", system: System) -> System:
    """The system with other fairness of some rows."""
    return replace(system, tables=tuple(replace(table, rows=tuple(
        replace(row, fair=drawing.rng.choice(("strong", "strong", "weak", row.fair)))
        if row.kind == "row" else row for row in table.rows)) for table in system.tables))


class RefusedError(Exception):
    """The language refuses each of the parts that were drawn."""


class Draw:
    """Draws one system."""

    def __init__(self, rng: Random, parts: type[Parts] = Parts) -> None:
        self.rng = rng
        self.parts = parts(rng)
        self.names = (f"row{n}" for n in range(999))
        self.known = {machine: self.triggers() for machine in self.parts.machines}

    def tried(self, make: Callable[[], Any]) -> Any:
        """The first part that the language takes. Raises RefusedError."""
        for _ in range(TRIES):
            with suppress(SpecError, IndexError):
                return make()
        raise RefusedError

    def system(self) -> tuple[System, Configuration]:
        """The system, perhaps as an edit of another one."""
        rng, parts = self.rng, self.parts
        tables = []
        for machine in parts.machines:
            table = Table(machine, parts.states.get(machine))
            rows: list[Row] = []
            for _ in range(rng.choice((1, 2, 2, 3)) + (machine is parts.peers)):
                with suppress(RefusedError):
                    rows.append(self.tried(lambda table=table: self.row(table)))  # type: ignore[misc]  # the table of now
            for message in parts.messages:
                if message.receiver.machine is machine and rng.random() < 0.8:
                    with suppress(RefusedError):
                        rows.append(self.tried(
                            lambda t=table, m=message: self.row(t, self.arrival(t, m))))  # type: ignore[misc]  # as above
            tables.append(replace(table, rows=tuple({r.name: r for r in rows}.values())))
        if not any(row.on is None or isinstance(row.on, Call | Timer | Completion)
                   for table in tables for row in table.rows):
            raise RefusedError
        faults = {layer: self.faults(layer) for layer in LAYERS if rng.random() < 0.5}
        axioms = self.axioms()
        chosen = tuple(layer for layer in faults if rng.random() < 0.6)
        given = {r: (lambda _: {(0, 0)}) for r in parts.rigids
                 if r.name == "linked" and rng.random() < 0.2}
        configuration = Configuration(parts.sizes, chosen, given)
        system = System(
            "random", "A random system.", tuple(tables), (), self.final(), faults, axioms,
            {"default": configuration})
        system = self.with_properties(system)
        if rng.random() < 0.25:
            system = self.edited(system)
        return system, configuration

    # Rows

    def symbols(self, machine: Machine[*tuple[Any, ...]]) -> list[Any]:
        """What the rows of a machine may read, most often."""
        parts = self.parts
        if machine.world:
            return [*parts.variables, *(m for m in parts.messages if m.fifo is None),
                    *parts.rigids]
        own = [v for v in parts.variables if machine in (v.owner, v.engine)]
        heard = [m for m in parts.messages if m.fifo is None and (
            m.receiver.machine is machine
            or (m.sender.machine is machine and not parts.consumes))]
        return [*own, *own, *heard, *parts.rigids]

    def arrival(self, table: Table, message: Message[*tuple[Any, ...]]) -> Any:
        """The message as a trigger of this machine."""
        named = dict(zip(message.receiver.variables, table.machine.own, strict=True))
        return message(*(named.get(v, v) for v in message.formals))

    def triggers(self) -> tuple[Any, ...]:
        """Those of a machine, besides messages."""
        rng, parts = self.rng, self.parts
        parameter: Own = rng.choice(((), (), (parts.beta("k"),), (parts.turn("k"),)))
        if rng.random() < 0.05 and parts.with_groups:
            parameter = (parts.group("k"),)
        return (Call("ask", *parameter, any_time=rng.random() < 0.2), Call("go"), None, None,
                Timer("late", detector=rng.random() < 0.4), Completion("ready", *parameter))

    def row(self, table: Table, on: Any = ()) -> Row:
        rng, parts, machine = self.rng, self.parts, table.machine
        on = rng.choice(self.known.setdefault(machine, self.triggers())) if on == () else on
        taken: Own = (*machine.own, *getattr(on, "arguments", getattr(on, "parameters", ())))
        valued = [(v.sorts[-1],) for v in parts.variables
                  if isinstance(v, ElementFunction) and v.owner is machine]
        choose = tuple(parts.fresh(sort, taken) for sort in rng.choice(
            [(), (), (), (parts.alpha,), (parts.beta,), (parts.turn,), *valued, *valued]))
        scope = tuple(dict.fromkeys((*taken, *choose)))
        symbols = self.symbols(machine)
        own: Own = () if machine.world else machine.own
        when: list[Formula] = []
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            when.append(parts.formula(scope, symbols, own))
        states: list[Any] = list(table.state.values) if table.state is not None else []
        at = tuple(rng.sample(states, rng.choice((0, 1, 1, min(2, len(states)))))) if states else ()
        name = next(self.names)
        kind = rng.random()
        if on is not None and kind < 0.1:
            row = Ignore(on, at=at, when=when, why="it is late", name=name)
        elif on is not None and not isinstance(on, Timer) and kind < 0.16:
            row = Reject(on, at=at, when=when, why="no peer does", name=name)
        else:
            row = Row(
                name, on=on, at=at, when=when[0] if len(when) == 1 else when, choose=choose,
                to=rng.choice((None, *states)) if states else None,
                do=self.updates(table, scope), send=self.sends(table, scope),
                fair=rng.choice((None, None, None, True, False)), why=rng.choice(("", "so")))
        check_row(table, row)
        return row

    def updates(self, table: Table, scope: Own) -> list[Any]:
        rng, parts, machine = self.rng, self.parts, table.machine
        mine = [v for v in parts.variables
                if (machine.world or machine in (v.owner, v.engine)) and v is not table.state]
        if machine.world and rng.random() < 0.15:
            mine += [m for m in parts.messages if m.fifo is None]
        own: Own = () if machine.world else machine.own
        found: list[Any] = []
        for symbol in rng.sample(mine, min(len(mine), rng.choice((0, 1, 1, 2)))):
            if isinstance(symbol, Message):
                found.append(symbol(*(
                    next((s for s in scope if type(s) is type(v)), v) for v in symbol.formals
                )).to(rng.random() < 0.5))
            else:
                found += parts.update(scope, symbol, own)
        return found

    def sends(self, table: Table, scope: Own) -> list[Any]:
        rng, parts, machine = self.rng, self.parts, table.machine
        mine = [m for m in parts.messages if machine.world or m.sender.machine is machine]
        found: list[Any] = []
        for message in rng.sample(mine, min(len(mine), rng.choice((0, 1, 1, 2)))):
            own = dict(zip(message.sender.variables, machine.own, strict=False))
            unknown: list[Sort] = []
            arguments = []
            for formal in message.formals:
                here = [v for v in scope if type(v) is type(formal)]
                number = parts.computed(type(formal), scope, [
                    v for v in parts.variables if v.owner is machine], machine.own)
                if formal in own and not machine.world:
                    arguments.append(own[formal])
                elif number is not None:
                    arguments.append(number)
                elif here and rng.random() < 0.7:
                    arguments.append(rng.choice(here))
                else:
                    unknown.append(parts.fresh(type(formal), (*scope, *unknown)))
                    arguments.append(unknown[-1])
            if len(unknown) > 1:
                continue
            sent = message(*arguments)
            if not unknown:
                found.append(sent)
                continue
            both = (*scope, unknown[0])
            rigid = [r for r in parts.rigids if r.name == "linked"]
            where = parts.literal(both, rigid, ())
            found.append(each(unknown[0], sent, where=where) if rng.random() < 0.6 else
                         each(unknown[0], sent))
        return found

    # Around the tables

    def faults(self, layer: str) -> tuple[Table, ...]:
        """Losses of messages, or a fault that may do anything."""
        parts = self.parts
        world = Machine(f"{layer}_world", world=True)
        if layer == "lossy":
            return (Table(world, rows=tuple(lose(m) for m in parts.messages)),)
        rows = []
        for _ in range(self.rng.choice((1, 2))):
            with suppress(RefusedError):
                rows.append(self.tried(lambda: self.fault(Table(world))))
        return (Table(world, rows=tuple({row.name: row for row in rows}.values())),)

    def fault(self, table: Table) -> Row:
        chosen = self.rng.choice(((), (self.parts.alpha("a"),)))
        row = Row(next(self.names), choose=chosen,
                  when=self.parts.formula(chosen, self.symbols(table.machine), (), 1),
                  do=self.updates(table, chosen), send=self.sends(table, chosen))
        check_row(table, row)
        return row

    def axioms(self) -> dict[str, Formula]:
        parts, rng = self.parts, self.rng
        if not parts.rigids or rng.random() < 0.4:
            return {}
        x, y = (type(sort)(n) for sort, n in zip(
            (v("x") for v in parts.rigids[0].sorts), "xy", strict=True))
        linked = parts.rigids[0]
        some: list[Formula] = [exists(y, linked(x, y))]
        if type(x) is type(y):
            some += [implies(linked(x, y), linked(y, x)), implies(linked(x, y), x.differs(y))]
        return {"linked": rng.choice(some)}

    def final(self) -> Formula | None:
        parts, rng = self.parts, self.rng
        if rng.random() < 0.4:
            return None
        state = parts.states.get(parts.peers)
        if state is not None and rng.random() < 0.6:
            a = parts.alpha("a")
            return forall(a, state(a) == rng.choice(state.values))
        return parts.formula((), parts.variables, (), 1)

    def claim(self, *free: Sort) -> Formula:
        """A claim about everything. Its free variables may share a name, of two sorts."""
        parts = self.parts
        return parts.formula(free, [*parts.variables, *parts.messages, *parts.rigids], ())

    def variables(self) -> Own:
        parts = self.parts
        return self.rng.choice((
            (), (parts.alpha("a"),), (parts.alpha("a"), parts.alpha("c")),
            (parts.alpha("x"), parts.beta("x")), (parts.turn("t"), parts.turn("u"))))

    def with_properties(self, system: System) -> System:
        rng = self.rng
        rows = [row.name for _, row in system.rows()]

        def under() -> Any:
            every = list(Fairness)
            if self.parts.consumes:
                return (Fairness.CONSUMED, *rng.sample(every[:3], rng.choice((0, 1))))
            return rng.choice((rng.choice(every), tuple(rng.sample(every, 2)), tuple(every),
                               (Fairness.TIMERS, Fairness.DETECTORS)))

        def makers() -> Iterator[Callable[[], Any]]:
            free = self.variables
            yield lambda: Always("always", self.claim(*free()))
            yield lambda: Always("guarded", implies(self.claim(*free()), self.claim(*free())))
            yield lambda: Always("both", all_of(self.claim(*free()), self.claim()),
                                 by=rng.choice(((), ("always",), ("always", "guarded"))))
            yield lambda: Sometimes("sometimes", self.claim(*free()))
            yield lambda: OnRow("on_row", rng.choice(rows), self.claim(*free()))
            yield lambda: LeadsTo("leads_to", self.claim(*free()), self.claim(*free()), "",
                                  under())
            yield lambda: Drains("drains", self.claim(), under=under())

        for make in makers():
            if rng.random() < 0.8:
                with suppress(RefusedError):
                    system = self.tried(lambda make=make, system=system: replace(  # type: ignore[misc]  # those of now
                        system, properties=(*system.properties, make())))
        return system

    # Edits

    def edited(self, system: System) -> System:
        """The system after a few edits that find what they change."""
        for _ in range(self.rng.choice((1, 2, 3))):
            with suppress(SpecError, IndexError):
                system = edited(system, "edited", self.edit(system))
        return system

    def edit(self, system: System) -> Any:
        rng, parts = self.rng, self.parts
        table, row = rng.choice(list(system.rows()))
        kind = rng.randrange(12)
        scope = table.parameters(row)
        own: Own = () if table.machine.world else table.machine.own
        clause = parts.formula(scope, self.symbols(table.machine), own, 1)
        if kind == 0:
            return DropRow(row.name)
        if kind == 1:
            return ReplaceRow(row.name, self.row(table))
        if kind == 2:
            return AddRow(table.machine, self.row(table))
        if kind == 3:
            return DropClause(row.name, rng.choice(row.conditions))
        if kind == 4:
            return AddClause(row.name, clause)
        if kind == 5:
            return DropEffect(row.name, rng.choice([*row.do, *row.send]))
        if kind == 6:
            effects = [*self.updates(table, scope), *self.sends(table, scope)]
            return AddEffect(row.name, rng.choice(effects))
        if kind == 7 and table.state is not None:
            values = table.state.values
            return Retarget(row.name, rng.choice((None, rng.choice(values))), rng.choice(values))
        if kind == 8:
            return ReplaceProperties(tuple(rng.sample(
                system.properties, len(system.properties) - 1)))
        if kind == 9:
            return AddProperty(Always("added", self.claim(*self.variables())))
        if kind == 10:
            return DropProperty(rng.choice([*system.properties]).name)
        return AddFaults("more", *self.faults("more"))

