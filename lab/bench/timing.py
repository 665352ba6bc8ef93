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


def prepared(calls: Calls, *, graphed: bool = True) -> Prepared:
    """Prepare enough calls for one timing.

    graphed: False for calls that send numbers to the device, or wait for it: a graph cannot have
    them, and their time includes host time.
    """
    us = _once_us(calls)
    launches = max(1, min(256 if graphed else 8, round(GRAPH_US / us)))
    return Prepared(_replay(calls, launches, graphed=graphed), launches, us)


def _round(mine: Prepared, theirs: Prepared) -> tuple[float, float]:
    """Microseconds of a call of each."""
    marks = [event() for _ in range(3)]
    marks[0].record()
    for one, mark in zip((mine, theirs), marks[1:], strict=True):
        one.go()
        mark.record()
    marks[2].synchronize()
    us, their_us = (start.elapsed_time(end) * 1000 / one.launches for one, (start, end)
                    in zip((mine, theirs), pairwise(marks), strict=True))
    return us, their_us


def in_turns(mine: Prepared, theirs: Prepared, *, rounds: int = ROUNDS) -> tuple[Timed, float]:
    """Time two functions alternately. The ratio is the time of `theirs` over that of `mine`.

    Also returns the microseconds of `theirs`.
    """
    times = [_round(mine, theirs) for _ in range(rounds + 2)][2:]
    ours, others = zip(*times, strict=True)
    ratios = [their / my for my, their in times]
    return Timed(median(ours), median(ratios), min(ratios), max(ratios)), median(others)


def enqueue_us(call: Callable[[], object]) -> float:
    """Host microseconds until a call returns, over short batches on an idle GPU."""
    times = []
    for _ in range(40):
        torch.cuda.synchronize()
        begin = perf_counter()
        for _ in range(8):
            call()
        times.append((perf_counter() - begin) / 8)
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
