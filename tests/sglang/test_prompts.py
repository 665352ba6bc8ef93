"""The name of a prompt under SGLang: of SGLang's own requests, through its own queues."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.decode import DecodePreallocQueue
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.disaggregation.utils import TransferBackend
from sglang.srt.lora.lora_registry import LoRARef
from sglang.srt.managers.schedule_batch import MultimodalInputs, Req
from sglang.srt.runtime_context import get_parallel
from sglang.srt.sampling.sampling_params import SamplingParams

from examples.sglang_handoff.request import request_of
from pdproto.node.prefill.ended_rooms import OVER
from pdproto.node.prefill.sender import Sender
from pdproto.sglang import prompts
from pdproto.sglang.plugin import NAME, note_requests, plugin
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import ROW, Pair
from tests.sglang.test_receiver import Manager, reason
from tests.waiting import until

ROOM: Final = 5
TOKENS: Final = 16
PROMPTS: Final = "ABC"


def request(prompt: str, **changed: Any) -> Req:
    """As SGLang's scheduler makes it of what its tokenizer sends."""
    return request_of(ROOM, [ord(prompt)] * TOKENS, "prefill", rid=prompt, **changed)


def queue_with(**adapters: str) -> Any:
    refs = {number: LoRARef(lora_id=number, lora_name=name) for number, name in adapters.items()}
    runner = SimpleNamespace(lora_manager=SimpleNamespace(lora_refs=refs))
    return SimpleNamespace(scheduler=SimpleNamespace(tp_worker=SimpleNamespace(
        model_runner=runner)))


def name(made: Req, queue: Any = None) -> bytes:
    return prompts.prompt_of(queue or queue_with(), made)


def test_a_prompt_has_one_name_at_both_servers() -> None:
    first = name(request("A"))
    assert first == name(request("A"))
    assert first != name(request("B"))
    ids = [ord("A")] * TOKENS
    ids[-1] += 1
    assert name(request_of(ROOM, ids, "decode")) != first
    assert name(request_of(ROOM, [], "decode")) != first


def test_an_adapter_counts_by_its_name_and_not_by_the_id_that_a_server_draws() -> None:
    here, there = queue_with(one="math"), queue_with(two="math", three="law")
    of = name(request("A", lora_id="one"), here)
    assert of == name(request("A", lora_id="two"), there)
    assert len({of, name(request("A", lora_id="three"), there), name(request("A"))}) == 3


def test_a_cache_key_changes_no_kv() -> None:
    assert name(request("A", extra_key="tenant")) == name(request("A"))


def test_a_retracted_request_is_named_by_what_prefill_computes_again() -> None:
    """Prefill gets it as one prompt (Req.build_rebootstrap_payload)."""
    retracted = request("A")
    retracted.output_ids.extend([7, 8])
    assert name(retracted) == name(request("A"))
    retracted.pd_rebootstrap_in_progress = True
    again = request_of(ROOM, retracted.build_rebootstrap_payload()["input_ids"], "prefill")
    assert name(retracted) == name(again) != name(request("A"))


def test_a_request_that_sglang_refuses_keeps_its_name() -> None:
    """SGLang replaces its tokens, and the other server has them."""
    refused = request("A")
    with get_parallel().override(tp_rank=0):
        refused.set_finish_with_abort("malformed")
    assert [*refused.origin_input_ids] == [0]
    assert name(refused) == name(request("A"))


def test_images_count_by_their_places() -> None:
    """Each server replaces their tokens by hashes, which a GPU and a CPU compute differently."""
    here, there = request("A"), request("A")
    for made, padded in ((here, 10**6), (there, 2 * 10**6)):
        made.multimodal_inputs = MultimodalInputs(mm_items=[])
        made.origin_input_ids = array("q", [padded] * TOKENS)
    assert name(here) == name(there)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


def servers(pair: Pair) -> tuple[Any, Any]:
    """SGLang's queues of both servers, as far as they make senders and receivers."""
    plugin()
    backend = TransferBackend(NAME)
    (node, _), = pair.sources
    prefill: Any = SimpleNamespace(
        kv_manager=SimpleNamespace(prefill=node, is_dummy_cp_rank=False, statuses=None, dp_rank=0,
                                   named_rank=None, prompt=None),
        transfer_backend=backend, bootstrap_port=1, tp_rank=0, pp_rank=0,
        _check_if_req_exceed_kv_capacity=lambda _: False, _process_req=lambda _: None)
    decode: Any = SimpleNamespace(
        kv_manager=Manager(pair), transfer_backend=backend, queue=[])
    note_requests(prompts.note_request, prefill=True)
    note_requests(prompts.note_request, prefill=False)
    return prefill, decode


