"""The two kinds of node: their states, their polls and their queues."""

from typing import Final

from pdproto.node.node import Side
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.handoff.poll import RECEIVING_POLL, SENDING_POLL, SENDING_SETTLED

PREFILL: Final = Side(
    "prefill", ends.sending, Sending, succeeded=Sending.SUCCESS, failed=Sending.FAILED,
    under_way=(Sending.TRANSFERRING,), polls=SENDING_POLL,
    settled=SENDING_SETTLED, queues=(
        ("num_prefill_bootstrap_queue_reqs", "Senders that wait for their sink",
         (Sending.UNKNOWN, Sending.BOOTSTRAPPING)),
        ("num_prefill_inflight_queue_reqs", "Senders whose bytes are under way",
         (Sending.TRANSFERRING,)),
    ))
DECODE: Final = Side(
    "decode", ends.receiving, Receiving, succeeded=Receiving.SUCCESS, failed=Receiving.FAILED,
    under_way=(Receiving.WAITING, Receiving.TRANSFERRING), polls=RECEIVING_POLL,
    settled=RECEIVING_POLL, queues=(
        ("num_decode_prealloc_queue_reqs", "Receivers without memory",
         (Receiving.UNKNOWN, Receiving.BOOTSTRAPPING)),
        ("num_decode_transfer_queue_reqs", "Receivers that wait for bytes",
         (Receiving.WAITING, Receiving.TRANSFERRING)),
    ))
