"""The examples once more, as breadth-first searches in plain Python: where their counts come from.

A state is a set of facts that hold; a protocol is a function from a state to its next states. No
code of the checker is used, and none of the tables.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import TypeAlias

Fact: TypeAlias = tuple[object, ...]
Facts: TypeAlias = frozenset[Fact]
Next: TypeAlias = Callable[[Facts], Iterable[Facts]]


def states(following: Next) -> int:
    """The number of states that can be reached from the one in which no fact holds."""
    seen: set[Facts] = {frozenset()}
    level = seen
    while level:
        level = {after for state in level for after in following(state)} - seen
        seen |= level
    return len(seen)


def lease_lock(s: Facts) -> Iterator[Facts]:
    """Two clients and two tokens; messages stay where they are sent."""
    clients, tokens = (0, 1), (0, 1)
    for c in clients:
        yield s | {("want", c)}
        if ("want", c) in s:
            yield s | {("wanted", c)}
    for c, t in product(clients, tokens):
        has, back, lent = ("has", c, t), ("back", c, t), ("lent", c, t)
        if ("grant", c, t) in s and ("spent", c, t) not in s:
            yield s | {has}
        if has in s:
            yield s | {("write", c, t)}
            yield s - {has} | {("spent", c, t), back}
        free = not any(fact[0] == "lent" for fact in s)
        if ("wanted", c) in s and free and not any(("issued", u) in s for u in tokens if u >= t):
            yield s - {("wanted", c)} | {lent, ("issued", t), ("grant", c, t)}
        if lent in s:
            yield s - {lent}
        if ("write", c, t) in s and not any(("last", u) in s for u in tokens if u > t):
            lasts = {("last", u) for u in tokens}
            yield s - lasts | {("last", t), ("wrote", t)}
