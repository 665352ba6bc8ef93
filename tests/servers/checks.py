"""What the cells assert. Each check drives the servers of a layout and raises AssertionError."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Final

from examples.servers.serving import ServerError, free_port
from examples.sglang_servers.__main__ import NEW_TOKENS
from pdproto.node.prefill.ended_rooms import OVER
from pdproto.sglang.prompts import NO_ROOM, NO_ROOM_REASON
from tests.servers.census import settled
from tests.servers.layouts import CHUNK_TOKENS, PATIENCE_S, SHORT_S, SHORT_TOKENS
from tests.servers.load import (
    ROOM_BITS,
    Again,
    Answer,
    Ask,
    Both,
    Way,
    asks,
    every_second,
    send,
    send_and_kill,
)
from tests.servers.reference import Comparison
from tests.servers.stage import POOL, POOL_TOKENS, Layout, Pair, Stage
from tests.servers.standstill import ASKED, Outcome, Standstill
from tests.servers.suite import Finding, UntestedError

HANGS_S: Final = 10.0  # after a server has died, every request has an end within this
SERVES_AGAIN: Final = 40  # requests
CHUNKS: Final = 65  # of a long prompt, at least
LONG_TOKENS: Final = CHUNKS * CHUNK_TOKENS + 1
FOUR_HEADS: Final = ("4 heads", "2 heads")
LEAK: Final = "req_to_token_pool memory leak detected"
NEVER_MET: Final = (f"_timeout after {PATIENCE_S} s",)
NO_ROOMS: Final = {NO_ROOM: NO_ROOM_REASON, **{
    room: f"bootstrap_room {room}: want 1 to " for room in (-1, 2**64 - 1)}}
OTHER_PROMPT: Final = "has two prompts"
TOO_LONG: Final = ("exceeds the maximum allowed length",)


def _same(stage: Stage, pair: Pair, wanted: Sequence[Ask], *, in_flight: int,
          way: Way | None = None, seconds: float = 120.0) -> Finding:
    """Every answer is that of a server without disaggregation."""
    reference = stage.reference(pair.layout.model, wanted)
    found, _ = reference.check(way or pair.through, wanted, in_flight=in_flight, seconds=seconds,
                               about=pair.told)
    pair.check_evidence()
    return Finding(len(wanted), found.equal,
                   f"logprobs within {found.largest:.1g}, {found.same_bits} to the bit")


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


def many_chunks(stage: Stage, layout: Layout) -> Finding:
    """Prompts that are sent in over 64 chunks beside others of a few."""
    pair = stage.pair(layout)
    wanted = [*asks(4, seed=3, shortest=LONG_TOKENS, longest=LONG_TOKENS + 40), *asks(48)]
    before = pair.prefill.log.read_text(errors="replace").count(layout.evidence)
    found = _same(stage, pair, wanted, in_flight=len(wanted))
    chunks = pair.prefill.log.read_text(errors="replace").count(layout.evidence) - before
    if chunks < 4 * CHUNKS:
        raise UntestedError(f"prefill made {chunks} passes of a whole chunk, want {4 * CHUNKS}")
    pair.check_nothing_grew()
    return replace(found, note=f"{chunks} chunks, {found.note}")


def too_long(stage: Stage, layout: Layout) -> Finding:
    """A prompt that is longer than all memory of one server fails at both for that reason, beside
    others that are served.
    """
    pair = stage.pair(layout)
    stage.reference(layout.model, asks(SERVES_AGAIN))
    long = asks(1, seed=4, shortest=SHORT_TOKENS + 100, longest=SHORT_TOKENS + 140)
    with ThreadPoolExecutor(1) as beside:
        fits = beside.submit(_same, stage, pair, asks(SERVES_AGAIN), in_flight=8)
        told = refused(pair.both, TOO_LONG, 30.0, prefill=TOO_LONG, wanted=long * 4)
    found = fits.result()
    pair.check_nothing_grew()
    return replace(found, requests=found.requests + 4, note=told)


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


def retracted(stage: Stage, layout: Layout) -> Finding:
    """When the first requests are answered, decode gives the KV of the others back, and goes on."""
    pair, wanted = stage.pair(layout), asks(60, seed=5, new=64)
    reference = stage.reference(layout.model, wanted)
    before = _computed(pair)

    def give_back() -> None:
        pair.decode.post("/pause_generation", {"mode": "retract"})
        pair.decode.post("/continue_generation", {"torch_empty_cache": False})

    answers, _ = send_and_kill(pair.through, wanted, give_back, first=6, seconds=60.0)
    found = reference.require_right(wanted, answers, pair.told)
    again = _computed(pair) - before - len(wanted)
    if again < 1:
        raise UntestedError("no request was running when decode gave its KV back")
    pair.check_nothing_grew()
    return Finding(len(wanted), found.equal, f"{again} computed again")


def _computed(pair: Pair) -> int:
    """Requests that prefill has answered."""
    return pair.prefill.log.read_text(errors="replace").count("POST /generate")


def half_leave(stage: Stage, layout: Layout) -> Finding:
    """Half of the clients close their connection; the others are served, and nothing is left."""
    pair = stage.pair(layout)
    wanted = asks(200)
    reference = stage.reference(layout.model, wanted)
    found, left = reference.check(pair.through, wanted, in_flight=200, leave=every_second,
                                  about=pair.told)
    if left < 40:
        raise UntestedError(f"only {left} of 100 clients left before their answer")
    pair.check_nothing_grew()
    after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=16)
    return Finding(len(wanted) + after.requests, found.equal + after.equal, f"{left} left")


def leak_check(stage: Stage, layout: Layout) -> Finding:
    """It is what finds a lost page in every other cell."""
    pair = stage.pair(layout)
    (scheduler,) = pair.decode.schedulers()
    os.kill(scheduler, signal.SIGUSR2)
    end = time.monotonic() + HANGS_S
    while scheduler in pair.decode.schedulers() and time.monotonic() < end:
        time.sleep(0.1)
    assert scheduler not in pair.decode.schedulers(), "a scheduler that leaks lives on"
    told = pair.decode.log.read_text(errors="replace")
    assert LEAK in told, f"it has ended without a word of the leak: {pair.decode.tail()}"
    stage.end()
    return Finding(0, 0, "told by SGLang")


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
    failed = _failed_in_time(reference.compare(wanted, answers), answers, last, "the kill")
    if not failed:
        raise UntestedError(f"all {len(wanted)} were served before {side} was killed")
    stage.restart(victim)
    assert other.is_alive(), f"{other.name} has died: {other.tail()}"
    _until_served(pair)
    after = _same(stage, pair, asks(SERVES_AGAIN), in_flight=16, way=pair.both)
    before = pair.before[other.name]
    grown = settled(other, before).grown(before)
    assert not grown, f"{other.name} leaks: {grown}"
    pair.take_census()
    return Finding(len(wanted) + after.requests, len(wanted) - failed + after.equal,
                   f"{failed} failed, the last {last:.1f} s after the kill")


def _failed_in_time(
    found: Comparison, answers: Sequence[Answer], last: float, event: str
) -> int:
    """How many requests have failed. The answers of the others are right, and the last one failed
    within `HANGS_S` of the event.
    """
    failed = sum(not answer.is_full for answer in answers)
    assert not found.wrong, found.wrong[0]
    assert last < HANGS_S, f"the last of {failed} requests ended {last:.1f} s after {event}"
    return failed


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


def stands_still(stage: Stage, layout: Layout, standstill: Standstill) -> Finding:
    """Both halves of each request are asked at once. None may fail."""
    pair = stage.pair(layout)
    seen = meet(stage, pair, standstill)
    assert seen.is_whole, f"{seen} of {seen.requests} when {standstill}: {seen.why}"
    pair.check_nothing_grew()
    after = _same(stage, pair, asks(SERVES_AGAIN), in_flight=16, way=pair.both)
    pair.take_census()
    return Finding(seen.requests + after.requests, seen.requests + after.equal, f"{seen}")


def meet(stage: Stage, pair: Pair, standstill: Standstill) -> Outcome:
    """Whatever becomes of the requests."""
    reference = stage.reference(pair.layout.model, ASKED)
    return standstill.meet(pair.both, reference, pair.signals)


def one_room(stage: Stage, layout: Layout) -> Finding:
    """Three clients send three prompts of one length under one room, at once, and decode gets them
    in another order than prefill: each is answered from its own prompt, or refused with the names
    of both.
    """
    pair, tokens = stage.pair(layout), 64
    wanted = [replace(ask, prompt=ask.prompt[-tokens:])
              for ask in asks(12, seed=6, shortest=tokens, longest=tokens + 1)]
    reference = stage.reference(layout.model, wanted)
    answers: list[Answer] = []
    with ThreadPoolExecutor(3) as clients:
        for number in range(0, len(wanted), 3):
            way = _in_room(pair, random.getrandbits(ROOM_BITS))
            answers += chain(*clients.map(
                lambda ask, late, way=way: send(
                    replace(way, late=late), [ask], in_flight=1, seconds=30.0),
                wanted[number:number + 3], (0.2, 0.1, 0.0)))
    found = reference.compare(wanted, answers)
    assert not found.wrong, f"{len(found.wrong)} of {len(wanted)} are wrong, {found.wrong[0]}"
    for answer in answers:
        assert not answer.hung, "a request hangs for 30 s"
        assert answer.is_full or OTHER_PROMPT in str(answer.error), answer.error
    if not found.equal:
        raise UntestedError("no request was answered")
    pair.check_nothing_grew()
    return Finding(len(wanted), found.equal, f"{len(wanted) - found.full} refused by name")


def room_zero(stage: Stage, layout: Layout) -> Finding:
    """It is refused at once at both servers, as other rooms are that cannot be; others are served,
    and decode's memory is free.
    """
    pair = stage.pair(layout)
    stage.reference(layout.model, asks(SERVES_AGAIN))
    with ThreadPoolExecutor(1) as beside:
        fits = beside.submit(_same, stage, pair, asks(SERVES_AGAIN), in_flight=8)
        told = [refused(_in_room(pair, room), (why,), 30.0, prefill=(why,))
                for room, why in NO_ROOMS.items()]
    found = fits.result()
    pair.check_nothing_grew()
    return replace(found, requests=found.requests + 4 * len(told), note=told[0])


def _in_room(pair: Pair, room: int) -> Both:
    told = {"bootstrap_room": room}
    return replace(pair.both, to_prefill=told, to_decode=told)


def asked_again(stage: Stage, layout: Layout) -> Finding:
    """A router repeats decode's half of a request alone, after an answer: prefill computes it once,
    so the half fails at once with that reason.
    """
    pair, wanted, answers = stage.pair(layout), asks(4, seed=7), list[Answer]()
    reference = stage.reference(layout.model, wanted)
    for ask in wanted:
        room = random.getrandbits(ROOM_BITS)
        answers += send(_in_room(pair, room), [ask], in_flight=1)
        told = refused(Again(pair.both, room), (OVER,), HANGS_S, wanted=[ask])
    found = reference.require_right(wanted, answers, pair.told)
    pair.check_nothing_grew()
    return Finding(2 * len(wanted), found.equal, told)


def several_samples(stage: Stage, layout: Layout) -> Finding:
    """The samples of a request share its room."""
    pair = stage.pair(layout)
    found = _same(stage, pair, [replace(ask, samples=3) for ask in asks(SERVES_AGAIN)],
                  in_flight=SERVES_AGAIN, seconds=30.0)
    pair.check_nothing_grew()
    return replace(found, note="3 samples each")


def ranks_by_name(stage: Stage, layout: Layout) -> Finding:
    """Every request says which data-parallel rank prefills it; another one decodes it."""
    pair = stage.pair(layout)
    wanted, done = asks(48), Finding(0, 0)
    for rank in (0, 1):
        found = _same(stage, pair, wanted[rank::2], in_flight=24, seconds=90.0,
                      way=_routed(pair, named=rank, prefill=rank, decode=1 - rank))
        done = Finding(done.requests + found.requests, done.equal + found.equal, found.note)
    pair.check_nothing_grew()
    return done


def wrong_rank(stage: Stage, layout: Layout) -> Finding:
    """Requests that name another rank than the one to which they come fail; others do not. Twice:
    the ranks connect to each other the first time.
    """
    pair = stage.pair(layout)
    _named_wrongly(stage, pair, asks(4))
    pair.take_census()
    found = _named_wrongly(stage, pair, asks(24))
    pair.check_nothing_grew()
    return found


def _named_wrongly(stage: Stage, pair: Pair, right: Sequence[Ask]) -> Finding:
    """Four requests with a wrong name, and then those with the right one."""
    want = "was put on data-parallel rank 1, and the request names rank 0",
    told = refused(_routed(pair, named=0, prefill=1, decode=0), want, 30.0, prefill=want)
    found = _same(stage, pair, right, in_flight=len(right), seconds=90.0,
                  way=_routed(pair, named=1, prefill=1, decode=0))
    return replace(found, requests=found.requests + 4, note=told)


def _routed(pair: Pair, *, named: int, prefill: int, decode: int) -> Way:
    """To these data-parallel ranks, with the rank that the request names."""
    name = {"disagg_prefill_dp_rank": named}
    return replace(pair.both, to_prefill={"routed_dp_rank": prefill, **name},
                   to_decode={"routed_dp_rank": decode, **name})


def refused(way: Way, want: Sequence[str], seconds: float, *, prefill: Sequence[str] = (),
             or_as_decode: bool = False, wanted: Sequence[Ask] = ()) -> str:
    """These requests, or four, fail, each saying all these words at decode, and those at prefill.
    Returns in what time. or_as_decode: both halves find the reason, and prefill may be told of it
    first.
    """
    start = time.monotonic()
    answers = send(way, wanted or asks(4), in_flight=4, seconds=seconds)
    for answer in answers:
        assert not answer.is_full, "a request was served"
        assert not answer.hung, f"a request hangs for {seconds:.0f} s"
        for half, reasons, told in (
            ("decode", [want], answer.error),
            ("prefill", [prefill, want] if or_as_decode else [prefill], answer.prefill_error),
        ):
            assert any(all(word in str(told) for word in words) for words in reasons), (
                f"a failure at {half} says none of {reasons}: {told}")
    return f"each fails within {time.monotonic() - start:.1f} s"


def misfit(stage: Stage, layout: Layout, want: Sequence[str], prefill: Sequence[str], *,
           or_as_decode: bool = False) -> Finding:
    """Decode servers that do not fit are refused with both sides' values, one after the other;
    prefill's requests for one that fits are undisturbed. or_as_decode: see refused.
    """
    pair = stage.pair(replace(layout, decode=(), decode_model=None))
    other = stage.start(layout, "decode-odd")
    try:
        stage.wait_for(other)
        odd = replace(pair.both, decode=other.url)
        with ThreadPoolExecutor(1) as beside:
            fits = beside.submit(_same, stage, pair, asks(SERVES_AGAIN), in_flight=8)
            told = refused(odd, want, 45.0, prefill=prefill, or_as_decode=or_as_decode)
        fits.result()
    finally:
        stage.servers.end(other)
    pair.check_nothing_grew()
    return Finding(4 + SERVES_AGAIN, SERVES_AGAIN, told)


def page_size_differs(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, ("page_size is 1 at prefill and 16 at decode",),
                  ("4 heads, 1 row a page", "4 heads, 16 rows a page"), or_as_decode=True)


def dtype_differs(stage: Stage, layout: Layout) -> Finding:
    want = "kv_cache_dtype is auto (torch.float32) at prefill and auto (torch.bfloat16) at decode",
    return misfit(stage, layout, want, want)


def model_differs(stage: Stage, layout: Layout) -> Finding:
    return misfit(stage, layout, FOUR_HEADS, FOUR_HEADS)


def layers_differ(stage: Stage, layout: Layout) -> Finding:
    """Decode finds it out when the pages have landed: prefill may have answered its half by then.
    """
    return misfit(stage, layout, (
        "the sources send layer 0 to layer 3, and decode has layer 0 to layer 5",), ())


def stages_differ(stage: Stage, layout: Layout) -> Finding:
    want = "stages of the pipeline: 1 at prefill and 2 at decode",
    return misfit(stage, layout, want, want)


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
        stage.wait_for(fresh)
        way = replace(pair.both, decode=fresh.url)
        after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=SERVES_AGAIN, way=way,
                      seconds=40.0)
    finally:
        stage.servers.end(fresh)
    pair.check_nothing_grew()
    return Finding(found.requests + after.requests, found.equal + after.equal, found.note)


def never_met(stage: Stage, layout: Layout) -> Finding:
    """Decode asks the registry of the pair's prefill server, and another one has the prompt."""
    pair = stage.pair(layout)
    other = stage.start(layout, "prefill-other")
    try:
        stage.wait_for(other)
        told = refused(replace(pair.both, prefill=other.url), NEVER_MET, 40.0,
                        prefill=[f"bootstrap{why}" for why in NEVER_MET])
        found = _same(stage, pair, asks(SERVES_AGAIN), in_flight=8)
    finally:
        stage.servers.end(other)
    pair.check_nothing_grew()
    return replace(found, requests=found.requests + 4, note=told)


def example(stage: Stage, layout: Layout) -> Finding:
    """As a newcomer starts it, but that it ends after its own question."""
    stage.end()
    done = subprocess.run(
        [sys.executable, "-m", "examples.sglang_servers", "--once"], text=True,
        env=os.environ | stage.environment(layout), check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    why = next((line.partition(";")[0] for line in done.stdout.splitlines() if "no answer" in line),
               done.stdout[-400:])
    assert done.returncode == 0, f"it ends with status {done.returncode}: {why}"
    assert f"({NEW_TOKENS} tokens)" in done.stdout, why
    return Finding(1, 0, "answered")


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
    found = _same(stage, pair, asks(SERVES_AGAIN), in_flight=8)
    pair.check_nothing_grew()
    return found
