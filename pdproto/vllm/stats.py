"""The connector's numbers for vLLM's own metrics: counts, and the time of its calls.

Rule: the time of a step is measured by two clocks. The clock on the wall also counts the time for
      which other processes had the core; that of the thread (CPU) counts only the work of the
      calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from prometheus_client import Counter, Histogram
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.v1.metrics.utils import create_metric_per_engine

SCHEDULER: Final = "scheduler_step_seconds"
SCHEDULER_CPU: Final = "scheduler_step_cpu_seconds"
WORKER: Final = "worker_step_seconds"
WORKER_CPU: Final = "worker_step_cpu_seconds"
FAILED: Final = "failed_loads"
UNANNOUNCED: Final = "requests_without_params"
COUNTED: Final[Mapping[str, str]] = {
    FAILED: "Loads that failed",
    UNANNOUNCED: "Requests at decode without kv_transfer_params: decode computes their prompts",
}
BUCKETS: Final = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2)
ABOUT: Final[Mapping[str, str]] = {
    SCHEDULER: "Time of a step in the connector's calls, in the scheduler",
    SCHEDULER_CPU: "CPU time of a step in the connector's calls, in the scheduler",
    WORKER: "Time of a step in the connector's calls, in a worker",
    WORKER_CPU: "CPU time of a step in the connector's calls, in a worker",
}
P99: Final[Mapping[str, str]] = {  # as vLLM's log shows them
    SCHEDULER: "P99 of a step in the scheduler (ms)",
    SCHEDULER_CPU: "P99 of a step's CPU time in the scheduler (ms)",
    WORKER: "P99 of a step in the worker (ms)",
    WORKER_CPU: "P99 of a step's CPU time in the worker (ms)",
}

P = ParamSpec("P")
R = TypeVar("R")


class Spent(NamedTuple):
    """Seconds that calls took: on the wall, and of the CPU."""

    wall: float
    cpu: float


class Stopwatch:
    """Adds up the time that one step spends in calls of the connector."""

    def __init__(self) -> None:
        self._spent = Spent(0.0, 0.0)

    def taken(self) -> Spent:
        """The seconds that were added since the last call of this method."""
        spent, self._spent = self._spent, Spent(0.0, 0.0)
        return spent

    def add(self, wall: float, cpu: float) -> None:
        """Add the seconds of one call."""
        self._spent = Spent(self._spent.wall + wall, self._spent.cpu + cpu)


def timed(
    call: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Decorate a method of the connector, so that its time counts for its step."""

    def measured(self: Any, /, *given: P.args, **named: P.kwargs) -> R:
        began, began_cpu = perf_counter(), thread_time()
        try:
            return call(self, *given, **named)
        finally:
            self.stopwatch.add(perf_counter() - began, thread_time() - began_cpu)

    return measured


@dataclass
class PdprotoStats(KVConnectorStats):
    """The numbers of one interval. data: the seconds of each step, and the counts."""

    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.data:
            self.reset()

    def reset(self) -> None:
        """See vLLM's KVConnectorStats."""
        self.data = {**{name: [] for name in ABOUT}, **dict.fromkeys(COUNTED, 0)}

    def aggregate(self, other: KVConnectorStats) -> "PdprotoStats":
        """See vLLM's KVConnectorStats."""
        for name, value in other.data.items():
            self.data[name] += value
        return self

    def reduce(self) -> dict[str, int | float]:
        """See vLLM's KVConnectorStats."""
        told: dict[str, int | float] = {"Failed loads": self.data[FAILED]}
        if self.data[UNANNOUNCED]:
            told["Requests without kv_transfer_params"] = self.data[UNANNOUNCED]
        for name, shown in P99.items():
            seconds = sorted(self.data[name])
            if seconds:
                told[shown] = round(seconds[int(len(seconds) * 0.99)] * 1e3, 3)
        return told

    def is_empty(self) -> bool:
        """See vLLM's KVConnectorStats."""
        return not any(self.data.values())


class PdprotoPromMetrics(KVConnectorPromMetrics):
    """The same numbers for Prometheus, in vLLM's own registry."""

    def __init__(
        self, vllm_config: Any, metric_types: Any, labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._seconds: Final = {
            name: create_metric_per_engine(metric_types[Histogram](
                name=f"vllm:pdproto_{name}", documentation=about, buckets=BUCKETS,
                labelnames=labelnames), per_engine_labelvalues)
            for name, about in ABOUT.items()}
        self._counts: Final = {
            name: create_metric_per_engine(metric_types[Counter](
                name=f"vllm:pdproto_{name}", documentation=about, labelnames=labelnames),
                per_engine_labelvalues)
            for name, about in COUNTED.items()}

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """See vLLM's KVConnectorPromMetrics."""
        for name, histograms in self._seconds.items():
            for seconds in transfer_stats_data[name]:
                histograms[engine_idx].observe(seconds)
        for name, counters in self._counts.items():
            counters[engine_idx].inc(transfer_stats_data[name])
