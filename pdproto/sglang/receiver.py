"""SGLang's view of a decode rank's hand-over: its calls, passed on to a Receiver.

Rule 1: a failure is told when nothing is copied into the pages any more, since SGLang takes them
        back at once.
Rule 2: success is told when the metadata row is in its slot.
Rule 3: SGLang gives memory to what says WaitingForInput, which here means that the rank that runs
        the room is known; it never goes back from there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sglang.srt.disaggregation.base.conn import BaseKVReceiver, KVTransferDestination
from sglang.srt.disaggregation.common.conn import KVTransferError

from pdproto.net.receiver import Receiver
from pdproto.spec.handoff.poll import KVPoll

if TYPE_CHECKING:
    from pdproto.sglang.manager import PdprotoKVManager


class PdprotoKVReceiver(BaseKVReceiver):
    """See the rules above. bootstrap_infos: where the ranks are that send, once they are known."""

    require_staging = False

    def __init__(
        self, mgr: "PdprotoKVManager", bootstrap_addr: str, bootstrap_room: int | None = None
    ) -> None:
        if bootstrap_room is None:
            raise ValueError("bootstrap_room: a hand-over is of a room")
        self.kv_mgr = mgr
        self.bootstrap_addr = bootstrap_addr
        self.bootstrap_room = bootstrap_room
        self.receiver: Receiver | None = None
        self.bootstrap_infos: list[dict[str, Any]] | None = None
        self.conclude_state: KVPoll | None = None
        self.abort_notified = False
        self._reason = ""
        self._row_is_there = False

    def init(self, prefill_dp_rank: int) -> None:
        """Find the rank that runs the room. Raises nothing: a failure is what poll() says."""
        try:
            sources = self.kv_mgr.sources_of(self.bootstrap_addr, prefill_dp_rank)
        except LookupError as error:
            self._fail(str(error))
            return
        self.bootstrap_infos = [{"name": name, "endpoint": at} for name, at in sources.items()]
        self.receiver = self.kv_mgr.decode.open(self.bootstrap_room, sources)

    def send_metadata(
        self,
        kv_indices: NDArray[np.int32],
        aux_index: int | None = None,
        state_indices: Sequence[Any] | None = None,  # noqa: ARG002 - refused at start-up
        decode_prefix_len: int | None = None,
        destination: KVTransferDestination = KVTransferDestination.DEVICE,
    ) -> None:
        """The pages that the KV is to end in, and the slot of the request's metadata."""
        if self.receiver is None:
            return  # it has failed already, and poll() says so
        if decode_prefix_len:
            self._fail("decode has a prefix of this request in its cache, and the backend "
                       "transfers whole requests: start decode with --disable-radix-cache")
        elif destination is not KVTransferDestination.DEVICE:
            self._fail(f"the backend writes to the pool of decode, not to {destination.value}")
        else:
            self.receiver.publish(kv_indices.tolist(), slot=aux_index or 0)

    def poll(self) -> KVPoll:
        if self.receiver is None:
            return KVPoll.BOOTSTRAPPING if self.conclude_state is None else self.conclude_state
        stands = self.receiver.poll()
        if self._is_over(self.receiver, stands):
            self.conclude_state = stands
        if self.conclude_state is not None:
            return self.conclude_state
        ended = stands in (KVPoll.FAILED, KVPoll.SUCCESS)
        return KVPoll.TRANSFERRING if ended else max(stands, KVPoll.WAITING_FOR_INPUT)

    def _is_over(self, receiver: Receiver, stands: KVPoll) -> bool:
        if stands is KVPoll.FAILED:
            return receiver.released or receiver.pages is None
        return stands is KVPoll.SUCCESS and self._has_row()

    def _has_row(self) -> bool:
        """Put the metadata row where SGLang reads it, once."""
        if not self._row_is_there and self.receiver is not None:
            (row,) = self.receiver.metadata.values()
            try:
                self.kv_mgr.rows.write(self.receiver.slot or 0, row)
            except ValueError as error:
                self._fail(str(error))
                return False
            self._row_is_there = True
        return True

    def _fail(self, reason: str) -> None:
        self._reason = reason
        self.conclude_state = KVPoll.FAILED
        if self.receiver is not None:
            self.receiver.abort(reason)

    def failure_exception(self) -> None:
        why = self._reason or (self.receiver.failure if self.receiver is not None else None)
        self.clear()
        raise KVTransferError(self.bootstrap_room, why or "the scheduler gave up")

    def clear(self) -> None:
        """The request is over: its pages are SGLang's again."""
        if self.receiver is not None:
            self.receiver.close()

    def abort(self) -> None:
        self.abort_notified = True
        if self.receiver is None:
            self._fail("aborted by the decode scheduler")
        else:
            self.receiver.abort("aborted by the decode scheduler")

    def ensure_abort_notified(self, *, force_arm: bool = False) -> None:  # noqa: ARG002 - its own
        """Every source hears of every failure: nothing has to be armed."""
        self.abort_notified = True
