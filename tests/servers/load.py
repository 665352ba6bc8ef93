"""Requests to real servers: what is asked, who leaves early, and the answers.

Through the router (`Through`), or to both servers of a pair at once, as a router does (`Both`):
then neither learns from a third party that the other has gone, and each must find out by itself.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import aiohttp

VOCABULARY: Final = range(2, 258)  # one token a byte value
SHARED: Final = 96  # tokens of the prefix that every fourth prompt has in common with the others
ROOM_BITS: Final = 62
NO_BACKEND: Final = "2.2.2.2"  # SGLang's FAKE_BOOTSTRAP_HOST


@dataclass(frozen=True, slots=True)
class Ask:
    """One greedy request. new: tokens to be made. samples: equal ones, since it is greedy."""

    prompt: tuple[int, ...]
    new: int
    samples: int = 1

    @property
    def key(self) -> str:
        return json.dumps([self.prompt, self.new])

    def body(self) -> dict[str, Any]:
        return {
            "input_ids": list(self.prompt), "return_logprob": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": self.new, "ignore_eos": True,
                                "n": self.samples},
        }


def asks(count: int, *, seed: int = 0, shortest: int = 8, longest: int = 320,
         new: int = 16) -> list[Ask]:
    """The same ones for the same arguments."""
    shared = tuple(random.Random(f"shared {seed}").choices(VOCABULARY, k=SHARED))  # noqa: S311
    made = []
    for number in range(count):
        chance = random.Random(f"{seed} {number}")  # noqa: S311
        own = tuple(chance.choices(VOCABULARY, k=chance.randrange(shortest, longest)))
        made.append(Ask(shared + own if number % 4 == 0 else own, chance.randint(1, new)))
    return made


@dataclass(slots=True)
class Answer:
    """How a request ended.

    error: None if it was answered in full. left: its client left before. first: seconds until the
    first token, of a stream. at: the end, on time.monotonic's clock.
    """

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    error: str | None = None
    left: bool = False
    hung: bool = False
    first: float | None = None
    seconds: float = 0.0
    at: float = 0.0
    prefill_error: str | None = None

    @property
    def is_full(self) -> bool:
        return self.error is None and not self.left and not self.hung


class Way(Protocol):
    """How a request reaches the servers."""

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None: ...


@dataclass(frozen=True)
class Through:
    """One address: the router's, or that of a server without disaggregation."""

    url: str

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        await _read(session, f"{self.url}/generate", body, answer)


@dataclass(frozen=True)
class Both:
    """Prefill and decode at once, with a room. registry: port that the two are told. to_prefill,
    to_decode: what else the body of a half says. late: by so many seconds decode is asked later.
    path: of the request. leaves: after so many seconds the client of prefill's half has left.
    """

    prefill: str
    decode: str
    registry: int
    to_prefill: dict[str, Any] = field(default_factory=dict)
    to_decode: dict[str, Any] = field(default_factory=dict)
    late: float = 0.0
    path: str = "/generate"
    leaves: float | None = None

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        body = body | _of_room(random.getrandbits(ROOM_BITS), self.registry)
        there = Answer()
        start = time.monotonic()
        side = asyncio.create_task(asyncio.wait_for(_read(
            session, self.prefill + self.path, body | self.to_prefill, there, start), self.leaves))
        try:
            await asyncio.sleep(self.late)
            await _read(session, self.decode + self.path, body | self.to_decode, answer, start)
            with suppress(TimeoutError):
                await side  # a request has ended when both of its halves have
            answer.prefill_error = there.error
        finally:
            side.cancel()


@dataclass(frozen=True)
class Again:
    """Decode's half of a request alone, in a room that prefill may have ended."""

    pair: Both
    room: int

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        await _read(session, f"{self.pair.decode}/generate",
                    body | _of_room(self.room, self.pair.registry), answer)


def _of_room(room: int, registry: int) -> dict[str, Any]:
    return {"bootstrap_host": "127.0.0.1", "bootstrap_room": room, "bootstrap_port": registry}


@dataclass(frozen=True)
class Unmoved:
    """Prefill, and decode when prefill has ended, each with SGLang's stand-in for a backend, which
    moves nothing: as if a hand-over took no time. Tokens are wrong.
    """

    prefill: str
    decode: str

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        body = body | {"bootstrap_host": NO_BACKEND, "bootstrap_room": 0}
        start = time.monotonic()
        await _read(session, f"{self.prefill}/generate", body, Answer(), start)
        await _read(session, f"{self.decode}/generate", body, answer, start)


