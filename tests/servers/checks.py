"""What the cells assert. Each check drives the servers of a layout and raises AssertionError."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from examples.servers.serving import ServerError, free_port
from tests.servers.census import settled
from tests.servers.layouts import SHORT_S
from tests.servers.load import Answer, Ask, Way, asks, every_second, send, send_and_kill
from tests.servers.stage import POOL, POOL_TOKENS, Layout, Pair, Stage
from tests.servers.suite import Finding, UntestedError

HANGS_S: Final = 10.0  # after a server has died, every request has an end within this
SERVES_AGAIN: Final = 40  # requests


def _same(stage: Stage, pair: Pair, wanted: Sequence[Ask], *, in_flight: int,
          way: Way | None = None, seconds: float = 120.0) -> Finding:
    """Every answer is that of a server without disaggregation."""
    reference = stage.reference(pair.layout.model, wanted)
    answers = send(way or pair.through, wanted, in_flight=in_flight, seconds=seconds)
    _no_failure(answers, pair)
    found = reference.compare(wanted, answers)
    assert not found.wrong, f"{len(found.wrong)} of {len(wanted)} are wrong, first {found.wrong[0]}"
    assert found.equal == len(wanted)
    pair.check_evidence()
    return Finding(len(wanted), found.equal,
                   f"logprobs within {found.largest:.1g}, {found.same_bits} to the bit")


def _no_failure(answers: Sequence[Answer], pair: Pair) -> None:
    failed = Counter(answer.error or "hung" for answer in answers if not answer.is_full)
    if failed:
        held = {server.name: server.held() for server in pair.servers}
        raise AssertionError(f"{failed.total()} of {len(answers)} failed, "
                             f"{failed.most_common(1)[0]}; {held}; {pair.decode.tail()}")


def equality(stage: Stage, layout: Layout) -> Finding:
    pair = stage.pair(layout)
    found = _same(stage, pair, asks(120), in_flight=8)
    pair.check_nothing_grew()
    return found


def equality_short(stage: Stage, layout: Layout) -> Finding:
    """For layouts whose servers are slow here: several ranks share the processor."""
    pair = stage.pair(layout)
    found = _same(stage, pair, asks(48), in_flight=8)
    pair.check_nothing_grew()
    return found


def at_once(stage: Stage, layout: Layout) -> Finding:
    """Twice: what an allocator keeps after the first time is no leak, what is added then is one."""
    pair = stage.pair(layout)
    _same(stage, pair, asks(200), in_flight=200)
    pair.take_census()
    found = _same(stage, pair, asks(200), in_flight=200)
    pair.check_nothing_grew()
    return found


def memory_short(stage: Stage, layout: Layout) -> Finding:
    """Requests wait for decode's memory far longer than both servers wait for each other."""
    pair = stage.pair(layout)
    stage.reference(layout.model, asks(150))
    start = time.monotonic()
    found = _same(stage, pair, asks(150), in_flight=150)
    took = time.monotonic() - start
    if took <= 2 * SHORT_S:
        raise UntestedError(f"all were served within {took:.1f} s, and nobody waited in a queue")
    pair.check_nothing_grew()
    return replace(found, note=f"the last after {took:.1f} s")


def half_leave(stage: Stage, layout: Layout) -> Finding:
    """Half of the clients close their connection; the others are served, and nothing is left."""
    pair = stage.pair(layout)
    wanted = asks(200)
    reference = stage.reference(layout.model, wanted)
    answers = send(pair.through, wanted, in_flight=100, leave=every_second, seconds=120.0)
    _no_failure(answers[1::2], pair)
    found = reference.compare(wanted, answers)
    assert not found.wrong, found.wrong[0]
    left = sum(answer.left for answer in answers)
    if left < 40:
        raise UntestedError(f"only {left} of 100 clients left before their answer")
    pair.check_nothing_grew()
    after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=16)
    return Finding(len(wanted) + after.requests, found.equal + after.equal, f"{left} left")


def _survives(stage: Stage, layout: Layout, side: str, way_of: Callable[[Pair], Way]) -> Finding:
    """Kill one side when the first of 150 requests are answered: decode has no memory for the last
    ones yet, so prefill cannot have sent them.
    """
    pair, wanted, first = stage.pair(layout), asks(150), 10
    assert sum(len(ask.prompt) + ask.new for ask in wanted[first:]) > POOL_TOKENS
    reference = stage.reference(layout.model, wanted)
    victim, other = pair.servers if side == "prefill" else reversed(pair.servers)
    answers, last = send_and_kill(way_of(pair), wanted, lambda: victim.signal_all(signal.SIGKILL),
                                  first=first)
    failed = sum(not answer.is_full for answer in answers)
    if not failed:
        raise UntestedError(f"all {len(wanted)} were served before {side} was killed")
    wrong = reference.compare(wanted, answers).wrong
    assert not wrong, wrong[0]
    assert last < HANGS_S, f"the last of {failed} requests ended {last:.1f} s after the kill"
    stage.restart(side)
    assert other.is_alive(), f"{other.name} has died: {other.tail()}"
    _until_served(pair)
    after = _same(stage, pair, asks(SERVES_AGAIN), in_flight=16, way=pair.both)
    before = pair.before[other.name]
    grown = settled(other, before).grown(before)
    assert not grown, f"{other.name} leaks: {grown}"
    pair.take_census()
    return Finding(len(wanted) + after.requests, len(wanted) - failed + after.equal,
                   f"{failed} failed, the last {last:.1f} s after the kill")


