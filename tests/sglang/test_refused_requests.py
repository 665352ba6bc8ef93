"""Prefill hears of a request that SGLang's decode refuses before it makes a receiver."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.decode import DecodePreallocQueue
from sglang.srt.disaggregation.utils import FAKE_BOOTSTRAP_HOST, TransferBackend
from sglang.srt.managers.schedule_batch import FINISH_ABORT

from pdproto.sglang.plugin import NAME, plugin, tell_of_refusals
from pdproto.sglang.refusals import tell_prefill
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair, until
from tests.sglang.test_receiver import Manager

ROOM: Final = 5
CAPACITY: Final = 8  # tokens of decode's KV cache


class Queue(SimpleNamespace):
    """As much of DecodePreallocQueue as `add` reads, with its own methods that refuse."""

    _check_if_req_exceed_kv_capacity = DecodePreallocQueue._check_if_req_exceed_kv_capacity
    _rebootstrap_prefill_len = staticmethod(DecodePreallocQueue._rebootstrap_prefill_len)
    _resolve_prefill_dp_rank = DecodePreallocQueue._resolve_prefill_dp_rank

    def add(self, request: Any, **known: bool) -> None:
        DecodePreallocQueue.add(self, request, **known)


def retire(request: Any) -> None:
    request.finished_reason = request.to_finish


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


@pytest.fixture
def queue(pair: Pair) -> Any:
    plugin()
    tell_of_refusals(tell_prefill)
    manager: Any = Manager(pair)
    manager.prefill_info_table = {}

    def ensure(address: str) -> bool:
        manager.prefill_info_table[address] = SimpleNamespace(dp_size=1)
        return True

    manager.try_ensure_parallel_info = ensure
    made = Queue(
        kv_manager=manager, transfer_backend=TransferBackend(NAME), queue=[],
        pending_reqs=[], max_total_num_tokens=CAPACITY,
        token_to_kv_pool_allocator=SimpleNamespace(
            prealloc_ceiling_fits=lambda *_: None, get_kvcache=lambda: None),
        scheduler=SimpleNamespace(
            enable_hisparse=False, retire_unadmitted_request=retire,
            output_streamer=SimpleNamespace(stream_output=lambda *_: None)),
        _prealloc_required_tokens=lambda _: (0, 0), _uses_swa_tail_prealloc=lambda: False)
    made._create_receiver_and_enqueue = lambda request, **_: made.queue.append(
        SimpleNamespace(req=request))
    made._init_receiver = lambda *_: None
    return made


def request(tokens: int, **changed: Any) -> Any:
    usual: dict[str, Any] = {
        "rid": "r", "bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": ROOM,
        "origin_input_ids": [0] * tokens, "output_ids": [], "return_logprob": False,
        "disagg_prefill_dp_rank": None, "to_finish": None, "finished_reason": None,
        "is_retracted": False, "metadata_buffer_index": -1,
        "kv": SimpleNamespace(holds_kv=False, holds_mamba=False, retraction_backup=None)}
    return SimpleNamespace(**usual | changed)


@pytest.mark.parametrize(("refused", "why"), [
    (lambda: request(CAPACITY + 1), "exceeds the maximum number of tokens: 9 > 8"),
    (lambda: request(1, to_finish=FINISH_ABORT("the input is too long")), "the input is too long"),
], ids=["longer than the KV cache", "rejected at intake"])
@pytest.mark.parametrize("first", ["prefill", "decode"])
def test_prefills_half_fails_at_once_for_decodes_reason(
    pair: Pair, queue: Any, refused: Callable[[], Any], why: str, first: str
) -> None:
    (node, _), = pair.sources
    sender = node.open(ROOM) if first == "prefill" else None
    queue.add(refused())
    sender = sender or node.open(ROOM)
    until(lambda: sender.poll() is KVPoll.FAILED)
    assert f"refused by the decode scheduler: {why}" in str(sender.failure).replace(
        "Request r ", "")
    until(lambda: not pair.node.metrics.read()["num_remembered_lives"])


@pytest.mark.parametrize(("asked", "known"), [
    (request(CAPACITY), {}),
    (request(CAPACITY + 1), {"is_retracted": True}),
    (request(CAPACITY + 1, bootstrap_host=FAKE_BOOTSTRAP_HOST), {}),
], ids=["taken", "has been here before", "without a prefill server"])
def test_a_request_that_is_not_refused_at_its_arrival_is_told_to_nobody(
    pair: Pair, queue: Any, asked: Any, known: dict[str, bool]
) -> None:
    queue.add(asked, **known)
    assert pair.node.metrics.read()["handoffs_opened"] == 0


def test_a_rank_that_nobody_knows_is_not_told(
    queue: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue.kv_manager.try_ensure_parallel_info = lambda _: False
    queue.add(request(CAPACITY + 1))
    assert f"room {ROOM}: decode has refused it, and does not know which rank" in caplog.text
