"""`python -m lab bench` on a GPU: correctness first, then times compared with a device copy."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Final

import torch
import triton

from lab.bench import baselines as bench_baselines
from lab.bench import load, timing
from lab.bench.cases import CASES, MORE, SMALL, SMALL_GOALS_US, Case
from lab.bench.report import Results, Row
from lab.bench.subject import Subject, check, make

BASELINE_BYTES_MAX: Final = 3 << 30
OTHERS_ROUNDS: Final = 7
SLOW_US: Final = 20_000
"""A call that takes longer is timed in half the rounds, because its noise is relatively small."""

Unit = Callable[[Results], None]


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
        "method": f"graphs of cold repetitions, events, {timing.ROUNDS} rounds in turns with"
        " tensor.copy_ of the same bytes; medians; page numbers on the device and checked there",
        "others": "a name that is not a function of torch is a pattern of another program, in our"
        " code; the times of driver copies, and of SGLang's gather as called, include host time",
    }


def _row(subject: Subject, *, baselines: bool) -> Row:
    """Time one case and its baselines, each alternately with the copy."""
    case = subject.case
    copies = timing.prepared(subject.copies)
    mine = timing.prepared(subject.calls, graphed=len(subject.plan.peers) == 1)
    timed, copy_us = timing.in_turns(mine, copies)
    # A copy moves its bytes twice, a case sometimes fewer: rates are compared, not times.
    factor = case.traffic_bytes / (2 * case.payload_bytes)
    _say(f"  {timed.us:10.1f} us {timed.ratio * factor:6.3f} of the copy ({copy_us:.1f} us)")
    others, left_out = {}, {}
    for name, baseline in (bench_baselines.of(case) if baselines else {}).items():
        try:
            calls = baseline.make(subject)
            bench_baselines.prove(subject, name, calls, baseline.right)
            theirs = timing.prepared(calls, graphed=baseline.graphed)
            rounds = OTHERS_ROUNDS if theirs.us < SLOW_US else OTHERS_ROUNDS // 2
            others[name] = timing.in_turns(theirs, copies, rounds=rounds)[0].ratio * factor
        except Exception as error:  # the baseline is left out, and the rest is measured
            left_out[name] = (str(error) or type(error).__name__).splitlines()[0]
            _say(f"             without {name}: {left_out[name]}")
        else:
            _say(f"             {others[name]:6.3f} {name}")
    return Row(
        case.operation.value, case.name, case.payload_bytes, timed.us, timed.ratio * factor,
        timed.ratio_min * factor, timed.ratio_max * factor, case.goal or None, others, left_out,
    )  # fmt: skip


def _case(case: Case, results: Results) -> None:
    subject = make(case)
    check(subject)
    baselines = case.payload_bytes <= BASELINE_BYTES_MAX
    results.rows.append(_row(subject, baselines=baselines))


def _small(case: Case, goal_us: float, results: Results) -> None:
    subject = make(case)
    check(subject)
    row = _row(subject, baselines=True)
    numbers = {
        "device time in a graph": f"{row.us:.2f} us (goal {goal_us})",
        "of the copy": f"{row.fraction:.2f}",
        **{f"of the copy, {name}": f"{part:.2f}" for name, part in row.baselines.items()},
        **load.latency(subject),
    }
    results.numbers.update({f"{case.name}: {name}": told for name, told in numbers.items()})


def _numbers(measured: Callable[[], dict[str, str]], results: Results) -> None:
    results.numbers.update(measured())


def units(*, quick: bool) -> dict[str, Unit]:
    """The measurements by name, the most important first. quick: only a few."""
    first, more = (CASES[2:3], ()) if quick else (CASES, MORE)
    found: dict[str, Unit] = {case.title: partial(_case, case) for case in first}
    for case, goal_us in zip(SMALL, SMALL_GOALS_US, strict=True):
        found[f"small: {case.name}"] = partial(_small, case, goal_us)
    found["launches"] = partial(_numbers, load.launches)
    if not quick:
        found["thread blocks"] = partial(_numbers, load.interference)
    return found | {case.title: partial(_case, case) for case in more}


def measure(chosen: Mapping[str, Unit], results: Results, *, minutes: float) -> None:
    """Run the chosen measurements within so many minutes. Those left out are listed in the notes.

    Raises WrongResultError before a case with a wrong result is timed. A measurement that does not
    fit this GPU's memory is left out. `results` keeps earlier results, also after an error.
    """
    results.facts.update(_facts())
    # Not the default stream, which a batch of driver copies refuses.
    with torch.cuda.stream(timing.stream()):
        run(chosen, results, minutes=minutes, clock=perf_counter)
        torch.cuda.synchronize()


def run(
    chosen: Mapping[str, Unit], results: Results, *, minutes: float, clock: Callable[[], float]
) -> None:
    """Run units one by one, while one more of average length ends within the limit."""
    start, late = clock(), []
    for done, (name, unit) in enumerate(chosen.items()):
        gone = clock() - start
        mean = gone / done if done else 0.0
        if gone + mean > minutes * 60:
            late.append(name)
            continue
        left = f", {gone:.0f} s gone, about {mean * (len(chosen) - done):.0f} s left"
        _say(f"[{done + 1} of {len(chosen)}{left if done else ''}] {name}")
        try:
            unit(results)
        except torch.cuda.OutOfMemoryError as error:
            results.notes.append(f"{name}: out of memory: {str(error).splitlines()[0]}")
        gc.collect()  # a subject and its calls refer to each other
        torch.cuda.empty_cache()
    if late:
        results.notes.append(f"not measured in {minutes:g} minutes: {'; '.join(late)}")
