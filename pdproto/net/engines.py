"""The engines by name: each a sink's side and a source's side that understand each other."""

from collections.abc import Callable, Mapping
from typing import Final

from pdproto.engine.contract import SinkEngine, SourceEngine
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlSink, NixlSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource

ENGINES: Final[Mapping[str, tuple[Callable[[], SinkEngine], Callable[[], SourceEngine]]]] = {
    "mooncake": (MooncakeSink, MooncakeSource),
    "nixl": (NixlSink, NixlSource),
    "shm": (SharedSink, SharedSource),
    "tcp": (TcpSink, TcpSource),
}


def open_sink(name: str) -> SinkEngine:
    """The sink's side of an engine."""
    return ENGINES[name][0]()


def open_source(name: str) -> SourceEngine:
    """The source's side of an engine."""
    return ENGINES[name][1]()
