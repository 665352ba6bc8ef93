"""The network between nodes: batches of bytes that take their time, or never arrive.

A connection delivers in order, as TCP does, unless a fault says otherwise. Batches that are under
way to a process that dies are lost with it, and its successor never sees them.

The end of a process closes its connections, and the other ends are told, unless a partition is in
between: then an end is told when it speaks next. A connection that has ended is tried again, as
ZeroMQ does, until a process of that name answers.
"""

from collections.abc import Callable
from typing import Final, Protocol

from pdproto.sim.chance import Stream
from pdproto.sim.event_queue import EventQueue
from pdproto.sim.plan import Fault, Kind

AGAIN_S: Final = 0.05  # until a connection that has ended is tried again; then twice as long, up to
AGAIN_MAX_S: Final = 1.0


class Process(Protocol):
    """A process that batches can reach."""

    @property
    def name(self) -> str: ...

    @property
    def server(self) -> str: ...

    def arrive(self, source: str, data: bytes, /) -> None: ...

    def note(self, line: "Line", /, *, up: bool) -> None: ...


class Line:
    """A connection that a process has opened (node/ports.py).

    process: the one at the other end, while the connection is there. again_s: until the next try.
    """

    __slots__ = ("again_s", "caller", "closed", "network", "process", "target")

    def __init__(self, network: "Network", caller: Process, target: str) -> None:
        self.network: Final = network
        self.caller: Final = caller
        self.target: Final = target
        self.process: Process | None = None
        self.again_s = AGAIN_S
        self.closed = False

    def send(self, data: bytes) -> bool:
        self.network.send(self.caller, self.target, data)
        self.network.notice_end(self)
        return True

    def close(self) -> None:
        self.closed = True


class Way:
    """One direction between two names: its own numbers, and when its last batch arrives."""

    __slots__ = ("last", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream: Final = stream
        self.last = 0.0


class Network:
    """latency_s: what a batch typically takes. active: the faults that are on, by kind."""

    def __init__(
        self, event_queue: EventQueue, latency_s: float, stream: Callable[[str], Stream]
    ) -> None:
        self.event_queue: Final = event_queue
        self.latency_s: Final = latency_s
        self.processes: Final[dict[str, Process]] = {}
        self.active: Final[list[Fault]] = []
        self.sent = 0
        self.lost = 0
        self._stream: Final = stream
        self._ways: Final[dict[tuple[str, str], Way]] = {}
        self._lines: Final[list[Line]] = []  # those with a process at the other end

    def connect(self, caller: Process, target: str) -> Line:
        """Open a connection. It is there when a process of that name answers."""
        line = Line(self, caller, target)
        self._dial(line)
        return line

    def die(self, process: Process) -> None:
        """The process has ended, and its connections with it."""
        del self.processes[process.name]
        for line in [line for line in self._lines if line.process is process]:
            self.notice_end(line)

    def notice_end(self, line: Line) -> None:
        """Tell the caller, if the process at the other end is no more and the way is open."""
        process = line.process
        if process is None or self._is_there(process) or self._is_apart(line.caller, process):
            return
        self._lines.remove(line)
        line.process, line.again_s = None, AGAIN_S
        self._tell(line, up=False)
        self.event_queue.after(line.again_s, self._dial, line)

    def _dial(self, line: Line) -> None:
        """Try to make the connection, now and then."""
        if line.closed or not self._is_there(line.caller):
            return
        process = self.processes.get(line.target)
        if process is None or self._is_apart(line.caller, process):
            self.event_queue.after(line.again_s, self._dial, line)
            line.again_s = min(2.0 * line.again_s, AGAIN_MAX_S)
            return
        line.process = process
        self._lines.append(line)
        self._tell(line, up=True)

    def _tell(self, line: Line, *, up: bool) -> None:
        self.event_queue.after(self.latency_s, self._told, line, up)

    def _told(self, line: Line, up: bool) -> None:
        if not line.closed and self._is_there(line.caller):
            line.caller.note(line, up=up)

    def _is_there(self, process: Process) -> bool:
        return self.processes.get(process.name) is process

    def _is_apart(self, one: Process, other: Process) -> bool:
        """Whether a partition is between them."""
        return any(fault.kind is Kind.PARTITION and fault.server in (one.server, other.server)
                   for fault in self.active)

    def send(self, sender: Process, target: str, data: bytes) -> None:
        """Have a batch on its way."""
        self.sent += 1
        receiver = self.processes.get(target)
        if receiver is None or self.processes.get(sender.name) is not sender:
            self.lost += 1
            return
        key = sender.name, target
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = Way(self._stream(f"network/{sender.name}>{target}"))
        arrives = self.event_queue.now + way.stream.delay(self.latency_s)
        if self.active:
            self._under_faults(sender, receiver, way, arrives, data)
        else:
            way.last = max(way.last, arrives)
            self.event_queue.at(way.last, self._deliver, sender.name, receiver, data)

    def _under_faults(
        self, sender: Process, receiver: Process, way: Way, arrives: float, data: bytes,
    ) -> None:
        copies, in_order = 1, True
        stream = way.stream
        for fault in self.active:
            match fault.kind:
                case Kind.PARTITION if fault.server in (sender.server, receiver.server):
                    copies = 0
                case Kind.LOSS if stream.strikes(fault.amount):
                    copies = 0
                case Kind.DUPLICATION if copies and stream.strikes(fault.amount):
                    copies += 1
                case Kind.REORDERING if stream.strikes(fault.amount):
                    in_order = False
                    arrives += stream.delay(20 * self.latency_s)
                case _:
                    pass
        self.lost += not copies
        for _ in range(copies):
            if in_order:
                way.last = arrives = max(way.last, arrives)
            self.event_queue.at(arrives, self._deliver, sender.name, receiver, data)
            arrives += stream.delay(self.latency_s)

    def _deliver(self, source: str, receiver: Process, data: bytes) -> None:
        if self.processes.get(receiver.name) is receiver:
            receiver.arrive(source, data)
