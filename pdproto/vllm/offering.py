"""Prefill's half in the scheduler: blocks are offered to decode as they are computed, and kept.

Rule 1: vLLM keeps the blocks of a request from its end until `finished_sending` names it, once. A
        worker names it (sending.py).
Rule 2: a room that a proxy has drawn (early.py) opens with the step that follows the arrival of its
        request, and each step grants the blocks that it computes. Any other room opens with the
        step that computes the last of the prompt, so it is open before prefill answers.
Rule 3: vLLM takes the blocks of a request that it preempts, and asks nobody. So blocks that are
        granted are pinned (pins.py) until nothing reads them. They hold what was computed, also if
        the request is computed again.
Rule 4: a request that begins in a step with synchronous loads of another connector is granted when
        it has ended: such a load may fail when its blocks would be on their way.
Rule 5: without prefix caching a request is granted with the step that computes the last of it. A
        request that is computed again would need its memory twice.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pdproto.vllm.ahead import found
from pdproto.vllm.blocks import NULL_BLOCK, LayerGroup, carried, firsts, held
from pdproto.vllm.early import (
    TRANSFER_ID,
    TWICE,
    DrawnRooms,
    Introduction,
    room_in,
    wants_introduction,
)
from pdproto.vllm.layout import Layout
from pdproto.vllm.offer import FOR_DECODE, GOES_ON, VERSION, Offer
from pdproto.vllm.orders import Blocks, Close, Grant, OpenRoom, Orders
from pdproto.vllm.pins import Pins
from pdproto.vllm.prompts import Prompt, name_of, prompt_of
from pdproto.vllm.ranks import Ranks
from pdproto.vllm.rooms import Rooms
from pdproto.vllm.seals import Seals

log = logging.getLogger("pdproto.vllm")

NOTHING: Final[tuple[bool, None]] = False, None
LEFT: Final = "the request has ended at prefill before it was computed"
TAKEN: Final = "vLLM has given the blocks of the request to others before they were sent"
REFUSED: Final = "prefill's API has refused the request"


@dataclass(slots=True)
class AtPrefill:
    """A request at prefill's scheduler whose KV cache decode gets.

    asked: tokens of its prompt. tokens: those that are handed over. early: the room that a proxy
    has drawn. is_last: vLLM generates one token only. prompt: as it was asked for.
    room: None until one is open. blocks: by group, as vLLM has them. granted: how many are, by
    group. problem: why it is not handed over. is_late: by rule 4.
    """

    asked: int
    tokens: int
    early: int | None
    is_last: bool
    prompt: Prompt
    room: int | None = None
    blocks: Blocks = field(default_factory=list)
    granted: list[int] = field(default_factory=list)
    problem: str | None = None
    is_late: bool = False


class OfferingScheduler:
    """The scheduler's half at prefill. ranks: of this server; set when its workers are known.
    seals: of its offers. parts_of: the blocks, or parts of blocks, of vLLM's, by group. is_caching:
    whether vLLM finds the blocks of an earlier pass again (rule 5).
    """

    def __init__(
        self, groups: Sequence[LayerGroup], layout: Layout, seals: Seals,
        parts_of: Callable[[Any], Blocks] = list, *, is_caching: bool = False,
    ) -> None:
        self.ranks: Ranks = {}
        self.pins: Final = Pins()
        self._groups: Final = groups
        self._layout: Final = layout
        self._rooms: Final = Rooms()
        self._seals: Final = seals
        self._parts_of: Final = parts_of
        self._is_caching: Final = is_caching
        self._drawn: Final = DrawnRooms()
        self._requests: Final[dict[str, AtPrefill]] = {}

    @staticmethod
    def look_ahead(request: Any) -> None:
        """Find what will be said of the prompt. In any thread."""
        if (request.kv_transfer_params or {}).get(FOR_DECODE):
            found(request, prompt_of)

    def arrived(self, request: Any, orders: Orders) -> None:
        """Note a request whose KV cache decode gets, and open the room that a proxy has drawn."""
        if not (request.kv_transfer_params or {}).get(FOR_DECODE):
            return
        name, one = request.request_id, self._expect(request)
        self._requests[name] = one
        if one.problem is not None:
            log.warning("request %s is not handed over: %s", name, one.problem)
        elif one.early is not None:
            one.room = one.early
            request.max_tokens, one.is_last = 1, True
            orders.open.append(OpenRoom(name, one.early, one.tokens, name_of(one.prompt)))

    def _expect(self, request: Any) -> AtPrefill:
        """Have vLLM compute no more tokens of a request than are handed over.

        A state would move on with each further token, also with one that prefill generates.
        """
        asked, prompt = request.num_prompt_tokens, found(request, prompt_of)
        early, problem = None, None
        kept = carried(self._groups, asked)
        if is_continued(request.kv_transfer_params):
            kept, request.max_tokens = asked, 1
        try:
            if TRANSFER_ID in request.kv_transfer_params:
                early = room_in(request.kv_transfer_params)
                problem = None if self._drawn.is_first(early) else TWICE
        except ValueError as error:
            problem = str(error)
        if 0 < kept < asked:
            shorten(request, asked - kept)
        return AtPrefill(asked, request.num_prompt_tokens, early, request.max_tokens == 1, prompt,
                        granted=[0] * len(self._groups), problem=problem)

    def computed(self, scheduled: Any, orders: Orders) -> None:
        """React to a step that vLLM has scheduled: grant the blocks that it computes."""
        if not self._requests:
            return
        counts, cached = scheduled.num_scheduled_tokens, scheduled.scheduled_cached_reqs
        late = bool(getattr(scheduled, "has_sync_kv_loads", True))
        for new in scheduled.scheduled_new_reqs:
            if (one := self._requests.get(new.req_id)) is not None:
                one.blocks = [list(ids) for ids in new.block_ids]
                one.is_late |= late
                self._step(new.req_id, one, new.num_computed_tokens + counts[new.req_id], orders)
        for place, name in enumerate(cached.req_ids):
            if (one := self._requests.get(name)) is not None:
                self._extend(one, cached.new_block_ids[place], name in cached.resumed_req_ids)
                one.is_late |= late
                self._step(name, one, cached.num_computed_tokens[place] + counts[name], orders)

    @staticmethod
    def _extend(one: AtPrefill, new: Sequence[Sequence[int]] | None, is_resumed: bool) -> None:
        if is_resumed:
            one.blocks = [list(ids) for ids in new or ()]
        else:
            for ids, more in zip(one.blocks, new or (), strict=False):
                ids.extend(more)

    def _step(self, name: str, one: AtPrefill, computed: int, orders: Orders) -> None:
        """So many tokens of the request are computed at the end of the step."""
        is_computed = one.is_last and computed >= one.tokens
        is_early = one.early is not None and self._is_caching
        if (one.problem is None and not one.is_late and self.pins.pool is not None
                and (is_early or is_computed)):
            self._open(name, one, orders)
            self._grant(name, one, held(self._groups, self._parts_of(one.blocks), one.tokens),
                        computed, orders)

    def _open(self, name: str, one: AtPrefill, orders: Orders) -> None:
        if one.room is None:
            one.room = self._rooms.draw()
            orders.open.append(OpenRoom(name, one.room, one.tokens, name_of(one.prompt)))

    def _grant(
        self, name: str, one: AtPrefill, blocks: Blocks, computed: int, orders: Orders
    ) -> None:
        """Grant what has become final. A window's blocks that vLLM may free are not granted."""
        new = []
        for place, (group, ids) in enumerate(zip(self._groups, blocks, strict=True)):
            first, end = one.granted[place], group.ready(computed, one.tokens)
            kept = group.first_kept(one.tokens)
            new.append([block if number >= kept else NULL_BLOCK
                        for number, block in enumerate(ids[first:end], first)])
            one.granted[place] = max(first, end)
        if any(new):
            orders.grant.append(Grant(name, new))
            self.pins.pin(name, (block // group.parts for group, ids in zip(
                self._groups, new, strict=True) for block in ids if block != NULL_BLOCK))

    def finished(
        self, request: Any, blocks: Sequence[Sequence[int]], orders: Orders, *, complete: bool
    ) -> tuple[bool, dict[str, Any] | None]:
        """React to the end of a request. complete: it has ended normally, without an abort.

        Returns whether vLLM must keep the blocks, and the kv_transfer_params for the proxy.
        """
        params, name = request.kv_transfer_params or {}, request.request_id
        one = self._requests.pop(name, None)
        if one is None and params.get(FOR_DECODE):
            one = self._expect(request)
        if one is None or one.problem is not None:
            return NOTHING
        if not complete or (one.room is None and not any(blocks)):
            if one.room is None:
                return NOTHING
            is_refused = getattr(request, "abort_immediately", False)
            orders.close.append(Close(name, REFUSED if is_refused else LEFT))
            return True, None
        kept = held(self._groups, blocks, one.tokens)
        missing = [group.blocks(one.tokens) > granted
                   for group, granted in zip(self._groups, one.granted, strict=True)]
        starts = [group.first_kept(one.tokens) for group in self._groups]
        problem = None
        if any(missing) and not any(blocks):
            problem = TAKEN
        elif any(missing):
            self._open(name, one, orders)
            orders.grant.append(Grant(name, [
                ids[granted:] for ids, granted in zip(kept, one.granted, strict=True)]))
            starts = firsts(kept)
        orders.close.append(Close(name, problem))
        return True, self._params(params, one, starts)

    def _params(
        self, params: dict[str, Any], one: AtPrefill, starts: list[int]
    ) -> dict[str, Any]:
        """What prefill answers: an offer if it has drawn the room, and an introduction if the proxy
        asks for one.
        """
        ranks, answer = [(*rank, *where) for rank, where in self.ranks.items()], {}
        if one.early is None:
            answer = self._seals.sealed(Offer(
                VERSION, str(one.room), one.asked, one.tokens, starts, ranks, dict(self._layout),
                dict(one.prompt))).params()
        if is_continued(params):
            answer[GOES_ON] = True
        if wants_introduction(params):
            answer |= self._seals.sealed(Introduction(
                VERSION, ranks, dict(self._layout), [group.parts for group in self._groups],
            )).params()
        return answer


def is_continued(params: Mapping[str, Any]) -> bool:
    """Whether decode will be asked for the prompt and, behind it, the token that prefill samples.
    """
    return bool(params.get(GOES_ON)) and TRANSFER_ID not in params


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
