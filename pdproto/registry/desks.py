"""Desks: threads that carry the requests of nodes to registries.

A node has no socket for the registry. Its rows send messages (node/prefill/routing.py,
node/decode/routing.py), and a desk turns them into requests. Of the ranks that run a room together,
one calls the registry. When a room fails, each of them looks up the rank to which decode will send
its question.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from pdproto.net import threads
from pdproto.node.link import tcp_at
from pdproto.node.rooms import PrefillServer
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.wire import Directory, Rank, RefusedError, pieces
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.transport.keys import Keys

log = logging.getLogger("pdproto.registry")

PROBLEMS: Final = (NotFoundError, RefusedError, RemoteProtocolError, UnreachableError)
ASK_S: Final = 0.01  # between two questions about the same rooms

Job: TypeAlias = Callable[[], None]
Answered: TypeAlias = Callable[[int | None], None]


class Desk:
    """A thread that does jobs one after another. name: of the thread."""

    def __init__(self, name: str) -> None:
        self._jobs: Final[SimpleQueue[Job | None]] = SimpleQueue()
        self._thread: Final = threads.ServiceThread(self._loop, name)
        self._thread.start()

    def close(self) -> None:
        """Do the remaining jobs, and end the thread. A second call does nothing."""
        self._jobs.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._pause())
            except Empty:
                job = self._ask
            if job is None:
                self._end()
                return
            try:
                job()
            except LocalProtocolError:
                pass  # the node has been closed, and waits for no answer
            except Exception:
                log.exception("%s", self._thread.name)

    def _pause(self) -> float | None:
        """Seconds to wait for a job before `_ask` is called; None: for ever."""
        return None

    def _ask(self) -> None:
        """Called when no job came during a pause."""

    def _end(self) -> None:
        """Close the clients of the thread."""


class PrefillRegistry(Desk):
    """The desk of a prefill rank: it publishes rooms, and looks up other ranks.

    registry: its address. rank: the coordinates of this rank. keys: see RegistryClient. SGLang's
    decode asks without a generation, so none is sent.
    """

    def __init__(self, registry: str, rank: Rank, keys: Keys | None = None) -> None:
        self._client: Final = RegistryClient(registry, keys=keys)
        self._rank: Final = rank
        self._speaks: Final = rank[1:] == (0, 0, 0)  # of those that run a room, this one
        super().__init__("pdproto-rooms")

    def publish(self, room: int, rank: int, refused: Callable[[str], None]) -> None:
        """See PrefillDesk."""
        if self._speaks:
            self._jobs.put(lambda: self._publish(room, rank, refused))

    def retire(self, room: int, rank: int) -> None:
        """See PrefillDesk."""
        if self._speaks:
            self._jobs.put(lambda: self._retire(room, rank))

    def locate(self, rank: int, found: Callable[[str, str], None]) -> None:
        """See PrefillDesk."""
        self._jobs.put(lambda: self._locate(self._rank._replace(dp=rank), found))

    def _publish(self, room: int, rank: int, refused: Callable[[str], None]) -> None:
        try:
            self._client.register_room(room, rank)
        except PROBLEMS as error:
            refused(f"room {room}: the registry does not list it, so decode cannot find it: "
                    f"{error}")

    def _retire(self, room: int, rank: int) -> None:
        try:
            self._client.retire_room(room, rank)
        except PROBLEMS as error:
            log.warning("room %d: the registry does not remove it, and its entry ends by its "
                        "age: %s", room, error)

    def _locate(self, rank: Rank, found: Callable[[str, str], None]) -> None:
        try:
            at = self._client.look_up_all().addresses()[rank]
        except (*PROBLEMS, KeyError) as error:
            log.warning("%s cannot be told of a room that has failed here: %s", rank, error)
            return
        found(at.name, tcp_at(at.rank_ip, at.rank_port))

    def _end(self) -> None:
        self._client.close()


class DecodeRegistries(Desk):
    """The desk of a decode rank: it looks up prefill servers, and the ranks of rooms.

    feeds: whether a prefill rank sends to this decode rank; by default all do. keys: see
    RegistryClient.
    """

    def __init__(
        self, feeds: Callable[[Rank], bool] = lambda _: True, keys: Keys | None = None
    ) -> None:
        self._keys: Final = keys
        self._feeds: Final = feeds
        self._clients: Final[dict[str, RegistryClient]] = {}
        self._directories: Final[dict[str, Directory]] = {}
        self._asking: Final[dict[str, dict[int, list[Answered]]]] = {}  # by server and room
        self._problems: Final[dict[str, str]] = {}
        super().__init__("pdproto-lookups")

    def look_up(
        self, server: str, room: int, lost: Sequence[str], found: Callable[[PrefillServer], None],
        failed: Callable[[str], None],
    ) -> None:
        """See DecodeDesk."""
        self._jobs.put(lambda: self._look_up(server, room, frozenset(lost), found, failed))

    def query(self, server: str, room: int, answered: Answered) -> None:
        """See DecodeDesk."""
        self._jobs.put(lambda: self._query(server, room, answered))

    def withdraw(self, server: str, room: int) -> None:
        """See DecodeDesk."""
        self._jobs.put(lambda: self._withdraw(server, room))

    def _look_up(
        self, server: str, room: int, lost: frozenset[str],
        found: Callable[[PrefillServer], None], failed: Callable[[str], None],
    ) -> None:
        known = self._directories.get(server)
        if known is not None and any(at.name in lost for at in known.addresses().values()):
            known = None  # another run may have taken the place of that rank
        try:
            if known is None:
                known = self._client(server).look_up_all(room)
                self._directories.pop(server, None)
                if known.is_whole:
                    self._directories[server] = known
        except (*PROBLEMS, ValueError) as error:
            failed(str(error))
            return
        found(PrefillServer(known.server.dp_size, known.server.follow_bootstrap_room,
                            self._sources(known)))

    def _sources(self, directory: Directory) -> Mapping[int, Mapping[str, str]]:
        sources: dict[int, dict[str, str]] = {}
        for rank, at in directory.addresses().items():
            if self._feeds(rank):
                sources.setdefault(rank.dp, {})[at.name] = tcp_at(at.rank_ip, at.rank_port)
        return sources

    def _query(self, server: str, room: int, answered: Answered) -> None:
        self._asking.setdefault(server, {}).setdefault(room, []).append(answered)
        if self._jobs.empty():
            self._ask()

    def _withdraw(self, server: str, room: int) -> None:
        rooms = self._asking.get(server, {})
        if rooms.pop(room, None) is not None:
            try:
                self._client(server).withdraw_rooms([room])
            except PROBLEMS as error:
                log.info("room %d: its question ends by its age: %s", room, error)

    def _pause(self) -> float | None:
        return ASK_S if any(self._asking.values()) else None

    def _ask(self) -> None:
        """Query all rooms of unknown rank, in one request."""
        for server, rooms in self._asking.items():
            for some in pieces([*rooms]):
                try:
                    answer = self._client(server).query_rooms(some)
                except PROBLEMS as error:
                    if self._problems.get(server) != str(error):
                        log.warning("prefill server %s: %s", server, error)
                    self._problems[server] = str(error)
                    break
                self._problems.pop(server, None)
                for room in some:
                    if room in answer.dp_ranks or room in answer.gone:
                        for answered in rooms.pop(room):
                            answered(answer.dp_ranks.get(room))

    def _client(self, server: str) -> RegistryClient:
        if server not in self._clients:
            self._clients[server] = RegistryClient(server, keys=self._keys)
        return self._clients[server]

    def _end(self) -> None:
        for client in self._clients.values():
            client.close()
