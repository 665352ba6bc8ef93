"""What tells a prefill node from others: its states, its polls and its queues."""

from typing import Final

from pdproto.net.node import Side
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.poll import SENDING_POLL, SENDING_SETTLED

PREFILL: Final = Side(
    "prefill", ends.sending, Sending, succeeded=Sending.SUCCESS, failed=Sending.FAILED,
    under_way=(Sending.TRANSFERRING,), polls=SENDING_POLL,
    settled=SENDING_SETTLED, queues=(
        ("num_prefill_bootstrap_queue_reqs", "Senders that wait for their sink",
         (Sending.UNKNOWN, Sending.BOOTSTRAPPING)),
        ("num_prefill_inflight_queue_reqs", "Senders whose bytes are under way",
         (Sending.TRANSFERRING,)),
    ))
