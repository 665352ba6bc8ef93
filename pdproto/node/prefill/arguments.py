"""The arguments of a prefill node, checked when it is made: what a loop would first look at, ends
more than the call.
"""

from typing import Any

from pdproto.node.data_path import SourceDataPath
from pdproto.node.prefill.keeps import Places
from pdproto.node.prefill.routing import DataParallelRank, PrefillDesk
from pdproto.node.rooms import PrefillRooms
from pdproto.runtime import checked
from pdproto.runtime.role import SourceRole
from pdproto.runtime.trace import StepObserver


def check(data_path: Any, trace: Any, role: Any, dp: Any, places: Any) -> Places:
    """Raise TypeError or ValueError for one that is none, with its name; see PrefillNode. Returns
    `places`.
    """
    checked.parts("data_path", data_path, SourceDataPath)
    checked.one_of("role", role, SourceRole)
    if trace is not None:
        checked.parts("trace", trace, StepObserver)
    if dp is not None:
        checked.one_of("dp", dp, DataParallelRank)
        checked.one_of("dp.rooms", dp.rooms, PrefillRooms)
        checked.parts("dp.desk", dp.desk, PrefillDesk)
    checked.one_of("places", places, Places)
    return Places(checked.whole("places.number", places.number),
                  checked.whole("places.pages", places.pages, 1))
