"""The tables of a decode node whose sources write straight into its pages."""

from typing import Final

from pdproto.node.decode.pool import Pool
from pdproto.runtime.role import SinkRole
from pdproto.spec.handoff.direct import IN_PLACE
from pdproto.spec.handoff.ends import pool, sink

_TABLES: Final = {table.machine: table for table in IN_PLACE.tables}
DIRECT_ROLE: Final = SinkRole(_TABLES[sink])


def direct_pool() -> Pool:
    """A new pool for a decode node whose sources write straight into its pages."""
    return Pool(_TABLES[pool])
