"""The registry's client over HTTP: register and stay registered, look ranks up, publish rooms.

A call may block for `timeout_s` seconds. So make calls in a thread of their own, not in a loop that
serves hand-overs. Only one thread at a time may use a client.
"""

import http.client
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from pdproto.engine.hosts import is_elsewhere, is_loopback, split
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
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.store import Shared, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import bootstrap, registry_world
from pdproto.spec.handoff import registry as tables
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.keys import Keys

log = logging.getLogger("pdproto.registry")

TIMEOUT_S: Final = 5.0
RETRY_S_MAX: Final = 10.0
BEHIND: Final = 504  # the registry does not know the end of its store
ANSWER_BYTES_MAX: Final = 64 << 20
T = TypeVar("T")
_Answer: TypeAlias = tuple[int, bytes, int | None]  # status, body, the number to exceed


class NotFoundError(Exception):
    """The registry does not know the rank or the server of the request."""


class MissingError(NotFoundError):
    """A rank of the server has not registered."""


class UnreachableError(Exception):
    """The registry does not answer, or not in time."""


class RegistryClient:
    """A client of the registry at "host:port", or of several that share their store.

    address: of the registry, or of several with commas between them: the next one is asked when one
    does not answer. ValueError if it is malformed. timeout_s: for each answer. keys: of
    this process; both ends then prove by TLS that they are of one cluster. Every call
    raises UnreachableError if no registry answers in time, RefusedError with the
    registry's reason, and RemoteProtocolError for a malformed answer.
    """

    def __init__(
        self, address: str, timeout_s: float = TIMEOUT_S, *, keys: Keys | None = None
    ) -> None:
        self.address: Final = address
        self._keys: Final = keys
        self._connections: Final = [
            _connection(one, timeout_s, keys) for one in address.split(",")]
        self._asked = 0  # the registry that answered last

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    def register(self, registration: Registration) -> None:
        """Register this run of a rank, or register it again."""
        self._done("PUT", "/route", registration)

    def keep_alive(self, run: Run) -> None:
        """Send a sign of life. Raises NotFoundError if the registry does not know this run, and
        RefusedError if the registry is not one of pdproto.
        """
        self._done_by_ours("/keepalive", run)

    def deregister(self, run: Run) -> None:
        """Remove this run of a rank from the registry."""
        self._done("DELETE", "/route", run)

    def look_up_all(self) -> Directory:
        """The server and all its ranks.

        Raises MissingError, with the reason, if a rank is missing; NotFoundError if no rank has
        registered, or if they do not agree; RefusedError if the server has another version of the
        wire format, or if the registry is not one of pdproto.
        """
        return self._directory(self._answer(*self._listed()))

    def look_up(self, question: Lookup) -> Directory:
        """The server and the ranks of the question. Raises the errors of `look_up_all`."""
        found = self._directory(self._done_by_ours("/ranks", question))
        for rank in set(question.ranks) - found.addresses().keys():
            raise RemoteProtocolError(f"registry at {self.address}: its answer lacks {rank}")
        return found

    def _directory(self, answer: bytes) -> Directory:
        found = self._read(answer, Directory)
        if (why := found.server.refusal("the prefill server", "this node")) is not None:
            raise RefusedError(409, why)
        for rank, address in found.addresses().items():
            if is_loopback(address.rank_ip) and is_elsewhere(self._connection.host):
                raise RefusedError(
                    409, f"registry at {self.address}: {rank} has registered {address.rank_ip}, "
                         f"which only its own host can reach: start it on another address")
        return found

    def register_room(self, room: int, dp_rank: int, generation: int | None = None) -> None:
        """Publish the data-parallel rank that runs a room."""
        self._done("POST", "/register_dp_rank", Room(room, dp_rank, generation))

    def retire_room(self, room: int, dp_rank: int, generation: int | None = None) -> None:
        """Tell the registry that the rank is done with the room."""
        self._done("POST", "/retire_dp_rank", Room(room, dp_rank, generation))

    def query_rooms(self, rooms: Sequence[int], generations: Sequence[int] = ()) -> FullAnswer:
        """Ask for the data-parallel ranks of these rooms, in one request. The answer leaves out
        rooms that are not known yet.
        """
        asked = Rooms(tuple(rooms), tuple(generations), full=True)
        return self._read(self._done("POST", "/query_dp_ranks", asked), FullAnswer)

    def withdraw_rooms(self, rooms: Sequence[int], generations: Sequence[int] = ()) -> None:
        """Tell the registry that this client waits for these rooms no longer."""
        self._done("POST", "/withdraw_dp_ranks", Rooms(tuple(rooms), tuple(generations)))

    def health(self) -> None:
        """Check that all ranks are registered. Raises NotFoundError, with the reason, if not."""
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

    def _listed(self) -> _Answer:
        """The answer to GET /ranks. Raises RefusedError if there is no such route."""
        answer = self._ask("GET", "/ranks", None)
        if answer[0] == 404:
            raise RefusedError(404, f"registry at {self.address}: it has no list of ranks, so it "
                                    f"is not pdproto's: start `pdproto serve` there")
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
    if keys is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=keys.client_tls())


