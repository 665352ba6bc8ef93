"""The parts of a random system: sorts, machines, variables, messages, and formulas over them."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pdproto.spec.language import (
    ANY,
    FALSE,
    TRUE,
    Formula,
    Machine,
    Message,
    Rigid,
    Sizes,
    Sort,
    State,
    Tuples,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
    majorities,
)
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.symbols import Function, Relation

Own = tuple[Sort, ...]


class Phase(State):
    IDLE = auto()
    BUSY = auto()
    DONE = auto()


class Mode(State):
    OFF = auto()
    ON = auto()


class Parts:
    """The sorts, machines and symbols of one system; each system has its own."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

        class Alpha(Sort):
            """Processes, mostly."""

        class Beta(Sort, prefix="item"):
            """What processes hold."""

        class Place(Sort, ordered=True):
            """Of channels."""

        class Group(Sort, of=Alpha, sets=majorities):
            """Sets of processes."""

        self.sizes: dict[type[Sort], int] = {
            Alpha: rng.choice((1, 2, 2, 2, 3)), Beta: rng.choice((1, 2, 2))}
        turns = rng.choice((1, 2, 2))
        self.turn = self.turns(turns)
        self.sizes |= {self.turn: self.turn.own_size() or turns, Place: rng.choice((1, 2))}
        self.alpha, self.beta = Alpha, Beta
        self.place, self.group = Place, Group
        self.with_groups = rng.random() < 0.2
        # Where delivery takes messages off the network, no row reads those that it has sent.
        self.consumes = rng.random() < 0.5
        # Machines, and what each of them may read and write.
        self.peers = Machine("peer", Alpha("a"))
        self.hub = Machine("hub")
        self.desk = Machine("desk", Beta("i"))
        self.pair = Machine("pair", Alpha("a"), Beta("i"))
        self.keeper = Machine("keeper", host=True)
        self.weather = Machine("weather", world=True)
        self.device = Machine("device", Alpha("a"))
        self.machines: list[Machine[*tuple[Any, ...]]] = [self.peers, *rng.sample(
            [self.hub, self.desk, self.pair, self.keeper, self.weather, self.device],
            rng.choice((1, 1, 2)))]
        self.states: dict[Machine[*tuple[Any, ...]], Function[Any, *tuple[Any, ...]]] = {}
        self.variables: list[Any] = []
        self.messages: list[Message[*tuple[Any, ...]]] = []
        self.rigids: list[Any] = []
        for machine in self.machines:
            self._declare(machine)
        if self.device in self.machines:
            self._share()
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            self._declare_message()
        if rng.random() < 0.35:
            self._declare_rigid()

    def turns(self, _: int) -> type[Sort]:
        """The ordered sort, of so many elements."""
        class Turn(Sort, ordered=True):
            """An order."""

        return Turn

    def computed(self, _sort: type[Sort], _scope: Own, _symbols: Sequence[Any], _own: Own) -> Any:
        """An argument that is no variable; None for a variable."""
        return None

    # Declarations

    def _declare(self, machine: Machine[*tuple[Any, ...]]) -> None:
        rng, name = self.rng, machine.name
        if rng.random() < 0.85:
            values = rng.choice((Phase, Mode))
            edges = None
            if rng.random() < 0.25:
                edges = {one: tuple(rng.sample(list(values), rng.choice((0, 1, 2))))
                         for one in rng.sample(list(values), rng.choice((1, len(values))))}
            first = rng.choice((None, *values)) if rng.random() < 0.3 else None
            state: Any = machine.function(f"{name}_state", values, edges=edges, init=first)
            self.states[machine] = state
            self.variables.append(state)
        for number in range(rng.choice((0, 1, 1, 2))):
            sorts = rng.sample([self.alpha, self.beta, self.turn], rng.choice((0, 1, 1)))
            kind = rng.random()
            if kind < 0.55:
                relation: Any = machine.relation
                self.variables.append(
                    relation(f"{name}_r{number}", *sorts, init=rng.random() < 0.25))
            elif kind < 0.85:
                function: Any = machine.function
                value = rng.choice((self.alpha, self.beta, self.turn))
                self.variables.append(function(f"{name}_f{number}", value, *sorts[:1]))
            else:
                function = machine.function
                self.variables.append(function(f"{name}_e{number}", Mode, *sorts[:1]))

    def _share(self) -> None:
        """A variable of the peers in which the device writes some of the values."""
        if self.rng.random() < 0.5:
            landed = self.peers.relation("landed")
            landed.shared_with(self.device, [True])
            self.variables.append(landed)
            return
        copying = self.peers.function("copying", Phase)
        copying.shared_with(self.device, [Phase.DONE])
        self.variables.append(copying)

    def _declare_message(self) -> None:
        rng = self.rng
        sender = rng.choice([m for m in self.machines if not m.world] or [self.peers])
        receiver = rng.choice([m for m in self.machines if m is not self.weather])
        formals: list[Sort] = list(sender.own)
        there: Any = receiver
        fifo = self.place if rng.random() < (0.15 if self.consumes else 0.4) else None
        if receiver.own and (fifo or rng.random() < (0.2 if self.consumes else 0.6)):
            own = tuple(type(v)(f"{v.name}_to") for v in receiver.own)
            there = receiver.at(*own)
            formals += own
        elif set(receiver.own) & set(formals):
            own = tuple(type(v)(f"{v.name}_to") for v in receiver.own)
            there = receiver.at(*own)
        if rng.random() < 0.4:
            formals.append(rng.choice((self.beta("p"), self.turn("p"))))
        carried = [v for v in self.variables if v.owner is sender and isinstance(v, Relation)]
        carries = carried[:1] if fifo is None and rng.random() < 0.3 else []
        self.messages.append(Message(
            f"m{len(self.messages)}", *formals, sender=sender, receiver=there, carries=carries,
            reliable=rng.random() < 0.1, fifo=fifo))

    def _declare_rigid(self) -> None:
        rng = self.rng
        a, b = rng.choice(((self.alpha("x"), self.alpha("y")), (self.alpha("x"), self.beta("y"))))
        given: Callable[[Sizes], Tuples] | None = None
        if rng.random() < 0.5:
            sorts = type(a), type(b)
            given = lambda sizes: [  # noqa: E731 - a function of the sizes, as in a spec
                (i, (i + 1) % sizes[sorts[1]]) for i in range(sizes[sorts[0]])]
        visible = [self.peers] if rng.random() < 0.2 else []
        self.rigids.append(Rigid("linked", a, b, given=given, visible_to=visible))
        if self.with_groups:
            self.rigids.append(
                Rigid("member", self.group("g"), self.alpha("x"), given=self.group.members))

    # Formulas

    def fresh(self, sort: type[Sort], taken: Sequence[Sort]) -> Sort:
        """A variable of the sort whose name no other variable has."""
        names = {v.name for v in taken}
        letter = {self.alpha: "b", self.beta: "j", self.turn: "t", self.place: "s",
                  self.group: "g"}[sort]
        return sort(next(f"{letter}{n}" for n in range(99) if f"{letter}{n}" not in names))

    def formula(self, scope: Own, symbols: Sequence[Any], own: Own, depth: int = 2) -> Formula:
        """A formula with free variables of the scope.

        own: the first arguments of a cell of the machine that has these variables.
        """
        rng = self.rng
        kind = rng.random()
        if depth == 0 or kind < 0.45:
            return self.literal(scope, symbols, own)
        if kind < 0.6:
            return ~self.formula(scope, symbols, own, depth - 1)
        if kind < 0.78:
            one, two = (self.formula(scope, symbols, own, depth - 1) for _ in range(2))
            return rng.choice((one & two, one | two, implies(one, two), all_of(one, two),
                               any_of(one, two)))
        if kind < 0.98:
            sort = rng.choice((self.alpha, self.beta, self.turn))
            variable = self.fresh(sort, scope)
            body = self.formula((*scope, variable), symbols, own, depth - 1)
            return rng.choice((forall, exists))(variable, body)
        return rng.choice((TRUE, FALSE))

    def literal(self, scope: Own, symbols: Sequence[Any], own: Own) -> Formula:
        """An atom: about a cell, a message, a rigid relation, or the identity of variables."""
        rng = self.rng
        twins = [(x, y) for x in scope for y in scope if type(x) is type(y) and x != y]
        if twins and rng.random() < 0.3:
            x, y = rng.choice(twins)
            if x.ordered and rng.random() < 0.6:
                return x.before(y)
            return rng.choice((x.same, x.differs))(y)
        if not symbols:
            return TRUE
        symbol = rng.choice(symbols)
        bound: list[Sort] = []

        def choose(sort: type[Sort]) -> Sort:
            here = [v for v in (*scope, *bound) if type(v) is sort]
            if here and rng.random() < 0.85:
                return rng.choice(here)
            bound.append(self.fresh(sort, (*scope, *bound)))
            return bound[-1]

        arguments = self.arguments(symbol, own, choose)
        body = self._about(symbol, arguments, choose)
        for variable in reversed(bound):
            body = rng.choice((forall, exists))(variable, body)
        return body

    def arguments(
        self, symbol: Any, own: Own, choose: Callable[[type[Sort]], Sort]
    ) -> tuple[Sort, ...]:
        """Variables for the symbol; those of the machine itself come first where they fit."""
        domain = symbol.domain
        first = own if tuple(type(v) for v in own) == domain[: len(own)] and (
            isinstance(symbol, Function | Relation | ElementFunction)) else ()
        return (*first, *(choose(sort) for sort in domain[len(first):]))

    def _about(
        self, symbol: Any, arguments: tuple[Sort, ...], choose: Callable[[type[Sort]], Sort]
    ) -> Formula:
        rng = self.rng
        applied = symbol(*arguments)
        if isinstance(symbol, Message) and symbol.fifo is not None:
            place = self.rng.random()
            if place < 0.35:
                return applied.queued  # type: ignore[no-any-return]  # of any message
            if place < 0.7:
                return applied.arrived  # type: ignore[no-any-return]  # as above
            return applied.at(choose(symbol.fifo))  # type: ignore[no-any-return]  # as above
        if isinstance(symbol, ElementFunction):
            return self._about_element(symbol, applied, choose)
        if isinstance(symbol, Function):
            one, two = rng.choice(symbol.values), rng.choice(symbol.values)
            found: list[Formula] = [applied == one, applied != one, applied.among(one, two)]
            return rng.choice(found)
        return applied  # type: ignore[no-any-return]  # a relation, a message or a rigid relation

    def _about_element(
        self, symbol: Any, applied: Any, choose: Callable[[type[Sort]], Sort]
    ) -> Formula:
        rng = self.rng
        sort = symbol.sorts[-1]
        others = [s for s in self.variables if isinstance(s, ElementFunction)
                  and s.sorts[-1] is sort and s.domain == symbol.domain]
        kind = rng.random()
        if kind < 0.35:
            found: Any = rng.choice((applied.unset, applied.is_set))
        elif kind < 0.5:
            found = applied.same(rng.choice(others)(*applied.arguments))
        elif sort.ordered and kind < 0.75:
            found = rng.choice((applied.before, applied.after))(choose(sort))
        elif kind < 0.85:
            found = rng.choice((applied == choose(sort), applied != choose(sort)))
        else:
            found = applied.among(choose(sort), choose(sort))
        return found  # type: ignore[no-any-return]  # each of these is a formula

    # Effects

    def update(self, scope: Own, symbol: Any, own: Own) -> list[Any]:
        """An update of a cell or of many; sometimes a second one for fewer cells behind it."""
        rng = self.rng

        mine = [v for v in self.variables if v.owner is symbol.owner]

        def named(sort: type[Sort]) -> Sort:
            here = [v for v in scope if type(v) is sort]
            found = self.computed(sort, scope, mine, own)
            return found if found is not None else rng.choice(here) if here else ANY

        arguments = self.arguments(symbol, own, named)
        update = self._moved(symbol, arguments, scope)
        free = range(len(own), len(arguments))
        if update is None or not free:
            return [] if update is None else [update]
        kind = rng.random()
        if kind < 0.3:
            variables = [self.fresh(symbol.domain[n], scope) for n in free[:1]]
            wide = list(arguments)
            wide[free[0]] = variables[0]
            symbols = [s for s in self.variables if s.owner is symbol.owner]
            where = self.formula((*scope, *variables), symbols, own, depth=1)
            moved = self._moved(symbol, tuple(wide), scope)
            many: Any = each(variables[0] if rng.random() < 0.5 else tuple(variables), moved,
                             where=where)
            return [many, update] if rng.random() < 0.3 else [many]
        if kind < 0.5:
            wide = [ANY if n in free else v for n, v in enumerate(arguments)]
            return [self._moved(symbol, tuple(wide), scope), update]
        return [update]

    def _moved(self, symbol: Any, arguments: tuple[Any, ...], scope: Own) -> Any:
        rng = self.rng
        cell = symbol(*arguments)
        if isinstance(symbol, ElementFunction):
            values = [v for v in scope if type(v) is symbol.sorts[-1]]
            return cell.to(rng.choice(values)) if values and rng.random() < 0.75 else cell.clear()
        if isinstance(symbol, Function):
            return cell.to(rng.choice(symbol.values))
        return cell.to(rng.random() < 0.65)
