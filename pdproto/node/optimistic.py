"""Optimistic prefill: a request's forward pass begins before its bootstrap.

    prefill = OptimisticPrefill(Settings(slots=64, running_slots=32, retries=3))
    request = prefill.create_sender("r1", [node.open(room)], chunks=4, now=now)
    while serving:
        prefill.turn(now)                      # polls, reserves slots, finalizes, makes room
        while prefill.start(now): ...          # the next requests, while a running slot is free
        for order in prefill.orders(): ...     # COMPUTE, SEND, DROP, END
        prefill.chunk_done(request, now)       # when the device has computed what was launched

Rule 1: the table of the source decides (spec/handoff/attempts.py, PREFILL). This module proposes
        rows, with a slot, a running slot or a request that wants one; the guard of the row accepts
        or rejects the proposal.
Rule 2: no row of a request is proposed while the device computes a chunk of it. The table knows
        two chunks: the last one, and all earlier ones together.
Rule 3: a request ends when its KV is neither written nor read any more: its last launched chunk
        has been computed, and every sender that got chunks has released them.
Rule 4: decisions are made for the whole group. A request has a sender on each rank, and its status
        is that of the rank that is least far. The orders are carried out on all ranks.

One thread at a time may call it. It has no clock and no I/O: `now` comes from the caller, in
seconds.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from pdproto.node.metrics import Metrics
from pdproto.node.optimistic_record import (
    Bootstrap,
    Faults,
    HitRate,
    OptimisticSettings,
    Order,
    Ordered,
    PrefillRequest,
    Stages,
    Times,
)
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.sample import retry_is_forced
from pdproto.runtime.store import SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import attempts as tables
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.attempts import (
    ACTIVE,
    ENDED,
    FOR_A_RUNNING_SLOT,
    PREFILL,
    QUEUED,
    Forward,
    Stage,
)
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.machine import Table

_GAUGES: Final = (
    ("num_optimistic_queue_reqs", "Requests that wait for a slot", QUEUED),
    ("num_optimistic_waiting_reqs", "Requests that wait for a running slot", FOR_A_RUNNING_SLOT),
    ("num_optimistic_running_reqs", "Requests whose forward is computed", (Stage.RUNNING,)),
    ("num_optimistic_parked_reqs", "Requests whose KV waits for the sink", (Stage.PARKED,)),
    ("num_optimistic_sending_reqs", "Requests whose KV is under way", (Stage.SENDING,)),
)


class OptimisticPrefill:
    """Prefill of one rank. faults: bootstraps that fail, for tests. table: or PREFILL_AT_ONCE."""

    def __init__(self, settings: OptimisticSettings, *, faults: Faults | None = None,
                 table: Table = PREFILL, trace: SharedTrace | None = None) -> None:
        self.settings: Final = settings
        self.faults: Final = faults or Faults()
        self.hit_rate: Final = HitRate()
        self.metrics: Final = Metrics({"node": "prefill", "role": "optimistic"})
        self._requests: Final[dict[int, PrefillRequest]] = {}
        self._machine: Final = shared(
            table, (),
            {roles.Slot: range(settings.slots), tables.RunningSlot: range(settings.running_slots),
             roles.Attempt: range(settings.attempts)},
            {tables.sampled: self._sampled}, trace=trace)
        self._number = 0
        self._stages: Final = Stages()
        self._slots: Final = deque(range(settings.slots))
        self._running_slots: Final = deque(range(settings.running_slots))
        self._failing: Final[dict[PrefillRequest, None]] = {}
        self._waiting: Final[deque[PrefillRequest]] = deque()  # by the end of their bootstrap time
        self._orders: Final[deque[Ordered]] = deque()
        self._now = 0.0
        self._describe()

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
        self._now = now
        request = PrefillRequest(
            request_id, self._number, tuple(senders), chunks, retracted, Times(now))
        self._number += 1
        self._requests[request.key] = request
        self._follow(request, self._machine.call("submit", request.key))
        self._waiting.append(request)
        return request

    def ensure_metadata_buffer(self, request: PrefillRequest) -> bool:
        """Reserve a slot for the request, if it may have one. Returns whether it has one now."""
        if request.slot is not None or not self._slots:
            return request.slot is not None
        slot = self._slots[0]
        if not self._fire("reserve", request, m=slot) and not request.retracted:
            self._fire("reserve_early", request, m=slot)
        return request.slot is not None

    def finalize_bootstrap(self, request: PrefillRequest) -> bool:
        """Bind the pass to its destination, if that is known. Returns whether it is bound."""
        if not request.finalized and not request.computing:
            self._fire("finalize", request)
        return request.finalized

    # Calls of the scheduler

    def turn(self, now: float) -> None:
        """Poll every request, fail those whose bootstrap is overdue, and propose rows. now:
        seconds.
        """
        self._now = now
        for stage in ACTIVE:
            for request in list(self._stages.at[stage]):
                self._poll(request)
        while self._waiting and self._is_over(self._waiting[0]):
            self._waiting.popleft()
        self._settle()

    def start(self, now: float) -> PrefillRequest | None:
        """Give the next request a running slot, and order its first chunk. now: seconds.

        Returns the request; None if none can start.
        """
        self._now = now
        for stage, row in ((Stage.HEAD, "start_again"), (Stage.WAITING, "start")):
            request = next(iter(self._stages.at[stage]), None)
            if request is None or not self._running_slots:
                continue
            if self._fire(row, request, s=self._running_slots[0]):
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
        self._now = now
        request.computing = False
        if request.chunk == request.chunks - 1:
            self._complete(request, "last_chunk")
            request.times.computed = now
        elif request.chunk == 0:
            self._complete(request, "first_chunk")
        request.chunk += 1
        self._poll(request)
        self._go_on(request)
        self._settle()

    def abort(self, request: PrefillRequest, reason: str = "aborted by prefill") -> None:
        """Abort the request. It ends with FAILED, unless it has ended already."""
        if request.stage not in ENDED:
            request.reason = request.reason or reason
            self._follow(request, self._machine.call("abort_prefill", request.key))
            self._settle()

    def count_tokens(self, request: PrefillRequest, *, input_tokens: int, hit_tokens: int) -> None:
        """Count the tokens of the pass that has just started.

        hit_tokens: those that were found in the prefix cache. Raises ValueError if there are more
        hits than tokens.
        """
        self.hit_rate.add(request, input_tokens, hit_tokens)

    def orders(self) -> list[Ordered]:
        """The orders since the last call, to be carried out in this order."""
        ordered = list(self._orders)
        self._orders.clear()
        return ordered

    # Proposals

    def _poll(self, request: PrefillRequest) -> None:
        """Give the table the status of the senders."""
        if request.stage in ENDED:
            return
        status = request.poll()
        if status is KVPoll.FAILED:
            told = (sender.failure for sender in request.senders)
            request.reason = request.reason or next((why for why in told if why), "failed")
            self._follow(request, self._machine.receive(tables.abort, request.key))
        elif status is KVPoll.SUCCESS and request.stage is Stage.SENDING:
            self._complete(request, "landed")
        elif status > KVPoll.BOOTSTRAPPING and not request.ready:
            faulty = [rank for rank in range(len(request.senders)) if self.faults.fails(rank)]
            if faulty:
                self.abort(request, f"rank {faulty[0]}: a fault injected for a test")
                return
            self._follow(request, self._machine.receive(tables.publish, request.key))

    def _begin(self, request: PrefillRequest) -> None:
        """Order the first chunk. If it is also the last, all earlier chunks count as computed."""
        if request.chunks == 1:
            self._complete(request, "first_chunk")
            self._poll(request)
            self._go_on(request)
        else:
            self._compute(request)

    def _go_on(self, request: PrefillRequest) -> None:
        """After a chunk: send, if the destination is known; then order the next chunk, or end."""
        if request.stage is not Stage.RUNNING:
            return
        self.finalize_bootstrap(request)
        if self._machine.value(tables.forward, request.key) is Forward.WHOLE:
            if not self._send(request) and self._fire("park", request):
                _ = self._fire("force_retry", request) or self._fire("force_fall_back", request)
        elif request.finalized or not self._yield(request):
            if request.finalized and request.chunk > request.sent:
                self._hand_over(request, last=False)
            self._launch(request)

    def _launch(self, request: PrefillRequest) -> None:
        """Order the next chunk. The guard of the last chunk applies to the earlier ones too."""
        if request.chunk == request.chunks - 1:
            if self._fire("launch_last", request):
                self._compute(request)
        elif self._machine.enabled("launch_last", h=request.key):
            self._compute(request)

    def _send(self, request: PrefillRequest) -> bool:
        if self._fire("send", request):
            self._hand_over(request, last=True)
            return True
        return False

    def _settle(self) -> None:
        """Propose rows until no proposal is accepted."""
        while any([self._release(), self._reserve(), self._attach(), self._make_room()]):
            pass

    def _release(self) -> bool:
        """Take back the slots of requests that have ended. Returns whether there were any."""
        ended = [request for request in self._failing if self._end(request)]
        for request in ended:
            del self._failing[request]
        return bool(ended)

    def _reserve(self) -> bool:
        """Reserve slots, first for requests that have their bootstrap. Returns whether it did."""
        if not self._slots:
            return False
        queues = [self._stages.ready[stage] for stage in QUEUED]
        if self.settings.attempts:
            queues.append(self._stages.at[Stage.QUEUED])
        reserved = False
        for request in [request for queue in queues for request in queue]:
            if not self._slots:
                break
            reserved |= request.slot is None and self.ensure_metadata_buffer(request)
        return reserved

    def _attach(self) -> bool:
        """Send parked requests whose destination is known now. Returns whether any was sent."""
        sent = [request for request in list(self._stages.ready[Stage.PARKED])
                if self.finalize_bootstrap(request) and self._send(request)]
        return bool(sent)

    def _make_room(self) -> bool:
        """Let a parked request yield its place to one that can go on. Returns whether one did."""
        return any(self._yield(request) for request in list(self._stages.at[Stage.PARKED]))

    def _yield(self, request: PrefillRequest) -> bool:
        """Propose that the request yields to one that has its bootstrap. Returns whether it did."""
        stages = (*FOR_A_RUNNING_SLOT, *QUEUED)
        wanting = [next(iter(ready)).key for s in stages if (ready := self._stages.ready[s])]
        return bool(wanting) and (self._fire("run_again", request, k=wanting)
                                  or self._fire("fall_back", request, k=wanting))

    def _is_over(self, request: PrefillRequest) -> bool:
        """Whether the wait for the request's bootstrap has ended, by success or by timeout."""
        if request.ready or request.stage in ENDED:
            return True
        limit = self.settings.bootstrap_timeout_s
        if self._now < request.times.submitted + limit:
            return False
        request.reason = request.reason or f"bootstrap_timeout after {limit:g} s"
        return self._fire("give_up_waiting", request)

    # Steps

    def _fire(self, row: str, request: PrefillRequest, **parameters: object) -> bool:
        step = self._machine.fire(row, h=request.key, **parameters)
        if step is not None:
            self._follow(request, step)
        return step is not None

    def _complete(self, request: PrefillRequest, completion: str) -> None:
        self._follow(request, self._machine.call(completion, request.key))

    def _follow(self, request: PrefillRequest, step: SharedStep) -> None:
        for symbol, key, value in step.changed:
            if key is None:
                continue
            if symbol is tables.slot:
                request.slot = key[1] if value else None
                self._slots.remove(key[1]) if value else self._slots.append(key[1])
            elif symbol is tables.running_slot:
                request.running_slot = key[1] if value else None
                self._running_slots.remove(key[1]) if value else self._running_slots.append(key[1])
            elif symbol is tables.link:
                request.finalized = True
            elif symbol is tables.ready:
                self._stages.mark_ready(request)
            elif isinstance(value, Stage):
                self._enter(request, value)
        for _ in step.sent:
            for sender in request.senders:
                sender.abort(request.reason)

    def _enter(self, request: PrefillRequest, stage: Stage) -> None:
        self._stages.enter(request, stage)
        if stage in (Stage.HEAD, Stage.DEFERRED):
            self._drop(request)
        elif stage in ENDED:
            request.times.ended = self._now
            self.metrics.add("handoffs_succeeded" if stage is Stage.SUCCESS
                             else "transfer_failed_reqs" if request.sent
                             else "bootstrap_failed_reqs")
            self._failing[request] = None

    def _drop(self, request: PrefillRequest) -> None:
        """Drop the pass: the request begins again, at its first chunk."""
        request.chunk = 0
        request.prefill_retry_count += 1
        request.times.started = request.times.computed = None
        self.metrics.add("prefill_retries")
        self._orders.append(Ordered(Order.DROP, request))

    def _compute(self, request: PrefillRequest) -> None:
        request.computing = True
        self._orders.append(Ordered(Order.COMPUTE, request, chunk=request.chunk))

    def _hand_over(self, request: PrefillRequest, *, last: bool) -> None:
        chunks = range(request.sent, request.chunk)
        request.sent = request.chunk
        self._orders.append(Ordered(Order.SEND, request, chunks=chunks, last=last))

    def _end(self, request: PrefillRequest) -> bool:
        """End the request, if rule 3 allows it. Returns whether it has ended."""
        if request.computing or (request.sent and not all(s.released for s in request.senders)):
            return False
        self._fire("release", request)
        if request.slot is not None or request.running_slot is not None:
            return False
        del self._requests[request.key]
        self._stages.remove(request)
        self._machine.forget(roles.Life, request.key)
        self._orders.append(Ordered(Order.END, request))
        return True

    def _sampled(self, key: int) -> bool:
        """Whether a test forces the request to run again. All ranks find the same (M5.5)."""
        request = self._requests[key]
        return (not request.retracted and self.settings.attempts > 0
                and retry_is_forced(request.id, self.settings.force_retry_probability))

    def _describe(self) -> None:
        for name, about, stages in _GAUGES:
            self.metrics.gauge(name, about, partial(self._stages.count, stages))
        self.metrics.gauge("num_optimistic_slots_taken", "Metadata slots that requests hold",
                           lambda: self.settings.slots - len(self._slots))
        self.metrics.gauge("num_optimistic_running_slots_taken", "Running slots that requests hold",
                           lambda: self.settings.running_slots - len(self._running_slots))

    def __repr__(self) -> str:
        return f"<OptimisticPrefill {self._machine!r}>"
