"""Memory of a GPU, shared by the processes of a host: staging memory is on the sink's device.

The messages and the board are those of shared memory (shared_sink.py). Instead of the memory's
file, the sink hands out a file with the description of the memory, and the source's device maps it
(CUDA IPC). So chunks go from GPU to GPU, and no byte passes through host memory.

Rule: the memory is given back to the device only when no other process has it mapped: that has said
      DROPPED, or its process has ended. A connection that has ended is not enough, because its
      process may still copy. So the thread of a sink that is closed stays until then.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, ClassVar, Final

from pdproto.engine.contract import CLOSE_S
from pdproto.engine.device_pieces import GRANULE_BYTES, DevicePiece, DeviceSource, NeedsDevice
from pdproto.engine.loop import READ
from pdproto.engine.memory import Backing
from pdproto.engine.shared_sink import SharedLine, SharedSink, peer_of
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX

ENGINE: Final = "cuda-ipc"
DESCRIPTION_MAX: Final = 4_096  # bytes
INSTEAD: Final = "shm"  # for pools in host memory
ELSEWHERE: Final = ("the {} is in another PID namespace, so nothing tells when its process has "
                    "ended: start both in one")


class DeviceSharedSink(NeedsDevice, SharedSink):
    """Staging memory on the device of a decode node's pools; see OnDevice."""

    engine: ClassVar[str] = ENGINE
    instead: ClassVar[str] = INSTEAD
    lines_stay = True

    def __init__(
        self,
        *,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
    ) -> None:
        self.processes: Final[set[int]] = set()  # file descriptors, of connected sources and others
        super().__init__(capacity_bytes=capacity_bytes, connections_max=connections_max,
                         make=self._make, granule=GRANULE_BYTES)

    def line(self, sock: socket.socket) -> SharedLine:
        """See SharedSink."""
        return DeviceLine(self, sock)

    def close(self) -> None:
        """See contract.SinkEngine. It waits until the sources have unmapped the memory, `CLOSE_S`
        at most: the thread stays for those that still copy.
        """
        super().close()
        self.loop.join(CLOSE_S)

    def _end(self) -> None:
        """See Sink. Sources are asked to unmap the memory that they have."""
        super()._end()
        for line in self.lines:
            self.serve(line, line.part)

    def _stays(self) -> bool:
        """See Loop: while another process has memory mapped. Without this thread, the memory would
        be freed with the objects that hold it.
        """
        for line in self.lines:
            if not line.has_memory:
                self._hang_up(line, "the sink is closed")
        return bool(self.lines or self.processes)

    def when_over(self, process: int, then: Callable[[], None]) -> None:
        """On the loop's thread: call this when the process has ended."""
        def over(_events: int) -> None:
            self.loop.forget(process)
            self.forget(process)
            then()

        self.loop.watch(process, READ, over)

    def forget(self, process: int) -> None:
        """Close the descriptor of a process that has nothing mapped."""
        self.processes.remove(process)
        os.close(process)

    def _make(self, region: int, length: int) -> Backing:
        return DevicePiece(region, length, self.needed())


class DeviceLine(SharedLine):
    """A source's connection; and its process, which may outlive it."""

    def __init__(self, sink: DeviceSharedSink, sock: socket.socket) -> None:
        super().__init__(sink, sock)
        self._device_sink: Final = sink
        if not self.process:
            raise ProcessLookupError(ELSEWHERE.format("source"))
        self._process: Final = os.pidfd_open(self.process)
        sink.processes.add(self._process)

    def unmapped(self) -> None:
        """The connection has ended, and its process may still copy. Until that has ended too, it
        has the memory mapped. In this process, the device keeps memory that is in use.
        """
        if self._mapped and self.process != os.getpid():
            self._device_sink.when_over(self._process, super().unmapped)
        else:
            super().unmapped()
            self._device_sink.forget(self._process)


class DeviceSharedSource(DeviceSource, SharedSource):
    """Writes from a device to memory of the sink's device; see OnDevice and SharedSource."""

    engine = ENGINE
    instead = INSTEAD
    gathers = False

    def why_closed(self, sock: socket.socket) -> str:
        """See SharedSource. The kernel gives a process of another PID namespace no number here."""
        return super().why_closed(sock) if peer_of(sock)[0] else ELSEWHERE.format("sink")

    def map(self, file: int) -> Any:
        """See SharedSource."""
        return self.needed().map(os.pread(file, DESCRIPTION_MAX, 0))
