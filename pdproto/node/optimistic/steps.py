"""The steps of the table of optimistic prefill, and their effects: slots, stages, orders, counts.

optimistic.py proposes rows, and this module carries out the effects of the rows that are taken.
"""

from collections import deque
from functools import partial
from typing import Final

from pdproto.node.metrics import Metrics
from pdproto.node.optimistic.record import (
    OptimisticSettings,
    Order,
    Ordered,
    PrefillRequest,
    Stages,
)
from pdproto.runtime.sample import retry_is_forced
from pdproto.runtime.store import AnyMessage, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import attempts as tables
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.attempts import ENDED, FOR_A_RUNNING_SLOT, QUEUED, Forward, Stage
from pdproto.spec.language.machine import Table

_GAUGES: Final = (
    ("num_optimistic_queue_reqs", "Requests that wait for a slot", QUEUED),
    ("num_optimistic_waiting_reqs", "Requests that wait for a running slot", FOR_A_RUNNING_SLOT),
    ("num_optimistic_running_reqs", "Requests whose forward is computed", (Stage.RUNNING,)),
    ("num_optimistic_parked_reqs", "Requests whose KV waits for the sink", (Stage.PARKED,)),
    ("num_optimistic_sending_reqs", "Requests whose KV is under way", (Stage.SENDING,)),
)


class OptimisticSteps:
    """One machine of the table, its requests, and the effects of its steps on them.

    stages: of the requests. slots, running_slots: the free ones. ending: requests that have
    succeeded or failed, and still hold slots. now: seconds of the caller's clock, set by the
    caller. retries: passes that were dropped, and run again before their bootstrap.
    """

    def __init__(self, settings: OptimisticSettings, table: Table, trace: SharedTrace | None,
                 metrics: Metrics) -> None:
        self.now = 0.0
        self.retries = 0
        self.stages: Final = Stages()
        self.slots: Final = deque(range(settings.slots))
        self.running_slots: Final = deque(range(settings.running_slots))
        self.ending: Final[dict[PrefillRequest, None]] = {}
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._requests: Final[dict[int, PrefillRequest]] = {}
        self._orders: Final[deque[Ordered]] = deque()
        self._machine: Final = shared(
            table, (),
            {roles.Slot: range(settings.slots), tables.RunningSlot: range(settings.running_slots),
             roles.Attempt: range(settings.attempts)},
            {tables.sampled: self._sampled}, trace=trace)
        self._describe()

    # Events

    def submit(self, request: PrefillRequest, call: str) -> None:
        """Give the table a new request, by this call."""
        self._requests[request.key] = request
        self.call(call, request)

    def fire(self, row: str, request: PrefillRequest, **parameters: object) -> bool:
        """Propose the row. Returns whether its guard has accepted it."""
        step = self._machine.fire(row, h=request.key, **parameters)
        if step is not None:
            self._follow(request, step)
        return step is not None

    def call(self, name: str, request: PrefillRequest) -> None:
        """Give the table a call, or a completion, about the request."""
        self._follow(request, self._machine.call(name, request.key))

    def receive(self, message: AnyMessage, request: PrefillRequest) -> None:
        """Give the table a message about the request."""
        self._follow(request, self._machine.receive(message, request.key))

    def may_fire(self, row: str, request: PrefillRequest) -> bool:
        """Whether the guard of the row holds."""
        return self._machine.enabled(row, h=request.key)

    def is_whole(self, request: PrefillRequest) -> bool:
        """Whether the last chunk of its pass has been computed."""
        return self._machine.value(tables.forward, request.key) is Forward.WHOLE

    # Orders

    def orders(self) -> list[Ordered]:
        """The orders since the last call."""
        ordered = list(self._orders)
        self._orders.clear()
        return ordered

    def compute(self, request: PrefillRequest) -> None:
        """Order the next chunk."""
        request.computing = True
        self._orders.append(Ordered(Order.COMPUTE, request, chunk=request.chunk))

    def hand_over(self, request: PrefillRequest, *, last: bool) -> None:
        """Order the chunks to be sent that have been computed and not sent."""
        chunks = range(request.sent, request.chunk)
        request.sent = request.chunk
        self._orders.append(Ordered(Order.SEND, request, chunks=chunks, last=last))

    def end(self, request: PrefillRequest) -> bool:
        """Release the slots of a request that has ended, and forget it. Returns whether the table
        has allowed that.
        """
        self.fire("release", request)
        if request.slot is not None or request.running_slot is not None:
            return False
        del self._requests[request.key]
        self.stages.remove(request)
        self._machine.forget(roles.Life, request.key)
        self._orders.append(Ordered(Order.END, request))
        return True

    # Effects

    def _follow(self, request: PrefillRequest, step: SharedStep) -> None:
        for symbol, key, value in step.changed:
            if key is None:
                continue
            if symbol is tables.slot:
                request.slot = key[1] if value else None
                self.slots.remove(key[1]) if value else self.slots.append(key[1])
            elif symbol is tables.running_slot:
                request.running_slot = key[1] if value else None
                self.running_slots.remove(key[1]) if value else self.running_slots.append(key[1])
            elif symbol is tables.link:
                request.finalized = True
            elif symbol is tables.ready:
                self.stages.mark_ready(request)
            elif isinstance(value, Stage):
                self._enter(request, value)
        for _ in step.sent:
            for sender in request.senders:
                sender.abort(request.reason)

    def _enter(self, request: PrefillRequest, stage: Stage) -> None:
        self.stages.enter(request, stage)
        if stage in (Stage.HEAD, Stage.DEFERRED):
            self.retries += stage is Stage.HEAD
            self._drop(request)
        elif stage in ENDED:
            request.times.ended = self.now
            self._metrics.add("handoffs_succeeded" if stage is Stage.SUCCESS
                              else "transfer_failed_reqs" if request.sent
                              else "bootstrap_failed_reqs")
            self.ending[request] = None

    def _drop(self, request: PrefillRequest) -> None:
        """Drop the pass: the request begins again, at its first chunk."""
        request.chunk = 0
        request.prefill_retry_count += 1
        request.times.started = request.times.computed = None
        self._metrics.add("prefill_retries")
        self._orders.append(Ordered(Order.DROP, request))

    def _sampled(self, key: int) -> bool:
        """Whether a test forces the request to run again. All ranks find the same."""
        request = self._requests[key]
        return (self._settings.attempts > 0
                and retry_is_forced(request.id, self._settings.force_retry_probability))

    def _describe(self) -> None:
        settings, metrics = self._settings, self._metrics
        for name, about, stages in _GAUGES:
            metrics.gauge(name, about, partial(self.stages.count, stages))
        metrics.gauge("num_optimistic_slots_taken", "Metadata slots that requests hold",
                      lambda: settings.slots - len(self.slots))
        metrics.gauge("num_optimistic_running_slots_taken", "Running slots that requests hold",
                      lambda: settings.running_slots - len(self.running_slots))

    def __len__(self) -> int:
        """How many requests and cells of the table are stored."""
        return len(self._requests) + len(self._machine)

    def __repr__(self) -> str:
        return repr(self._machine)
