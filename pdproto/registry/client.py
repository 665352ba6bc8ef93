"""The registry's client over HTTP: register ranks, look them up, publish rooms.

A call may block for `timeout_s` seconds. So make calls in a thread of their own, not in a loop that
serves hand-overs. Only one thread at a time may use a client.
"""

import http.client
import ssl
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from pdproto.net import threads
from pdproto.net.hosts import is_elsewhere, is_loopback, split
from pdproto.registry.wire import (
    EXCEED,
    Directory,
    FullAnswer,
    Lookup,
    Rank,
    RefusedError,
    Registration,
    Room,
    Rooms,
    Run,
)
from pdproto.runtime import checked
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import ASKED_ROOMS_MAX, ROOM_MAX
from pdproto.transport.answers import AnswerInTime
from pdproto.transport.keys import Keys

TIMEOUT_S: Final = 5.0
TIMEOUT_MAX_S: Final = 86_400.0  # a socket takes no wait over 24 days
ADDRESS_MAX: Final = 4_096  # characters, of all registries together
BEHIND: Final = 504  # the registry does not know the end of its store
ANSWER_BYTES_MAX: Final = 64 << 20
T = TypeVar("T")
_Answer: TypeAlias = tuple[int, bytes, int | None]  # status, body, the number to exceed


class NotFoundError(Exception):
    """The registry does not know the rank or the server of the request."""


class MissingError(NotFoundError):
    """A rank of the server has not registered, or drains."""


class UnreachableError(Exception):
    """The registry does not answer, or not in time."""


