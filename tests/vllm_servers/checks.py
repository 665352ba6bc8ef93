"""What the cells assert. Each check drives the servers of a layout and raises AssertionError."""

import json
import re
import signal
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from examples.servers.serving import Server, ServerError
from examples.vllm_servers.proxy import REPEATED
from examples.vllm_servers.serving import MODEL, OURS, gauge
from pdproto.vllm.offer import KEY, VERSION
from tests.servers.load import Ask, asks, every_second, send, send_and_kill
from tests.servers.standstill import Outcome, Standstill
from tests.servers.suite import Finding, UntestedError
from tests.vllm_servers.cells import LEASE_S, Layout
from tests.vllm_servers.figures import steps, within_a_millisecond
from tests.vllm_servers.mid_write import READS, Read, begin_reads
from tests.vllm_servers.stage import (
    FAILED,
    NO_ANSWER,
    OK,
    Completions,
    Pair,
    Stage,
    Streamed,
    Told,
    at_decode,
    at_prefill,
    completion,
)

HELD_UP: Final = 0.01  # of the steps may take the connector more than a millisecond of CPU time
FEW_STEPS: Final = 4  # may in any case, on a busy machine
HANGS_S: Final = 10.0  # after a server has died, every request has an end within this
SERVES_AGAIN: Final = 30  # requests
BOTH: Final = " at decode: want the same at both ends"  # of a layout, with the value of each end
MANY: Final = asks(300)
LONG: Final = asks(60, new=48)
FAILED_LOADS: Final = "pdproto_failed_loads_total"
STOPPED: Final = asks(1, seed=3)
LATE: Final = asks(3, seed=5, shortest=40)
HEDGED: Final = asks(8, seed=9, shortest=40)
DYING: Final = asks(50, seed=11, new=300)
RUNNING: Final = "num_requests_running"
GENERATED: Final = "generation_tokens_total"
LOADED_TOKENS: Final = "external_prefix_cache_hits_total"
ENGINE: Final = re.compile(r'vllm:request_success_total{engine="(\d)".*?} (\S+)')
COMPLETIONS: Final = "/v1/completions"
CHATS: Final = "/v1/chat/completions"
TEXTS: Final = [f"{number}: who holds the blocks of request {number * 37}?" * (1 + number % 3)
                for number in range(10)]
LOADED: Final = 3  # requests have their blocks when a server is killed
MIXED: Final = [Ask(ask.prompt[-90:], 8) for ask in asks(2, seed=8, shortest=90, longest=91)]
QUICK: Final = (*MIXED, *HEDGED)
ALL: Final = (*MANY, *LONG, *STOPPED, *LATE, *MIXED, *HEDGED, *DYING)


def _same(stage: Stage, pair: Pair, wanted: Sequence[Ask], *, in_flight: int,
          seconds: float = 120.0) -> Finding:
    """Every answer is that of one server."""
    reference = stage.reference(wanted)
    found, _ = reference.check(pair.through, wanted, in_flight=in_flight, seconds=seconds)
    return Finding(len(wanted), found.equal, f"log probabilities at most {found.largest:.1g} apart")


def equality(stage: Stage, layout: Layout) -> Finding:
    return _equality(stage, layout, 100 if stage.few else 300)


def equality_short(stage: Stage, layout: Layout) -> Finding:
    return _equality(stage, layout, 60)


def _equality(stage: Stage, layout: Layout, count: int) -> Finding:
    pair = stage.pair(layout)
    found = _same(stage, pair, MANY[:count], in_flight=16)
    pair.check_nothing_is_held()
    if layout.connector == OURS:
        for server in pair.servers:
            _check_steps(server)
    return found


def _check_steps(server: Server) -> None:
    """The histograms of the connector's calls say that no step was held up."""
    known = steps(server)
    assert known, f"{server.name}: no step is in the histograms of the connector's calls"
    for step, count in known.items():
        late = 1 - within_a_millisecond(server, f"{step}_cpu_seconds")
        assert late <= max(HELD_UP, FEW_STEPS / count), (
            f"{server.name}: {late:.1%} of {count:.0f} {step} take over 1 ms of CPU time")


