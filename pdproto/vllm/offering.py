"""Prefill's two halves: blocks are kept, offered to decode, sent, and freed.

Rule 1: vLLM keeps the blocks of a request from its end until `finished_sending` names it, once.
Rule 2: a worker names a request when no decode request reads its blocks, or may still ask for
        them, by the table of kept rooms (spec/handoff/keep.py), whether decode has them or not.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pdproto.items.data_path import SourceItems, placement_in
from pdproto.items.pieces import pieces
from pdproto.node.prefill.sender import Sender
from pdproto.pages.copies import computed_with
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import PrefillNode
from pdproto.vllm.blocks import LayerGroup, carried, firsts, held, last
from pdproto.vllm.layout import Layout
from pdproto.vllm.offer import FOR_DECODE, VERSION, Offer
from pdproto.vllm.orders import Blocks, Orders, Send
from pdproto.vllm.prompts import Prompt, prompt_of
from pdproto.vllm.ranks import Ranks
from pdproto.vllm.rooms import Rooms, ToldRooms
from pdproto.vllm.seals import Seals

log = logging.getLogger("pdproto.vllm")

NOTHING: Final[tuple[bool, None]] = False, None


class OfferingScheduler:
    """The scheduler's half at prefill. ranks: of this server; set when its workers are known.
    seals: of its offers.
    """

    def __init__(self, groups: Sequence[LayerGroup], layout: Layout, seals: Seals) -> None:
        self.ranks: Ranks = {}
        self._groups: Final = groups
        self._layout: Final = layout
        self._rooms: Final = Rooms()
        self._seals: Final = seals
        # The prompts of requests of which decode computes the last tokens.
        self._shortened: Final[dict[str, Prompt]] = {}

    def arrived(self, request: Any) -> None:
        """Have vLLM compute no more tokens of a request than are handed over.

        A state would move on with each further token, also with one that prefill generates.
        """
        params, tokens = request.kv_transfer_params or {}, request.num_prompt_tokens
        kept = carried(self._groups, tokens)
        if params.get(FOR_DECODE) and 0 < kept < tokens:
            self._shortened[request.request_id] = prompt_of(request)
            shorten(request, tokens - kept)

    def finished(
        self, request: Any, blocks: Sequence[Sequence[int]], orders: Orders, *, complete: bool
    ) -> tuple[bool, dict[str, Any] | None]:
        """React to the end of a request. complete: it has ended normally, without an abort.

        Returns whether vLLM must keep the blocks, and the kv_transfer_params for the proxy.
        """
        params, name = request.kv_transfer_params or {}, request.request_id
        shortened = self._shortened.pop(name, None)
        if not (complete and params.get(FOR_DECODE) and any(blocks)):
            return NOTHING
        kept = held(self._groups, blocks, request.num_prompt_tokens)
        room = self._rooms.draw()
        orders.send.append(Send(name, room, kept))
        offer = Offer(VERSION, str(room), request.num_prompt_tokens + (shortened is not None),
                      firsts(kept), [(*rank, *where) for rank, where in self.ranks.items()],
                      dict(self._layout), dict(shortened or prompt_of(request)))
        return True, self._seals.sealed(offer).params()


def shorten(request: Any, tokens: int) -> None:
    """Take the last tokens from the prompt of a request that vLLM has not begun."""
    if request.prompt_token_ids is not None:
        # A new list, because where vLLM runs in one process its caller holds the old one.
        request.prompt_token_ids = request.prompt_token_ids[:-tokens]
    else:
        request.prompt_embeds = request.prompt_embeds[:-tokens]
    del request._all_token_ids[-tokens:]
    request.num_prompt_tokens -= tokens
    request.max_tokens = 1


@dataclass(slots=True)
class Sending:
    """A request whose blocks are kept. computed: says when the pass that computes them has ended
    (see MarksPages). sent: the senders that have been given the blocks.
    """

    request: str
    blocks: Blocks
    computed: Sequence[int]
    sent: set[Sender] = field(default_factory=set)


class OfferingWorker:
    """The worker's half at prefill. rooms: with them the node refuses sinks. item_bytes: the size
    of a block, for each group.
    """

    def __init__(
        self, node: PrefillNode, rooms: ToldRooms, data_path: SourceItems, item_bytes: Sequence[int]
    ) -> None:
        self.node: Final = node
        self._rooms: Final = rooms
        self._data_path: Final = data_path
        self._item_bytes: Final = item_bytes
        self._over: Final[deque[str]] = deque()

    def take(self, orders: Orders) -> None:
        """Carry out the orders of the scheduler."""
        for order in orders.send:
            # Here, because vLLM's stream is the current one of this thread.
            sending = Sending(order.request, order.blocks, self._data_path.mark(()))
            self.node.keep(order.room, pages=sum(map(len, order.blocks)),
                           watcher=partial(self._look, sending),
                           on_over=partial(self._over.append, order.request))

    def over(self) -> set[str]:
        """The requests whose blocks have become free since the last call."""
        return {self._over.popleft() for _ in range(len(self._over))}

    def _look(self, sending: Sending, sender: Sender) -> None:
        """In the node's loop, after each step of one of its hand-overs: the room is open."""
        self._rooms.told(sender.room)
        if sender not in sending.sent and sender.poll() is KVPoll.WAITING_FOR_INPUT:
            sending.sent.add(sender)
            self._send(sending, sender)
        if sender.settled is KVPoll.FAILED:
            log.warning("request %s, room %d: decode did not take its KV cache: %s",
                        sending.request, sender.room, sender.failure)

    def _send(self, sending: Sending, sender: Sender) -> None:
        try:
            counts = {placement_in(data).counts for data in sender.addresses.values()}
            if len(counts) != 1:
                raise ValueError(f"ranks of decode want {len(counts)} different parts of a request")
            chosen = last(sending.blocks, counts.pop())
        except (RemoteProtocolError, ValueError) as error:
            sender.abort(str(error))
            return
        chunks = [piece for place, ids in enumerate(chosen) if ids for piece in pieces(
            self._data_path.numbering.numbers_of(place, ids), self._item_bytes[place])] or [[]]
        for number, items in enumerate(chunks, 1):
            sender.send(computed_with(items, sending.computed), last=number == len(chunks))
