"""The stage of a race: real nodes in virtual time, of which every event waits to be let go.

Frames, clocks, engines, calls and crashes come about when a row of the counterexample says so, and
in no other order. A row without a trigger fires by itself in the node, as it does in a server.
"""

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from lab.race.network import Held, HeldNetwork
from lab.sim.event_queue import EventQueue
from lab.sim.host import Host
from lab.sim.outcome import STEADY
from pdproto.ground.grounding import GroundRow
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.language.formula import atoms
from pdproto.spec.language.machine import Call, Completion, Row, Table, Timer
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent
from pdproto.testing.chance import Stream

SETTLE_S: Final = 0.002  # in which nodes do all that an event brings about
TURN_S: Final = 0.00001
REST_S: Final = 700.0  # longer than all waits together
LOSE: Final = "lose_"  # the rows by which a network loses a message


@dataclass(frozen=True, slots=True)
class Seen:
    """A broken promise. where: the process, request or memory, in words."""

    promise: str
    where: str


class CannotArrangeError(Exception):
    """The nodes have no such event. The text says why."""


class Step:
    """A row of the counterexample, at its elements: of each sort, the one that it names first."""

    def __init__(self, row: GroundRow) -> None:
        self.row: Final = row
        self.name: Final = row.row.name
        self.machine: Final = row.table.machine
        self._at: Final = {type(variable): index for variable, index
                           in reversed(tuple(row.environment.items()))}

    def of(self, sort: type[Sort]) -> int:
        """The number of the element."""
        return self._at.get(sort, 0)

    def __str__(self) -> str:
        return str(self.row)


def read_by(row: GroundRow) -> tuple[str, ...]:
    """The messages to its machine that the conditions of a row read, by name."""
    return _read(row.row, row.table)


def _read(row: Row, table: Table) -> tuple[str, ...]:
    read = (atom.symbol for condition in row.conditions for atom, _ in atoms(condition))
    return tuple(dict.fromkeys(
        symbol.name for symbol in read
        if isinstance(symbol, Message) and symbol.receiver.machine is table.machine))


def noted_by(table: Table) -> tuple[str, ...]:
    """The messages to a machine that trigger no row: its rows only read that they have come."""
    heard = {row.on.symbol.name for row in table.rows if isinstance(row.on, Sent)}
    return tuple(name for row in table.rows for name in _read(row, table) if name not in heard)


class Stage:
    """The nodes of one counterexample. seen: the promises that they have broken. fired: the rows
    that they have taken, by name. dead: processes that have ended. checks_rows: promises about
    steps are looked for too.
    """

    checks_rows = False

    def __init__(self) -> None:
        self.seen: Final[list[Seen]] = []
        self.fired: Final[Counter[str]] = Counter()
        self.queue: Final = EventQueue()
        self.network: Final = HeldNetwork(self.queue, self.stream)
        self.hosts: Final[dict[str, Host]] = {}
        self.dead: Final[set[str]] = set()

    # Processes

    @staticmethod
    def stream(name: str) -> Stream:
        """Random numbers: of a latency, which decides nothing here."""
        return Stream(Random, name)

    def host(self, name: str, incarnation: int) -> Host:
        """A new process of this name."""
        host = Host(self.queue, self.network, name, name, incarnation, TURN_S)
        host.turn_failed = self._turn_failed
        self.network.processes[name] = self.hosts[name] = host
        return host

    def kill(self, name: str) -> None:
        """End a process without a word. Frames on their way to it are lost."""
        if name in self.dead:
            raise CannotArrangeError(f"{name} has ended already")
        host = self.hosts[name]
        host.die()
        self.network.die(host)
        self.network.lose_all(name)
        self.dead.add(name)

    def settle(self) -> None:
        """Let the nodes do all that the last event brings about."""
        self.queue.run(self.queue.now + SETTLE_S)

    def blame(self, promise: str, about: str, room: int = -1) -> None:
        """Note a broken promise."""
        self.seen.append(Seen(promise, about if room < 0 else f"room {room}: {about}"))

    def _turn_failed(self, host: Host, error: Exception) -> None:
        """A turn fails where the tables have no answer. Any other error is one of this program."""
        if not isinstance(error, ProtocolError):
            raise error
        self.blame(STEADY, f"{host.name}: {type(error).__name__}: {error}")

    # The race

    def cause(self, row: GroundRow) -> None:
        """Have the event of a row happen. Raises CannotArrangeError."""
        step, world = Step(row), row.table.machine.world
        before = self.fired[step.name]
        for noted in read_by(row):
            self.tell(step, noted)
        match row.row.on:
            case Sent(message=message) if world:
                self.network.lose(self.frame(step, message.name))
            case Sent(message=message):
                if not self.is_told(step, message.name):
                    self.network.let_go(self.frame(step, message.name))
            case Call(name=name):
                self.call(step, name)
            case Completion(name=name):
                self.complete(step, name)
            case Timer(name=name):
                self.end_wait(step, name)
            case None if world and step.name.startswith(LOSE):
                self.network.lose(self.frame(step, step.name.removeprefix(LOSE)))
            case None:
                self.happen(step)
        self.settle()
        if row.row.on is None and not world and self.fired[step.name] == before:
            for noted in noted_by(row.table):
                self.tell(step, noted)

    @staticmethod
    def tells(row: GroundRow) -> bool:
        """Whether `fired` counts the row: not one of an engine or a network."""
        return not row.table.machine.world

    def frame(self, step: Step, message: str) -> Held:
        """The frame of a message that is under way. Raises CannotArrangeError."""
        raise NotImplementedError

    def tell(self, _step: Step, _message: str) -> None:
        """Let the frames of a message go that this row reads, and that trigger no row."""

    def is_told(self, _step: Step, _message: str) -> bool:
        """Whether a message is told without a frame: then this has told it."""
        return False

    def call(self, step: Step, name: str) -> None:
        """The application's call."""
        raise NotImplementedError

    def complete(self, step: Step, name: str) -> None:
        """A device reports."""
        raise NotImplementedError

    def end_wait(self, step: Step, name: str) -> None:
        """A clock ends."""
        raise NotImplementedError

    def happen(self, step: Step) -> None:
        """A row without a trigger: of the world, or of a node, which takes it by itself."""
        raise NotImplementedError

    def rest(self) -> None:
        """All comes about that surely does, and the end is checked."""
        raise NotImplementedError
