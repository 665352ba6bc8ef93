"""The queue of a decode rank's hand-overs that wait for staging memory, in their order.

No clock ends their wait by default (`queue_timeout`, spec/handoff/timers.py), so that an operator
has to see it: how many wait, and for how long the first of them has.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from pdproto.engine.contract import EngineError
from pdproto.node.metrics import Metrics
from pdproto.node.receiver import Receiver
from pdproto.spec.handoff.ends import Receiving

LOOK_AHEAD: Final = 64  # requests that are tried for memory in one turn, and find none


class MemoryQueue:
    """Receivers that have asked. One that ends meanwhile is passed over.

    was_cut: the last look at them ended early, for the turn was over.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.was_cut = False
        self._clock: Final = clock
        self._asked: Final[deque[Receiver]] = deque()
        metrics.gauge("num_decode_memory_queue_reqs", "Hand-overs that wait for staging memory",
                      lambda: len(self._waiting()))
        metrics.gauge("decode_memory_queue_seconds", "For how long the first of them has waited",
                      self._longest_s)

    def add(self, receiver: Receiver, now: float) -> None:
        receiver.queued = now
        self._asked.append(receiver)

    def serve(self, grant: Callable[[Receiver], bool], has_time: Callable[[], bool]) -> bool:
        """Try the first ones. grant: returns whether the request is settled. has_time: asked after
        each that was settled; without it the rest is left to the next turn. Returns whether one of
        those tried goes on waiting.
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
        finally:  # a defect in granting to one takes nobody else out of the queue
            self._asked.extendleft(reversed(passed))
        return bool(passed)

    @staticmethod
    def _is_settled(receiver: Receiver, grant: Callable[[Receiver], bool]) -> bool:
        try:
            return grant(receiver)
        except EngineError as error:  # the system refuses memory, or the files that it needs
            receiver.abort(str(error))
            return True

    def _waiting(self) -> list[Receiver]:
        """For any thread: the copy is made at once."""
        return [one for one in tuple(self._asked) if one.stage is Receiving.BOOTSTRAPPING]

    def _longest_s(self) -> float:
        waiting = self._waiting()
        return self._clock() - waiting[0].queued if waiting else 0.0
