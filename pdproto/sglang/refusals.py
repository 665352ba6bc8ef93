"""Requests that SGLang refuses at one server, before it makes a sender or a receiver: the half of
the request at the other server is told why.

The server that refuses opens the hand-over and aborts it, as for a server that does not fit
(decision 068). Without that, the other half would wait for its time-out: SGLang tells it nothing.
"""

import logging
from typing import Any

from sglang.srt.disaggregation import utils
from sglang.srt.utils.network import NetworkAddress

log = logging.getLogger("pdproto.sglang")


def tell_decode(queue: Any, request: Any) -> None:
    """Abort the hand-over of a request that prefill has refused, for the reason that SGLang gives.

    queue: SGLang's PrefillBootstrapQueue. All ranks of prefill refuse the same requests.
    """
    if request.bootstrap_host == utils.FAKE_BOOTSTRAP_HOST or request.bootstrap_room is None:
        return  # no decode server has a half of it
    queue.kv_manager.named_rank = named = request.disagg_prefill_dp_rank
    utils.get_kv_class(queue.transfer_backend, utils.KVClassType.SENDER)(
        queue.kv_manager, "", request.bootstrap_room, named is not None,
    ).refuse(f"refused by the prefill scheduler: {_reason(request)}")


def tell_prefill(queue: Any, request: Any) -> None:
    """Abort the hand-over of a request that decode has refused, for the reason that SGLang gives.

    queue: SGLang's DecodePreallocQueue. All ranks of decode refuse the same requests in one order.
    """
    host, room = request.bootstrap_host, request.bootstrap_room
    if host in (None, utils.FAKE_BOOTSTRAP_HOST) or room is None:
        return  # no prefill server has a half of it
    address = NetworkAddress(host, request.bootstrap_port).to_host_port_str()
    receiver = utils.get_kv_class(queue.transfer_backend, utils.KVClassType.RECEIVER)(
        queue.kv_manager, address, room)
    rank = None
    if queue.kv_manager.try_ensure_parallel_info(address):
        rank = queue._resolve_prefill_dp_rank(request)
    if rank is not None:
        receiver.init(rank)
    else:
        log.warning("room %d: decode has refused it, and does not know which rank of prefill server"
                    " %s to tell", room, address)
    receiver.refuse(f"refused by the decode scheduler: {_reason(request)}")


def _reason(request: Any) -> str:
    return getattr(request.finished_reason or request.to_finish, "message", "")
