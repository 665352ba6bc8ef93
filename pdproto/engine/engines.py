"""The engines by name. Each has a sink's side and a source's side.

`mooncake`, `nixl` and `nixl-gpu` need their libraries, which are loaded at their first use.
`cuda-ipc` and `nixl-gpu` need pools on a GPU at both sides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pdproto.engine import mooncake, nixl
from pdproto.engine.contract import EngineError, Scope, SinkEngine, SourceEngine
from pdproto.engine.device_shared import DeviceSharedSink, DeviceSharedSource
from pdproto.engine.hosts import LOOPBACK
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlGpuSink, NixlGpuSource, NixlSink, NixlSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource


@dataclass(frozen=True, slots=True)
class EngineKind:
    """An engine.

    sink, source: open one side at an address of this host; a sink with so much staging memory.
    target_scope: see contract.SinkEngine. on_device: it needs pools on a device at both sides.
    """

    sink: Callable[[str, int], SinkEngine]
    source: Callable[[str], SourceEngine]
    target_scope: Scope = Scope.NONE
    on_device: bool = False


ENGINES: Final[Mapping[str, EngineKind]] = {
    "cuda-ipc": EngineKind(lambda _, bytes_: DeviceSharedSink(capacity_bytes=bytes_),
                           lambda _: DeviceSharedSource(), on_device=True),
    "mooncake": EngineKind(lambda host, bytes_: MooncakeSink(host=host, capacity_bytes=bytes_),
                           lambda host: MooncakeSource(host=host)),
    "nixl": EngineKind(lambda host, bytes_: NixlSink(host=host, capacity_bytes=bytes_),
                       lambda host: NixlSource(host=host)),
    "nixl-gpu": EngineKind(lambda host, bytes_: NixlGpuSink(host=host, capacity_bytes=bytes_),
                           lambda host: NixlGpuSource(host=host), on_device=True),
    "shm": EngineKind(lambda _, bytes_: SharedSink(capacity_bytes=bytes_),
                      lambda _: SharedSource()),
    "tcp": EngineKind(lambda host, bytes_: TcpSink(host=host, capacity_bytes=bytes_),
                      lambda _: TcpSource(), TcpSink.target_scope),
}
LIBRARIES: Final[Mapping[str, Callable[[], object]]] = {
    "mooncake": mooncake.load_library,
    "nixl": nixl.load_library,
    "nixl-gpu": nixl.load_library,
}


def require(name: str) -> None:
    """Load the library of an engine. From then on the process has threads and files of it.

    Raises EngineError if it is not installed; the message is one line with the command to install
    it.
    """
    if name in LIBRARIES:
        LIBRARIES[name]()


def require_page_fence(name: str) -> None:
    """Raise EngineError, in one line, if this engine does not allow direct writes into pages."""
    if ENGINES[name].target_scope is not Scope.PAGE:
        able = [other for other, kind in ENGINES.items() if kind.target_scope is Scope.PAGE]
        raise EngineError(
            f"engine {name} declares no page fence, so a writer could not be kept out of pages:"
            f" direct writes need {' or '.join(able)}"
        )


def refuse_host_pools(name: str, remedy: str) -> None:
    """For pools in host memory: raise EngineError, in one line, if this engine needs others."""
    if ENGINES[name].on_device:
        raise EngineError(f"engine {name} goes from GPU to GPU, and these pools are in host "
                          f"memory: {remedy}")


def open_sink(
    name: str, host: str = LOOPBACK, staging_bytes: int = CAPACITY_BYTES
) -> SinkEngine:
    """Open the sink's side of an engine.

    host: the address of this host to which sources connect; not used by `shm` and `cuda-ipc`.
    staging_bytes: of the memory that it leases, at most. Raises EngineError if it does not start.
    """
    return ENGINES[name].sink(host, staging_bytes)


def open_source(name: str, host: str = LOOPBACK) -> SourceEngine:
    """Open the source's side of an engine.

    host: the address of this host to which the sink's library may connect; not used by `shm`,
    `cuda-ipc` and `tcp`. Raises EngineError if it does not start.
    """
    return ENGINES[name].source(host)
