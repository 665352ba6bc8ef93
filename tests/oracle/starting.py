"""The parts of a random system some of whose variables start with any value."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pdproto.spec.language import ANY, Formula, Int, Machine, System
from tests.oracle.numbers import NumberParts
from tests.oracle.parts import Mode

if TYPE_CHECKING:
    from tests.oracle.systems import Draw


class StartingParts(NumberParts):
    """Parts of which some start with any value."""

    def _declare(self, machine: Machine[*tuple[Any, ...]]) -> None:
        super()._declare(machine)
        rng, function = self.rng, machine.function
        for number in range(rng.choice((0, 1, 1))):
            sorts = rng.sample([self.alpha, self.beta, self.turn], rng.choice((0, 1)))
            values: Any = rng.choice((Mode, self.alpha, self.turn, Int(0, 2), bool))
            name = f"{machine.name}_any{number}"
            made: Any = machine.relation if values is bool else function
            self.variables.append(made(
                name, *(() if values is bool else (values,)), *sorts, init=ANY))


def with_init(draw: "Draw", system: System) -> System:
    """The system, perhaps with a formula about the initial states."""
    rng, parts = draw.rng, draw.parts
    free = [one for one in parts.variables if one.starts_free]
    if not free or rng.random() < 0.3:
        return system
    scope = rng.choice(((), (parts.alpha("a"),)))
    init: Formula = draw.tried(lambda: parts.formula(scope, [*free, *parts.rigids], ()))
    return replace(system, init=init)
