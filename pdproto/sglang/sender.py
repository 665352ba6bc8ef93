"""SGLang's view of a prefill rank's hand-over: its calls, passed on to a Sender.

Rule 1: poll() reports the end only when the pages are free, because SGLang uses them again at once
        (SENDING_SETTLED in spec/handoff/poll.py).
Rule 2: all stages of a pipeline know a request by its room and SGLang's id of it. By the room
        alone, samples of one prompt, and clients that draw one room, have each other's status.
"""

from collections.abc import Sequence
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from sglang.srt.disaggregation.base.conn import BaseKVSender, KVTransferMetric

from pdproto.items.data_path import placement_in
from pdproto.items.pieces import pieces
from pdproto.node.prefill.sender import Lane, Sender
from pdproto.pages.copies import Computed
from pdproto.runtime import checked
from pdproto.runtime.automaton import Automaton, Event
from pdproto.sglang.prompts import NO_ROOM, room_of
from pdproto.sglang.statuses import failed
from pdproto.spec.handoff.poll import SENDING_SETTLED, KVPoll
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Sink, Source
from pdproto.spec.handoff.source import SOURCE

if TYPE_CHECKING:
    from pdproto.sglang.manager import PdprotoKVManager


# The table of every source, for one that feeds no sink; its chunks count as one.
ALONE: Final = Automaton(SOURCE, {Source: 1, Life: 1, Buffer: 1, Sink: 0, Chunk: 1})
OPEN, ABORT = ALONE.call("open_sender"), ALONE.call("abort_sender")
SEND_ALL: Final = ALONE.call("send", (0,))


def known_as(room: Any, request_id: Any) -> str:
    """The key of a request among the statuses of all stages (rule 2). A client chooses both."""
    return sha256(ascii((room, request_id)).encode()).hexdigest()


class Absent:
    """The hand-over of a context-parallel rank that sends no bytes: another rank has the same KV.

    The table of the source decides its status (spec/handoff/source.py).
    """

    transient = False

    def __init__(self) -> None:
        self._state = ALONE.initial
        self._reason = ""
        self._take(OPEN)

    def known_lanes(self) -> list[Lane]:
        """See Sender.known_lanes."""
        return []

    def _take(self, event: Event) -> None:
        self._state = ALONE.take(event, self._state).state

    @property
    def settled(self) -> KVPoll:
        """See Handle.settled."""
        return ALONE.first_value(SENDING_SETTLED, self._state)

    @property
    def failure(self) -> str | None:
        """See Handle.failure."""
        return self._reason if self.settled is KVPoll.FAILED else None

    def send(self, _: Sequence[int], *, last: bool, metadata: bytes) -> None:  # noqa: ARG002
        """See Sender.send."""
        if last:
            self._take(SEND_ALL)

    def abort(self, reason: str) -> None:
        """See Sender.abort."""
        self._reason = self._reason or reason
        self._take(ABORT)

    def close(self, reason: str) -> None:
        """See Sender.close."""
        self.abort(reason)