class RegistryClient:
    """A client of the registry at "host:port", or of several that share their store.

    address: of the registry, or of several with commas between them: the next one is asked when one
    does not answer. timeout_s: for each answer. keys: of this process; both ends then prove by TLS
    that they are of one cluster. TypeError or ValueError for a malformed argument. Every call
    raises UnreachableError if no registry answers in time, RefusedError with the
    registry's reason, and RemoteProtocolError for a malformed answer.
    """

    def __init__(
        self, address: str, timeout_s: float = TIMEOUT_S, *, keys: Keys | None = None
    ) -> None:
        self.address: Final = checked.text("address", address, ADDRESS_MAX)
        wait_s = checked.seconds("timeout_s", timeout_s, most=TIMEOUT_MAX_S)
        if keys is not None:
            checked.one_of("keys", keys, Keys)
        self._keys: Final = keys
        self._connections: Final = [
            _connection(one, wait_s, keys) for one in address.split(",")]
        self._asked = 0  # the registry that answered last
        threads.watch(self)

    def leave_to_parent(self) -> None:
        """See threads.Inherited: the next call connects anew."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    def register(self, registration: Registration) -> None:
        """Register this run of a rank, or register it again."""
        self._done("PUT", "/route", checked.struct("registration", registration, Registration))

    def keep_alive(self, run: Run) -> None:
        """Send a sign of life. Raises NotFoundError if the registry does not know this run, and
        RefusedError if the registry is not one of pdproto.
        """
        self._done_by_ours("/keepalive", checked.struct("run", run, Run))

    def deregister(self, run: Run) -> None:
        """Remove this run of a rank from the registry."""
        self._done("DELETE", "/route", checked.struct("run", run, Run))

    def look_up_all(self, room: int | None = None) -> Directory:
        """The server and all its ranks, without the data-parallel ranks that drain. room: of the
        request that looks them up; a rank that had it before its drain is named.

        Raises MissingError, with the reason, if a rank is missing, or all drain; NotFoundError if
        no rank has registered, or if they do not agree; RefusedError if the server has another
        version of the wire format, or if the registry is not one of pdproto.
        """
        return self._directory(self._answer(*self._listed(checked.whole_or_none("room", room))))

    def look_up(self, question: Lookup) -> Directory:
        """The server and the ranks of the question. Raises the errors of `look_up_all`."""
        checked.struct("question", question, Lookup)
        found = self._directory(self._done_by_ours("/ranks", question))
        for rank in set(question.ranks) - found.addresses().keys():
            raise RemoteProtocolError(f"registry at {self.address}: its answer lacks {rank}")
        return found

    def _directory(self, answer: bytes) -> Directory:
        found = self._read(answer, Directory)
        if (why := found.server.refusal("the prefill server", "this node")) is not None:
            raise RefusedError(409, why)
        called: dict[str, Rank] = {}
        for rank, address in found.addresses().items():
            if address.name and (other := called.setdefault(address.name, rank)) != rank:
                raise RefusedError(
                    409, f"registry at {self.address}: {other} and {rank} have registered one name "
                         f"{address.name!r}: start each with a name of its own")
            if is_loopback(address.rank_ip) and is_elsewhere(self._connection.host):
                raise RefusedError(
                    409, f"registry at {self.address}: {rank} has registered {address.rank_ip}, "
                         f"which only its own host can reach: start it on another address")
        return found

    def register_room(self, room: int, dp_rank: int, generation: int | None = None) -> None:
        """Publish the data-parallel rank that runs a room."""
        self._done("POST", "/register_dp_rank", _room(room, dp_rank, generation))

    def retire_room(self, room: int, dp_rank: int, generation: int | None = None) -> None:
        """Tell the registry that the rank is done with the room."""
        self._done("POST", "/retire_dp_rank", _room(room, dp_rank, generation))

    def query_rooms(self, rooms: Sequence[int], generations: Sequence[int] = ()) -> FullAnswer:
        """Ask for the data-parallel ranks of these rooms, in one request. The answer leaves out
        rooms that are not known yet.
        """
        asked = _rooms(rooms, generations, full=True)
        return self._read(self._done("POST", "/query_dp_ranks", asked), FullAnswer)

    def withdraw_rooms(self, rooms: Sequence[int], generations: Sequence[int] = ()) -> None:
        """Tell the registry that this client waits for these rooms no longer."""
        self._done("POST", "/withdraw_dp_ranks", _rooms(rooms, generations))

    def health(self) -> None:
        """Check that all ranks are registered, and that some take new requests. Raises
        NotFoundError, with the reason, if not.
        """
        self._done("GET", "/health")

    def _read(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = f"registry at {self.address}: its answer is not a {kind.__name__}: {error}"
            raise RemoteProtocolError(problem) from None

    def _done(self, method: str, path: str, body: Struct | None = None) -> bytes:
        sent = None if body is None else msgspec.json.encode(body)
        return self._answer(*self._ask(method, path, sent))

    def _done_by_ours(self, path: str, body: Struct) -> bytes:
        """The answer to a POST that only pdproto's registry knows."""
        status, answer, exceed = self._ask("POST", path, msgspec.json.encode(body))
        if status in (404, 405):
            self._listed()
        return self._answer(status, answer, exceed)

    def _listed(self, room: int | None = None) -> _Answer:
        """The answer to GET /ranks. Raises RefusedError if there is no such route."""
        answer = self._ask("GET", "/ranks" if room is None else f"/ranks?room={room}", None)
        if answer[0] == 404:
            raise RefusedError(404, f"registry at {self.address}: it has no list of ranks, so it "
                                    f"is not pdproto's: start `pdproto registry` there")
        return answer

    def _answer(self, status: int, answer: bytes, exceed: int | None = None) -> bytes:
        if status == 200:
            return answer
        reason = _reason(answer)
        if status in (404, 425, 503):
            kind = MissingError if status == 503 else NotFoundError
            raise kind(f"registry at {self.address}: {reason}")
        raise RefusedError(status, f"registry at {self.address}: {reason}", exceed)

    def _ask(self, method: str, path: str, body: bytes | None) -> _Answer:
        """The answer of the registry that answered last, or of the next that answers."""
        for last in range(len(self._connections) - 1, -1, -1):
            try:
                answer = self._ask_one(method, path, body)
                if answer[0] == BEHIND:
                    raise UnreachableError(f"registry at {self.address}: {_reason(answer[1])}")
            except UnreachableError:
                self._asked = (self._asked + 1) % len(self._connections)
                if not last:
                    raise
            else:
                return answer
        raise AssertionError

    def _ask_one(self, method: str, path: str, body: bytes | None) -> _Answer:
        fresh = self._connection.sock is None
        try:
            return self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if fresh or isinstance(error, TimeoutError):
                raise self._unreachable(error) from None
        # An old connection may have been closed meanwhile, so try a new one. Every request of this
        # client may arrive twice without harm.
        try:
            return self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._unreachable(error) from None

    @property
    def _connection(self) -> http.client.HTTPConnection:
        return self._connections[self._asked]

    def _unreachable(self, error: Exception) -> UnreachableError:
        hint = ""
        if isinstance(error, ssl.SSLError):
            hint = ": this process and the registry have not the same keys (PDPROTO_KEYS)"
        elif self._keys is None and isinstance(error, http.client.RemoteDisconnected):
            hint = ": if the registry has keys, set PDPROTO_KEYS here as well"
        return UnreachableError(f"registry at {self.address}: {error!r}{hint}")

    def _exchange(self, method: str, path: str, body: bytes | None) -> _Answer:
        headers = {"Content-Type": "application/json"} if body else {}
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._connection.timeout)
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX + 1)
        if len(answer) > ANSWER_BYTES_MAX:
            raise http.client.HTTPException(f"an answer of over {ANSWER_BYTES_MAX:,} bytes")
        if response.length:
            raise http.client.HTTPException(f"an answer that lacks {response.length:,} bytes")
        exceed = response.getheader(EXCEED, "")
        return response.status, answer, int(exceed) if exceed[:20].isdecimal() else None


def _connection(
    address: str, timeout_s: float, keys: Keys | None
) -> http.client.HTTPConnection:
    try:
        host, port = split(address)
    except ValueError as error:
        raise ValueError(f"registry address {error}") from None
    made = (http.client.HTTPConnection(host, port, timeout=timeout_s) if keys is None else
            http.client.HTTPSConnection(host, port, timeout=timeout_s, context=keys.client_tls()))
    made.response_class = AnswerInTime
    return made


def _room(room: int, dp_rank: int, generation: int | None) -> Room:
    return checked.struct("room", Room(checked.room(room), dp_rank, generation), Room)


def _rooms(rooms: Sequence[int], generations: Sequence[int], *, full: bool = False) -> Rooms:
    return Rooms(_told("rooms", rooms), _told("generations", generations), full)


def _told(name: str, given: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(checked.numbers(name, given, ASKED_ROOMS_MAX))
    checked.within(name, numbers, ROOM_MAX + 1)
    return numbers


def _reason(answer: bytes) -> str:
    return answer[:1_000].decode(errors="replace")
