"""An engine from outside of pdproto: the kernel writes into the memory of another process.

`process_vm_writev` (Linux) copies between two processes of one user on one host, in one PID
namespace. Like a library for RDMA it writes by address, asks nobody first, and has no fence. So
this module is a `Transport` below the sink and the source of pdproto.engine.one_sided, which grant
each write and give memory up in place of a fence. A package names the engine in its entry points:

    [project.entry-points."pdproto.engines"]
    process-memory = "process_memory_engine:ENGINE"

From then on `engine=process-memory` works wherever a setting names an engine.
"""

import ctypes
import os
from typing import Final

from pdproto.engine.contract import EngineError, Extent
from pdproto.engine.engines import EngineKind
from pdproto.engine.one_sided import Description
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import OneSidedSource
from pdproto.runtime.errors import RemoteProtocolError

NAME: Final = "process-memory"
VERSION: Final = "1.0.0"

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


class ProcessMemory:
    """The kernel as a library that writes by address; see pdproto.engine.one_sided.Transport."""

    engine: Final = NAME
    version: Final = VERSION

    def __init__(self) -> None:
        self._namespace: Final = os.readlink("/proc/self/ns/pid").encode()

    def register(self, memory: Extent) -> None:
        """Nothing to do: the kernel writes to all memory of a process."""

    def unregister(self, address: int) -> None:
        """Nothing to do."""

    def describe(self, _memory: Extent) -> Description:
        """This process, by its number in its PID namespace."""
        return Description(VERSION, str(os.getpid()), self._namespace)

    def expect(self, writes: int) -> None:
        """Nothing to do: the peer's kernel call writes."""

    def meet(self, description: Description) -> None:
        """Raise RemoteProtocolError if the sink's number may name another process here."""
        if not description.peer.isdecimal() or description.data != self._namespace:
            raise RemoteProtocolError(f"process {description.peer} of {description.data!r} is not "
                                      f"in the PID namespace of this source: {self._namespace!r}")

    def begin(self, peer: str, source: Extent, target: int) -> bool:
        """Write these bytes; the call returns when all are written, or when the kernel refuses."""
        local = _Range(source.address, source.length)
        remote = _Range(target, source.length)
        written = _libc.process_vm_writev(
            int(peer), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if written != source.length:
            raise EngineError(f"process {peer} does not take {source.length} bytes: "
                              f"{os.strerror(ctypes.get_errno())}")
        return True

    def ended(self, handle: bool) -> bool | None:
        """Every write has ended when `begin` returns."""
        return handle

    def close(self) -> None:
        """Nothing to do."""


class ProcessMemorySource(OneSidedSource):
    """The engine's side at prefill."""

    engine = NAME


ENGINE: Final = EngineKind(
    sink=lambda host, staging_bytes: OneSidedSink(
        ProcessMemory(), host=host, capacity_bytes=staging_bytes),
    source=lambda _: ProcessMemorySource(ProcessMemory()),
)
