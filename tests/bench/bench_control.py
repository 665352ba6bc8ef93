"""The control path alone: hand-overs a second between two processes, beside SGLang's managers.

    python -m tests.bench.bench_control [RUNS [PEER...]]

A prefill and a decode node, each in a process pinned to a core of its own, hand lives over through
loopback sockets, and copy nothing. A third process, as a router does, names each room to both, and
the next when one is done; schedulers poll every 200 us. A line is printed for 128 hand-overs in
flight and for 1: the median and best of RUNS runs (default: 3), with the processor's time of both
nodes for each hand-over, which other load disturbs less.

PEER: a command that does the same with SGLang's own managers, and takes `--rooms N --inflight N
--json FILE`; it appends a line {"handoffs_per_s": ..., "total_ms": {"p50": ..., "p99": ...}}. It is
run in turn with ours, and the ratios are those of the medians.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from pdproto.node.data_path import Fenced, Idle, Posted, Verified, WriteOutcome
from pdproto.node.link import Link
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode

RUNS: Final = 3
POLL_S: Final = 200e-6
WARM: Final = 200
CASES: Final = ((128, 6_000), (1, 1_000))  # in flight, rooms
END: Final = -1
PLAIN: Final = Link()


@dataclass(frozen=True, slots=True)
class Run:
    """handoffs_per_s: over the whole run. latency_ms: from the decode node's `open` to the poll
    that says SUCCESS. busy_us: of both processes, for each hand-over; None where it is not known.
    """

    handoffs_per_s: float
    p50_ms: float
    p99_ms: float
    busy_us: float | None = None


class NoBytes:
    """Both sides of a data path: everything is done as soon as it is asked for."""

    has_room = True

    def __init__(self) -> None:
        self._done: deque[Any] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def _end(self, report: object) -> None:
        self._done.append(report)
        self._wake()

    def reports(self) -> Iterable[Any]:
        while self._done:
            yield self._done.popleft()

    outcomes = reports

    def post(self, number: int, *_: object) -> Posted:
        self._end((number, WriteOutcome.LANDED, ""))
        return Posted(0, 0)

    def lease(self, _: Life, pages: Iterable[str]) -> dict[str, bytes]:
        return dict.fromkeys(pages, b"where the pages go")

    def verify(self, life: Life, source: str, *_: object) -> None:
        self._end(Verified(life, source, clean=True))

    def settle(self, life: Life) -> None:
        self._end(Idle(life))

    def fence(self, life: Life, source: str) -> None:
        self._end(Fenced(life, source))

    def release(self, _: Life) -> None:
        pass

    def close(self) -> None:
        pass


def prefill(router: Connection, core: int, link: Link) -> None:
    """A prefill rank's scheduler: sends a page as soon as somebody wants it."""
    os.sched_setaffinity(0, {core})
    node = PrefillNode("prefill", NoBytes(), link=link)
    router.send(node.endpoint)
    waiting: list[Sender] = []
    sent: list[Sender] = []
    while True:
        for room in _told(router, idle=not waiting and not sent):
            if room == END:
                router.send(time.process_time())
                continue
            waiting.append(node.open(room))
        ready = [sender for sender in waiting if sender.poll() is KVPoll.WAITING_FOR_INPUT]
        for sender in ready:
            sender.send((sender.room % 100,), metadata=b"a token, and what belongs to it")
            waiting.remove(sender)
        sent = [sender for sender in sent if sender.poll() is not KVPoll.SUCCESS] + ready
        time.sleep(POLL_S)


def decode(router: Connection, core: int, source: str, link: Link) -> None:
    """A decode rank's scheduler: takes every room that it is told of."""
    os.sched_setaffinity(0, {core})
    node = DecodeNode("decode", NoBytes(), link=link)
    sources = {"prefill": source}
    waiting: dict[int, tuple[Any, float]] = {}
    took: list[float] = []
    router.send("ready")
    while True:
        for room in _told(router, idle=not waiting):
            if room == END:
                router.send((time.process_time(), took))
                took = []
                continue
            began = time.perf_counter()
            receiver = node.open(room, sources, pages=(room,), slot=room)
            waiting[room] = receiver, began
        for room, (receiver, began) in list(waiting.items()):
            if receiver.poll() is KVPoll.SUCCESS:
                took.append(time.perf_counter() - began)
                receiver.close()
                del waiting[room]
                router.send(room)
        time.sleep(POLL_S)


