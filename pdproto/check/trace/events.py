"""The lines about an endpoint, as the search for an order needs them."""

from typing import NamedTuple, TypeAlias

from pdproto.check.trace.table import AnyMessage, GroundedRow, LocalTable
from pdproto.ground.layout import Indices

Came: TypeAlias = tuple[AnyMessage, Indices]  # a message, with the indices of its elements


class Event(NamedTuple):
    """A line about an endpoint. number: of all lines, in the order of the replay.

    ground: the row; None for a device, with the rows that it may mean in `devices`, and for a
    message that is only heard. message: received or heard, with the indices of its elements.
    assumed: no line sends it. at: its place in its file.
    """

    number: int
    at: int
    local: LocalTable
    after: int
    ground: GroundedRow | None = None
    devices: tuple[GroundedRow, ...] = ()
    message: Came | None = None
    assumed: bool = False
