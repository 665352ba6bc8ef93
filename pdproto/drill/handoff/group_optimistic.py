"""The scheduler of a prefill rank of several that run requests before their bootstrap.

The group decides which passes run. The device computes one part of a pass at a time: all chunks but
the last, or the last one. Each takes the time that the load gives it.
"""

from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import Final

from pdproto.drill.handoff.group import GroupedRequest, GroupedSenders
from pdproto.drill.handoff.rank import Work
from pdproto.group.optimistic_group import OptimisticGroup
from pdproto.group.rank import Decision, Pass
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import Life


class GroupedOptimisticSenders(GroupedSenders):
    """The scheduler of such a rank. passes: the trace of passes."""

    group: OptimisticGroup

    def __init__(self, work: Work, passes: SharedTrace | None) -> None:
        self._passes: Final = passes
        self._device: Final[deque[tuple[float, Life, bool]]] = deque()
        super().__init__(work)

    def _made(self, work: Work, me: int) -> OptimisticGroup:
        load = work.rank.load
        settings = OptimisticSettings(
            slots=load.in_flight, running_slots=max(1, load.in_flight // 2),
            retries=load.retries or 0, force_retry_probability=load.force_retry)
        return OptimisticGroup("prefill", dict(enumerate(work.rank.group)), me=me, passes=settings,
                               stop=self._stop, trace=work.trace, pass_trace=self._passes)

    def run(self) -> Iterator[None]:
        for _ in super().run():
            self._compute()
            yield

    def _compute(self) -> None:
        while self._device and self._device[0][0] <= monotonic():
            _, life, last = self._device.popleft()
            held = self.held.get(life)
            if held is None:  # the group has ended
                continue
            if last:
                self.rank.run_forward(held.request, held.pages, self.pools)
            self.group.computed(life, last=last)

    def _apply(self, decision: Decision) -> None:
        match decision.verdict:
            case Pass.RUN:
                self._launch(decision.life, last=False)
            case Pass.GO_ON:
                self._launch(decision.life, last=True)
            case Pass.GIVE_WAY:
                self.pools[:, self.held[decision.life].pages] = 0
            case Pass.ADMIT:
                held = self.held[decision.life]
                self.rank.run_forward(held.request, held.pages, self.pools)
            case Pass.FINALIZE:
                pass
            case _:
                super()._apply(decision)

    def _launch(self, life: Life, *, last: bool) -> None:
        """Queue one more part of a pass on the device."""
        begins = max(monotonic(), self._device[-1][0] if self._device else 0.0)
        self._device.append((begins + self.rank.load.forward_s, life, last))

    def _send(self, held: GroupedRequest) -> None:
        """Send pages that have been computed."""
        self.rank.send(held.request, held.sender, held.pages)
