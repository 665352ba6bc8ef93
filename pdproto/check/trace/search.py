"""The search for an order of lines, in depth: first the order of the replay.

It goes back only where a line cannot be next. States are told apart by a key: from two with the
same key, the same lines can follow.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

CUTS_MAX: Final = 20_000  # orders of lines that are tried for one run

C = TypeVar("C")


class NextLineError(Exception):
    """The line cannot be the next one. why: empty if another line must come first."""

    def __init__(self, why: str = "", claim: str = "") -> None:
        super().__init__(why)
        self.why: Final = why
        self.claim: Final = claim


@dataclass(slots=True)
class SearchEnd(Generic[C]):
    """The result. cut: the last state; if there is no order, that of the longest attempt. number,
    error: the line that cannot follow there. undecided: too many orders were tried.
    """

    cut: C
    number: int = -1
    error: NextLineError | None = None
    undecided: bool = False


def search(
    first: C, total: int, *, depth: Callable[[C], int], nexts: Callable[[C], Iterator[int]],
    after: Callable[[C, int], C], key: Callable[[C], Hashable],
    leave: Callable[[C], None] = lambda _cut: None,
) -> SearchEnd[C]:
    """Find an order. nexts: the files that have another line. after: the state after the next line
    of one; raises NextLineError. leave: is called when the search goes back from a state.
    """
    dead_ends: set[Hashable] = set()
    best = SearchEnd(first)
    reached = -1
    stack = [(first, nexts(first))]
    while stack:
        cut, left = stack[-1]
        if depth(cut) == total:
            return SearchEnd(cut)
        if len(dead_ends) > CUTS_MAX:
            return SearchEnd(best.cut, undecided=True)
        following = None
        for number in left:
            try:
                following = after(cut, number)
            except NextLineError as error:
                if error.why and depth(cut) > reached:
                    reached, best = depth(cut), SearchEnd(cut, number, error)
                continue
            if key(following) not in dead_ends:
                break
            leave(following)
            following = None
        if following is None:
            dead_ends.add(key(cut))
            leave(cut)
            stack.pop()
        else:
            stack.append((following, nexts(following)))
    return best
