"""Optimistic prefill: a request's forward pass begins before its bootstrap.

    prefill = OptimisticPrefill(OptimisticSettings(slots=64, running_slots=32))
    request = prefill.create_sender("r1", [node.open(room)], chunks=4, now=now)
    while serving:
        prefill.turn(now)                      # polls, reserves slots, finalizes, makes room
        while prefill.start(now): ...          # the next requests, while a running slot is free
        for order in prefill.orders(): ...     # COMPUTE, SEND, DROP, END
        prefill.chunk_done(request, now)       # when the device has computed what was launched

Rule 1: the table of the source decides (spec/handoff/attempts.py, optimistic_retracted.py). This
        module proposes rows, with a slot, a running slot or a request that wants one; the guard of
        the row accepts or rejects the proposal. steps.py carries out the effects of a row.
Rule 2: no row of a request is proposed while the device computes a chunk of it. The table knows
        two chunks: the last one, and all earlier ones together.
Rule 3: a request ends when its KV is neither written nor read any more: its last launched chunk
        has been computed, and every sender that got chunks has released them.
Rule 4: decisions are made for the whole group. A request has a sender on each rank, and its status
        is that of the rank that is least far. The orders are carried out on all ranks.

One thread at a time may call it. It has no clock and no I/O: `now` comes from the caller, in
seconds. Where no call comes for longer than 2 s, that time counts for no wait: the process stood
still (own_clock.py). Neither does the time in which a peer of a sender's node is suspected
(timers.py in spec/handoff: `stands`).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from pdproto.node.metrics import Metrics
from pdproto.node.optimistic.record import (
    Bootstrap,
    HitRate,
    OptimisticSettings,
    Ordered,
    PrefillRequest,
    Times,
)
from pdproto.node.optimistic.steps import OptimisticSteps
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.own_clock import REST_S, OwnClock
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff import attempts as tables
from pdproto.spec.handoff.attempts import (
    ACTIVE,
    ENDED,
    FOR_A_RUNNING_SLOT,
    QUEUED,
    Stage,
)
from pdproto.spec.handoff.optimistic_retracted import PREFILL_RETRACTING
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.machine import Table

# The rows that give a request its running slot, the first choice first.
STARTS: Final = ((Stage.HEAD, "start_again"), (Stage.WAITING, "start"))


class OptimisticPrefill:
    """Prefill of one rank. table: or PREFILL_AT_ONCE_RETRACTING."""

    def __init__(self, settings: OptimisticSettings, *,
                 table: Table = PREFILL_RETRACTING, trace: SharedTrace | None = None) -> None:
        self.settings: Final = settings
        self.hit_rate: Final = HitRate()
        self.metrics: Final = Metrics({"node": "prefill", "role": "optimistic"})
        self._steps: Final = OptimisticSteps(settings, table, trace, self.metrics)
        self._describe()
        self._number = 0
        self._clock: Final = OwnClock(2 * REST_S)
        self._waiting: Final[deque[PrefillRequest]] = deque()  # by the end of their bootstrap time

    def _describe(self) -> None:
        """Add the metrics of the prefix cache, and two under the names and with the meaning that
        SGLang 0.5.23 gives them (srt/observability/metrics_collector.py), for its dashboards.
        """
        metrics, hits = self.metrics, self.hit_rate
        metrics.counter("repeated_input_tokens", "Tokens of passes that were run again",
                        lambda: hits.reprocessed_input_tokens)
        metrics.counter("repeated_hit_tokens", "Those of them that were in the prefix cache",
                        lambda: hits.reprocessed_hit_tokens)
        for name in ("cache_hit_rate", "sglang:cache_hit_rate"):
            metrics.gauge(name, "The prefix cache hit rate, without passes that were run again",
                          lambda: hits.rate)
        metrics.counter("sglang:num_prefill_retries", "Passes that were run again before their "
                        "bootstrap; not those that wait for it", lambda: self._steps.retries)

    # Step by step: sender, slot, destination

    def create_sender(
        self, request_id: str, senders: Sequence[Bootstrap], *, chunks: int, now: float,
        retracted: bool = False,
    ) -> PrefillRequest:
        """Accept a request.

        senders: one of each prefill rank. chunks: the number of chunks of its forward pass. now:
        seconds. retracted: the request has run before, and was taken back for lack of memory; such
        a request is not run before its bootstrap. Raises ValueError without senders or chunks.
        """
        if not senders or chunks < 1:
            raise ValueError(f"{request_id}: want a sender at least, and a chunk; got "
                             f"{len(senders)} and {chunks}")
        self._steps.now = now
        request = PrefillRequest(
            request_id, self._number, tuple(senders), chunks, Times(now), self._clock.turn(now))
        self._number += 1
        self._steps.submit(request, "submit_retracted" if retracted else "submit")
        self._waiting.append(request)
        return request

    def ensure_metadata_buffer(self, request: PrefillRequest) -> bool:
        """Reserve a slot for the request, if it may have one. Returns whether it has one now."""
        free = self._steps.slots
        if request.slot is not None or not free:
            return request.slot is not None
        slot = free[0]
        if not self._steps.fire("reserve", request, m=slot):
            self._steps.fire("reserve_early", request, m=slot)
        return request.slot is not None

    def finalize_bootstrap(self, request: PrefillRequest) -> bool:
        """Bind the pass to its destination, if that is known. Returns whether it is bound."""
        if not request.finalized and not request.computing:
            self._steps.fire("finalize", request)
        return request.finalized

    # Calls of the scheduler

    def turn(self, now: float) -> None:
        """Poll every request, fail those whose bootstrap is overdue, and propose rows. now:
        seconds.
        """
        self._clock.turn(now)
        self._steps.now = now
        for stage in ACTIVE:
            for request in list(self._steps.stages.at[stage]):
                self._poll(request)
        while self._waiting and self._is_over(self._waiting[0]):
            self._waiting.popleft()
        self._settle()

    def start(self, now: float) -> PrefillRequest | None:
        """Give the next request a running slot, and order its first chunk. now: seconds.

        Returns the request; None if none can start.
        """
        self._steps.now = now
        for stage, row in STARTS:
            request = next(iter(self._steps.stages.at[stage]), None)
            free = self._steps.running_slots
            if request is None or not free:
                continue
            if self._steps.fire(row, request, s=free[0]):
                request.passes += 1
                request.times.started = now
                self._begin(request)
                return request
        return None

    def chunk_done(self, request: PrefillRequest, now: float) -> None:
        """Note that the device has computed the ordered chunk. now: seconds.

        Raises LocalProtocolError if no chunk of the request was ordered.
        """
        if not request.computing:
            raise LocalProtocolError(f"{request.id}: no chunk of it is being computed")
        self._steps.now = now
        request.computing = False
        if request.chunk == request.chunks - 1:
            self._steps.call("last_chunk", request)
            request.times.computed = now
        elif request.chunk == 0:
            self._steps.call("first_chunk", request)
        request.chunk += 1
        self._poll(request)
        self._go_on(request)
        self._settle()

    def abort(self, request: PrefillRequest, reason: str = "aborted by prefill") -> None:
        """Abort the request. It ends with FAILED, unless it has ended already."""
        if request.stage not in ENDED:
            request.reason = request.reason or reason
            self._steps.call("abort_prefill", request)
            self._settle()

    def count_tokens(self, request: PrefillRequest, *, input_tokens: int, hit_tokens: int) -> None:
        """Count the tokens of the pass that has just started.

        hit_tokens: those that were found in the prefix cache. Raises ValueError if there are more
        hits than tokens.
        """
        self.hit_rate.add(request, input_tokens, hit_tokens)

    def orders(self) -> list[Ordered]:
        """The orders since the last call, to be carried out in this order."""
        return self._steps.orders()

    # Proposals

    def _poll(self, request: PrefillRequest) -> None:
        """Give the table the status of the senders."""
        if request.stage in ENDED:
            return
        status = request.poll()
        if status is KVPoll.FAILED:
            told = (sender.failure for sender in request.senders)
            request.reason = request.reason or next((why for why in told if why), "failed")
            self._steps.receive(tables.abort, request)
        elif status is KVPoll.SUCCESS and request.stage is Stage.SENDING:
            self._steps.call("landed", request)
        elif status > KVPoll.BOOTSTRAPPING and not request.ready:
            self._steps.receive(tables.publish, request)

    def _begin(self, request: PrefillRequest) -> None:
        """Order the first chunk. If it is also the last, all earlier chunks count as computed."""
        if request.chunks == 1:
            self._steps.call("first_chunk", request)
            self._poll(request)
            self._go_on(request)
        else:
            self._steps.compute(request)

    def _go_on(self, request: PrefillRequest) -> None:
        """After a chunk: send, if the destination is known; then order the next chunk, or end."""
        if request.stage is not Stage.RUNNING:
            return
        self.finalize_bootstrap(request)
        if self._steps.is_whole(request):
            if not self._send(request) and self._steps.fire("park", request):
                _ = (self._steps.fire("force_retry", request)
                     or self._steps.fire("force_fall_back", request))
        elif request.finalized or not self._yield(request):
            if request.finalized and request.chunk > request.sent:
                self._steps.hand_over(request, last=False)
            self._launch(request)

    def _launch(self, request: PrefillRequest) -> None:
        """Order the next chunk. The guard of the last chunk applies to the earlier ones too."""
        if request.chunk == request.chunks - 1:
            if self._steps.fire("launch_last", request):
                self._steps.compute(request)
        elif self._steps.may_fire("launch_last", request):
            self._steps.compute(request)

    def _send(self, request: PrefillRequest) -> bool:
        if self._steps.fire("send", request):
            self._steps.hand_over(request, last=True)
            return True
        return False

    def _settle(self) -> None:
        """Propose rows until no proposal is accepted."""
        while any([self._release(), self._reserve(), self._attach(), self._make_room()]):
            pass

    def _release(self) -> bool:
        """Take back the slots of requests that have ended. Returns whether there were any."""
        ended = [request for request in self._steps.ending if self._end(request)]
        for request in ended:
            del self._steps.ending[request]
        return bool(ended)

    def _end(self, request: PrefillRequest) -> bool:
        """End the request, if rule 3 allows it. Returns whether it has ended."""
        if request.computing or (request.sent and not all(s.released for s in request.senders)):
            return False
        return self._steps.end(request)

    def _reserve(self) -> bool:
        """Reserve slots, first for requests that have their bootstrap. Returns whether it did."""
        if not self._steps.slots:
            return False
        queues = [self._steps.stages.ready[stage] for stage in QUEUED]
        if self.settings.attempts:
            queues.append(self._steps.stages.at[Stage.QUEUED])
        reserved = False
        for request in [request for queue in queues for request in queue]:
            if not self._steps.slots:
                break
            reserved |= request.slot is None and self.ensure_metadata_buffer(request)
        return reserved

    def _attach(self) -> bool:
        """Send parked requests whose destination is known now. Returns whether any was sent."""
        sent = [request for request in list(self._steps.stages.ready[Stage.PARKED])
                if self.finalize_bootstrap(request) and self._send(request)]
        return bool(sent)

    def _make_room(self) -> bool:
        """Let a parked request yield its place to one that can go on. Returns whether one did."""
        return any(self._yield(request) for request in list(self._steps.stages.at[Stage.PARKED]))

    def _yield(self, request: PrefillRequest) -> bool:
        """Propose that the request yields to one that has its bootstrap. Returns whether it did."""
        stages = (*FOR_A_RUNNING_SLOT, *QUEUED)
        wanting = [next(iter(ready)).key for s in stages if (ready := self._steps.stages.ready[s])]
        return bool(wanting) and (self._steps.fire("run_again", request, k=wanting)
                                  or self._steps.fire("fall_back", request, k=wanting))

    def _is_over(self, request: PrefillRequest) -> bool:
        """Whether the wait for the request's bootstrap has ended, by success or by timeout."""
        if request.ready or request.stage in ENDED:
            return True
        limit, waited = self.settings.bootstrap_timeout_s, self._clock.now - request.since
        if waited < limit or waited < limit + max(one.stood(waited) for one in request.senders):
            return False
        request.reason = request.reason or f"bootstrap_timeout after {limit:g} s"
        return self._steps.fire("give_up_waiting", request)

    def __repr__(self) -> str:
        return f"<OptimisticPrefill {self._steps!r}>"