def first_token(stage: Stage, layout: Layout) -> Finding:
    """Streams, of which the proxy has the first token from prefill, if it is whole text. Decode
    loads each prompt, and does not generate these tokens.
    """
    pair, wanted = stage.pair(layout), MANY[:60]
    loaded, made = gauge(pair.decode, LOADED_TOKENS), gauge(pair.decode, GENERATED)
    answers = send(Streamed(pair.through.url), wanted, in_flight=16, seconds=120.0)
    failed = [answer.error for answer in answers if not answer.is_full]
    assert not failed, f"{len(failed)} of {len(wanted)} failed: {failed[0]}"
    stage.reference(wanted).require_right(wanted, answers)
    prompts = sum(len(ask.prompt) for ask in wanted)
    loaded = gauge(pair.decode, LOADED_TOKENS) - loaded
    assert loaded == prompts, f"decode has loaded {loaded:.0f} of {prompts} tokens"
    passed_on = sum(ask.new for ask in wanted) - (gauge(pair.decode, GENERATED) - made)
    assert passed_on > len(wanted) / 4, f"{passed_on:.0f} of {len(wanted)} tokens are prefill's"
    pair.check_nothing_is_held()
    return Finding(len(wanted), len(wanted), f"{passed_on:.0f} first tokens are prefill's")


def memory_short(stage: Stage, layout: Layout) -> Finding:
    """Requests wait for decode's memory, and running ones with long answers lose theirs."""
    found = equality(stage, layout)
    _same(stage, stage.pair(layout), LONG, in_flight=16)
    preempted = gauge(stage.pair(layout).decode, "num_preemptions_total")
    if not preempted:
        raise UntestedError("decode has preempted no request")
    return Finding(found.requests, found.equal, f"{found.note}, {preempted:.0f} preempted")


def plugged_in(stage: Stage, layout: Layout) -> Finding:
    """vLLM finds the connector by its name alone."""
    _started(stage, layout, r"Unsupported connector type: \w+")
    return equality_short(stage, layout)


def _started(stage: Stage, layout: Layout, told: str) -> Pair:
    """The pair. told: a pattern of the reason for which it does not start."""
    try:
        return stage.pair(layout)
    except ServerError as error:
        logs = "\n".join(one.log.read_text(errors="replace") for one in stage.servers.started)
        why = re.search(told, logs)
        raise AssertionError(f"vLLM does not start: {why[0] if why else error}") from None


def data_parallel(stage: Stage, layout: Layout) -> Finding:
    """Each server has two engines, of which each takes itself for rank 0 of its world."""
    pair = _started(stage, layout, r"node \S+ cannot listen on \S+: Address already in use")
    found = _same(stage, pair, MANY[:60], in_flight=16)
    for server in pair.servers:
        served = ENGINE.findall(str(server.get("/metrics")))
        if not all(sum(float(count) for engine, count in served if engine == rank)
                   for rank in "01"):
            raise UntestedError(f"{server.name}: one engine has served all requests: {served}")
    pair.check_nothing_is_held()
    return found


def routed(stage: Stage, layout: Layout) -> Finding:
    """Texts through a router, as completions, as chats and as streams. Decode, which keeps no
    prefixes, computes none of them, and answers as it does alone.
    """
    pair = stage.pair(layout)
    router = pair.router
    assert router is not None
    plain = {"model": MODEL, "max_tokens": 16, "temperature": 0, "ignore_eos": True}
    bodies = [(path, {**plain, **({"prompt": text} if path == COMPLETIONS else {
        "messages": [{"role": "user", "content": text}]})})
        for text in TEXTS for path in (COMPLETIONS, CHATS)]
    loaded = gauge(pair.decode, LOADED_TOKENS)
    with ThreadPoolExecutor(4) as clients:
        told = list(clients.map(lambda one: router.post(*one), bodies))
    streams = [str(_stream(router, *one)) for one in bodies[:4]]
    prompts = sum(one["usage"]["prompt_tokens"] for one in told + told[:4])
    loaded = gauge(pair.decode, LOADED_TOKENS) - loaded
    assert loaded == prompts, f"decode has loaded {loaded:.0f} of {prompts} tokens"
    for one, answer in zip(bodies, told, strict=True):
        alone = said(pair.decode.post(*one))
        assert said(answer) == alone, f"{said(answer)!r}, want {alone!r}"
    assert streams == [said(answer) for answer in told[:4]]
    pair.check_nothing_is_held()
    return Finding(len(bodies) + len(streams), len(bodies) + len(streams),
                   f"{loaded:.0f} tokens loaded")


def said(answer: dict[str, Any]) -> str:
    """The text of an answer."""
    (choice,) = answer["choices"]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


