"""Symmetry reduction, derived from the layout: the renamings of elements that change nothing.

The language has no constants, so an unordered sort is interchangeable unless the interpretation of
a rigid symbol distinguishes its elements. A sort whose elements have separate columns is reduced by
sorting the columns, at any size. Sorts that occur in a cell together are reduced together, by
trying all their renamings; sets of elements are renamed with them. If these are too many, the
largest sorts are not reduced. That is sound, because a smaller group merges fewer states. Traces
are runs of the unreduced system (narrative.py).
"""

from collections.abc import Iterator
from itertools import permutations, product
from math import factorial
from typing import Final, TypeAlias

from pdproto.check.rigid import renamed
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import Layout
from pdproto.ground.program import Permutation, Symmetry
from pdproto.spec.language.sorts import Sort

Renaming: TypeAlias = dict[type[Sort], tuple[int, ...]]

GROUP_MAX: Final = 720  # images computed for one state


def symmetry(ground: Ground) -> Symmetry:
    """The symmetry of a ground system; falsy if no states can be merged."""
    layout = ground.layout
    stripes = tuple(
        stripe for sort, stripe in layout.stripes.items() if interchangeable(ground, sort)
    )
    striped = {sort for sort in layout.stripes if interchangeable(ground, sort)}
    groups = (
        _group(ground, component)
        for component in _components(layout)
        if not striped.intersection(component)
    )
    return Symmetry(stripes, tuple(group for group in groups if len(group) > 1))


def interchangeable(ground: Ground, sort: type[Sort]) -> bool:
    """Whether every renaming of the sort keeps the rigid symbols.

    It tests swaps of neighbours, which generate all renamings.
    """
    if sort.ordered or sort.of is not None:
        return False
    size = ground.sizes[sort]
    swaps = (
        (*range(i), i + 1, i, *range(i + 2, size)) for i in range(size - 1)
    )
    return all(_keeps_rigid(ground, {sort: swap}) for swap in swaps)


def _keeps_rigid(ground: Ground, renaming: Renaming) -> bool:
    whole = _with_sets(ground, renaming)
    return whole is not None and all(
        renamed(symbol, tuples, whole) == tuples for symbol, tuples in ground.given.items()
    )


def _with_sets(ground: Ground, renaming: Renaming) -> Renaming | None:
    """The renaming with that of the sets of the elements; None if it makes a set that is none."""
    whole = dict(renaming)
    for sort, names in renaming.items():
        for derived in sort.derived:
            subsets = derived.subsets(len(names))
            if ground.sizes.get(derived) != len(subsets):
                continue
            places = {one: place for place, one in enumerate(subsets)}
            images = [places.get(frozenset(names[i] for i in one)) for one in subsets]
            if None in images:
                return None
            whole[derived] = tuple(place for place in images if place is not None)
    return whole


def _components(layout: Layout) -> list[list[type[Sort]]]:
    """The unordered sorts, in groups; sorts that occur in one cell are in one group.

    A sort of sets is renamed with its elements, so their sort stands for it.
    """
    components: list[list[type[Sort]]] = []
    for symbol in layout.symbols:
        sorts = [s.of or s for s in symbol.sorts
                 if not s.ordered and layout.sizes.get(s.of or s, 1) > 1]
        touched = [c for c in components if set(c) & set(sorts)]
        merged = list(dict.fromkeys([s for c in touched for s in c] + sorts))
        components = [c for c in components if c not in touched]
        if merged:
            components.append(merged)
    return components


def _group(ground: Ground, sorts: list[type[Sort]]) -> tuple[Permutation, ...]:
    """The renamings of these sorts that keep the rigid symbols, the identity first."""
    kept = sorted(sorts, key=lambda sort: ground.sizes[sort])
    while kept and _order(ground, kept) > GROUP_MAX:
        kept.pop()
    return tuple(
        _moves(ground.layout, whole)
        for renaming in _renamings(ground, kept)
        if _keeps_rigid(ground, renaming)
        and (whole := _with_sets(ground, renaming)) is not None
    )


def _order(ground: Ground, sorts: list[type[Sort]]) -> int:
    order = 1
    for sort in sorts:
        order *= factorial(ground.sizes[sort])
    return order


def _renamings(ground: Ground, sorts: list[type[Sort]]) -> Iterator[Renaming]:
    for names in product(*(permutations(range(ground.sizes[sort])) for sort in sorts)):
        yield dict(zip(sorts, names, strict=True))


def _moves(layout: Layout, renaming: Renaming) -> Permutation:
    """The renaming as masked moves: one move for all cells with the same shift."""
    masks: dict[int, int] = {}
    for (symbol, indices), field in layout.fields.items():
        target = tuple(
            renaming[sort][i] if sort in renaming else i
            for sort, i in zip(symbol.sorts, indices, strict=True)
        )
        shift = layout.field(symbol, target).offset - field.offset
        masks[shift] = masks.get(shift, 0) | field.mask
    return Permutation(tuple((mask, shift) for shift, mask in sorted(masks.items())))
