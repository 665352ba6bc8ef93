"""Launch a compiled kernel: every call on a device does it through here."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from pdproto.kernels.arguments import Launch, check_report
from pdproto.kernels.device_memory import (
    Binding,
    DeviceReport,
    capturing,
    on_stream,
    refuse_capture,
)
from pdproto.kernels.report import Report
from pdproto.kernels.uplink import Turn

OPTIONS: Final = {"enable_fp_fusion": False}
"""A scale times an element is rounded by itself, as in `fp8`, whatever Triton's default is."""

_COMPILED: Final[dict[tuple[Any, ...], Any]] = {}
_COMPILING: Final = Lock()


def run(
    kernel: Any, variant: tuple[Any, ...], grid: int, stream: Any, arguments: tuple[Any, ...],
    *, warps: int, pages: int,
) -> None:  # fmt: skip
    """Launch the compiled kernel directly: Triton's own look-up costs more than the launch.

    A kernel is compiled for a variant and the type of the page numbers (argument number `pages`).
    Its other arguments do not choose the compiled kernel.
    """
    if not isinstance(kernel, triton.runtime.JITFunction):
        kernel[(grid,)](*arguments, *variant)  # the interpreter
        return
    key = (kernel, variant, arguments[pages].dtype, arguments[0].device)
    compiled = _COMPILED.get(key)
    if compiled is None:
        # One thread at a time, for Triton loads a kernel in steps that another could see.
        with _COMPILING, torch.cuda.stream(stream):
            refuse_capture(arguments[0].device, "this kernel")
            # Triton's own launch compiles first, and goes to the current stream.
            _COMPILED[key] = kernel[(grid,)](*arguments, *variant, num_warps=warps, **OPTIONS)
        return
    # The launcher asks the driver about each tensor, and about no address.
    addresses = [argument.data_ptr() if isinstance(argument, torch.Tensor) else argument
                 for argument in arguments]
    with torch.cuda.device(arguments[0].device):
        compiled[(grid, 1, 1)](*addresses, *variant, stream=stream.cuda_stream)


def stream_for(on: torch.Tensor, launch: Launch, report: Report | None) -> Any:
    """The stream to launch on, and to fetch the report on. None without a GPU."""
    stream = launch.stream
    if stream is None and on.is_cuda:
        stream = torch.cuda.current_stream(on.device)
    elif stream is not None and stream.device != on.device:
        raise ValueError(f"launch: its stream is on {stream.device}, the pools are on {on.device}")
    if isinstance(report, DeviceReport):
        report.follow(stream)
    return stream


def device_words(binding: Binding, report: Report | None) -> torch.Tensor:
    """The words for the kernel's report; without a report, words that are never read."""
    if report is None:
        return binding.sink
    if not isinstance(report, DeviceReport) or report.words.device != binding.sink.device:
        raise TypeError("report: want one from new_report(layout) of this layout")
    check_report(report.words.shape[0], binding.sink.shape[0])
    return report.words


def device_numbers(
    binding: Binding,
    pages: NDArray[np.int64] | torch.Tensor | None,
    chunks: Sequence[torch.Tensor],
    digests: Sequence[torch.Tensor] | None,
    launch: Launch,
) -> tuple[torch.Tensor, torch.Tensor, Turn | None]:
    """Page numbers and the places of several peers' chunks on the device, sent by at most one copy.

    The third value is the turn of the uplink: the caller tells it when the kernel is `launched`. It
    is None if no numbers were sent. Places are int64 [2, peer]: bytes from the first chunk, and
    digests from the first digests. An argument that the kernel does not read is any tensor.
    Raises ValueError if numbers would have to be sent while a graph is captured: a replay would
    send the numbers of a later chunk.
    """
    peers = len(chunks) if len(chunks) > 1 else 0
    pieces = []
    if peers:
        places = np.zeros((2, peers), np.int64)
        places[0] = [chunk.data_ptr() - chunks[0].data_ptr() for chunk in chunks]
        if digests:
            first = digests[0].data_ptr()
            places[1] = [(sums.data_ptr() - first) // 8 for sums in digests]
        pieces.append(places.ravel())
    if isinstance(pages, np.ndarray):
        pieces.append(pages)
    placed, turn = binding.nothing_listed, None
    if pieces:
        with on_stream(launch.stream):
            if capturing(binding.sink.device):
                raise ValueError(_not_in_a_graph(peers))
            placed, turn = binding.uplink.send(pieces)
    if pages is None:
        return binding.nothing_listed, placed, turn
    return (pages if isinstance(pages, torch.Tensor) else placed[2 * peers :]), placed, turn


def _not_in_a_graph(peers: int) -> str:
    if peers:
        return f"chunks: one peer a call while a graph is captured, got {peers}"
    return "pages: want them on the device while a graph is captured, got host memory"
