"""The shell: one thread that owns the sockets, the clock, and all endpoints of a node.

A node listens on one ROUTER socket and speaks to each peer through a DEALER of its own, named like
the node, so that a peer can tell who speaks. What it has to say to a peer in one turn of the loop
goes out as one batch.

Rule 1: nothing outside this thread touches an endpoint. The only ways in are `ask` and the wake-up.
Rule 2: no frame and no call kills the thread. What is malformed is dropped and
        counted, and the peer is named.
Rule 3: queues are bounded: a peer that does not read loses frames, and the tables repeat them.
"""

import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

import zmq

from pdproto.net.incarnation import new_incarnation
from pdproto.net.link import Curve, Link, calling, listening
from pdproto.net.peer import Peer, endpoint_of
from pdproto.net.watch import Watch
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.wire import BATCH_BYTES_MAX, NAME_MAX, AnyFrame, Batch, decode, encode

__all__ = ["Curve", "Link", "Peer", "Shell"]

log = logging.getLogger("pdproto.net")

OUT_FRAMES_MAX: Final = 4_096  # in one batch; the rest goes out in the next
LOOK_S: Final = 0.001  # between two looks at all peers
STANDS_STILL_S: Final = 5.0  # a loop that has not come round for so long serves nobody
WAITING_FRAMES_MAX: Final = 1 << 17  # kept for a peer that does not read
READABLE: Final = int(zmq.POLLIN)  # flags of an enum take ten times as long to compare
RECEIVED_MAX: Final = 256  # batches in one turn, so that timers are never starved
PEERS_MAX: Final = 4_096  # known at a time; a stranger cannot make a node open more sockets
SOCKETS_MAX: Final = 3 * PEERS_MAX  # one for each peer, and two that watch it
FAREWELL_MS: Final = 200  # for which what has been said last may still be under way
NAMES_MAX: Final = 1_024  # of senders whose malformed batches are counted one by one


