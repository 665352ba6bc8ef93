"""A group of ranks that prefill requests before their bootstrap, all in the same way.

    group = OptimisticGroup("prefill", endpoints, me=0, passes=OptimisticSettings(
        slots=64, running_slots=32, retries=3), stop=stop)
    group.submit(room, payload)                # at the entry
    for arrival in group.arrivals(): ...       # open the hand-over; the ranks run the request by
    for decision in group.decisions(): ...     # decision: RUN, GO_ON, FINALIZE, GIVE_WAY, ADMIT
    group.computed(life, last=False)           # the chunks of RUN have been computed
    group.computed(life, last=True)            # the chunk of GO_ON has been computed
    group.bootstrapped(life)                   # at any time: the other server is ready

Every rank gets the decisions of passes (`Pass`) in the same order, each once. Then follow the
decisions of every group (`Verdict`): ADMIT lets this rank send, with its slot; RELEASE, DROP or
FAIL ends the request. A request that begins with `Pass.ADMIT` has its bootstrap before it runs.

The entry forces a retry by the request's id, so it is forced on all ranks or on none.
The rank itself is in passes.py.
"""

from collections.abc import Callable, Mapping

from pdproto.group.group import Group
from pdproto.group.passes import PassOptions
from pdproto.group.rank import Decision, Pass
from pdproto.node.link import Link
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import Life


class OptimisticGroup(Group):
    """One rank of such a group. `Group` describes the other arguments, and the threads that may
    call each method.

    passes: the settings of optimistic prefill, the same on all ranks; `bootstrap_timeout_s` is the
    time from the submission to the bootstrap on all ranks. pass_trace: records the rows of passes
    (system `optimistic-group`); trace: those of the group (system `agreement`).

    Raises the errors of `Group`.
    """

    def __init__(  # noqa: PLR0913 - as many as `Group` takes
        self,
        name: str,
        ranks: Mapping[int, str],
        *,
        me: int,
        passes: OptimisticSettings,
        stop: Callable[[Life], bool],
        entry: int = 0,
        link: Link | None = None,
        waits: Mapping[str, float] | None = None,
        trace: SharedTrace | None = None,
        pass_trace: SharedTrace | None = None,
    ) -> None:
        self._passes = PassOptions(passes, pass_trace)
        super().__init__(name, ranks, me=me, slots=passes.slots, stop=stop, entry=entry, link=link,
                         waits=waits, trace=trace)

    def decisions(self) -> list[Decision]:
        """The decisions to carry out now, in this order; each once.

        A decision about a request comes only after `arrivals` has returned the request.
        """
        queue, decided = self._node.rank.decisions, list[Decision]()
        while queue and queue[0].life in self._met:
            decision = queue.popleft()
            decided.append(decision if isinstance(decision.verdict, Pass)
                           else self._known(decision))
        return decided

    def computed(self, life: Life, *, last: bool) -> None:
        """Report that the device has computed the last chunk of the pass, or all chunks before it.

        A pass of one chunk has none before it: report them as soon as RUN comes.
        """
        passes = self._node.passes
        assert passes is not None  # noqa: S101 - this kind of group has them
        self._core.ask(lambda: passes.computed(life, last=last))

    def prepared(self, life: Life) -> None:
        """Without effect: a rank that is not prepared may delay its pass."""
