"""The network between nodes: batches of bytes that take their time, or never arrive.

A connection delivers in order, as TCP does, unless a fault says otherwise. What is under way to a
process that dies is lost with it, and its successor never sees it.
"""

from collections.abc import Callable
from typing import Final, Protocol

from pdproto.sim.agenda import Agenda
from pdproto.sim.chance import Stream
from pdproto.sim.plan import Fault, Kind


class Process(Protocol):
    """A process that batches can reach."""

    @property
    def name(self) -> str: ...

    @property
    def server(self) -> str: ...

    def arrive(self, source: str, data: bytes, /) -> None: ...


class Connection:
    """One direction between two names: its own numbers, and when its last batch arrives."""

    __slots__ = ("last", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream: Final = stream
        self.last = 0.0


class Network:
    """latency_s: what a batch typically takes. active: the faults that are on, by kind."""

    def __init__(
        self, agenda: Agenda, latency_s: float, stream: Callable[[str], Stream]
    ) -> None:
        self.agenda: Final = agenda
        self.latency_s: Final = latency_s
        self.processes: Final[dict[str, Process]] = {}
        self.active: Final[list[Fault]] = []
        self.sent = 0
        self.lost = 0
        self._stream: Final = stream
        self._connections: Final[dict[tuple[str, str], Connection]] = {}

    def send(self, sender: Process, target: str, data: bytes) -> None:
        """Have a batch on its way."""
        self.sent += 1
        receiver = self.processes.get(target)
        if receiver is None or self.processes.get(sender.name) is not sender:
            self.lost += 1
            return
        key = sender.name, target
        connection = self._connections.get(key)
        if connection is None:
            connection = Connection(self._stream(f"network/{sender.name}>{target}"))
            self._connections[key] = connection
        arrives = self.agenda.now + connection.stream.delay(self.latency_s)
        if self.active:
            self._under_faults(sender, receiver, connection, arrives, data)
        else:
            connection.last = max(connection.last, arrives)
            self.agenda.at(connection.last, self._deliver, sender.name, receiver, data)

    def _under_faults(
        self, sender: Process, receiver: Process, connection: Connection, arrives: float,
        data: bytes,
    ) -> None:
        copies, in_order = 1, True
        stream = connection.stream
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
                connection.last = arrives = max(connection.last, arrives)
            self.agenda.at(arrives, self._deliver, sender.name, receiver, data)
            arrives += stream.delay(self.latency_s)

    def _deliver(self, source: str, receiver: Process, data: bytes) -> None:
        if self.processes.get(receiver.name) is receiver:
            receiver.arrive(source, data)
