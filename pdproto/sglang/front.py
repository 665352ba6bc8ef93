"""Requests that SGLang's front refuses at one server, before its schedulers hear of them: the half
of the request at the other server is told why.

The front is the process that serves HTTP (TokenizerManager). It refuses what it cannot read, or
what this server does not serve: a prompt over the model's context, an unknown adapter, input
embeddings beside a radix cache. Its server may be set otherwise than the other one, which waits.

The front has no node. It sends its schedulers the refusal in the place of the request, by SGLang's
own way: so it comes to the ranks that would have had the request, to all of them, behind the
requests that came before. `refusals.hear` takes it there.

Rule 1: a refusal is a request for REFUSED new tokens, whose text is the reason. No client can send
        one: SGLang's front refuses a number below 0.
Rule 2: whatever goes wrong here, the client gets the answer that the front had for it.
"""

import json
import logging
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from sys import exception
from typing import Any, Final

from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
from sglang.srt.observability.req_time_stats import APIServerReqTimeStats
from sglang.srt.runtime_context import get_disagg
from sglang.srt.sampling.sampling_params import SamplingParams

from pdproto.sglang.prompts import room_of
from pdproto.sglang.refusals import REFUSED

log = logging.getLogger("pdproto.sglang")

LEFT: Final = "its client has left"
PLACES: Final = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
TOLD: Final = "_pdproto_told"  # of an exception: its requests are told
REACHED: Final[ContextVar[bool]] = ContextVar("reached")  # generate_request, by this HTTP request


def tell_undispatched(manager: Any, states: Mapping[str, Any]) -> None:
    """Before SGLang forgets the states of a request that has failed in its front: tell of those
    that no scheduler has. manager: SGLang's TokenizerManager.
    """
    error = exception()
    for state in states.values():
        if not state.dispatched:
            _tell(manager, state.obj, _reason(error), getattr(state.obj, "routed_dp_rank", None))
    setattr(error, TOLD, True)


async def generate(
    generate_request: Callable[..., Any], manager: Any, request: Any, *given: Any, **named: Any
) -> AsyncIterator[Any]:
    """Around SGLang's `generate_request`: tell of a request that has failed before it had a state.
    """
    REACHED.set(True)
    async with aclosing(generate_request(manager, request, *given, **named)) as answers:
        try:
            async for answer in answers:
                yield answer
        except Exception as error:
            if not hasattr(error, TOLD):
                _tell(manager, request, _reason(error))
            raise


async def handle(handle_request: Callable[..., Any], serving: Any, request: Any, raw: Any) -> Any:
    """Around `handle_request` of SGLang's endpoints of OpenAI's kind: tell of a request that they
    refuse by themselves.
    """
    REACHED.set(False)
    answer = await handle_request(serving, request, raw)
    if not REACHED.get() and getattr(answer, "status_code", 200) >= 400:
        _tell(serving.tokenizer_manager, request, json.loads(answer.body).get("message", ""))
    return answer


def _tell(manager: Any, request: Any, reason: str, rank: int | None = None) -> None:
    """Send the schedulers what the front has refused. rank: the data-parallel one that the request
    names, if there is one.
    """
    try:
        for host, port, room in _halves(request):
            manager._dispatch_to_scheduler(_refusal(request, host, port, room, rank, reason))
    except Exception:  # rule 2
        log.exception("a request is refused, and the other half of it is not told")


def _halves(request: Any) -> Iterator[tuple[str, int, int]]:
    """Host, port and room of each prompt of a request. SGLang may not have checked them: those that
    cannot be are left out.
    """
    told = [getattr(request, name, None) for name in PLACES]
    count = max((len(one) for one in told if isinstance(one, list)), default=1)
    for host, port, room in zip(*(one if isinstance(one, list) else [one] * count for one in told),
                                strict=False):
        own = get_disagg().disaggregation_bootstrap_port if port is None else port
        try:
            where = room_of(room)
        except (TypeError, ValueError):
            continue  # the scheduler would refuse it at both servers
        if isinstance(host, str) and isinstance(own, int):
            yield host, own, where


def _refusal(
    request: Any, host: str, port: int, room: int, rank: int | None, reason: str
) -> TokenizedGenerateReqInput:
    """See rule 1."""
    made = TokenizedGenerateReqInput(
        rid=f"refused-{room}", input_text=reason, input_ids=array("q"), input_embeds=None,
        mm_inputs=None, token_type_ids=None, sampling_params=SamplingParams(max_new_tokens=REFUSED),
        return_logprob=False, logprob_start_len=-1, top_logprobs_num=0, token_ids_logprob=None,
        stream=False, bootstrap_host=host, bootstrap_port=port, bootstrap_room=room,
        routed_dp_rank=rank, time_stats=APIServerReqTimeStats(),
        disagg_prefill_dp_rank=getattr(request, "disagg_prefill_dp_rank", None))
    made.wrap_pickle_fields()
    return made


def _reason(error: BaseException | None) -> str:
    told = getattr(error, "detail", None) or error  # HTTPException has a status beside its detail
    return str(told) if isinstance(error, Exception) else LEFT
