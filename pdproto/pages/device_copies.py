"""Copies between pools on a device and buffers in host memory, on a stream of their own.

Rule 1: a chunk is packed behind the pass that computes its pages (property S15), and unpacked
        behind the passes that have used its pages for earlier requests. The caller's thread marks
        that point when it hands the pages over, and the stream waits for it.
Rule 2: a kernel or a copy that still runs uses the pages. So a chunk counts as packed, and pages
        count as written, only when the event behind the last of its work has happened. The same
        holds for a chunk of which the device has refused a part of the work.
Rule 3: nothing here waits for the device, and all buffers are used again. The worker of the data
        path waits a moment if the device is too far behind to take more work.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pdproto.engine.memory import size_class
from pdproto.kernels.arguments import Launch, Numbers
from pdproto.kernels.chunk import KVLayout, Report, digests_in, new_report, plan_for
from pdproto.kernels.prepared import Prepared, prepare_pack, prepare_unpack
from pdproto.pages.copies import (
    LAYOUTS_KEPT,
    Bytes,
    Computed,
    NoEvent,
    Spares,
    Staged,
    Unpacked,
)
from pdproto.pages.device import Device, DeviceError, DeviceEvent
from pdproto.pages.tensors import address_of, host_tensor

BEHIND_S: Final = 30.0  # a device that takes no work for so long counts as failed
PAUSE_S: Final = 0.000_1
NUMBER_BYTES: Final = 8  # of a page number
WAYS_KEPT: Final = 64  # for each chunk's memory


@dataclass(eq=False, slots=True)
class Way:
    """The prepared copy of chunks of one number of pages, and views of the memory of the chunk.

    padding: between payload and digests. host: where the chunk goes, or None. view: the bytes of a
    write: a head, and the chunk.
    """

    copy: Prepared
    chunk: Any
    padding: Any
    host: Any
    view: Bytes


@dataclass(eq=False, slots=True)
class Buffers:
    """Memory for one chunk and its page numbers.

    fits: bytes of a chunk, and of its page numbers. device: for both. host, numbers: pinned, for
    the bytes of a write, if there is one, and for page numbers. padded: the way whose padding is
    empty. reports: of the chunks that were unpacked.
    """

    fits: tuple[int, int]
    device: Any
    host: Any
    numbers: Any
    ways: dict[tuple[KVLayout, int, int], Way] = field(default_factory=dict)
    padded: Way | None = None
    reports: dict[KVLayout, Report] = field(default_factory=dict)

    def numbers_of(self, count: int) -> Numbers:
        """Memory for so many page numbers; on the device it follows that of the chunk."""
        length, behind = NUMBER_BYTES * count, self.fits[0]
        return Numbers(self.numbers[:length].view(torch.int64),
                       self.device[behind:behind + length].view(torch.int64))


class DeviceCopies:
    """The copies of pools on a device; see Copies. pools: where torch says that the pools are."""

    def __init__(self, device: Device, pools: str) -> None:
        self._device: Final = device
        self._pools: Final = pools
        self.broken: str | None = None
        self._stream: Final = device.stream()
        self._packs: Final[Spares[Buffers]] = Spares()
        self._unpacks: Final[Spares[Buffers]] = Spares()
        self._placed: Final = lru_cache(LAYOUTS_KEPT)(self._place)

    def pin(self, memory: NDArray[Any]) -> Callable[[], None]:
        """See Device."""
        try:
            return self._device.pin(memory)
        except OSError as error:
            if self._device.lost():
                raise OSError(str(self._failed(error))) from error
            raise

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See Copies: everything that the caller has given the device until now comes first.

        If the device cannot mark that point, the copy of these pages fails, and not the caller.
        """
        if isinstance(pages, Computed):
            return pages
        try:
            return Computed.by(pages, self._device.passed())
        except RuntimeError as error:
            return Computed.by(pages, NoEvent(self._failed(error)))

    def pack(
        self, layout: KVLayout, pages: Sequence[int], key: int, head: bytes = b"",
        after: DeviceEvent | None = None,
    ) -> Staged:
        """See Copies."""
        length = len(head) + plan_for(layout, len(pages)).only.bytes
        buffers = self._take(self._packs, length, len(pages))
        way = self._way(buffers, layout, len(pages), len(head))
        if head:
            way.view[:len(head)] = np.frombuffer(head, np.uint8)
        keep = partial(self._packs.keep, buffers.fits, buffers)
        if not pages:
            return Staged([way.view], length, keep=keep)
        self._tell(self._packs, buffers, way, pages)
        is_padded, buffers.padded = buffers.padded is way, way

        def pack(launch: Launch) -> None:
            if not is_padded:  # the padding is sent as well: it must hold no secret
                way.padding.zero_()
            way.copy.enqueue(key, launch)

        def enqueue() -> None:
            self._wait(after)
            self._run(pack)
            self._stream.copy(way.host, way.chunk)

        return Staged([way.view], length, self._enqueued(enqueue), keep)

    def unpack(
        self, layout: KVLayout, landed: Bytes, pages: Sequence[int], key: int,
        after: DeviceEvent | None = None,
    ) -> Unpacked:
        """See Copies. The landed bytes are read until the copy is ready."""
        length = plan_for(layout, len(pages)).only.bytes
        buffers = self._take(self._unpacks, length, len(pages))
        way = self._way(buffers, layout, len(pages))
        report = buffers.reports[layout]
        self._tell(self._unpacks, buffers, way, pages)

        def check(launch: Launch) -> None:
            way.copy.enqueue(key, launch)
            report.fetch()

        def enqueue() -> None:
            self._stream.copy(way.chunk, host_tensor(address_of(landed), length, landed))
            self._wait(after)
            self._run(check)

        def clean() -> bool:
            outcome = report.read()
            if not outcome.clean:
                report.clear()
            self._unpacks.keep(buffers.fits, buffers)
            return outcome.clean

        return Unpacked(clean, self._enqueued(enqueue))

    def warm(self, layout: KVLayout) -> None:
        """See Copies."""
        if layout.device != self._pools:
            raise ValueError(f"pools on {layout.device} and on {self._pools}: one data path copies "
                             f"the pools of one device: keep all pools of a rank on it")
        length = plan_for(layout, 1).only.bytes
        for spares in (self._packs, self._unpacks):
            buffers = self._take(spares, length, 1)
            try:
                self._run(self._way(buffers, layout, 1).copy.warm)
            except RuntimeError as error:
                raise self._failed(error) from error
            spares.keep(buffers.fits, buffers)

    def _take(self, spares: Spares[Buffers], length: int, count: int) -> Buffers:
        """Memory for a write of so many bytes and pages."""
        fits = size_class(length), size_class(NUMBER_BYTES * count)

        def make() -> Buffers:
            try:
                return Buffers(
                    fits, self._device.memory(sum(fits)),
                    self._device.host_memory(fits[0]) if spares is self._packs else None,
                    self._device.host_memory(fits[1]))
            except RuntimeError as error:
                raise self._failed(error) from error

        return spares.take(fits, make)

    def _way(self, buffers: Buffers, layout: KVLayout, count: int, head: int = 0) -> Way:
        """The way of chunks of so many pages behind a head of so many bytes."""
        way = buffers.ways.get((layout, count, head))
        if way is None:
            if len(buffers.ways) >= WAYS_KEPT:
                buffers.ways.clear()
            way = buffers.ways[layout, count, head] = self._new_way(buffers, layout, count, head)
        return way

    def _new_way(self, buffers: Buffers, layout: KVLayout, count: int, head: int) -> Way:
        placed, plan = self._placed(layout), plan_for(layout, count).only
        chunk, numbers = buffers.device[:plan.bytes], buffers.numbers_of(count)
        digests, packs = digests_in(plan, chunk), buffers.host is not None
        if packs:
            copy = prepare_pack(placed, chunk, numbers, digests=digests)
        else:
            if layout not in buffers.reports:
                buffers.reports[layout] = new_report(placed)
            copy = prepare_unpack(placed, chunk, numbers, expected=digests,
                                  report=buffers.reports[layout])
        host = buffers.host[:head + plan.bytes] if packs else numbers.host
        return Way(copy, chunk, chunk[plan.payload_bytes:plan.digest_offset], host[head:],
                   host.numpy())

    @staticmethod
    def _tell(spares: Spares[Buffers], buffers: Buffers, way: Way, pages: Sequence[int]) -> None:
        """Note the page numbers. A number that is refused costs no memory."""
        try:
            way.copy.tell(pages)
        except ValueError:
            spares.keep(buffers.fits, buffers)
            raise

    def _place(self, layout: KVLayout) -> KVLayout:
        return replace(layout, device=self._device.kernels or layout.device)

    def _wait(self, after: DeviceEvent | None) -> None:
        """Have the stream wait for an event."""
        if isinstance(after, NoEvent):
            after.query()
        elif after is not None:
            self._stream.wait(after)

    def _run(self, work: Callable[[Launch], object]) -> None:
        """Have the stream do this work. Raises RuntimeError if the device takes none."""
        end = monotonic() + BEHIND_S
        while True:
            try:
                self._stream.run(work)
                return
            except BlockingIOError as error:
                if monotonic() > end:
                    raise DeviceError(f"{self._device.name} takes no work: {error}") from error
                sleep(PAUSE_S)
            except OSError as error:
                raise DeviceError(
                    f"{self._device.name}: a kernel cannot be compiled: {error}: set "
                    f"TRITON_CACHE_DIR to a folder that this process can write to") from error

    def _enqueued(self, enqueue: Callable[[], None]) -> Callable[[], bool]:
        """Give the stream work. Returns whether the work is over, for the caller to ask.

        If the device refuses a part of it, that is raised when the other part is over: it uses the
        same pages.
        """
        refused: DeviceError | None = None
        end: DeviceEvent | None = None
        try:
            enqueue()
        except (RuntimeError, ValueError) as error:
            refused = self._failed(error)
        with suppress(RuntimeError):
            end = self._stream.record()

        def is_over() -> bool:
            nonlocal refused, end
            try:
                if end is None:  # an event that is recorded later is behind the work, too
                    end = self._stream.record()
                if not end.query():
                    return False
            except RuntimeError as error:
                refused = refused or self._failed(error)
                if self.broken is None:
                    return False  # nobody knows whether the work is over
            if refused is not None:
                raise refused
            return True

        return is_over

    def _failed(self, error: Exception) -> DeviceError:
        """The error with the device's name; the first one, if the device has failed for good."""
        told, name = str(error), self._device.name
        told = told if told.startswith(name) else f"{name}: {told}"
        if self.broken is None and self._device.lost():
            self.broken = f"{told}: the device has failed for good: restart this process"
        return DeviceError(self.broken or told)
