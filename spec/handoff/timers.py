"""How long each wait lasts at run time, and what its end leads to.

A time proves nothing, so none of these frees memory that somebody may still write to: the end of a
wait leads to a question, to a failure that everybody hears of, or to a fence. The tables say which;
here are the seconds. Every timer of the hand-over is listed. One is infinite: for how long a
request may queue for memory is for its server to say, and memory comes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Wait:
    """seconds: by default. leads_to: what the rows on this timer do. again: they repeat it."""

    seconds: float
    leads_to: str
    again: bool = False


WAITS: Final[Mapping[str, Wait]] = {
    # The transfer (ends.py, source.py, sink.py).
    "bootstrap_timeout": Wait(120.0, "a hand-over that one side has not heard of fails"),
    "queue_timeout": Wait(float("inf"), "a hand-over that waits for decode's memory fails"),
    "transfer_timeout": Wait(120.0, "the hand-over fails, and the other side is told to stop"),
    "no_news": Wait(1.0, "the sink introduces itself again", again=True),
    "no_bytes": Wait(2.0, "the sink publishes its address again", again=True),
    "no_answer": Wait(0.5, "the sink repeats the abort", again=True),
    "no_drain": Wait(5.0, "the sink has the silent source fenced"),
    "heartbeat": Wait(0.0, "the hand-over fails, for the detector has said that the peer is gone"),
    # A group of ranks (group.py).
    "no_votes": Wait(0.5, "the entry repeats the request", again=True),
    "no_decision": Wait(0.5, "the rank repeats its vote", again=True),
    "no_confirmation": Wait(0.5, "the entry repeats the decision", again=True),
    "no_release": Wait(0.5, "the rank repeats that its part has ended", again=True),
    # Registration and look-up (registry.py).
    "not_recorded": Wait(1.0, "the rank registers again", again=True),
    "sign_of_life": Wait(2.5, "the rank registers again, and so shows that it lives", again=True),
    "no_sign_of_life": Wait(10.0, "the registry strikes the rank out"),
    "registry_unreachable": Wait(10.0, "the hand-over fails, and says why"),
    "no_welcome": Wait(1.0, "the sink calls on the rank again", again=True),
    # The data-parallel rank (dp_rank.py).
    "no_decode": Wait(120.0, "the prefill rank gives the room up, and retires it"),
    "unresolved": Wait(120.0, "decode gives the room up, and withdraws its question"),
}
