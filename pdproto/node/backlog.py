"""Work about many hand-overs, such as all of a peer that is lost, over the turns of a node."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pdproto.node.ports import Pace

T = TypeVar("T")
AT_ONCE: Final = 16  # hand-overs that one event of a turn may be about


class Backlog:
    """Only the node's turn calls the methods. is_late: whether the turn has no more time for it.
    works: what is left.
    """

    def __init__(self, is_late: Callable[[], bool]) -> None:
        self._is_late: Final = is_late
        self.works: Final[deque[tuple[Iterator[Any], Callable[[Any], None]]]] = deque()

    def each(self, items: Sequence[T], do: Callable[[T], None]) -> None:
        """Do this with each item: at once with a few, and with many in the turns that follow. What
        is given later is done later.
        """
        if len(items) <= AT_ONCE and not self.works:
            for item in items:
                do(item)
            return
        self.later(iter(items), do)

    def later(self, items: Iterator[T], do: Callable[[T], None]) -> None:
        """Do this with each item, after what is given already; only then is the next one asked for.
        """
        self.works.append((items, do))

    def work(self, pace: Pace) -> None:
        """Do a part of what is left."""
        works = self.works
        pace.part("many hand-overs")
        while works:
            items, do = works[0]
            for item in items:
                do(item)
                if self._is_late():
                    return
            works.popleft()
