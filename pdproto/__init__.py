"""pdproto: protocols as transition tables, explored exhaustively and run from the same tables."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pdproto.node.decode.receiver import Receiver
    from pdproto.node.link import Curve, Link
    from pdproto.node.prefill.sender import Sender
    from pdproto.pages.direct import DirectPages
    from pdproto.pages.sink_pages import SinkPages
    from pdproto.pages.source_pages import SourcePages
    from pdproto.registry.app import RegistryServer
    from pdproto.registry.client import RegistryClient
    from pdproto.runtime.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
    from pdproto.runtime.trace import TraceWriter
    from pdproto.spec.handoff.poll import KVPoll
    from pdproto.transport.aio import HandoffFailedError, until
    from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
    from pdproto.transport.operator_port import OperatorPort

__version__: Final = "0.1.0"

# Imported when they are asked for: whoever only checks tables needs no sockets.
_HOMES: Final = {
    "Curve": "node.link",
    "DecodeNode": "transport.nodes",
    "DirectDecodeNode": "transport.nodes",
    "DirectPages": "pages.direct",
    "HandoffFailedError": "transport.aio",
    "KVPoll": "spec.handoff.poll",
    "Link": "node.link",
    "LocalProtocolError": "runtime.errors",
    "OperatorPort": "transport.operator_port",
    "PrefillNode": "transport.nodes",
    "ProtocolError": "runtime.errors",
    "Receiver": "node.decode.receiver",
    "RegistryClient": "registry.client",
    "RegistryServer": "registry.app",
    "RemoteProtocolError": "runtime.errors",
    "Sender": "node.prefill.sender",
    "SinkPages": "pages.sink_pages",
    "SourcePages": "pages.source_pages",
    "TraceWriter": "runtime.trace",
    "until": "transport.aio",
}

__all__ = [
    "Curve", "DecodeNode", "DirectDecodeNode", "DirectPages", "HandoffFailedError", "KVPoll",
    "Link", "LocalProtocolError", "OperatorPort", "PrefillNode", "ProtocolError", "Receiver",
    "RegistryClient", "RegistryServer", "RemoteProtocolError", "Sender", "SinkPages", "SourcePages",
    "TraceWriter", "__version__", "until",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pdproto' has no attribute {name!r}")
    return getattr(import_module(f"pdproto.{home}"), name)
