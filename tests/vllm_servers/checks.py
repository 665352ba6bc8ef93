"""What the cells assert. Each check drives the servers of a layout and raises AssertionError."""

import json
import signal
import threading
import time
import urllib.error
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from examples.sglang_servers.serving import Server
from examples.vllm_servers.proxy import FOR_DECODE
from tests.servers.load import Ask, asks, every_second, send
from tests.vllm_servers.cells import LEASE_S, Layout
from tests.vllm_servers.stage import Pair, Stage, completion

HANGS_S: Final = 10.0  # after a server has died, every request has an end within this
SERVES_AGAIN: Final = 30  # requests
MANY: Final = asks(300)
LONG: Final = asks(60, new=48)
STOPPED: Final = asks(1, seed=3)
LATE: Final = asks(3, seed=5, shortest=40)
ALL: Final = (*MANY, *LONG, *STOPPED, *LATE)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a cell's line says."""

    requests: int
    equal: int
    note: str = ""


def _same(stage: Stage, pair: Pair, wanted: Sequence[Ask], *, in_flight: int,
          seconds: float = 120.0) -> Finding:
    """Every answer is that of one server."""
    reference = stage.reference(wanted)
    answers = send(pair.through, wanted, in_flight=in_flight, seconds=seconds)
    failed = [f"request {number}: {answer.error or 'hangs'}"
              for number, answer in enumerate(answers) if not answer.is_full]
    assert not failed, f"{len(failed)} of {len(wanted)} failed, {failed[0]}"
    found = reference.compare(wanted, answers)
    assert not found.wrong, f"{len(found.wrong)} of {len(wanted)} are wrong, {found.wrong[0]}"
    return Finding(len(wanted), found.equal, f"log probabilities at most {found.largest:.1g} apart")


def equality(stage: Stage, layout: Layout, count: int) -> Finding:
    pair = stage.pair(layout)
    found = _same(stage, pair, MANY[:count], in_flight=16)
    pair.check_nothing_is_held()
    return found


def equality_short(stage: Stage, layout: Layout, _: int) -> Finding:
    return equality(stage, layout, 60)


def half_leave(stage: Stage, layout: Layout, _: int) -> Finding:
    pair, wanted = stage.pair(layout), MANY[:120]
    reference = stage.reference(wanted)
    answers = send(pair.through, wanted, in_flight=len(wanted), leave=every_second)
    stayed = [(ask, answer) for ask, answer in zip(wanted, answers, strict=True)
              if not answer.left]
    failed = [answer.error for _, answer in stayed if not answer.is_full]
    assert not failed, f"{len(failed)} of those that stayed failed: {failed[0]}"
    found = reference.compare(*zip(*stayed, strict=True))
    assert not found.wrong, found.wrong[0]
    left = len(answers) - len(stayed)
    assert left >= 20, f"only {left} clients left before their answer: no test of aborts"
    pair.check_nothing_is_held()
    after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=16)
    return Finding(len(wanted) + after.requests, found.equal + after.equal, f"{left} left")