def half_at_prefill(prefill: Any, made: Req) -> Sender:
    PrefillBootstrapQueue.create_sender(prefill, made, 1)
    sender: Sender = made.disagg_kv_sender.sender
    return sender


def half_at_decode(decode: Any, made: Req, place: int = 0) -> Any:
    DecodePreallocQueue._create_receiver_and_enqueue(decode, made)
    receiver = decode.queue[-1].kv_receiver
    receiver.init(0)
    receiver.send_metadata(np.array([place]), aux_index=ord(made.rid))
    return receiver


def send(pair: Pair, senders: Mapping[str, Sender]) -> None:
    """Send each of them a row with the name of its prompt, when decode has asked for all."""
    until(lambda: all(one.poll() is KVPoll.WAITING_FOR_INPUT for one in senders.values()))
    (_, data_path), = pair.sources
    for prompt, sender in senders.items():
        sender.send(data_path.numbering.numbers(0, [1]),
                    metadata=prompt.encode().ljust(len(ROW), b" "))


def at_once(pair: Pair) -> dict[str, str]:
    """Three requests of one room, that come to decode in the other order. Returns of each the
    prompt whose metadata row, and so whose KV, it has got.
    """
    prefill, decode = servers(pair)
    senders = {prompt: half_at_prefill(prefill, request(prompt)) for prompt in PROMPTS}
    receivers = {prompt: half_at_decode(decode, request(prompt), place)
                 for place, prompt in enumerate(reversed(PROMPTS))}
    send(pair, senders)
    until(lambda: all(one.poll() is KVPoll.SUCCESS for one in receivers.values()))
    return {prompt: decode.kv_manager.slots[ord(prompt)].decode().strip() for prompt in PROMPTS}


def test_three_prompts_of_one_length_in_one_room_each_get_their_own(pair: Pair) -> None:
    assert at_once(pair) == {prompt: prompt for prompt in PROMPTS}


def test_without_names_they_get_the_kv_of_another(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "prompt_of", lambda *_: None)
    assert at_once(pair) != {prompt: prompt for prompt in PROMPTS}


def handed_over(pair: Pair, prefill: Any, decode: Any) -> None:
    """A request of the room has ended well at both servers."""
    receiver = half_at_decode(decode, request("A"))
    send(pair, {"A": half_at_prefill(prefill, request("A"))})
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
    receiver.clear()


def test_a_decode_request_that_a_router_repeats_alone_fails_at_once(pair: Pair) -> None:
    """No clock runs out: `bootstrap_timeout` is 300 s here."""
    prefill, decode = servers(pair)
    handed_over(pair, prefill, decode)
    repeated = half_at_decode(decode, request("A"))
    until(lambda: repeated.poll() is KVPoll.FAILED)
    assert OVER in reason(repeated)


def retracted() -> Req:
    """After one token: prefill computes the same prompt again (Scheduler.pause_generation)."""
    made = request("A")
    made.output_ids.append(7)
    made.pd_rebootstrap_forced_output_id = made.output_ids.pop()
    made.pd_rebootstrap_in_progress = True
    return made


def sample() -> Req:
    """Of n = 2. SGLang has computed one before, for its prefix cache."""
    made = request("A")
    made.sampling_params = SamplingParams(n=2)
    return made


@pytest.mark.parametrize("again", [retracted, sample])
def test_a_request_that_prefill_computes_again_in_its_room_waits_for_it(
    pair: Pair, again: Callable[[], Req]
) -> None:
    """Decode comes first."""
    prefill, decode = servers(pair)
    handed_over(pair, prefill, decode)
    receiver = half_at_decode(decode, again())
    (node, _), = pair.sources
    until(lambda: receiver.poll() is KVPoll.FAILED
          or receiver.receiver.life in node._node.lives)
    send(pair, {"A": half_at_prefill(prefill, request("A"))})
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
