"""Registers the backend with SGLang, by SGLang's own plug-in mechanism.

The distribution declares `plugin` under the entry point group `sglang.srt.plugins`. SGLang calls it
early in each of its processes. It adds the name to the choices of the command line, and to the
table of classes for each name.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from math import inf
from types import ModuleType
from typing import Any, Final

NAME: Final = "pdproto"
GET: Final = "get_kv_class"
CLASSES: Final = {
    "manager": ("pdproto.sglang.manager", "PdprotoKVManager"),
    "sender": ("pdproto.sglang.sender", "PdprotoKVSender"),
    "receiver": ("pdproto.sglang.receiver", "PdprotoKVReceiver"),
    "bootstrap_server": ("pdproto.sglang.server", "PdprotoKVBootstrapServer"),
}


RECEIVERS: Final = (
    "sglang.srt.disaggregation.decode.DecodePreallocQueue._create_receiver_and_enqueue")
SENDERS: Final = "sglang.srt.disaggregation.prefill.PrefillBootstrapQueue.create_sender"
PREFILL_ARRIVALS: Final = "sglang.srt.disaggregation.prefill.PrefillBootstrapQueue.add"
ANSWERS: Final = "sglang.srt.disaggregation.utils.prepare_abort"
DESTINATIONS: Final = "sglang.srt.disaggregation.decode.DecodePreallocQueue._send_kv_metadata"
SCHEDULER: Final = "sglang.srt.disaggregation.prefill.SchedulerDisaggregationPrefillMixin"
IS_READY: Final = "is_disagg_prefill_batch_result_ready"
DECODE_ARRIVALS: Final = "sglang.srt.disaggregation.decode.DecodePreallocQueue.add"
HEARD: Final = "sglang.srt.managers.scheduler.Scheduler.handle_generate_request"
FRONT_BEGINS: Final = "sglang.srt.managers.disagg_service.start_disagg_service"
FRONT: Final = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
ENDPOINTS: Final = "sglang.srt.entrypoints.openai.serving_base.OpenAIServingBase"


def note_requests(notes: Callable[..., None], *, prefill: bool) -> None:
    """Have `notes` called with the queue and each request before SGLang makes its sender, or its
    receiver: SGLang tells them neither the prompt nor which rank the request names. Call it after
    SGLang has imported their module. A second call does nothing.
    """
    _hook(SENDERS if prefill else RECEIVERS, notes, "BEFORE")


def _note_tokens(queue: Any, waiting: Any, kv_indices: Any, *_: Any, **__: Any) -> None:
    """Note how many tokens decode wants, before SGLang names their pages to the receiver. From then
    on no clock gives them back: only the end of the hand-over does.
    """
    waiting.kv_receiver.tokens = len(kv_indices)
    queue.transfer_queue.deferred_kv_release_timeout = inf


def note_tokens() -> None:
    """Tell receivers the number of tokens. Call it in processes that create receivers, after SGLang
    has imported their module. A second call does nothing.
    """
    _hook(DESTINATIONS, _note_tokens, "BEFORE")


def tell_of_prefills_refusals(tell: Callable[[Any, Any], None]) -> None:
    """Have `tell` called with prefill's queue and each request for which it makes no sender. Call
    it in processes that create senders, after SGLang has imported their module. A second call does
    nothing.

    SGLang refuses a prompt that is longer than its KV cache, or malformed, and calls no method of a
    backend then.
    """
    def after(_: Any, queue: Any, request: Any, *__: int) -> None:
        if not queue.queue or queue.queue[-1] is not request:
            tell(queue, request)

    _hook(PREFILL_ARRIVALS, after, "AFTER")


def tell_of_decodes_refusals(
    tell: Callable[[Any, Any], None], arrived: Callable[[Any, Any], None] = lambda *_: None
) -> None:
    """The same for decode's queue and receivers. arrived: called with each request."""
    def after(_: Any, queue: Any, request: Any, *known: bool, **known_too: bool) -> None:
        arrived(queue, request)
        if any((*known, *known_too.values())):
            return  # it has been here before, so its half at prefill has ended
        if not queue.queue or queue.queue[-1].req is not request:
            tell(queue, request)

    _hook(DECODE_ARRIVALS, after, "AFTER")


