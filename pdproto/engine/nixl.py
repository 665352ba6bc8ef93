"""The engines over NIXL with UCX: shared memory on one host, TCP or RDMA between hosts.

    pip install --no-deps nixl-cu12==1.5.1      (nixl-cu13 on CUDA 13; torch is not needed here)

`nixl` writes from host memory to host memory. `nixl-gpu` writes from a chunk on the source's GPU to
staging memory on the sink's: RDMA between hosts where the adapters reach the GPUs, CUDA IPC within
one. Its messages are the same.

The tests of the contract pass with 1.5.1 over shared memory and over UCX_TLS=tcp. UCX and its
settings choose how bytes move; this project has never run RDMA.

Properties of the library, measured with 1.5.1 (tests/engine/test_nixl.py repeats the first three),
and how this module handles them:

*   Deregistering memory is no fence. One write that runs lands all its bytes, and so does one that
    begins later, reported as done. So a fence gives memory up: see one_sided.py.
*   A process that has started UCX crashes when it exits (status 139), where UCX has loaded its
    module for EFA adapters: that brings in the system's libnl beside the one of the wheel.
    UCX_MODULES=^efa is set unless it is set already; then the exit is clean.
*   A source aborts ("stubs.c: Assertion `0' failed", below uct_tcp_ep_pending_purge) when the sink
    ends while UCX connects to it over TCP: 9 of 9 runs did, within 300 tries each. With
    UCX_TCP_CONN_NB=y, none of 1,800 tries: it is set unless it is set already. The write then fails
    with an error.
*   Its progress thread spins: it takes a quarter of a core when idle, and delays of 20 ms on a
    machine with few cores. It is off. A sink calls the library from a thread of its own, which
    sleeps while no write is granted. A source makes progress by polling.
*   On one host a transfer is a copy that `transfer` makes before it returns (process_vm_writev).
    It works even while the sink's process is stopped. A transfer has at most 4 MiB.
*   In this configuration an agent must not be used from two threads at a time. A lock prevents it.
*   A peer that was lost stays lost under its name. So it is removed, and added again.
"""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import Any, ClassVar, Final
from uuid import uuid4

from pdproto.engine.contract import EngineError, Extent
from pdproto.engine.device_pieces import GRANULE_BYTES, DeviceSource, NeedsDevice
from pdproto.engine.memory import Backing
from pdproto.engine.one_sided import Description, Handle, PieceOnDevice, load
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import OneSidedSource
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.engine.source import BYTES_MAX, WRITES_MAX
from pdproto.net import threads
from pdproto.net.hosts import LOOPBACK
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX

log = logging.getLogger(__name__)

ENGINE: Final = "nixl"
ON_GPU: Final = "nixl-gpu"
MODULES: Final = {"nixl-cu12": "nixl_cu12._api", "nixl-cu13": "nixl_cu13._api"}
COMMAND: Final = "pip install --no-deps nixl-cu12==1.5.1"
AT_LEAST: Final = (1, 5)
BACKEND: Final = "UCX"
NO_GPU: Final = 255  # in a description: the memory is the host's
PAUSE_SECONDS: Final = 50e-6  # between two steps of the library
FAILED_SECONDS: Final = 1.0  # after a step that failed, so that the log is not flooded


def load_library() -> tuple[Any, str]:
    """The library's module and version. Raises EngineError if it is not installed."""
    os.environ.setdefault("UCX_MODULES", "^efa")
    os.environ.setdefault("UCX_TCP_CONN_NB", "y")
    os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
    return load(MODULES, engine=ENGINE, command=COMMAND, at_least=AT_LEAST)


class NixlSink(OneSidedSink):
    """Staging memory that sources write to with NIXL.

    host, port: where sources ask for grants. UCX finds its own addresses. It prefers IPv6 ones if
    `host` is one (UCX_AF_PRIO, unless it is set already). Raises EngineError if NIXL is not
    installed, or does not start.
    """

    engine: ClassVar[str] = ENGINE

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
    ) -> None:
        super().__init__(
            NixlTransport(host, self.engine),
            host=host,
            port=port,
            capacity_bytes=capacity_bytes,
            connections_max=connections_max,
        )


class NixlSource(OneSidedSource):
    """Writes to sinks with NIXL; see one_sided_source.OneSidedSource. host: see NixlSink."""

    engine = ENGINE

    def __init__(
        self, *, host: str = LOOPBACK, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX
    ) -> None:
        super().__init__(NixlTransport(host, self.engine), bytes_max=bytes_max,
                         writes_max=writes_max)


class NixlGpuSink(NeedsDevice, NixlSink):
    """Staging memory on the device of a decode node's pools; see OnDevice."""

    engine: ClassVar[str] = ON_GPU
    instead: ClassVar[str] = ENGINE
    granule = GRANULE_BYTES

    def _make(self, region: int, length: int) -> Backing:
        return PieceOnDevice(self.transport, self.needed(), region, length)


class NixlGpuSource(DeviceSource, NixlSource):
    """Writes from a device to memory of the sink's device; see OnDevice."""

    engine = ON_GPU
    instead = ENGINE


