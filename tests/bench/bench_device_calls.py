"""The host's time for a chunk on a device: plan, arguments and enqueueing, without the launch.

A device that does nothing takes the place of a GPU: its stream does the work at once, and begins no
kernel and no copy. So the time is that of our own code, and a GPU's driver adds its calls. Beside
it, the same chunk without what the data path keeps from one to the next: views, checks and
arguments are made each time, as every call of `pack_chunk` makes them.

    python -m tests.bench.bench_device_calls [ROUNDS]

Prints medians of processor time, and the ratios in one run. Exit status: 0 if the goals are met.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import thread_time
from typing import Any, Final

import numpy as np

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined

import torch

from pdproto.kernels import device
from pdproto.kernels.arguments import Launch
from pdproto.kernels.chunk import (
    Request,
    digests_in,
    new_report,
    pack_chunk,
    pack_requests,
    plan_for,
    register,
    unpack_chunk,
)
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
REQUESTS: Final = ((2, 4), (8, 4), (32, 1))  # of a launch, and pages of each


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


def requests_calls(pools: list[Any], copies: DeviceCopies, many: int, pages: int) -> dict[
    str, Callable[[], object]
]:
    """The pack of many requests: in one launch, by a prepared launch each, and by a call each."""
    plain = register(pools)
    layout, plan = replace(plain, device="interpreter"), plan_for(plain, pages).only
    lists = [[(first * pages + page) % SHAPE[0] for page in range(pages)] for first in range(many)]
    memory = torch.zeros((many, -(-plan.bytes // 128) * 128), dtype=torch.uint8)
    chunks = [row[:plan.bytes] for row in memory]
    sums = [digests_in(plan, chunk) for chunk in chunks]

    def together() -> None:
        pack_requests(layout, [Request(of, [chunk], [told], KEY)
                               for of, chunk, told in zip(lists, chunks, sums, strict=True)])

    def prepared() -> None:
        for staged in [copies.pack(plain, of, KEY, after=Over()) for of in lists]:
            staged.keep()

    def each() -> None:
        for of, chunk, told in zip(lists, chunks, sums, strict=True):
            pack_chunk(layout, of, chunk, digests=told, key=KEY)

    of = f"{many} requests of {pages} pages"
    return {f"{of}, one launch": together, f"{of}, a prepared launch each": prepared,
            f"{of}, a call each": each}


def main(arguments: list[str]) -> int:
    """Print the medians."""
    vars(device)["run"] = lambda *_, **__: None
    idle = IdleDevice(kernels="interpreter")
    pools = [torch.zeros(SHAPE, dtype=torch.uint8) for _ in range(ENTRIES)]
    layout, copies, anew = register(pools), DeviceCopies(idle, "cpu"), Anew(pools, idle.stream())
    landed = np.zeros(plan_for(layout, len(PAGES)).only.bytes, np.uint8)
    took = in_turns({
        "pack": lambda: copies.pack(layout, PAGES, KEY, after=Over()).keep(),
        "pack anew": anew.pack,
        "unpack": lambda: copies.unpack(layout, landed, PAGES, KEY).clean(),
        "unpack anew": lambda: anew.unpack(landed),
    }, int(arguments[0]) if arguments else ROUNDS)
    for name in ("pack", "unpack"):
        told, before = took[name], took[f"{name} anew"]
        print(f"{name} {len(PAGES)} pages of {ENTRIES} entries: {told:.1f} us "  # noqa: T201 - this is a command
              f"(goal: {GOAL_US:g}); made anew: {before:.1f} us, {before / told:.2f} times as long")
    for many, pages in REQUESTS:
        for name, told in in_turns(requests_calls(pools, copies, many, pages), 5).items():
            print(f"{name}: {told:.1f} us")  # noqa: T201 - this is a command
    return int(max(took["pack"], took["unpack"]) > GOAL_US)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
