"""A prefill server of several data-parallel ranks and a decode rank: real nodes and real frames.

There is no socket, no thread and no clock. Batches and requests to the registry lie in queues until
a test delivers them, in whichever order it likes; time passes when a test says so.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from lab.sim.host import UnlimitedPace
from pdproto.node.core import Core, run_turn
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.ports import Arrived, ConnectionChange
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.routing import DataParallelRank
from pdproto.node.prefill.sender import Sender
from pdproto.node.rooms import DecodeRooms, PrefillRooms, PrefillServer
from pdproto.registry.registry import Registry
from pdproto.registry.wire import Registration, Room, Rooms
from pdproto.runtime.batches import decode
from pdproto.runtime.wire import AnyFrame
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.machine import Table
from pdproto.spec.language.system import System
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath

LINK: Final = Link(sign_of_life_s=1.0, silent_s=1e6)
WAITS: Final = {"bootstrap_timeout": 120.0, "transfer_timeout": 120.0, "no_decode": 60.0,
                "unresolved": 60.0}
SERVER: Final = "registry:1"
ENDED: Final = (KVPoll.FAILED, KVPoll.SUCCESS)


def table_of(system: System, name: str) -> Table:
    return next(table for table in system.tables if table.machine.name == name)


class Line:
    """A connection from one process to another."""

    def __init__(self, network: "Network", source: str, target: str) -> None:
        self.target: Final = target
        self._batches: Final = network.batches.setdefault((source, target), deque())

    def probe(self) -> None:
        """Nothing is found out."""

    def send(self, data: bytes) -> bool:
        self._batches.append(data)
        return True

    def close(self) -> None:
        pass


class Process:
    """Drives one node: see node/ports.py. lines: its connections, the earliest first."""

    def __init__(self, network: "Network", name: str) -> None:
        self.name = name
        self.pace = UnlimitedPace()
        self.lines: list[Line] = []
        self.node: Core
        self._network = network
        self._requests: list[Callable[[], None]] = []

    def clock(self) -> float:
        return self._network.now

    def ask(self, request: Callable[[], None]) -> None:
        self._requests.append(request)

    def ask_later(self, request: Callable[[], None]) -> None:
        self._requests.append(request)

    def wake(self) -> None:
        pass

    def address_for(self, _endpoint: str) -> str:
        return self.name

    def connect(self, _name: str, endpoint: str) -> Line:
        self.lines.append(Line(self._network, self.name, endpoint))
        return self.lines[-1]

    def turn(
        self, *batches: tuple[str, Sequence[bytes]], changes: Sequence[ConnectionChange] = ()
    ) -> None:
        again, arrived = True, Arrived((), batches, changes)
        while again:
            requests, self._requests = self._requests, []
            due = run_turn(self.node, arrived._replace(requests=requests), self._network.now)
            arrived = Arrived()
            again = bool(self._requests) or due <= self._network.now


class Network:
    """Processes, and the batches between them. now: of every clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.batches: dict[tuple[str, str], deque[bytes]] = {}
        self.processes: dict[str, Process] = {}
        self.said: Counter[str] = Counter()
        self.delivered = 0

    def run(self, process: Process, node: Core) -> None:
        """Have the process run this node."""
        self.processes[process.name] = process
        process.node = node
        node.begin(process)

    def choices(self) -> list[Callable[[], None]]:
        """What may come next: a batch of a line."""
        return [partial(self.deliver, way) for way, batches in sorted(self.batches.items())
                if batches]

    def settle(self, choose: Callable[[int], int] = lambda _: 0) -> None:
        """Deliver all that is under way, without the passing of time. choose: one of so many."""
        for _ in range(10_000):
            ready = self.choices()
            if not ready:
                return
            ready[choose(len(ready))]()
        raise AssertionError("there is no end of messages")

    def deliver(self, way: tuple[str, str]) -> None:
        """The next batch of this line arrives, if its target lives."""
        source, target = way
        data = self.batches[way].popleft()
        self.delivered += 1
        self.said.update(frame.message.name for frame in frames(data))
        if target in self.processes:
            self.processes[target].turn((source, [data]))


class Routed(Process):
    """It is also the desk of its node."""

    def __init__(self, cluster: "RoutedCluster", name: str) -> None:
        super().__init__(cluster, name)
        self.cluster: Final = cluster

    def publish(self, room: int, rank: int, refused: Callable[[str], None]) -> None:
        del refused
        self._tell("publish", lambda: self.cluster.book.publish(Room(room, rank), 0.0))

    def retire(self, room: int, rank: int) -> None:
        self._tell("retire", lambda: self.cluster.book.retire(Room(room, rank), 0.0))

    def locate(self, rank: int, found: Callable[[str, str], None]) -> None:
        self._tell("locate", lambda: found(f"p{rank}", f"p{rank}"))

    def look_up(
        self, server: str, room: int, lost: Sequence[str], found: Callable[[PrefillServer], None],
        failed: Callable[[str], None],
    ) -> None:
        del room, lost
        if server == SERVER:
            self._tell("look up", lambda: found(self.cluster.server))
        else:
            self._tell("look up", lambda: failed("nobody has registered"))

    def query(self, server: str, room: int, answered: Callable[[int | None], None]) -> None:
        assert server == SERVER
        self._tell("query", partial(self._query, room, answered))

    def withdraw(self, server: str, room: int) -> None:
        assert server == SERVER
        self.cluster.waiting.pop(room, None)
        self._tell("withdraw", lambda: self.cluster.book.withdraw(Rooms((room,))))

    def _query(self, room: int, answered: Callable[[int | None], None]) -> None:
        self.cluster.waiting[room] = answered

    def _tell(self, kind: str, request: Callable[[], None]) -> None:
        self.cluster.told[kind] += 1
        self.cluster.desks.setdefault(self.name, deque()).append(request)


