"""Counters and gauges of a node, in Prometheus' names and format.

They are plain numbers that the loop adds to, and become Prometheus' objects when somebody asks: a
hand-over adds to a dozen of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

COUNTERS: Final[Mapping[str, str]] = {
    "handoffs_opened": "Hand-overs opened at this rank",
    "handoffs_succeeded": "Hand-overs that ended with Success at this rank",
    "bootstrap_failed_reqs": "Hand-overs that failed before any byte was sent, at this rank",
    "transfer_failed_reqs": "Hand-overs that failed while or after bytes were sent, at this rank",
    "prefill_retries": "Passes of optimistic prefill that were run again",
    "aborts_sent": "Aborts that this rank has sent, repeats included",
    "fences_started": "Fences asked of the engine",
    "fences_done": "Fences that the engine has put up",
    "refused_writes": "Writes that came too late and were refused",
    "spoilt_chunks": "Parts whose digest did not agree",
    "transfer_bytes": "Bytes that have landed",
    "transfer_seconds": "Seconds between the first write of a hand-over and its Success, summed",
    "held_chunk_seconds": "Seconds for which landing memory was leased, summed",
    "malformed_frames": "Batches dropped because they are no message of the protocol",
    "refused_frames": "Messages that a peer may not send in the state it is in",
    "stale_frames": "Messages about lives that are over and forgotten",
    "lost_peers": "Peers that have gone silent or restarted",
}


class Metrics:
    """One node's numbers. registry: for an HTTP server of the caller's."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels: Final = dict(labels)
        self._counts: Final = dict.fromkeys(COUNTERS, 0.0)
        self._gauges: Final[dict[str, tuple[str, Callable[[], float]]]] = {}
        self.registry: Final = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def add(self, name: str, amount: float = 1) -> None:
        self._counts[name] += amount

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Have a gauge read when somebody asks. It must be safe to read from any thread."""
        self._gauges[name] = about, read

    def read(self) -> dict[str, float]:
        """Every counter and gauge by name; a counter's name is without `_total`."""
        return {**self._counts, **{name: read() for name, (_, read) in self._gauges.items()}}

    def text(self) -> str:
        """What `GET /metrics` answers."""
        return generate_latest(self.registry).decode()

    def collect(self) -> Iterator[Metric]:
        names, values = list(self._labels), list(self._labels.values())
        for name, count in self._counts.items():
            counter = CounterMetricFamily(name, COUNTERS[name], labels=names)
            counter.add_metric(values, count)
            yield counter
        for name, (about, read) in self._gauges.items():
            gauge = GaugeMetricFamily(name, about, labels=names)
            gauge.add_metric(values, read())
            yield gauge
