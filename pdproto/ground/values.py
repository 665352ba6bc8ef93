"""The values that an update can assign, each with the condition under which it does."""

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

from pdproto.ground.program import Literal
from pdproto.spec.language.computed import alternatives, copied
from pdproto.spec.language.formula import Formula, all_of
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sizes, Update

Environment: TypeAlias = Mapping[Sort, int]
Choice: TypeAlias = tuple[Formula, Environment, tuple[Literal, ...]]


class Assigning(Protocol):
    """A ground system, as far as it makes literals of assignments."""

    @property
    def sizes(self) -> Sizes:
        """Of each sort."""

    def assigned(self, update: Update, environment: Environment) -> Iterator[Literal]:
        """The literals that an update of a constant makes true."""


def values_of(ground: Assigning, update: Update, environment: Environment) -> Iterator[Choice]:
    """The values where the update's `where` holds: a condition, its elements, and the literals.

    In each state in which `where` holds, one of the conditions does, and no two.
    """
    copy = copied(update)
    if copy is None:
        for conditions, one in alternatives(update):
            literals = () if one is None else tuple(ground.assigned(one, environment))
            yield all_of(update.where, *conditions), environment, literals
        return
    cleared = tuple(ground.assigned(copy.cleared, environment))
    for i in range(ground.sizes[type(copy.element)]):
        inner = {**environment, copy.element: i}
        yield (all_of(update.where, copy.alone), inner,
               (*cleared, *ground.assigned(copy.assigned, inner)))
    yield all_of(update.where, copy.none), environment, cleared
