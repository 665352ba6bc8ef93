"""Prefill ranks, a registry and a decode rank that look for each other's rooms, of which each event
waits for the race.

The rooms of a rank (node/rooms.py) and the registry (registry/registry.py) are those of servers;
the router, and the frames and HTTP requests between them, are played here.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final, TypeAlias

from lab.race.counterexample import Counterexample
from lab.race.network import Held
from lab.race.stage import CannotArrangeError, Stage, Step
from lab.race.watching import TableWatch, Watching
from lab.sim.outcome import PEERS
from pdproto.ground.grounding import GroundRow, ground_for
from pdproto.node.rooms import DecodeRooms, PrefillRooms, RoomStep, Sent
from pdproto.registry.registry import Registry
from pdproto.registry.rooms import RoomBook
from pdproto.registry.wire import RefusedError, Registration, Room, Rooms
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import Group
from pdproto.spec.language import symbols
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

ROUNDS: Final = 8  # in which all that is said arrives, at the end: more than any room needs
OF_NODES: Final = (routing.sender, routing.receiver, routing.registry)
Said: TypeAlias = tuple[str, tuple[int, ...]]  # a message, and its elements


class Routes(Stage):
    """The processes of one counterexample. edited: the system that they run."""

    checks_rows = True

    def __init__(self, example: Counterexample, edited: System) -> None:
        super().__init__()
        sizes = example.bug.configuration.sizes
        self._violates: Final = example.bug.violates
        self._groups: Final = sizes[Group]
        self._publishes: Final = {x for x, in example.related(routing.publishes.name)}
        self._watch: Final = TableWatch(
            ground_for(edited, example.bug.configuration, example.given, Fairness.TIMERS),
            self._index, self.blame, lambda name: self.fired.update((name,)))
        trace = Watching(self._watch)
        self._registry: Final = Registry(traces={dp_rank.SYSTEM.name: trace})
        # The rigid relations that only the edited rows read.
        rigid = {symbol: partial(self._holds, tuples) for symbol, tuples in example.given.items()}
        self._prefills: Final = [
            PrefillRooms(x, self._groups, publishes=x in self._publishes, rigid=rigid, trace=trace)
            for x in range(self._groups)]
        self._made: Callable[..., DecodeRooms] = partial(DecodeRooms, self._groups, rigid=rigid,
                                                         trace=trace)
        self._decode: DecodeRooms | None = None
        self._said: Final[dict[Said, bool]] = {}  # and whether it has arrived
        self._asked: Final[set[int]] = set()  # rooms that the registry is asked about

    @staticmethod
    def tells(row: GroundRow) -> bool:
        """See Stage. Routers and enrolments are played here."""
        return row.table.machine in OF_NODES

    @staticmethod
    def _index(sort: type[Sort], element: Hashable) -> int:
        room = element[0] if sort is Life and isinstance(element, tuple) else element
        return room if isinstance(room, int) else -1

    def _holds(self, tuples: frozenset[tuple[int, ...]], *elements: Hashable) -> bool:
        return tuple(map(partial(self._index, Life), elements)) in tuples

    def settle(self) -> None:
        """See Stage. Every part acts when it is called."""

    @property
    def _book(self) -> RoomBook:
        if self._registry.server is None:
            raise CannotArrangeError("no rank has enrolled")
        return self._registry.server.rooms

    def _decoding(self) -> DecodeRooms:
        """The rooms of decode, which knows the rule of the server before it looks for one."""
        if self._decode is None:
            if self._book.keeps_rule is None:
                raise CannotArrangeError("decode waits until every rank has enrolled")
            self._decode = self._made(follows_rule=self._book.keeps_rule)
        return self._decode

    # The race

    def frame(self, _step: Step, message: str) -> Held:
        """See Stage. Messages are told without frames here."""
        raise CannotArrangeError(f"no frame {message} is under way")

    def is_told(self, step: Step, _message: str) -> bool:
        """See Stage."""
        sent = step.row.row.on
        if isinstance(sent, symbols.Sent):
            self._arrive((sent.message.name, self._elements(step.row, sent.arguments)))
        return True

    @staticmethod
    def _elements(row: GroundRow, variables: tuple[Sort, ...]) -> tuple[int, ...]:
        return tuple(row.environment[variable] for variable in variables)

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        x, life = step.of(Group), (step.of(Life), 0)
        match name:
            case "route" | "route_named":
                self._play(step.row)
            case "end_room":
                self._follow(partial(self._prefills[x].end, life))
            case "end_request":
                self._follow(partial(self._decoding().end, life))
            case _:
                raise CannotArrangeError(f"no process has a call {name}")

    def _play(self, row: GroundRow) -> None:
        """A row that no node runs is taken, and what it sends is under way."""
        self._watch.act(row)
        for sent in row.row.send:
            if isinstance(sent, symbols.Sent):
                self._said[sent.message.name, self._elements(row, sent.arguments)] = False

    def complete(self, _step: Step, name: str) -> None:
        """See Stage."""
        raise CannotArrangeError(f"no device reports {name}")

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage."""
        x, life = step.of(Group), (step.of(Life), 0)
        match name:
            case "no_decode":
                self._follow(partial(self._prefills[x].stop_waiting, life))
            case "unresolved":
                self._follow(partial(self._decoding().give_up, life))
            case _:
                self._book.end_run(x)

    def happen(self, step: Step) -> None:
        """See Stage. Rows of nodes are taken at once."""
        if step.machine is routing.rank:
            self._play(step.row)
        elif step.machine.world:
            self._watch.act(step.row)

    # Messages

    def _takers(self) -> Mapping[str, Callable[..., None]]:
        """By the name of a message, what takes its elements."""
        prefill, decode, now = self._prefills, self._decoding, self.queue.now
        return {
            "prompt": lambda h, x: self._follow(lambda: prefill[x].put((h, 0))),
            "prompt_named": lambda h, x, y: self._follow(lambda: prefill[x].put((h, 0), y)),
            "meet": lambda h, x: self._follow(lambda: prefill[x].meet((h, 0))),
            "disown": lambda x, h, y: self._follow(lambda: prefill[y].disown((h, 0), x)),
            "wanted": lambda h: self._follow(lambda: decode().want((h, 0))),
            "wanted_named": lambda h, y: self._follow(lambda: decode().want((h, 0), y)),
            "met": lambda x, h: self._follow(lambda: decode().hear(routing.met, x, (h, 0))),
            "refuse": lambda x, h: self._follow(lambda: decode().hear(routing.refuse, x, (h, 0))),
            "answer": lambda h, x: self._follow(lambda: decode().hear(routing.answer, (h, 0), x)),
            "gone": lambda h: self._follow(lambda: decode().hear(routing.gone, (h, 0))),
            "enroll_rule": self._enroll,
            "enroll_published": self._enroll,
            "differs": lambda _: None,  # the rank's row is played
            "publish": lambda h, x: self._book.publish(Room(h, x), now),
            "retire": lambda h, x: self._book.retire(Room(h, x), now),
            "withdraw": lambda h: self._book.withdraw(Rooms((h,))),
            "query": self._asked.add,
        }

    def _arrive(self, said: Said) -> None:
        if said not in self._said:
            raise CannotArrangeError(f"{said[0]}{said[1]} is not under way")
        self._said[said] = True
        name, elements = said
        self._takers()[name](*elements)
        self._hear_answers()

    def _hear_answers(self) -> None:
        """Decode asks the registry again until it is answered."""
        for room in self._asked:
            answer = self._book.query(Rooms((room,), full=True), self.queue.now)
            for asked, x in answer.dp_ranks.items():
                self._said.setdefault((routing.answer.name, (asked, x)), False)
            for asked in answer.gone:
                self._said.setdefault((routing.gone.name, (asked,)), False)

    def _enroll(self, x: int) -> None:
        registration = Registration(
            attn_tp_size=1, attn_tp_rank=0, attn_dp_size=self._groups, attn_dp_rank=x,
            rank_ip="127.0.0.1", rank_port=5000 + x, incarnation=1, name=f"p{x}",
            force_query=x in self._publishes)
        try:
            self._registry.register(registration, self.queue.now)
        except RefusedError:
            self._said[routing.differs.name, (x,)] = False

    def _follow(self, action: Callable[[], RoomStep]) -> None:
        """An event of a room. What its rows send is under way."""
        try:
            sent = action().sent
        except RemoteProtocolError as error:
            self.blame(PEERS, str(error))
            return
        for message, arguments in sent:
            self._said.setdefault(self._named((message, arguments)), False)

    def _named(self, sent: Sent) -> Said:
        message, arguments = sent
        return message.name, tuple(map(partial(self._index, Life), arguments))

    # Afterwards

    def rest(self) -> None:
        """See Stage. All that is under way arrives, and no clock ends."""
        for _ in range(ROUNDS):
            for said in [said for said, has_arrived in self._said.items() if not has_arrived]:
                try:
                    self._arrive(said)
                except CannotArrangeError:
                    continue  # it waits for the other ranks to enroll
        for where in self._watch.unmet(self._violates):
            self.blame(self._violates, f"{where}, when all that was said has arrived")