def _stream(server: Server, path: str, body: dict[str, Any]) -> str:
    """The text that comes in pieces."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        server.url + path, json.dumps({**body, "stream": True}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60.0) as answer:  # noqa: S310
        lines = answer.read().decode().splitlines()
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines
              if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
                   for piece in pieces for choice in piece["choices"])


def nothing_grows(stage: Stage, layout: Layout) -> Finding:
    """The engines have the same threads and files after many requests as after a few."""
    pair = stage.pair(layout)
    _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    pair.check_nothing_is_held()
    send(pair.through, MANY[:120], in_flight=16, leave=every_second)
    found = _same(stage, pair, MANY[:150], in_flight=16)
    pair.check_nothing_is_held()
    return found


def half_leave(stage: Stage, layout: Layout) -> Finding:
    pair, wanted = stage.pair(layout), MANY[:120]
    reference = stage.reference(wanted)
    found, left = reference.check(pair.through, wanted, in_flight=len(wanted), leave=every_second,
                                  seconds=60.0)
    if left < 20:
        raise UntestedError(f"only {left} clients left before their answer")
    pair.check_nothing_is_held()
    after = _same(stage, pair, wanted[:SERVES_AGAIN], in_flight=16)
    return Finding(len(wanted) + after.requests, found.equal + after.equal, f"{left} left")


def prefill_stopped(stage: Stage, layout: Layout) -> Finding:
    """Decode has asked, and prefill does not answer: the engine of decode must live on."""
    pair = stage.pair(layout)
    (ask,) = STOPPED
    params = at_prefill(pair.prefill, ask)
    pair.prefill.signal_all(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(2) as clients:
            leaves = clients.submit(at_decode, pair.decode, ask, params, 3.0)
            told = clients.submit(at_decode, pair.decode, ask, params, 30.0).result()
            left = leaves.result()
        seconds = time.monotonic() - began
        assert told in (Told(FAILED), Told(OK, _alone(stage, ask))), f"a wrong answer: {told}"
        if left.status != NO_ANSWER:
            raise UntestedError(f"the client that was to leave has an answer: {left}")
        assert seconds < HANGS_S + 8, f"a request hangs for {seconds:.0f} s"
        time.sleep(max(0.0, 8.0 - seconds))
    finally:
        pair.prefill.signal_all(signal.SIGCONT)
    pair.check_nothing_is_held()
    found = _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    return Finding(found.requests + 2, found.equal, f"told after {seconds:.1f} s")


def stands_still(stage: Stage, layout: Layout, standstill: Standstill) -> Finding:
    """None of the requests may fail."""
    pair = stage.pair(layout)
    seen = meet(stage, pair, standstill)
    assert seen.is_whole, f"{seen} of {seen.requests} when {standstill}: {seen.why}"
    pair.check_nothing_is_held()
    after = _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    return Finding(seen.requests + after.requests, seen.requests + after.equal, f"{seen}")


def meet(stage: Stage, pair: Pair, standstill: Standstill) -> Outcome:
    """Whatever becomes of the requests."""
    return standstill.meet(pair.through, stage.reference(MANY), pair.signals)


def kill_prefill(stage: Stage, layout: Layout) -> Finding:
    """While it writes to decode, while others wait for decode's memory, and before decode asks."""
    pair = stage.pair(layout)
    offers = [at_prefill(pair.prefill, ask) for ask in LATE]
    failed, last = _kill(stage, pair, pair.prefill)
    for ask, params in zip(LATE, offers, strict=True):
        began = time.monotonic()
        told = at_decode(pair.decode, ask, params, 60.0)
        assert told == Told(FAILED), f"a request of the dead prefill: {told}"
        seconds = time.monotonic() - began
        assert seconds < HANGS_S, f"decode fails a request of the dead prefill in {seconds:.1f} s"
    return _served_on(stage, pair, "prefill", failed, last)


def kill_decode(stage: Stage, layout: Layout) -> Finding:
    """While prefill writes to it, and while others of its requests wait for its memory."""
    pair = stage.pair(layout)
    failed, last = _kill(stage, pair, pair.decode)
    pair.check_nothing_is_held(pair.prefill, seconds=HANGS_S)
    return _served_on(stage, pair, "decode", failed, last)


def _kill(stage: Stage, pair: Pair, server: Server) -> tuple[int, float]:
    """Kill a server of a pair before some reads and during others, with 60 requests in flight
    beside them, of which the first are answered. Returns how many failed, and how many seconds
    after the kill the last of them had ended.
    """
    reference, reads, killed = stage.reference(LONG), list[Future[Read]](), list[float]()

    def kill() -> None:
        try:
            reads.extend(begin_reads(pair, beside))
        finally:
            server.signal_all(signal.SIGKILL)
            killed.append(time.monotonic())
            pair.decode.signal_all(signal.SIGCONT)

    with ThreadPoolExecutor(len(READS)) as beside:
        answers, last = send_and_kill(pair.through, LONG, kill)
        broken = [read.result() for read in reads]
    served = sum(bool(read.tokens) for read in broken)
    assert not served, f"{served} reads that the kill broke off were served"
    wrong = reference.compare(LONG, answers).wrong
    assert not wrong, wrong[0]
    beside_them = sum(not answer.is_full for answer in answers)
    if not beside_them:
        raise UntestedError(f"all of {len(LONG)} requests were answered before the kill")
    failed = len(broken) + beside_them
    last = max(last, *(read.at - killed[0] for read in broken))
    assert last < HANGS_S, f"the last of {failed} requests ended {last:.1f} s after the kill"
    return failed, last


