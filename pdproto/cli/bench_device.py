"""`pdproto bench kernels` on a GPU: correctness first, then time against a device copy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
import triton

from pdproto.cli import bench_baselines, bench_timing
from pdproto.cli.bench_cases import CASES, SMALL, SMALL_GOALS_US, Case, Operation
from pdproto.cli.bench_report import Results, Row
from pdproto.cli.bench_subject import Subject, check, make
from pdproto.kernels.chunk import Launch, pack_chunk, warmup

BASELINE_BYTES_MAX: Final = 3 << 30
BUDGETS: Final = (4, 8, 16, 32, 64, 132)
MATRIX: Final = 8192


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _facts() -> dict[str, str]:
    asked = ["driver_version", "clocks.sm", "clocks.mem", "temperature.gpu", "power.draw"]
    tool, told = shutil.which("nvidia-smi"), "unknown: no nvidia-smi here"
    if tool:
        told = subprocess.run(  # noqa: S603 - a fixed command
            [tool, f"--query-gpu={','.join(asked)}", "--format=csv,noheader"],
            capture_output=True, text=True, check=False,
        ).stdout.strip()  # fmt: skip
    properties = torch.cuda.get_device_properties(0)
    return {
        "GPU": f"{properties.name}, {properties.multi_processor_count} multiprocessors",
        "versions": f"torch {torch.__version__}, triton {triton.__version__},"
        f" Python {sys.version.split()[0]}",
        "state": f"{', '.join(asked)}: {told}",
        "method": f"graphs of cold repetitions, events, {bench_timing.ROUNDS} rounds in turns with"
        " tensor.copy_ of the same bytes; medians; page numbers on the device and checked there",
    }


def _row(subject: Subject, *, baselines: bool) -> Row:
    """Time one case against the copy, and what else does the same."""
    case = subject.case
    timed, copy_us = bench_timing.in_turns(
        subject.calls, subject.copies, graphed=len(subject.plan.peers) == 1
    )
    # A copy moves its bytes twice, a case sometimes fewer: rates are compared, not times.
    factor = case.traffic_bytes / (2 * case.payload_bytes)
    others = {}
    if baselines:
        for name, calls in bench_baselines.of(subject).items():
            bench_baselines.prove(subject, name, calls)
            others[name] = bench_timing.in_turns(calls, subject.copies, rounds=7)[0].ratio * factor
    _say(f"  {timed.us:10.1f} us {timed.ratio * factor:6.3f} of the copy ({copy_us:.1f} us)")
    return Row(
        case.operation.value, case.name, case.payload_bytes, timed.us, timed.ratio * factor,
        timed.ratio_min * factor, timed.ratio_max * factor, case.goal or None, others,
    )  # fmt: skip


def _case_row(case: Case) -> Row:
    _say(f"{case.operation.value}: {case.name}")
    subject = make(case)
    check(subject)
    return _row(subject, baselines=case.payload_bytes <= BASELINE_BYTES_MAX)


def _latency(case: Case, goal_us: float) -> dict[str, str]:
    """Small chunks: device time, host time, and time to completion beside other work."""
    subject = make(case)
    check(subject)
    row = _row(subject, baselines=True)
    layout, chunk = subject.layout, subject.chunks[0][0]
    warmup(layout)
    listed = np.arange(case.pages)
    normal = bench_timing.stream()
    urgent = bench_timing.stream(priority=-1)

    def on(stream: Any) -> None:
        pack_chunk(layout, listed, chunk, launch=Launch(stream=stream))

    numbers = {
        "device time in a graph": f"{row.us:.2f} us (goal {goal_us})",
        "of the copy": f"{row.fraction:.2f}",
        **{f"of the copy, {name}": f"{part:.2f}" for name, part in row.baselines.items()},
        "host time, pages on the device":
            f"{bench_timing.enqueue_us(subject.calls[0]):.1f} us (goal 15)",
        "host time, pages on the host":
            f"{bench_timing.enqueue_us(lambda: pack_chunk(layout, listed, chunk)):.1f} us",
        "call to completion, idle GPU":
            f"{bench_timing.completion_us(lambda: on(urgent), urgent)[0]:.1f} us (goal 25)",
    }  # fmt: skip
    for name, stream in (("normal", normal), ("high", urgent)):
        with _BusyGpu():
            middle, worst = bench_timing.completion_us(partial(on, stream), stream, wait=False)
        numbers[f"call to completion beside matrix products, {name} priority"] = (
            f"{middle:.0f} us (worst {worst:.0f})"
        )
    return {f"{case.name}: {name}": value for name, value in numbers.items()}


class _BusyGpu:
    """Matrix products queued on a stream of their own for about 200 ms."""

    def __enter__(self) -> None:
        self.left, self.right = (
            torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2)
        )
        torch.cuda.synchronize()
        with torch.cuda.stream(bench_timing.stream()):
            for _ in range(150):
                self.left @ self.right

    def __exit__(self, *_: object) -> None:
        torch.cuda.synchronize()


def _interference() -> dict[str, str]:
    """What a bound on thread blocks costs the copy, and saves a matrix product beside it."""
    subject = make(Case("", Operation.PACK, 160, 16, 8, 256, 2048, 0.0))
    left, right = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16)
                   for _ in range(2))  # fmt: skip
    compute, copy = bench_timing.stream(), bench_timing.stream(priority=-1)

    def products(count: int = 20) -> tuple[Any, Any]:
        marks = bench_timing.event(), bench_timing.event()
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
        marks = [bench_timing.event()]
        marks[0].record(copy)
        for done in range(count):
            turn = done % len(subject.calls)
            pack_chunk(subject.layout, subject.pages[turn], subject.chunks[turn][0],
                       launch=Launch(stream=copy, ctas_max=budget))  # fmt: skip
            marks.append(bench_timing.event())
            marks[-1].record(copy)
        return marks

    alone()
    numbers = {}
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
        slow = start.elapsed_time(end) / base_ms - 1
        done = sum(start.elapsed_time(mark) < start.elapsed_time(end) for mark in marks[1:])
        beside = done * subject.case.payload_bytes / start.elapsed_time(end) / 1e9
        numbers[f"{budget} thread blocks"] = (
            f"{subject.case.payload_bytes / free_ms / 1e9:.2f} TB/s payload alone,"
            f" {beside:.2f} TB/s beside matrix products, which then take {slow:+.1%}"
        )
    return numbers


def _launches() -> dict[str, str]:
    """Count what one chunk enqueues, with the profiler."""
    subject = make(SMALL[0])
    layout, chunk = subject.layout, subject.chunks[0][0]
    listed = np.arange(subject.case.pages)
    warmup(layout)
    pack_chunk(layout, listed, chunk)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(10):
            pack_chunk(layout, listed, chunk)
        torch.cuda.synchronize()
    happened = [
        (event.name, event.device_type.name == "CUDA")
        for event in profile.events() or ()
    ]
    return {
        f"per chunk, 160 entries: {kind}": f"{count / 10:g}"
        for kind, count in counted(happened).items()
    }


def counted(happened: Sequence[tuple[str, bool]]) -> dict[str, int]:
    """Profiled events, (name, whether on the GPU), by kind. A kind with none counts 0.

    The wait for the whole device is the benchmark's own.
    """
    # The first start that fits tells the kind of what is on the GPU.
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


def measure(*, quick: bool) -> Results:
    """Run every case; a wrong result raises before anything is timed."""
    facts = _facts()
    rows = []
    for case in CASES[2:3] if quick else CASES:
        rows.append(_case_row(case))
        torch.cuda.empty_cache()
    numbers: dict[str, str] = {}
    for case, goal_us in zip(SMALL, SMALL_GOALS_US, strict=True):
        numbers |= _latency(case, goal_us)
        torch.cuda.empty_cache()
    numbers |= _launches()
    if not quick:
        numbers |= _interference()
    return Results(facts, rows, numbers)
