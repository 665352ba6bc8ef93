"""Decode's two halves: a request comes, gets its blocks, and is loaded or fails.

Decode introduces a request to prefill as soon as its scheduler has the request, even before there
are blocks for it. So prefill's timeout for unclaimed requests does not run while the request waits.
The table decides which reports vLLM gets, and when (spec/handoff/load.py has the rules). This
module turns orders and reports of the node into events of the table, and acts on the changes of its
steps.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, Final, TypeAlias

from pdproto.items.data_path import SinkItems
from pdproto.node.decode.receiver import Receiver
from pdproto.runtime import checked
from pdproto.runtime.automaton import Automaton, Event
from pdproto.spec.handoff import load
from pdproto.spec.handoff.load import Handoff, Heard
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Life
from pdproto.transport.nodes import DecodeNode
from pdproto.vllm import ranks
from pdproto.vllm.ahead import found
from pdproto.vllm.blocks import LayerGroup, carried, has_what_is_needed, runs, wanted
from pdproto.vllm.early import TRANSFER_ID, introduction_in, room_in
from pdproto.vllm.layout import Layout, misfit
from pdproto.vllm.offer import FOR_DECODE, FROM_PREFILL, Offer, offer_in, placed
from pdproto.vllm.orders import Begin, End, Fill, Orders
from pdproto.vllm.prompts import name_of, other_prompt, prompt_of
from pdproto.vllm.seals import Seals

log = logging.getLogger("pdproto.vllm")

SERVERS: Final = 256  # prefill servers whose ranks need not be read anew for each request
LEFT: Final = "the request has ended at decode"
API_REFUSED: Final = "decode's API has refused the request"
Failure: TypeAlias = tuple[str, bool]  # the reason, and Handle.transient
LOAD: Final = Automaton(load.LOAD, {Life: 1})
THE_LIFE: Final = (0,)  # an instance of the table has one life
OPEN, DECLINE, PLACE, SPARE, REFUSE, LEAVE = map(
    LOAD.call, ("open", "decline", "place", "spare", "refuse", "leave"))
ENDS: Final[Mapping[KVPoll, Handoff]] = {
    KVPoll.SUCCESS: Handoff.LANDED, KVPoll.FAILED: Handoff.BROKEN,
}


@dataclass(slots=True)
class Expected:
    """A request at decode's scheduler.

    tokens: those that prefill hands over. firsts: the first block that prefill has or will have,
    for each group; None if it cannot be loaded. problem: why. computed: tokens of it that decode
    has. is_placed: the order to load it has been given.
    """

    tokens: int
    firsts: Sequence[int] | None
    problem: str | None
    computed: int = 0
    is_placed: bool = False


class LoadingScheduler:
    """The scheduler's half at decode. seals: of the offers that it believes."""

    def __init__(self, groups: Sequence[LayerGroup], layout: Layout, seals: Seals) -> None:
        self._groups: Final = groups
        self._layout: Final = layout
        self._seals: Final = seals
        self._expected: Final[dict[str, Expected]] = {}
        self._unannounced = 0
        self._is_told = False

    def look_ahead(self, request: Any) -> None:
        """Compare what prefill has computed with the prompt, and check seals. In any thread."""
        if (request.kv_transfer_params or {}).get(FROM_PREFILL):
            found(request, self._examined)

    def arrived(self, request: Any, orders: Orders) -> None:
        """Note a request that has come. It may have to wait for blocks."""
        params = request.kv_transfer_params or {}
        if not params.get(FROM_PREFILL):
            if not params.get(FOR_DECODE):
                self._note_unannounced(request)
            return
        begin, self._expected[request.request_id] = found(request, self._examined)
        if begin is not None:
            orders.begin.append(begin)

    def _examined(self, request: Any) -> tuple[Begin | None, Expected]:
        """What is done about a request, in so far as it says it itself. Changes nothing."""
        params = request.kv_transfer_params
        tokens = carried(self._groups, request.num_prompt_tokens)
        try:
            return (self._drawn_by_proxy(params, request, tokens)
                    if TRANSFER_ID in params else self._offered(params, request, tokens))
        except ValueError as error:
            return None, Expected(tokens, None, str(error))

    def _offered(
        self, params: Mapping[str, Any], request: Any, tokens: int
    ) -> tuple[Begin, Expected]:
        """A request whose prompt, or the first part of it, prefill has computed. Raises ValueError
        for an offer that is not believed.
        """
        offer = offer_in(params)
        if (doubt := self._seals.doubt(offer)) is not None:
            raise ValueError(doubt)
        if offer.carried not in (offer.tokens, carried(self._groups, offer.tokens)):
            raise ValueError(f"kv_transfer_params: carried is {offer.carried} of {offer.tokens} "
                             f"tokens: want those that prefill has answered, unchanged")
        problem = self._misfit(offer, request)
        # The nodes compare what prefill has computed with what the offer says: a client may have
        # written that into it.
        return (Begin(request.request_id, offer.room_number, placed(offer.ranks), problem,
                      name_of(offer.prompt)),
                Expected(tokens if problem else self._of_use(offer.carried, tokens, request),
                         offer.firsts, problem))

    @staticmethod
    def _of_use(there: int, tokens: int, request: Any) -> int:
        """Tokens that decode can take: 0 if a state has its last one, which decode must compute."""
        return there if there <= tokens or tokens == request.num_prompt_tokens else 0

    def _drawn_by_proxy(
        self, params: Mapping[str, Any], request: Any, tokens: int
    ) -> tuple[Begin, Expected]:
        """A request that prefill computes meanwhile, or will compute. The nodes compare prompts.
        Raises ValueError for an introduction that is not believed, and for a bad id.
        """
        there, room = introduction_in(params), room_in(params)
        if (doubt := self._seals.doubt(there)) is not None:
            raise ValueError(doubt)
        problem = API_REFUSED if getattr(request, "abort_immediately", False) else (
            self._groups_misfit(len(there.parts)) or misfit(there.layout, self._layout))
        firsts = [group.first_kept(tokens, parts)
                  for group, parts in zip(self._groups, there.parts, strict=False)]
        return (Begin(request.request_id, room, placed(there.ranks), problem,
                      name_of(prompt_of(request))), Expected(tokens, firsts, problem))

    def matched(self, request: Any, computed: int) -> tuple[int, bool]:
        """The number of tokens that come from prefill, and whether they come asynchronously.

        computed: the tokens that decode has. vLLM may call it several times for a request.
        """
        expected = self._expected.get(request.request_id)
        if expected is None or expected.is_placed:
            return 0, False
        expected.computed = computed
        tokens, firsts = expected.tokens, expected.firsts
        if computed >= tokens or (expected.problem is None and firsts is not None
                                  and not has_what_is_needed(self._groups, firsts, tokens,
                                                             computed)):
            return 0, False  # decode computes it, because prefill has freed a block that it needs
        return tokens - computed, True

    def placed(
        self, request: Any, blocks: Sequence[Sequence[int]], external: int, orders: Orders
    ) -> None:
        """Note the blocks that vLLM has allocated. external: tokens that it takes from prefill."""
        name, expected = request.request_id, self._expected.get(request.request_id)
        if expected is None or expected.is_placed:
            return
        expected.is_placed = True
        tokens, problem = expected.tokens, expected.problem
        if external and problem is None and expected.computed + external != tokens:
            problem = (f"vLLM takes {external} tokens behind {expected.computed} of {tokens}: "
                       f"want all of them")
        if external and problem is not None:
            log.warning("request %s cannot be loaded: %s", name, problem)
            orders.end.append(End(name, problem, fails=True))
        elif external:
            orders.place.append(Fill(name, self._in_order(
                wanted(self._groups, blocks, tokens, expected.computed), tokens), awaited=True))
        elif problem is None:
            orders.place.append(Fill(name, [], awaited=False))

    def _in_order(
        self, blocks: Sequence[Sequence[int]], tokens: int
    ) -> list[tuple[int, Sequence[int]]]:
        """The last blocks of each group, in the order in which prefill sends them."""
        before = [group.blocks(tokens) - len(ids)
                  for group, ids in zip(self._groups, blocks, strict=True)]
        return [(run.group, blocks[run.group][run.first - before[run.group]:
                                              run.end - before[run.group]])
                for run in runs(self._groups, list(map(len, blocks)), tokens)]

    def finished(self, request: Any, orders: Orders) -> None:
        """Note that the request is over, for any reason."""
        if self._expected.pop(request.request_id, None) is not None:
            orders.end.append(End(request.request_id, LEFT))

    def take_unannounced(self) -> int:
        """The requests without kv_transfer_params that have come since the last call."""
        taken, self._unannounced = self._unannounced, 0
        return taken

    def _note_unannounced(self, request: Any) -> None:
        self._unannounced += 1
        if not self._is_told:
            self._is_told = True
            log.warning("request %s has no kv_transfer_params, so decode computes its prompt: does "
                        "the proxy pass on those that prefill has answered with? Further requests "
                        "without them are counted in vllm:pdproto_requests_without_params_total",
                        request.request_id)

    def _misfit(self, offer: Offer, request: Any) -> str | None:
        if getattr(request, "abort_immediately", False):  # a stand-in of one token has come
            return API_REFUSED
        tokens = request.num_prompt_tokens
        other = other_prompt(offer.prompt, prompt_of(request, offer.tokens))
        if offer.tokens > tokens or (offer.tokens < tokens and other is not None):
            return (f"the prompt has {offer.tokens} tokens at prefill and {tokens} at decode: want "
                    f"the same request, tokenizer and chat template at both ends, or a prompt at "
                    f"decode that begins with the one at prefill")
        return (self._groups_misfit(len(offer.firsts)) or misfit(offer.layout, self._layout)
                or other)

    def _groups_misfit(self, there: int) -> str | None:
        if there == len(self._groups):
            return None
        return (f"{there} groups of blocks at prefill and {len(self._groups)} at decode: want the "
                f"same model at both ends")


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads that have ended: all requests, those that failed, and the blocks of the failed ones."""

    over: set[str] = field(default_factory=set)
    failed: dict[str, Failure] = field(default_factory=dict)
    bad_blocks: set[int] = field(default_factory=set)


class Loading:
    """A request at a decode rank. Orders come in the worker's thread, reports in the node's."""

    def __init__(self, request: str, told: Callable[["Loading"], None]) -> None:
        self.request: Final = request
        self.blocks: Sequence[tuple[int, Sequence[int]]] = ()
        self.receiver: Receiver | None = None
        self.reason = ""  # why it was aborted here, or could not be opened
        self.state = LOAD.initial
        self._told: Final = told
        self._lock: Final = Lock()
        self._seen: tuple[KVPoll, bool] | None = None  # the last status in the node

    @property
    def failure(self) -> str:
        """Why it has failed."""
        there = self.receiver.failure if self.receiver is not None else None
        return there or self.reason

    @property
    def transient(self) -> bool:
        """Whether the whole request, sent again, may succeed."""
        return self.receiver is not None and self.receiver.transient

    def take(self, event: Event, reason: str = "") -> None:
        """Give the table an event. reason: why the load ends, if the event ends it."""
        with self._lock:
            self.reason = self.reason or reason
            step = LOAD.take(event, self.state)
            self.state = step.state
        for symbol, _, value in step.changed:
            if symbol is load.stopped and self.receiver is not None:
                self.receiver.abort(reason)
            elif symbol is load.heard and value in load.TOLD:
                self._told(self)

    def look(self, receiver: Receiver) -> None:
        """In the node's loop, after each step of the hand-over and when its blocks are free: give
        the table its status, if that has changed.
        """
        status = receiver.poll()
        reached = status is not KVPoll.SUCCESS and receiver.page_lists is not None \
            and not receiver.released
        if (status, reached) == self._seen:
            return
        self._seen = status, reached
        end = ENDS.get(status)
        self.take(LOAD.device((load.reached, THE_LIFE, reached), *(
            [(load.handoff, THE_LIFE, end)] if end is not None else [])))
        if end is not None:
            receiver.close()  # vLLM owns its blocks again

    def freed(self) -> None:
        """In the node's loop: note that no write reaches its blocks any more."""
        if self.receiver is not None:
            self.look(self.receiver)


