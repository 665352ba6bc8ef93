"""The parent of a study's processes: it runs a few settings at a time, each in a lane.

A lane has two servers of two processes each: one with the studied feature, one without. Both get
the same requests at the same moments, so other work of the machine disturbs both alike.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from time import monotonic
from typing import Final

from lab.sim.plan import PlannedRequest
from lab.sim.study import RETRIES
from lab.study import ranks
from lab.study.plan import BASE, Cell, planned
from lab.study.ranks import Answered, Computed, Job, decode_process, prefill_process
from lab.study.rooms import Routing
from pdproto.drill.children import Child, context, run_in_child

END_S: Final = 10.0
LEAD_S: Final = 0.3  # from when processes are told of a job until it begins
PATIENCE_S: Final = 60.0  # after the last request has come everywhere, for all to end
LATE_S: Final = 0.02  # half a forward pass: a run with a later process is disturbed
ROOMS: Final = 10_000_000  # between the first room of a job and that of the next
WARM_UP: Final = 20  # requests that do not count: the first ones compile and load code


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run requests. retries: of optimistic prefill. routing: None without a registry."""

    retries: int
    routing: Routing | None = None


OPTIMISTIC: Final = Way(0), Way(RETRIES)


@dataclass(slots=True, eq=False)
class Server:
    """The processes of one way to run requests, each with its pipe: prefill, decode."""

    way: Way
    children: tuple[Child, Child]
    where: str = ""
    computed: Computed | None = None
    answered: Answered | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """The results of a setting, run one way: see ranks.py."""

    computed: Computed
    answered: Answered


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of a setting, without the studied feature and with it."""

    without: Ran
    with_it: Ran

    @property
    def late_s(self) -> float:
        """The longest delay of any process with its own work: see ranks.py."""
        return max(side.late_s for ran in (self.without, self.with_it)
                   for side in (ran.computed, ran.answered))


@dataclass(slots=True, eq=False)
class StudyLane:
    """A lane. cell: the index of the setting that it runs, None while it is free. deadline: of it.
    """

    servers: tuple[Server, Server]
    cell: int | None = None
    deadline: float = 0.0
    rooms: int = 0

    def give(self, cell: int, asked: Cell, requests: tuple[PlannedRequest, ...]) -> None:
        """Start a setting in all four processes, at one moment."""
        begins = monotonic() + LEAD_S
        self.cell = cell
        self.deadline = begins + PATIENCE_S + max(r.decode_at + r.allocation_s for r in requests)
        self.rooms += ROOMS
        for server in self.servers:
            server.computed = server.answered = None
            job = Job(asked.setting, asked.overlapped, requests, server.way.retries, begins,
                      self.rooms, server.where)
            for child in server.children:
                child.pipe.send(job)

    def hear(self, pipe: object) -> None:
        """Take a result from a pipe, if it is one of this lane. Raises ChildLostError."""
        for server in self.servers:
            for child in server.children:
                if child.pipe is not pipe:
                    continue
                report = child.hear()
                if isinstance(report, Computed):
                    server.computed = report
                else:
                    server.answered = report

    def measured(self) -> Measured | None:
        """The results, when all processes have reported them; then the lane is free again.

        Raises TimeoutError when they take too long.
        """
        ran = [Ran(server.computed, server.answered) for server in self.servers
               if server.computed is not None and server.answered is not None]
        if len(ran) < len(self.servers):
            if monotonic() > self.deadline:
                raise TimeoutError(f"not every request has ended {PATIENCE_S:g} s after the last "
                                   f"one came: give a smaller --at-once")
            return None
        self.cell = None
        return Measured(*ran)


def measure(cells: Sequence[Cell], seed: int, count: int, at_once: int,
            on_progress: Callable[[int], None], *, again: int = 0,
            ways: tuple[Way, Way] = OPTIMISTIC) -> list[Measured]:
    """Run every setting with `count` requests, `at_once` settings at a time. Results are in order.

    again: how often a setting is repeated in which a process was late. The run that was disturbed
    least counts, whatever its result is.

    Raises TimeoutError or ChildLostError when a process is silent or ends.
    """
    # Those that take longest come first, so that the lanes end at about the same time.
    upcoming = deque(sorted(range(len(cells)), key=lambda place: cells[place].setting.load))
    found: dict[int, Measured] = {}
    left = dict.fromkeys(upcoming, again)
    with _lanes(min(at_once, len(cells)), ways) as lanes:
        _warm_up(lanes, seed)
        while upcoming or any(lane.cell is not None for lane in lanes):
            for lane in lanes:
                if lane.cell is None and upcoming:
                    place = upcoming.popleft()
                    requests = planned(cells[place].setting, seed, count)
                    lane.give(place, cells[place], requests)
            for place, measured in _hear(lanes).items():
                if place not in found or measured.late_s < found[place].late_s:
                    found[place] = measured
                if found[place].late_s > LATE_S and left[place]:
                    left[place] -= 1
                    upcoming.append(place)
            on_progress(len(found))
    return [found[place] for place in range(len(cells))]


def _warm_up(lanes: Sequence[StudyLane], seed: int) -> None:
    for lane in lanes:
        lane.give(0, Cell("", ""), planned(BASE, seed, WARM_UP))
    while any(lane.cell is not None for lane in lanes):
        _hear(lanes)


def _hear(lanes: Sequence[StudyLane]) -> dict[int, Measured]:
    """The new results of the lanes, by the index of the setting."""
    pipes = [child.pipe for lane in lanes for server in lane.servers for child in server.children]
    for ready in wait(pipes, timeout=0.5):
        for lane in lanes:
            lane.hear(ready)
    found = {}
    for lane in lanes:
        place = lane.cell
        measured = lane.measured() if place is not None else None
        if place is not None and measured is not None:
            found[place] = measured
    return found


@contextmanager
def _lanes(count: int, ways: tuple[Way, Way]) -> Iterator[list[StudyLane]]:
    """`count` lanes with running processes, which are ended afterwards in any case."""
    servers: list[Server] = []
    try:
        servers.extend(_started(way) for _ in range(count) for way in ways)
        for server in servers:
            server.where, _ = (str(child.hear()) for child in server.children)
        yield [StudyLane((servers[i], servers[i + 1])) for i in range(0, len(servers), 2)]
        for server in servers:
            for child in server.children:
                child.pipe.send(None)
        for server in servers:
            for child in server.children:
                child.process.join(END_S)
    finally:
        for server in servers:
            for child in server.children:
                child.end()


def _started(way: Way) -> Server:
    start = partial(run_in_child, context(ranks.__name__))
    return Server(way, (start("a prefill rank of the study", prefill_process, way.routing),
                        start("a decode rank of the study", decode_process, way.routing)))
