"""The settings of `python -m lab study optimistic`, and the requests that come in each.

Processes and the simulator get the same requests, at the same times, with the same delays. One
parameter is varied at a time; the others are as in BASE.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log
from random import Random
from typing import Final

from lab.sim.cluster import simulate
from lab.sim.plan import Plan, PlannedRequest, Shape
from lab.sim.study import CHUNKS, MS, RETRIES, Arm, Setting, percentile
from pdproto.testing.chance import Stream

GENERATES_S: Final = 0.1  # for which decode keeps the pages of an answer
SLOTS: Final = 1_024  # of metadata: more than there are ever requests
PAGES: Final = 4_096  # of each server's pool
# What the simulator is told of processes: assumed, and little beside all that is varied.
SOCKETS_S: Final = 0.3 * MS  # from one node's loop to another's, on the loopback
WRITE_S: Final = 0.5 * MS  # a chunk: packed, written, and told

BASE: Final = Setting(latency_s=0.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting. varied, value: the varied parameter and its value, in words.

    Its latency is added, one way, to that of sockets. overlapped: the scheduler turns while the
    device computes, and does not sleep through each step.
    """

    varied: str
    value: str
    setting: Setting = BASE
    overlapped: bool = False


CELLS: Final = (
    *(Cell("arrival skew", f"{time:g} ms", replace(BASE, skew_s=time * MS))
      for time in (0.0, 20.0, 60.0, 200.0)),
    *(Cell("allocation delay", f"{time:g} ms", replace(BASE, allocation_s=time * MS))
      for time in (1.0, 20.0, 60.0, 200.0)),
    *(Cell("handshake latency", f"{time:g} ms", replace(BASE, latency_s=time * MS))
      for time in (0.0, 2.0, 10.0, 50.0)),
    Cell("load", "40%"),
    Cell("load", "80%", replace(BASE, load=0.8)),
    Cell("running slots at 80 % load", "1", replace(BASE, load=0.8, running_slots=1)),
    Cell("running slots at 80 % load", "16", replace(BASE, load=0.8)),
    Cell("tails", "with", BASE),
    Cell("tails", "without", replace(BASE, tails=False)),
    Cell("scheduler", "sleeps through a step", BASE),
    Cell("scheduler", "turns meanwhile", BASE, overlapped=True),
)


def planned(setting: Setting, seed: int, count: int) -> tuple[PlannedRequest, ...]:
    """`count` requests of a Poisson process, each with its delays. All follows from the seed."""
    clock = Stream(Random, f"{seed}/arrivals")

    def requests() -> Iterator[PlannedRequest]:
        at = 0.0
        for room in range(count):
            at -= log(1.0 - clock.number()) * setting.forward_s / setting.load
            own = Stream(Random, f"{seed}/request/{room}")
            yield PlannedRequest(room, "p0", "d0", at, at + setting.delay(own, setting.skew_s),
                                 CHUNKS, allocation_s=setting.delay(own, setting.allocation_s),
                                 generates_s=GENERATES_S)

    return tuple(requests())


def simulated(cell: Cell, requests: tuple[PlannedRequest, ...], seed: int) -> tuple[Arm, Arm]:
    """The simulated figures of these requests: without optimistic prefill, and with it.

    Raises RuntimeError where not every request succeeds: times would not be comparable.
    """
    without, optimistic = (_simulated(cell.setting, requests, seed, retries)
                           for retries in (0, RETRIES))
    return without, optimistic


def _simulated(
    setting: Setting, requests: tuple[PlannedRequest, ...], seed: int, retries: int
) -> Arm:
    shape = Shape(
        prefill=1, decode=1, requests=len(requests), latency_s=SOCKETS_S + setting.latency_s,
        forward_s=setting.forward_s / len(CHUNKS), write_s=WRITE_S, pages=PAGES, slots=SLOTS,
        buffers=SLOTS, running_slots=setting.running_slots, retries=retries, waits={},
    )
    outcome = simulate(Plan(seed, shape, requests, ()), Random)
    if outcome.violation is not None or outcome.succeeded != len(requests):
        raise RuntimeError(f"{setting}: {outcome.succeeded} of {len(requests)} simulated requests "
                           f"have succeeded; {outcome.violation}")
    return arm(outcome.first_token_s, outcome.reruns)


def arm(first_token_s: list[float], reruns: int) -> Arm:
    """The figures of one way to run the requests. Raises ValueError if there are none."""
    if not first_token_s:
        raise ValueError("no request has been answered: there is no time to the first token")
    seconds = sorted(first_token_s)
    return Arm(percentile(seconds, 0.5), percentile(seconds, 0.99), reruns / len(seconds))
