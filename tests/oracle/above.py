"""Refinement by the interpreter: states of the system above, and steps that it does not have."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pdproto.spec.language.refines import Refines
from pdproto.spec.language.symbols import Update
from tests.oracle.interpreter import Cells, Env, Given, Interpreter, PastEndError, State, initial
from tests.oracle.search import Graph, Verdict, starts

MOST = 1_000  # initial states
NO_STATE: State = frozenset({(("a cell with no value, or with two", ()), None)})


class Mapped(Interpreter):
    """Reads values of a mapping. Whether a condition in one reads a list past its end is a claim of
    its own, with a verdict of its own.
    """

    def _side(self, chosen: Any, cells: Cells, env: Env) -> Any:
        return chosen.yes if self.holds(chosen.where, cells, env) else chosen.no


class Above:
    """The system that another one refines, at the sizes of the other."""

    def __init__(self, graph: Graph, claim: Refines, over: Env) -> None:
        self.graph, self.claim, self.over = graph, claim, over
        below, self.system = graph.reader, claim.abstract
        given: Given = below.given
        self.below = Mapped(below.system, below.sizes, (), given)
        self.reader = Interpreter(self.system, below.sizes, tuple(self.system.faults), given)
        self._steps: dict[State, set[State]] = {}

    def image(self, state: State) -> State:
        """The state above; none where a value is an element past the end of a list."""
        found: Cells = {}
        for update in self.claim.mapping:
            with suppress(PastEndError):
                if self._assign(update, dict(state), found):
                    continue
            return NO_STATE
        return frozenset((cell, value) for cell, value in found.items()
                         if value != initial(cell[0]))

    def _assign(self, update: Update, cells: Cells, found: Cells) -> bool:
        """Give each cell of the variable its value; False where one has none, or two."""
        below = self.below
        for cell in below.choices(update.arguments):
            env = self.over | cell
            if below.holds(update.where, cells, env):
                one: Cells = {}
                if not below._assign(update, env, cells, one) or one.keys() & found.keys():
                    return False
                found |= one
        return True

    def is_bad(self, before: State, after: State) -> bool:
        """Whether no step above leads from the one image to the other, which differs."""
        old, new = self.image(before), self.image(after)
        if old == new:
            return False
        if NO_STATE in (old, new):
            return True
        if old not in self._steps:
            self._steps[old] = {state for _, state in self.reader.successors(old)}
        return new not in self._steps[old]

    def starts_wrong(self, state: State) -> bool:
        """Whether the image of an initial state is none."""
        return self.image(state) not in starts(self.reader, MOST)

    def verdict(self) -> Verdict:
        """The verdict, with the length of a shortest run to a bad step, the step included."""
        if any(self.starts_wrong(state) for state in starts(self.graph.reader, MOST)):
            return Verdict(True, 0)
        bad = [self.graph.depth[state] + 1 for state, moves in self.graph.moves.items()
               if any(self.is_bad(state, after) for _, after in moves)]
        return Verdict(bool(bad), min(bad, default=None))

    def wrong_end(self, states: list[State]) -> str:
        """What is wrong with a run that is told to break the claim."""
        if len(states) == 1:
            return "" if self.starts_wrong(states[0]) else "it starts as it should"
        return "" if self.is_bad(states[-2], states[-1]) else "its last step is one above"


def jointly(graph: Graph, claim: Refines) -> Verdict:
    """The verdict for all elements."""
    found = [Above(graph, claim, over).verdict() for over in graph.reader.choices(claim.over)]
    return Verdict(any(one.violated for one in found),
                   min((one.length for one in found if one.length is not None), default=None))


def refinements(properties: tuple[Any, ...]) -> Mapping[str, Refines]:
    """The claims of refinement, by name."""
    return {claim.name: claim for claim in properties if isinstance(claim, Refines)}
