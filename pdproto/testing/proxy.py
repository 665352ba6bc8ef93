"""A faulty network between real ZeroMQ nodes.

The proxy has a *listener* for each node, at the endpoint that the node advertises. It delivers the
messages through a listener late, twice, out of order or never, and cuts or stalls connections.

The proxy reads ZMTP 3 (ZeroMQ's RFC 23) only as far as to find the end of a message. Only whole
messages get a *fate*. Greetings and commands pass unchanged, so that both ends have a sound
connection until it is cut. With CURVE all messages travel inside commands, so the proxy can then
only cut and stall connections.

It has no thread and no clock: its owner calls `turn` again and again, and all methods from the same
thread.
"""

import selectors
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

GREETING_BYTES: Final = 64
MORE, LONG, COMMAND = 1, 2, 4  # flags of a frame
READ_BYTES: Final = 1 << 16
WAITING_BYTES_MAX: Final = 16 << 20  # on the way to one end; above that the sender must wait
CONNECT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Fate:
    """The treatment of one message.

    copies: how many arrive. delay_s: seconds until then. in_order: later messages wait for it, as
    on a slow line; otherwise they overtake it.
    """

    copies: int = 1
    delay_s: float = 0.0
    in_order: bool = True


PASSES: Final = Fate()
LOST: Final = Fate(copies=0)
DOUBLED: Final = Fate(copies=2)


@dataclass(slots=True)
class ProxyListener:
    """The endpoint at which the proxy listens for one node.

    target: the endpoint of the node itself, or "" if it is not known yet. held: nothing passes.
    """

    name: str
    server: socket.socket
    target: str = ""
    held: bool = False


@dataclass(slots=True, eq=False)
class ProxyEnd:
    """One end of a connection, with the data on its way there.

    greeting: bytes of the greeting that it has yet to send. heard: bytes from it of an incomplete
    message. out: bytes to send to it now. due: messages to it, as (time in seconds, number, bytes).
    last: the time of the latest message that is in order.
    """

    sock: socket.socket
    listener: ProxyListener
    other: "ProxyEnd | None" = None
    greeting: int = GREETING_BYTES
    heard: bytearray = field(default_factory=bytearray)
    out: bytearray = field(default_factory=bytearray)
    due: list[tuple[float, int, bytes]] = field(default_factory=list)
    last: float = 0.0


def split(heard: bytearray) -> Iterator[tuple[bytes, bool]]:
    """Remove each whole command or message from the bytes, and yield it: (bytes, is a message)."""
    while (length := _whole(heard)) is not None:
        is_message = not heard[0] & COMMAND
        taken = bytes(heard[:length])
        del heard[:length]
        yield taken, is_message


def _whole(heard: bytearray) -> int | None:
    """The length in bytes of the first command or message with all frames; None if incomplete."""
    place = 0
    while len(heard) > place + 1:
        flags = heard[place]
        wide = 8 if flags & LONG else 1
        body = place + 1 + wide
        if len(heard) < body:
            return None
        place = body + int.from_bytes(heard[place + 1:body])
        if not flags & MORE:
            return place if len(heard) >= place else None
    return None


