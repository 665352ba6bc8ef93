"""The arguments of nodes, checked when they are made: what a loop would first look at, ends more
than the call.
"""

from typing import Any

from pdproto.node.data_path import SinkDataPath, SourceDataPath
from pdproto.node.decode.pool import Pool
from pdproto.node.decode.routing import DecodeDesk
from pdproto.node.prefill.keeps import Places
from pdproto.node.prefill.routing import DataParallelRank, PrefillDesk
from pdproto.node.rooms import PrefillRooms
from pdproto.runtime import checked
from pdproto.runtime.role import SinkRole, SourceRole
from pdproto.runtime.trace import StepObserver


def of_prefill(data_path: Any, trace: Any, role: Any, dp: Any, places: Any) -> Places:
    """Raise TypeError or ValueError for one that is none, with its name; see PrefillNode. Returns
    `places`.
    """
    checked.parts("data_path", data_path, SourceDataPath)
    checked.one_of("role", role, SourceRole)
    _check_trace(trace)
    if dp is not None:
        checked.one_of("dp", dp, DataParallelRank)
        checked.one_of("dp.rooms", dp.rooms, PrefillRooms)
        checked.parts("dp.desk", dp.desk, PrefillDesk)
    checked.one_of("places", places, Places)
    return Places(checked.whole("places.number", places.number),
                  checked.whole("places.pages", places.pages, 1))


def of_decode(data_path: Any, trace: Any, role: Any, pool: Any, desk: Any) -> None:
    """Raise TypeError for one that is none, with its name; see DecodeNode."""
    checked.parts("data_path", data_path, SinkDataPath)
    checked.one_of("role", role, SinkRole)
    _check_trace(trace)
    if pool is not None:
        checked.one_of("pool", pool, Pool)
    if desk is not None:
        checked.parts("desk", desk, DecodeDesk)


def _check_trace(trace: Any) -> None:
    if trace is not None:
        checked.parts("trace", trace, StepObserver)
