"""The name of a request's prompt under SGLang: what its KV depends on, as both servers know it.

Named: the token ids, and the adapter (LoRA) by its name and the last part of its path, which is all
that SGLang has of its version. A request that decode has retracted asks prefill to compute its
output, too, so those tokens count.

Not named: the content of images (SGLang hashes it in another way on a GPU than on a CPU, so two
servers need not have one hash; their places count, as tokens); the id of an adapter, which each
server draws; `extra_key`, which keeps prefix caches apart and changes no KV; the weights. The dtype
of the KV is in the layout of pages, which both ends compare.
"""

from pathlib import PurePath
from typing import Any, Final

from pdproto.items.prompts import name_of
from pdproto.runtime import checked

NO_ROOM: Final = 0
NO_ROOM_REASON: Final = ("bootstrap_room is 0, which SGLang reads as a metadata row that has not "
                         "come: it would keep the request for ever; want 1 to 2**63 - 1")


def room_of(room: int | None) -> int:
    """The room, if it can be one: a client of SGLang's HTTP port may have written anything. Raises
    TypeError or ValueError otherwise.
    """
    if room is None:
        raise ValueError("bootstrap_room is None: want the number that the router puts into both "
                         "halves of a request")
    if room == NO_ROOM:
        raise ValueError(NO_ROOM_REASON)
    return checked.whole("bootstrap_room", room, 1)


def note_request(queue: Any, request: Any, *_: Any, **__: Any) -> None:
    """Note of a request what SGLang does not tell its sender or receiver.

    queue: SGLang's PrefillBootstrapQueue or DecodePreallocQueue.
    """
    manager = queue.kv_manager
    manager.named_rank, manager.request_id = request.disagg_prefill_dp_rank, request.rid
    manager.prompt = prompt_of(queue, request)
    manager.once = is_once(request)


def note_unread(queue: Any, request: Any) -> None:
    """The same of a request that the front has refused: nobody knows its prompt."""
    manager = queue.kv_manager
    manager.named_rank, manager.request_id = request.disagg_prefill_dp_rank, request.rid
    manager.prompt, manager.once = None, False


def prompt_of(queue: Any, request: Any) -> bytes:
    """The name of the prompt of SGLang's request."""
    tokens = request.origin_input_ids_unpadded  # also of a request that SGLang has refused
    if getattr(request, "pd_rebootstrap_in_progress", False):
        tokens = [*tokens, *request.output_ids]
    return name_of(tokens, _adapter(queue, request.lora_id))


def is_once(request: Any) -> bool:
    """Whether prefill has one request for this one of decode, and is asked for it once.

    Not for a sample of `n`: they share a room, and SGLang computes one more before them to fill its
    prefix cache. Not for a request that decode has retracted: prefill computes it again, in the
    same room.
    """
    again = getattr(request, "pd_rebootstrap_in_progress", False)
    return request.sampling_params.n == 1 and not again


def _adapter(queue: Any, number: str | None) -> str | None:
    """The name and the place of the adapter that has this id here."""
    if number is None:
        return None
    adapters = queue.scheduler.tp_worker.model_runner.lora_manager.lora_refs
    known = adapters.get(number)
    if known is None:
        return ""
    return f"{known.lora_name or ''} of {PurePath(known.lora_path or '').name}"
