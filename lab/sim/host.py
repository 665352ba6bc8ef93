"""The processes of a simulated cluster: each is the transport of one node, and runs its turns.

The node and its turn are those of real servers (node/core.py): requests, messages, connections that
end and come back, compensation for a process that stood still, and the order of all these. A host
only decides the time of the next turn.
"""

from collections.abc import Callable
from typing import Final

from lab.sim.event_queue import EventQueue
from lab.sim.network import Line, Network
from pdproto.node.core import Core, run_turn
from pdproto.node.ports import Arrived, ConnectionChange
from pdproto.runtime.errors import LocalProtocolError

BOOTED_S: Final = 1_000.0  # the first time on every clock: real clocks do not start at 0


class UnlimitedPace:
    """A pace without limits (node/ports.py): the host sets the virtual length of a turn."""

    has_time: Final = True

    def begin(self, part: str) -> None:
        """See Pace. No time is measured."""

    def part(self, name: str) -> None:
        """See Pace. No time is measured."""


def _raise(_name: str, error: BaseException) -> None:
    """The functions that a simulated node calls are of the simulator."""
    raise error


class Host:
    """A process, from its start to its end. skew: seconds by which its clock is ahead of virtual
    time.

    turn_s: the length of a turn; the next one begins later.
    """

    def __init__(
        self, event_queue: EventQueue, network: Network, name: str, server: str, incarnation: int,
        turn_s: float,
    ) -> None:
        self.event_queue: Final = event_queue
        self.network: Final = network
        self.name: Final = name
        self.server: Final = server
        self.incarnation: Final = incarnation
        self.turn_s = turn_s
        self.skew = BOOTED_S
        self.paused = False
        self.dead = False
        self.pace: Final = UnlimitedPace()
        self.turn_failed: Callable[[Host, Exception], None] | None = None
        self._node: Core | None = None
        self._requests: list[Callable[[], None]] = []
        self._batches: list[tuple[str, tuple[bytes]]] = []
        self._changes: list[ConnectionChange] = []
        self._in_turn = False
        self._free_at = 0.0
        self._due: float | None = None

    def run(self, node: Core) -> None:
        """Run this node from now on."""
        self._node = node
        node.on_callback_error = _raise
        node.begin(self)
        self.wake()

    def resume(self) -> None:
        """Go on after a pause."""
        self.paused = False
        self.wake()

    def die(self) -> None:
        """End the process, without a message to its peers."""
        self.dead = True

    # For the network

    def arrive(self, source: str, data: bytes) -> None:
        """See Process."""
        self._batches.append((source, (data,)))
        self.wake()

    def note(self, line: Line, *, up: bool, refused: bool = False) -> None:
        """See Process."""
        self._changes.append(ConnectionChange(line, up, refused))
        self.wake()

    # For the node: see Transport

    def clock(self) -> float:
        """The time on the host's own clock."""
        return self.event_queue.now + self.skew

    def ask(self, request: Callable[[], None]) -> None:
        """See Transport."""
        self.ask_later(request)
        self.wake()

    def ask_later(self, request: Callable[[], None]) -> None:
        """See Transport."""
        if self.dead:
            raise LocalProtocolError(f"node {self.name} is closed")
        self._requests.append(request)

    def wake(self) -> None:
        """See Transport."""
        if self._in_turn and self._node is not None:
            self._node.again = True
            return
        due = self._due
        if due is None or (due > self._free_at and due > self.event_queue.now):
            self._turn_at(self.event_queue.now)

    def address_for(self, _endpoint: str) -> str:
        """See Transport. The address of a simulated process is its name."""
        return self.name

    def connect(self, _name: str, endpoint: str) -> Line:
        """See Transport."""
        return self.network.connect(self, endpoint)

    # Turns

    def _turn_at(self, when: float) -> None:
        when = max(when, self._free_at)
        if self._due is None or when < self._due:
            self._due = when
            self.event_queue.at(when, self._turn, when)

    def _turn(self, when: float) -> None:
        if self._due != when or self._node is None or self.dead:
            return
        self._due = None
        if self.paused:
            return
        arrived = Arrived(self._requests, self._batches, self._changes)
        self._requests, self._batches, self._changes = [], [], []
        self._free_at = when + self.turn_s
        self._in_turn = True
        try:
            due = run_turn(self._node, arrived, when + self.skew)
        except Exception as error:
            if self.turn_failed is None:
                raise
            self.turn_failed(self, error)
            return
        finally:
            self._in_turn = False
        self._turn_at(self.event_queue.now if self._requests else due - self.skew)
