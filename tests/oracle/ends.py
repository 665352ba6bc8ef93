"""Whether a formula reads a place that its list does not have."""

from collections.abc import Callable, Mapping
from typing import Any

from pdproto.spec.language.formula import And, Exists, Forall, Formula, Not, Or
from pdproto.spec.language.sequences import Needing
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.terms import Comparison


def passes_an_end(
    holds: Callable[[Formula, Any, Any], bool], sizes: Mapping[type[Sort], int], formula: Formula,
    cells: Any, env: Any,
) -> bool:
    """Whether a part that is read does; the parts are read in order, up to the one that decides."""
    def passes(part: Formula, env: Any) -> bool:
        match part:
            case Needing():
                return not holds(part.needs, cells, env)
            case Comparison():
                return False  # of its terms, which are numbers
            case Not():
                return passes(part.part, env)
            case And() | Or():
                for one in part.parts:
                    if passes(one, env):
                        return True
                    if holds(one, cells, env) == isinstance(part, Or):
                        return False
            case Forall() | Exists():
                return any(passes(part.body, env | {part.variable: i})
                           for i in range(sizes[type(part.variable)]))
        return False

    return passes(formula, env)
