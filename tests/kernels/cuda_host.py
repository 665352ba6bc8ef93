"""CUDA's libraries in place of which the CPU runs: a driver and a runtime in C, for tests.

The kernels' source is compiled for the CPU with them, and a launch runs its threads one by one.
What the real libraries would refuse, these refuse: a stream, a struct or a count that is wrong.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

COMPILER: Final = shutil.which("gcc") or shutil.which("cc")
STREAM: Final = 7
IMAGE: Final = b"\x7fELF"

BEFORE: Final = r"""
#include <stdint.h>
#include <string.h>
#define KERNEL
#define __ldg(place) (*(place))
#define __stcg(place, value) (*(place) = (value))
typedef struct { unsigned long long x, y; } ulonglong2;
static struct { unsigned x, y; } blockIdx, threadIdx, blockDim;
"""

AFTER: Final = r"""
int version = 13000, launched = 0, copied = 0, last_error = 0;

int cuModuleLoadData(void **module, const char *image)
{
    *module = (void *)image;
    return memcmp(image, "\x7f" "ELF", 4) ? 200 : 0;
}

static const char *const names[] = {"warp_per_token", "block_per_piece", "thread_per_page"};

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    for (uintptr_t at = 0; module && at < 3; at++)
        if (strcmp(names[at], name) == 0) {
            *function = (void *)(at + 1);
            return 0;
        }
    return 500;
}

int cuLaunchKernel(
    void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
    unsigned tz, unsigned shared, void *stream, void **given, void **extra)
{
    if (stream != (void *)7 || shared || extra || !x || !y || y > 65535 || z != 1 || ty != 1
        || tz != 1 || !threads || threads > 1024)
        return 1;
    const int counts[] = {10, 1, 4}, which = (int)(uintptr_t)function - 1;
    word a[10];
    for (int at = 0; at < counts[which]; at++)
        a[at] = *(word *)given[at];
    blockDim.x = threads;
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
                if (which == 0)
                    warp_per_token((word *)a[0], (INDEX *)a[1], (char *)a[2], a[3], a[4], a[5],
                                   a[6], a[7], a[8], a[9]);
                else if (which == 1)
                    block_per_piece((word *)a[0]);
                else
                    thread_per_page((char *)a[0], a[1], a[2], (word *)a[3]);
    launched++;
    return 0;
}

int cudaRuntimeGetVersion(int *told)
{
    *told = version;
    return 0;
}

int cudaGetLastError(void)
{
    const int told = last_error;
    last_error = 0;
    return told;
}

int cudaMemcpyAsync(void *target, const void *source, size_t length, int kind, void *stream)
{
    if (kind != 3 || stream != (void *)7)
        return last_error = 1;
    memcpy(target, source, length);
    copied++;
    return 0;
}

struct attributes { int order, hints[4]; unsigned flags; };

/* Of CUDA 13; that of CUDA 12 has the place for a failed copy's index before the stream. */
int cudaMemcpyBatchAsync(
    void **targets, void **sources, size_t *lengths, size_t count, struct attributes *attributes,
    size_t *first, size_t kinds, void *next, void *last)
{
    void *stream = version < 13000 ? last : next;
    if (version < 13000)
        *(size_t *)next = SIZE_MAX;
    if (stream != (void *)7 || attributes->order != 1 || attributes->flags || *first || kinds != 1)
        return last_error = 1;
    for (int at = 0; at < 4; at++)
        if (attributes->hints[at])
            return last_error = 1;
    while (count--) /* in no promised order */
        memcpy(targets[count], sources[count], lengths[count]);
    copied++;
    return 0;
}
"""


def library(source: str, option: str, folder: Path) -> ctypes.CDLL:
    """Compile the kernels and what runs them for the CPU."""
    assert COMPILER is not None
    code, made = folder / "bench.c", folder / "bench.so"
    code.write_text(BEFORE + source + AFTER)
    warnings = ("-Wall", "-Werror", "-Wno-unused-function", "-Wno-int-to-pointer-cast")
    command = [COMPILER, "-O1", "-shared", "-fPIC", *warnings, option, str(code), "-o", str(made)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(made))


class Done:
    """What has been launched and copied in some libraries so far."""

    def __init__(self, libraries: Sequence[ctypes.CDLL]) -> None:
        names = ("launched", "copied")
        self._counts = [ctypes.c_int.in_dll(one, name) for one in libraries for name in names]

    def __call__(self) -> int:
        return sum(count.value for count in self._counts)
