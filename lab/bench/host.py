"""`python -m lab bench` on a CPU: packing and unpacking, compared with a copy."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lab.bench.report import Results, Row
from pdproto.kernels.chunk import (
    Launch,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    register,
    unpack_chunk,
)

ROUNDS: Final = 15
LINE: Final = 64  # bytes

Unit = Callable[[Results], None]

# name, entries, pages of a pool, tokens of a page, row bytes, pages of a chunk, goal
CASES: Final = (
    ("32 KiB pages", 16, 512, 128, 256, 256, 0.70),
    ("4 KiB pages", 16, 4096, 16, 256, 2048, None),
    ("72 KiB pages (MLA)", 8, 512, 64, 1152, 256, None),
    ("1152 B pages (MLA, page 1)", 8, 16384, 1, 1152, 8192, None),
    ("256 B pages (page 1)", 8, 65536, 1, 256, 32768, None),
)
# entries, tokens of a page, row bytes, pages
SMALL: Final = ((4, 16, 256, 1), (4, 16, 256, 8), (160, 16, 256, 1))


def _in_turns(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each call, for each round; a round runs every call once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 2):
        for name, call in calls.items():
            begin = perf_counter()
            call()
            times[name].append(perf_counter() - begin)
    return {name: listed[2:] for name, listed in times.items()}


def _at_a_line(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Memory that begins a line of the cache, as that of torch does; numpy's begins 16 bytes on."""
    length = prod(shape)
    whole = np.empty(length + LINE, np.uint8)
    first = -whole.ctypes.data % LINE
    return whole[first : first + length].reshape(shape)


def _case(
    name: str, entries: int, pool_pages: int, tokens: int, row_bytes: int, pages: int,
    goal: float | None, launch: Launch,
) -> list[Row]:  # fmt: skip
    generator = np.random.default_rng(1)
    pools = _at_a_line((entries, pool_pages, tokens, 1, row_bytes))
    pools[...] = generator.integers(0, 256, pools.shape, np.uint8)
    layout = register(list(pools))
    listed = generator.permutation(pool_pages)[:pages]
    plan = plan_for(layout, pages)
    chunk = _at_a_line((plan.only.bytes,))
    chunk[...] = generator.integers(0, 256, chunk.size, np.uint8)
    other = generator.integers(0, 256, chunk.size, np.uint8)
    sums, report = digests_in(plan.only, chunk), new_report(layout)
    times = _in_turns({
        "copy": lambda: np.copyto(other, chunk),
        "pack": lambda: pack_chunk(layout, listed, chunk, launch=launch),
        "unpack": lambda: unpack_chunk(layout, listed, chunk, launch=launch),
        "pack and digest": lambda: pack_chunk(layout, listed, chunk, digests=sums, launch=launch),
        "unpack and verify": lambda: unpack_chunk(
            layout, listed, chunk, expected=sums, report=report, launch=launch
        ),
    })  # fmt: skip
    rows = []
    for operation in list(times)[1:]:
        ratios = [a / b for a, b in zip(times["copy"], times[operation], strict=True)]
        rows.append(
            Row(
                operation, name, plan.only.payload_bytes, median(times[operation]) * 1e6,
                median(ratios), min(ratios), max(ratios), goal if "and" not in operation else None,
            )
        )  # fmt: skip
    return rows


def _small(entries: int, tokens: int, row_bytes: int, pages: int) -> dict[str, str]:
    pools = np.random.default_rng(2).integers(0, 256, (entries, 64, tokens, 1, row_bytes), np.uint8)
    layout = register(list(pools))
    plan = plan_for(layout, pages)
    chunk = np.zeros(plan.only.bytes, np.uint8)
    listed = np.arange(pages)[::-1] * 3
    sums, report = digests_in(plan.only, chunk), new_report(layout)
    size = f"{entries} entries, {pages} x {tokens * row_bytes} B"
    numbers = {}
    calls: dict[str, Callable[[], object]] = {
        "pack": lambda: pack_chunk(layout, listed, chunk),
        "unpack": lambda: unpack_chunk(layout, listed, chunk),
        "pack and digest": lambda: pack_chunk(layout, listed, chunk, digests=sums),
        "unpack and verify": lambda: unpack_chunk(
            layout, listed, chunk, expected=sums, report=report
        ),
    }
    for name, call in calls.items():
        call()
        batches = []
        for _ in range(ROUNDS):
            begin = perf_counter()
            for _ in range(100):
                call()
            batches.append((perf_counter() - begin) / 100)
        numbers[f"{name}, {size}"] = f"{min(batches) * 1e6:.1f} us"
    return numbers


def units(*, quick: bool, threads: int = 1) -> dict[str, Unit]:
    """The measurements by name. quick: only a few. threads: of our copies; the copy that they are
    compared with has one.
    """
    cases = CASES[:1] if quick else CASES
    launch = Launch(threads=threads)
    found: dict[str, Unit] = {case[0]: partial(_rows, (*case, launch)) for case in cases}
    return found | {"small chunks": _numbers}


def _rows(case: tuple[Any, ...], results: Results) -> None:
    results.rows.extend(_case(*case))


def _numbers(results: Results) -> None:
    for small in SMALL:
        results.numbers.update(_small(*small))


def measure(chosen: Mapping[str, Unit], results: Results, threads: int = 1) -> None:
    """Run the measurements; both times of a ratio are taken alternately. threads: as told."""
    results.facts.update({
        "processor": _processor(),
        "versions": f"Python {platform.python_version()}, numpy {np.__version__}",
        "method": f"{threads} threads of ours, {ROUNDS} rounds in turns, medians; the copy is "
                  "numpy.copyto on one",
    })  # fmt: skip
    for unit in chosen.values():
        unit(results)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
