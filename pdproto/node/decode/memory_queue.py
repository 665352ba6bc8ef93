"""The queue of a decode rank's hand-overs that wait for staging memory, first come first served.

By default no timer ends their wait (`queue_timeout`, spec/handoff/timers.py). So metrics show an
operator how many wait, and how long the first has waited.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from pdproto.engine.contract import EngineError
from pdproto.node.decode.receiver import Receiver
from pdproto.node.metrics import Metrics
from pdproto.spec.handoff.ends import Receiving

LOOK_AHEAD: Final = 64  # requests that may find no memory in one turn before it stops trying


class MemoryQueue:
    """Receivers that have asked for memory. A receiver that has ended meanwhile is skipped.

    was_cut: the last `serve` ended early, because the turn had no time left.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.was_cut = False
        self._clock: Final = clock
        self._asked: Final[deque[Receiver]] = deque()
        metrics.gauge("num_decode_memory_queue_reqs", "Hand-overs that wait for staging memory",
                      lambda: len(self._waiting()))
        metrics.gauge("decode_memory_queue_seconds", "How long the first of them has waited",
                      self._longest_s)

    def add(self, receiver: Receiver, now: float) -> None:
        """Put the receiver at the end of the queue. now: in seconds of the node's clock."""
        receiver.queued = now
        self._asked.append(receiver)

    def serve(self, grant: Callable[[Receiver], bool], has_time: Callable[[], bool]) -> bool:
        """Try to grant memory to the first receivers.

        grant: tries one receiver, and returns whether its request is settled. has_time: called
        after each settled receiver; if it returns False, the others wait for the next turn. Returns
        whether a receiver was tried and still waits.
        """
        self.was_cut = False
        passed: list[Receiver] = []
        try:
            while self._asked and len(passed) < LOOK_AHEAD:
                receiver = self._asked.popleft()
                if receiver.stage is not Receiving.BOOTSTRAPPING:
                    continue
                if not self._is_settled(receiver, grant):
                    passed.append(receiver)
                elif not has_time():
                    self.was_cut = True
                    break
        finally:  # an exception for one receiver leaves the others in the queue
            self._asked.extendleft(reversed(passed))
        return bool(passed)

    @staticmethod
    def _is_settled(receiver: Receiver, grant: Callable[[Receiver], bool]) -> bool:
        try:
            return grant(receiver)
        except EngineError as error:  # the system refuses memory, or the files it needs for it
            receiver.abort(str(error))
            return True

    def _waiting(self) -> list[Receiver]:
        """For any thread: the queue is copied in one step."""
        return [one for one in tuple(self._asked) if one.stage is Receiving.BOOTSTRAPPING]

    def _longest_s(self) -> float:
        waiting = self._waiting()
        return self._clock() - waiting[0].queued if waiting else 0.0
