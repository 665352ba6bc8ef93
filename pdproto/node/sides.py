"""The two kinds of node: their states, their polls and their queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Receiving, Sending
from pdproto.spec.handoff.poll import RECEIVING_POLL, SENDING_POLL, SENDING_SETTLED, KVPoll
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.symbols import State, Symbol


@dataclass(frozen=True, slots=True)
class Side:
    """The differences between the two kinds of node.

    stage: the variable of the table that holds the stage of an endpoint. stages: its type.
    under_way: stages in which bytes may move, so that a failure counts as one of the transfer.
    polls, settled: the formulas for `Handle.poll` and `Handle.settled`. queues: gauges, each with
    its name, its description and the stages that it counts.
    """

    name: str
    stage: Symbol
    stages: type[State]
    succeeded: State
    failed: State
    under_way: tuple[State, ...]
    polls: Sequence[tuple[Formula, KVPoll]]
    settled: Sequence[tuple[Formula, KVPoll]]
    queues: tuple[tuple[str, str, tuple[State, ...]], ...]


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
