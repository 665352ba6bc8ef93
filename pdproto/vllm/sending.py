"""Prefill's half in the workers: granted blocks are sent to the sinks that want them.

The table decides when vLLM hears that the blocks of a request are free, and when granted blocks may
be unpinned (spec/handoff/offered.py). This module turns orders and reports of the node into events
of the table. A hand-over has settled when no decode request reads the blocks or may still ask for
them, by the table of kept rooms (spec/handoff/keep.py), whether decode has them or not.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock
from typing import Final

from pdproto.items.data_path import SourceItems, placement_in
from pdproto.items.pieces import pieces
from pdproto.node.handle import ENDED
from pdproto.node.prefill.sender import Sender
from pdproto.pages.copies import computed_with
from pdproto.runtime.automaton import Automaton, Event
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff import offered
from pdproto.spec.handoff.offered import Passing, Told
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Life
from pdproto.transport.nodes import PrefillNode
from pdproto.vllm.blocks import NULL_BLOCK, LayerGroup, Stretch, runs
from pdproto.vllm.orders import Blocks, OpenRoom, Orders
from pdproto.vllm.rooms import ToldRooms

log = logging.getLogger("pdproto.vllm")

SENDING: Final = (KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING)
OFFERED: Final = Automaton(offered.OFFERED, {Life: 1})
THE_LIFE: Final = (0,)  # an instance of the table has one life
OPEN, GRANT, KEEP, STOP = map(OFFERED.call, ("open", "grant", "keep", "stop"))
ENDED_NOW: Final = OFFERED.device((offered.passing, THE_LIFE, Passing.ENDED))
SETTLED: Final = OFFERED.device((offered.passing, THE_LIFE, Passing.SETTLED),
                                (offered.unread, THE_LIFE, False))


@dataclass(slots=True, eq=False)
class Leg:
    """A decode request of a room. runs: what it wants and has not got, once that is known."""

    runs: deque[Stretch] | None = None

    def next(self, blocks: Blocks) -> Iterator[tuple[int, list[int]]]:
        """Blocks that it wants and has not got, as far as they are granted: a group and its blocks,
        in the order of the hand-over. blocks: those granted so far. Raises ValueError for a block
        that is gone.
        """
        while self.runs:
            run = self.runs[0]
            ids = blocks[run.group][run.first:run.end]
            if NULL_BLOCK in ids:
                raise ValueError(f"decode wants block {run.first + ids.index(NULL_BLOCK)} of a "
                                 f"group, and prefill has freed it: want the same prompt and the "
                                 f"same block size at both ends")
            if len(ids) < run.end - run.first:
                self.runs[0] = replace(run, first=run.first + len(ids))
                if ids:
                    yield run.group, ids
                return
            self.runs.popleft()
            yield run.group, ids


class Sending:
    """A request whose blocks are sent, in a worker. Grants come in the thread of the worker, and
    reports in that of the node.

    ended: called when vLLM may have its blocks. read: called with the number of grants when nothing
    reads them any more, if the request has not ended.
    """

    def __init__(
        self, order: OpenRoom, groups: int, ended: Callable[[str], None],
        read: Callable[[str, int], None],
    ) -> None:
        self.request: Final = order.request
        self.tokens: Final = order.tokens
        self.problem: str | None = None  # why no decode request gets all of it
        self.computed: Sequence[int] = ()  # says when the last step has ended (see MarksPages)
        self.blocks: Final[Blocks] = [[] for _ in range(groups)]  # those granted so far
        self.legs: Final[dict[Sender, Leg]] = {}
        self.lock: Final = RLock()
        self._grants = 0
        self._state = OFFERED.take(OPEN, OFFERED.initial).state
        self._ended: Final = ended
        self._read: Final = read

    def take(self, *events: Event) -> None:
        """Give the table events."""
        with self.lock:
            for event in events:
                step = OFFERED.take(event, self._state)
                self._state = step.state
                for symbol, _, value in step.changed:
                    if symbol is offered.pinned and not value:
                        self._read(self.request, self._grants)
                    elif symbol is offered.told and value is Told.FREE:
                        self._ended(self.request)

    def grant(self, blocks: Blocks, computed: Sequence[int]) -> None:
        """The blocks of a step, which has been computed."""
        for ids, more in zip(self.blocks, blocks, strict=True):
            ids.extend(more)
        self.computed = computed
        self._grants += 1
        self.take(GRANT)
        if not OFFERED.value(self._state, offered.pinned, THE_LIFE):
            self._read(self.request, self._grants)


class OfferingWorker:
    """The worker's half at prefill. rooms: with them the node refuses sinks. item_bytes: the size
    of a block, for each group.
    """

    def __init__(
        self, node: PrefillNode, rooms: ToldRooms, data_path: SourceItems,
        groups: Sequence[LayerGroup], item_bytes: Sequence[int],
    ) -> None:
        self.node: Final = node
        self._rooms: Final = rooms
        self._data_path: Final = data_path
        self._groups: Final = groups
        self._item_bytes: Final = item_bytes
        self._sendings: Final[dict[str, Sending]] = {}  # of requests that have not ended
        self._over: Final[deque[str]] = deque()
        self._reads: Final[deque[tuple[str, int]]] = deque()

    def take(self, orders: Orders) -> None:
        """Carry out the orders of the scheduler that do not wait for the step."""
        for order in orders.open:
            sending = self._sendings[order.request] = Sending(
                order, len(self._groups), self._over.append,
                lambda request, grants: self._reads.append((request, grants)))
            self.node.keep(
                order.room, pages=sum(group.blocks(order.tokens) for group in self._groups),
                watcher=partial(self._look, sending), prompt=order.prompt,
                on_over=partial(sending.take, ENDED_NOW, SETTLED))

    def computed(self, orders: Orders) -> None:
        """Carry out the others: the step is computed, or vLLM's stream has it."""
        if orders.grant:
            # Here, because vLLM's stream is the current one of this thread.
            mark = self._data_path.mark(())
            for grant in orders.grant:
                sending = self._sendings[grant.request]
                with sending.lock:
                    sending.grant(grant.blocks, mark)
                    for sender, leg in sending.legs.items():
                        self._push(sending, sender, leg)
        for close in orders.close:
            sending = self._sendings.pop(close.request)
            with sending.lock:
                sending.problem = close.problem
                for sender in sending.legs:
                    if close.problem is not None:
                        sender.abort(close.problem)
            sending.take(KEEP if close.problem is None else STOP)

    def over(self) -> set[str]:
        """The requests whose blocks have become free since the last call."""
        return {self._over.popleft() for _ in range(len(self._over))}

    def reads(self) -> dict[str, int]:
        """Of how many grants nothing is read any more, by request, where that is new."""
        return dict(self._reads.popleft() for _ in range(len(self._reads)))

    def _look(self, sending: Sending, sender: Sender) -> None:
        """In the node's loop, after each step of one of its hand-overs: the room is open."""
        self._rooms.told(sender.room)
        with sending.lock:
            leg = sending.legs.setdefault(sender, Leg())
            if sender.settled in ENDED:
                del sending.legs[sender]
            elif sending.problem is not None:  # it has come after the end of the request
                sender.abort(sending.problem)
            else:
                self._push(sending, sender, leg)
        if sender.settled is KVPoll.FAILED:
            log.warning("request %s, room %d: decode did not take its KV cache: %s",
                        sending.request, sender.room, sender.failure)

    def _push(self, sending: Sending, sender: Sender, leg: Leg) -> None:
        """Give the node what is granted and wanted. Under the lock of the request."""
        if sender.poll() not in SENDING:
            return
        try:
            if leg.runs is None:
                counts = {placement_in(lane.address).counts for lane in sender.known_lanes()}
                if len(counts) != 1:
                    raise ValueError(f"ranks of decode want {len(counts)} different parts of a "
                                     f"request")
                leg.runs = deque(runs(self._groups, counts.pop(), sending.tokens))
            elif not leg.runs:
                return
            parts = [piece for place, ids in leg.next(sending.blocks) for piece in pieces(
                self._data_path.numbering.numbers_of(place, ids), self._item_bytes[place])]
        except (RemoteProtocolError, ValueError) as error:
            leg.runs = deque()
            sender.abort(str(error))
            return
        is_all = not leg.runs
        if is_all and not parts:
            parts = [[]]
        for number, items in enumerate(parts, 1):
            sender.send(computed_with(items, sending.computed),
                        last=is_all and number == len(parts))
