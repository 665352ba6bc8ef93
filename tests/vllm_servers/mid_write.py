"""Brings a pair of servers into a state in which a kill comes before some reads, and during others.

Rule 1: decode is stopped when the caller calls, and prefill computes more prompts than decode has
        memory for. So the requests that are in flight now are not answered meanwhile.
Rule 2: prefill is stopped at a moment when decode waits for no bytes. So no write is under way, and
        requests that run at decode end and free their memory.
Rule 3: decode is asked for the prompts. With what memory it has it publishes blocks for some of
        them, to which nothing has been written; the others wait for blocks.
Rule 4: decode is stopped and prefill goes on: it hears of all of them, and begins writes that
        cannot end, because decode takes nothing.

No clock of either side ends these hand-overs: only a message of the other side does, or its loss.
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
from tests.waiting import until

WAIT: Final = 5  # requests that wait for decode's memory
READS: Final = asks(16, seed=9, shortest=200)  # more than decode's memory holds at a time
PUBLISHED: Final = {"waiting", "transferring"}  # of a hand-over at decode
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
    pair.decode.signal_all(signal.SIGSTOP)
    try:
        offers = list(beside.map(lambda ask: at_prefill(pair.prefill, ask), READS))
    finally:
        pair.decode.signal_all(signal.SIGCONT)
    try:
        _until(lambda: _is_stopped_between_writes(pair),
               "prefill stands still while decode waits for no bytes", pair.decode)
        answers = [beside.submit(_read, pair.decode, ask, params)
                   for ask, params in zip(READS, offers, strict=True)]
        _until(lambda: _are_asked_for(pair.decode), "decode publishes blocks for some requests, "
                                                    f"and {WAIT} wait for blocks", pair.decode)
        _handoffs(pair.decode)  # the node's loop answers when it has sent the messages about them
        pair.decode.signal_all(signal.SIGSTOP)
    finally:
        pair.prefill.signal_all(signal.SIGCONT)
    try:
        _until(lambda: pair.writes() > 0 and _known(pair.prefill) >= WAIT,
               f"prefill writes to decode, and {WAIT} requests wait for decode", pair.prefill)
    except UntestedError:
        pair.decode.signal_all(signal.SIGCONT)
        raise
    return answers


def _read(decode: Server, ask: Ask, params: dict[str, Any]) -> Read:
    return Read(at_decode(decode, ask, params, ANSWER_S).tokens, time.monotonic())


def _is_stopped_between_writes(pair: Pair) -> bool:
    """Stops prefill, unless decode waits for bytes: prefill may be about to end that write."""
    pair.prefill.signal_all(signal.SIGSTOP)
    if not _states(pair.decode).keys() & PUBLISHED:
        return True
    pair.prefill.signal_all(signal.SIGCONT)
    return False


def _are_asked_for(decode: Server) -> bool:
    states = _states(decode)
    return states["waiting"] > 0 and states["bootstrapping"] >= WAIT


def _states(server: Server) -> Counter[str]:
    return Counter(one["state"] for one in _handoffs(server))


def _known(prefill: Server) -> int:
    """How many hand-overs decode has announced to prefill without blocks for them."""
    return sum(one["state"] == "bootstrapping" and one["incarnation"] is not None
               for one in _handoffs(prefill))


def _handoffs(server: Server) -> Sequence[dict[str, Any]]:
    told: Sequence[dict[str, Any]] = operator_of(server).get(
        "/debug/handoffs?limit=1000")["handoffs"]
    return told


def _until(holds: Callable[[], bool], what: str, server: Server) -> None:
    """Raises UntestedError, with the hand-overs of a server that runs."""
    until(holds, lambda: f"{what}; {server.name} has {dict(_states(server))}", within_s=WITHIN_S,
          look_s=0.02, error=UntestedError)
