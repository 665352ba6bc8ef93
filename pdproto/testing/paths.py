"""A path through a system as a test: `pdproto explore` writes such tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pdproto.check.load import load
from pdproto.check.runs import Transition
from pdproto.check.stepping.walk import Walker, nth_walker
from pdproto.ground.layout import cell_name, value_name
from pdproto.spec.language.system import DEFAULT, Configuration, System

NO_SIZES: Final[Mapping[str, int]] = {}


@dataclass(frozen=True)
class Walked:
    """The end of a path. violated: the properties of single states that fail there."""

    walker: Walker
    moves: tuple[Transition, ...]

    @property
    def violated(self) -> list[str]:
        """The names of the properties that fail in the last state, in the order of `check`."""
        return self.walker.violated(self.walker.after(self.moves))

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Every variable and message of the last state, as traces show them."""
        values = self.walker.ground.layout.decode(self.walker.after(self.moves))
        return {cell_name(*cell): value_name(value) for cell, value in values.items()}


def walk(
    system: System | str,
    path: Sequence[str],
    *,
    configuration: Configuration | str = DEFAULT,
    sizes: Mapping[str, int] = NO_SIZES,
    faults: tuple[str, ...] | None = None,
    topology: int = 1,
) -> Walked:
    """Take the rows of the path, such as `ask(c0, r0)`, from an initial state.

    system: a system, or `module:attribute` or `file.py:attribute`. configuration: one, or its name.
    sizes: by the name of the sort; they and `faults` replace those of the configuration. topology:
    the number of the interpretation of the rigid relations and the initial state, from 1. Raises
    PathError at the first row that is not enabled, and the errors of `load`.
    """
    chosen = load(system) if isinstance(system, str) else system
    base = configuration
    if isinstance(base, str):
        base = chosen.configurations.get(base, Configuration(chosen.own_sizes))
    named = {sort.__name__: sort for sort in chosen.sorts}
    given = {**base.sizes, **{named[name]: size for name, size in sizes.items()}}
    used = replace(base, sizes=given, faults=base.faults if faults is None else faults)
    walker = nth_walker(chosen, used, topology)
    return Walked(walker, walker.follow(path))
