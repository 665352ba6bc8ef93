"""Brings a pair of servers into a state in which a kill comes before some reads, and during others.

Prefill is stopped when decode asks for more prompts than its memory holds. So decode publishes
blocks for some of them, and the others wait for blocks. Then decode is stopped and prefill goes on:
it hears of all of them, and begins writes that cannot end, because decode takes nothing. No clock
of either side ends these hand-overs: only a message of the other side does, or its loss.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final, NamedTuple

from examples.servers.serving import Server
from tests.servers.load import Ask, asks
from tests.servers.suite import UntestedError
from tests.vllm_servers.stage import Pair, at_decode, at_prefill, operator_of

WAIT: Final = 5  # requests that wait for decode's memory
READS: Final = asks(16, seed=9, shortest=200)  # more than decode's memory holds at a time
WITHIN_S: Final = 12.0
ANSWER_S: Final = 60.0


class Read(NamedTuple):
    """Decode's answer to one of READS: its tokens, none for an error. at: time.monotonic() then."""

    tokens: list[int]
    at: float


def begin_reads(pair: Pair, beside: Executor) -> Sequence[Future[Read]]:
    """Returns the answers to come, with decode stopped and prefill running.

    beside: threads, one for each of READS. Raises UntestedError if the servers do not get there.
    """
    offers = list(beside.map(lambda ask: at_prefill(pair.prefill, ask), READS))
    pair.prefill.signal_all(signal.SIGSTOP)
    try:
        answers = [beside.submit(_read, pair.decode, ask, params)
                   for ask, params in zip(READS, offers, strict=True)]
        _until(lambda: _are_asked_for(pair.decode), "decode publishes blocks for some requests, "
                                                    f"and {WAIT} wait for blocks")
        pair.decode.signal_all(signal.SIGSTOP)
    finally:
        pair.prefill.signal_all(signal.SIGCONT)
    try:
        _until(lambda: pair.writes() > 0 and _known(pair.prefill) >= WAIT,
               f"prefill writes to decode, and {WAIT} requests wait for decode")
    except UntestedError:
        pair.decode.signal_all(signal.SIGCONT)
        raise
    return answers


def _read(decode: Server, ask: Ask, params: dict[str, Any]) -> Read:
    return Read(at_decode(decode, ask, params, ANSWER_S), time.monotonic())


def _are_asked_for(decode: Server) -> bool:
    states = Counter(one["state"] for one in _handoffs(decode))
    return states["waiting"] > 0 and states["bootstrapping"] >= WAIT


def _known(prefill: Server) -> int:
    """How many hand-overs decode has announced to prefill without blocks for them."""
    return sum(one["state"] == "bootstrapping" and one["incarnation"] is not None
               for one in _handoffs(prefill))


def _handoffs(server: Server) -> Sequence[dict[str, Any]]:
    told: Sequence[dict[str, Any]] = operator_of(server).get(
        "/debug/handoffs?limit=1000")["handoffs"]
    return told


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise UntestedError(f"not within {WITHIN_S:.0f} s: {what}")
        time.sleep(0.02)
