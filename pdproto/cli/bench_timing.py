"""Timing on a GPU: graphs of cold repetitions, in turns with the copy they are compared to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final

import torch

ROUNDS: Final = 21
GRAPH_US: Final = 1500.0
"""A graph repeats its calls until it takes about this long, so that its launch does not count."""

Calls = Sequence[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds a call, and the ratio of another's time to it, round by round."""

    us: float
    ratio: float
    ratio_min: float
    ratio_max: float


def captured(calls: Calls, launches: int) -> torch.cuda.CUDAGraph:
    """A graph of `launches` calls, taking turns."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(launches):
            calls[turn % len(calls)]()
    return graph


def event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def stream(priority: int = 0) -> Any:
    """A stream of its own; lower numbers go first."""
    return torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]


def _once_us(calls: Calls) -> float:
    """A first guess at the time of a call, after a run of each to load what it needs."""
    for call in calls[:2]:
        call()
    start, end = event(), event()
    start.record()
    calls[-1]()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


def _replay(calls: Calls, launches: int, *, graphed: bool) -> Callable[[], None]:
    """One go at `launches` calls."""
    if graphed:
        return captured(calls, launches).replay

    def replay() -> None:
        for turn in range(launches):
            calls[turn % len(calls)]()

    return replay


def in_turns(
    calls: Calls, copies: Calls, *, rounds: int = ROUNDS, graphed: bool = True
) -> tuple[Timed, float]:
    """Time `calls` and `copies` in turns; the ratio is the copy's time over the call's.

    Calls that send numbers to the device cannot be in a graph, and are not `graphed`. Returns
    the calls' times and the copy's microseconds.
    """
    launches = [max(1, min(256, round(GRAPH_US / _once_us(each)))) for each in (calls, copies)]
    launches[0] = launches[0] if graphed else min(8, launches[0])
    goes = [
        _replay(calls, launches[0], graphed=graphed),
        _replay(copies, launches[1], graphed=True),
    ]
    mine, theirs = [], []
    for turn in range(rounds + 2):
        marks = [event() for _ in range(3)]
        marks[0].record()
        for go, mark in zip(goes, marks[1:], strict=True):
            go()
            mark.record()
        marks[2].synchronize()
        if turn >= 2:
            mine.append(marks[0].elapsed_time(marks[1]) * 1000 / launches[0])
            theirs.append(marks[1].elapsed_time(marks[2]) * 1000 / launches[1])
    ratios = [copy / call for call, copy in zip(mine, theirs, strict=True)]
    return Timed(median(mine), median(ratios), min(ratios), max(ratios)), median(theirs)


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
    """Microseconds from a call to its event, (median, largest). `wait` for an idle GPU first."""
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
