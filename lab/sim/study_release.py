"""The cost of releasing a pass at once: optimistic prefill in both ways, in virtual time.

A pass that ends before its bootstrap keeps its KV until another request needs its place
(spec/handoff/optimistic.py), or drops it at once and runs again, as in SGLang #26780
(spec/handoff/optimistic_at_once.py). Requests, delays and scheduler are those of study.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lab.sim import study
from lab.sim.study import MS, RETRIES, Arm, ArmTask, Pair, arms
from pdproto.check.worker_pool import Workers
from pdproto.testing.chance import Seeded

VARIED: Final = ("arrival skew", "allocation delay", "load", "running slots at 80 % load")


@dataclass(frozen=True, slots=True)
class ThreeWays(Pair):
    """One setting. optimistic: a pass keeps its KV. at_once: it is released at once."""

    at_once: Arm


def releases(
    seed: int, seeded: Seeded, requests: int, workers: Workers = 1
) -> Iterator[ThreeWays]:
    """Every setting of VARIED, in the order of the study."""
    settings = [(varied, setting) for varied in VARIED for setting in study.VARIED[varied]]
    found = arms((ArmTask(setting, seed, seeded, requests, retries, at_once)
                  for _, setting in settings
                  for retries, at_once in ((0, False), (RETRIES, False), (RETRIES, True))), workers)
    for varied, setting in settings:
        without, optimistic, at_once = next(found), next(found), next(found)
        yield ThreeWays(without, optimistic, varied, setting, at_once)


def as_markdown(found: Iterable[ThreeWays]) -> str:
    """The results as a Markdown table, in milliseconds."""
    lines = ["| varied | value | median without | parked | at once | P99 without | parked "
             "| at once | passes run again, parked | at once |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for one in found:
        arms = one.without, one.optimistic, one.at_once
        medians = " | ".join(f"{each.median_s / MS:.0f}" for each in arms)
        p99s = " | ".join(f"{each.p99_s / MS:.0f}" for each in arms)
        lines.append(f"| {one.varied} | {one.value} | {medians} | {p99s} | "
                     f"{one.optimistic.reruns:.2f} | {one.at_once.reruns:.2f} |")
    return "\n".join(lines) + "\n"
