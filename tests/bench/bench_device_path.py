"""How much of the link's speed a hand-over keeps from a GPU to a GPU of the same host.

Two processes, prefill and decode, on one GPU, as `make test-gpu` has them. A hand-over's pages are
packed, carried by an engine, and unpacked. Beside it, in the same rounds, the least that its way
needs: for `cuda-ipc` one copy of the same bytes within the GPU, for the others one copy to pinned
host memory and one back. `deep`: eight hand-overs at once; `single`: one after the other.

Then the speed of a matrix product that prefill's engine computes, alone and beside hand-overs. For
that, decode's pools are in host memory: two processes would take turns on the GPU.

    python -m tests.bench.bench_device_path [--engine NAME ...] [--rounds N] [--device cuda|cpu]

Prints medians, and ratios in one run. Exit status: 0; 2 if there is no such device.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

import torch

from pdproto.engine.engines import open_sink, open_source
from pdproto.node.handle import ENDED
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode

ENTRIES: Final = 160  # of Llama-3-70B
PAGE: Final = (16, 8, 128)  # tokens, heads, bytes of a row: 16 KiB
SIZES: Final = {"2.6 MB": 1, "21 MB": 8, "84 MB": 32}
"""Pages of a hand-over; each has 160 entries of 16 KiB."""
DEPTH: Final = 8
STAGING_BYTES: Final = 4 << 30
WAIT_S: Final = 60.0
LOOK_S: Final = 0.000_2
GOAL: Final = 0.85
MATRIX: Final = 4096


@dataclass(frozen=True, slots=True)
class Batch:
    """Hand-overs that begin together. rooms: one each. pages: of each, side by side."""

    rooms: range
    pages: int
    endpoint: str


def pools(device: str) -> list[Any]:
    shape = (DEPTH * max(SIZES.values()), *PAGE)
    return [torch.zeros(shape, dtype=torch.uint8, device=device) for _ in range(ENTRIES)]


def pages_of(batch: Batch, number: int) -> range:
    return range(number * batch.pages, (number + 1) * batch.pages)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(LOOK_S)


def decode(pipe: Connection, engine: str, device: str) -> None:
    """The other process: receives batches until it gets None, and then tells whether every byte
    that it has is 7.
    """
    ours = pools(device)
    node = DecodeNode("d", SinkPages(ours, open_sink(engine, staging_bytes=STAGING_BYTES)))
    while (batch := pipe.recv()) is not None:
        receivers = []
        for number, room in enumerate(batch.rooms):
            receivers.append(node.open(room, {"p": batch.endpoint}, pages=pages_of(batch, number)))
        until(lambda of=receivers: all(one.poll() in ENDED for one in of))  # type: ignore[misc]
        pipe.send([one.failure for one in receivers if one.poll() is not KVPoll.SUCCESS])
        for receiver in receivers:
            receiver.close()
        until(lambda of=receivers: all(one.released for one in of))  # type: ignore[misc]
    pipe.send(all(bool((pool == 7).all()) for pool in ours))
    node.close()


class Pair:
    """Prefill here, and decode in a process of its own."""

    def __init__(self, engine: str, device: str, of_decode: str = "") -> None:
        theirs = pools(device)
        for pool in theirs:
            pool.fill_(7)
        self.node: Final = PrefillNode("p", SourcePages(theirs, open_source(engine)))
        self._pipe, there = multiprocessing.Pipe()
        self._process: Final = multiprocessing.get_context("spawn").Process(
            target=decode, args=(there, engine, of_decode or device))
        self._process.start()
        self._next = 1

    def hand_over(self, pages: int, count: int) -> float:
        """Returns the seconds from the first chunk to the last Success."""
        batch = Batch(range(self._next, self._next + count), pages, self.node.endpoint)
        self._next += count
        senders = [self.node.open(room) for room in batch.rooms]
        self._pipe.send(batch)
        until(lambda: all(one.poll() is KVPoll.WAITING_FOR_INPUT for one in senders))
        began = time.perf_counter()
        for number, sender in enumerate(senders):
            sender.send(pages_of(batch, number))
        assert self._pipe.poll(WAIT_S), "decode does not answer"
        failures = self._pipe.recv()
        took = time.perf_counter() - began
        assert not failures, failures
        until(lambda: all(one.released for one in senders))
        return took

    def close(self) -> bool:
        """End both. Returns whether decode has every byte."""
        self._pipe.send(None)
        is_right: bool = self._pipe.recv()
        self._process.join(WAIT_S)
        self.node.close()
        return is_right


def link(engine: str, device: str, length: int) -> Callable[[], float]:
    """The least that a way needs for so many bytes: a call that takes it, in seconds."""
    on = torch.zeros(length, dtype=torch.uint8, device=device)
    other = torch.zeros_like(on)
    host = torch.zeros(length, dtype=torch.uint8, pin_memory=device == "cuda")

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def copy() -> float:
        wait()
        began = time.perf_counter()
        if engine == "cuda-ipc":
            other.copy_(on)
        else:
            host.copy_(on, non_blocking=True)
            wait()
            on.copy_(host, non_blocking=True)
        wait()
        return time.perf_counter() - began

    return copy


def slowed(engine: str, pair: Pair) -> None:
    """The share of its speed that a matrix product loses while hand-overs go on."""
    left, right = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16)
                   for _ in range(2))
    marks: list[Any] = [torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                        for _ in range(2)]

    def products(count: int) -> None:
        marks[0].record()
        for _ in range(count):
            left @ right
        marks[1].record()

    def took() -> float:
        marks[1].synchronize()
        return float(marks[0].elapsed_time(marks[1]))

    products(200)
    took()
    count = 400
    products(count)
    alone = took()
    # Hand-overs go on for as long as the products do.
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        products(count)
    moved = 0
    while not marks[1].query():
        pair.hand_over(SIZES["21 MB"], DEPTH)
        moved += DEPTH * SIZES["21 MB"]
    beside = took()
    say(f"{engine:8} matrix products: {alone / count:.3f} ms alone, {beside / count:.3f} ms beside "
        f"hand-overs of {moved * bytes_of(1) / beside / 1e6:.1f} GB/s: {beside / alone - 1:+.1%} "
        f"(goal +3 %)")


def bytes_of(pages: int) -> int:
    tokens, heads, row = PAGE
    return ENTRIES * pages * tokens * heads * row


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is a command


def measure(engine: str, device: str, rounds: int) -> None:
    pair = Pair(engine, device)
    for name, pages in SIZES.items():
        plain = link(engine, device, bytes_of(pages))
        for way, count in (("single", 1), ("deep", DEPTH)):
            times = []
            for turn in range(-2, rounds):  # The first make memory, pin it, and do not count.
                took = plain() * count, pair.hand_over(pages, count)
                if turn >= 0:
                    times.append(took)
            total = bytes_of(pages) * count
            ratios = sorted(base / ours for base, ours in times)
            base, ours = (total / median(part) / 1e9 for part in zip(*times, strict=True))
            say(f"{engine:8} {name:>7}  {way:6}  the least {base:7.2f} GB/s  hand-over "
                f"{ours:7.2f} GB/s  ratio {median(ratios):.2f} ({ratios[0]:.2f} to "
                f"{ratios[-1]:.2f}), goal {GOAL:.2f}")
    say(f"{engine:8} every byte is right: {pair.close()}")
    if device == "cuda" and engine != "cuda-ipc":
        pair = Pair(engine, device, of_decode="cpu")
        pair.hand_over(SIZES["21 MB"], DEPTH)
        slowed(engine, pair)
        pair.close()


def main(arguments: list[str]) -> int:
    """Measure each engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", nargs="+", default=["cuda-ipc", "shm", "tcp"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    chosen = parser.parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        say("no CUDA device here")
        return 2
    for engine in chosen.engine:
        measure(engine, chosen.device, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