async def _read(session: aiohttp.ClientSession, url: str, body: dict[str, Any], answer: Answer,
                start: float | None = None) -> None:
    start = time.monotonic() if start is None else start
    try:
        async with session.post(url, json=body) as reply:
            if not body.get("stream"):
                _take(answer, reply.status, await reply.json(content_type=None))
                return
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    answer.first = answer.first or time.monotonic() - start
                    _take(answer, reply.status, json.loads(line[6:]))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        answer.error = f"{type(error).__name__}: {error}"


def _take(answer: Answer, status: int, told: Any) -> None:
    """What a server says; in a stream, the last one counts. Samples of one request are equal."""
    if status == 200 and isinstance(told, list):
        if any(one["output_ids"] != told[0]["output_ids"] for one in told):
            answer.error = f"samples differ: {[one['output_ids'] for one in told]}"
            return
        told = told[0]
    if status != 200 or not isinstance(told, dict) or "error" in told:
        answer.error = f"{status} {json.dumps(told)[:600]}"
        return
    meta = told["meta_info"]
    answer.tokens = told["output_ids"]
    answer.logprobs = [row[0] for row in meta.get("output_token_logprobs", ())]
    reason = meta.get("finish_reason") or {}
    answer.error = reason.get("message", "aborted") if reason.get("type") == "abort" else None


Leave = Callable[[int], float | None]
Ended = Callable[[Answer], None]  # is called with each request that has ended


async def _all(way: Way, wanted: Sequence[Ask], in_flight: int, leave: Leave, seconds: float,
               stream: bool, ended: Ended | None) -> list[Answer]:
    answers = [Answer() for _ in wanted]
    gate = asyncio.Semaphore(in_flight)
    connector = aiohttp.TCPConnector(limit=0)
    forever = aiohttp.ClientTimeout(total=None)

    async def one(number: int) -> None:
        answer, patience = answers[number], leave(number)
        async with gate:
            start = time.monotonic()
            body = wanted[number].body() | ({"stream": True} if stream else {})
            try:
                limit = seconds if patience is None else patience
                await asyncio.wait_for(way.send(session, body, answer), limit)
            except TimeoutError:
                answer.left, answer.hung = patience is not None, patience is None
            answer.at = time.monotonic()
            answer.seconds = answer.at - start
            if ended:
                ended(answer)

    async with aiohttp.ClientSession(connector=connector, timeout=forever,
                                     read_bufsize=1 << 20) as session:
        await asyncio.gather(*(one(number) for number in range(len(wanted))))
    return answers


def nobody(_: int) -> float | None:
    """Leaves."""
    return None


def every_second(number: int) -> float | None:
    """Leaves, at moments that cover all that a request goes through."""
    moments = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
    return moments[number // 2 % len(moments)] if number % 2 == 0 else None


def send(way: Way, wanted: Sequence[Ask], *, in_flight: int, leave: Leave = nobody,
         seconds: float = 60.0, stream: bool = False, ended: Ended | None = None) -> list[Answer]:
    """Answers in the order of what is wanted. seconds: a request that takes longer hangs."""
    return asyncio.run(_all(way, wanted, in_flight, leave, seconds, stream, ended))


def send_and_kill(way: Way, wanted: Sequence[Ask], kill: Callable[[], None], *, first: int = 10,
                  seconds: float = 60.0) -> tuple[list[Answer], float]:
    """Send them all at once, and call `kill` in another thread when the first ones are answered.

    Returns the answers, and how many seconds after the kill the last failure came; 0 without one.
    Raises AssertionError if one of the first has failed.
    """
    before: list[Answer] = []
    killed: list[Future[float]] = []

    def timed() -> float:
        kill()
        return time.monotonic()

    with ThreadPoolExecutor(1) as beside:
        def count(answer: Answer) -> None:
            before.append(answer)
            if len(before) == first:
                killed.append(beside.submit(timed))

        answers = send(way, wanted, in_flight=len(wanted), seconds=seconds, ended=count)
    assert all(answer.is_full for answer in before[:first]), before[:first]
    at = killed[0].result()
    return answers, max((one.at - at for one in answers if not one.is_full), default=0.0)
