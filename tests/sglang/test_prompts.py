"""The name of a prompt under SGLang: of SGLang's own requests, through its own queues."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.decode import DecodeRequest
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore
from sglang.srt.lora.lora_registry import LoRARef
from sglang.srt.managers.schedule_batch import MultimodalInputs, Req
from sglang.srt.runtime_context import get_parallel
from sglang.srt.sampling.sampling_params import SamplingParams

from examples.sglang_handoff.request import request_of
from pdproto.node.prefill.ended_rooms import OVER
from pdproto.node.prefill.sender import Sender
from pdproto.sglang import prompts
from pdproto.sglang.plugin import note_requests, note_tokens
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import ROW, Pair
from tests.sglang.schedulers import Stages, prefill_manager, scheduler_of
from tests.sglang.test_receiver import Manager, reason
from tests.waiting import until

ROOM: Final = 5
TOKENS: Final = 2  # three prompts fit into the pages of a pair
PROMPTS: Final = "ABC"


def request(prompt: str, **changed: Any) -> Req:
    """As SGLang's scheduler makes it of what its tokenizer sends."""
    return request_of(ROOM, [ord(prompt)] * TOKENS, "prefill", rid=prompt, **changed)


def queue_with(folder: Path, **adapters: str) -> Any:
    """SGLang's queue of a prefill server with adapters of these paths, by their ids: a folder for
    each name, and in it one for each version.
    """
    with ExitStack() as closing:
        server = scheduler_of(closing, "prefill", prefill_manager(None), folder)
    server.tp_worker.model_runner.lora_manager.lora_refs = {
        number: LoRARef(lora_id=number, lora_name=PurePath(path).parts[-2], lora_path=path)
        for number, path in adapters.items()}
    return server.disagg_prefill_bootstrap_queue


def name(made: Req, queue: Any = None) -> bytes:
    return prompts.prompt_of(queue, made)


def test_a_prompt_has_one_name_at_both_servers() -> None:
    first = name(request("A"))
    assert first == name(request("A"))
    assert first != name(request("B"))
    ids = [ord("A")] * TOKENS
    ids[-1] += 1
    assert name(request_of(ROOM, ids, "decode")) != first
    assert name(request_of(ROOM, [], "decode")) != first
    long, other = [7] * 1_000_000, [7] * 999_999 + [8]
    assert name(request_of(ROOM, long, "prefill")) == name(request_of(ROOM, long, "decode"))
    assert name(request_of(ROOM, long, "prefill")) != name(request_of(ROOM, other, "decode"))


def test_an_adapter_counts_by_its_name_and_place_and_not_by_the_id_that_a_server_draws(
    tmp_path: Path
) -> None:
    """Seen red with the name alone: another version of an adapter counted as the same one."""
    here = queue_with(tmp_path, one="/here/math/1")
    there = queue_with(tmp_path, two="/there/math/1", three="/there/law/1", four="/there/math/2")
    of = name(request("A", lora_id="one"), here)
    assert of == name(request("A", lora_id="two"), there)
    others = [name(request("A", lora_id=number), there) for number in ("three", "four")]
    assert len({of, *others, name(request("A"))}) == 4


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


