"""The gain of optimistic prefill: the time to the first token with and without it, in virtual time.

One prefill and one decode server. Requests come to prefill at random times, and to decode later by
the skew. Decode then needs the allocation time to allocate pages. Both are *typical* times: a delay
is 0.5 to 1.5 times the typical one, and one in a hundred is up to 20 times as long (chance.py).
These long delays make up the 99th percentile; the last rows of the study leave them out. Both arms
have the same requests, delays and scheduler. One arm may run requests before their bootstrap has
ended, and run them again.

One parameter is varied at a time; the others are as in BASE.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from lab.sim.cluster import simulate
from lab.sim.plan import Plan, PlannedRequest, Shape
from pdproto.check.explore import Monitor, silent
from pdproto.check.worker_pool import Workers, in_order, run_tasks
from pdproto.testing.chance import Seeded, Stream

RETRIES: Final = 2
CHUNKS: Final = (2, 2)  # pages of each chunk of a request
REQUESTS: Final = 1_000
MS: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of the study.

    skew_s, allocation_s, latency_s: typical delays. forward_s: for all chunks of a request. load:
    the share of the device's time that one pass of every request takes. running_slots: how many
    requests' KV fits into the prefill server. tails: whether some delays are much longer than the
    others.
    """

    skew_s: float = 20 * MS
    allocation_s: float = 20 * MS
    latency_s: float = 0.5 * MS
    forward_s: float = 40 * MS
    load: float = 0.4
    running_slots: int = 16
    tails: bool = True

    def delay(self, stream: Stream, typical: float) -> float:
        """A delay in seconds, with a long tail or without one."""
        return stream.delay(typical) if self.tails else typical * stream.between(0.5, 1.5)


BASE: Final = Setting()
VARIED: Final[dict[str, tuple[Setting, ...]]] = {
    "arrival skew": tuple(replace(BASE, skew_s=t * MS) for t in (0.0, 5.0, 20.0, 60.0, 200.0)),
    "allocation delay": tuple(
        replace(BASE, allocation_s=t * MS) for t in (1.0, 5.0, 20.0, 60.0, 200.0)),
    "network latency": tuple(replace(BASE, latency_s=t * MS) for t in (0.1, 0.5, 2.0, 10.0)),
    "forward pass": tuple(replace(BASE, forward_s=t * MS) for t in (5.0, 20.0, 40.0, 80.0, 320.0)),
    "load": tuple(replace(BASE, load=load) for load in (0.2, 0.4, 0.6, 0.8, 0.9)),
    "running slots at 80 % load": tuple(
        replace(BASE, load=0.8, running_slots=running_slots) for running_slots in (1, 2, 4, 8, 16)),
    "load, without tails": tuple(
        replace(BASE, load=load, tails=False) for load in (0.05, 0.2, 0.4, 0.8)),
}


@dataclass(frozen=True, slots=True)
class Arm:
    """The result of one arm: seconds to the first token, and repeated passes for each request."""

    median_s: float
    p99_s: float
    reruns: float


@dataclass(frozen=True, slots=True)
class Ways:
    """The same requests without optimistic prefill, and with it."""

    without: Arm
    optimistic: Arm

    @property
    def p99_change(self) -> float:
        """The relative change of the 99th percentile: -0.5 means half."""
        return self.optimistic.p99_s / self.without.p99_s - 1.0

    @property
    def median_change(self) -> float:
        """The change of the median, as for `p99_change`."""
        return self.optimistic.median_s / self.without.median_s - 1.0


@dataclass(frozen=True, slots=True)
class Pair(Ways):
    """One setting, with and without optimistic prefill. varied: the parameter, as in VARIED."""

    varied: str
    setting: Setting

    @property
    def value(self) -> str:
        """The value of the varied parameter, as text."""
        setting = self.setting
        return {
            "arrival skew": f"{setting.skew_s / MS:g} ms",
            "allocation delay": f"{setting.allocation_s / MS:g} ms",
            "network latency": f"{setting.latency_s / MS:g} ms",
            "forward pass": f"{setting.forward_s / MS:g} ms",
            "running slots at 80 % load": f"{setting.running_slots}",
        }.get(self.varied, f"{setting.load:.0%}")


