"""The engines by name: each a sink's side and a source's side that understand each other.

`mooncake` and `nixl` need their libraries, which are loaded when first asked for.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pdproto.engine import mooncake, nixl
from pdproto.engine.contract import EngineError, Scope, SinkEngine, SourceEngine
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlSink, NixlSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource


class SinkKind(Protocol):
    """A class of sinks, which says before there is one what its fences keep out of targets."""

    target_scope: Scope

    def __call__(self) -> SinkEngine: ...


ENGINES: Final[Mapping[str, tuple[SinkKind, Callable[[], SourceEngine]]]] = {
    "mooncake": (MooncakeSink, MooncakeSource),
    "nixl": (NixlSink, NixlSource),
    "shm": (SharedSink, SharedSource),
    "tcp": (TcpSink, TcpSource),
}
LIBRARIES: Final[Mapping[str, Callable[[], object]]] = {
    "mooncake": mooncake.load_library, "nixl": nixl.load_library,
}


def require(name: str) -> None:
    """Load the library of an engine, which has threads and files of its own from then on.

    Raises EngineError, in one line that says what to install, if it is not there.
    """
    if name in LIBRARIES:
        LIBRARIES[name]()


def require_page_fence(name: str) -> None:
    """Raise EngineError, in one line, if sources may not write straight into pages with it."""
    if ENGINES[name][0].target_scope is not Scope.PAGE:
        able = [other for other, (sink, _) in ENGINES.items() if sink.target_scope is Scope.PAGE]
        raise EngineError(
            f"engine {name} declares no page fence, so a writer could not be kept out of pages:"
            f" direct writes need {' or '.join(able)}"
        )


def open_sink(name: str) -> SinkEngine:
    """The sink's side of an engine. Raises EngineError if it does not start."""
    return ENGINES[name][0]()


def open_source(name: str) -> SourceEngine:
    """The source's side of an engine. Raises EngineError if it does not start."""
    return ENGINES[name][1]()
