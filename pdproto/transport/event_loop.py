"""The shell: one thread that owns the sockets, the clock, and all endpoints of a node.

A node listens on one ROUTER socket, and calls each peer by a socket of its own (node/calls.py).

Rule 1: nothing outside this thread touches an endpoint. The only ways in are `ask` and the wake-up.
Rule 2: no frame and no call kills the thread. What is malformed is dropped and
        counted, and the peer is named.
"""

import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Final

import zmq

from pdproto.node.calls import PEERS_MAX, Caller
from pdproto.node.link import Curve, Link, listening
from pdproto.node.peer import Peer, cut_off, endpoint_of
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.wire import NAME_MAX, Batch, decode
from pdproto.transport.watchdog import Watchdog

__all__ = ["Curve", "Link", "Peer", "Shell"]

log = logging.getLogger("pdproto.transport")

STANDS_STILL_S: Final = 5.0  # a loop that has not come round for so long serves nobody
READABLE: Final = int(zmq.POLLIN)  # flags of an enum take ten times as long to compare
FAREWELL_MS: Final = 200  # for which what has been said last may still be under way
NAMES_MAX: Final = 1_024  # of senders whose malformed batches are counted one by one


class Shell(Caller):
    """The loop. A node says what is done with a batch, a lost peer, and a turn."""

    def __init__(self, name: str, link: Link, incarnation: int | None = None) -> None:
        super().__init__(name, link, incarnation)
        self.malformed: Final[dict[str, int]] = {}  # by the name of who sent it
        self.mistakes = 0  # of the application: calls that the tables do not allow
        self.turn_errors = 0
        self.watchdog: Final = Watchdog(name)
        self._inbox: Final[SimpleQueue[Callable[[], None]]] = SimpleQueue()
        self._router: Final = self._listening()
        self.bound = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.endpoint: Final = link.advertise or self.bound
        self._wake_fd: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._awake = False  # somebody else wants a turn,
        self._again = False  # or the loop itself does
        self._unread = True  # ZeroMQ tells of what comes only who has found nothing
        self._turned = self._steady  # when the loop last came round
        self._closing = False
        self._thread: Final = threading.Thread(
            target=self._run, name=f"pdproto-{name}", daemon=True
        )

    # For other threads

    def start(self) -> None:
        self._thread.start()

    def ask(self, request: Callable[[], None]) -> None:
        """Have something done by the loop. Raises LocalProtocolError when the node is closed."""
        if self._closing:
            raise LocalProtocolError(f"node {self.name} is closed")
        self._inbox.put(request)
        self.wake()

    def wake(self) -> None:
        """End the loop's wait: a device has something to report."""
        if threading.get_ident() == self._thread.ident:
            self._again = True
        elif not self._awake:
            self._awake = True
            os.eventfd_write(self._wake_fd, 1)

    def health(self) -> str | None:
        """Why no hand-over can go on here; None while some can (L11). For any thread."""
        standing = self.standing()
        if standing is not None:
            return standing
        apart = cut_off(list(self.peers.values()), monotonic())
        return None if apart is None else f"node {self.name}: {apart}"

    def standing(self) -> str | None:
        """Why this node does nothing any more, whatever its peers do; None while its loop turns.
        For any thread.
        """
        if self._closing:
            return f"node {self.name} is closed"
        still_s = monotonic() - self._turned
        if still_s > max(STANDS_STILL_S, 3 * self.link.sign_of_life_s):
            return f"node {self.name}: its loop has stood still for {still_s:.0f} s"
        return None

    def close(self) -> None:
        """Stop the loop and give everything back. It may be called twice."""
        if self._closing:
            return
        self._closing = True
        self._awake = False
        self.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self.on_close()  # devices may wake the loop until they are closed
        self._watch.close()
        self._router.close(linger=0)
        for peer in self.peers.values():
            peer.socket.close(linger=FAREWELL_MS)
        self._context.term()
        os.close(self._wake_fd)

    # For the node, in the loop

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        raise NotImplementedError

    def on_malformed(self, _who: str) -> None:
        """Somebody has sent what is no batch."""

    def on_end(self) -> None:
        """The loop ends: what is said now is the last that peers hear of it."""

    def on_turn(self, now: float) -> float | None:
        """Whatever else there is to do. Returns when at the latest to do it again."""
        raise NotImplementedError

    def on_close(self) -> None:
        """Close what the node drives. The loop has ended, its sockets are still there."""

    # The loop

    def _run(self) -> None:
        # ZeroMQ's own poller takes three times as long, and there are four turns in a hand-over.
        speech, news = int(self._router.getsockopt(zmq.FD)), self._watch.fileno()
        files = select.epoll()
        for file in (speech, news, self._wake_fd):
            files.register(file, select.EPOLLIN)
        due: float | None = None
        while not self._closing:
            now = monotonic()
            wait = self.link.sign_of_life_s if due is None else due - now
            wait = max(0.0, min(wait, self.link.sign_of_life_s))
            at_once = self._dirty or self._again or self._unread or not self._inbox.empty()
            ready = [file for file, _ in files.poll(0 if at_once else wait)]
            # They are asked for only where there are some: even a system call that does not wait
            # lets other threads take their turn, and that may be a long one.
            due = self._turn(batches=self._unread or speech in ready, changes=news in ready)
        files.close()
        try:
            self._serve_inbox(to_the_end=True)
            self.on_end()
        except Exception:
            log.exception("node %s: its loop ends, and not all is said", self.name)
        for peer in list(self.peers.values()):
            if not peer.lost:
                self._part(peer)

    def _turn(self, *, batches: bool, changes: bool) -> float | None:
        """Once round. batches: some have come. changes: connections have ended or come back."""
        due: float | None = None
        self._again = False
        self.watchdog.turn("the application's requests")
        try:
            if self._awake:  # in this order: who asks in between is served, who asks later wakes us
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                self._awake = False
            self._serve_inbox()
            now = monotonic()
            still_s = now - self._turned - self.link.sign_of_life_s  # beyond what it ever waits
            if still_s > 0.0:
                self._steady = now if still_s > self.link.sign_of_life_s else self._steady
                for peer in self.peers.values():
                    peer.heard += still_s  # who does not listen does not know who is silent
            self._turned = now
            self.watchdog.part("what peers say")
            if batches:
                self._receive(now)
            if changes:
                self._note_connections(now)
            due = self.on_turn(now)
            self.watchdog.part("what is said to peers")
            for peer in list(self._dirty.values()):
                self._flush(peer, now)  # first: somebody waits for it
                if not self.watchdog.has_time:
                    break
            if now >= self._look_at:
                self._look_after_peers(now)
            due = self._look_at if due is None else min(due, self._look_at)
        except Exception:
            # A mistake of ours in one turn must not leave a hundred thousand hand-overs unserved.
            self.turn_errors += 1
            if self.turn_errors & (self.turn_errors - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
                log.exception("node %s: a turn of its loop failed (%d times)", self.name,
                              self.turn_errors)
        return due

    def _serve_inbox(self, *, to_the_end: bool = False) -> None:
        """Do what was asked until now, as far as a turn has time for it."""
        for _ in range(self._inbox.qsize()):
            if not (to_the_end or self.watchdog.has_time) or self._inbox.empty():
                return
            request = self._inbox.get_nowait()
            try:
                request()
            except LocalProtocolError as error:
                self.mistakes += 1
                log.error("node %s: %s", self.name, error)

    def _receive(self, now: float) -> None:
        router, self._unread = self._router, True
        while True:
            try:
                frames = [router.recv(zmq.NOBLOCK), router.recv(zmq.NOBLOCK)]
            except zmq.Again:
                self._unread = False
                return
            while router.getsockopt(zmq.RCVMORE):  # asked once: asking takes as long as receiving
                frames.append(router.recv(zmq.NOBLOCK))
            who = frames[0].decode("utf-8", "replace")[:NAME_MAX]
            try:
                self._take(who, frames, now)
            except RemoteProtocolError as error:
                if who in self.malformed or len(self.malformed) < NAMES_MAX:
                    self.malformed[who] = self.malformed.get(who, 0) + 1
                self.on_malformed(who)
                log.warning("node %s: dropped what %r sent: %s", self.name, who, error,
                            extra={"rank": self.name, "peer": who})
            self._unread = bool(int(router.getsockopt(zmq.EVENTS)) & READABLE)
            if not self._unread or not self.watchdog.has_time:
                return

    def _take(self, who: str, frames: list[bytes], now: float) -> None:
        if len(frames) != 2:
            raise RemoteProtocolError(f"want one part after the identity, got {len(frames) - 1}")
        batch = decode(frames[1])
        if batch.node != who:
            raise RemoteProtocolError(f"connection {who!r} says it is node {batch.node!r}")
        peer = self.peers.get(who)
        if batch.gone is not None and (peer is None or peer.lost):
            return
        if peer is None:
            peer = self._greeted(batch)
        if not peer.lost and peer.incarnation not in (0, batch.incarnation):
            peer.ended = True
            self._lose(peer, "it has restarted")
        if peer.lost:
            if not peer.ended and peer.incarnation not in (0, batch.incarnation):
                peer.ended = True
                self.on_ended(peer)
            peer = self.connect(peer.name, endpoint_of(batch) or peer.endpoint)
        peer.incarnation, peer.heard = batch.incarnation, now
        self._note_hearing(peer, batch.unheard_ms, now)
        self.on_batch(peer, batch)
        if batch.gone is not None:
            peer.ended = True
            self._lose(peer, batch.gone or "it has ended", level=logging.INFO)

    def _greeted(self, batch: Batch) -> Peer:
        """A peer that speaks first says, in its first frame, where it can be answered."""
        endpoint = endpoint_of(batch)
        if endpoint is None:
            raise RemoteProtocolError("who speaks first introduces itself")
        if len(self.peers) >= PEERS_MAX:
            for name in self.lost_peers():
                del self.peers[name]
        if len(self.peers) >= PEERS_MAX:
            raise RemoteProtocolError(f"{PEERS_MAX:,} peers are known already")
        return self.connect(batch.node, endpoint)

    def _listening(self) -> "zmq.Socket[bytes]":
        return listening(self._context, self.name, self.link)
