"""The host's time for a chunk on a device: plan, arguments and enqueueing, without the launch.

A device that does nothing takes the place of a GPU: its stream does the work at once, and begins no
kernel and no copy. So the time is that of our own code, and a GPU's driver adds its calls. Beside
it, the same chunk without what the data path keeps from one to the next: views, checks and
arguments are made each time, as every call of `pack_chunk` makes them.

With --device cuda, the same calls on a GPU as well, with its launches and the calls of its driver.

    python -m tests.bench.bench_device_calls [ROUNDS] [--device cuda]

Prints medians of processor time, and the ratios in one run. Exit status: 0 if the goals are met, 1
if not, 2 if there is no such device.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from time import thread_time
from typing import Any, Final
from unittest import mock

import numpy as np
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined

from pdproto.kernels import device
from pdproto.kernels.arguments import Launch, Numbers
from pdproto.kernels.chunk import (
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    register,
    unpack_chunk,
)
from pdproto.kernels.prepared import prepare_pack
from pdproto.pages.device import Device
from pdproto.pages.device_copies import DeviceCopies
from pdproto.pages.host_device import HostDevice, HostStream
from pdproto.pages.tensors import host_tensor

ENTRIES: Final = 160  # of Llama-3-70B
SHAPE: Final = (64, 16, 1, 256)
PAGES: Final = list(range(0, 48, 3))  # of a chunk
KEY: Final = 7
ROUNDS: Final = 30
CALLS: Final = 40  # of a round
GOAL_US: Final = 25.0
AHEAD: Final = 8  # chunks that are under way at one time


def no_launch(*_: Any, **__: Any) -> None:
    """In the place of a launch. A mock takes longer."""


class Over:
    """An event that has happened."""

    def query(self) -> bool:
        return True


class IdleStream(HostStream):
    """Does its work at once, and copies nothing."""

    def run(self, work: Callable[[Launch], object]) -> None:
        work(Launch())

    def copy(self, target: Any, source: Any) -> None:
        pass

    def wait(self, event: Any) -> None:
        pass

    def record(self) -> Any:
        return Over()


class IdleDevice(HostDevice):
    def stream(self) -> HostStream:
        return IdleStream(self)


class Anew:
    """A chunk by the public calls, as the data path made them before it kept what it needs."""

    def __init__(self, pools: list[Any], stream: HostStream) -> None:
        self.layout: Final = replace(register(pools), device="interpreter")
        plan = plan_for(self.layout, len(PAGES)).only
        self.memory, self.host = (torch.zeros(plan.bytes, dtype=torch.uint8) for _ in range(2))
        self.report: Final = new_report(self.layout)
        self.stream: Final = stream

    def pack(self) -> None:
        plan = plan_for(self.layout, len(PAGES)).only
        chunk = self.memory[:plan.bytes]

        def work(launch: Launch) -> None:
            chunk[plan.payload_bytes:plan.digest_offset] = 0
            pack_chunk(self.layout, PAGES, chunk, digests=digests_in(plan, chunk), key=KEY,
                       launch=launch)

        self.stream.wait(Over())
        self.stream.run(work)
        self.stream.copy(self.host[:plan.bytes], chunk)
        self.stream.record()

    def unpack(self, landed: Any) -> None:
        plan = plan_for(self.layout, len(PAGES)).only
        chunk = self.memory[:plan.bytes]
        self.stream.copy(chunk, host_tensor(landed.ctypes.data, plan.bytes, landed))

        def work(launch: Launch) -> None:
            unpack_chunk(self.layout, PAGES, chunk, expected=digests_in(plan, chunk), key=KEY,
                         report=self.report, launch=launch)
            self.report.fetch()

        self.stream.run(work)
        self.stream.record()
        self.report.read()


def in_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median microseconds of each call."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = thread_time()
            for _ in range(CALLS):
                call()
            took[name].append((thread_time() - began) / CALLS * 1e6)
    return {name: median(of) for name, of in took.items()}


Halves = tuple[Callable[[], Any], Callable[[Any], object]]
"""The calls that begin the work of a chunk, and those that follow when the device has done it."""


def path_calls(on: Device, placed: torch.device, *, carries: bool) -> dict[str, Halves]:
    """The calls of a data path for a chunk, by their name. placed: where torch has the pools.
    carries: the device carries the bytes, and the host's memory has none of them.
    """
    pools = [torch.zeros(SHAPE, dtype=torch.uint8, device=placed) for _ in range(ENTRIES)]
    layout = register(pools)
    copies, passed = DeviceCopies(on, layout.device, carries=carries), on.passed()
    copies.begin_thread()
    length = plan_for(layout, len(PAGES)).only.bytes
    landed: Any = on.memory(length) if carries else on.host_memory(length).numpy()

    def pack() -> Any:
        return copies.pack(layout, PAGES, KEY, after=passed)

    def kept(staged: Any) -> None:
        assert staged.done()
        staged.keep()

    def clean(unpacked: Any) -> None:
        assert unpacked.ready()
        assert unpacked.clean()

    first = pack()
    spin_until(first.done)
    calls: dict[str, Halves] = {
        "pack": (pack, kept),
        "unpack": (lambda: copies.unpack(layout, landed, PAGES, KEY, passed), clean),
    }
    if carries:
        spin_until(first.carried.copy_to(landed))
        calls["carry"] = (lambda: first.carried.copy_to(landed), spin_until)
    else:
        landed[:] = first.views[0]
    way = "the device carries" if carries else "through pinned memory"
    return {f"{name}, {way}": of for name, of in calls.items()}


def spin_until(is_over: Callable[[], bool]) -> None:
    while not is_over():
        pass


def kernel_calls(placed: torch.device) -> dict[str, Halves]:
    """The pack of a chunk by a call of the kernels, and by a prepared one."""
    pools = [torch.zeros(SHAPE, dtype=torch.uint8, device=placed) for _ in range(ENTRIES)]
    plain = register(pools)
    layout = plain if placed.type == "cuda" else replace(plain, device="interpreter")
    plan = plan_for(layout, len(PAGES)).only
    chunk = torch.zeros(plan.bytes, dtype=torch.uint8, device=placed)
    sums = digests_in(plan, chunk)
    numbers = Numbers(
        torch.zeros(len(PAGES), dtype=torch.int64, pin_memory=placed.type == "cuda"),
        torch.zeros(len(PAGES), dtype=torch.int64, device=placed))
    prepared = prepare_pack(layout, chunk, numbers, digests=sums)

    def again() -> None:
        prepared.tell(PAGES)
        prepared.enqueue(KEY)

    def nothing(_: Any) -> None:
        pass

    return {
        "pack_chunk": (partial(pack_chunk, layout, PAGES, chunk, digests=sums, key=KEY), nothing),
        "pack_chunk, prepared": (again, nothing),
    }


def halves(calls: dict[str, Halves], wait: Callable[[], object], rounds: int) -> dict[str, float]:
    """The median microseconds of both halves of each. wait: for the device; it is not counted."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, (begin, end) in calls.items():
            began = thread_time()
            made = [begin() for _ in range(AHEAD)]
            spent = thread_time() - began
            wait()
            began = thread_time()
            for one in made:
                end(one)
            took[name].append((spent + thread_time() - began) / AHEAD * 1e6)
    return {name: median(of[1:]) for name, of in took.items()}


