"""The event loop: one thread that owns the sockets and the clock of a node, and takes its turns.

A node itself does no I/O. This thread only calls its `run_turn` (node/core.py).

Rule 1: no other thread changes the node's state. Other threads use `ask` and `wake`.
Rule 2: no frame and no request ends the thread. A turn that fails is counted and logged, and the
        loop goes on.
Rule 3: a thread that is always busy rests now and then (engine/rests.py).
Rule 4: the thread closes what it has used, when its last turn is over. So any thread may close the
        loop, also in a callback of its own; a call that waits may be interrupted, and repeated.
"""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Final

import zmq

from pdproto.net import threads
from pdproto.net.hosts import is_link_local
from pdproto.net.rests import Rests
from pdproto.node.core import Core, carry_out, run_turn
from pdproto.node.link import Link, host_of, place_of, tcp_at
from pdproto.node.metrics import Metrics
from pdproto.node.ports import Arrived
from pdproto.runtime.batches import decode
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import NAME_MAX, PEERS_MAX
from pdproto.runtime.repeats import is_told
from pdproto.transport.connection_limit import ConnectionLimit
from pdproto.transport.json_logs import lost_lines
from pdproto.transport.monitor import Monitor
from pdproto.transport.resolver import Resolver, name_in
from pdproto.transport.sockets import Authenticator, Dealer, address_for, listening, told
from pdproto.transport.watchdog import Watchdog

log = logging.getLogger("pdproto.transport")

SOCKETS_MAX: Final = 3 * PEERS_MAX  # one for each peer, and two that watch it
ZEROMQ_THREADS: Final = 3  # of a context: I/O, reaper, and the authenticator
STANDS_STILL_S: Final = 5.0  # after so long without a turn that works, the loop counts as hung
FAILED_REST_S: Final = 0.001  # behind a turn that has failed, and as much more after each other
FAILED_REST_MAX_S: Final = 0.05
IPC: Final = "ipc://"
NUMBERED: Final = "\0"  # begins the names that ZeroMQ makes itself
READABLE: Final = int(zmq.POLLIN)  # flags of an enum take ten times as long to compare


