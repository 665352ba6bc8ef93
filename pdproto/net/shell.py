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
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

import zmq

from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.wire import BATCH_BYTES_MAX, NAME_MAX, AnyFrame, Batch, decode, encode

log = logging.getLogger("pdproto.net")

OUT_FRAMES_MAX: Final = 4_096  # in one batch; the rest goes out in the next
WAITING_FRAMES_MAX: Final = 1 << 17  # kept for a peer that does not read
RECEIVED_MAX: Final = 256  # batches in one turn, so that timers are never starved
PEERS_MAX: Final = 4_096  # known at a time; a stranger cannot make a node open more sockets
NAMES_MAX: Final = 1_024  # of senders whose malformed batches are counted one by one


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys of the CURVE handshake (zmq.curve_keypair). server: the public key of those we call."""

    public: bytes
    secret: bytes
    server: bytes


@dataclass(frozen=True, slots=True)
class Link:
    """How a node talks. bind: a ZeroMQ endpoint; port 0 takes a free one.

    sign_of_life_s: how often a silent node says that it is there. silent_s: how long a peer may say
    nothing before it counts as gone.
    """

    bind: str = "tcp://127.0.0.1:0"
    high_water: int = 10_000
    sign_of_life_s: float = 1.0
    silent_s: float = 5.0
    curve: Curve | None = None


@dataclass(slots=True, eq=False)
class Peer:
    """Another node, as this one knows it. incarnation: 0 until it has spoken."""

    name: str
    endpoint: str
    socket: "zmq.Socket[bytes]"
    out: list[AnyFrame]
    spoken: float
    heard: float
    incarnation: int = 0
    lost: bool = False
    dropped: int = 0


class Shell:
    """The loop. A node says what is done with a batch, a lost peer, and a turn."""

    def __init__(self, name: str, link: Link, incarnation: int | None = None) -> None:
        if not 0 < len(name) <= NAME_MAX:
            raise ValueError(f"node name {name!r}: want 1 to {NAME_MAX} characters")
        self.name: Final = name
        self.link: Final = link
        self.incarnation: Final = incarnation or secrets.randbits(62) | 1
        self.peers: Final[dict[str, Peer]] = {}
        self.malformed: Final[dict[str, int]] = {}  # by the name of who sent it
        self.mistakes = 0  # of the application: calls that the tables do not allow
        self.turn_errors = 0
        self._dirty: Final[dict[str, Peer]] = {}
        self._inbox: Final[SimpleQueue[Callable[[], None]]] = SimpleQueue()
        self._context: Final = zmq.Context()
        self._router: Final = self._listening()
        self.endpoint: Final = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._wake_fd: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._awake = False
        self._closing = threading.Event()
        self._thread: Final = threading.Thread(
            target=self._run, name=f"pdproto-{name}", daemon=True
        )

    # For other threads

    def start(self) -> None:
        self._thread.start()

    def ask(self, request: Callable[[], None]) -> None:
        """Have something done by the loop. Raises LocalProtocolError when the node is closed."""
        if self._closing.is_set():
            raise LocalProtocolError(f"node {self.name} is closed")
        self._inbox.put(request)
        self.wake()

    def wake(self) -> None:
        """End the loop's wait: a device has something to report."""
        if not self._awake:
            self._awake = True
            os.eventfd_write(self._wake_fd, 1)

    def lost_peers(self) -> tuple[str, ...]:
        """The peers that count as gone: they have been silent, or have restarted."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

    def close(self) -> None:
        """Stop the loop and give everything back. It may be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._awake = False
        self.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self.on_close()  # devices may wake the loop until they are closed
        self._router.close(linger=0)
        for peer in self.peers.values():
            peer.socket.close(linger=200)
        self._context.term()
        os.close(self._wake_fd)

    # For the node, in the loop

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        raise NotImplementedError

    def on_malformed(self, _who: str) -> None:
        """Somebody has sent what is no batch."""

    def on_lost(self, peer: Peer, _why: str) -> None:
        raise NotImplementedError

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
        return peer

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer."""
        if len(peer.out) >= WAITING_FRAMES_MAX:
            peer.dropped += 1
            return
        peer.out.append(frame)
        self._dirty[peer.name] = peer

    # The loop

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._wake_fd, zmq.POLLIN)
        due: float | None = None
        while not self._closing.is_set():
            now = monotonic()
            wait = self.link.sign_of_life_s if due is None else due - now
            wait = 0.0 if self._dirty else max(0.0, min(wait, self.link.sign_of_life_s))
            poller.poll(ceil(wait * 1000))
            due = self._turn()
        for peer in list(self._dirty.values()):
            self._flush(peer, monotonic())

    def _turn(self) -> float | None:
        due: float | None = None
        try:
            if self._awake:
                # In this order: who asks in between is served below, and who asks later wakes us.
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                self._awake = False
            self._serve_inbox()
            now = monotonic()
            self._receive(now)
            due = self.on_turn(now)
            self._look_after_peers(now)
            for peer in list(self._dirty.values()):
                self._flush(peer, now)
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
        for _ in range(RECEIVED_MAX):
            if not int(self._router.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                return
            frames = self._router.recv_multipart(zmq.NOBLOCK)
            who = frames[0].decode("utf-8", "replace")[:NAME_MAX]
            try:
                self._take(who, frames, now)
            except RemoteProtocolError as error:
                if who in self.malformed or len(self.malformed) < NAMES_MAX:
                    self.malformed[who] = self.malformed.get(who, 0) + 1
                self.on_malformed(who)
                log.warning("node %s: dropped what %r sent: %s", self.name, who, error)

    def _take(self, who: str, frames: list[bytes], now: float) -> None:
        if len(frames) != 2:
            raise RemoteProtocolError(f"want one part after the identity, got {len(frames) - 1}")
        batch = decode(frames[1])
        if batch.node != who:
            raise RemoteProtocolError(f"connection {who!r} says it is node {batch.node!r}")
        peer = self.peers.get(who)
        if peer is None:
            peer = self._greeted(batch)
        if not peer.lost and peer.incarnation not in (0, batch.incarnation):
            self._lose(peer, "it has restarted")
        if peer.lost:
            peer = self.connect(peer.name, _endpoint(batch) or peer.endpoint)
        peer.incarnation, peer.heard = batch.incarnation, now
        self.on_batch(peer, batch)

    def _greeted(self, batch: Batch) -> Peer:
        """A peer that speaks first says, in its first frame, where it can be answered."""
        endpoint = _endpoint(batch)
        if endpoint is None:
            raise RemoteProtocolError("who speaks first introduces itself")
        if len(self.peers) >= PEERS_MAX:
            for name in self.lost_peers():
                del self.peers[name]
        if len(self.peers) >= PEERS_MAX:
            raise RemoteProtocolError(f"{PEERS_MAX:,} peers are known already")
        return self.connect(batch.node, endpoint)

    def _look_after_peers(self, now: float) -> None:
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            if now - peer.heard > self.link.silent_s:
                self._lose(peer, f"nothing heard for {self.link.silent_s:g} s")
            elif now - peer.spoken > self.link.sign_of_life_s:
                self._dirty[peer.name] = peer

    def _lose(self, peer: Peer, why: str) -> None:
        peer.lost = True
        peer.out.clear()
        peer.socket.close(linger=0)
        self._dirty.pop(peer.name, None)
        log.warning("node %s: lost connection to %s: %s", self.name, peer.name, why)
        self.on_lost(peer, why)

    def _flush(self, peer: Peer, now: float) -> None:
        frames, peer.out = peer.out[:OUT_FRAMES_MAX], peer.out[OUT_FRAMES_MAX:]
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
        socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.RCVHWM, self.link.high_water)
        socket.setsockopt(zmq.MAXMSGSIZE, BATCH_BYTES_MAX)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a node that restarts takes its name again
        if self.link.curve is not None:
            socket.curve_server = True
            socket.curve_secretkey = self.link.curve.secret
            socket.curve_publickey = self.link.curve.public
        try:
            socket.bind(self.link.bind)
        except zmq.ZMQError as error:
            socket.close()
            self._context.term()
            raise OSError(f"node {self.name} cannot listen on {self.link.bind}: {error}") from error
        return socket

    def _dealer(self, endpoint: str) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.SNDHWM, self.link.high_water)
        socket.setsockopt_string(zmq.IDENTITY, self.name)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        if self.link.curve is not None:
            socket.curve_secretkey = self.link.curve.secret
            socket.curve_publickey = self.link.curve.public
            socket.curve_serverkey = self.link.curve.server
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            socket.close()
            raise RemoteProtocolError(f"cannot connect to {endpoint!r}: {error}") from error
        return socket


def _endpoint(batch: Batch) -> str | None:
    """Where the peer listens, if one of its frames says so."""
    endpoints = (getattr(frame, "endpoint", None) for frame in batch.frames)
    return next((endpoint for endpoint in endpoints if endpoint is not None), None)
