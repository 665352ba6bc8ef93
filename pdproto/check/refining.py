"""Refinement: is each step of a system one of the abstract system, or a stutter (refines.py)?

The states of a finished search are mapped to states of the abstract system, and the pairs at the
ends of edges are compared with its rows. So a pair is judged once, however many edges have it. The
search must not rename elements: an edge would then end in another state than its row leads to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Engine, Flags, Positions
from pdproto.check.explore import Exploration
from pdproto.check.graph import Graph, Walk
from pdproto.ground.grounding import Environment, Ground, GroundRow
from pdproto.ground.layout import cell_name
from pdproto.ground.program import WORD_BITS, Guard
from pdproto.spec.language.formula import negated, normal
from pdproto.spec.language.refines import Refines

AT_ONCE: Final = 1 << 17  # states whose edges are looked at together
UNFIT: Final = "no value"


@dataclass(frozen=True, slots=True)
class Broken:
    """A shortest run whose last step no row of the abstract system takes, and this step in words.

    start: the initial state. rows: none if it is mapped to no initial one of the abstract system.
    """

    start: int
    rows: tuple[GroundRow, ...]
    told: str


def refinements(ground: Ground, *claims: Refines) -> list["Refinement"]:
    """The claims, or all of the system, each for every choice of elements."""
    return [Refinement(ground, claim, over) for claim in claims or ground.system.refinements
            for over in ground.environments(claim.over)]


class Refinement:
    """A claim of refinement about one ground system, for the elements of its `over` variables."""

    def __init__(self, ground: Ground, claim: Refines, over: Environment) -> None:
        of = claim.abstract
        self.claim: Final = claim
        self.over: Final = over
        self.abstract: Final = Ground(
            of, ground.sizes, tuple(of.faults), {one: ground.given[one] for one in of.rigids})
        self._bits: Final[list[tuple[int, tuple[Guard, ...]]]] = []
        self._unfit: Final[dict[int, str]] = {}
        self._after: Final[dict[int, frozenset[int]]] = {}
        self._starts: Final = frozenset(self.abstract.initial)
        layout = self.abstract.layout
        for mapped in claim.mapped:
            for cell in ground.environments(mapped.arguments):
                at, env = tuple(cell.values()), {**over, **cell}
                for value, formula in mapped.values:
                    bits = layout.literal(mapped.symbol, at, value).value
                    self._bits.append((bits, tuple(ground.patterns(normal(formula), env))))
                if unfit := tuple(ground.patterns(negated(mapped.fits), env)):
                    bits = 1 << layout.bits + len(self._unfit)
                    self._unfit[bits] = cell_name(mapped.symbol, at)
                    self._bits.append((bits, unfit))

    @property
    def watched(self) -> Iterator[Guard]:
        """The guards that are evaluated after the search."""
        for _, guards in self._bits:
            yield from guards

    def image(self, state: int) -> int:
        """The abstract state of a state, with a bit more for each cell without a value."""
        return sum(bits for bits, guards in self._bits if any(one.holds(state) for one in guards))

    def allows(self, before: int, after: int) -> bool:
        """Whether the abstract system may go from one of its states to the other, or they are one.
        """
        if before == after:
            return True
        if before not in self._after:
            self._after[before] = frozenset(
                row.action.apply(before) for row in self.abstract.rows
                if row.action.guard.holds(before))
        return after in self._after[before]

    def told(self, before: int, after: int) -> str:
        """A step that the abstract system cannot take, in words."""
        return f"{self._changes(before, after)}, which no row of {self.claim.abstract.name} does"

    def starts(self, image: int) -> str:
        """Why the image of an initial state is no initial state; empty if it is one."""
        if image in self._starts:
            return ""
        first = self.abstract.initial[0]
        return (f"at the start {self._changes(first, image)}, which is no initial state of "
                f"{self.claim.abstract.name}")

    def _changes(self, before: int, after: int) -> str:
        layout = self.abstract.layout
        told = [f"{cell_name(symbol, at)} goes from {old} to {new}"
                for symbol, at, (old, new) in layout.texts(before, after) if old != new]
        for ends in ((before, after), (after, before)):
            gone = dict.fromkeys(layout.on_network(ends[0])).keys() - {*layout.on_network(ends[1])}
            word = "is lost" if ends[0] == before else "is sent"
            told += sorted(f"{cell_name(*one)} {word}" for one in gone)
        told += [f"{name} has {UNFIT} of its range" for bits, name in self._unfit.items()
                 if after & ~before & bits]
        return ", ".join(told)

    def images(self, engine: Engine) -> tuple[NDArray[np.int64], list[int]]:
        """[states]: the number of the abstract state of each; and the abstract states."""
        words = -(-(self.abstract.layout.bits + len(self._unfit)) // WORD_BITS) or 1
        codes = np.zeros((engine.states, words), np.uint64)
        for bits, guards in self._bits:
            where: Flags = np.zeros(engine.states, bool)
            for guard in guards:
                where |= engine.where(guard)
            for word in range(words):
                part = bits >> word * WORD_BITS & (1 << WORD_BITS) - 1
                if part:
                    codes[where, word] |= np.uint64(part)
        kinds, numbers = np.unique(codes, axis=0, return_inverse=True)
        states = [sum(int(part) << i * WORD_BITS for i, part in enumerate(one)) for one in kinds]
        return numbers.reshape(-1).astype(np.int64), states

    def broken(self, found: Exploration) -> tuple[Broken | None, bool]:
        """A shortest run that breaks the claim; and whether the abstract system ever moves."""
        engine = found.engine
        images, states = self.images(engine)
        starts = found.starts()
        for start in starts:
            if wrong := self.starts(states[images[start]]):
                return Broken(self._state(found, start), (), wrong), True
        bad = np.zeros(engine.states, bool)
        judged: dict[int, bool] = {}
        for begin in range(0, engine.states, AT_ONCE):
            positions = np.arange(begin, min(begin + AT_ONCE, engine.states))
            edges = engine.edges(positions)
            sources = np.repeat(positions, np.diff(edges.starts))
            pairs = images[sources] * len(states) + images[edges.targets.astype(np.int64)]
            for pair in map(int, np.unique(pairs)):
                if pair not in judged:
                    judged[pair] = self.allows(*(states[i] for i in divmod(pair, len(states))))
                if not judged[pair]:
                    bad[sources[pairs == pair]] = True
        return self._first(found, starts, bad, images, states), len(states) > 1

    @staticmethod
    def _state(found: Exploration, start: int) -> int:
        return found.program.start(found.engine.state(found.engine.identity(start)))

    def _first(
        self, found: Exploration, starts: Positions, bad: Flags, images: NDArray[np.int64],
        states: list[int],
    ) -> Broken | None:
        """A shortest run to a bad state, with its bad step."""
        if not bad.any():
            return None
        rows = found.ground.rows
        graph = Graph(found.engine, np.ones(len(rows), bool))
        walk = Walk(graph, np.ones(graph.states, bool))
        frontier = walk.begin(starts)
        while not bad[frontier].any():
            frontier = walk.advance(frontier)
        end = int(frontier[bad[frontier]].min())
        ways = graph.out(np.array([end]))
        for row, target in zip(ways.rows, ways.targets, strict=True):
            before, after = states[images[end]], states[images[target]]
            if not self.allows(before, after):
                back = walk.back(end)
                steps = (*(step.row for step in back), int(row))
                start = self._state(found, back[0].source if back else end)
                return Broken(start, tuple(rows[one] for one in steps), self.told(before, after))
        raise AssertionError("a bad state without a bad step")
