"""The sender of a context-parallel rank that sends no bytes, call by call, as SGLang makes them."""

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from pdproto.sglang.sender import Absent
from pdproto.spec.handoff.poll import KVPoll


def settled(sender: Absent) -> KVPoll:
    """Its status now."""
    return sender.settled


def test_it_waits_for_all_chunks_and_succeeds_with_the_last() -> None:
    sender = Absent()
    assert settled(sender) is KVPoll.WAITING_FOR_INPUT, "no sink has to come"
    sender.send([1], last=False, metadata=b"")
    assert settled(sender) is KVPoll.WAITING_FOR_INPUT
    sender.send([2], last=True, metadata=b"row")
    assert settled(sender) is KVPoll.SUCCESS
    assert sender.failure is None


def test_a_success_is_final() -> None:
    """As at a rank that sends: an abort that comes late changes nothing."""
    sender = Absent()
    sender.send([1], last=True, metadata=b"")
    sender.abort("aborted by the prefill scheduler")
    sender.close("given up")
    assert settled(sender) is KVPoll.SUCCESS
    assert sender.failure is None


@pytest.mark.parametrize("end", ["abort", "close"])
def test_a_failure_is_final_and_keeps_its_first_reason(end: str) -> None:
    """SGLang sends the last chunk of a request that it has aborted while it was computed."""
    sender = Absent()
    getattr(sender, end)("the first reason")
    sender.abort("another reason")
    sender.send([1], last=True, metadata=b"")
    assert settled(sender) is KVPoll.FAILED
    assert sender.failure == "the first reason"
