"""The arguments of a decode node, checked when it is made: what a loop would first look at, ends
more than the call.
"""

from typing import Any

from pdproto.node.data_path import SinkDataPath
from pdproto.node.decode.pool import Pool
from pdproto.node.decode.routing import DecodeDesk
from pdproto.runtime import checked
from pdproto.runtime.role import SinkRole
from pdproto.runtime.trace import StepObserver


def check(data_path: Any, trace: Any, role: Any, pool: Any, desk: Any) -> None:
    """Raise TypeError for one that is none, with its name; see DecodeNode."""
    checked.parts("data_path", data_path, SinkDataPath)
    checked.one_of("role", role, SinkRole)
    if trace is not None:
        checked.parts("trace", trace, StepObserver)
    if pool is not None:
        checked.one_of("pool", pool, Pool)
    if desk is not None:
        checked.parts("desk", desk, DecodeDesk)