@dataclass(frozen=True, slots=True)
class ArmTask:
    """The arguments of `arm`, which workers can be sent."""

    setting: Setting
    seed: int
    seeded: Seeded
    requests: int
    retries: int
    release_at_once: bool = False

    def __call__(self) -> Arm:
        return arm(self.setting, self.seed, self.seeded, self.requests, self.retries,
                   release_at_once=self.release_at_once)

    def __str__(self) -> str:
        return f"{self.setting}"


def arms(tasks: Iterable[ArmTask], workers: Workers) -> Iterator[Arm]:
    """The arm of each task, in their order. Equal tasks are simulated once."""
    wanted = list(tasks)
    distinct = list(dict.fromkeys(wanted))
    known: list[Arm] = []
    places = {task: place for place, task in enumerate(distinct)}
    with closing(run_tasks(distinct, _simulated, workers, silent)) as answers:
        found = in_order(answers)
        for task in wanted:
            while len(known) <= places[task]:
                known.append(next(found))
            yield known[places[task]]


def _simulated(task: ArmTask, _: Monitor) -> Arm:
    return task()


def pairs(seed: int, seeded: Seeded, requests: int, workers: Workers = 1) -> Iterator[Pair]:
    """Every setting of VARIED, in its order."""
    settings = [(varied, setting) for varied, chosen in VARIED.items() for setting in chosen]
    found = arms((ArmTask(setting, seed, seeded, requests, retries)
                  for _, setting in settings for retries in (0, RETRIES)), workers)
    for varied, setting in settings:
        yield Pair(next(found), next(found), varied, setting)


def arm(
    setting: Setting, seed: int, seeded: Seeded, requests: int, retries: int, *,
    release_at_once: bool = False,
) -> Arm:
    """Simulate one arm. retries, release_at_once: see Shape. Raises RuntimeError unless every
    request succeeds, because the times would not be comparable.
    """
    plan = _plan(setting, seed, seeded, requests, retries)
    shape = replace(plan.shape, release_at_once=release_at_once)
    outcome = simulate(replace(plan, shape=shape), seeded)
    if outcome.violation is not None or outcome.succeeded != requests:
        raise RuntimeError(f"{setting}: {outcome.succeeded} of {requests} requests have succeeded; "
                           f"{outcome.violation}")
    seconds = sorted(outcome.first_token_s)
    return Arm(percentile(seconds, 0.5), percentile(seconds, 0.99), outcome.reruns / requests)


def _plan(setting: Setting, seed: int, seeded: Seeded, requests: int, retries: int) -> Plan:
    shape = Shape(
        prefill=1, decode=1, requests=requests, latency_s=setting.latency_s,
        forward_s=setting.forward_s / len(CHUNKS), pages=4_096, slots=1_024, buffers=1_024,
        running_slots=setting.running_slots, retries=retries, waits={},
    )
    rate = setting.load / setting.forward_s
    clock = Stream(seeded, f"{seed}/study")
    at = 0.0
    planned = []
    for room in range(requests):
        at += 2.0 * clock.number() / rate
        own = Stream(seeded, f"{seed}/study/{room}")
        planned.append(PlannedRequest(
            room, "p0", "d0", at, at + setting.delay(own, setting.skew_s), CHUNKS,
            allocation_s=setting.delay(own, setting.allocation_s), generates_s=0.1))
    return Plan(seed, shape, tuple(planned), ())


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least element that is not exceeded by this share of the elements."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def as_markdown(found: Iterable[Pair]) -> str:
    """The results as a Markdown table, in milliseconds."""
    lines = ["| varied | value | median without | with | change | P99 without | with | change "
             "| passes run again |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for pair in found:
        off, on = pair.without, pair.optimistic
        lines.append(
            f"| {pair.varied} | {pair.value} | {off.median_s / MS:.0f} | {on.median_s / MS:.0f} | "
            f"{pair.median_change:+.0%} | {off.p99_s / MS:.0f} | {on.p99_s / MS:.0f} | "
            f"{pair.p99_change:+.0%} | {on.reruns:.2f} |")
    return "\n".join(lines) + "\n"
