"""Messages that are sent again until their request is over.

A connection that breaks loses messages. So a rank keeps its messages about a request, and sends all
of them again after a while. The rows are those whose names end in `_again` in
spec/handoff/optimistic_group_loss.py.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pdproto.node.timers import Waits
from pdproto.runtime.wire import GroupFrame, Life

TIMER: Final = "no_confirmation"


class Repeats:
    """The frames to repeat. say: sends a frame to a rank. seconds: by name of timer."""

    def __init__(self, say: Callable[[int, GroupFrame], None],
                 seconds: Mapping[str, float] | None) -> None:
        self._say: Final = say
        self._waits: Final[Waits[Life]] = Waits({
            name: value for name, value in (seconds or {}).items() if name == TIMER})
        self._kept: Final[dict[Life, list[tuple[int, GroupFrame]]]] = {}

    def keep(self, index: int, frame: GroupFrame, now: float) -> None:
        """Repeat this frame to the rank from now on, until its request is forgotten."""
        self._kept.setdefault(frame.life, []).append((index, frame))
        self._waits.follow(frame.life, (TIMER,), now, further=True)

    @property
    def next(self) -> float | None:
        """The time of the next repeat; None without one."""
        return self._waits.next()

    def serve(self, now: float) -> None:
        """Repeat the frames that are due."""
        for _, life in list(self._waits.due(now)):
            for index, frame in self._kept[life]:
                self._say(index, frame)
            self._waits.follow(life, (TIMER,), now)

    def serve_all(self, now: float) -> None:
        """Repeat every frame now, because messages may be lost."""
        self._waits.fire_now(now)

    def forget(self, life: Life) -> None:
        """Repeat nothing more about this request."""
        if self._kept.pop(life, None) is not None:
            self._waits.follow(life, (), 0.0)

    def forget_below(self, floor: int) -> None:
        """Repeat nothing more about the lives below this generation."""
        for life in [life for life in self._kept if life.generation < floor]:
            self.forget(life)

    def clear(self) -> None:
        """Repeat nothing more."""
        for life in [*self._kept]:
            self.forget(life)