class EventLoop:
    """The transport of one node (node/ports.py).

    bound: where the loop listens. endpoint: where peers are told to call. Raises OSError if it
    cannot listen at `link.bind`, or if no thread or file is to be had; the node's devices are
    closed then.
    """

    def __init__(self, core: Core, link: Link) -> None:
        self.pace: Final = Watchdog(core.name)
        self.turn_errors = 0
        self.impostors = 0  # messages under the name of another member
        self._core: Final = core
        self._link: Final = link
        curve = self._curve = link.curve
        self._inbox: Final[SimpleQueue[Callable[[], None]]] = SimpleQueue()
        self._awake = False  # another thread has asked for a turn
        self._unread = True  # ZeroMQ signals messages only after a reader has found none
        self._turned = monotonic()  # when the last turn began
        self._worked = self._turned  # when a turn has last ended without a defect
        self._failing = 0  # turns that have failed since then
        self._defect = ""  # of the last of them
        self._closing = False
        self._ended = False
        self._waking: Final = threading.Lock()  # between a wake and the end
        self._elsewhere = ""  # why no call works in this process
        self._resolver: Final = Resolver()
        core.on_defect = self._note_defect
        with ExitStack() as opened:
            opened.callback(core.close)
            if curve is not None and curve.members and curve.key_of(core.name) != curve.public:
                raise PermissionError(f"node {core.name}: its keys are those of {curve.member}: "
                                      f"name it {curve.named('NAME')}")
            threads.require(ZEROMQ_THREADS + 1, f"pdproto-{core.name}")
            self._context: Final = zmq.Context()
            self._context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
            self._authenticator: Final = (
                None if curve is None else Authenticator(self._context, curve))
            opened.callback(self._end_context)
            self._router: Final = listening(self._context, core.name, link)
            opened.callback(self._router.close, linger=0)
            self._limit: Final = ConnectionLimit(self._router)
            opened.callback(self._limit.close)
            self._monitor: Final = Monitor()
            opened.callback(self._monitor.close)
            self._wake_fd: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            opened.callback(os.close, self._wake_fd)
            self._files: Final = select.epoll()
            opened.pop_all()
        self.bound: Final = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.endpoint: Final = link.advertise or told(self.bound)
        self._thread: Final = threads.ServiceThread(self._run, f"pdproto-{core.name}")

    def start(self) -> None:
        """Start the thread. Raises OSError, and closes everything, if none is to be had."""
        threads.watch(self)
        try:
            self._core.begin(self)
            self._thread.start()
        except BaseException:
            self.close()
            raise

    def leave_to_parent(self) -> None:
        """See threads.Inherited. ZeroMQ itself does nothing with a context of another process."""
        self._elsewhere = threads.opened_elsewhere(f"node {self._core.name}")
        self._closing = True
        for leave in self._core.parts.inherited:
            leave(self._elsewhere)
        ours: list[int | str] = [self.bound.removeprefix(IPC)]
        ours += [port for _, port in _places(self.bound)]
        peers = _places(*(peer.endpoint for peer in self._core.peers.values()))
        threads.call_each(self._files.close, partial(os.close, self._wake_fd),
                          partial(threads.close_sockets, ours, peers))

    def measure(self, metrics: Metrics) -> None:
        """Add the loop's numbers to the metrics of the node."""
        self.pace.measure(metrics)
        metrics.counter("turn_errors", "Defects in turns of the loop",
                        lambda: self.turn_errors)
        metrics.counter("refused_handshakes", "Handshakes with a key that is not of the cluster",
                        lambda: self._authenticator.refused if self._authenticator else 0)
        metrics.gauge("accepted_connections", "Connections that peers have opened to this node",
                      lambda: self._limit.connections)
        metrics.counter("ended_connections", "Connections ended, because too many were open",
                        lambda: self._limit.ended)
        metrics.counter("lost_log_lines", "Lines of the JSON log that could not be written",
                        lost_lines)
        metrics.counter("impostors", "Messages under the name of another member of the cluster",
                        lambda: self.impostors)

    def stalled(self) -> str | None:
        """Why the loop serves nobody: it is closed, it hangs, or its turns fail. None while it
        serves. For any thread.
        """
        name = self._core.name
        if self._closing:
            return self._elsewhere or f"node {name} is closed"
        still_s = monotonic() - self._turned
        if still_s > max(STANDS_STILL_S, 3 * self._link.sign_of_life_s):
            return f"node {name}: its loop has stood still for {still_s:.0f} s"
        if self._failing and monotonic() - self._worked > STANDS_STILL_S:
            return f"node {name}: its last {self._failing:,} turns have failed: {self._defect}"
        return None

    def close(self) -> None:
        """Stop the loop, and close the node's devices and all sockets.

        Returns when that is done; called on the loop's own thread, in a callback, at once: it is
        done when the turn is over. It may be called again, and after an interrupt it goes on.
        """
        if self._elsewhere:
            return
        self._closing = True
        if self._thread.ident is None:
            self._end()
        else:
            self._wake_thread()
            self._thread.join()

    def _end(self) -> None:
        """Close everything. No turn follows."""
        with self._waking:
            if self._ended:
                return
            self._ended = True
        threads.forget(self)
        threads.call_each(
            self._core.close, *(peer.connection.part for peer in self._core.peers.values()
              if isinstance(peer.connection, Dealer)),
            self._monitor.close, self._limit.close, partial(self._router.close, linger=0),
            self._end_context, self._files.close, partial(os.close, self._wake_fd))

    def _end_context(self) -> None:
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()

    # For the node: see Transport

    def clock(self) -> float:
        """See Transport."""
        return monotonic()

    def ask(self, request: Callable[[], None]) -> None:
        """See Transport."""
        self.ask_later(request)
        self.wake()

    def ask_later(self, request: Callable[[], None]) -> None:
        """See Transport."""
        if self._closing:
            raise LocalProtocolError(self._elsewhere or f"node {self._core.name} is closed")
        self._inbox.put(request)

    def wake(self) -> None:
        """See Transport."""
        if threading.get_ident() == self._thread.ident:
            self._core.again = True
        elif not self._awake:
            self._awake = True
            self._wake_thread()

    def _wake_thread(self) -> None:
        with self._waking:
            if not self._ended:
                os.eventfd_write(self._wake_fd, 1)

    def address_for(self, endpoint: str) -> str:
        """See Transport."""
        return address_for(self._core.name, self._link, self.bound, self._zoned(endpoint))

    def _zoned(self, endpoint: str) -> str:
        """A link-local endpoint that a peer has told, with the interface by which the peer calls
        this node, if it calls by one.
        """
        host = host_of(endpoint)
        if host is None or not is_link_local(host) or "%" in host:
            return endpoint
        interfaces = self._limit.interfaces_of(host)
        return (tcp_at(f"{host}%{interfaces.pop()}", place_of(endpoint)[1])
                if len(interfaces) == 1 else endpoint)

    def connect(self, name: str, endpoint: str) -> Dealer:
        """See Transport."""
        dealer = Dealer(self._context, self._core.name, name, self._zoned(endpoint), self._link,
                        self._monitor)
        host = name_in(endpoint)
        if host is not None:
            port = place_of(endpoint)[1]

            def resolved(address: str, why: str) -> None:
                self.ask(lambda: self._core.connections.lose_connection(dealer, why) if why
                         else dealer.call(tcp_at(address, port)))

            try:
                self._resolver.ask(host, resolved)
            except RemoteProtocolError:
                dealer.close()
                raise
        return dealer

    # The loop

    def _run(self) -> None:
        # ZeroMQ's own poller takes three times as long, and there are four turns in a hand-over.
        batches, changes = int(self._router.getsockopt(zmq.FD)), self._monitor.fileno()
        limit, files = self._limit, self._files
        accepted = limit.fileno()
        for file in (batches, changes, accepted, self._wake_fd):
            files.register(file, select.EPOLLIN)
        core, longest = self._core, self._link.sign_of_life_s
        due, rests = monotonic(), Rests()
        while not self._closing:
            at_once = core.wants_turn or self._unread or limit.unread or not self._inbox.empty()
            wait = 0.0 if at_once else max(0.0, min(due - monotonic(), longest))
            rests.ask()
            ready = [file for file, _ in files.poll(wait)]
            rests.take()
            if limit.unread or accepted in ready:
                limit.look()
            # Sockets are read only if they have data: even a system call that does not wait lets
            # other threads run, and that may take long.
            due = self._turn(batches=self._unread or batches in ready, changes=changes in ready,
                             woken=self._awake or self._wake_fd in ready)
        threads.call_each(self._say_farewell, self._end)

    def _say_farewell(self) -> None:
        carry_out(self._core, self._core.farewells(
            Arrived(requests=self._requests()), monotonic()))

    def _turn(self, *, batches: bool, changes: bool, woken: bool) -> float:
        """Take one turn. Returns when the next is due."""
        if woken:  # before the requests are taken, so that a later one wakes the loop again
            with suppress(BlockingIOError):  # a thread that has set the flag writes after that
                os.eventfd_read(self._wake_fd)
            self._awake = False
        self._turned = now = monotonic()
        arrived = Arrived(self._requests(), self._batches() if batches else (),
                          self._monitor.changes() if changes else ())
        try:
            due = run_turn(self._core, arrived, now)
        except BaseException as error:  # this is a thread of ours: see Rule 4 of net/threads.py
            # After a defect in one turn, the other hand-overs must still be served.
            self._failing += 1
            self._note_defect(error)
            sleep(min(FAILED_REST_S * self._failing, FAILED_REST_MAX_S))
            return now + self._link.sign_of_life_s
        else:
            self._failing, self._worked = 0, now
            return due
        finally:
            self.pace.end()

    def _note_defect(self, error: BaseException) -> None:
        self.turn_errors += 1
        self._defect = f"{type(error).__name__}: {error}"
        if is_told(self.turn_errors):
            log.error("node %s: a turn of its loop failed (%d so far)", self._core.name,
                      self.turn_errors, exc_info=error)

    def _requests(self) -> Iterator[Callable[[], None]]:
        """The requests that other threads have put into the inbox until now."""
        for _ in range(self._inbox.qsize()):
            if self._inbox.empty():
                return
            yield self._inbox.get_nowait()

    def _batches(self) -> Iterator[tuple[str, list[bytes]]]:
        """The batches that have arrived, each with the name of its sender. With keys, a batch under
        the name of another member is dropped.
        """
        router, curve, self._unread = self._router, self._curve, True
        while self._unread:
            user = b""
            try:
                name = router.recv(zmq.NOBLOCK).decode("utf-8", "replace")
                if curve is None:
                    parts = [router.recv(zmq.NOBLOCK)]
                else:
                    part = router.recv(zmq.NOBLOCK, copy=False)
                    parts, user = [part.bytes], _user_of(part)
            except zmq.Again:
                self._unread = False
                return
            while router.getsockopt(zmq.RCVMORE):  # this takes as long as receiving a part
                parts.append(router.recv(zmq.NOBLOCK))
            self._unread = bool(int(router.getsockopt(zmq.EVENTS)) & READABLE)
            speaker = self._speaker(parts) if name.startswith(NUMBERED) else name
            if speaker is None:
                continue
            if curve is not None and curve.key_of(speaker) != user:
                self._note_impostor(speaker)
                continue
            yield speaker or name, parts

    def _speaker(self, parts: list[bytes]) -> str | None:
        """The node that says these bytes over a connection that ZeroMQ has numbered; "" if they are
        no batch, None if they are of a run of the node that has been followed by another.

        A new connection takes the name of one that has ended. What had come over that one, and
        waits to be read, is then delivered under a number: it is of a healthy peer.
        """
        try:
            batch = decode(parts[0])
        except RemoteProtocolError:
            return ""
        peer = self._core.peers.get(batch.node)
        is_earlier = peer is not None and peer.incarnation not in (0, batch.incarnation)
        return None if is_earlier else batch.node[:NAME_MAX]

    def _note_impostor(self, name: str) -> None:
        self.impostors += 1
        if is_told(self.impostors):
            log.warning("node %s: dropped a message under the name of %r, with another member's key"
                        " (%d so far)", self._core.name, name, self.impostors)


def _places(*endpoints: str) -> list[tuple[str, int]]:
    """The host and the port of each of these endpoints that is over TCP."""
    return [place_of(one) for one in endpoints if host_of(one) is not None]


def _user_of(part: zmq.Frame) -> bytes:
    """The public key of the sender, as the authenticator has noted it; empty if it has not."""
    with suppress(zmq.ZMQError):
        return str(part.get("User-Id")).encode()
    return b""
