"""SGLang's view of a decode rank's hand-over: its calls, passed on to a Receiver.

Rule 1: a failure is told when nothing is copied into the pages any more, since SGLang takes them
        back at once.
Rule 2: success is told when the metadata row is in its slot.
Rule 3: SGLang gives memory to what says WaitingForInput, which here means that the rank that runs
        the room is known; it never goes back from there.
Rule 4: where a group has several ranks, receivers begin in the order in which they were made
        (turns.py).
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
        self._is_cleared = False
        self._published: tuple[list[int], int, int] | None = None  # items, slot, prefix
        self._authority = ""  # the source whose metadata row counts
        self._turn = None if mgr.turns is None else mgr.turns.draw()

    def init(self, prefill_dp_rank: int) -> None:
        """Find the ranks that run the room. Raises nothing: a failure is what poll() says."""
        try:
            feed = self.kv_mgr.prefills.feed(self.bootstrap_addr, prefill_dp_rank)
        except LookupError as error:
            self._fail(str(error))
            return
        self._authority = next(iter(feed.sources))
        if feed.twin is not None:
            self.kv_mgr.sink_plane.presume(feed.twin)
        self.bootstrap_infos = [{"name": name, "endpoint": at} for name, at in feed.sources.items()]
        sinks = [self.kv_mgr.name_of(rank) for rank in feed.sinks]
        if self.kv_mgr.turns is None or self._turn is None:
            self._open(feed.sources, sinks)
        else:
            self.kv_mgr.turns.take(self._turn, lambda: self._open(feed.sources, sinks))

    def _open(self, sources: dict[str, str], sinks: list[str]) -> None:
        if self.conclude_state is None:
            self.receiver = self.kv_mgr.decode.open(
                self.bootstrap_room, sources, sinks=sinks, generation=self._turn)
        if self._published is not None:
            self._publish(*self._published)

    def send_metadata(
        self,
        kv_indices: NDArray[np.int32],
        aux_index: int | None = None,
        state_indices: Sequence[Any] | None = None,
        decode_prefix_len: int | None = None,
        destination: KVTransferDestination = KVTransferDestination.DEVICE,
    ) -> None:
        """The pages that the KV is to end in, those behind the prefix that decode has cached; the
        items of each state; and the slot of the request's metadata.
        """
        if self.conclude_state is not None:
            return  # it has failed already, and poll() says so
        if destination is not KVTransferDestination.DEVICE:
            self._fail(f"the backend writes to the pool of decode, not to {destination.value}")
            return
        numbering = self.kv_mgr.sink_plane.numbering
        try:
            items = numbering.numbers(0, kv_indices)
            for chunk in numbering.chunks(state_indices):
                items += chunk
        except ValueError as error:
            self._fail(str(error))
            return
        self._published = items, aux_index or 0, decode_prefix_len or 0
        if self.receiver is not None:
            self._publish(*self._published)

    def _publish(self, items: list[int], slot: int, prefix: int) -> None:
        receiver = self.receiver
        if receiver is not None:
            if prefix:
                self.kv_mgr.sink_plane.expect(receiver.life, prefix)
            receiver.publish(items, slot=slot)

    def poll(self) -> KVPoll:
        if self.conclude_state is not None and self.receiver is None:
            return self.conclude_state
        if self.receiver is None:
            is_known = self.bootstrap_infos is not None  # and its turn has to come yet
            return KVPoll.WAITING_FOR_INPUT if is_known else KVPoll.BOOTSTRAPPING
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
            row = self.receiver.metadata[self._authority]
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
        self._pass_turn()
        if self.receiver is not None:
            self.receiver.abort(reason)

    def failure_exception(self) -> None:
        why = self._reason or (self.receiver.failure if self.receiver is not None else None)
        self.clear()
        raise KVTransferError(self.bootstrap_room, why or "the scheduler gave up")

    def clear(self) -> None:
        """The request is over: its pages are SGLang's again."""
        self._pass_turn()
        if self.receiver is not None and not self._is_cleared:
            self._is_cleared = True
            self.kv_mgr.sink_plane.forget(self.receiver.life)
            self.receiver.close()

    def _pass_turn(self) -> None:
        if self.kv_mgr.turns is not None and self._turn is not None:
            self.kv_mgr.turns.skip(self._turn)

    def abort(self) -> None:
        self.abort_notified = True
        if self.receiver is None:
            self._fail("aborted by the decode scheduler")
        else:
            self.receiver.abort("aborted by the decode scheduler")

    def ensure_abort_notified(self, *, force_arm: bool = False) -> None:  # noqa: ARG002 - its own
        """Every source hears of every failure: nothing has to be armed."""
        self.abort_notified = True
