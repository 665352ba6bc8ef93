"""The initial states of a ground system: every assignment of the variables with `init=ANY` that
satisfies `init=` of the system, with all other variables at their one initial value.

The formula is made a decision diagram, and its paths, which exclude each other, are filled up with
the values of the cells that they leave open.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, product
from typing import Final, Protocol

from pdproto.ground.diagram_of import Grounds, diagram_of
from pdproto.ground.diagrams import Diagrams, TooManyNodesError
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
    at = at_sizes({sort: sizes[sort] for sort in system.sorts})
    diagrams = Diagrams()
    try:
        paths = diagrams.paths(
            diagram_of(ground, diagrams, normal(And(system.starts)), {}), STARTS_MAX)
    except TooManyNodesError:
        paths = None
    states = chain.from_iterable(_filled(path, choices) for path in paths or ())
    found = sorted(islice(states, STARTS_MAX + 1))
    if paths is None or len(found) > STARTS_MAX:
        raise TooLargeError(f"over {STARTS_MAX:,} initial states at {at}, or a formula of init= "
                            "that is too large to list them: say more of them in init=")
    if not found:
        raise SpecError(system.place, f"init: no state satisfies it at {at}: drop a part of init=, "
                                      "or choose other sizes")
    return tuple(found)


def _filled(
    path: tuple[Literal, ...], choices: dict[int, list[Literal]]
) -> Iterator[int]:
    """The states on a path: every choice of the cells that it does not name."""
    named = {literal.mask for literal in path}
    known = sum(literal.value for literal in path)
    rest: Sequence[list[Literal]] = [each for mask, each in choices.items() if mask not in named]
    for chosen in product(*rest):
        yield known + sum(literal.value for literal in chosen)
