"""No call that SGLang's scheduler makes waits for a registry, a peer or a name server that hangs.

The calls are those that SGLang's own code makes (test_interface.py): a new one is missing here.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import EAI_AGAIN, gaierror
from threading import Event
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.common.conn import CommonKVReceiver, KVTransferError
from sglang.srt.disaggregation.decode import DecodePreallocQueue, DecodeRequest

from examples.sglang_handoff.request import request_of
from pdproto.node.decode.receiver import Addressed
from pdproto.sglang import plugin, refusals
from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.prefills import Feed
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.recompute import Recomputing
from pdproto.sglang.room_ranks import ask_in_threads
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import resolver
from tests.items.test_data_path import ROW, Pair
from tests.sglang.schedulers import prefill_manager, scheduler_of
from tests.sglang.test_hung_registry import at_decode, hung, manager  # noqa: F401 - fixtures
from tests.sglang.test_interface import READ, read_of
from tests.sglang.test_receiver import SERVER
from tests.waiting import until
from tests.waits import Waits

HOOKS: Final = {refusals: ("look_up", "tell_prefill", "tell_decode"), plugin: ("_note_tokens",)}
OF_SGLANG: Final = ("prefetch_prefill_dp_rank_queries", "_resolve_pending_reqs")
SILENT: Final = "silent.test"


def calls(kind: type) -> list[str]:
    """The calls that SGLang makes and this class answers; SGLang answers the others itself."""
    called, _ = READ[kind]
    made = () if kind is PdprotoKVManager else ("__init__",)
    return [name for name in (*dict(read_of(called)), *made) if callable(vars(kind).get(name))]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    made = Waits(monkeypatch)
    for kind in READ:
        made.watch(kind, calls(kind))
    for module, names in HOOKS.items():
        made.watch(module, names)
    made.watch(DecodePreallocQueue, OF_SGLANG)
    return made


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A name server that says nothing until the test ends."""
    ended = Event()

    def ask(*_: Any, **__: Any) -> Any:
        ended.wait(60)
        raise gaierror(EAI_AGAIN, "no answer")

    monkeypatch.setattr(resolver, "getaddrinfo", ask)
    yield
    ended.set()


def failed(end: Any) -> None:
    with pytest.raises(KVTransferError):
        end.failure_exception()


def ask_decode(decode: Any, address: str, room: int) -> None:
    """Every call to a receiver, at each of its stages."""
    for is_aborted in (True, False):
        receiver = PdprotoKVReceiver(decode, address, room)
        receiver.init(0)
        receiver.poll()
        waiting = DecodeRequest(request_of(room, [1], "decode"), receiver)
        plugin._note_tokens(SimpleNamespace(transfer_queue=SimpleNamespace()), waiting,
                            np.array([2]))
        receiver.send_metadata(np.array([2]), aux_index=room)
        receiver.poll()
        if is_aborted:
            receiver.abort()
        failed(receiver)
        receiver.ensure_abort_notified(force_arm=True)
        manager_of(decode, "is_abort_release_safe")(room, 1)
        manager_of(decode, "clear_deferred_abort_state")(room)
        receiver.clear()


def manager_of(decode: Any, name: str) -> Any:
    """A call of the real manager, with as much of one as it reads."""
    return getattr(PdprotoKVManager, name).__get__(decode)


def is_met(sender: PdprotoKVSender) -> bool:
    return sender.poll() is KVPoll.WAITING_FOR_INPUT


def resolve_its_rank(queue: Any, request: Any) -> None:
    """SGLang's queue of decode, whose request waits for the rank that runs its room."""
    made, queue._ensure_retry_interval = queue.kv_manager, 0.0
    made._ensure_prefill_recompute_executor = manager_of(made, "_ensure_prefill_recompute_executor")
    made.prefill_info_table[f"{request.bootstrap_host}:{request.bootstrap_port}"] = replace(
        SERVER, prefill_http_port=request.bootstrap_port, dp_size=2, follow_bootstrap_room=False)
    queue.add(request)
    queue.prefetch_prefill_dp_rank_queries()
    for _ in range(2):  # the first takes the answer that was asked for before
        queue._resolve_pending_reqs()
    assert len(queue.pending_reqs) == 1


