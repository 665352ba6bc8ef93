"""Copies between pools on a device and buffers in host memory, on a stream of their own.

Rule 1: a chunk is packed behind the pass that computes its pages (property S15): the caller's
        thread marks that point when it hands the pages over, and the stream waits for it.
Rule 2: a kernel or a copy that still runs uses the pages. So a chunk counts as packed, and pages
        count as written, only when the event behind the last of its work has happened.
Rule 3: nothing here waits for the device, and all buffers are used again. The worker of the data
        path waits a moment if the device is too far behind to take more work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import torch

from pdproto.engine.memory import size_class
from pdproto.kernels.arguments import Launch, Numbers
from pdproto.kernels.chunk import KVLayout, Report, digests_in, new_report, plan_for
from pdproto.kernels.prepared import Prepared, prepare_pack, prepare_unpack
from pdproto.pages.copies import LAYOUTS_KEPT, Bytes, Computed, Spares, Staged, Unpacked
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
    """The copies of pools on a device; see Copies."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device
        self.pin: Final = device.pin
        self.broken: str | None = None
        self._stream: Final = device.stream()
        self._packs: Final[Spares[Buffers]] = Spares()
        self._unpacks: Final[Spares[Buffers]] = Spares()
        self._placed: Final = lru_cache(LAYOUTS_KEPT)(self._place)

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See Copies: everything that the caller has given the device until now comes first."""
        return pages if isinstance(pages, Computed) else Computed.by(pages, self._device.passed())

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
        if pages:
            self._tell(self._packs, buffers, way, pages)
            if after is not None:
                self._stream.wait(after)
            is_padded, buffers.padded = buffers.padded is way, way

            def pack(launch: Launch) -> None:
                if not is_padded:  # the padding is sent as well: it must hold no secret
                    way.padding.zero_()
                way.copy.enqueue(key, launch)

            self._run(pack)
            self._stream.copy(way.host, way.chunk)
        return Staged([way.view], length, self._end(),
                      lambda: self._packs.keep(buffers.fits, buffers))

    def unpack(self, layout: KVLayout, landed: Bytes, pages: Sequence[int], key: int) -> Unpacked:
        """See Copies. The landed bytes are read until the copy is ready."""
        length = plan_for(layout, len(pages)).only.bytes
        buffers = self._take(self._unpacks, length, len(pages))
        way = self._way(buffers, layout, len(pages))
        report = buffers.reports[layout]
        self._tell(self._unpacks, buffers, way, pages)
        self._stream.copy(way.chunk, host_tensor(address_of(landed), length, landed))

        def check(launch: Launch) -> None:
            way.copy.enqueue(key, launch)
            report.fetch()

        self._run(check)

        def clean() -> bool:
            outcome = report.read()
            if not outcome.clean:
                report.clear()
            self._unpacks.keep(buffers.fits, buffers)
            return outcome.clean

        return Unpacked(clean, self._end())

    def warm(self, layout: KVLayout) -> None:
        """See Copies."""
        length = plan_for(layout, 1).only.bytes
        for spares in (self._packs, self._unpacks):
            buffers = self._take(spares, length, 1)
            self._run(self._way(buffers, layout, 1).copy.warm)
            spares.keep(buffers.fits, buffers)

    def _take(self, spares: Spares[Buffers], length: int, count: int) -> Buffers:
        """Memory for a write of so many bytes and pages."""
        fits = size_class(length), size_class(NUMBER_BYTES * count)
        return spares.take(fits, lambda: Buffers(
            fits, self._device.memory(sum(fits)),
            self._device.host_memory(fits[0]) if spares is self._packs else None,
            self._device.host_memory(fits[1])))

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
            except RuntimeError as error:
                raise self._failed(error) from error

    def _end(self) -> Callable[[], bool]:
        """Whether the device has done all work of the stream until now."""
        query = self._stream.record().query

        def is_over() -> bool:
            try:
                return query()
            except RuntimeError as error:
                raise self._failed(error) from error

        return is_over

    def _failed(self, error: RuntimeError) -> DeviceError:
        """The error with the device's name. It is noted if the device has failed for good."""
        told = f"{self._device.name}: {error}"
        if self._device.lost():
            self.broken = told = f"{told}: the device has failed for good: restart this process"
        return DeviceError(told)
