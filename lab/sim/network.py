"""The network between nodes: batches of bytes that arrive after a delay, or never.

A connection delivers in order, as TCP does, unless a fault reorders batches. Batches on their way
to a process that ends are lost, and its successor never gets them.

The end of a process closes its connections, and the other ends are told. Behind a partition, an end
is told when it sends its next batch. A closed connection is tried again, as ZeroMQ does, until a
process of that name answers.
"""

from collections.abc import Callable
from typing import Final, Protocol

from lab.sim.event_queue import EventQueue
from lab.sim.plan import Fault, Kind
from pdproto.testing.chance import Stream

AGAIN_S: Final = 0.05  # the first pause before a closed connection is tried again; it doubles
AGAIN_MAX_S: Final = 1.0  # the longest pause


class Process(Protocol):
    """A process that batches can reach."""

    @property
    def name(self) -> str:
        """Its name, at which others connect to it."""

    @property
    def server(self) -> str:
        """The server that it belongs to."""

    def arrive(self, source: str, data: bytes, /) -> None:
        """Take a batch from the process named `source`."""

    def note(self, line: "Line", /, *, up: bool, refused: bool = False) -> None:
        """Take the news that a connection has ended, was opened, or is refused."""


class Line:
    """A connection that a process has opened (node/ports.py).

    process: the process at the other end, while the connection is open. server: of the last one.
    again_s: the pause before
    the next try.
    """

    __slots__ = ("again_s", "caller", "closed", "network", "process", "server", "target")

    def __init__(self, network: "Network", caller: Process, target: str) -> None:
        self.network: Final = network
        self.caller: Final = caller
        self.target: Final = target
        self.process: Process | None = None
        self.server = ""
        self.again_s = AGAIN_S
        self.closed = False

    def send(self, data: bytes) -> bool:
        """See Connection."""
        self.network.send(self.caller, self.target, data)
        self.network.notice_end(self)
        return True

    def probe(self) -> None:
        """See Connection."""
        self.network.probe(self)

    def close(self) -> None:
        """See Connection."""
        self.closed = True


class Direction:
    """One direction between two names. stream: its random numbers. last: when its last batch
    arrives.
    """

    __slots__ = ("last", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream: Final = stream
        self.last = 0.0


class Network:
    """The connections of a run. latency_s: the typical delay of a batch. active: present faults."""

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
        self._directions: Final[dict[tuple[str, str], Direction]] = {}
        self._lines: Final[list[Line]] = []  # those with a process at the other end

    def connect(self, caller: Process, target: str) -> Line:
        """Open a connection. It works when a process of that name answers."""
        line = Line(self, caller, target)
        self._dial(line)
        return line

    def die(self, process: Process) -> None:
        """End a process and its connections."""
        del self.processes[process.name]
        for line in [line for line in self._lines if line.process is process]:
            self.notice_end(line)

    def notice_end(self, line: Line) -> None:
        """Tell the caller if the process at the other end has ended, and no partition is between.
        """
        process = line.process
        if process is None or self._is_there(process) or self._is_apart(line.caller, process):
            return
        self._lines.remove(line)
        line.process, line.again_s = None, AGAIN_S
        self._tell(line, up=False)
        self.event_queue.after(line.again_s, self._dial, line)

    def probe(self, line: Line) -> None:
        """Tell the caller if no process of that name is there, and no partition is between."""
        is_cut = any(fault.kind is Kind.PARTITION
                     and fault.server in (line.caller.server, line.server) for fault in self.active)
        if line.target not in self.processes and not is_cut:
            self._tell(line, up=False, refused=True)

    def _dial(self, line: Line) -> None:
        """Try to open the connection, now and after pauses."""
        if line.closed or not self._is_there(line.caller):
            return
        process = self.processes.get(line.target)
        if process is None or self._is_apart(line.caller, process):
            self.event_queue.after(line.again_s, self._dial, line)
            line.again_s = min(2.0 * line.again_s, AGAIN_MAX_S)
            return
        line.process, line.server = process, process.server
        self._lines.append(line)
        self._tell(line, up=True)

    def _tell(self, line: Line, *, up: bool, refused: bool = False) -> None:
        self.event_queue.after(self.latency_s, self._told, line, up, refused)

    def _told(self, line: Line, up: bool, refused: bool) -> None:
        if not line.closed and self._is_there(line.caller):
            line.caller.note(line, up=up, refused=refused)

    def _is_there(self, process: Process) -> bool:
        return self.processes.get(process.name) is process

    def _is_apart(self, one: Process, other: Process) -> bool:
        """Whether a partition is between them."""
        return any(fault.kind is Kind.PARTITION and fault.server in (one.server, other.server)
                   for fault in self.active)

    def send(self, sender: Process, target: str, data: bytes) -> None:
        """Send a batch to the process of this name."""
        self.sent += 1
        receiver = self.processes.get(target)
        if receiver is None or self.processes.get(sender.name) is not sender:
            self.lost += 1
            return
        key = sender.name, target
        direction = self._directions.get(key)
        if direction is None:
            direction = self._directions[key] = Direction(
                self._stream(f"network/{sender.name}>{target}"))
        arrives = self.event_queue.now + direction.stream.delay(self.latency_s)
        if self.active:
            self._under_faults(sender, receiver, direction, arrives, data)
        else:
            direction.last = max(direction.last, arrives)
            self.event_queue.at(direction.last, self._deliver, sender.name, receiver, data)

    def _under_faults(
        self, sender: Process, receiver: Process, direction: Direction, arrives: float,
        data: bytes,
    ) -> None:
        copies, in_order = 1, True
        stream = direction.stream
        for fault in self.active:
            match fault.kind:
                case Kind.PARTITION if fault.server in (sender.server, receiver.server):
                    copies = 0
                case Kind.LOSS if stream.happens(fault.amount):
                    copies = 0
                case Kind.DUPLICATION if copies and stream.happens(fault.amount):
                    copies += 1
                case Kind.REORDERING if stream.happens(fault.amount):
                    in_order = False
                    arrives += stream.delay(20 * self.latency_s)
                case _:
                    pass
        self.lost += not copies
        for _ in range(copies):
            if in_order:
                direction.last = arrives = max(direction.last, arrives)
            self.event_queue.at(arrives, self._deliver, sender.name, receiver, data)
            arrives += stream.delay(self.latency_s)

    def _deliver(self, source: str, receiver: Process, data: bytes) -> None:
        if self.processes.get(receiver.name) is receiver:
            receiver.arrive(source, data)