class NixlTransport:
    """An agent of the library; see one_sided.Transport. engine: the name of the engine."""

    def __init__(self, host: str, engine: str = ENGINE) -> None:
        self.engine: Final = engine
        if ":" in host:
            os.environ.setdefault("UCX_AF_PRIO", "inet6,inet")
        module, self.version = load_library()
        self.name: Final = f"pdproto-{uuid4().hex}"
        config = module.nixl_agent_config(enable_prog_thread=False, backends=[BACKEND])
        try:
            self._agent: Any = module.nixl_agent(self.name, config)
        except Exception as error:
            raise EngineError(f"NIXL does not start with {BACKEND}: {error}") from error
        self._lock: Final = threading.Lock()
        self._registered: Final[dict[int, Any]] = {}
        self._gpus: Final[dict[str, int | None]] = {}  # whose memory a peer has leased, by peer
        self._lost: Final[set[str]] = set()
        self._progress: Final = Progress(self._move_on)

    def register(self, memory: Extent) -> None:
        """See one_sided.Transport."""
        kind, number = kind_of(memory.gpu)
        with self._lock:
            try:
                self._registered[memory.address] = self._agent.register_memory(
                    [(memory.address, memory.length, number, "")], kind)
            except Exception as error:  # The library's errors have no common class.
                raise EngineError(f"NIXL does not register {memory.length} bytes of {kind}: "
                                  f"{error}") from error

    def unregister(self, address: int) -> None:
        """See one_sided.Transport."""
        with self._lock:
            try:
                self._agent.deregister_memory(self._registered.pop(address))
            except Exception:  # No rule depends on it, because it is no fence.
                log.warning("NIXL keeps the memory at %#x", address, exc_info=True)

    def describe(self, memory: Extent) -> Description:
        """See one_sided.Transport. `nixl-gpu` says first which GPU has the memory."""
        with self._lock:
            data = self._agent.get_partial_agent_metadata(
                self._registered[memory.address], inc_conn_info=True, backends=[BACKEND]
            )
        if self.engine == ON_GPU:
            data = bytes([NO_GPU if memory.gpu is None else memory.gpu]) + data
        return Description(self.version, self.name, data)

    def expect(self, writes: int) -> None:
        """See one_sided.Transport."""
        self._progress.expect(writes)

    def meet(self, description: Description) -> None:
        """See one_sided.Transport."""
        data = description.data
        if self.engine == ON_GPU:
            gpu, data = data[:1], data[1:]
            self._gpus[description.peer] = None if gpu in {b"", bytes([NO_GPU])} else gpu[0]
        with self._lock:
            if description.peer in self._lost:
                self._lost.discard(description.peer)
                self._forget(description.peer)
            try:
                name = self._agent.add_remote_agent(data)
            except Exception as error:
                raise RemoteProtocolError(f"description: NIXL says {error}") from error
        if name not in {description.peer, description.peer.encode()}:
            raise RemoteProtocolError(f"a description of peer {name!r}: want {description.peer!r}")

    def begin(self, peer: str, source: Extent, target: int) -> Handle:
        """See one_sided.Transport."""
        kind, number = kind_of(source.gpu)
        kind_there, number_there = kind_of(self._gpus.get(peer))
        with self._lock:
            try:
                here = self._agent.get_xfer_descs([(source.address, source.length, number)], kind)
                there = self._agent.get_xfer_descs([(target, source.length, number_there)],
                                                   kind_there)
                handle = self._agent.initialize_xfer("WRITE", here, there, peer)
                self._agent.transfer(handle)
            except Exception as error:
                self._lost.add(peer)
                raise EngineError(f"NIXL does not write to {peer}: {error}") from error
        return peer, handle

    def ended(self, handle: Handle) -> bool | None:
        """See one_sided.Transport."""
        peer, transfer = handle
        with self._lock:
            try:
                state = self._agent.check_xfer_state(transfer)
            except Exception:  # The peer is lost.
                state = "ERR"
            if state == "PROC":
                return None
            if state != "DONE":
                self._lost.add(peer)
            with suppress(Exception):  # The library may keep a handle that it cannot release.
                self._agent.release_xfer_handle(transfer)
            return bool(state == "DONE")

    def close(self) -> None:
        """See one_sided.Transport."""
        self._progress.close()
        with self._lock:
            self._agent = None

    def _move_on(self) -> None:
        try:
            with self._lock:
                self._agent.get_new_notifs()
        except Exception:
            log.warning("NIXL makes no progress", exc_info=True)
            sleep(FAILED_SECONDS)

    def _forget(self, peer: str) -> None:
        with suppress(Exception):  # It may have removed the peer by itself.
            self._agent.remove_remote_agent(peer)


def kind_of(gpu: int | None) -> tuple[str, int]:
    """The library's names for memory of the host, or of a GPU."""
    return ("DRAM", 0) if gpu is None else ("VRAM", gpu)


class Progress:
    """A thread that calls the library while peers may be writing. The first peer starts it.

    step: does the work of the library that needs no waiting.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self._step: Final = step
        self._writes = 0
        self._changed: Final = threading.Condition()
        self._closing = False
        self._thread: threads.ServiceThread | None = None

    def expect(self, writes: int) -> None:
        """Count so many more writes of peers that may be under way; fewer if negative."""
        with self._changed:
            self._writes += writes
            if self._thread is None and not self._closing:
                self._thread = threads.ServiceThread(self._run, "NIXL")
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread and wait for it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._writes or self._closing)
                if self._closing:
                    return
            self._step()
            sleep(PAUSE_SECONDS)
