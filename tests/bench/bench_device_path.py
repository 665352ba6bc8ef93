"""How much of the link's speed a hand-over keeps from a GPU to a GPU of the same host.

Two processes, prefill and decode, on one GPU, as `make test-gpu` has them. A hand-over's pages are
packed, carried by an engine, and unpacked. Beside it, in the same rounds, the least that its way
needs: for `cuda-ipc` and `nixl-gpu` one copy of the same bytes within the GPU, for the others one
copy to pinned host memory and one back. `deep`: eight hand-overs at once; `single`: one after the
other.

Then the parts of that time, of a few rounds more in which both processes note when they give work
to the device and when they see its end: packing, the copy and unpacking, each with the time that
the device took, and all else, which is control. Device times include what the other process's work
on the same GPU takes from it. Beside them, the three passes alone, in one process.

`--only products`: the speed of a matrix product that prefill's engine computes, alone and beside
hand-overs. For that, decode's pools are in host memory, except for `cuda-ipc`, which needs a GPU at
both sides: two processes take turns on the GPU.

    python -m tests.bench.bench_device_path [--engine NAME ...] [--sizes NAME ...] [--rounds N]
        [--only hand-overs|products] [--seconds N] [--ahead BYTES]
        [--device cuda|simulated|cpu]

ahead: bytes that are packed and in flight at one time, at most, instead of the defaults. seconds:
no measurement begins later. Prints medians, and ratios in one run. Exit status: 0; 1 if a byte is
wrong; 2 if there is no such device.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

import torch

from pdproto.engine.device_shared import DeviceSharedSource
from pdproto.engine.engines import ENGINES, open_sink, open_source
from pdproto.kernels.chunk import (
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    register,
    unpack_chunk,
)
from pdproto.node.handle import ENDED
from pdproto.pages import source_pages
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests import waiting
from tests.bench.watched import Told, WatchedDevice

ENTRIES: Final = 160  # of Llama-3-70B
PAGE: Final = (16, 8, 128)  # tokens, heads, bytes of a row: 16 KiB
SIZES: Final = {"2.6 MB": 1, "21 MB": 8, "84 MB": 32, "335 MB": 128, "1.3 GB": 512}
"""Pages of a hand-over; each has 160 entries of 16 KiB."""
USUAL: Final = ("2.6 MB", "21 MB", "84 MB")
LARGE: Final = ("84 MB", "335 MB", "1.3 GB", "21 MB")  # where the bytes stay on the GPU
BESIDE: Final = "21 MB"  # the hand-overs beside matrix products
DEPTH: Final = 8
WAYS: Final = {"single": 1, "deep": DEPTH}
STAGING_BYTES: Final = 4 << 30
LARGE_STAGING_BYTES: Final = 16 << 30
GOAL: Final = 0.85
SPLIT_ROUNDS: Final = 3
WAIT_S: Final = 60.0
until = partial(waiting.until, within_s=WAIT_S, look_s=0.000_05)
MATRIX: Final = 4096


@dataclass(frozen=True, slots=True)
class Setting:
    """engine: of the hand-overs. device: of the pools. of_decode: if that of decode's pools is
    another one. pages: of the largest hand-over. ahead: bytes in flight, or 0.
    """

    engine: str
    device: str
    pages: int
    ahead: int = 0
    of_decode: str = ""

    def pools(self, device: str) -> list[Any]:
        on = "cuda" if device == "cuda" else "cpu"
        shape = (DEPTH * self.pages, *PAGE)
        return [torch.zeros(shape, dtype=torch.uint8, device=on) for _ in range(ENTRIES)]

    @property
    def staging_bytes(self) -> int:
        return LARGE_STAGING_BYTES if ENGINES[self.engine].on_device else STAGING_BYTES


@dataclass(frozen=True, slots=True)
class Batch:
    """Hand-overs that begin together. rooms: one each. pages: of each, side by side. is_watched:
    whether the parts of their time are noted.
    """

    rooms: range
    pages: int
    endpoint: str
    is_watched: bool


def watched(device: str) -> WatchedDevice | None:
    """The device of pools there; None for pools in host memory."""
    if device == "cuda":
        from pdproto.pages.cuda import CudaDevice  # noqa: PLC0415 - it needs CUDA

        return WatchedDevice(CudaDevice("cuda:0"), lambda: torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
    if device == "simulated":
        from pdproto.pages.host_device import HostDevice  # noqa: PLC0415

        return WatchedDevice(HostDevice(), lambda: None)
    return None


def pages_of(batch: Batch, number: int) -> range:
    return range(number * batch.pages, (number + 1) * batch.pages)


def decode(pipe: Connection, setting: Setting) -> None:
    """The other process: receives batches until it gets None, and then tells whether every byte
    that it has is 7.
    """
    where = setting.of_decode or setting.device
    ours, device = setting.pools(where), watched(where)
    engine = open_sink(setting.engine, staging_bytes=setting.staging_bytes)
    node = DecodeNode("d", SinkPages(ours, engine, device=device))
    filled = 0
    while (batch := pipe.recv()) is not None:
        if device is not None:
            device.is_watching = batch.is_watched
        filled = max(filled, len(batch.rooms) * batch.pages)
        receivers = []
        for number, room in enumerate(batch.rooms):
            receivers.append(node.open(room, {"p": batch.endpoint}, pages=pages_of(batch, number)))
        until(lambda of=receivers: all(one.poll() in ENDED for one in of))  # type: ignore[misc]
        ended = time.perf_counter()
        failures = [one.failure for one in receivers if one.poll() is not KVPoll.SUCCESS]
        pipe.send((failures, ended, device.taken() if device is not None else []))
        for receiver in receivers:
            receiver.close()
        until(lambda of=receivers: all(one.released for one in of))  # type: ignore[misc]
    pipe.send(all(bool((pool[:filled] == 7).all()) for pool in ours))
    node.close()


class Pair:
    """Prefill here, and decode in a process of its own."""

    def __init__(self, setting: Setting) -> None:
        theirs = setting.pools(setting.device)
        for pool in theirs:
            pool.fill_(7)
        self.device: Final = watched(setting.device)
        ahead = setting.ahead
        if ahead:
            vars(source_pages)["STAGED_BYTES_MAX"] = ahead
        engine = (DeviceSharedSource(bytes_max=ahead) if ahead and setting.engine == "cuda-ipc"
                  else open_source(setting.engine))
        self._pages: Final = SourcePages(theirs, engine, device=self.device)
        self.node: Final = PrefillNode("p", self._pages)
        self._pipe, there = multiprocessing.Pipe()
        self._process: Final = multiprocessing.get_context("spawn").Process(
            target=decode, args=(there, setting))
        self._process.start()
        self._next = 1

    def hand_over(self, pages: int, count: int, *, is_watched: bool = False) -> Told:
        """From the first chunk to the last Success, as decode sees it."""
        batch = Batch(range(self._next, self._next + count), pages, self.node.endpoint, is_watched)
        self._next += count
        if self.device is not None:
            self.device.is_watching = is_watched
        senders = [self.node.open(room) for room in batch.rooms]
        self._pipe.send(batch)
        until(lambda: all(one.poll() is KVPoll.WAITING_FOR_INPUT for one in senders))
        began = time.perf_counter()
        for number, sender in enumerate(senders):
            sender.send(pages_of(batch, number))
        assert self._pipe.poll(WAIT_S), "decode does not answer"
        failures, ended, unpacks = self._pipe.recv()
        assert not failures, failures
        until(lambda: all(one.released for one in senders))
        return Told(began, ended, [] if self.device is None else self.device.taken(), unpacks)

    def close(self) -> bool:
        """End both. Returns whether decode has every byte."""
        self._pipe.send(None)
        is_right: bool = self._pipe.recv()
        self._process.join(WAIT_S)
        self.node.close()
        return is_right


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def link(engine: str, device: str, length: int) -> Callable[[], float]:
    """The least that a way needs for so many bytes: a call that takes it, in seconds."""
    on = torch.zeros(length, dtype=torch.uint8, device="cuda" if device == "cuda" else "cpu")
    other = torch.zeros_like(on) if ENGINES[engine].on_device else on
    host = torch.zeros(0 if ENGINES[engine].on_device else length, dtype=torch.uint8,
                       pin_memory=device == "cuda")

    def copy() -> float:
        wait(device)
        began = time.perf_counter()
        if ENGINES[engine].on_device:
            other.copy_(on)
        else:
            host.copy_(on, non_blocking=True)
            wait(device)
            on.copy_(host, non_blocking=True)
        wait(device)
        return time.perf_counter() - began

    return copy


def passes(pages: int) -> float:
    """Seconds to pack, copy and unpack the pages of a hand-over in this process, on its GPU."""
    shape = (pages, *PAGE)
    pools = [torch.zeros(shape, dtype=torch.uint8, device="cuda") for _ in range(ENTRIES)]
    layout, listed = register(pools), list(range(pages))
    plan, report = plan_for(layout, pages).only, new_report(layout)
    chunk, landed = (torch.zeros(plan.bytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    times = []
    for _ in range(7):
        wait("cuda")
        began = time.perf_counter()
        pack_chunk(layout, listed, chunk, digests=digests_in(plan, chunk))
        landed.copy_(chunk)
        unpack_chunk(layout, listed, landed, expected=digests_in(plan, landed), report=report)
        wait("cuda")
        times.append(time.perf_counter() - began)
    assert report.read().clean
    return median(times[2:])


def split(engine: str, name: str, way: str, pair: Pair) -> None:
    """Print the parts of the time of hand-overs, medians of a few rounds."""
    rounds = [pair.hand_over(SIZES[name], WAYS[way], is_watched=True) for _ in range(SPLIT_ROUNDS)]
    parts = [told.parts() for told in rounds if told.packs]
    if not parts:
        return
    whole = median(told.seconds for told in rounds) * 1000
    found = ", ".join(f"{part} {median(of[part] for of in parts if part in of) * 1000:.2f}"
                      for part in parts[0])
    say(f"{engine:8} {name:>7}  {way:6}  {whole:.2f} ms: {found}")


def slowed(setting: Setting) -> None:
    """The share of its speed that a matrix product loses while hand-overs go on."""
    pair, pages = Pair(setting), SIZES[BESIDE]
    pair.hand_over(pages, DEPTH)
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
        pair.hand_over(pages, DEPTH)
        moved += DEPTH * pages
    beside = took()
    say(f"{setting.engine:8} matrix products: {alone / count:.3f} ms alone, {beside / count:.3f} ms"
        f" beside hand-overs of {moved * bytes_of(1) / beside / 1e6:.1f} GB/s:"
        f" {beside / alone - 1:+.1%} (goal +3 %)")
    pair.close()


def bytes_of(pages: int) -> int:
    tokens, heads, row = PAGE
    return ENTRIES * pages * tokens * heads * row


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is a command


def speed(setting: Setting, pair: Pair, name: str, way: str, rounds: int) -> None:
    """Print the rate of hand-overs beside the least that their way needs."""
    pages, count = SIZES[name], WAYS[way]
    plain = link(setting.engine, setting.device, bytes_of(pages))
    times = []
    for turn in range(-2, rounds):  # The first make memory, pin it, and do not count.
        took = plain() * count, pair.hand_over(pages, count).seconds
        if turn >= 0:
            times.append(took)
    total = bytes_of(pages) * count
    ratios = sorted(base / ours for base, ours in times)
    base, ours = (total / median(part) / 1e9 for part in zip(*times, strict=True))
    ahead = f", {setting.ahead / 1e9:.1f} GB ahead" if setting.ahead else ""
    say(f"{setting.engine:8} {name:>7}  {way:6}  the least {base:7.2f} GB/s  hand-over "
        f"{ours:7.2f} GB/s  ratio {median(ratios):.2f} ({ratios[0]:.2f} to "
        f"{ratios[-1]:.2f}), goal {GOAL:.2f}{ahead}")


def measure(setting: Setting, sizes: Iterable[str], rounds: int, end: float) -> bool:
    """Measure an engine until the clock says `end`. Returns whether every byte is right."""
    pair = Pair(setting)
    for name in sizes:
        if setting.device == "cuda" and ENGINES[setting.engine].on_device:
            took = passes(SIZES[name])
            say(f"{setting.engine:8} {name:>7}  pack, copy and unpack alone: {took * 1000:.2f} ms, "
                f"{bytes_of(SIZES[name]) / took / 1e9:.1f} GB/s")
        for way in WAYS:
            if time.monotonic() < end:
                speed(setting, pair, name, way, rounds)
                split(setting.engine, name, way, pair)
    is_right = pair.close()
    say(f"{setting.engine:8} every byte is right: {is_right}")
    return is_right


def main(arguments: list[str]) -> int:
    """Measure each engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", nargs="+", default=["cuda-ipc", "shm", "tcp"])
    parser.add_argument("--sizes", nargs="+", choices=SIZES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("hand-overs", "products"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "simulated", "cpu"), default="cuda")
    chosen = parser.parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        say("no CUDA device here")
        return 2
    end, is_right = time.monotonic() + chosen.seconds, True
    for engine in chosen.engine if chosen.only != "products" else ():
        sizes = chosen.sizes or (LARGE if ENGINES[engine].on_device else USUAL)
        setting = Setting(engine, chosen.device, max(SIZES[name] for name in sizes), chosen.ahead)
        is_right &= measure(setting, sizes, chosen.rounds, end)
    for engine in chosen.engine if chosen.only != "hand-overs" and chosen.device == "cuda" else ():
        if time.monotonic() < end:
            slowed(Setting(engine, "cuda", SIZES[BESIDE],
                           of_decode="" if ENGINES[engine].on_device else "cpu"))
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