def _told(router: Connection, *, idle: bool) -> Iterable[int]:
    """The rooms that the router has named since the last time."""
    while router.poll(None if idle else 0):
        idle = False
        rooms = router.recv()
        if rooms is None:
            os._exit(0)
        yield from rooms


def ours(rooms: int, in_flight: int, link: Link = PLAIN) -> Run:
    """One run of both nodes, which communicate like this."""
    context = get_context("spawn")
    cores = sorted(os.sched_getaffinity(0))
    (to_prefill, theirs), (to_decode, its) = context.Pipe(), context.Pipe()
    processes = [context.Process(target=prefill, args=(theirs, cores[0], link), daemon=True)]
    processes[0].start()
    endpoint = to_prefill.recv()
    processes.append(context.Process(
        target=decode, args=(its, cores[-1], endpoint, link), daemon=True))
    processes[1].start()
    to_decode.recv()
    _route(range(WARM), in_flight, to_prefill, to_decode)
    warm = _ended(to_prefill, to_decode)
    began = time.perf_counter()
    _route(range(WARM, WARM + rooms), in_flight, to_prefill, to_decode)
    seconds = time.perf_counter() - began
    busy, took = _ended(to_prefill, to_decode)
    for connection in (to_prefill, to_decode):
        connection.send(None)
    for process in processes:
        process.join()
    cuts = quantiles(took, n=100)
    return Run(rooms / seconds, cuts[49] * 1e3, cuts[98] * 1e3, (busy - warm[0]) / rooms * 1e6)


def _route(
    rooms: Sequence[int], in_flight: int, to_prefill: Connection, to_decode: Connection
) -> None:
    """Name the rooms to both, so many at a time, and wait until all are done."""
    left, flying, done = deque(rooms), 0, 0
    while done < len(rooms):
        named = [left.popleft() for _ in range(min(len(left), in_flight - flying))]
        if named:
            to_prefill.send(named)
            to_decode.send(named)
            flying += len(named)
        to_decode.recv()
        done, flying = done + 1, flying - 1


def _ended(to_prefill: Connection, to_decode: Connection) -> tuple[float, list[float]]:
    """The processor's time of both so far, and how long each hand-over took."""
    to_prefill.send([END])
    to_decode.send([END])
    busy, took = to_decode.recv()
    return busy + to_prefill.recv(), took


def peer(command: Sequence[str], rooms: int, in_flight: int) -> Run:
    """One run of the peer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        flags = ["--rooms", str(rooms), "--inflight", str(in_flight), "--json", str(path)]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
        if not path.exists():
            sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2_000:]}")
        result = json.loads(path.read_text().splitlines()[-1])
    return Run(result["handoffs_per_s"], result["total_ms"]["p50"], result["total_ms"]["p99"])


def line(who: str, in_flight: int, runs: Sequence[Run]) -> str:
    """The medians, and the best rate."""
    rate, best = median(r.handoffs_per_s for r in runs), max(r.handoffs_per_s for r in runs)
    p50, p99 = median(r.p50_ms for r in runs), median(r.p99_ms for r in runs)
    known = [r.busy_us for r in runs if r.busy_us is not None]
    busy = f"{median(known):7.0f} us" if known else "         -"
    return (f"{who:8}  {in_flight:9}  {rate:10,.0f}/s  {best:10,.0f}/s  {p50:8.3f} ms  "
            f"{p99:8.3f} ms  {busy}")


def main(arguments: list[str]) -> int:
    """Exit status: 0, or 2 where two processes have no core each."""
    if len(os.sched_getaffinity(0)) < 2:
        print("two cores are wanted, one for each process")  # noqa: T201
        return 2
    runs, command = int(arguments[0]) if arguments else RUNS, arguments[1:]
    gc.disable()
    print("who       in flight      median           best   p50 latency  p99 latency  busy")  # noqa: T201
    for in_flight, rooms in CASES:
        mine: list[Run] = []
        theirs: list[Run] = []
        for _ in range(runs):
            mine.append(ours(rooms, in_flight))
            if command:
                theirs.append(peer(command, rooms, in_flight))
        print(line("pdproto", in_flight, mine))  # noqa: T201
        if theirs:
            print(line("peer", in_flight, theirs))  # noqa: T201
            rates = [median(r.handoffs_per_s for r in of) for of in (mine, theirs)]
            waits = [median(r.p50_ms for r in of) for of in (mine, theirs)]
            print(f"pdproto / peer: {rates[0] / rates[1]:.2f} of the rate, "  # noqa: T201
                  f"{waits[0] / waits[1]:.2f} of the latency")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