def every_half(
    on: Device, placed: torch.device, wait: Callable[[], object], rounds: int
) -> dict[str, float]:
    """`halves` of each way of a data path, on the stream that its thread would have, and of calls.
    """
    took: dict[str, float] = {}
    for carries in (True, False):
        took |= halves(path_calls(on, placed, carries=carries), wait, rounds)
    return took | halves(kernel_calls(placed), wait, rounds)


def on_a_gpu(rounds: int, without: dict[str, float]) -> bool:
    """Print the times on a GPU beside those without its launches. Returns whether all are right."""
    from pdproto.pages.cuda import CudaDevice  # noqa: PLC0415 - it needs CUDA

    placed = torch.device("cuda:0")
    took = every_half(CudaDevice(str(placed)), placed, torch.cuda.synchronize, rounds)
    for name, told in took.items():
        print(f"{name}, on {torch.cuda.get_device_name()}: {told:.1f} us (goal: {GOAL_US:g}); "  # noqa: T201 - this is a command
              f"without launches and calls of the driver {without[name]:.1f} us")
    return max(took.values()) <= GOAL_US


def stubbed(rounds: int) -> tuple[bool, dict[str, float]]:
    """Print the times of our own code. Returns whether they meet the goals, and those of `halves`.
    """
    idle = IdleDevice(kernels="interpreter")
    pools = [torch.zeros(SHAPE, dtype=torch.uint8) for _ in range(ENTRIES)]
    layout, copies, anew = register(pools), DeviceCopies(idle, "cpu"), Anew(pools, idle.stream())
    landed = np.zeros(plan_for(layout, len(PAGES)).only.bytes, np.uint8)
    took = in_turns({
        "pack": lambda: copies.pack(layout, PAGES, KEY, after=Over()).keep(),
        "pack anew": anew.pack,
        "unpack": lambda: copies.unpack(layout, landed, PAGES, KEY).clean(),
        "unpack anew": lambda: anew.unpack(landed),
    }, rounds)
    for name in ("pack", "unpack"):
        told, before = took[name], took[f"{name} anew"]
        print(f"{name} {len(PAGES)} pages of {ENTRIES} entries: {told:.1f} us "  # noqa: T201 - this is a command
              f"(goal: {GOAL_US:g}); made anew: {before:.1f} us, {before / told:.2f} times as long")
    without = every_half(idle, torch.device("cpu"), lambda: None, rounds)
    return max(took["pack"], took["unpack"]) <= GOAL_US, without


def main(arguments: list[str]) -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("--device", choices=("none", "cuda"), default="none")
    chosen = parser.parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    with mock.patch.object(device, "run", no_launch):
        is_met, without = stubbed(chosen.rounds)
    if chosen.device == "cuda":
        is_met &= on_a_gpu(chosen.rounds, without)
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
