"""Timing on a GPU: CUDA graphs of cold repetitions, timed alternately with a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, Final

import torch

ROUNDS: Final = 21
GRAPH_US: Final = 1500.0
"""A graph repeats its calls until it takes about this long, so that its launch is negligible."""

HOLD_US: Final = 500.0
HOLD_US_MAX: Final = 64_000.0
"""How long the device waits, first and at most, while the calls of a round are enqueued."""

CYCLES_PER_US: Final = 2000  # of the fastest clock of an H100

Calls = Sequence[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a call in microseconds (median), and the ratio of another call's time to it."""

    us: float
    ratio: float
    ratio_min: float
    ratio_max: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A function to time. go: runs `launches` calls. us: a first estimate of one call."""

    go: Callable[[], None]
    launches: int
    us: float


def captured(calls: Calls, launches: int) -> torch.cuda.CUDAGraph:
    """A CUDA graph of `launches` calls, from `calls` in turn."""
    graph = torch.cuda.CUDAGraph()
    # A capture that fails leaves its own stream behind as the current one.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
        for turn in range(launches):
            calls[turn % len(calls)]()
    return graph


def event() -> Any:
    """A CUDA event that records times."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def stream(priority: int = 0) -> Any:
    """A new stream. priority: lower numbers run first."""
    return torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]


def _once_us(calls: Calls) -> float:
    """An estimate of the time of a call, after two calls that load code and data."""
    for call in calls[:2]:
        call()
    start, end = event(), event()
    start.record()
    calls[-1]()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


def _replay(calls: Calls, launches: int, *, graphed: bool) -> Callable[[], None]:
    """A function that runs `launches` calls."""
    if graphed:
        return captured(calls, launches).replay

    def replay() -> None:
        for turn in range(launches):
            calls[turn % len(calls)]()

    return replay


def prepared(calls: Calls, *, graphed: bool = True, launches: int = 0) -> Prepared:
    """Prepare enough calls for one timing. launches: so many of them, if not 0.

    graphed: False for calls that send numbers to the device, or wait for it: a graph cannot have
    them, and their time includes host time if they are not `held`.
    """
    us = _once_us(calls)
    launches = launches or max(1, min(256 if graphed else 8, round(GRAPH_US / us)))
    return Prepared(_replay(calls, launches, graphed=graphed), launches, us)


def hold(us: float) -> None:
    """Enqueue a kernel that does nothing for about so long."""
    torch.cuda._sleep(round(us * CYCLES_PER_US))  # type: ignore[no-untyped-call]


def _round(mine: Prepared, theirs: Prepared, hold_us: float) -> tuple[tuple[float, float], bool]:
    """Microseconds of a call of each, and whether the device began before all were enqueued."""
    marks = [event() for _ in range(3)]
    if hold_us:
        hold(hold_us)
    marks[0].record()
    for one, mark in zip((mine, theirs), marks[1:], strict=True):
        one.go()
        mark.record()
    has_begun = bool(marks[0].query())
    marks[2].synchronize()
    us, their_us = (start.elapsed_time(end) * 1000 / one.launches for one, (start, end)
                    in zip((mine, theirs), pairwise(marks), strict=True))
    return (us, their_us), has_begun


def in_turns(
    mine: Prepared, theirs: Prepared, *, rounds: int = ROUNDS, held: bool = False
) -> tuple[Timed, float]:
    """Time two functions alternately. The ratio is the time of `theirs` over that of `mine`.

    held: the device waits until all calls of a round are enqueued, so that no time is host time.
    Raises TimeoutError if enqueueing takes longer than HOLD_US_MAX. Also returns the microseconds
    of `theirs`.
    """
    hold_us = HOLD_US if held else 0.0
    times: list[tuple[float, float]] = []
    while len(times) < rounds + 2:
        told, has_begun = _round(mine, theirs, hold_us)
        if not (held and has_begun):
            times.append(told)
        elif hold_us < HOLD_US_MAX:
            hold_us *= 2
        else:
            raise TimeoutError(f"its calls were not enqueued within {hold_us:g} us")
    ours, others = zip(*times[2:], strict=True)
    ratios = [their / my for my, their in times[2:]]
    return Timed(median(ours), median(ratios), min(ratios), max(ratios)), median(others)


def enqueue_us(call: Callable[[], object], *, batches: int = 40, batch: int = 8) -> float:
    """Host microseconds until a call returns, over short batches on an idle GPU."""
    times = []
    for _ in range(batches):
        torch.cuda.synchronize()
        begin = perf_counter()
        for _ in range(batch):
            call()
        times.append((perf_counter() - begin) / batch)
    torch.cuda.synchronize()
    return median(times) * 1e6


def completion_us(
    call: Callable[[], object], stream: Any, *, repeats: int = 50, wait: bool = True
) -> tuple[float, float]:
    """Microseconds from a call to its event: (median, largest). wait: first, for an idle GPU."""
    times = []
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    for _ in range(repeats):
        if wait:
            torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            begin = perf_counter()
            call()
            done.record(stream)
            done.synchronize()
            times.append(perf_counter() - begin)
    return median(times) * 1e6, max(times) * 1e6
