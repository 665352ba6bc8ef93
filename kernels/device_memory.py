"""Buffers on the device besides pools and chunks. All are made before the first chunk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from pdproto.kernels.arguments import IN_FLIGHT
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, HeadRange
from pdproto.kernels.report import NO_BAD_INDEX, Outcome, outcome_of, report_words
from pdproto.kernels.table import Table, table_of
from pdproto.kernels.uplink import Uplink

PEERS_MAX: Final = 1024


def torch_device(layout: KVLayout) -> torch.device:
    """The device that tensors for `layout` live on."""
    return torch.device("cpu" if layout.device == "interpreter" else layout.device)


def on_stream(stream: Any) -> AbstractContextManager[Any]:
    """Make `stream` the current one, unless it is already; None changes nothing.

    To look takes 1.6 us and to change it 9 us (H100, torch 2.11).
    """
    if stream is None:
        return nullcontext()
    if torch.cuda.current_stream(stream.device_index) == stream:
        return nullcontext()
    return torch.cuda.stream(stream)


def capturing(device: torch.device) -> bool:
    """Whether work for that device's current stream goes into a graph that is being captured."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def refuse_capture(device: torch.device, what: str) -> None:
    """Refuse to make, while a graph is captured, buffers that `warmup` makes: making them waits."""
    if capturing(device):
        raise RuntimeError(
            f"warmup: must have made {what} before a graph is captured: call it for this layout"
            " with the peers, orders and scales of the graph"
        )


class DeviceReport:
    """A report in device memory, fetched along the stream of the last copy that had it."""

    def __init__(self, pages_max: int, device: str) -> None:
        real = "cpu" if device == "interpreter" else device
        cuda = real != "cpu"
        self.words = torch.zeros(report_words(pages_max), dtype=torch.int32, device=real)
        self.home = torch.empty(self.words.shape, dtype=torch.int32, pin_memory=cuda)
        self._told = self.home.numpy()
        self.stream: Any = torch.cuda.current_stream(real) if cuda else None
        self._fetched: Any = torch.cuda.Event() if cuda else None  # type: ignore[no-untyped-call]
        self._pending = False
        self.words[:1].fill_(NO_BAD_INDEX)

    def follow(self, stream: Any) -> None:
        """Order a copy on `stream` after all earlier uses of the report.

        Without the wait, the words could be cleared after a kernel on another stream has found an
        error, and damaged pages would look clean. While a graph is captured, waiting is impossible
        and all copies belong to the graph: the report stays with its stream.
        """
        if stream is None or stream == self.stream:
            return
        if self.words.is_cuda:
            with on_stream(stream):
                if capturing(self.words.device):
                    return
        if self.stream is not None:
            stream.wait_stream(self.stream)
        self.stream = stream

    def fetch(self) -> None:
        """Enqueue a copy of the findings so far to host memory; waits for nothing."""
        with on_stream(self.stream):
            self.home.copy_(self.words, non_blocking=True)
            if self._fetched is not None:
                self._fetched.record()
        self._pending = True

    def ready(self) -> bool:
        """See Report."""
        return self._pending and (self._fetched is None or bool(self._fetched.query()))

    def read(self) -> Outcome:
        """See Report."""
        if not self._pending:
            self.fetch()
        if self._fetched is not None and not self._fetched.query():
            self._fetched.synchronize()
        self._pending = False
        return outcome_of(self._told)

    def clear(self) -> None:
        """See Report."""
        with on_stream(self.stream):
            self.words.zero_()
            self.words[:1].fill_(NO_BAD_INDEX)


@dataclass
class Binding:
    """The buffers and tables of a layout on its device.

    Its lock is taken to make a table, never to find one.
    """

    uplink: Uplink
    sink: torch.Tensor  # for the findings of a copy without a report; never read
    nothing: torch.Tensor  # an argument in place of a chunk that the kernel does not read
    nothing_listed: torch.Tensor  # the same in place of page numbers
    tables: dict[tuple[Order, tuple[HeadRange, ...] | None], tuple[Table, torch.Tensor]] = field(
        default_factory=dict
    )
    lock: Lock = field(default_factory=Lock)


_BINDINGS: Final[WeakKeyDictionary[KVLayout, Binding]] = WeakKeyDictionary()
BINDING: Final = Lock()


def binding_of(layout: KVLayout, in_flight: int = IN_FLIGHT) -> Binding:
    """The binding of a layout; the first call makes it: `warmup`, or else a copy."""
    binding = _BINDINGS.get(layout)
    if binding is None:
        with BINDING:
            binding = _BINDINGS.get(layout)
            if binding is None:
                binding = _BINDINGS[layout] = _new_binding(layout, in_flight)
    return binding


def _new_binding(layout: KVLayout, in_flight: int) -> Binding:
    device = torch_device(layout)
    refuse_capture(device, "the buffers of this layout")
    words = report_words(layout.chunk_pages_max)
    return Binding(
        uplink=Uplink(layout.chunk_pages_max + 2 * PEERS_MAX, device, in_flight),
        sink=torch.zeros(words, dtype=torch.int32, device=device),
        nothing=torch.zeros(128, dtype=torch.uint8, device=device),
        nothing_listed=torch.zeros(1, dtype=torch.int64, device=device),
    )


def bound_table(
    binding: Binding, layout: KVLayout, plan: ChunkPlan, peers: Sequence[HeadRange] | None
) -> tuple[Table, torch.Tensor]:
    """The table of a copy, in host memory and on the device; the first call makes it."""
    key = (plan.order, None if peers is None else tuple(peers))
    bound = binding.tables.get(key)
    if bound is None:
        with binding.lock:
            bound = binding.tables.get(key)
            if bound is None:
                device = torch_device(layout)
                refuse_capture(device, "the table of these peers and this order")
                table = table_of(layout, plan)
                bound = binding.tables[key] = table, torch.from_numpy(table.rows).to(device)
    return bound
