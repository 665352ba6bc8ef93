"""The reason that a node gives for an exception of its data path."""

from typing import Final

from pdproto.engine.contract import EngineError
from pdproto.pages.device import DeviceError
from pdproto.runtime.errors import ProtocolError

SELF_EXPLANATORY: Final = ProtocolError, EngineError, DeviceError, ValueError


def reason_of(error: Exception) -> str:
    """The text of the error; with its class, unless it is an error of this project."""
    return str(error) if isinstance(error, SELF_EXPLANATORY) else repr(error)