class LoadingWorker:
    """The worker's half at decode."""

    def __init__(self, node: DecodeNode, data_path: SinkItems, rank: ranks.DecodeRank) -> None:
        self.node: Final = node
        self._data_path: Final = data_path
        self._feed: Final = lru_cache(SERVERS)(lambda places: ranks.feed(rank, dict(places)))
        self._loadings: Final[dict[str, Loading]] = {}  # only the worker's thread uses it
        self._told: Final[deque[Loading]] = deque()

    def take(self, orders: Orders) -> None:
        """Carry out the orders of the scheduler."""
        placed = {place.request: place for place in orders.place}
        for begin in orders.begin:
            self._begin(begin, placed.get(begin.request))
        for place in orders.place:
            self._place(place)
        for end in orders.end:
            self._end(end)

    def over(self) -> Loads:
        """The loads that have ended since the last call, for vLLM."""
        loads = Loads()
        for _ in range(len(self._told)):
            loading = self._told.popleft()
            loads.over.add(loading.request)
            if LOAD.value(loading.state, load.heard, THE_LIFE) is Heard.FAILED:
                log.warning("request %s was not loaded: %s", loading.request, loading.failure)
                loads.failed[loading.request] = loading.failure, loading.transient
                loads.bad_blocks.update(*(ids for _, ids in loading.blocks))
        return loads

    def _begin(self, order: Begin, place: Fill | None) -> None:
        """Introduce a request to prefill. place: its blocks, if it has them already."""
        loading = self._loadings[order.request] = Loading(order.request, self._told.append)
        try:
            feed = self._feed(tuple(order.ranks.items()))
            sources = checked.endpoints("ranks", feed.sources)  # a client may write any names
        except ValueError as error:
            loading.reason = str(error)
            return
        loading.take(OPEN)
        loading.receiver = self.node.open(
            order.room, sources, sinks=feed.sinks, on_released=loading.freed,
            watcher=loading.look, pages=None if place is None else self._pages(place),
            prompt=order.prompt)
        if order.problem is not None:
            loading.take(DECLINE, order.problem)

    def _place(self, order: Fill) -> None:
        loading = self._loadings[order.request]
        loading.blocks = order.blocks
        if loading.receiver is not None and loading.receiver.page_lists is None:
            loading.receiver.publish(self._pages(order))
        loading.take(PLACE if order.awaited else SPARE)

    def _pages(self, order: Fill) -> list[int]:
        return [number for place, ids in order.blocks
                for number in self._data_path.numbering.numbers_of(place, ids)]

    def _end(self, order: End) -> None:
        """Carry out the last order about a request: it has ended at decode."""
        if order.fails:
            if order.request not in self._loadings:
                self._loadings[order.request] = Loading(order.request, self._told.append)
            self._loadings[order.request].take(REFUSE, order.reason)
        elif loading := self._loadings.pop(order.request, None):
            loading.take(LEAVE, order.reason)