def prefill_stopped(stage: Stage, layout: Layout, _: int) -> Finding:
    """Decode has asked, and prefill does not answer: the engine of decode must live on."""
    pair = stage.pair(layout)
    (ask,) = STOPPED
    params = _at_prefill(pair.prefill, ask)
    pair.prefill.signal_all(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(2) as clients:
            leaves = clients.submit(_at_decode, pair.decode, ask, params, 3.0)
            told = clients.submit(_at_decode, pair.decode, ask, params, 30.0).result()
            leaves.result()
        seconds = time.monotonic() - began
        assert told == [] or told == _alone(stage, ask), f"a wrong answer: {told}"
        assert seconds < HANGS_S + 8, f"a request hangs for {seconds:.0f} s"
        time.sleep(max(0.0, 8.0 - seconds))
    finally:
        pair.prefill.signal_all(signal.SIGCONT)
    pair.check_nothing_is_held()
    found = _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    return Finding(found.requests + 2, found.equal, f"told after {seconds:.1f} s")


def kill_prefill(stage: Stage, layout: Layout, _: int) -> Finding:
    return _survives(stage, layout, "prefill")


def kill_decode(stage: Stage, layout: Layout, _: int) -> Finding:
    return _survives(stage, layout, "decode")


def _survives(stage: Stage, layout: Layout, side: str) -> Finding:
    pair, wanted = stage.pair(layout), LONG
    reference = stage.reference(wanted)
    offers = [_at_prefill(pair.prefill, ask) for ask in LATE] if side == "prefill" else []
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.monotonic())
        getattr(pair, side).signal_all(signal.SIGKILL)

    killer = threading.Timer(1.0, kill)
    killer.start()
    answers = send(pair.through, wanted, in_flight=len(wanted), seconds=60.0)
    killer.join()
    failed = [answer for answer in answers if not answer.is_full]
    assert failed, f"all were served before {side} was killed: no test of a kill"
    wrong = reference.compare(wanted, answers).wrong
    assert not wrong, wrong[0]
    last = max(answer.at for answer in failed) - killed[0]
    assert last < HANGS_S, f"the last of {len(failed)} requests ended {last:.1f} s after the kill"
    for ask, params in zip(LATE, offers, strict=False):  # decode is asked for what is gone
        began = time.monotonic()
        assert _at_decode(pair.decode, ask, params, 60.0) == []
        seconds = time.monotonic() - began
        assert seconds < HANGS_S, f"decode fails a request of the dead prefill in {seconds:.1f} s"
    stage.restart(side)
    pair.check_nothing_is_held()
    after = _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    return Finding(len(LONG) + after.requests, len(LONG) - len(failed) + after.equal,
                   f"{len(failed)} failed, the last {last:.1f} s after the kill")


def late_read(stage: Stage, layout: Layout, _: int) -> Finding:
    """Decode is asked when prefill has waited for long enough, and has served others meanwhile."""
    pair, wanted = stage.pair(layout), LATE
    offers = [_at_prefill(pair.prefill, ask) for ask in wanted]
    time.sleep(LEASE_S + 2)
    others = asks(30, seed=6, shortest=200)
    send(type(pair.through)(pair.prefill.url), others, in_flight=8)
    slowest = 0.0
    for ask, params in zip(wanted, offers, strict=True):
        began = time.monotonic()
        told = _at_decode(pair.decode, ask, params, HANGS_S)
        slowest = max(slowest, time.monotonic() - began)
        right = _alone(stage, ask)
        assert told in ([right] if layout.policy == "recompute" else [[], right]), (
            f"decode answers {told}, want {right}")
    assert slowest < HANGS_S, f"an answer took {slowest:.1f} s"
    pair.check_nothing_is_held()
    return Finding(len(wanted), 0 if layout.policy == "fail" else len(wanted),
                   f"each told within {slowest:.2f} s")


def differs(stage: Stage, layout: Layout, _: int) -> Finding:
    """Every request fails, with both values in the logs of both servers, which live on."""
    pair = stage.pair(layout)
    answers = send(pair.through, MANY[:4], in_flight=4, seconds=HANGS_S)
    served = [answer for answer in answers if answer.is_full]
    assert not served, "a request was served"
    assert not any(answer.hung for answer in answers), f"a request hangs for {HANGS_S:.0f} s"
    pair.check_nothing_is_held()
    for server in pair.servers:
        words = server.log.read_text(errors="replace")
        assert " at prefill and " in words, f"{server.name} does not say both values"
    return Finding(len(answers), 0, "each fails")


def _at_prefill(server: Server, ask: Ask) -> dict[str, Any]:
    """As the proxy asks. Returns what decode is given."""
    told = server.post("/v1/completions", {
        **completion(ask.prompt, 1), "kv_transfer_params": FOR_DECODE})
    params: dict[str, Any] = told["kv_transfer_params"]
    return params


def _at_decode(server: Server, ask: Ask, params: dict[str, Any], seconds: float) -> list[int]:
    """The tokens of the answer; none for an error, and for a client that leaves."""
    body = {**completion(ask.prompt, ask.new), "kv_transfer_params": params}
    try:
        told = server.post("/v1/completions", json.loads(json.dumps(body)), seconds)
    except (urllib.error.URLError, TimeoutError):
        return []
    tokens: list[int] = told["choices"][0]["token_ids"]
    return tokens


def _alone(stage: Stage, ask: Ask) -> list[int]:
    return stage.reference([ask]).tokens(ask)
