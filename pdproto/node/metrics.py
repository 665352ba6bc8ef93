"""Counters and gauges of a node, in Prometheus' names and format.

The event loop adds to plain numbers, because one hand-over changes a dozen of them. They become
Prometheus' objects only when metrics are read. Numbers that another part counts, such as an engine,
are read at that time. So nodes in virtual time, which nobody asks, need no prometheus_client.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

COUNTERS: Final[Mapping[str, str]] = {
    "handoffs_opened": "Hand-overs opened at this rank",
    "handoffs_succeeded": "Hand-overs that ended with Success at this rank",
    "bootstrap_failed_reqs": "Hand-overs that failed before any byte was sent, at this rank",
    "transfer_failed_reqs": "Hand-overs that failed while or after bytes were sent, at this rank",
    "prefill_retries": "Passes of optimistic prefill that were run again",
    "aborts_sent": "Aborts that this rank has sent, repeats included",
    "fences_started": "Fences asked of the engine",
    "fences_done": "Fences that the engine has put up",
    "refused_writes": "Writes that the sink refused, as it does late ones",
    "skipped_chunks": "Chunks, once for each sink, that were not moved after a failure",
    "spoilt_chunks": "Chunks whose digest did not agree",
    "transfer_seconds": "Seconds from the first chunk (prefill) or the address (decode) to Success",
    "held_chunk_seconds": "Seconds for which staging memory was leased, summed",
    "malformed_frames": "Batches dropped because they are no message of the protocol",
    "refused_frames": "Messages that a peer may not send in its state",
    "callback_errors": "Functions of the application that have raised an error",
    "unencodable_frames": "Messages that could not be sent, by a defect at this rank",
    "stale_frames": "Messages about lives that are over and forgotten",
    "lost_peers": "Peers that have gone: closed, restarted, refused, or silent for long",
    "injected_faults": "Hand-overs that this rank has failed on purpose, for a test",
}

Read = Callable[[], float]


@dataclass(slots=True)
class Family:
    """A metric that is read on demand. samples: labels, and the function that reads the number."""

    about: str
    counter: bool
    samples: list[tuple[Mapping[str, str], Read]] = field(default_factory=list)


class Metrics:
    """The metrics of one node. labels: of every sample."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels: Final = dict(labels)
        self._counts: Final = dict.fromkeys(COUNTERS, 0.0)
        self._families: Final[dict[str, Family]] = {}

    @cached_property
    def registry(self) -> "CollectorRegistry":
        """The registry of prometheus_client with these metrics."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - see above

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return registry

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a counter of COUNTERS."""
        self._counts[name] += amount

    def count(self, name: str) -> float:
        """The value of a counter of COUNTERS."""
        return self._counts[name]

    def gauge(self, name: str, about: str, read: Read, **labels: str) -> None:
        """Add a gauge. read: called when metrics are read, by any thread."""
        self._families.setdefault(name, Family(about, counter=False)).samples.append((labels, read))

    def counter(self, name: str, about: str, read: Read) -> None:
        """Add a counter that another part keeps. read: as of a gauge; its value never falls."""
        self._families[name] = Family(about, counter=True, samples=[({}, read)])

    def read(self) -> dict[str, float]:
        """Every counter and gauge by name; a counter's name is without `_total`. The labels of a
        gauge follow its name, as in Prometheus: `num_handoffs{state="waiting"}`.
        """
        numbers = dict(self._counts)
        for name, family in self._families.items():
            for labels, read in family.samples:
                told = ",".join(f'{label}="{value}"' for label, value in labels.items())
                numbers[f"{name}{{{told}}}" if told else name] = read()
        return numbers

    def text(self) -> str:
        """The answer to `GET /metrics`: Prometheus' text format."""
        from prometheus_client import generate_latest  # noqa: PLC0415 - see above

        return generate_latest(self.registry).decode()

    def collect(self) -> "Iterator[Metric]":
        """See prometheus_client.registry.Collector."""
        from prometheus_client.core import (  # noqa: PLC0415 - see above
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        names, values = list(self._labels), list(self._labels.values())
        for name, count in self._counts.items():
            counter = CounterMetricFamily(name, COUNTERS[name], labels=names)
            counter.add_metric(values, count)
            yield counter
        for name, family in self._families.items():
            kind = CounterMetricFamily if family.counter else GaugeMetricFamily
            told = kind(name, family.about, labels=[*names, *family.samples[0][0]])
            for labels, read in family.samples:
                told.add_metric([*values, *labels.values()], read())
            yield told