def _until_served(pair: Pair, seconds: float = 20.0) -> None:
    """The survivor may refuse the first requests: it learns of the new run from them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if send(pair.both, [Ask((5, 6, 7), 2)], in_flight=1, seconds=5.0)[0].is_full:
            return
    raise AssertionError(f"no request is served {seconds:.0f} s after the restart: "
                         f"{pair.decode.tail()}")


def kill_prefill(stage: Stage, layout: Layout) -> Finding:
    """Both halves are asked at once: decode must find out by itself that prefill has gone."""
    return _survives(stage, layout, "prefill", lambda pair: pair.both)


def kill_decode(stage: Stage, layout: Layout) -> Finding:
    return _survives(stage, layout, "decode", lambda pair: pair.through)


def ranks_by_name(stage: Stage, layout: Layout) -> Finding:
    """Every request says which data-parallel rank prefills it, and another one which decodes it."""
    pair = stage.pair(layout)
    wanted, done = asks(48), Finding(0, 0)
    for rank in (0, 1):
        way = replace(pair.both, extra={"routed_dp_rank": rank, "disagg_prefill_dp_rank": rank})
        found = _same(stage, pair, wanted[rank::2], in_flight=24, way=way, seconds=90.0)
        done = Finding(done.requests + found.requests, done.equal + found.equal, found.note)
    pair.check_nothing_grew()
    return done


def _refused(way: Way, want: Sequence[str], seconds: float) -> str:
    """Four requests fail, each saying all these words. Returns what they said."""
    start = time.monotonic()
    answers = send(way, asks(4), in_flight=4, seconds=seconds)
    for answer in answers:
        told = f"{answer.error} {answer.prefill_error}"
        assert not answer.is_full, "a request was served"
        assert not answer.hung, f"a request hangs for {seconds:.0f} s"
        missing = [word for word in want if word not in told]
        assert not missing, f"a failure does not say {missing}: {told}"
    return f"each fails within {time.monotonic() - start:.1f} s"


def misfit(stage: Stage, layout: Layout, want: Sequence[str]) -> Finding:
    """Decode servers that do not fit are refused with both sides' values, one after the other;
    prefill's requests for one that fits are undisturbed.
    """
    pair = stage.pair(replace(layout, decode=(), decode_model=None))
    other = stage.start(layout, "decode-odd")
    try:
        other.wait_healthy()
        odd = replace(pair.both, decode=other.url)
        with ThreadPoolExecutor(1) as beside:
            fits = beside.submit(_same, stage, pair, asks(SERVES_AGAIN), in_flight=8)
            told = _refused(odd, want, 45.0)
        fits.result()
    finally:
        stage.servers.end(other)
    pair.check_nothing_grew()
    return Finding(4 + SERVES_AGAIN, SERVES_AGAIN, told)


def page_size_differs(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, ("page_size is 1 there and 16 here",))


def dtype_differs(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, ("float32", "bfloat16"))


def model_differs(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, ("4 heads", "2 heads"))


def layers_differ(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, ("layer 4",))


def registry_restarts(stage: Stage, layout: Layout) -> Finding:
    """In the midst of requests. A decode server that has never asked it is served, too."""
    pair = stage.pair(layout)
    wanted = asks(120)
    stage.reference(layout.model, wanted)
    restarter = threading.Timer(0.5, lambda: pair.prefill.signal_leader(signal.SIGUSR1))
    restarter.start()
    found = _same(stage, pair, wanted, in_flight=16, seconds=60.0)
    restarter.join()
    time.sleep(2.0)
    fresh = stage.start(layout, "decode-fresh")
    try:
        fresh.wait_healthy()
        way = replace(pair.both, decode=fresh.url)
        after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=SERVES_AGAIN, way=way,
                      seconds=40.0)
    finally:
        stage.servers.end(fresh)
    return Finding(found.requests + after.requests, found.equal + after.equal, found.note)


def never_met(stage: Stage, layout: Layout) -> Finding:
    """Decode asks the registry of the pair's prefill server, and another one has the prompt."""
    pair = stage.pair(layout)
    other = stage.start(layout, "prefill-other")
    try:
        other.wait_healthy()
        told = _refused(replace(pair.both, prefill=other.url), (), 40.0)
        found = _same(stage, pair, asks(SERVES_AGAIN), in_flight=8)
    finally:
        stage.servers.end(other)
    pair.check_nothing_grew()
    return replace(found, requests=found.requests + 4, note=told)


def port_in_use(stage: Stage, layout: Layout) -> Finding:
    pair = stage.pair(layout)
    taken = stage.servers.prefill("prefill-port", stage.model(layout.model), (*POOL, *layout.both),
                                  like=replace(pair.prefill, port=free_port()),
                                  env=stage.environment(layout))
    told = ""
    try:
        taken.wait_healthy(60.0)
    except ServerError as error:
        told = str(error)
    finally:
        stage.servers.end(taken)
    assert told, "a second prefill server has started on the registry's port"
    assert f"{pair.prefill.bootstrap}" in told, f"it does not name its port: {told}"
    return _same(stage, pair, asks(SERVES_AGAIN), in_flight=8)
