"""Requests that SGLang's decode refuses before it makes a receiver: prefill's half is told why.

Decode opens the hand-over and aborts it, as for a server that does not fit (decision 068). Without
that, prefill's half would wait for its bootstrap time-out: SGLang itself tells it nothing.
"""

import logging
from typing import Any

from sglang.srt.disaggregation import utils
from sglang.srt.utils.network import NetworkAddress

log = logging.getLogger("pdproto.sglang")


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
    why = getattr(request.finished_reason or request.to_finish, "message", "")
    receiver.refuse(f"refused by the decode scheduler: {why}")
