"""The scheduler of a prefill rank that runs requests before their bootstrap has ended.

The device computes one chunk at a time, each in the time that the load gives it. Then the pages of
the chunk hold their bytes. A pass that is dropped gives its pages back, and leaves its prefix in a
cache: the next pass of the request finds there the chunks that were computed before, and they take
no time of the device. No other request has this prefix.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

import numpy as np

from pdproto.drill.handoff.load import LoadRequest
from pdproto.drill.handoff.rank import POLL_S, Work
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, Order, Ordered, PrefillRequest
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.optimistic_retracted import (
    PREFILL_AT_ONCE_RETRACTING,
    PREFILL_RETRACTING,
)
from pdproto.spec.handoff.poll import KVPoll


@dataclass(slots=True)
class OptimisticRequest:
    """A request and its resources. pages: none before its pass has a running slot. cached: so many
    of its pages has any pass computed, and left in the prefix cache.
    """

    request: LoadRequest
    running: PrefillRequest
    sender: Sender
    opened: float
    pages: tuple[int, ...] = ()
    cached: int = 0
    aborted: bool = False

    def chunk(self, number: int) -> list[int]:
        """The pages of a chunk."""
        return [self.pages[place] for place in self.places(number)]

    def places(self, number: int) -> range:
        """The places of the pages of a chunk within the request."""
        part = np.array_split(range(self.request.pages), self.request.chunks)[number]
        return range(int(part[0]), int(part[-1]) + 1)


class OptimisticSenders:
    """The scheduler of such a rank. It ends when every request has ended.

    settings: of the optimistic prefill; by default those that follow from the load.
    """

    def __init__(self, work: Work, settings: OptimisticSettings | None = None) -> None:
        load = work.rank.load
        self.rank, self.node, self.report = work.rank, work.node, work.report
        self.pools, self.pool = work.pools, work.pool
        self.prefill: Final = OptimisticPrefill(
            settings or OptimisticSettings(
                slots=load.in_flight, running_slots=max(1, load.in_flight // 2),
                retries=load.retries or 0, force_retry_probability=load.force_retry),
            table=PREFILL_AT_ONCE_RETRACTING if load.release_at_once else PREFILL_RETRACTING,
            trace=work.trace)
        self.held: Final[dict[PrefillRequest, OptimisticRequest]] = {}
        self.device: Final[deque[tuple[float, Ordered]]] = deque()

    def run(self) -> Iterator[None]:
        load, room = self.rank.load, self.rank.first
        while room < load.requests or self.held:
            while room < load.requests and len(self.held) < load.in_flight:
                self._begin(load.request(room))
                room += 1
            now = monotonic()
            self._have_aborted(now)
            self._turn(now)
            self._compute()
            yield
            sleep(POLL_S)
        self.report.metrics |= self._cache_hits()

    def _turn(self, now: float) -> None:
        """Take the decisions that are due, and carry them out."""
        self.prefill.turn(now)
        while (started := self.prefill.start(now)) is not None:
            held = self.held[started]
            self.prefill.count_tokens(started, input_tokens=held.request.pages,
                                      hit_tokens=held.cached)
        for ordered in self.prefill.orders():
            self._carry_out(ordered)

    def _begin(self, request: LoadRequest) -> Sender:
        sender, now = self.node.open(request.room), monotonic()
        running = self.prefill.create_sender(f"r{request.room}", [sender], chunks=request.chunks,
                                             now=now)
        self.held[running] = OptimisticRequest(request, running, sender, now)
        return sender

    def _have_aborted(self, now: float) -> None:
        for held in self.held.values():
            if not held.aborted and held.request.left("prefill", held.opened, now):
                held.aborted = True
                self.prefill.abort(held.running, "the client has left")

    def _carry_out(self, ordered: Ordered) -> None:
        held = self.held[ordered.request]
        match ordered.order:
            case Order.COMPUTE:
                if not held.pages:
                    # A running slot is room for the KV of one request, so there are pages for each
                    # running slot.
                    held.pages = self.pool.take(held.request.pages) or ()
                self._launch(ordered)
            case Order.SEND:
                self._send(held, ordered.chunks, last=ordered.last)
            case Order.DROP:
                self.pools[:, held.pages] = 0
                self._give_back(held)
            case Order.END:
                self._end(held)

    def _launch(self, ordered: Ordered) -> None:
        """Queue one more chunk on the device."""
        begins = max(monotonic(), self.device[-1][0] if self.device else 0.0)
        held = self.held[ordered.request]
        cached = held.places(ordered.chunk).stop <= held.cached
        self.device.append((begins + (0.0 if cached else self.rank.load.forward_s), ordered))

    def _compute(self) -> None:
        """Finish the chunks that the device has computed by now."""
        while self.device and self.device[0][0] <= monotonic():
            _, ordered = self.device.popleft()
            self._finish(ordered)

    def _finish(self, ordered: Ordered) -> None:
        """Fill the pages of a chunk that the device has computed."""
        held = self.held[ordered.request]
        places = held.places(ordered.chunk)
        for page, place in zip(held.chunk(ordered.chunk), places, strict=True):
            self.pools[:, page] = self.rank.load.page(held.request.room, self.rank.name, place)
        held.cached = max(held.cached, places.stop)
        self.prefill.chunk_done(held.running, monotonic())

    def _send(self, held: OptimisticRequest, chunks: Sequence[int], *, last: bool) -> None:
        metadata = self.rank.load.metadata(held.request.room, self.rank.name)
        for chunk in chunks:
            ends = last and chunk == chunks[-1]
            if ends:
                self.rank.meet_fate(held.request.room)
            held.sender.send(held.chunk(chunk), last=ends, metadata=metadata if ends else b"")

    def _end(self, held: OptimisticRequest) -> None:
        success = held.sender.poll() is KVPoll.SUCCESS
        self.report.outcomes[held.request.room] = success
        if not success:
            self.report.reasons[held.request.room] = held.sender.failure or held.running.reason
        self._give_back(held)
        del self.held[held.running]

    def _cache_hits(self) -> dict[str, float]:
        """The hit rate of the prefix cache, and the pages that the rate leaves out: those of passes
        that were run again.
        """
        hits = self.prefill.hit_rate
        return {"optimistic_hit_rate": hits.rate,
                "optimistic_repeated_pages": hits.reprocessed_input_tokens,
                "optimistic_repeated_hits": hits.reprocessed_hit_tokens}

    def _give_back(self, held: OptimisticRequest) -> None:
        self.pool.give(held.pages)
        held.pages = ()