def hear_arrivals(hear: Callable[..., Any]) -> None:
    """Have `hear` called around SGLang's arrival of a request at a scheduler. Call it before SGLang
    makes the table of its handlers. A second call does nothing.
    """
    _hook(HEARD, hear, "AROUND")


def _watch_front() -> None:
    """Where SGLang's front begins, with this backend: have its schedulers told what it refuses.

    Here, and not in `plugin`: SGLang's schedulers load plug-ins, too, and need no front.
    """
    context = import_module("sglang.srt.runtime_context")
    if context.get_disagg().disaggregation_transfer_backend != NAME:
        return
    front = import_module("pdproto.sglang.front")
    _hook(f"{FRONT}._release_req_states_on_failure", front.tell_undispatched, "BEFORE")
    _hook(f"{FRONT}.generate_request", front.generate, "AROUND")
    _hook(f"{ENDPOINTS}.handle_request", front.handle, "AROUND")


def choose_statuses(status: Callable[..., Any]) -> None:
    """Have `status` called before SGLang notes why a request has failed, and with which status its
    client hears of it. A second call does nothing.
    """
    _hook(ANSWERS, status, "BEFORE")


def answer_during_batches() -> None:
    """Have prefill answer requests whose pages have landed also while a batch runs. Call it in
    processes that create senders, after SGLang has imported their module. A second call does
    nothing.

    SGLang asks whether a batch is ready again and again, in its scheduler's thread and as often on
    every rank, if the operator has it take requests meanwhile
    (`SGLANG_ENABLE_DISAGG_PREFILL_CONTINUOUS_INPUT_POLLING`, from 0.5.23 on). It looks for ended
    hand-overs behind the batch only.
    """
    def after(is_ready: bool, scheduler: Any, *_: Any) -> None:
        if not is_ready:
            scheduler.process_disagg_prefill_inflight_queue()

    module, _, name = SCHEDULER.rpartition(".")
    if hasattr(getattr(import_module(module), name), IS_READY):
        _hook(f"{SCHEDULER}.{IS_READY}", after, "AFTER")


def _hook(target: str, function: Callable[..., None], kind: str) -> None:
    hooks = import_module("sglang.srt.plugins.hook_registry")
    if target not in hooks.HookRegistry._hooks:
        hooks.HookRegistry.register(target, function, hooks.HookType[kind])
        hooks.HookRegistry.apply_hooks()


def plugin() -> None:
    """Register the backend with the SGLang of this process. A second call does nothing."""
    choices = import_module("sglang.srt.arg_groups.choices")
    utils = import_module("sglang.srt.disaggregation.utils")
    if NAME not in choices.DISAGG_TRANSFER_BACKEND_CHOICES:
        choices.add_disagg_transfer_backend_choices([NAME])
    backends = utils.TransferBackend
    if NAME not in {backend.value for backend in backends}:
        _add_member(backends)
        _replace(utils, _with_ours(utils.get_kv_class, backends(NAME)))
    _hook(FRONT_BEGINS, _watch_front, "BEFORE")


def _add_member(enum: Any) -> None:
    """Add a value to an enumeration. Python has no public way to do that."""
    member = object.__new__(enum)
    member._name_, member._value_ = NAME.upper(), NAME
    member._sort_order_ = len(enum)
    enum._member_map_[member._name_] = member
    enum._member_names_.append(member._name_)
    enum._value2member_map_[NAME] = member


def _with_ours(get: Callable[[Any, Any], Any], ours: Any) -> Callable[[Any, Any], Any]:
    @wraps(get)
    def get_kv_class(transfer_backend: Any, class_type: Any) -> Any:
        if transfer_backend is not ours or class_type.value not in CLASSES:
            return get(transfer_backend, class_type)
        module, name = CLASSES[class_type.value]
        return getattr(import_module(module), name)

    return get_kv_class


def _replace(utils: ModuleType, by: Callable[[Any, Any], Any]) -> None:
    """Replace a function, also in modules that have imported it by name."""
    old = utils.get_kv_class
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.") and getattr(module, GET, None) is old:
            setattr(module, GET, by)