@pytest.fixture
def servers(pair: Pair, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """SGLang's schedulers of both servers."""
    note_requests(prompts.note_request, prefill=True)
    note_requests(prompts.note_request, prefill=False)
    note_tokens()
    (node, _), = pair.sources
    with ExitStack() as closing:
        yield (scheduler_of(closing, "prefill", prefill_manager(node), tmp_path),
               scheduler_of(closing, "decode", Manager(pair), tmp_path))


def half_at_prefill(prefill: Any, made: Req) -> Sender:
    prefill.disagg_prefill_bootstrap_queue.add(made, 1)
    assert prefill.disagg_prefill_bootstrap_queue.queue[-1] is made
    sender: Sender = made.disagg_kv_sender.sender
    return sender


def half_at_decode(decode: Any, made: Req) -> DecodeRequest:
    """SGLang takes a slot and pages for it, and names them to the receiver."""
    queue = decode.disagg_decode_prealloc_queue
    queue.add(made)
    (taken,), failed = queue.pop_preallocated()
    assert (taken.req, failed) == (made, [])
    decode.disagg_decode_transfer_queue.extend([taken])
    return taken


def send(pair: Pair, senders: Mapping[str, Sender]) -> None:
    """Send each of them a row with the name of its prompt, when decode has asked for all."""
    until(lambda: all(one.poll() is KVPoll.WAITING_FOR_INPUT for one in senders.values()))
    (_, data_path), = pair.sources
    for prompt, sender in senders.items():
        sender.send(data_path.numbering.numbers(0, range(TOKENS)),
                    metadata=prompt.encode().ljust(len(ROW), b" "))


def row_of(decode: Any, taken: DecodeRequest) -> str:
    """What has come to its slot."""
    until(lambda: taken.kv_receiver.poll() is KVPoll.SUCCESS)
    row: bytes = decode.disagg_decode_prealloc_queue.kv_manager.slots[taken.metadata_buffer_index]
    return row.decode().strip()


def at_once(pair: Pair, servers: tuple[Any, Any]) -> dict[str, str]:
    """Three requests of one room, that come to decode in the other order. Returns of each the
    prompt whose metadata row, and so whose KV, it has got.
    """
    prefill, decode = servers
    senders = {prompt: half_at_prefill(prefill, request(prompt)) for prompt in PROMPTS}
    taken = {prompt: half_at_decode(decode, request(prompt)) for prompt in reversed(PROMPTS)}
    send(pair, senders)
    return {prompt: row_of(decode, taken[prompt]) for prompt in PROMPTS}


def test_three_prompts_of_one_length_in_one_room_each_get_their_own(
    pair: Pair, servers: tuple[Any, Any]
) -> None:
    assert at_once(pair, servers) == {prompt: prompt for prompt in PROMPTS}


def test_without_names_they_get_the_kv_of_another(
    pair: Pair, servers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "prompt_of", lambda *_: None)
    assert at_once(pair, servers) != {prompt: prompt for prompt in PROMPTS}


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[tuple[Pair, list[Any]]]:
    """A decode node, and SGLang's schedulers of two stages of prefill, which share statuses."""
    note_requests(prompts.note_request, prefill=True)
    group = Stages()
    with ExitStack() as closing:
        pair, found = Pair(closing, [range(2), range(2, 4)]), []
        for stage, (node, _) in enumerate(pair.sources):
            statuses = PPConsensusStore(2, stage, group)
            closing.callback(statuses.close)
            found.append(scheduler_of(
                closing, "prefill", prefill_manager(node, statuses=statuses), tmp_path))
        yield pair, found


@pytest.mark.parametrize("prompts_of", ["AB", "AA"], ids=["two prompts", "two samples"])
def test_a_request_has_its_own_status_on_all_stages_of_a_pipeline(
    stages: tuple[Pair, list[Any]], prompts_of: str
) -> None:
    """Two requests of one room, of which decode asks for one after the other. Seen red with
    statuses by room: SGLang sends pages of a request that decode has not asked for, which raises in
    its scheduler and ends the server; and the end of one takes the status of the other.
    """
    pair, servers = stages
    sources = {node.name: node.endpoint for node, _ in pair.sources}

    def at_prefill(prompt: str, rid: str) -> list[Any]:
        halves = [request_of(ROOM, [ord(prompt)] * TOKENS, "prefill", rid=rid) for _ in servers]
        for server, half in zip(servers, halves, strict=True):
            half_at_prefill(server, half)
        return [half.disagg_kv_sender for half in halves]

    def is_asked_for(halves: list[Any]) -> bool:
        return bool(halves[0].poll_pp_consensus() is KVPoll.WAITING_FOR_INPUT)

    one, other = (at_prefill(prompt, rid) for prompt, rid in zip(prompts_of, "xy", strict=True))
    pair.node.open(ROOM, sources, pages=(0,), slot=0, prompt=name(request(prompts_of[0])))
    until(lambda: is_asked_for(one))
    assert not is_asked_for(other)
    for half in one:
        half.clear()
    pair.node.open(ROOM, sources, pages=(1,), slot=1, prompt=name(request(prompts_of[1])))
    until(lambda: is_asked_for(other))


def handed_over(pair: Pair, servers: tuple[Any, Any]) -> None:
    """A request of the room has ended well at both servers."""
    prefill, decode = servers
    taken = half_at_decode(decode, request("A"))
    send(pair, {"A": half_at_prefill(prefill, request("A"))})
    assert row_of(decode, taken) == "A"
    taken.kv_receiver.clear()


def test_a_decode_request_that_a_router_repeats_alone_fails_at_once(
    pair: Pair, servers: tuple[Any, Any]
) -> None:
    """No clock runs out: `bootstrap_timeout` is 300 s here."""
    handed_over(pair, servers)
    repeated = half_at_decode(servers[1], request("A")).kv_receiver
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
    pair: Pair, servers: tuple[Any, Any], again: Callable[[], Req]
) -> None:
    """Decode comes first."""
    handed_over(pair, servers)
    prefill, decode = servers
    taken = half_at_decode(decode, again())
    receiver = taken.kv_receiver
    (node, _), = pair.sources
    until(lambda: receiver.poll() is KVPoll.FAILED
          or receiver.receiver.life in node._node.lives)
    send(pair, {"A": half_at_prefill(prefill, request("A"))})
    assert row_of(decode, taken) == "A"
