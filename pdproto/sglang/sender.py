"""SGLang's view of a prefill rank's hand-over: its calls, passed on to a Sender.

Rule 1: an end is told when the pages are free again, since SGLang takes them back at once.
"""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sglang.srt.disaggregation.base.conn import BaseKVSender, KVTransferMetric
from sglang.srt.disaggregation.common.conn import KVTransferError

from pdproto.spec.handoff.poll import KVPoll

if TYPE_CHECKING:
    from pdproto.sglang.manager import PdprotoKVManager

ENDED = (KVPoll.FAILED, KVPoll.SUCCESS)


class PdprotoKVSender(BaseKVSender):
    """See the rule above. Every call returns at once."""

    def __init__(
        self,
        mgr: "PdprotoKVManager",
        bootstrap_addr: str,
        bootstrap_room: int,
        req_has_disagg_prefill_dp_rank: bool = False,  # noqa: ARG002 - one rank, so never asked
    ) -> None:
        self.kv_mgr = mgr
        self.bootstrap_server_url = bootstrap_addr
        self.bootstrap_room = bootstrap_room
        self.sender = mgr.prefill.open(bootstrap_room)
        self._before = KVPoll.BOOTSTRAPPING
        self._pages = self._sent = self._slot = 0
        self._began: float | None = None
        self._metric = KVTransferMetric()

    def init(self, num_kv_indices: int, aux_index: int | None = None) -> None:
        """How many pages there will be, and the slot of the request's metadata."""
        self._pages, self._slot = num_kv_indices, aux_index or 0

    def send(
        self,
        kv_indices: NDArray[np.int32],
        state_indices: Sequence[Any] | None = None,  # noqa: ARG002 - refused at start-up
        num_kv_tokens: int | None = None,  # noqa: ARG002 - pages say it
    ) -> None:
        """The next pages; with the last of them goes the metadata row."""
        self._began = self._began or monotonic()
        self._sent += len(kv_indices)
        last = self._sent >= self._pages
        row = self.kv_mgr.rows.read(self._slot) if last else b""
        self.sender.send(kv_indices.tolist(), last=last, metadata=row)

    def poll(self) -> KVPoll:
        stands = self.sender.poll()
        if stands in ENDED and not self.sender.released:
            return self._before
        if stands is KVPoll.SUCCESS and self._metric.transfer_latency_s is None:
            self._metric.transfer_latency_s = monotonic() - (self._began or monotonic())
            self._metric.transfer_total_bytes = self._sent * self.kv_mgr.page_bytes
        self._before = stands
        return stands

    def poll_pp_consensus(self) -> KVPoll:
        return self.poll()

    def should_send_kv_chunk(self, num_pages: int, last_chunk: bool) -> bool:
        return num_pages > 0 or last_chunk

    def mark_prefill_complete(self) -> None:
        """Decode allocates early here, so there is nothing to say."""

    def get_transfer_metric(self) -> KVTransferMetric:
        return self._metric

    def failure_exception(self) -> None:
        raise KVTransferError(self.bootstrap_room, self.sender.failure or "the scheduler gave up")

    def abort(self) -> None:
        self.sender.abort("aborted by the prefill scheduler")