class Shell:
    """The loop. A node says what is done with a batch, a lost peer, and a turn."""

    def __init__(self, name: str, link: Link, incarnation: int | None = None) -> None:
        if not 0 < len(name) <= NAME_MAX:
            raise ValueError(f"node name {name!r}: want 1 to {NAME_MAX} characters")
        self.name: Final = name
        self.link: Final = link
        self.incarnation: Final = incarnation or new_incarnation()
        self.peers: Final[dict[str, Peer]] = {}
        self.malformed: Final[dict[str, int]] = {}  # by the name of who sent it
        self.mistakes = 0  # of the application: calls that the tables do not allow
        self.turn_errors = 0
        self.dropped_frames = 0  # for peers that do not read
        self._dirty: Final[dict[str, Peer]] = {}
        self._inbox: Final[SimpleQueue[Callable[[], None]]] = SimpleQueue()
        self._context: Final = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self._watch: Final = Watch()
        self._router: Final = self._listening()
        self.bound: Final = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.endpoint: Final = link.advertise or self.bound
        self._wake_fd: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._awake = False  # somebody else wants a turn,
        self._again = False  # or the loop itself does
        self._unread = True  # ZeroMQ tells of what comes only who has found nothing
        self._look_at = 0.0  # when to look after all peers again
        self._turned = monotonic()  # when the loop last came round
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
        if self._closing:
            return f"node {self.name} is closed"
        still_s = monotonic() - self._turned
        if still_s > max(STANDS_STILL_S, 3 * self.link.sign_of_life_s):
            return f"node {self.name}: its loop has stood still for {still_s:.0f} s"
        return None

    def lost_peers(self) -> tuple[str, ...]:
        """The peers that count as gone, for whatever reason `on_lost` was told."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

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

    def on_lost(self, peer: Peer, _why: str) -> None:
        raise NotImplementedError

    def on_ended(self, peer: Peer) -> None:
        """That a lost peer is no more is known now: its successor has spoken."""

    def on_returned(self, peer: Peer) -> None:
        """Its connection had ended, and is there again: what was under way then may be lost."""

    def on_end(self) -> None:
        """The loop ends: what is said now is the last that peers hear of it."""

    def on_turn(self, now: float) -> float | None:
        """Whatever else there is to do. Returns when at the latest to do it again."""
        raise NotImplementedError

    def on_close(self) -> None:
        """Close what the node drives. The loop has ended, its sockets are still there."""

    def floor(self) -> int:
        return 0

    def connect(self, name: str, endpoint: str) -> Peer:
        """The peer of that name, at that endpoint: whoever was elsewhere under it is gone."""
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.endpoint == endpoint:
                return peer
            self._lose(peer, f"another has come in its place, at {endpoint}")
        now = monotonic()
        peer = Peer(name, endpoint, self._dealer(endpoint), [], 0.0, now)
        self.peers[name] = peer
        self._look_at = 0.0
        return peer

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer."""
        if len(peer.out) >= WAITING_FRAMES_MAX:
            self.dropped_frames += 1
            return
        peer.out.append(frame)
        self._dirty[peer.name] = peer

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
            self._serve_inbox()
            self.on_end()
        except Exception:
            log.exception("node %s: its loop ends, and not all is said", self.name)
        for peer in list(self.peers.values()):
            if not peer.lost:
                self._part(peer)

    def _part(self, peer: Peer) -> None:
        """Say what is left to say, and that nothing more comes: nobody need wait to find out."""
        left = len(peer.out) + 1
        while peer.out and len(peer.out) < left:  # as long as it takes any
            left = len(peer.out)
            self._flush(peer, monotonic())
        data = encode(self.name, self.incarnation, self.floor(), (), gone="it has been closed")
        with suppress(zmq.Again):
            peer.socket.send(data, zmq.NOBLOCK)

    def _turn(self, *, batches: bool, changes: bool) -> float | None:
        """Once round. batches: some have come. changes: connections have ended or come back."""
        due: float | None = None
        self._again = False
        try:
            if self._awake:
                # In this order: who asks in between is served below, and who asks later wakes us.
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                self._awake = False
            self._serve_inbox()
            now = monotonic()
            still_s = now - self._turned - self.link.sign_of_life_s  # beyond what it ever waits
            if still_s > 0.0:
                for peer in self.peers.values():
                    peer.heard += still_s  # who does not listen does not know who is silent
            self._turned = now
            if batches:
                self._receive(now)
            if changes:
                self._note_connections(now)
            due = self.on_turn(now)
            for peer in list(self._dirty.values()):
                self._flush(peer, now)  # first: somebody waits for it
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

    def _serve_inbox(self) -> None:
        for _ in range(self._inbox.qsize()):
            try:
                request = self._inbox.get_nowait()
            except Empty:
                return
            try:
                request()
            except LocalProtocolError as error:
                self.mistakes += 1
                log.error("node %s: %s", self.name, error)

    def _receive(self, now: float) -> None:
        router, self._unread = self._router, True
        for _ in range(RECEIVED_MAX):
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
            if not int(router.getsockopt(zmq.EVENTS)) & READABLE:
                self._unread = False
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

    def _note_connections(self, now: float) -> None:
        for change in self._watch.changes():
            peer = next(peer for peer in self.peers.values() if peer.socket is change.socket)
            if not change.up:
                peer.broken = peer.broken or now + self.link.grace_s
                self._look_at = 0.0
            elif peer.broken is not None:
                # The same process, or another in its place: that one tells as soon as it speaks.
                peer.broken = None
                self.on_returned(peer)

    def _look_after_peers(self, now: float) -> None:
        """Lose who is gone, speak to who has long heard nothing, and note when to look again: there
        may be thousands, and a turn is short.
        """
        link = self.link
        look_at = now + link.sign_of_life_s
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            if peer.broken is not None and now > peer.broken:
                self._lose(peer, f"its connection has ended, and has not come back for "
                                 f"{self.link.grace_s:g} s")
            elif now - peer.heard > self.link.silent_s:
                self._lose(peer, f"nothing heard for {self.link.silent_s:g} s")
            elif now - peer.spoken > link.sign_of_life_s:
                self._dirty[peer.name] = peer
            else:
                look_at = min(look_at, peer.spoken + link.sign_of_life_s,
                              peer.heard + link.silent_s, peer.broken or look_at)
        self._look_at = max(look_at, now + LOOK_S)

    def _lose(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        peer.lost = True
        peer.broken = None
        peer.out.clear()
        self._watch.remove(peer.socket)
        peer.socket.close(linger=0)
        self._dirty.pop(peer.name, None)
        log.log(level, "node %s: lost connection to %s: %s", self.name, peer.name, why,
                extra={"rank": self.name, "peer": peer.name})
        self.on_lost(peer, why)

    def _flush(self, peer: Peer, now: float) -> None:
        frames, peer.out = peer.out, []
        if len(frames) > OUT_FRAMES_MAX:
            frames, peer.out = frames[:OUT_FRAMES_MAX], frames[OUT_FRAMES_MAX:]
        data = encode(self.name, self.incarnation, self.floor(), frames)
        while len(data) > BATCH_BYTES_MAX and len(frames) > 1:
            peer.out = [*frames[len(frames) // 2:], *peer.out]
            frames = frames[: len(frames) // 2]
            data = encode(self.name, self.incarnation, self.floor(), frames)
        try:
            peer.socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            peer.out = [*frames, *peer.out]
            peer.spoken = now
            self._dirty.pop(peer.name, None)
            return
        peer.spoken = now
        if not peer.out:
            self._dirty.pop(peer.name, None)

    def _listening(self) -> "zmq.Socket[bytes]":
        return listening(self._context, self.name, self.link)

    def _dealer(self, endpoint: str) -> "zmq.Socket[bytes]":
        return calling(self._context, self.name, endpoint, self.link, self._watch)
