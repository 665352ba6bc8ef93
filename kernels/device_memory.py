"""What lives on the device beside pools and chunks, all of it made before the first chunk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from pdproto.kernels.arguments import IN_FLIGHT
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, HeadRange, Scale
from pdproto.kernels.report import NO_BAD_INDEX, Outcome, outcome_of, report_words
from pdproto.kernels.table import Table, table_of

PEERS_MAX: Final = 1024


def torch_device(layout: KVLayout) -> torch.device:
    """The device that tensors for `layout` live on."""
    return torch.device("cpu" if layout.device == "interpreter" else layout.device)


def on_stream(stream: Any) -> AbstractContextManager[Any]:
    """Make `stream` the current one; None changes nothing."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


class DeviceReport:
    """A report in device memory, fetched along the stream of the last copy that had it."""

    def __init__(self, pages_max: int, device: str) -> None:
        real = "cpu" if device == "interpreter" else device
        cuda = real != "cpu"
        self.words = torch.zeros(report_words(pages_max), dtype=torch.int32, device=real)
        self.home = torch.empty(self.words.shape, dtype=torch.int32, pin_memory=cuda)
        self.stream: Any = torch.cuda.current_stream(real) if cuda else None
        self._fetched: Any = torch.cuda.Event() if cuda else None  # type: ignore[no-untyped-call]
        self._pending = False
        self.words[:1].fill_(NO_BAD_INDEX)

    def follow(self, stream: Any) -> None:
        """A copy on `stream` comes next, after all that happened to the report before.

        Without the wait, words could be cleared after a kernel elsewhere has found something, and
        what is damaged would look clean. While a graph is captured nothing can be waited for, and
        copies are of the graph: the report stays with the stream it was on.
        """
        if stream is None or stream == self.stream:
            return
        if self.words.is_cuda:
            with on_stream(stream):
                if torch.cuda.is_current_stream_capturing():
                    return
        if self.stream is not None:
            stream.wait_stream(self.stream)
        self.stream = stream

    def fetch(self) -> None:
        """Enqueue the way home of what the copies so far find; waits for nothing."""
        with on_stream(self.stream):
            self.home.copy_(self.words, non_blocking=True)
            if self._fetched is not None:
                self._fetched.record()
        self._pending = True

    def ready(self) -> bool:
        return self._pending and (self._fetched is None or bool(self._fetched.query()))

    def read(self) -> Outcome:
        if not self._pending:
            self.fetch()
        if self._fetched is not None:
            self._fetched.synchronize()
        self._pending = False
        return outcome_of(self.home.numpy())

    def clear(self) -> None:
        with on_stream(self.stream):
            self.words.zero_()
            self.words[:1].fill_(NO_BAD_INDEX)


class Uplink:
    """Pinned and device memory for page numbers, in turns, so that none is made per chunk.

    A turn is over when the kernel that reads its numbers is: until then neither copy of them
    may change, whatever stream the next chunk is on.
    """

    def __init__(self, capacity: int, device: torch.device, in_flight: int) -> None:
        self.cuda = device.type == "cuda"
        shape = (in_flight, capacity)
        self.pinned = torch.empty(shape, dtype=torch.int64, pin_memory=self.cuda)
        self.placed = torch.empty(shape, dtype=torch.int64, device=device)
        self.host: NDArray[np.int64] = self.pinned.numpy()
        self.read: list[Any] = [
            torch.cuda.Event() if self.cuda else None  # type: ignore[no-untyped-call]
            for _ in range(in_flight)
        ]
        self.launching = [False] * in_flight
        self.next = 0
        self.lock = Lock()  # threads may pack from one layout at a time, each on its stream

    def send(self, numbers: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, int]:
        """Enqueue one copy of `numbers`, back to back; return where they will be, and the turn.

        The caller launches what reads them and then says so with `launched`. Raises
        BlockingIOError where `in_flight` chunks are still to be copied: the device is that far
        behind, so enqueueing more would only hide it.
        """
        with self.lock:
            turn = self.next
            event = self.read[turn]
            if self.launching[turn] or (event is not None and not event.query()):
                raise BlockingIOError(
                    f"{len(self.read)} chunks are under way: let one finish, or register more"
                    " with warmup(in_flight=)"
                )
            self.launching[turn] = True
            self.next = (turn + 1) % len(self.read)
        end = 0
        try:
            for piece in numbers:
                self.host[turn, end : end + piece.size] = piece
                end += piece.size
            placed = self.placed[turn, :end]
            placed.copy_(self.pinned[turn, :end], non_blocking=True)
        except BaseException:
            self.launching[turn] = False  # nobody will: the turn is free for the next
            raise
        return placed, turn

    def launched(self, turn: int, stream: Any) -> None:
        """The turn is over when what is on `stream` now is done."""
        event = self.read[turn]
        if event is not None:
            event.record(stream)
        self.launching[turn] = False


@dataclass
class Binding:
    """What a layout has on its device."""

    uplink: Uplink
    sink: torch.Tensor  # takes what a copy without a report finds
    nothing: torch.Tensor  # stands for a chunk where there is none
    nothing_listed: torch.Tensor  # stands for numbers where there are none
    cast_tables: dict[tuple[Order, Scale | None], torch.Tensor] = field(default_factory=dict)
    tables: dict[tuple[Order, tuple[HeadRange, ...] | None], tuple[Table, torch.Tensor]] = field(
        default_factory=dict
    )


_BINDINGS: Final[WeakKeyDictionary[KVLayout, Binding]] = WeakKeyDictionary()


def binding_of(layout: KVLayout, in_flight: int = IN_FLIGHT) -> Binding:
    """The binding, made the first time it is asked for: `warmup` asks."""
    binding = _BINDINGS.get(layout)
    if binding is None:
        device = torch_device(layout)
        words = report_words(layout.chunk_pages_max)
        binding = Binding(
            uplink=Uplink(layout.chunk_pages_max + 2 * PEERS_MAX, device, in_flight),
            sink=torch.zeros(words, dtype=torch.int32, device=device),
            nothing=torch.zeros(128, dtype=torch.uint8, device=device),
            nothing_listed=torch.zeros(1, dtype=torch.int64, device=device),
        )
        _BINDINGS[layout] = binding
    return binding


def bound_table(
    binding: Binding, layout: KVLayout, plan: ChunkPlan, peers: Sequence[HeadRange] | None
) -> tuple[Table, torch.Tensor]:
    key = (plan.order, None if peers is None else tuple(peers))
    if key not in binding.tables:
        table = table_of(layout, plan)
        placed = torch.from_numpy(table.rows).to(torch_device(layout))
        binding.tables[key] = (table, placed)
    return binding.tables[key]