def _served_on(stage: Stage, pair: Pair, side: str, failed: int, last: float) -> Finding:
    """The server that lives serves with the next one."""
    stage.restart(getattr(pair, side))
    pair.check_nothing_is_held()
    after = _same(stage, pair, MANY[:SERVES_AGAIN], in_flight=16)
    asked = len(LONG) + len(READS)
    return Finding(asked + after.requests, asked - failed + after.equal,
                   f"{failed} failed, the last {last:.1f} s after the kill")


def late_read(stage: Stage, layout: Layout) -> Finding:
    """Decode is asked when prefill has waited for long enough, and has served others meanwhile."""
    pair, wanted = stage.pair(layout), LATE
    offers = [at_prefill(pair.prefill, ask) for ask in wanted]
    time.sleep(LEASE_S + 2)
    others = asks(30, seed=6, shortest=200)
    send(type(pair.through)(pair.prefill.url), others, in_flight=8)
    slowest, failures = 0.0, gauge(pair.decode, FAILED_LOADS)
    for ask, params in zip(wanted, offers, strict=True):
        began = time.monotonic()
        told = at_decode(pair.decode, ask, params, HANGS_S)
        slowest = max(slowest, time.monotonic() - began)
        want = Told(OK, _alone(stage, ask)) if layout.policy == "recompute" else Told(FAILED)
        assert told == want, f"decode answers {told}, want {want}"
    assert slowest < HANGS_S, f"an answer took {slowest:.1f} s"
    counted = gauge(pair.decode, FAILED_LOADS) - failures
    assert counted == len(wanted), f"{FAILED_LOADS} counts {counted:.0f} of {len(wanted)}"
    pair.check_nothing_is_held()
    return Finding(len(wanted), 0 if layout.policy == "fail" else len(wanted),
                   f"each told within {slowest:.2f} s")


def params_cut(stage: Stage, layout: Layout) -> Finding:
    """Decode is given less than prefill has answered, another version or another room; and then
    everything.
    """
    pair, (ask, *_) = stage.pair(layout), LATE
    params = at_prefill(pair.prefill, ask)
    told = params[KEY]
    cut = {"kv_transfer_params have no 'pdproto'": {**params, KEY: None},
           "missing required field `tokens`": {
               **params, KEY: {name: told[name] for name in ("version", "room")}},
           f"of version {VERSION + 1}, and {VERSION} is known": {
               **params, KEY: {**told, "version": VERSION + 1}},
           "this prefill server has drawn no such room": {
               **params, KEY: {**told, "room": str(int(told["room"]) ^ 1 << 40)}}}
    for words, given in cut.items():
        began = time.monotonic()
        answer = at_decode(pair.decode, ask, given, 2 * HANGS_S)
        assert answer == Told(FAILED), f"want status {FAILED}, {words}: {answer}"
        assert time.monotonic() - began < HANGS_S, f"a request hangs for {HANGS_S:.0f} s"
        assert words in pair.decode.log.read_text(errors="replace"), f"decode does not say: {words}"
    assert at_decode(pair.decode, ask, params, 30.0) == Told(OK, _alone(stage, ask))
    pair.check_nothing_is_held()
    return Finding(1 + len(cut), 1, f"{len(cut)} fail")


def other_prompt(stage: Stage, layout: Layout) -> Finding:
    """Decode is asked for one prompt with the params of another, and then without params: its
    prefix cache has nothing of the other one.
    """
    pair, (computed, asked) = stage.pair(layout), MIXED
    params = at_prefill(pair.prefill, computed)
    told = at_decode(pair.decode, asked, params, HANGS_S)
    assert told == Told(FAILED), f"decode answers {told}, want status {FAILED}"
    both = re.compile(rf"another prompt \(tokens: {params[KEY]['prompt']['tokens']} at prefill and "
                      r"\w+ at decode\)")
    pair.check_nothing_is_held()
    for server in pair.servers:
        words = server.log.read_text(errors="replace")
        assert both.search(words), f"{server.name} does not say both values"
    later = at_decode(pair.decode, asked, {}, 30.0)
    assert later == Told(OK, _alone(stage, asked)), f"a request without params: {later}"
    return Finding(2, 1, "one fails")


