"""How many states differ in more than the names of elements: each renaming is tried."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, TypeAlias

from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message
from tests.oracle.interpreter import Indices
from tests.oracle.search import Graph

Renaming: TypeAlias = dict[type[Sort], tuple[int, ...]]


def orbits(graph: Graph) -> int:
    """The number of classes of reachable states under the renamings that change nothing."""
    names = list(renamings(graph))
    left = set(graph.depth)
    count = 0
    while left:
        state = left.pop()
        count += 1
        for one in names:
            left.discard(frozenset(
                ((symbol, _at(symbol, at, one)), _value(symbol, value, one))
                for (symbol, at), value in state))
    return count


def renamings(graph: Graph) -> Iterator[Renaming]:
    """The renamings of unordered sorts that keep the rigid relations; sets go with their elements.
    """
    sizes, given = graph.reader.sizes, graph.reader.given
    sorts = [sort for sort in sizes if not sort.ordered and sort.of is None]
    for chosen in product(*(permutations(range(sizes[sort])) for sort in sorts)):
        one: Renaming = dict(zip(sorts, chosen, strict=True))
        if all(_with_sets(sort, one) for sort in sizes if sort.of is not None) and all(
                frozenset(_at(rigid, at, one) for at in pairs) == pairs
                for rigid, pairs in given.items()):
            yield one


def _with_sets(sort: Any, one: Renaming) -> bool:
    """Add the names of the sets; False if a set gets the elements of none."""
    sets = [frozenset(each) for each in sort.sets(len(one[sort.of]))]
    images = [frozenset(one[sort.of][i] for i in each) for each in sets]
    if not set(images) <= set(sets):
        return False
    one[sort] = tuple(map(sets.index, images))
    return True


def _at(symbol: Any, at: Indices, one: Renaming) -> Indices:
    # A channel is named by its two ends.
    of = (*symbol[0].sorts, *symbol[1].sorts) if isinstance(symbol, tuple) else symbol.sorts
    return tuple(one[s][i] if s in one else i for s, i in zip(of, at, strict=False))


def _value(symbol: Any, value: Any, one: Renaming) -> Any:
    if isinstance(symbol, ElementFunction):
        sort = symbol.sorts[-1]
        return one[sort][value] if sort in one else value
    if isinstance(symbol, tuple):
        return tuple((message, _at(message, at, one)) for message, at in value)
    if isinstance(symbol, Message):
        sorts = symbol.receiver.machine.sorts
        return frozenset(
            tuple(one[s][i] if s in one else i for s, i in zip(sorts, own, strict=True))
            for own in value)
    return value