class Proxy:
    """The network, with its listeners.

    fate: returns the fate of the next message; its argument is the name of the listener. counts:
    the numbers of messages and connections, by what happened to them.
    """

    def __init__(self, fate: Callable[[str], Fate] = lambda _: PASSES) -> None:
        self.fate = fate
        self.counts: Final[Counter[str]] = Counter()
        self._listeners: Final[dict[str, ProxyListener]] = {}
        self._ends: Final[set[ProxyEnd]] = set()
        self._selector: Final = selectors.DefaultSelector()
        self._number = 0

    def open(self, name: str, target: str = "") -> str:
        """Make a listener. Returns its endpoint, at a free port of the loopback interface.

        target: the ZeroMQ endpoint of the node, "" if it is not known yet.
        """
        server = socket.create_server(("127.0.0.1", 0))
        server.setblocking(False)
        self._listeners[name] = ProxyListener(name, server, target)
        self._selector.register(server, selectors.EVENT_READ, self._listeners[name])
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"

    def aim(self, name: str, target: str) -> None:
        """Set the ZeroMQ endpoint of the node behind a listener."""
        self._listeners[name].target = target

    def cut(self, name: str) -> None:
        """End every connection through a listener. New connections are accepted."""
        for end in [end for end in self._ends if end.listener.name == name]:
            self._end(end)

    def hold(self, name: str, held: bool = True) -> None:
        """Stop all data at a listener, or let it pass again. Connections stay open."""
        self._listeners[name].held = held

    def shut(self, name: str) -> None:
        """Close a listener with all its connections."""
        self.cut(name)
        server = self._listeners.pop(name).server
        self._selector.unregister(server)
        server.close()

    def heal(self) -> None:
        """Let all data pass from now on."""
        self.fate = lambda _: PASSES
        for listener in self._listeners.values():
            listener.held = False

    def close(self) -> None:
        """Close every listener."""
        for name in list(self._listeners):
            self.shut(name)
        self._selector.close()

    def turn(self, now: float, wait_s: float) -> None:
        """Read and pass on all data that is due; wait at most `wait_s` seconds for data.

        now: the time in seconds, on the clock of all calls.
        """
        soonest = min((end.due[0][0] for end in self._ends if end.due), default=now + wait_s)
        for key, _ in self._selector.select(max(0.0, min(wait_s, soonest - now))):
            if isinstance(key.data, ProxyListener):
                self._accept(key.data)
            elif key.data in self._ends:
                self._receive(key.data, now)
        for end in list(self._ends):
            if end in self._ends:
                self._pass_on(end, now)

    def _accept(self, listener: ProxyListener) -> None:
        near, _ = listener.server.accept()
        host, _, port = listener.target.removeprefix("tcp://").rpartition(":")
        try:
            far = socket.create_connection((host, int(port or 0)), CONNECT_S)
        except OSError:
            near.close()
            self.counts["unanswered"] += 1
            return
        one, two = ProxyEnd(near, listener), ProxyEnd(far, listener)
        one.other, two.other = two, one
        for end in (one, two):
            end.sock.setblocking(False)
            self._ends.add(end)
            self._selector.register(end.sock, selectors.EVENT_READ, end)
        self.counts["connections"] += 1

    def _receive(self, end: ProxyEnd, now: float) -> None:
        target = end.other
        if target is None:
            raise AssertionError("a connection has one end only")
        try:
            data = end.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(end)
            return
        greeting, rest = data[:end.greeting], data[end.greeting:]
        end.greeting -= len(greeting)
        target.out += greeting
        end.heard += rest
        for part, is_message in split(end.heard):
            if is_message:
                self._send(target, part, self.fate(end.listener.name), now)
            else:
                target.out += part

    def _send(self, target: ProxyEnd, message: bytes, fate: Fate, now: float) -> None:
        self.counts["messages"] += 1
        self.counts["lost"] += fate.copies == 0
        self.counts["doubled"] += fate.copies > 1
        self.counts["late"] += fate.delay_s > 0
        due = now + fate.delay_s
        if fate.in_order:
            target.last = due = max(due, target.last)
        for _ in range(fate.copies):
            self._number += 1
            heappush(target.due, (due, self._number, message))

    def _pass_on(self, end: ProxyEnd, now: float) -> None:
        """Write all due data that an end accepts, and read from it while there is room for more."""
        while end.due and end.due[0][0] <= now:
            end.out += heappop(end.due)[2]
        held = end.listener.held
        if end.out and not held:
            try:
                del end.out[:end.sock.send(end.out)]
            except BlockingIOError:
                pass
            except OSError:
                self._end(end)
                return
        room = end.other is not None and len(end.other.out) < WAITING_BYTES_MAX
        events = (selectors.EVENT_READ if room and not held else 0) | (
            selectors.EVENT_WRITE if end.out and not held else 0)
        self._listen(end, events)

    def _listen(self, end: ProxyEnd, events: int) -> None:
        """Let the selector wait for these events; 0 removes the end from the selector."""
        known = self._selector.get_map().get(end.sock)
        if known is None and events:
            self._selector.register(end.sock, events, end)
        elif known is not None and not events:
            self._selector.unregister(end.sock)
        elif known is not None and known.events != events:
            self._selector.modify(end.sock, events, end)

    def _end(self, end: ProxyEnd) -> None:
        """End the connection at both ends. Data on its way is lost."""
        if end not in self._ends:
            return
        self.counts["ended"] += 1
        for one in filter(None, (end, end.other)):
            self._ends.remove(one)
            with suppress(KeyError):
                self._selector.unregister(one.sock)
            one.sock.close()
