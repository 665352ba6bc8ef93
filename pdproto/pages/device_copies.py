"""Copies between pools on a device and buffers in host memory, on a stream of their own.

Rule 1: a chunk is packed behind the pass that computes its pages (property S15): the caller's
        thread marks that point when it hands the pages over, and the stream waits for it.
Rule 2: a kernel or a copy that still runs uses the pages. So a chunk counts as packed, and pages
        count as written, only when the event behind the last of its work has happened.
Rule 3: nothing here waits for the device, and all buffers are used again. The worker of the data
        path waits a moment if the device is too far behind to take more work.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import torch

from pdproto.engine.memory import size_class
from pdproto.kernels.arguments import Launch
from pdproto.kernels.chunk import (
    KVLayout,
    Report,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    unpack_chunk,
)
from pdproto.pages.copies import LAYOUTS_KEPT, Bytes, Computed, Spares, Staged, Unpacked
from pdproto.pages.device import Device, DeviceError, DeviceEvent
from pdproto.pages.tensors import host_tensor

BEHIND_S: Final = 30.0  # a device that takes no work for so long counts as failed
PAUSE_S: Final = 0.000_1


class Buffers(NamedTuple):
    """Memory for one chunk, on the device and in host memory."""

    device: Any
    host: Any


class DeviceCopies:
    """See the rules above, and Copies."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device
        self.pin: Final = device.pin
        self.broken: str | None = None
        self._stream: Final = device.stream()
        self._buffers: Final[Spares[Buffers]] = Spares()
        self._chunks: Final[Spares[Any]] = Spares()
        self._reports: Final[Spares[Report]] = Spares()
        self._placed: Final = lru_cache(LAYOUTS_KEPT)(self._place)

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See Copies: everything that the caller has given the device until now comes first."""
        return pages if isinstance(pages, Computed) else Computed.by(pages, self._device.passed())

    def pack(
        self, layout: KVLayout, pages: Sequence[int], key: int, head: bytes = b"",
        after: DeviceEvent | None = None,
    ) -> Staged:
        """See Copies."""
        placed, plan = self._placed(layout), plan_for(layout, len(pages)).only
        length = len(head) + plan.bytes
        size = size_class(length)
        buffers = self._buffers.take(size, lambda: Buffers(
            self._device.memory(size), self._device.host_memory(size)))
        chunk, host = buffers.device[:plan.bytes], buffers.host[:length]
        if head:
            host[:len(head)] = torch.frombuffer(bytearray(head), dtype=torch.uint8)
        if after is not None:
            self._stream.wait(after)

        def pack(launch: Launch) -> None:
            # The padding between payload and digests is sent as well: it must hold no secret.
            chunk[plan.payload_bytes:plan.digest_offset] = 0
            pack_chunk(placed, pages, chunk, digests=digests_in(plan, chunk), key=key,
                       launch=launch)

        if pages:
            self._run(pack)
            self._stream.copy(host[len(head):], chunk)
        return Staged([host.numpy()], length, self._end(),
                      lambda: self._buffers.keep(size, buffers))

    def unpack(self, layout: KVLayout, landed: Bytes, pages: Sequence[int], key: int) -> Unpacked:
        """See Copies. The landed bytes are read until the copy is ready."""
        plan, placed = plan_for(layout, len(pages)).only, self._placed(layout)
        size = size_class(plan.bytes)
        memory = self._chunks.take(size, lambda: self._device.memory(size))
        chunk = memory[:plan.bytes]
        report = self._reports.take(layout, lambda: new_report(placed))
        self._stream.copy(chunk, host_tensor(landed.ctypes.data, plan.bytes, landed))

        def check(launch: Launch) -> None:
            unpack_chunk(placed, pages, chunk, expected=digests_in(plan, chunk), key=key,
                         report=report, launch=launch)
            report.fetch()

        self._run(check)

        def clean() -> bool:
            outcome = report.read()
            if not outcome.clean:
                report.clear()
            self._chunks.keep(size, memory)
            self._reports.keep(layout, report)
            return outcome.clean

        return Unpacked(clean, self._end())

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
