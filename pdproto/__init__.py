"""pdproto: protocols as transition tables, explored exhaustively and run from the same tables."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pdproto.net.aio import HandoffFailedError, until
    from pdproto.net.decode import DecodeNode
    from pdproto.net.direct import DirectDecodeNode, DirectPages
    from pdproto.net.operator_port import OperatorPort
    from pdproto.net.pages import SinkPages, SourcePages
    from pdproto.net.prefill import PrefillNode
    from pdproto.net.receiver import Receiver
    from pdproto.net.registry_app import RegistryServer
    from pdproto.net.registry_client import RegistryClient
    from pdproto.net.sender import Sender
    from pdproto.net.shell import Curve, Link
    from pdproto.runtime.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
    from pdproto.runtime.trace import Trace
    from pdproto.spec.handoff.poll import KVPoll

__version__: Final = "0.1.0"

# Imported when they are asked for: whoever only checks tables needs no sockets.
_HOMES: Final = {
    "Curve": "net.shell",
    "DecodeNode": "net.decode",
    "DirectDecodeNode": "net.direct",
    "DirectPages": "net.direct",
    "HandoffFailedError": "net.aio",
    "KVPoll": "spec.handoff.poll",
    "Link": "net.shell",
    "LocalProtocolError": "runtime.errors",
    "OperatorPort": "net.operator_port",
    "PrefillNode": "net.prefill",
    "ProtocolError": "runtime.errors",
    "Receiver": "net.receiver",
    "RegistryClient": "net.registry_client",
    "RegistryServer": "net.registry_app",
    "RemoteProtocolError": "runtime.errors",
    "Sender": "net.sender",
    "SinkPages": "net.pages",
    "SourcePages": "net.pages",
    "Trace": "runtime.trace",
    "until": "net.aio",
}

__all__ = [
    "Curve", "DecodeNode", "DirectDecodeNode", "DirectPages", "HandoffFailedError", "KVPoll",
    "Link", "LocalProtocolError", "OperatorPort", "PrefillNode", "ProtocolError", "Receiver",
    "RegistryClient", "RegistryServer", "RemoteProtocolError", "Sender", "SinkPages", "SourcePages",
    "Trace", "__version__", "until",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pdproto' has no attribute {name!r}")
    return getattr(import_module(f"pdproto.{home}"), name)
