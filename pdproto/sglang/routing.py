"""Which data-parallel rank of a prefill server runs a room, as the server says it (PROTOCOL: M2).

Rule 1: where rooms keep to the rule, nothing is said, and a room on another rank is refused with
        both ranks and the switch. Otherwise one of the ranks that run the room publishes it.
Rule 2: the scheduler waits for no answer: a thread of its own speaks to the registry. A room that
        cannot be published is given up, since decode would never find it.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pdproto.net.registry_client import RegistryClient, UnreachableError
from pdproto.net.registry_wire import RefusedError, Registration
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.functions import data_parallel_rank

log = logging.getLogger("pdproto.sglang")

FORCE_QUERY: Final = "SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK"


class Rooms:
    """What one prefill rank says of the rooms that it runs."""

    def __init__(self, registry: str, registration: Registration) -> None:
        self._client: Final = RegistryClient(registry)
        self._rank: Final = registration.rank
        self._size: Final = registration.topology.dp_size
        self._publishes: Final = registration.publishes
        self._speaks: Final = self._rank[1:] == (0, 0, 0)  # of those that run a room, this one
        self._thread: Final = ThreadPoolExecutor(1, "pdproto-rooms")

    def conflict(self, room: int) -> str | None:
        """Why this rank may not run the room; None if it may."""
        if self._size == 1 or self._publishes:
            return None
        rule = data_parallel_rank(room, self._size)
        if rule == self._rank.dp:
            return None
        return (f"follow_bootstrap_room conflict: dispatched to dp_rank {self._rank.dp}, but "
                f"bootstrap_room {room} implies dp_rank {rule}. Set {FORCE_QUERY}=1 on prefill "
                f"to allow mixed routing")

    def publish(self, room: int, refused: Callable[[str], None]) -> bool:
        """Have decode find the room here, if it has to ask. Returns whether it has to."""
        if self._size == 1 or not self._publishes or not self._speaks:
            return False
        self._thread.submit(self._publish, room, refused)
        return True

    def retire(self, room: int) -> None:
        """The room is over: it may come again elsewhere."""
        self._thread.submit(self._retire, room)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _publish(self, room: int, refused: Callable[[str], None]) -> None:
        try:
            self._client.register_room(room, self._rank.dp)
        except (RefusedError, RemoteProtocolError, UnreachableError) as error:
            refused(f"room {room} could not be published: {error}")

    def _retire(self, room: int) -> None:
        try:
            self._client.retire_room(room, self._rank.dp)
        except (RefusedError, RemoteProtocolError, UnreachableError) as error:
            log.warning("room %d could not be retired, and ends by its age: %s", room, error)
