"""Copies between pools on a device and buffers in host memory, on a stream of their own.

Rule 1: a chunk is packed behind the pass that computes its pages (property S15), and unpacked
        behind the passes that have used its pages for earlier requests. The caller's thread marks
        that point when it hands the pages over, and the stream waits for it.
Rule 2: a kernel or a copy that still runs uses the pages. So a chunk counts as packed, and pages
        count as written, only when the event behind the last of its work has happened. The same
        holds for a chunk of which the device has refused a part of the work.
Rule 3: nothing here waits for the device, and all buffers are used again. The worker of the data
        path waits a moment if the device is too far behind to take more work, and for the head of
        a write that has landed on the device.

If the engine has the device carry its bytes, a chunk stays on the device until the sink has granted
the write, and then goes straight to the memory that the sink has leased. Otherwise the engine sends
it from pinned host memory: the kernel packs a small chunk there, and a larger one on the device,
from where it is copied. What has landed on the device is unpacked from there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import torch

from pdproto.engine.contract import Extent
from pdproto.engine.memory import size_class
from pdproto.kernels.arguments import ALIGNMENT, Launch
from pdproto.kernels.chunk import KVLayout, digests_in, new_report, plan_for
from pdproto.kernels.prepared import prepare_pack, prepare_unpack
from pdproto.pages.copies import (
    LAYOUTS_KEPT,
    Bytes,
    Computed,
    NoEvent,
    Spares,
    Staged,
    Unpacked,
)
from pdproto.pages.device import Device, DeviceError, DeviceEvent, DeviceStream
from pdproto.pages.device_buffers import NUMBER_BYTES, WAYS_KEPT, Buffers, Way
from pdproto.pages.device_health import DeviceHealth
from pdproto.pages.tensors import address_of, host_tensor

BEHIND_S: Final = 30.0  # a device that takes no work for so long counts as failed
PAUSE_S: Final = 0.000_1


class Carried:
    """A head and a packed chunk, of which one may be missing; see DeviceBytes."""

    def __init__(self, copies: "DeviceCopies", head: bytes, chunk: Any = None) -> None:
        self._copies: Final = copies
        self._head: Final = head
        self._chunk: Final = chunk
        self.nbytes: Final = len(head) + (0 if chunk is None else len(chunk))
        self.pin: Final = copies.pin

    @property
    def extents(self) -> tuple[Extent, ...]:
        """See DeviceBytes."""
        return self._copies.extents(self._head, self._chunk)

    def copy_to(self, place: Any) -> Callable[[], bool]:
        """See DeviceBytes."""
        return self._copies.carry(self._head, self._chunk, place)


class DeviceCopies:
    """The copies of pools on a device; see Copies. pools: where torch says that the pools are.
    carries: the engine has the device carry the bytes of its writes.
    """

    over_link_max = 1 << 20
    """Bytes of a chunk that a kernel packs to host memory itself: 1 MB takes 23 us, and 32 us with
    the copy engine. More bytes take as long in both ways, and a kernel keeps its multiprocessors
    (kernels/RESULTS.md).
    """

    def __init__(self, device: Device, pools: str, *, carries: bool = False) -> None:
        self._device: Final = device
        self.shares: Final = DeviceHealth(device)
        self._failed: Final = self.shares.failed
        self.pin: Final = self.shares.pin
        self._pools: Final = pools
        self._stream: Final = device.stream()
        self._carrier: Final = device.stream()  # copies of one chunk, while another is packed
        self._carries: Final = carries
        self._packs: Final[Spares[Buffers]] = Spares()
        self._unpacks: Final[Spares[Buffers]] = Spares()
        self._placed: Final = lru_cache(LAYOUTS_KEPT)(self._place)

    @property
    def broken(self) -> str | None:
        """See Copies."""
        return self.shares.broken

    def begin_thread(self) -> None:
        """See Copies."""
        self._stream.adopt()

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
        if not pages:
            return self.stage(head)
        length = len(head) + plan_for(layout, len(pages)).only.bytes
        buffers = self._take(self._packs, length, len(pages))
        way = self._way(buffers, layout, len(pages), len(head))
        keep = partial(self._packs.keep, buffers.fits, buffers)
        self._tell(self._packs, buffers, way, pages)
        is_padded, buffers.padded = buffers.padded is way, way

        def pack(launch: Launch) -> None:
            if not is_padded:  # the padding is sent as well: it must hold no secret
                way.padding.zero_()
            way.copy.enqueue(key, launch)

        def enqueue() -> None:
            self._wait(after)
            self._run(pack)
            if way.host is not None:
                self._stream.copy(way.host, way.chunk)

        done = self._enqueued(self._stream, enqueue)
        if way.view is None:
            return Staged((), length, done, keep, Carried(self, head, way.chunk))
        way.view[:len(head)] = np.frombuffer(head, np.uint8)
        return Staged([way.view], length, done, keep)

    def stage(self, head: bytes) -> Staged:
        """See Copies."""
        if self._carries:
            return Staged((), len(head), carried=Carried(self, head))
        return Staged([head], len(head))

    def carry(self, head: bytes, chunk: Any, place: Any) -> Callable[[], bool]:
        """Copy a head and a chunk to a place of the sink's memory; see DeviceBytes."""
        if isinstance(place, np.ndarray):
            place = host_tensor(address_of(place), len(place), place)

        def enqueue() -> None:
            if head:
                self._carrier.copy(place[:len(head)], torch.frombuffer(bytearray(head),
                                                                       dtype=torch.uint8))
            if chunk is not None:
                self._carrier.copy(place[len(head):], chunk)

        return self._enqueued(self._carrier, enqueue)

    def extents(self, head: bytes, chunk: Any) -> tuple[Extent, ...]:
        """Where a head and a chunk are; see DeviceBytes."""
        parts = []
        if head:
            parts.append(Extent(address_of(np.frombuffer(head, np.uint8)), len(head)))
        if chunk is not None:
            parts.append(Extent(chunk.data_ptr(), len(chunk), self._device.gpu))
        return tuple(parts)

    def landed(self, view: Any) -> Any:
        """See Copies."""
        return np.frombuffer(view, np.uint8) if isinstance(view, memoryview) else view

    def fetch(self, landed: Any) -> Bytes:
        """See Copies. Raises DeviceError if the device does not do it."""
        if isinstance(landed, np.ndarray):
            return landed
        here = self._device.host_memory(len(landed))
        is_over = self._enqueued(self._carrier, lambda: self._carrier.copy(here, landed))
        end = monotonic() + BEHIND_S
        while not is_over():
            if monotonic() > end:
                raise DeviceError(f"{self._device.name} does not copy {len(landed)} bytes")
            sleep(PAUSE_S)
        found: Bytes = here.numpy()
        return found

    def unpack(
        self, layout: KVLayout, landed: Any, pages: Sequence[int], key: int,
        after: DeviceEvent | None = None,
    ) -> Unpacked:
        """See Copies. The landed bytes are read until the copy is ready."""
        length = plan_for(layout, len(pages)).only.bytes
        is_host = isinstance(landed, np.ndarray)
        landed = host_tensor(address_of(landed), length, landed) if is_host else landed[:length]
        is_here = not is_host and landed.data_ptr() % ALIGNMENT == 0
        buffers = self._take(self._unpacks, 0 if is_here else length, len(pages))
        way = self._way(buffers, layout, len(pages), landed=landed if is_here else None)
        report = buffers.reports[layout]
        self._tell(self._unpacks, buffers, way, pages)

        def check(launch: Launch) -> None:
            way.copy.enqueue(key, launch)
            report.fetch()

        def enqueue() -> None:
            if not is_here:
                self._stream.copy(way.chunk, landed)
            self._wait(after)
            self._run(check)

        def clean() -> bool:
            outcome = report.read()
            if not outcome.clean:
                report.clear()
            self._unpacks.keep(buffers.fits, buffers)
            return outcome.clean

        return Unpacked(clean, self._enqueued(self._stream, enqueue))

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
        fits = size_class(length) if length else 0, size_class(NUMBER_BYTES * count)

        def make() -> Buffers:
            try:
                return Buffers(
                    fits, spares is self._packs, self._device.memory(sum(fits)),
                    self._device.host_memory(fits[0])
                    if spares is self._packs and not self._carries else None,
                    self._device.host_memory(fits[1]))
            except RuntimeError as error:
                raise self._failed(error) from error

        return spares.take(fits, make)

    def _way(
        self, buffers: Buffers, layout: KVLayout, count: int, head: int = 0, landed: Any = None
    ) -> Way:
        """The way of chunks of so many pages behind a head of so many bytes. landed: the chunk, if
        it is on the device already.
        """
        key = layout, count, head, 0 if landed is None else landed.data_ptr()
        way = buffers.ways.get(key)
        if way is None:
            if len(buffers.ways) >= WAYS_KEPT:
                buffers.ways.clear()
            way = buffers.ways[key] = self._new_way(buffers, layout, count, head, landed)
        return way

    def _new_way(
        self, buffers: Buffers, layout: KVLayout, count: int, head: int, landed: Any
    ) -> Way:
        placed, plan = self._placed(layout), plan_for(layout, count).only
        view = None if buffers.host is None else buffers.host[:head + plan.bytes]
        host = None if view is None else view[head:]
        if landed is not None:  # a way outlives the lease, and must not keep its memory
            chunk = self._device.at(landed.data_ptr(), plan.bytes)
        elif host is not None and plan.bytes <= self.over_link_max and not head % ALIGNMENT:
            chunk, host = host, None
        else:
            chunk = buffers.device[:plan.bytes]
        numbers, digests = buffers.numbers_of(count), digests_in(plan, chunk)
        if buffers.packs:
            copy = prepare_pack(placed, chunk, numbers, digests=digests)
        else:
            if layout not in buffers.reports:
                buffers.reports[layout] = new_report(placed)
            copy = prepare_unpack(placed, chunk, numbers, expected=digests,
                                  report=buffers.reports[layout])
        padding = chunk[plan.payload_bytes:plan.digest_offset]
        return Way(copy, chunk, padding, host, None if view is None else view.numpy())

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

    def _enqueued(self, stream: DeviceStream, enqueue: Callable[[], None]) -> Callable[[], bool]:
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
            end = stream.record()

        def is_over() -> bool:
            nonlocal refused, end
            try:
                if end is None:  # an event that is recorded later is behind the work, too
                    end = stream.record()
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
