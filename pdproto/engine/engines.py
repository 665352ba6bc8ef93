"""The engines by name. Each has a sink's side and a source's side.

`mooncake`, `nixl` and `nixl-gpu` need their libraries, which are loaded at their first use.
`cuda-ipc` and `nixl-gpu` need pools on a GPU at both sides. An installed package adds an engine by
an entry point of the group `pdproto.engines`, whose object is an `EngineKind`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from pdproto.engine import mooncake, nixl
from pdproto.engine.contract import ENGINE_MAX, EngineError, Scope, SinkEngine, SourceEngine
from pdproto.engine.device_shared import DeviceSharedSink, DeviceSharedSource
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlGpuSink, NixlGpuSource, NixlSink, NixlSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.net.hosts import LOOPBACK, PORT_MAX
from pdproto.runtime import checked


@dataclass(frozen=True, slots=True)
class EngineKind:
    """An engine.

    sink, source: open one side at an address of this host; a sink with so much staging memory.
    target_scope: see contract.SinkEngine. on_device: it needs pools on a device at both sides.
    sink_at: opens a sink that listens on a given port; None: its library chooses the port.
    """

    sink: Callable[[str, int], SinkEngine]
    source: Callable[[str], SourceEngine]
    target_scope: Scope = Scope.NONE
    on_device: bool = False
    sink_at: Callable[[str, int, int], SinkEngine] | None = None


BUILT_IN: Final[Mapping[str, EngineKind]] = {
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
                      lambda host: TcpSource(host=host), TcpSink.target_scope,
                      sink_at=lambda host, bytes_, port: TcpSink(
                          host=host, capacity_bytes=bytes_, port=port)),
}
GROUP: Final = "pdproto.engines"  # of the entry points of installed packages


class Engines(Mapping[str, EngineKind]):
    """Every engine by name: ours, then those of installed packages, which are loaded at their use.

    Looking one up raises KeyError for a name that there is not, and EngineError, in one line with
    the package, for an entry point that gives no engine.
    """

    def __getitem__(self, name: str) -> EngineKind:
        return BUILT_IN[name] if name in BUILT_IN else _load(_installed()[name])

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in _installed()

    def __iter__(self) -> Iterator[str]:
        return iter({**BUILT_IN, **_installed()})

    def __len__(self) -> int:
        return len({**BUILT_IN, **_installed()})


ENGINES: Final = Engines()


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """The entry points of installed packages by name, as they are when it is first called."""
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _load(point: EntryPoint) -> EngineKind:
    package = point.dist.name if point.dist is not None else "a package"
    where = f"engine {point.name!r} of {package} ({point.value})"
    if len(point.name) > ENGINE_MAX:
        raise EngineError(f"{where}: its name has over {ENGINE_MAX} characters")
    try:
        kind = point.load()
    except Exception as error:  # whatever the package raises
        raise EngineError(f"{where} does not load: {error}") from error
    if not isinstance(kind, EngineKind):
        raise EngineError(f"{where} is no pdproto.engine.engines.EngineKind: {kind!r}")
    return kind


LIBRARIES: Final[Mapping[str, Callable[[], object]]] = {
    "mooncake": mooncake.load_library,
    "nixl": nixl.load_library,
    "nixl-gpu": nixl.load_library,
}


def require(name: str) -> None:
    """Load an engine and its library. From then on the process has threads and files of it.

    Raises EngineError if it is not installed; the message is one line with the command to install
    it.
    """
    _ = ENGINES[name]
    if name in LIBRARIES:
        LIBRARIES[name]()


def require_page_fence(name: str) -> None:
    """Raise EngineError, in one line, if this engine does not allow direct writes into pages."""
    if ENGINES[name].target_scope is not Scope.PAGE:
        able = [other for other, kind in BUILT_IN.items() if kind.target_scope is Scope.PAGE]
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
    name: str, host: str = LOOPBACK, staging_bytes: int = CAPACITY_BYTES, port: int = 0
) -> SinkEngine:
    """Open the sink's side of an engine.

    host: the address of this host to which sources connect; not used by `shm` and `cuda-ipc`.
    staging_bytes: of the memory that it leases, at most. port: where it listens, if the engine
    allows to choose; 0 for any. Raises EngineError if it does not start.
    """
    kind, at = _of_this_name(name), checked.text("host", host)
    most = checked.whole("staging_bytes", staging_bytes, 1)
    place = checked.whole("port", port, 0, PORT_MAX)
    if place and kind.sink_at is not None:
        return kind.sink_at(at, most, place)
    return kind.sink(at, most)


def open_source(name: str, host: str = LOOPBACK) -> SourceEngine:
    """Open the source's side of an engine.

    host: the address of this host to which the sink's library may connect; not used by `shm` and
    `cuda-ipc`, and by `tcp` only for the interface that it names. Raises EngineError if it does not
    start.
    """
    return _of_this_name(name).source(checked.text("host", host))


def _of_this_name(name: object) -> EngineKind:
    known = checked.text("name", name)
    if known not in ENGINES:
        raise ValueError(f"name {checked.shown(known)}: want an engine: {', '.join(ENGINES)}")
    return ENGINES[known]
