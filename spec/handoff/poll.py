"""What a poll answers, in the five words that serving engines know from SGLang's KVPoll."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from pdproto.spec.handoff.ends import Receiving, Sending


class KVPoll(IntEnum):
    """The numbers are SGLang's, so that a minimum over ranks means what it means there."""

    FAILED = 0
    BOOTSTRAPPING = 1
    WAITING_FOR_INPUT = 2
    TRANSFERRING = 3
    SUCCESS = 4


SENDING: Final[Mapping[Sending, KVPoll]] = {
    Sending.UNKNOWN: KVPoll.BOOTSTRAPPING,
    Sending.BOOTSTRAPPING: KVPoll.BOOTSTRAPPING,  # WAITING_FOR_INPUT once `send` is enabled
    Sending.TRANSFERRING: KVPoll.TRANSFERRING,
    Sending.SUCCESS: KVPoll.SUCCESS,
    Sending.FAILED: KVPoll.FAILED,
    Sending.GONE: KVPoll.FAILED,
}
RECEIVING: Final[Mapping[Receiving, KVPoll]] = {
    Receiving.UNKNOWN: KVPoll.BOOTSTRAPPING,
    Receiving.BOOTSTRAPPING: KVPoll.BOOTSTRAPPING,
    Receiving.WAITING: KVPoll.WAITING_FOR_INPUT,
    Receiving.TRANSFERRING: KVPoll.TRANSFERRING,
    Receiving.SUCCESS: KVPoll.SUCCESS,
    Receiving.FAILED: KVPoll.FAILED,
    Receiving.GONE: KVPoll.FAILED,
}
