"""SGLang's view of a decode rank's hand-over: its calls, passed on to a Receiver.

The table decides the answer of a poll, and when the hand-over is opened, stopped and closed
(spec/handoff/scheduler.py has the rules). This module turns calls into events of the table, and
acts on the changes of its steps. One thread, the scheduler's, makes all calls.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from sglang.srt.disaggregation.base.conn import BaseKVReceiver, KVTransferDestination

from pdproto.node.decode.receiver import Receiver
from pdproto.runtime.automaton import Assignment, Automaton, Event
from pdproto.sglang.prompts import NO_ROOM, room_of
from pdproto.sglang.statuses import failed
from pdproto.spec.handoff import scheduler
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.scheduler import Reported, Slot

if TYPE_CHECKING:
    from pdproto.sglang.manager import PdprotoKVManager
    from pdproto.sglang.prefills import Feed

VIEW: Final = Automaton(scheduler.VIEW, {Life: 1})
THE_LIFE: Final = (0,)  # an instance of the table has one life
FIND, OPEN, GIVE_UP, CLEAR = map(VIEW.call, ("find", "open", "give_up", "clear"))
STATUSES: Final[Mapping[KVPoll, Reported]] = {
    KVPoll.TRANSFERRING: Reported.MOVING, KVPoll.SUCCESS: Reported.LANDED,
    KVPoll.FAILED: Reported.BROKEN,
}


class PdprotoKVReceiver(BaseKVReceiver):
    """SGLang's receiver of one request. A request whose room cannot be fails.

    bootstrap_infos: the places of the ranks that send, as soon as they are known. abort_notified:
    whether SGLang keeps the pages of the failed request until no write can reach them.
    recomputed: why prefill has not computed the KV again, "" if it has; None if it was not asked
    to. tokens: of the next pages (plugin.py); None for whole pages.
    """

    require_staging = False
    tokens: int | None = None

    def __init__(
        self, mgr: "PdprotoKVManager", bootstrap_addr: str, bootstrap_room: int | None = None
    ) -> None:
        self.kv_mgr = mgr
        self.bootstrap_addr = bootstrap_addr
        self.bootstrap_room = NO_ROOM  # also if it cannot be: SGLang and we have it for a key
        self.receiver: Receiver | None = None
        self.bootstrap_infos: list[dict[str, Any]] | None = None
        self.abort_notified = False
        self.recomputed: Future[str] | None = None
        self._state = VIEW.initial
        self._seen: tuple[KVPoll, bool] | None = None  # the last answer of the node
        self._reason = ""  # of an abort at this end
        self._is_lookup = False  # it is that of a look-up, so the same request may succeed later
        self._feed: Feed | None = None
        self._dp_rank: int | None = None
        self._published: tuple[list[int], int, int] | None = None  # items, slot, prefix
        self._turn = None if mgr.turns is None else mgr.turns.draw()
        self._prompt, self._once = mgr.prompt, mgr.once
        self._reactions: Final[dict[object, Callable[[], None]]] = {
            (scheduler.status, Reported.UNDER_WAY): self._open,
            (scheduler.passed, True): self._pass_turn,
            (scheduler.stopped, True): self._stop,
            (scheduler.closed, True): self._close,
        }
        try:
            self.bootstrap_room = room_of(bootstrap_room)
        except (TypeError, ValueError) as error:
            self._give_up(str(error))

    # Calls of SGLang

    @property
    def supports_host_destination(self) -> bool:
        """See SGLang's BaseKVReceiver, and the manager's."""
        return self.kv_mgr.supports_host_destination

    def init(self, prefill_dp_rank: int) -> None:
        """Find the ranks that run the room. Until they are found, poll() returns Bootstrapping;
        after a failure, Failed.
        """
        self._dp_rank = prefill_dp_rank
        self._find()

    @property
    def is_finding(self) -> bool:
        """Whether its ranks are being looked up."""
        return self._dp_rank is not None and self._feed is None and not self._reason

    def _find(self) -> None:
        """Find the ranks, if they are known by now."""
        if not self.is_finding or self._dp_rank is None:
            return
        try:
            feed = self.kv_mgr.prefills.feed(self.bootstrap_addr, self._dp_rank)
        except LookupError as error:
            self._is_lookup = True
            self._give_up(str(error))
            return
        if feed is None:
            return
        self._feed = feed
        if feed.twin is not None:
            self.kv_mgr.sink_data_path.presume(feed.twin)
        self.bootstrap_infos = [{"name": name, "endpoint": at} for name, at in feed.sources.items()]
        self._take(FIND)
        if self.kv_mgr.turns is None or self._turn is None:
            self._take(OPEN)
        else:
            self.kv_mgr.turns.take(self._turn, lambda: self._take(OPEN))

    def send_metadata(
        self,
        kv_indices: NDArray[np.int32],
        aux_index: int | None = None,
        state_indices: Sequence[Any] | None = None,
        decode_prefix_len: int | None = None,
        destination: KVTransferDestination = KVTransferDestination.DEVICE,
    ) -> None:
        """Take the destination of the KV: the pages behind the prefix that decode has cached, the
        items of each state, and the slot of the request's metadata. destination: whether pages and
        items are those of SGLang's host pool.
        """
        if self._reason or self.conclude_state is not None:
            return  # it fails, or has failed
        numbering = self.kv_mgr.sink_data_path.numbering
        host = destination is KVTransferDestination.HOST
        try:
            items = numbering.numbers(0, self.kv_mgr.parts.numbers(kv_indices, self.tokens),
                                      host=host)
            for chunk in numbering.chunks(state_indices, host=host):
                items += chunk
        except ValueError as error:
            self._give_up(str(error))
            return
        self._published = items, aux_index or 0, decode_prefix_len or 0
        self._publish()

    def poll(self) -> KVPoll:
        """The status of the hand-over, as the table gives it."""
        if self.recomputed is not None and self.recomputed.done():
            why, self.recomputed = self.recomputed.result(), None
            if why:
                self._give_up(why)
        self._find()
        self._look()
        return VIEW.first_value(scheduler.VIEW_POLL, self._state)

    @property
    def conclude_state(self) -> KVPoll | None:
        """The outcome of the hand-over; None before its end."""
        status = self.poll()
        return status if status in (KVPoll.FAILED, KVPoll.SUCCESS) else None

    def failure_exception(self) -> None:
        """Raise KVTransferError with the reason, at once.

        SGLang may have failed the request because another rank has. So a hand-over that has not
        ended is given up, and `ensure_abort_notified` has SGLang keep its pages until it ends.
        """
        is_from_another_rank = self.conclude_state is None
        if is_from_another_rank:
            self._give_up("the decode scheduler has given the request up")
        there = self.receiver
        why = self._reason or (there.failure if there is not None else None)
        transient = self._is_lookup if self._reason else there is not None and there.transient
        if self._published is None or self.conclude_state is not None:
            self.clear()
        raise failed(self.bootstrap_room, why or "the scheduler gave up", transient=transient,
                     is_from_another_rank=is_from_another_rank)

    def clear(self) -> None:
        """End the request. SGLang uses its pages again."""
        self._take(CLEAR)
        self.kv_mgr.let_go(self)

    def is_abort_release_safe(self) -> bool:
        """Whether no write can reach the pages of the failed request any more."""
        return self.conclude_state is not None

    def abort(self) -> None:
        """Abort the hand-over."""
        self._give_up("aborted by the decode scheduler")

    def refuse(self, reason: str) -> None:
        """Abort the hand-over of a request that the scheduler has refused, and forget it."""
        self._give_up(reason)
        self.clear()

    def ensure_abort_notified(self, *, force_arm: bool = False) -> None:  # noqa: ARG002 - its own
        """Have SGLang keep the pages of a failed request for as long as a write may reach them.
        Every source is told of every failure without this call.
        """
        if self.conclude_state is None and not self.abort_notified:
            self.abort_notified = True
            self.kv_mgr.held.setdefault(self.bootstrap_room, []).append(self)

    # Events of the table, and its changes

    def _take(self, event: Event) -> None:
        step = VIEW.take(event, self._state)
        self._state = step.state
        for symbol, _, value in step.changed:
            reaction = self._reactions.get((symbol, value))
            if reaction is not None:
                reaction()

    def _give_up(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._take(GIVE_UP)

    def _look(self) -> None:
        """Give the table the status of the hand-over in the node, if it has changed."""
        receiver = self.receiver
        if receiver is None:
            return
        status = receiver.poll()
        reached = status is not KVPoll.SUCCESS and receiver.page_lists is not None \
            and not receiver.released
        if (status, reached) == self._seen:
            return
        self._seen = status, reached
        news: list[Assignment] = [(scheduler.reached, THE_LIFE, reached)]
        if status in STATUSES:
            news.append((scheduler.status, THE_LIFE, STATUSES[status]))
        if status is KVPoll.SUCCESS:
            news.append((scheduler.row, THE_LIFE, self._write_row(receiver)))
        self._take(VIEW.device(*news))

    def _write_row(self, receiver: Receiver) -> Slot:
        """Store the metadata row of the first source: the stage of that source has the output."""
        try:
            self.kv_mgr.rows.write(receiver.slot or 0,
                                   receiver.metadata[receiver.endpoint.peers[0]])
        except ValueError as error:
            self._reason = str(error)
            return Slot.UNFIT
        return Slot.WRITTEN

    def _open(self) -> None:
        feed = self._feed
        assert feed is not None  # noqa: S101 - a turn is taken when the feed is known
        self.receiver = self.kv_mgr.decode.open(
            self.bootstrap_room, feed.sources, generation=self._turn, addressed=feed.addressed,
            sinks=[self.kv_mgr.name_of(rank) for rank in feed.sinks], prompt=self._prompt,
            once=self._once,
            soon=False)  # SGLang gives the pages in the same iteration, if it has any
        if feed.misfit:
            self._give_up(feed.misfit)  # now, because the abort tells prefill at once
        else:
            self._publish()

    def _publish(self) -> None:
        """Publish the pages as soon as there is a hand-over, and pages are given."""
        if self.receiver is None or self._published is None:
            return
        items, slot, prefix = self._published
        if prefix:
            self.kv_mgr.sink_data_path.expect(self.receiver.life, prefix)
        self.receiver.publish(items, slot=slot)

    def _stop(self) -> None:
        if self.receiver is not None:
            self.receiver.abort(self._reason)

    def _close(self) -> None:
        if self.receiver is not None:
            self.kv_mgr.sink_data_path.forget(self.receiver.life)
            self.receiver.close()

    def _pass_turn(self) -> None:
        if self.kv_mgr.turns is not None and self._turn is not None:
            self.kv_mgr.turns.skip(self._turn)
