"""The length of each wait at run time, and the action at its end.

A time-out proves nothing, so no time-out frees memory that a source may still write to. It leads to
a question, to a failure that both sides learn of, or to a fence. The tables say which; this module
gives the seconds. It lists every timer of the hand-over. One is infinite: the server decides how
long a request may queue for memory. So its row is not fair, and no promise rests on it
(docs/reference/timers.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Wait:
    """seconds: the default. leads_to: the action of its rows. again: those rows repeat. stands: it
    ends a request that waits for another process, so it stands still while that one is suspected
    (presence.py: HELD); for a request that has met nobody, while any is.
    """

    seconds: float
    leads_to: str
    again: bool = False
    stands: bool = False


WAITS: Final[Mapping[str, Wait]] = {
    # The transfer (ends.py, source.py, sink.py).
    "bootstrap_timeout": Wait(120.0, "the hand-over fails, because one side has never met the "
                                     "other", stands=True),
    "queue_timeout": Wait(float("inf"), "the hand-over fails, because decode has no memory for it"),
    "transfer_timeout": Wait(120.0, "the hand-over fails, and this side tells the other to stop",
                             stands=True),
    "no_news": Wait(1.0, "the sink introduces itself again", again=True),
    "no_other_life": Wait(1.0, "the request ends with the life that decode has ended before it"),
    "no_bytes": Wait(2.0, "the sink publishes its address again", again=True),
    "no_answer": Wait(0.5, "the sink repeats the abort", again=True),
    "no_drain": Wait(5.0, "the sink has the silent source fenced"),
    "heartbeat": Wait(0.0, "the hand-over fails, because the detector reports the peer as gone"),
    # A group of ranks (group.py).
    "no_votes": Wait(0.5, "the entry rank repeats the request", again=True),
    "no_decision": Wait(0.5, "the rank repeats its vote", again=True),
    "no_confirmation": Wait(0.5, "the entry rank repeats the decision", again=True),
    "no_release": Wait(0.5, "the rank repeats that its part has ended", again=True),
    # A room that is asked for more than once (keep.py).
    "keep": Wait(0.0, "prefill gives the pages of a request back, for which no further decode "
                      "request has come"),
    # Registration and look-up (registry.py).
    "not_recorded": Wait(1.0, "the rank registers again", again=True),
    "sign_of_life": Wait(2.5, "the rank registers again, which shows that it lives", again=True),
    "no_sign_of_life": Wait(10.0, "the registry removes the rank"),
    "still_listed": Wait(11.0, "the sink ends, and goes on under a new name: the registry still "
                               "lists a run that it counts as gone"),
    "registry_unreachable": Wait(60.0, "the hand-over fails, with a reason"),
    "no_welcome": Wait(1.0, "the sink introduces itself to the rank again", again=True),
    # Registries that share a store (replica.py).
    "store_silent": Wait(5.0, "the registry answers no look-up until its store shows its changes"),
    # The data-parallel rank (dp_rank.py).
    "no_decode": Wait(120.0, "the prefill rank gives the room up, and removes its entry",
                      stands=True),
    "unresolved": Wait(120.0, "decode gives the room up, and withdraws its question", stands=True),
}
