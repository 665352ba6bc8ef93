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
SERVERS_MAX: Final = 64  # with threads; past these, the threads end that have nothing to do

Job: TypeAlias = Callable[[], None]
Answered: TypeAlias = Callable[[int | None], None]


class Desk:
    """A thread that does jobs one after another. name: of the thread."""

    def __init__(self, name: str) -> None:
        self._jobs: Final[SimpleQueue[Job | None]] = SimpleQueue()
        self._thread: Final = threads.ServiceThread(self._loop, name)
        self._thread.start()

    def end(self) -> None:
        """Have the thread end when the remaining jobs are done. Waits for nothing."""
        self._jobs.put(None)

    def close(self) -> None:
        """Do the remaining jobs, and end the thread. A second call does nothing."""
        self.end()
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
            except BaseException:  # this is a thread of ours: see Rule 4 of net/threads.py
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


class DecodeRegistries:
    """The desks of a decode rank, one for each prefill server. They look up the server, and the
    ranks of rooms. So a registry that hangs delays no request of another server.

    feeds: whether a prefill rank sends to this decode rank; by default all do. keys: see
    RegistryClient. The node calls it in one thread.
    """

    def __init__(
        self, feeds: Callable[[Rank], bool] = lambda _: True, keys: Keys | None = None
    ) -> None:
        self._keys: Final = keys
        self._feeds: Final = feeds
        self._desks: Final[dict[str, ServerDesk]] = {}

    def look_up(
        self, server: str, room: int, lost: Sequence[str], found: Callable[[PrefillServer], None],
        failed: Callable[[str], None],
    ) -> None:
        """See DecodeDesk."""
        try:
            desk = self._desk(server)
        except (OSError, ValueError) as error:  # no thread is to be had, or no such address
            failed(str(error))
            return
        desk.put(lambda: desk.look_up(room, frozenset(lost), found, failed))

    def query(self, server: str, room: int, answered: Answered) -> None:
        """See DecodeDesk."""
        desk = self._desk(server)
        desk.put(lambda: desk.query(room, answered))

    def withdraw(self, server: str, room: int) -> None:
        """See DecodeDesk."""
        desk = self._desks.get(server)
        if desk is not None:  # otherwise nothing was asked
            desk.put(lambda: desk.withdraw(room))

    def close(self) -> None:
        """Do the remaining jobs, and end the threads. A second call does nothing."""
        for desk in self._desks.values():
            desk.end()
        for desk in self._desks.values():
            desk.close()

    def _desk(self, server: str) -> "ServerDesk":
        found = self._desks.get(server)
        if found is None:
            if len(self._desks) >= SERVERS_MAX:
                for address in [one for one, desk in self._desks.items() if desk.is_idle]:
                    self._desks.pop(address).end()
            found = self._desks[server] = ServerDesk(server, self._feeds, self._keys)
        return found


class ServerDesk(Desk):
    """The desk of a decode rank for one prefill server. See DecodeRegistries.

    Raises ValueError for an address that is none, and OSError if no thread is to be had.
    """

    def __init__(self, server: str, feeds: Callable[[Rank], bool], keys: Keys | None) -> None:
        self._server: Final = server
        self._client: Final = RegistryClient(server, keys=keys)
        self._feeds: Final = feeds
        self._directory: Directory | None = None
        self._asking: Final[dict[int, list[Answered]]] = {}  # by room
        self._problem = ""
        self._put = self._done = 0  # jobs: by the caller, and by the thread
        super().__init__("pdproto-lookups")

    def put(self, job: Job) -> None:
        """Have the thread do this job."""
        def do() -> None:
            try:
                job()
            finally:
                self._done += 1

        self._put += 1
        self._jobs.put(do)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do. For the caller of `put`."""
        return self._put == self._done and not self._asking

    def look_up(
        self, room: int, lost: frozenset[str], found: Callable[[PrefillServer], None],
        failed: Callable[[str], None],
    ) -> None:
        """See DecodeDesk. In the thread."""
        known = self._directory
        if known is not None and any(at.name in lost for at in known.addresses().values()):
            known = None  # another run may have taken the place of that rank
        try:
            if known is None:
                known = self._client.look_up_all(room)
                self._directory = known if known.is_whole else None
        except (*PROBLEMS, ValueError) as error:
            failed(str(error))
            return
        found(PrefillServer(known.server.dp_size, known.server.follow_bootstrap_room,
                            self._sources(known)))

    def _sources(self, directory: Directory) -> Mapping[int, Mapping[str, str]]:
        sources: dict[int, dict[str, str]] = {}
        for rank, at in directory.addresses().items():
            of_rank = sources.setdefault(rank.dp, {})
            if self._feeds(rank):
                of_rank[at.name] = tcp_at(at.rank_ip, at.rank_port)
        return sources

    def query(self, room: int, answered: Answered) -> None:
        """See DecodeDesk. In the thread."""
        self._asking.setdefault(room, []).append(answered)
        if self._jobs.empty():
            self._ask()

    def withdraw(self, room: int) -> None:
        """See DecodeDesk. In the thread."""
        if self._asking.pop(room, None) is not None:
            try:
                self._client.withdraw_rooms([room])
            except PROBLEMS as error:
                log.info("room %d: its question ends by its age: %s", room, error)

    def _pause(self) -> float | None:
        return ASK_S if self._asking else None

    def _ask(self) -> None:
        """Query all rooms of unknown rank, in one request."""
        for some in pieces([*self._asking]):
            try:
                answer = self._client.query_rooms(some)
            except PROBLEMS as error:
                if self._problem != str(error):
                    log.warning("prefill server %s: %s", self._server, error)
                self._problem = str(error)
                break
            self._problem = ""
            for room in some:
                if room in answer.dp_ranks or room in answer.gone:
                    for answered in self._asking.pop(room):
                        answered(answer.dp_ranks.get(room))

    def _end(self) -> None:
        self._client.close()
