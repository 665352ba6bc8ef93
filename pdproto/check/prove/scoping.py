"""Moves quantifiers as far inside a formula as possible.

The cut-off weakens an `exists` under a `forall` (cutoff.py). So a part that does not depend on the
outer variable should not be under its quantifier.
"""

from collections.abc import Iterator, Sequence

from pdproto.spec.language.formula import And, Formula, exists, free_variables, negated
from pdproto.spec.language.sorts import Sort


def exists_within(variables: Sequence[Sort], formula: Formula) -> Formula:
    """`exists` of the variables, each only over the conjuncts that depend on it.

    The variable with the fewest conjuncts becomes the innermost one.
    """
    parts = tuple(conjuncts(formula))
    left = list(variables)
    while left:
        inner = min(left, key=lambda v: sum(v in free_variables(part) for part in parts))
        left.remove(inner)
        about = tuple(part for part in parts if inner in free_variables(part))
        parts = (
            *(part for part in parts if part not in about),
            *((exists(inner, And(about)),) if about else ()),
        )
    return And(parts)


def forall_within(variables: Sequence[Sort], formula: Formula) -> Formula:
    """`forall` of the variables, each only over the alternatives that depend on it."""
    return negated(exists_within(variables, negated(formula)))


def conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts of nested conjunctions."""
    match formula:
        case And(parts):
            for part in parts:
                yield from conjuncts(part)
        case _:
            yield formula
