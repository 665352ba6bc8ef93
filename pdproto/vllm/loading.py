"""Decode's two halves: requests come, get their blocks, are loaded, or fail.

A request is known to prefill as soon as decode's scheduler has it, whether or not there are blocks
for it: prefill's clock for requests that never come does not run while it waits. What vLLM hears,
and when, is the table's to say (spec/handoff/load.py has the rules): here orders and what the node
reports become its events, and what its steps change is acted upon.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from pdproto.items.data_path import SinkItems
from pdproto.node.receiver import Receiver
from pdproto.runtime.automaton import Automaton, Event
from pdproto.spec.handoff import load
from pdproto.spec.handoff.load import Handoff, Heard
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Life
from pdproto.transport.nodes import DecodeNode
from pdproto.vllm import ranks
from pdproto.vllm.blocks import Group, has_what_is_needed, wanted
from pdproto.vllm.layout import Layout, misfit
from pdproto.vllm.offer import FROM_PREFILL, Offer, offer_in
from pdproto.vllm.orders import Begin, End, Orders, Place

log = logging.getLogger("pdproto.vllm")

LEFT: Final = "the request has ended at decode"
LOAD: Final = Automaton(load.LOAD, {Life: 1})
IT: Final = (0,)  # the one life that an instance of the table is about
OPEN, PLACE, SPARE, REFUSE, LEAVE = map(LOAD.call, ("open", "place", "spare", "refuse", "leave"))
ENDS: Final[Mapping[KVPoll, Handoff]] = {
    KVPoll.SUCCESS: Handoff.LANDED, KVPoll.FAILED: Handoff.BROKEN,
}


@dataclass(slots=True)
class Expected:
    """A request at decode's scheduler. problem: why it cannot be loaded. computed: tokens of it
    that decode has. is_placed: what there is to load has been said.
    """

    offer: Offer | None
    problem: str | None
    computed: int = 0
    is_placed: bool = False


class LoadingScheduler:
    """Of decode."""

    def __init__(self, groups: Sequence[Group], layout: Layout) -> None:
        self._groups: Final = groups
        self._layout: Final = layout
        self._expected: Final[dict[str, Expected]] = {}

    def arrived(self, request: Any, orders: Orders) -> None:
        """A request has come; nothing says yet when there will be blocks for it."""
        params = request.kv_transfer_params or {}
        if not params.get(FROM_PREFILL):
            return
        offer, problem = None, None
        try:
            offer = offer_in(params)
            problem = self._misfit(offer, request.num_prompt_tokens)
            orders.begin.append(Begin(request.request_id, offer.room_number, offer.placed_ranks()))
        except ValueError as error:
            problem = str(error)
        self._expected[request.request_id] = Expected(offer, problem)

    def matched(self, request: Any, computed: int) -> tuple[int, bool]:
        """How many tokens behind those that decode has come from prefill. It changes nothing but
        the note of `computed`.
        """
        expected = self._expected.get(request.request_id)
        if expected is None or expected.is_placed:
            return 0, False
        expected.computed = computed
        tokens = request.num_prompt_tokens
        offer = expected.offer
        if computed >= tokens or (expected.problem is None and offer is not None
                                  and not has_what_is_needed(self._groups, offer.firsts, tokens,
                                                             computed)):
            return 0, False  # decode computes it: a window has left a block that it needs
        return tokens - computed, True

    def placed(
        self, request: Any, blocks: Sequence[Sequence[int]], external: int, orders: Orders
    ) -> None:
        """vLLM has allocated blocks. external: tokens that it takes from prefill."""
        name, expected = request.request_id, self._expected.get(request.request_id)
        if expected is None or expected.is_placed:
            return
        expected.is_placed = True
        tokens = request.num_prompt_tokens
        problem = expected.problem
        if external and problem is None and expected.computed + external != tokens:
            problem = (f"vLLM takes {external} tokens behind {expected.computed} of {tokens}: "
                       f"want all of them")
        if external and problem is not None:
            log.warning("request %s cannot be loaded: %s", name, problem)
            orders.end.append(End(name, problem, fails=True))
        elif external:
            orders.place.append(Place(name, wanted(self._groups, blocks, tokens, expected.computed),
                                      awaited=True))
        elif problem is None:
            orders.place.append(Place(name, [[] for _ in self._groups], awaited=False))

    def finished(self, request: Any, orders: Orders) -> None:
        """The request is over, however it has ended."""
        if self._expected.pop(request.request_id, None) is not None:
            orders.end.append(End(request.request_id, LEFT))

    def _misfit(self, offer: Offer, tokens: int) -> str | None:
        if offer.tokens != tokens:
            return (f"the prompt has {offer.tokens} tokens at prefill and {tokens} at decode: want "
                    f"the same request, tokenizer and chat template at both ends")
        if len(offer.firsts) != len(self._groups):
            return (f"{len(offer.firsts)} groups of blocks at prefill and {len(self._groups)} at "
                    f"decode: want the same model at both ends")
        return misfit(offer.layout, self._layout)


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads that have ended: requests, and of those that failed the blocks too."""

    over: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    bad_blocks: set[int] = field(default_factory=set)


