"""The rooms of prefill ranks that bind lives to requests, of which each event waits for the race.

The rooms are those of servers (node/prefill/binding_rooms.py). There a rank binds a life as soon as
it can, and lives have no number of a request.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from lab.race.counterexample import Counterexample
from lab.race.network import Held
from lab.race.stage import CannotArrangeError, Stage, Step
from pdproto.ground.grounding import GroundRow
from pdproto.node.prefill.binding_rooms import BindingRooms
from pdproto.runtime.role import RankRole
from pdproto.runtime.wire import Abort, Introduce
from pdproto.runtime.wire import Life as WireLife
from pdproto.spec.handoff.roles import Life, Sink, Source, Use

OWN_FAILURE: Final = "a_retry_is_not_failed_by_its_predecessor"
ROOM: Final = 0


@dataclass(slots=True, eq=False)
class Request:
    """A request of the room on a rank, as BindingRooms reads a sender."""

    use: int
    room: int = ROOM
    given_use: int | None = None
    prompt: bytes | None = None


class Bindings(Stage):
    """The ranks of one counterexample."""

    def __init__(self, example: Counterexample) -> None:
        super().__init__()
        role = RankRole()  # with the rows that the table has now
        self._requests: Final[dict[tuple[int, int], Request]] = {}
        self._ended: Final[set[Request]] = set()
        self._ranks: Final = [
            BindingRooms(cast("Any", partial(self._bind, p)), lambda *_: None,
                         lambda: self.queue.now, role=role)
            for p in range(example.bug.configuration.sizes[Source])]

    @staticmethod
    def tells(_row: GroundRow) -> bool:
        """See Stage. No trace tells the rows of these rooms."""
        return False

    def settle(self) -> None:
        """See Stage. Every part acts when it is called."""

    @staticmethod
    def _life(life: int) -> WireLife:
        return WireLife(ROOM, 1, life)

    def _bind(self, p: int, life: WireLife, request: Request, _differ: bool) -> None:
        """A rank has bound a life to this request."""
        h = life.generation
        where = f"rank {p} has bound life {h} to request {request.use}"
        latest = max(use for rank, use in self._requests if rank == p)
        if request in self._ended and request.use != latest:
            self.blame(OWN_FAILURE, f"{where}, which had ended before request {latest} came", ROOM)

    # The race

    def frame(self, _step: Step, message: str) -> Held:
        """See Stage."""
        raise CannotArrangeError(f"no frame {message} of a binding is between nodes")

    def is_told(self, step: Step, message: str) -> bool:
        """See Stage."""
        p, life, sink = step.of(Source), self._life(step.of(Life)), f"d{step.of(Sink)}"
        match message:
            case "introduce" | "ask":
                self._ranks[p].hear(life, sink, Introduce)
            case "abort":
                self._ranks[p].hear(life, sink, Abort)
            case _:
                return False
        return True

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        p, u = step.of(Source), step.of(Use)
        if name == "open_sender":
            self._requests[p, u] = Request(u)
            self._ranks[p].open(cast("Any", self._requests[p, u]))
        elif name == "abort_sender":
            self._leave(p, u)
        elif name not in ("open_receiver", "abort_receiver"):
            raise CannotArrangeError(f"the rooms of a rank have no call {name}")

    def _leave(self, p: int, u: int) -> None:
        self._ended.add(self._requests[p, u])
        self._ranks[p].leave(cast("Any", self._requests[p, u]))

    def complete(self, _step: Step, name: str) -> None:
        """See Stage."""
        raise CannotArrangeError(f"no device reports {name}")

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage. The clocks of a sink are played."""
        if name == "bootstrap_timeout" and step.machine.name == "rank":
            self._leave(step.of(Source), step.of(Use))

    def happen(self, step: Step) -> None:
        """See Stage. Rows of a rank are taken at once."""
        if step.machine.world:
            raise CannotArrangeError("no engine does this")

    def rest(self) -> None:
        """See Stage. A life waits no longer for the retry of an ended one."""
        for rank in self._ranks:
            if (until := rank.next()) is not None:
                rank.end_waits(until)
