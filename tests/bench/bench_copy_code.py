"""Versions of kernels/copy.c: pages to a chunk and back, compared with a copy by libc, in turns.

    git show HEAD~1:kernels/copy.c > /tmp/before.c
    python -m tests.bench.bench_copy_code [--digests] [ROUNDS] /tmp/before.c kernels/copy.c

Pools and the chunk begin a line of the cache, pages are listed at random, and all is of one thread.
Times are of the processor, so that other work on the machine matters less. Prints the medians of
the time of memmove over that of each version. The last line for each page size is that of reading
one word of each line of the same pages.
"""

import ctypes
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels import native
from pdproto.kernels.digest import multipliers

LINE: Final = 64
# bytes of a page: entries, pages of a pool, pages of a chunk
CASES: Final = {
    256: (8, 65536, 32768), 512: (8, 32768, 16384), 1152: (8, 16384, 8192),
    4096: (16, 4096, 2048), 32768: (16, 512, 256),
}  # fmt: skip
ROUNDS: Final = 15
TOUCH: Final = """
#include <stdint.h>
uint64_t touch(uint8_t **pools, uint64_t entries, const int64_t *pages, uint64_t count,
               uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint64_t entry = 0; entry < entries; entry++)
        for (uint64_t i = 0; i < count; i++) {
            for (uint64_t at = 0; i + 8 < count && at < bytes && at < 512; at += 64)
                __builtin_prefetch(pools[entry] + pages[i + 8] * bytes + at);
            for (uint64_t at = 0; at < bytes; at += 64)
                sum += *(volatile uint64_t *)(pools[entry] + pages[i] * bytes + at);
        }
    return sum;
}
"""


def _compiled(source: Path, folder: Path) -> ctypes.CDLL:
    made = folder / f"{len(list(folder.iterdir()))}.so"
    subprocess.run(["cc", "-O3", "-std=gnu11", "-shared", "-fPIC", "-I",
                    sysconfig.get_path("include"), str(source), "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


def _at_a_line(length: int, ahead: int = 0) -> NDArray[np.uint8]:
    whole = np.zeros(length + 2 * LINE, np.uint8)
    first = -whole.ctypes.data % LINE + ahead
    return whole[first:first + length]


def _calls(
    libraries: dict[str, ctypes.CDLL], touch: Any, page_bytes: int, *, digests: bool
) -> dict[str, Callable[[], object]]:
    """memmove, each version both ways, and the reads alone."""
    entries, pool_pages, count = CASES[page_bytes]
    random = np.random.default_rng(1)
    pools = [_at_a_line(pool_pages * page_bytes) for _ in range(entries)]
    for pool in pools:
        pool[:] = random.integers(0, 256, pool.size, np.uint8)
    pages = random.permutation(pool_pages)[:count].astype(np.int64)
    chunk = _at_a_line(entries * count * page_bytes)
    other = _at_a_line(chunk.size, 16)  # not as many bytes behind a page of memory as the chunk
    chunk[:], other[:] = 1, 2
    rows = tuple(pool.reshape(-1, page_bytes) for pool in pools)
    route = native.NativeRoutes([native.NativeRoute(rows, np.zeros(1, np.int64), 1)])
    sums, factors = np.empty(entries * count, np.uint64), multipliers(-(-page_bytes // 8))
    scratch = np.empty(page_bytes, np.uint8)
    form = (ctypes.c_uint64 * 4)(  # see Digest in copy.c
        factors.ctypes.data, 1, scratch.ctypes.data, sums.ctypes.data if digests else 0)
    address, number = ctypes.c_void_p, ctypes.c_uint64
    starts = (address * entries)(*(pool.ctypes.data for pool in pools))
    kept = (scratch, factors, sums, pages, pools)

    def copy(library: ctypes.CDLL, name: str) -> Callable[[], object]:
        function = getattr(library, name)
        return lambda: (kept, function(route.array, number(1), address(pages.ctypes.data),
                                       number(count), address(chunk.ctypes.data), form))

    calls: dict[str, Callable[[], object]] = {
        "memmove": lambda: ctypes.memmove(other.ctypes.data, chunk.ctypes.data, chunk.size)}
    for name, library in libraries.items():
        calls[f"pack, {name}"] = copy(library, "kv_gather_parts")
        calls[f"unpack, {name}"] = copy(library, "kv_scatter_parts")
    calls["reads alone"] = lambda: touch(starts, number(entries), address(pages.ctypes.data),
                                         number(count), number(page_bytes))
    return calls


def main(arguments: list[str]) -> int:
    """Print the ratios."""
    digests = "--digests" in arguments
    given = [one for one in arguments if one != "--digests"]
    rounds = int(given.pop(0)) if given and given[0].isdigit() else ROUNDS
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "touch.c").write_text(TOUCH)
        touch = _compiled(folder / "touch.c", folder).touch
        libraries = {one: _compiled(Path(one), folder) for one in given}
        for page_bytes in CASES:
            calls = _calls(libraries, touch, page_bytes, digests=digests)
            took: dict[str, list[float]] = {called: [] for called in calls}
            for _ in range(rounds):
                for called, call in calls.items():
                    began = thread_time()
                    call()
                    took[called].append(thread_time() - began)
            copies = took.pop("memmove")
            for called, times in took.items():
                ratio = median(one / of for one, of in zip(copies, times, strict=True))
                print(f"{page_bytes:6} B  {ratio:5.2f}  {called}")  # noqa: T201 - this is a command
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
