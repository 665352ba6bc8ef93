"""The initial states of a ground system: every assignment of the variables with `init=ANY` that
satisfies `init=` of the system, with all other variables at their one initial value.

The formula is made a decision diagram, and its paths, which exclude each other, are filled up with
the values of the cells that they leave open.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, product
from typing import Final, Protocol

from pdproto.ground.decisions import NO
from pdproto.ground.diagram_of import Grounds, diagram_of
from pdproto.ground.diagrams import Diagram, Diagrams, TooManyNodesError
from pdproto.ground.layout import TooLargeError, at_sizes, cells
from pdproto.ground.program import Literal
from pdproto.spec.language.formula import And, normal
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import System

STARTS_MAX: Final = 1_000_000  # initial states: they take some seconds to list


class GroundSystem(Grounds, Protocol):
    """A system at given sizes, as grounding.py:Ground has it."""

    @property
    def system(self) -> System:
        """The system."""


def starts(ground: GroundSystem) -> tuple[int, ...]:
    """The initial states in ascending order.

    Raises SpecError where none satisfies `init=`, and TooLargeError above STARTS_MAX of them.
    """
    system, layout, sizes = ground.system, ground.layout, ground.layout.sizes
    free = tuple(symbol for symbol in layout.symbols if symbol.starts_free)
    if not free and system.init is None:
        return (0,)
    choices = {
        layout.field(*cell).mask: [layout.literal(*cell, value) for value in cell[0].values]
        for cell in cells(free, sizes)}
    diagrams = Diagrams()
    try:
        paths = diagrams.paths(_init(ground, diagrams), STARTS_MAX)
    except TooManyNodesError:
        paths = None
    states = chain.from_iterable(_filled(path, choices) for path in paths or ())
    found = sorted(islice(states, STARTS_MAX + 1))
    if paths is None or len(found) > STARTS_MAX:
        raise TooLargeError(f"over {STARTS_MAX:,} initial states at {_at(ground)}, or a formula of "
                            "init= that is too large to list them: say more of them in init=")
    if not found:
        raise SpecError(system.place, why_no_start(ground))
    return tuple(found)


def why_no_start(ground: GroundSystem) -> str:
    """Why there is no initial state; "" if there is one, or the formula is too large to tell."""
    if ground.system.init is None:
        return ""
    with suppress(TooManyNodesError):
        if _init(ground, Diagrams()) == NO:
            return (f"init: no state satisfies it at {_at(ground)}: drop a part of init=, or "
                    "choose other sizes")
    return ""


def _init(ground: GroundSystem, diagrams: Diagrams) -> Diagram:
    return diagram_of(ground, diagrams, normal(And(ground.system.starts)), {})


def _at(ground: GroundSystem) -> str:
    return at_sizes({sort: ground.layout.sizes[sort] for sort in ground.system.sorts})


def _filled(
    path: tuple[Literal, ...], choices: dict[int, list[Literal]]
) -> Iterator[int]:
    """The states on a path: every choice of the cells that it does not name."""
    named = {literal.mask for literal in path}
    known = sum(literal.value for literal in path)
    rest: Sequence[list[Literal]] = [each for mask, each in choices.items() if mask not in named]
    for chosen in product(*rest):
        yield known + sum(literal.value for literal in chosen)
