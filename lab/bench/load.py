"""Other costs of a chunk than bandwidth: latency, host time, launches, slowdown of other work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from lab.bench import timing
from lab.bench.cases import (
    BUDGET_GOALS,
    COMPLETION_GOAL_US,
    COUNT_GOALS,
    EIGHT,
    ENQUEUE_GOAL_US,
    SLOWDOWN_GOAL,
    SMALL,
    WIRE,
    Case,
    Operation,
)
from lab.bench.subject import Subject, make
from pdproto.kernels.chunk import Launch, pack_chunk, pack_slices, warmup

BUDGETS: Final = (2, 4, 8, 16, 32, 64, 132)
MATRIX: Final = 8192

LARGE: Final = Case("beside products", Operation.PACK, 160, 16, 8, 256, 2048, 0.0)
SPLIT: Final = Case("1 page for 8 peers", Operation.PACK, 160, 16, 8, 256, 16, 0.0, EIGHT)


def latency(subject: Subject) -> dict[str, str]:
    """Small chunks: host time, and time to completion, alone and beside other work."""
    layout, chunk = subject.layout, subject.chunks[0][0]
    warmup(layout)
    listed = np.arange(subject.case.pages)
    normal = timing.stream()
    urgent = timing.stream(priority=-1)

    def on(stream: Any) -> None:
        pack_chunk(layout, listed, chunk, launch=Launch(stream=stream))

    there = timing.enqueue_us(subject.calls[0])
    here = timing.enqueue_us(lambda: pack_chunk(layout, listed, chunk))
    idle = timing.completion_us(lambda: on(urgent), urgent)[0]
    numbers = {
        "host time, pages on the device": f"{there:.1f} us (goal {ENQUEUE_GOAL_US})",
        "host time, pages on the host": f"{here:.1f} us (goal {ENQUEUE_GOAL_US})",
        "call to completion, idle GPU": f"{idle:.1f} us (goal {COMPLETION_GOAL_US})",
    }
    for name, stream in (("normal", normal), ("high", urgent)):
        with _BusyGpu():
            middle, worst = timing.completion_us(partial(on, stream), stream, wait=False)
        numbers[f"call to completion beside matrix products, {name} priority"] = (
            f"{middle:.0f} us (worst {worst:.0f})"
        )
    return numbers


class _BusyGpu:
    """Matrix products queued on a stream of their own for about 200 ms."""

    def __enter__(self) -> None:
        self.left, self.right = (
            torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2)
        )
        torch.cuda.synchronize()
        with torch.cuda.stream(timing.stream()):
            for _ in range(150):
                self.left @ self.right

    def __exit__(self, *_: object) -> None:
        torch.cuda.synchronize()


def interference() -> dict[str, str]:
    """The effect of a limit on thread blocks: on the copy, and on a matrix product beside it."""
    subject = make(LARGE)
    left, right = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16)
                   for _ in range(2))  # fmt: skip
    compute, copy = timing.stream(), timing.stream(priority=-1)

    def products(count: int = 20) -> tuple[Any, Any]:
        marks = timing.event(), timing.event()
        with torch.cuda.stream(compute):
            marks[0].record(compute)
            for _ in range(count):
                torch.mm(left, right)
            marks[1].record(compute)
        return marks

    def alone() -> float:
        torch.cuda.synchronize()
        start, end = products()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def packs(budget: int, count: int) -> list[Any]:
        marks = [timing.event()]
        marks[0].record(copy)
        for done in range(count):
            turn = done % len(subject.calls)
            pack_chunk(subject.layout, subject.pages[turn], subject.chunks[turn][0],
                       launch=Launch(stream=copy, ctas_max=budget))  # fmt: skip
            marks.append(timing.event())
            marks[-1].record(copy)
        return marks

    alone()
    told: dict[int, tuple[float, float, float]] = {}
    for budget in BUDGETS:
        packs(budget, 2)
        torch.cuda.synchronize()
        marks = packs(budget, 4)
        torch.cuda.synchronize()
        free_ms = marks[0].elapsed_time(marks[-1]) / 4
        base_ms = min(alone() for _ in range(3))
        torch.cuda.synchronize()
        marks = packs(budget, int(base_ms * 1.5 / free_ms) + 2)
        start, end = products()
        torch.cuda.synchronize()
        beside_ms = start.elapsed_time(end)
        done = sum(start.elapsed_time(mark) < beside_ms for mark in marks[1:])
        payload = subject.case.payload_bytes / 1e9
        told[budget] = payload / free_ms, done * payload / beside_ms, beside_ms / base_ms - 1
    return budgets_told(told)


def budgets_told(measured: Mapping[int, tuple[float, float, float]]) -> dict[str, str]:
    """The results as text. measured: thread blocks -> (TB/s alone, TB/s beside a matrix product,
    share of speed that the product loses).

    The goal for a matrix product is at the least limit that is fast enough for the network.
    """
    numbers = {}
    for budget, (alone, beside, slower) in measured.items():
        goal = f" (goal {BUDGET_GOALS[budget]:.2f})" if budget in BUDGET_GOALS else ""
        numbers[f"{budget} thread blocks"] = (
            f"{alone:.2f} TB/s payload alone{goal},"
            f" {beside:.2f} TB/s beside matrix products, which then take {slower:+.1%}"
        )
    enough = [budget for budget, (_, beside, _) in measured.items() if beside >= WIRE]
    numbers["matrix products beside copies for two 400 Gbit/s cards"] = (
        f"{measured[min(enough)][2]:+.1%} with {min(enough)} thread blocks"
        if enough else f"no bound reaches {WIRE} TB/s"
    ) + f" (goal {SLOWDOWN_GOAL:+.1%})"  # fmt: skip
    return numbers


def launches() -> dict[str, str]:
    """The number of operations that one chunk enqueues; and one chunk for each of eight peers."""
    numbers = {}
    for name, case in (("per chunk", SMALL[0]), ("per chunk for 8 peers", SPLIT)):
        subject = make(case)
        layout, chunks = subject.layout, subject.chunks[0]
        listed = np.arange(case.pages)
        warmup(layout, peers=[] if case.peers is None else [case.peers])
        counts = _profiled(partial(pack_slices, layout, listed, chunks, case.peers))
        for kind, count in counts.items():
            goal = COUNT_GOALS.get(kind, "0")
            numbers[f"{name}, {case.entries} entries: {kind}"] = f"{count / 10:g} (goal {goal})"
    return numbers


def _profiled(call: Callable[[], object]) -> dict[str, int]:
    """The number of operations that ten calls enqueue, by kind."""
    call()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _ in range(10):
            call()
        torch.cuda.synchronize()
    return counted([
        (event.name, event.device_type.name == "CUDA")
        for event in profile.events() or ()
    ])  # fmt: skip


def counted(happened: Sequence[tuple[str, bool]]) -> dict[str, int]:
    """The number of profiled events of each kind. happened: (name, whether on the GPU).

    A wait for the whole device is not counted, because the benchmark itself makes it.
    """
    # The kind of an event on the GPU is that of the first prefix that fits.
    kinds = {
        "Memcpy HtoD (Pinned": "copies to the device from pinned memory",
        "Memcpy HtoD": "copies to the device from other memory", "Memcpy": "other copies",
        "Memset": "fills", "": "kernels",
    }  # fmt: skip
    counts = dict.fromkeys([*kinds.values(), "waits", "allocations"], 0)
    for name, on_gpu in happened:
        if on_gpu and "Sync" not in name:
            counts[next(kind for start, kind in kinds.items() if name.startswith(start))] += 1
        elif name.startswith("cu") and name != "cudaDeviceSynchronize":
            counts["waits"] += "Synchronize" in name
            counts["allocations"] += "lloc" in name
    return counts