class PdprotoKVSender(BaseKVSender):
    """SGLang's sender of one request. Every call returns at once.

    SGLang calls `send` when the pass that computes the pages has ended, or is in the current
    stream. There is one exception: it may send a prefix that an earlier request computes in another
    stream now. Then it leaves the event behind that pass in this attribute, for the next `send`.
    """

    _early_send_wait_event: Any = None

    def __init__(
        self,
        mgr: "PdprotoKVManager",
        bootstrap_addr: str,
        bootstrap_room: int,
        req_has_disagg_prefill_dp_rank: bool = False,
    ) -> None:
        self.kv_mgr = mgr
        self.bootstrap_server_url = bootstrap_addr
        self.bootstrap_room = NO_ROOM  # also if it cannot be, as at decode
        self._pages = self._sent = self._slot = self._bytes = self._prefix = 0
        self._began: float | None = None
        self._has_begun = self._is_over = False  # over: SGLang asks for no status of all stages
        self._metric = KVTransferMetric()
        self._request = "" if mgr.statuses is None else known_as(bootstrap_room, mgr.request_id)
        # SGLang may say that the request names a rank, and not which: then it is this one.
        named = (mgr.dp_rank if mgr.named_rank is None else mgr.named_rank) \
            if req_has_disagg_prefill_dp_rank else None
        self.sender: Sender | Absent = (
            Absent() if mgr.is_dummy_cp_rank else self._opened(bootstrap_room, named))
        if isinstance(self.sender, Sender) and mgr.statuses is not None:
            self.sender.watchers = (*self.sender.watchers, self._tell)
        if mgr.statuses is not None and not mgr.is_dummy_cp_rank:
            while mgr.statuses.get(self._request) != self.poll():
                self._tell()

    def _opened(self, room: int, named: int | None) -> Sender | Absent:
        """The hand-over; one that has failed, for a room that cannot be. Decode refuses it, too."""
        try:
            self.bootstrap_room = room_of(room)
            named = checked.whole_or_none("disagg_prefill_dp_rank", named)
            return self.kv_mgr.prefill.open(self.bootstrap_room, named=named,
                                            prompt=self.kv_mgr.prompt)
        except (TypeError, ValueError) as error:
            refused = Absent()
            refused.abort(str(error))
            return refused

    def init(self, num_kv_indices: int, aux_index: int | None = None) -> None:
        """Take the number of pages, and the slot of the request's metadata."""
        self._pages, self._slot, self._has_begun = num_kv_indices, aux_index or 0, True

    def pop_decode_prefix_len(self) -> int:
        """The number of prompt tokens that decode has cached. Their pages are not sent: `send` is
        called for the pages from there on, so it begins where a page does.
        """
        self._prefix = max((placement_in(lane.address).prefix
                            for lane in self.sender.known_lanes()), default=0)
        return self.kv_mgr.parts.begin(self._prefix)

    def get_max_transfer_tokens(self) -> int | None:
        """None: the number of tokens in a transfer has no limit."""
        return None

    def send(
        self,
        kv_indices: NDArray[np.int32],
        state_indices: Sequence[Any] | None = None,
        num_kv_tokens: int | None = None,
    ) -> None:
        """Send the next pages. The states and the metadata row go with the last of them."""
        passed, self._early_send_wait_event = self._early_send_wait_event, None
        is_first = self._began is None
        self._began = self._began or monotonic()
        self._sent += len(kv_indices)
        is_last = self._sent >= self._pages
        numbering, sizes = self.kv_mgr.source_data_path.numbering, self.kv_mgr.item_bytes
        chunks: list[Sequence[int]] = [numbering.numbers(0, self.kv_mgr.parts.numbers(
            kv_indices, num_kv_tokens, self._prefix if is_first else 0))]
        if is_first and is_last:
            chunks = pieces(chunks[0], sizes[0])
        if is_last:
            chunks = [*filter(None, (*chunks, *numbering.chunks(state_indices)))] or [[]]
        for place, items in enumerate(chunks, 1):
            self._bytes += len(items) * sizes[numbering.component(items[0])] if items else 0
            last = is_last and place == len(chunks)
            row = self.kv_mgr.rows.read(self._slot) if last else b""
            computed = items if passed is None else Computed.by(items, passed)
            self.sender.send(computed, last=last, metadata=row)

    def poll(self) -> KVPoll:
        """The status of the hand-over (rule 1)."""
        status = self.sender.settled
        if status is KVPoll.SUCCESS and self._metric.transfer_latency_s is None:
            self._metric.transfer_latency_s = monotonic() - (self._began or monotonic())
            self._metric.transfer_total_bytes = self._bytes
        return status

    def poll_pp_consensus(self) -> KVPoll:
        """The lowest status of all stages of the pipeline; the first stage knows it."""
        if self.kv_mgr.statuses is None:
            return self.poll()
        told = self.kv_mgr.statuses.collect(self._request)
        return KVPoll.BOOTSTRAPPING if None in told else KVPoll(min(told))

    def _tell(self) -> None:
        """Tell the first stage the status of this one."""
        if self.kv_mgr.statuses is not None:
            self.kv_mgr.statuses[self._request] = int(self.poll())
            if self._is_over:  # since then, in SGLang's thread
                self.kv_mgr.statuses.pop(self._request)

    def _tell_no_more(self) -> None:
        self._is_over = True
        if self.kv_mgr.statuses is not None:
            self.kv_mgr.statuses.pop(self._request)

    def should_send_kv_chunk(self, num_pages: int, last_chunk: bool) -> bool:
        """Whether SGLang must call `send` for this chunk: yes, unless it is empty and not the last.
        """
        return num_pages > 0 or last_chunk

    def mark_prefill_complete(self) -> None:
        """Nothing to do: decode allocates early under this backend."""

    def get_transfer_metric(self) -> KVTransferMetric:
        """The numbers of the hand-over, complete after Success."""
        return self._metric

    def clear(self) -> None:
        """End the request. A hand-over that has not ended is aborted, because SGLang may have
        failed the request by itself.
        """
        self.sender.close("the prefill scheduler has given the request up")
        self._tell_no_more()

    def failure_exception(self) -> None:
        """End the request, and raise KVTransferError with the reason of its failure."""
        why = self.sender.failure or "the scheduler gave up"
        self.clear()
        raise failed(self.bootstrap_room, why, transient=self.sender.transient)

    def abort(self) -> None:
        """Abort the hand-over. Of a request that waits for its next chunk, SGLang calls nothing
        else.
        """
        self.sender.abort("aborted by the prefill scheduler")
        if self._has_begun:
            self._tell_no_more()

    def refuse(self, reason: str) -> None:
        """Abort the hand-over of a request that the scheduler has refused, and forget it."""
        self.sender.abort(reason)
        self.clear()
