"""Run the tests of the interpreter on compiled kernels: a pytest plugin, see `make test-ptx`.

    TRITON_INTERPRET=0 python -m pytest tests/kernels -k interpreter -p tests.kernels.emulated

Triton must not interpret in the process. Every launch on the device "interpreter" is compiled for
sm_90 by the Triton that is installed, and its PTX runs in `ptx`. A program may touch the memory of
its launch only: pools, chunks, digests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
import torch
import triton

from lab.casts import device as casts
from lab.casts.kernel import COLUMNS as CAST_COLUMNS
from pdproto.kernels import device, page_copy
from tests.kernels.codegen import compiled
from tests.kernels.ptx import Program, Requests

TILES_MAX: Final = 4000
TOO_LARGE: Final = f"tier ptx: more than {TILES_MAX} tiles are for the interpreter"
FEW_BLOCKS: Final = 7
"""Every other launch has no more, so that each block takes several tiles, as with ctas_max."""

_PROGRAMS: Final[dict[Any, Program]] = {}
_LAUNCHED: Final[Counter[str]] = Counter()


def run(
    kernel: Any, variant: tuple[Any, ...], grid: int, stream: Any, arguments: tuple[Any, ...],
    *, warps: int, pages: int,
) -> dict[str, Requests]:  # fmt: skip
    """`device_launch.run` on a CPU. Returns the accesses to global memory, see `ptx`."""
    del stream
    named = dict(zip(kernel.arg_names, arguments, strict=False))
    key = (kernel, variant, arguments[pages].dtype, warps)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = Program(compiled(*key)["ptx"])
    if named["tiles"] > TILES_MAX:
        pytest.skip(TOO_LARGE)
    _LAUNCHED["launches"] += 1
    if _LAUNCHED["launches"] % 2:
        grid = min(grid, FEW_BLOCKS)
    numbers = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments]
    return _PROGRAMS[key].run(numbers, grid, _spans(kernel, named))


def _spans(kernel: Any, named: dict[str, Any]) -> list[tuple[int, int]]:
    """[start, end) of everything that a launch may touch, from its arguments and its table."""
    tensors = [value for value in named.values() if isinstance(value, torch.Tensor)]
    spans = [(one.data_ptr(), one.data_ptr() + one.nbytes) for one in tensors]
    columns = page_copy.COLUMNS if kernel is page_copy.copy_kernel else CAST_COLUMNS
    rows = named["table_ptr"].reshape(-1, columns.value).tolist()
    for row in rows:
        spans.append((row[0], row[0] + named["pool_pages"] * row[1]))
    peers = named.get("peers", 1)
    if peers > 1 and named["tiles"]:  # a launch without work has no chunks
        spans += _of_peers(named, rows)
    return spans


def _of_peers(named: dict[str, Any], rows: list[list[int]]) -> Iterator[tuple[int, int]]:
    """The chunks and digests of each peer."""
    peers, pages = named["peers"], named["pages"]
    chunk, digests = named["chunk_ptr"].data_ptr(), named["digest_ptr"].data_ptr()
    ahead, sums = named["peer_ptr"][: 2 * peers].reshape(2, peers).tolist()
    for peer in range(peers):
        mine, at = rows[peer::peers], chunk + ahead[peer]
        yield at, at + pages * max(row[2] + row[3] for row in mine)
        if named["digest_ptr"] is not named["table_ptr"]:  # which stands for none
            yield digests + 8 * sums[peer], digests + 8 * (sums[peer] + pages * len(mine))


def pytest_configure() -> None:
    """Compiled kernels in place of interpreted ones, in this process from now on."""
    for module in (device, casts):
        module.run = run  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"{_LAUNCHED['launches']} launches of {len(_PROGRAMS)} programs by Triton"
        f" {triton.__version__} ran as PTX"
    )