class Loading:
    """A request at a decode rank. Orders come from the worker's thread, news from the node's."""

    def __init__(self, request: str, told: Callable[["Loading"], None]) -> None:
        self.request: Final = request
        self.blocks: Sequence[Sequence[int]] = ()
        self.receiver: Receiver | None = None
        self.reason = ""  # why it was given up here, or could not be opened
        self.state = LOAD.initial
        self._told: Final = told
        self._lock: Final = Lock()
        self._seen: tuple[KVPoll, bool] | None = None  # what the node has said last

    @property
    def failure(self) -> str:
        """Why it has failed."""
        there = self.receiver.failure if self.receiver is not None else None
        return there or self.reason

    def take(self, event: Event, reason: str = "") -> None:
        """Let this happen to it. reason: why it ends, if it does by that."""
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
        """In the node's loop, after each step of the hand-over and when its blocks are free: tell
        the table what has become of it, where that is new.
        """
        stands = receiver.poll()
        reached = stands is not KVPoll.SUCCESS and receiver.pages is not None \
            and not receiver.released
        if (stands, reached) == self._seen:
            return
        self._seen = stands, reached
        end = ENDS.get(stands)
        self.take(LOAD.device((load.reached, IT, reached), *(
            [(load.handoff, IT, end)] if end is not None else [])))
        if end is not None:
            receiver.close()  # its blocks are vLLM's

    def freed(self) -> None:
        """In the node's loop: nothing is written into its blocks any more."""
        if self.receiver is not None:
            self.look(self.receiver)


class LoadingWorker:
    """Of a decode rank."""

    def __init__(self, node: DecodeNode, data_path: SinkItems, rank: ranks.Rank) -> None:
        self.node: Final = node
        self._data_path: Final = data_path
        self._rank: Final = rank
        self._loadings: Final[dict[str, Loading]] = {}  # of the worker's thread
        self._told: Final[deque[Loading]] = deque()

    def take(self, orders: Orders) -> None:
        """Do what the scheduler has told."""
        for begin in orders.begin:
            self._begin(begin)
        for place in orders.place:
            self._place(place)
        for end in orders.end:
            self._end(end)

    def over(self) -> Loads:
        """What vLLM is to hear of now."""
        loads = Loads()
        for _ in range(len(self._told)):
            loading = self._told.popleft()
            loads.over.add(loading.request)
            if LOAD.value(loading.state, load.heard, IT) is Heard.FAILED:
                log.warning("request %s was not loaded: %s", loading.request, loading.failure)
                loads.failed.add(loading.request)
                loads.bad_blocks.update(*loading.blocks)
        return loads

    def _begin(self, order: Begin) -> None:
        loading = self._loadings[order.request] = Loading(order.request, self._told.append)
        try:
            feed = ranks.feed(self._rank, order.ranks)
        except ValueError as error:
            loading.reason = str(error)
            return
        loading.take(OPEN)
        loading.receiver = self.node.open(order.room, feed.sources, sinks=feed.sinks,
                                          on_released=loading.freed, watcher=loading.look)

    def _place(self, order: Place) -> None:
        loading = self._loadings[order.request]
        loading.blocks = order.blocks
        if loading.receiver is not None:
            loading.receiver.publish([
                number for place, ids in enumerate(order.blocks) if ids
                for number in self._data_path.numbering.numbers(place, ids)])
        loading.take(PLACE if order.awaited else SPARE)

    def _end(self, order: End) -> None:
        """The last order about a request is that it has ended at decode."""
        if order.fails:
            if order.request not in self._loadings:
                self._loadings[order.request] = Loading(order.request, self._told.append)
            self._loadings[order.request].take(REFUSE, order.reason)
        elif loading := self._loadings.pop(order.request, None):
            loading.take(LEAVE, order.reason)
