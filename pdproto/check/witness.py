"""The last look at a run before it is drawn: the plain interpreter takes it, to its end.

A search works on masks, on swept and renamed states, and in C. So each run that a report shows is
taken once more by interpret.py, which knows the tables only: each row can fire and leads where the
search says, and the end is what the report claims. It violates the property for the elements that
are named, or no row of the protocol changes it, or the loop closes and leaves out no fair row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pdproto.check.interpret import Cell, Interpreter, Store
from pdproto.check.liveness import is_fair, unit_of
from pdproto.check.questions import (
    BUSY,
    PEERS,
    LeadsToInstance,
    Question,
    instance_text,
    sends_unasked,
)
from pdproto.check.runs import NoRunError, RealRun
from pdproto.ground.grounding import Environment, Ground, GroundRow
from pdproto.ground.layout import cell_name, value_name
from pdproto.spec.language.formula import Or, Value, free_variables
from pdproto.spec.language.properties import Always, Fairness, OnRow, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.symbols import Message, Variable


class Witness:
    """Takes runs of one ground system by the interpreter.

    A method returns what is wrong with a run, in one line; empty if it shows what it should.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground: Final = ground
        marks = ground.deliveries.marks if ground.consume else None
        self._book: Final = Interpreter(
            ground.system, ground.sizes, ground.faults, ground.given, marks)
        units = {unit_of(row): row for row in ground.rows}
        self._rows: Final = tuple(units.values())

    def stores(self, moves: RealRun) -> list[Store]:
        """The states of the run. Raises NoRunError unless the interpreter takes each step."""
        stores = [self._store(moves.start)]
        if not self._book.is_initial(stores[0]):
            raise NoRunError("it begins in no initial state")
        for number, move in enumerate(moves, start=1):
            after = self._fired(move.row, stores[-1])
            if after is None:
                raise NoRunError(f"step {number}, {move.row}, cannot fire")
            if after != self._store(move.after):
                raise NoRunError(f"step {number}, {move.row}, leads to another state")
            stores.append(after)
        return stores

    def _store(self, state: int) -> Store:
        return frozenset((cell, value) for cell, value in self.ground.layout.decode(state).items()
                         if value != cell[0].values[0])

    def _fired(self, row: GroundRow, store: Store) -> Store | None:
        return self._book.fired(row.table, row.row, store, row.environment)

    def shows(self, moves: RealRun, question: Question, instance: str) -> str:
        """Whether the run ends where the property is violated, or seen, for these elements."""
        if instance in self._instances(question, self.stores(moves)[-1]):
            return ""
        return f"it does not show {question.name} for {instance or 'all elements'}"

    def _instances(self, question: Question, store: Store) -> Iterator[str]:
        """The elements for which a state violates a property, or is a witness of it."""
        claims = {claim.name: claim for claim in self.ground.system.properties}
        state = dict(store)
        match claims.get(question.name):
            case Always(claim=claim) | Sometimes(claim=claim):
                for env in self._book.environments(free_variables(claim)):
                    if self._book.holds(claim, state, env) != question.bad:
                        yield instance_text(env)
            case OnRow(row=name, claim=claim):
                for row in self._rows:
                    if row.row.name == name and self._fired(row, store) is not None:
                        extra = [v for v in free_variables(claim) if v not in row.environment]
                        for more in self._book.environments(tuple(extra)):
                            env = {**row.environment, **more}
                            if not self._book.holds(claim, state, env):
                                yield instance_text(env)
            case _:
                for row in self._rows:
                    after = self._fired(row, store)
                    if after is not None:
                        yield from self._misdeeds(question, row, state, dict(after))

    def _misdeeds(
        self, question: Question, row: GroundRow, state: Mapping[Cell, Value],
        after: Mapping[Cell, Value],
    ) -> Iterator[str]:
        """How an enabled row violates a property that follows from declarations."""
        if question.name == PEERS and row.row.kind == "reject":
            yield str(row)
        if question.name == BUSY and sends_unasked(row.table, row.row) and after == state:
            yield str(row)
        for symbol, at in state.keys() | after.keys():
            cell = symbol, at
            old = state.get(cell, symbol.values[0])
            new = after.get(cell, symbol.values[0])
            if old == new or not isinstance(symbol, Variable):
                continue
            if question.name == f"{symbol.name}_edges" and new not in (symbol.edges or {}).get(
                    old, ()):
                yield (f"{row}: {cell_name(*cell)} goes from {value_name(old)} to "
                       f"{value_name(new)}")
            for (message, sent), value in state.items():
                if (isinstance(message, Message) and value is True and symbol in message.carries
                        and question.name == f"{message.name}_carries"
                        and _sender(message, sent) == at[:len(message.sender.variables)]):
                    yield (f"{row} writes {cell_name(*cell)} after {cell_name(message, sent)} was "
                           "sent")

    def leaves(
        self, claim: Refines, over: Environment, moves: RealRun
    ) -> str:
        """Whether the run ends with a step that the abstract system does not take."""
        of = claim.abstract
        book = Interpreter(of, self.ground.sizes, tuple(of.faults), self.ground.given)
        *before, after = (self._mapped(claim, over, store) for store in self.stores(moves))
        if not before:
            return "it begins in an initial state of the abstract system" if (
                book.is_initial(after)) else ""
        if after == before[-1]:
            return "its last step changes nothing of the abstract system"
        taken = next((step for step, to in book.steps(before[-1]) if to == after), None)
        return "" if taken is None else f"{of.name} takes its last step, by {taken[0]}"

    def _mapped(self, claim: Refines, over: Environment, store: Store) -> Store:
        """The state of the abstract system; a cell without a value has an index more."""
        state, found = dict(store), set[tuple[Cell, Value]]()
        for mapped in claim.mapped:
            for chosen in self._book.environments(mapped.arguments):
                cell, env = (mapped.symbol, tuple(chosen.values())), {**over, **chosen}
                found |= {(cell, value) for value, formula in mapped.values
                          if self._book.holds(formula, state, env)}
                if not self._book.holds(mapped.fits, state, env):
                    found.add(((mapped.symbol, (*cell[1], -1)), False))
        return frozenset(found)

    def is_stuck(self, moves: RealRun) -> str:
        """Whether the run ends in a state that is not final, and that no row changes."""
        end = self.stores(moves)[-1]
        final = self.ground.system.final
        if final is not None and self._book.holds(final, dict(end), {}):
            return "it ends in a final state"
        return self._still_moves(end, [row for row in self._rows if not row.layer])

    def _still_moves(self, store: Store, rows: Sequence[GroundRow]) -> str:
        for row in rows:
            if self._fired(row, store) not in (None, store):
                return f"{row} changes the state in which it ends"
        return ""

    def never_reaches(
        self, obligation: LeadsToInstance, fairness: Fairness, moves: RealRun,
        loop: int | None,
    ) -> str:
        """Whether the run owes the goal, and stays so for ever, though fair rows fire.

        loop: the first step that repeats; None if the run is stuck.
        """
        stores = self.stores(moves)
        if not any(self._owes(obligation, env, stores) for env in self._environments(obligation)):
            return f"it does not owe {obligation.claim.name} for {obligation.instance}"
        fair = [row for row in self._rows if is_fair(row, fairness)]
        if loop is None:
            return self._still_moves(stores[-1], fair)
        if stores[loop] != stores[-1]:
            return "its loop does not close"
        if any(move.row.layer for move in moves[loop:]):
            return "a fault is in its loop"
        taken = {unit_of(move.row) for move in moves[loop:]}
        for row in fair:
            if unit_of(row) in taken:
                continue
            changes = [self._fired(row, store) not in (None, store) for store in stores[loop:]]
            if all(changes):
                return f"its loop leaves {row} out, which stays enabled and is fair"
            if row.row.is_strong and any(changes):
                return f"its loop leaves {row} out, which is enabled there and is strongly fair"
        return ""

    def _environments(self, obligation: LeadsToInstance) -> Iterator[Environment]:
        claim = obligation.claim
        for env in self._book.environments(free_variables(Or((claim.premise, claim.goal)))):
            if instance_text(env) == obligation.instance:
                yield env

    def _owes(
        self, obligation: LeadsToInstance, env: Environment, stores: Sequence[Store]
    ) -> bool:
        """Whether the premise holds in a state, and the goal neither there nor later."""
        for store in reversed(stores):
            if self._book.holds(obligation.claim.goal, dict(store), env):
                return False
            if self._book.holds(obligation.claim.premise, dict(store), env):
                return True
        return False


def _sender(message: Message, sent: tuple[int, ...]) -> tuple[int, ...]:  # type: ignore[type-arg]
    return tuple(sent[message.formals.index(v)] for v in message.sender.variables)