def refuse_at_prefill(manager: Any, request: Any, folder: Path) -> None:  # noqa: F811 - a fixture
    with ExitStack() as closing:
        server = scheduler_of(closing, "prefill", manager, folder)
        refusals.tell_decode(server.disagg_prefill_bootstrap_queue, request)


def test_no_call_of_sglangs_scheduler_waits_for_what_hangs(
    hung: str, manager: Any, at_decode: Any, waits: Waits,  # noqa: F811 - fixtures
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen red with a look-up made by `Prefills.feed` itself, with a sleep in `failure_exception`,
    with SGLang's own question which rank runs a room, and with a receiver's call that is left out
    here.
    """
    monkeypatch.setattr(CommonKVReceiver, "query_prefill_dp_ranks", CommonKVReceiver.__dict__[
        "query_prefill_dp_ranks"])  # undone in the end
    ask_in_threads()
    plugin.plugin()
    manager.held, manager._recomputing = {}, Recomputing()
    manager.place, manager.kv_args = SimpleNamespace(rank=0), SimpleNamespace(pp_rank=0)
    manager.settings = SimpleNamespace(wait=lambda _: 0.2)
    ask_decode(manager, hung, 1)  # its registry hangs
    host, _, port = hung.rpartition(":")
    known = manager.prefills
    for room, at in enumerate((f"tcp://{hung}", f"tcp://{SILENT}:5000"), 2):
        feed = Feed({f"hangs-{room}": at}, range(1), None, Addressed(hung, 1, 0))
        manager.prefills = SimpleNamespace(feed=lambda *_, of=feed: of)
        ask_decode(manager, hung, room)
    manager.prefills = known
    manager_of(manager, "try_ensure_parallel_info")(hung)
    request = request_of(77, [1], "decode", host=host, port=int(port))
    queue = at_decode.disagg_decode_prealloc_queue
    refusals.look_up(queue, request)
    refusals.tell_prefill(queue, request)
    receiver = PdprotoKVReceiver(manager, hung, 5)
    manager.prefill_info_table[hung] = replace(SERVER, prefill_http_port=int(port))
    manager_of(manager, "submit_prefill_recompute")(receiver, {})
    receiver.poll()
    receiver.clear()
    manager_of(manager, "_ensure_prefill_recompute_executor")().shutdown()
    resolve_its_rank(queue, request)
    (node, data_path), = manager.sources
    prefill = prefill_manager(
        node, source_data_path=data_path, parts=manager.parts, item_bytes=Pair.item_bytes,
        rows=SimpleNamespace(read=lambda _: ROW))
    for is_aborted in (True, False):
        room = 9 + is_aborted
        sender = PdprotoKVSender(prefill, "", room)
        sender.init(2, 0)  # and it sends one page alone
        sink = manager.decode.open(room, {node.name: node.endpoint}, pages=[room - 7], slot=room)
        until(partial(is_met, sender))
        sender.pop_decode_prefix_len()
        sender.get_max_transfer_tokens()
        sender.mark_prefill_complete()
        sender.should_send_kv_chunk(1, last_chunk=True)
        sender.send(np.array([1]))
        sender.get_transfer_metric()
        if is_aborted:
            sender.abort()
        failed(sender)
        sender.clear()
        sink.close()
    refuse_at_prefill(prefill, request, tmp_path)
    assert waits.found == {}
    named = {f"{kind.__name__}.{name}" for kind in READ for name in calls(kind)}
    named |= {f"{module.__name__}.{name}" for module, names in HOOKS.items() for name in names}
    assert waits.called == named | {f"DecodePreallocQueue.{name}" for name in OF_SGLANG}
