"""Run a drill: hand over all requests, end all processes, and judge the result."""

from collections.abc import Callable
from time import monotonic
from typing import Final

from pdproto.drill.handoff.cluster import HandoffCluster
from pdproto.drill.handoff.verdict import HandoffVerdict

# Seconds. Shorter than the defaults of a server: in this drill a slow answer is an error.
WAITS: Final = {"bootstrap_timeout": 10.0, "transfer_timeout": 20.0, "no_drain": 2.0}


class NothingKilledError(Exception):
    """A rank was to be killed while it sent a room, and it sent none from that room on."""


def run_drill(
    cluster: HandoffCluster, timeout_s: float, on_progress: Callable[[int, float], None]
) -> HandoffVerdict:
    """Run the drill of a cluster whose processes have started.

    on_progress gets the number of requests that have ended at every rank, and the seconds since the
    first began. Raises TimeoutError, ChildLostError or NothingKilledError.
    """
    try:
        cluster.begin()
        began = monotonic()
        cluster.run(timeout_s, lambda done: on_progress(done, monotonic() - began))
        ended = monotonic()
        for victim, room in cluster.doomed.items():
            if not cluster.restarts:
                raise NothingKilledError(f"{victim} sent none of the requests after the first "
                                         f"{room}, and was not killed")
    finally:
        cluster.close()
    restarted = frozenset(cluster.topology.prefill if cluster.restarts else ())
    return HandoffVerdict(cluster.topology, cluster.load, cluster.members,
                          started=cluster.started, ended=ended,
                          restarted=restarted, survivors=cluster.survivors,
                          cut=None if cluster.cut is None else cluster.cut.cut)
