"""A transport without a network: a test hands batches to a node, and reads what the node sends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from lab.sim.host import UnlimitedPace
from pdproto.node.core import Core, run_turn
from pdproto.node.ports import Arrived, ConnectionChange
from pdproto.runtime.batches import Batch, decode, encode
from pdproto.runtime.wire import AnyFrame

OWN: Final = "tcp://127.0.0.1:9"


@dataclass(eq=False)
class Line:
    """A connection. full: it takes no batch."""

    endpoint: str
    full: bool = False
    closed: bool = False
    said: list[Batch] = field(default_factory=list)

    def probe(self) -> None:
        """Nothing is found out."""

    def send(self, data: bytes) -> bool:
        if not self.full:
            self.said.append(decode(data))
        return not self.full

    def close(self) -> None:
        self.closed = True

    @property
    def frames(self) -> list[AnyFrame]:
        return [frame for batch in self.said for frame in batch.frames]


class Offline:
    """The transport of one node, whose clock is moved by `turn`. lines: in the order of opening."""

    def __init__(self, node: Core) -> None:
        self.pace: Final = UnlimitedPace()
        self.lines: Final[list[Line]] = []
        self.now = 1_000.0
        self._node: Final = node
        self._requests: list[Callable[[], None]] = []
        node.begin(self)

    def clock(self) -> float:
        return self.now

    def ask(self, request: Callable[[], None]) -> None:
        self._requests.append(request)

    def ask_later(self, request: Callable[[], None]) -> None:
        self._requests.append(request)

    def wake(self) -> None:
        """A turn is taken when the test takes it."""

    def address_for(self, _endpoint: str) -> str:
        return OWN

    def connect(self, _name: str, endpoint: str) -> Line:
        self.lines.append(Line(endpoint))
        return self.lines[-1]

    def line(self, name: str) -> Line:
        """The connection to the peer of this name."""
        connection = self._node.peers[name].connection
        assert isinstance(connection, Line)
        return connection

    def stand_still(self, seconds: float) -> None:
        """Take no turn for so long."""
        self.now += seconds

    def turn(
        self, *batches: tuple[str, bytes], after: float = 0.0,
        changes: Iterable[ConnectionChange] = (),
    ) -> None:
        """Take one turn with the batches of these senders, so many seconds after the last."""
        until, stride = self.now + after, self._node.link.sign_of_life_s
        while self.now + stride < until:  # a loop takes turns meanwhile
            self.now += stride
            run_turn(self._node, Arrived(), self.now)
        self.now = until
        requests, self._requests = self._requests, []
        arrived = Arrived(requests, [(name, [data]) for name, data in batches], changes)
        run_turn(self._node, arrived, self.now)

    def pass_time(self, seconds: int, *speaking: tuple[str, int]) -> None:
        """Let time pass, in which these peers, with their incarnations, give signs of life."""
        for _ in range(seconds):
            self.turn(after=1.0)
            for name, incarnation in speaking:
                self.hear(name, incarnation=incarnation)

    def hear(self, name: str, *frames: AnyFrame, incarnation: int = 17, floor: int = 0) -> None:
        """Take one turn with a batch of these frames."""
        self.turn((name, encode(name, incarnation, floor, frames)))