def _reason(answer: bytes) -> str:
    return answer[:1_000].decode(errors="replace")


class Registrar:
    """Keeps a rank registered, in a thread of its own: it registers the rank, and then sends signs
    of life.

    The rows of the source decide (SOURCE in spec/handoff/registry.py); their messages become HTTP
    requests, and the answers become messages. If the registry does not know a run that it has
    recorded, it has restarted, and the rows begin again. If the registry says that the run's number
    no longer counts, the run goes on under a greater number, with a new `registration`.

    sign_of_life_s, retry_s: seconds between signs of life, and between attempts to register.
    recorded: set while the registry has this run. refused: why the registry refuses this run, such
    as another version or configuration, or another run in its place; None if it does not.
    on_refused: called with each new reason. trace: records every row that fires. keys: see
    RegistryClient. Raises ValueError for a registration without an incarnation.
    """

    def __init__(
        self,
        address: str,
        registration: Registration,
        *,
        sign_of_life_s: float = WAITS["sign_of_life"].seconds,
        retry_s: float = WAITS["not_recorded"].seconds,
        on_refused: Callable[[str], None] | None = None,
        trace: SharedTrace | None = None,
        keys: Keys | None = None,
    ) -> None:
        if registration.incarnation is None:
            raise ValueError("registration: want an incarnation; signs of life need one")
        self.registration = registration
        self.recorded: Final = threading.Event()
        self.refused: str | None = None
        self._client: Final = RegistryClient(address, keys=keys)
        self._sign_of_life_s: Final = sign_of_life_s
        self._retry_s: Final = retry_s
        self._on_refused: Final = on_refused
        self._trace: Final = trace
        self._machine = self._begun("start")
        self._stopping: Final = threading.Event()
        self._thread: Final = threading.Thread(
            target=self._loop, name="pdproto-registrar", daemon=True
        )

    def start(self) -> None:
        """Start the thread. `recorded` is set when the registry has recorded this run."""
        self._thread.start()

    def stop(self, *, goodbye: bool = True) -> None:
        """End the thread. goodbye: also remove this run from the registry, if it can be reached. A
        second call does nothing.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            if goodbye and self._thread.ident is not None:
                self._say(self._machine.call("stop"))
        except (NotFoundError, RefusedError, UnreachableError) as error:
            log.info("this run could not be removed from the registry: %s", error)
        finally:
            self._client.close()

    @property
    def _run(self) -> Run:
        return Run(*self.registration.rank, self.registration.incarnation or 0)

    @property
    def _self(self) -> tuple[Rank, tuple[int, Rank]]:
        run = self._run
        return run.rank, (run.incarnation, run.rank)

    def _begun(self, row: str) -> Shared:
        """A new machine for this run, before it has registered. row: of the operator, starts it."""
        machine = shared(tables.SOURCE, self._self, trace=self._trace)
        source, number = self._self
        machine.apply_fault(registry_world.OPERATOR, row, p=source, e=number, z=number)
        return machine

    def _renew(self, exceed: int) -> None:
        """Go on under a number greater than this one, as the registry demands."""
        source, number = self._self
        self._machine.receive(bootstrap.outdated, source, number, (exceed, source))
        self.recorded.clear()
        self.registration = msgspec.structs.replace(
            self.registration, incarnation=max(new_incarnation(), exceed + 1))
        self._machine = self._begun("come_back")

    def _loop(self) -> None:
        retry_s = self._retry_s
        while not self._stopping.is_set():
            began = monotonic()
            try:
                self._turn()
                wait, retry_s = self._sign_of_life_s, self._retry_s
            except NotFoundError:
                wait = 0.0 if self.recorded.is_set() else retry_s
                self.recorded.clear()
                self._machine = self._begun("start")
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.exceed is not None:
                    log.warning("%s", error)
                    self._renew(error.exceed)
                    wait = 0.0
                else:
                    self._note(error)
                    wait, retry_s = retry_s, min(2 * retry_s, RETRY_S_MAX)
            self._stopping.wait(max(0.0, wait - (monotonic() - began)))

    def _turn(self) -> None:
        """Register, or send a sign of life, as the rows say."""
        fire = self._machine.fire
        if fire("show_sign_of_life") is not None:
            self._client.keep_alive(self._run)
            return
        step = fire("enroll") or fire("enroll_again")
        if step is not None:
            self._say(step)
            self.refused = None
            self._machine.receive(bootstrap.recorded, *self._self)
            self.recorded.set()

    def _say(self, step: SharedStep) -> None:
        """Send the registry's messages of a step. Sinks learn of a goodbye from the registry."""
        for message, _ in step.sent:
            if message is bootstrap.register:
                self._client.register(self.registration)
            elif message is bootstrap.goodbye:
                self._client.deregister(self._run)

    def _note(self, error: Exception) -> None:
        log.warning("%s", error)
        if isinstance(error, RefusedError) and self.refused != error.reason:
            self.refused = error.reason
            if self._on_refused is not None:
                self._on_refused(error.reason)