class RoutedCluster(Network):
    """`ranks` prefill nodes, p0 and so on, and the decode node d. told: requests to the registry.

    system: the tables that the nodes run. drains: a rank that the registry does not name. said:
    frames that have been delivered, by their name.
    """

    def __init__(
        self, ranks: int = 2, *, publishes: bool = False, system: System = dp_rank.SYSTEM,
        waits: Mapping[str, float] = WAITS, drains: int | None = None,
    ) -> None:
        super().__init__()
        self.desks: dict[str, deque[Callable[[], None]]] = {}
        self.waiting: dict[int, Callable[[int | None], None]] = {}
        self.told: Counter[str] = Counter()
        self.fabric = Fabric()
        self.prefills: list[Prefill] = []
        self._registry = Registry()
        for rank in range(ranks):
            self._registry.register(Registration(
                attn_tp_size=1, attn_tp_rank=0, attn_dp_size=ranks, attn_dp_rank=rank,
                rank_ip="10.0.0.1", rank_port=5_000 + rank, incarnation=1, name=f"p{rank}",
                force_query=publishes), 0.0)
            name = f"p{rank}"
            rooms = PrefillRooms(rank, ranks, publishes=publishes,
                                 table=table_of(system, routing.sender.name))
            process = Routed(self, name)
            self.prefills.append(Prefill(
                name, SourceDataPath(name, self.fabric), link=LINK, incarnation=10 + rank,
                waits=waits, dp=DataParallelRank(rooms, process)))
            self.run(process, self.prefills[-1].core)
        self.book = self._registry.rooms
        self.server = PrefillServer(ranks, self.book.keeps_rule is True,
                                    {rank: {f"p{rank}": f"p{rank}"} for rank in range(ranks)
                                     if rank != drains})
        process = Routed(self, "d")
        self.decode = Decode(
            "d", SinkDataPath("d", self.fabric), link=LINK, incarnation=7, waits=waits,
            desk=process, rooms=partial(DecodeRooms, table=table_of(system, routing.receiver.name)))
        self.run(process, self.decode.core)

    def put(self, room: int, rank: int, named: int | None = None) -> Sender:
        """The router puts a request on a rank."""
        sender = self.prefills[rank].open(room, named=named)
        self.processes[f"p{rank}"].turn()
        return sender

    def want(self, room: int, named: int | None = None, server: str = SERVER) -> Receiver:
        """The other half of a request reaches decode."""
        first = room % 8 * 8
        receiver = self.decode.seek(room, server, pages=range(first, first + 3), named=named,
                                    slot=room)
        self.processes["d"].turn()
        return receiver

    # What can happen

    def choices(self) -> list[Callable[[], None]]:
        """What may come next: a batch of a line, or a request of a desk."""
        ready = super().choices()
        ready += [partial(self.serve, name) for name, desk in sorted(self.desks.items()) if desk]
        ready += [partial(self._answer, room) for room in sorted(self.waiting)
                  if self._knows(room)]
        return ready

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + step)
            for process in self.processes.values():
                process.turn()
            self.settle()

    def serve(self, name: str) -> None:
        """The registry answers a request of this node."""
        self.desks[name].popleft()()
        self.processes[name].turn()

    def _knows(self, room: int) -> bool:
        answer = self.book.query(Rooms((room,), full=True), 0.0)
        return room in answer.dp_ranks or room in answer.gone

    def _answer(self, room: int) -> None:
        answer = self.book.query(Rooms((room,), full=True), 0.0)
        self.waiting.pop(room)(answer.dp_ranks.get(room))
        self.processes["d"].turn()

    def hand_over(self, sender: Sender, receiver: Receiver) -> None:
        """Send the pages of a room that has been met."""
        sender.send(range(3), metadata=b"row")
        for name in self.processes:
            self.processes[name].turn()
        self.settle()
        assert (sender.poll(), receiver.poll()) == (KVPoll.SUCCESS, KVPoll.SUCCESS)
        receiver.close()
        self.processes["d"].turn()
        self.settle()

    def check(self) -> None:
        """Nothing has been refused on the way, and nobody writes where it may not."""
        assert self.fabric.wrong == []
        for node in (*self.prefills, self.decode):
            assert node.metrics.read().get("refused_frames", 0) == 0, node.core.name
            assert node.core.mistakes == 0, node.core.name


def frames(data: bytes) -> Sequence[AnyFrame]:
    return decode(data).frames