def shared_room(stage: Stage, layout: Layout) -> Finding:
    """Prefill draws one room for a request, and the request has several at decode."""
    pair, served = stage.pair(layout), 0
    (one, two), reference = MIXED, stage.reference(MIXED)
    sampled = {"n": 3, "temperature": 1, "top_k": 1}  # vLLM refuses n > 1 of greedy requests
    for body, choices in (({**completion(one.prompt, one.new), **sampled}, (one,) * 3),
                          (completion((one.prompt, two.prompt), one.new), MIXED)):
        (answer,) = send(Completions(pair.through.url, body), [one], in_flight=1, seconds=HANGS_S)
        assert not answer.hung, f"a request hangs for {HANGS_S:.0f} s"
        want = [token for each in choices for token in reference.tokens(each)]
        if choices is MIXED and not answer.is_full:
            assert str(answer.error).startswith(str(FAILED)), answer
            continue
        assert answer.tokens == want, answer
        served += 1
    pair.check_nothing_is_held()
    return Finding(2, served, f"{2 - served} fail at once")


def hedged(stage: Stage, layout: Layout) -> Finding:
    """Each request is asked of both decode servers at once, and of one of them again."""
    pair, wanted = stage.pair(layout), HEDGED
    with stage.another_decode(layout) as (other, _):
        before = computed(pair.prefill)
        offers = [at_prefill(pair.prefill, ask) for ask in wanted]
        with ThreadPoolExecutor(2 * len(wanted)) as clients:
            legs = [(ask, clients.submit(at_decode, server, ask, params, 30.0))
                    for ask, params in zip(wanted, offers, strict=True)
                    for server in (pair.decode, other)]
            told = [(ask, leg.result()) for ask, leg in legs]
        told += [(ask, at_decode(other, ask, params, 30.0))
                 for ask, params in zip(wanted, offers, strict=True)]
        for ask, answer in told:
            assert answer == Told(OK, _alone(stage, ask)), f"decode answers {answer}"
        again = computed(pair.prefill) - before - len(wanted)
        assert not again, f"prefill has computed {again:.0f} requests again"
    return Finding(len(told), len(told), "")


def kill_one_decode(stage: Stage, layout: Layout) -> Finding:
    """The proxy asks the other decode server for the requests of the one that has died, also for
    some that had been loaded there.
    """
    pair = stage.pair(layout)
    reference = stage.reference(DYING)
    with stage.another_decode(layout) as (other, proxy):
        before = computed(pair.prefill)

        def kill() -> None:
            end = time.monotonic() + HANGS_S
            while gauge(other, RUNNING) < LOADED and time.monotonic() < end:
                time.sleep(0.005)
            other.signal_all(signal.SIGKILL)

        answers, _ = send_and_kill(Completions(proxy.url), DYING, kill, first=1)
        found = reference.require_right(DYING, answers)
        again = computed(pair.prefill) - before - len(DYING)
        assert not again, f"prefill has computed {again:.0f} requests again"
        repeated = proxy.log.read_text(errors="replace").count(REPEATED)
        if not repeated:
            raise UntestedError("no request was asked again")
    return Finding(len(DYING), found.equal, f"{repeated} were asked of the other one")


def computed(prefill: Server) -> float:
    """How many requests a server has ended."""
    return gauge(prefill, "request_success_total")


def differs(stage: Stage, layout: Layout) -> Finding:
    """Every request fails by its status, with both values in the logs of both servers, which live
    on.
    """
    pair = stage.pair(layout)
    answers = send(pair.through, MANY[:4], in_flight=4, seconds=HANGS_S)
    served = sum(answer.is_full for answer in answers)
    assert not served, f"{served} of {len(answers)} requests were served with status {OK}"
    assert not any(answer.hung for answer in answers), f"a request hangs for {HANGS_S:.0f} s"
    others = [answer.error for answer in answers if not str(answer.error).startswith(str(FAILED))]
    assert not others, f"want status {FAILED}: {others[0]}"
    pair.check_nothing_is_held()
    for server in pair.servers:
        words = server.log.read_text(errors="replace")
        assert BOTH in words, f"{server.name} does not say both values"
    return Finding(len(answers), 0, "each fails")


def _alone(stage: Stage, ask: Ask) -> list[int]:
    return stage.reference([ask]).tokens(ask)
