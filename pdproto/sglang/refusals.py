"""Requests that SGLang refuses at one server, before it makes a sender or a receiver: the half of
the request at the other server is told why. front.py has those that come to no scheduler.

The server that refuses opens the hand-over and aborts it, as for a server that does not fit
(decision 068). Without that, the other half would wait for its time-out: SGLang tells it nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from sglang.srt.disaggregation import utils
from sglang.srt.utils.network import NetworkAddress

from pdproto.registry.desks import Desk
from pdproto.registry.lookups import named
from pdproto.runtime.own_clock import REST_S, OwnClock
from pdproto.sglang.prompts import note_request, note_unread

log = logging.getLogger("pdproto.sglang")

AGAIN_S: Final = 0.05  # between two looks whether a server is known by now
UNKNOWN_S: Final = 15.0  # as long as SGLang tries to find the server of a request
REFUSED: Final = -1  # new tokens that a refusal of the front asks for (front.py)


def tell_decode(queue: Any, request: Any) -> None:
    """Abort the hand-over of a request that prefill has refused, for the reason that SGLang gives.

    queue: SGLang's PrefillBootstrapQueue. All ranks of prefill refuse the same requests.
    """
    if request.bootstrap_host == utils.FAKE_BOOTSTRAP_HOST or request.bootstrap_room is None:
        return  # no decode server has a half of it
    note_request(queue, request)
    _refuse_at_prefill(queue, request, f"the prefill scheduler: {_reason(request)}")


def _refuse_at_prefill(queue: Any, request: Any, who_and_why: str) -> None:
    named = request.disagg_prefill_dp_rank
    utils.get_kv_class(queue.transfer_backend, utils.KVClassType.SENDER)(
        queue.kv_manager, "", request.bootstrap_room, named is not None,
    ).refuse(f"refused by {who_and_why}")


def look_up(queue: Any, request: Any) -> None:
    """Have a request's prefill server looked up, and SGLang try again as soon as it is known: its
    own pause between two attempts is a second. queue: see tell_prefill.
    """
    if request.bootstrap_host not in (None, utils.FAKE_BOOTSTRAP_HOST):
        tried = queue._ensure_last_attempt_time
        queue.kv_manager.prefills.tell(lambda address: tried.pop(address, None))
        queue.kv_manager.try_ensure_parallel_info(_address(request))


def tell_prefill(queue: Any, request: Any) -> None:
    """Abort the hand-over of a request that decode has refused, for the reason that SGLang gives.

    queue: SGLang's DecodePreallocQueue. All ranks of decode refuse the same requests in one order.
    """
    host, room = request.bootstrap_host, request.bootstrap_room
    if host in (None, utils.FAKE_BOOTSTRAP_HOST) or room is None:
        return  # no prefill server has a half of it
    note_request(queue, request)
    _refuse_at_decode(queue, request, f"the decode scheduler: {_reason(request)}")


def _refuse_at_decode(queue: Any, request: Any, who_and_why: str) -> None:
    receiver = utils.get_kv_class(queue.transfer_backend, utils.KVClassType.RECEIVER)(
        queue.kv_manager, _address(request), request.bootstrap_room)
    refusal = Refusal(queue, request, receiver, f"refused by {who_and_why}")
    if not refusal.tell():
        queue.kv_manager.refusals.add(refusal)


def hear(handle: Callable[..., Any], scheduler: Any, request: Any, **named: Any) -> Any:
    """Around SGLang's `handle_generate_request`: tell of what the front of this server has refused,
    and of what the scheduler refuses before its queue, as a session that it does not know.

    request: SGLang's TokenizedGenerateReqInput. Its prompt counts as unknown, so any hand-over of
    the room may be the one that ends.
    """
    is_prefill = scheduler.disaggregation_mode == utils.DisaggregationMode.PREFILL
    side, queue, refuse = (
        ("prefill", scheduler.disagg_prefill_bootstrap_queue, _refuse_at_prefill) if is_prefill
        else ("decode", scheduler.disagg_decode_prealloc_queue, _refuse_at_decode))
    if request.sampling_params.max_new_tokens == REFUSED:
        answer, who_and_why = None, f"the front of {side}: {request.input_text}"
    else:
        queue.kv_manager.request_id = ""
        answer = handle(scheduler, request, **named)
        if _is_known(scheduler, queue, request):
            return answer
        who_and_why = f"the {side} scheduler, before its queue: its client has the reason"
    if request.bootstrap_room is not None and request.bootstrap_host != utils.FAKE_BOOTSTRAP_HOST:
        note_unread(queue, request)
        refuse(queue, request, who_and_why)
    return answer


def _is_known(scheduler: Any, queue: Any, request: Any) -> bool:
    """Whether the request has come to its queue, where it is noted, or to that of grammars."""
    waiting = scheduler.grammar_manager.grammar_queue
    return queue.kv_manager.request_id == request.rid or bool(
        waiting and waiting[-1].rid == request.rid)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that decode has refused."""

    queue: Any
    request: Any
    receiver: Any
    reason: str

    def tell(self, *, is_late: bool = False) -> bool:
        """Tell prefill. Returns False if its server is being looked up. is_late: it is unknown for
        too long.
        """
        queue, request, address = self.queue, self.request, _address(self.request)
        rank, is_known = None, queue.kv_manager.try_ensure_parallel_info(address)
        if not is_known and not is_late:
            return False
        if is_known:
            rank = queue._resolve_prefill_dp_rank(request)
        if rank is not None:
            self.receiver.init(rank)
            if self.receiver.is_finding and not is_late:
                return False
        if rank is None or self.receiver.is_finding:
            log.warning("room %s: decode has refused it, and does not know which rank of %s to "
                        "tell", request.bootstrap_room, named(address))
        self.receiver.refuse(self.reason)
        return True


class Refusals(Desk):
    """Tells prefill servers of refusals as soon as they are known, in a thread of its own, whose
    clock stands still with it. clock: of the host.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._untold: list[tuple[float, Refusal]] = []  # until when the server may be unknown
        self._outer: Final = clock
        self._clock: Final = OwnClock(2 * REST_S)
        self._clock.begin(clock())
        super().__init__("pdproto-refusals")

    def add(self, refusal: Refusal) -> None:
        """Tell it later. For any thread."""
        self._jobs.put(lambda: self._untold.append(
            (self._clock.turn(self._outer()) + UNKNOWN_S, refusal)))

    def _pause(self) -> float | None:
        return AGAIN_S if self._untold else None

    def _ask(self) -> None:
        now = self._clock.turn(self._outer())
        self._untold = [(until, refusal) for until, refusal in self._untold
                        if not refusal.tell(is_late=now > until)]


def _address(request: Any) -> str:
    address: str = NetworkAddress(
        request.bootstrap_host, request.bootstrap_port).to_host_port_str()
    return address


def _reason(request: Any) -> str:
    return getattr(request.finished_reason or request.to_finish, "message", "")
