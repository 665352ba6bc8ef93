"""A prefill rank tells decode which data-parallel rank runs a room (promises M2).

Rule 1: the rows of the table decide (SENDER in spec/handoff/dp_rank.py, run by PrefillRooms):
        whether a room is served, published, or failed because decode looks for it elsewhere, and
        when its entry is removed.
Rule 2: the scheduler never waits for the registry: a thread makes the requests. A room that cannot
        be published is aborted, because decode would never find it.
Rule 3: several ranks run a room together; only one of them sends requests to the registry. If a
        room has failed here, and decode will look for it on another data-parallel rank, then each
        rank tells its counterpart there.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from pdproto.node.link import tcp_at
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.lives import Outcome, PrefillRooms, RoomLife, Sent
from pdproto.registry.wire import Address, Rank, RefusedError, Registration
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.sglang.settings import FORCE_QUERY
from pdproto.spec.handoff import routing

log = logging.getLogger("pdproto.sglang")

PROBLEMS: Final = (NotFoundError, RefusedError, RemoteProtocolError, UnreachableError)
UNKNOWN: Final = -1  # the request names a rank, but SGLang does not say which
# room, reason, name and endpoint of the other rank
Disown = Callable[[int, str, str, str], None]


class Rooms:
    """Publishes the rooms of one prefill rank.

    disown: tells another rank that a room failed here.
    """

    def __init__(self, registry: str, registration: Registration, disown: Disown) -> None:
        self._client: Final = RegistryClient(registry)
        self._rank: Final = registration.rank
        self._disown: Final = disown
        self._rooms: Final = PrefillRooms(
            self._rank.dp, registration.topology.dp_size, publishes=registration.publishes)
        self._asks_registry: Final = self._rank[1:] == (0, 0, 0)  # see rule 3
        self._lock: Final = Lock()  # the scheduler and the node's loop both call this object
        self._count = 0
        self._thread: Final = ThreadPoolExecutor(1, "pdproto-rooms")

    def begin(
        self, room: int, named: int | None, refused: Callable[[str], None]
    ) -> RoomLife:
        """Note a request that has come to this rank. Returns its life, for the other calls.

        named: the rank that the request names; None if it names none. refused: called with the
        reason if the request cannot run here.
        """
        with self._lock:
            self._count += 1
            life = room, self._count
            outcome = self._rooms.put(life, self._rank.dp if named == UNKNOWN else named)
        if outcome.failure is not None:
            refused(f"{outcome.failure} ({FORCE_QUERY}=1 publishes every room)")
        self._post(outcome, refused)
        return life

    def met(self, life: RoomLife) -> None:
        """Note that decode has met the room, so its entry in the registry is no longer needed."""
        with self._lock:
            outcome = self._rooms.knock(life)
        self._post(outcome, _warn)

    def end(self, life: RoomLife) -> None:
        """Note that the request is over, whether or not decode has met it."""
        with self._lock:
            outcome = self._rooms.stop_waiting(life)
            self._rooms.forget(life)
        self._post(outcome, _warn)

    def close(self) -> None:
        """End the thread and the connection to the registry."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _post(self, outcome: Outcome, refused: Callable[[str], None]) -> None:
        """Send the messages of the rows to the registry and to other ranks."""
        if self._asks_registry and any(message in (routing.publish, routing.retire)
                                       for message, _ in outcome.sent):
            self._thread.submit(self._tell_registry, outcome.sent, refused)
        for message, arguments in outcome.sent:
            if message is routing.disown:
                _, (room, _), dp = arguments
                self._thread.submit(self._tell_rank, room, dp, str(outcome.failure))

    def _tell_registry(self, sent: tuple[Sent, ...], refused: Callable[[str], None]) -> None:
        """Publish a room. SGLang's decode asks without a generation, so none is sent."""
        tell = {routing.publish: self._client.register_room,
                routing.retire: self._client.retire_room}
        for message, arguments in (one for one in sent if one[0] in tell):
            (room, _), dp = arguments
            try:
                tell[message](room, dp)
            except PROBLEMS as error:
                refused(f"room {room}: the registry did not accept {message}: {error}")

    def _tell_rank(self, room: int, dp: int, reason: str) -> None:
        """Tell this rank's counterpart in the other data-parallel rank."""
        there = self._rank._replace(dp=dp)
        try:
            addresses: Mapping[Rank, Address] = self._client.look_up_all().addresses()
            at = addresses[there]
        except (*PROBLEMS, KeyError) as error:
            log.warning("room %d: %s cannot be told that it failed here: %s", room, there, error)
            return
        self._disown(room, reason, at.name, tcp_at(at.rank_ip, at.rank_port))


def _warn(reason: str) -> None:
    log.warning("%s; its entry in the registry expires later", reason)
