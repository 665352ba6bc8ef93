"""What the cells of several prefill and decode servers behind one router assert; see checks.py."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from threading import Condition, Event
from typing import Final, Self

from examples.sglang_servers.serving import SglangServer
from tests.servers.census import by_rank
from tests.servers.checks import equality_short
from tests.servers.load import Answer, Ask, asks, send, send_and_kill
from tests.servers.stage import Layout, Pair, Stage
from tests.servers.suite import Finding, UntestedError

ASKED: Final = asks(48)  # again and again
AT_ONCE: Final = 12
DYING: Final = asks(50, seed=11)
FIRST: Final = 4  # of these are answered before the kill
OK: Final = "200 OK"
PATIENCE_S: Final = 60.0
BETWEEN: Final = 24  # requests that a fleet answers between two kills


def rolling_restart(stage: Stage, layout: Layout) -> Finding:
    """Each server is killed, and started again on the same ports, one after the other, while
    requests come. The router sends those again that ran there, so none fails.
    """
    pair = stage.pair(layout)
    reference = stage.reference(layout.model, ASKED)
    kills = list[float]()
    with Load(pair) as load:
        for old in pair.servers:
            load.wait_for(BETWEEN)
            kills.append(time.monotonic())
            old.signal_all(signal.SIGKILL)
            new = stage.restart(old)
            load.wait_for(BETWEEN, lambda new=new: _answered(new, OK) > 0)  # type: ignore[misc]
            if not _answered(new):
                raise UntestedError(f"the router sends nothing to {new.name}, which has come back")
            assert _answered(new, OK), f"{new.name} has come back, and serves nothing: {new.tail()}"
    wanted, answers = [ask for ask, _ in load.ended], [answer for _, answer in load.ended]
    found = reference.require_right(wanted, answers, pair.told)
    hit = sum(any(one.at - one.seconds < kill < one.at for kill in kills) for one in answers)
    for server in pair.servers:
        assert server.is_alive(), f"{server.name} has died: {server.tail()}"
    assert not (left := pair.left()), f"afterwards are held: {left}"
    stage.end()  # its census is that of other processes
    return Finding(len(wanted), found.equal, f"{hit} under way at the {len(kills)} kills")


def kill_one_decode(stage: Stage, layout: Layout) -> Finding:
    """The router sends what that one had again, to both sides: SGLang keeps no room (decision 105),
    so prefill computes it again. Both are short of memory, so many wait for their hand-over.
    """
    pair = stage.pair(layout)
    reference, victim = stage.reference(layout.model, DYING), pair.decode
    before = _answered_by_prefills(pair)
    answers, _ = send_and_kill(pair.through, DYING, lambda: victim.signal_all(signal.SIGKILL),
                               first=FIRST)
    found = reference.require_right(DYING, answers, pair.told)
    again = _answered_by_prefills(pair) - before - len(DYING)
    if again < 1:
        raise UntestedError("no request was under way at the decode server that was killed")
    assert again <= len(DYING) - FIRST, f"{again} computed again, and so many were not under way"
    stage.restart(victim)
    assert not (left := pair.left()), f"afterwards are held: {left}"
    stage.end()  # its census is that of other processes
    return Finding(len(DYING), found.equal, f"{again} computed again")


def _answered_by_prefills(pair: Pair) -> int:
    return sum(_answered(one) for one in pair.servers if one.bootstrap is not None)


class Load:
    """A context in which `AT_ONCE` clients ask without a pause. ended: their requests so far."""

    def __init__(self, pair: Pair) -> None:
        self.ended: Final[list[tuple[Ask, Answer]]] = []
        self._way: Final = pair.through
        self._stop: Final = Event()
        self._news: Final = Condition()
        self._clients: Final = ThreadPoolExecutor(AT_ONCE)

    def __enter__(self) -> Self:
        for first in range(AT_ONCE):
            self._clients.submit(self._ask, islice(cycle(ASKED), first, None, AT_ONCE))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._clients.shutdown()

    def _ask(self, wanted: Iterator[Ask]) -> None:
        while not self._stop.is_set():
            ask = next(wanted)
            answer = send(self._way, [ask], in_flight=1)[0]
            with self._news:
                self.ended.append((ask, answer))
                self._news.notify()

    def wait_for(self, count: int, also: Callable[[], bool] = lambda: True) -> None:
        """Until so many more have ended, and this holds, too; or for PATIENCE_S."""
        with self._news:
            end = len(self.ended) + count
            self._news.wait_for(lambda: len(self.ended) >= end and also(), PATIENCE_S)


def _answered(server: SglangServer, status: str = "") -> int:
    """How many requests, or those that it has answered so."""
    lines = server.log.read_text(errors="replace").splitlines()
    return sum("POST /generate" in line and line.endswith(status) for line in lines)


def all_ranks(stage: Stage, layout: Layout) -> Finding:
    """The router names no rank: each server chooses one, and each rank has hand-overs."""
    pair = stage.pair(layout)
    before = {server.name: _succeeded(server) for server in pair.servers}
    found = equality_short(stage, layout)
    done = {server.name: [after - there for after, there in zip(
        _succeeded(server), before[server.name], strict=True)] for server in pair.servers}
    idle = [name for name, ranks in done.items() if not all(ranks)]
    if idle:
        raise UntestedError(f"some rank of {idle} has had no hand-over: {done}")
    return replace(found, note=f"{found.note}, hand-overs by rank: "
                               f"{'; '.join(str(ranks) for ranks in done.values())}")


def _succeeded(server: SglangServer) -> list[float]:
    """Hand-overs of each rank, from its operator's port."""
    return by_rank(server, "handoffs_succeeded_total")
