"""The parent of a soak: it starts processes, routes requests to them, and counts results.

As the router it looks the prefill ranks up in the registry, and routes no request while one of them
is missing.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from random import Random
from time import monotonic
from typing import Any, Final

from lab.soak import rank
from lab.soak.books import Books
from lab.soak.memory import resident_bytes
from lab.soak.messages import Begin, Leave, Left, SoakRank, State
from lab.soak.network import network, registry
from lab.soak.rank import decode, prefill
from lab.soak.state import SoakSettings
from pdproto.drill import children
from pdproto.drill.children import Child, ChildLostError, Pipe
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.wire import RefusedError

ANSWER_S: Final = 60.0  # for a rank that runs to tell its resources
END_S: Final = 30.0
LOOK_UP_S: Final = 0.3  # between two questions to the registry


@dataclass(slots=True, eq=False)
class SoakProcess:
    """The process of a rank. listener: its name in the network. ready: it has reported its address.
    open: the rooms that it has not ended yet. taken: how many it has had. leaves: it drains.
    """

    child: Child
    listener: str
    endpoint: str
    open: set[int] = field(default_factory=set)
    taken: int = 0
    told: State | None = None
    ready: bool = False
    stopped: bool = False
    leaves: bool = False
    begun: float = field(default_factory=monotonic)

    @property
    def name(self) -> str:
        return self.child.name

    @property
    def undone(self) -> str:
        """What it has still to do before it is at rest; "" if nothing."""
        if not self.ready:
            return "has not begun"
        if self.open:
            return f"has not ended {len(self.open)} hand-overs, the first of room {min(self.open)}"
        return "has not drained" if self.leaves else ""


def _has_room(member: SoakProcess | None, most: int) -> bool:
    """Whether this rank takes one more request, if it may have so many."""
    return (member is not None and member.ready and not member.leaves and len(member.open) < most)


class SoakCluster:
    """All processes of a leg."""

    def __init__(self, settings: SoakSettings, engine: str, books: Books) -> None:
        load = settings.load
        self.books: Final = books
        self.members: Final[dict[str, SoakProcess]] = {}
        self.sources: Final = tuple(f"prefill-{i}-0-0" for i in range(settings.prefill))
        self.sinks: Final = tuple(f"decode-{i}" for i in range(settings.decode))
        self._load: Final = load
        self._engine: Final = engine
        self._in_flight: Final = settings.in_flight
        self._bug: Final = settings.bug
        self._context: Final = children.context(rank.__name__)
        self._starts = 0
        self._port = 0
        self._random: Final = Random(load.seed)  # noqa: S311 - no secret
        self._where: dict[str, str] = {}
        self._looked = 0.0
        self._network: Final = self._child("the network", network)
        self.start_registry()
        self._client: Final = RegistryClient(f"127.0.0.1:{self._port}")
        for name in (*self.sources, *self.sinks):
            self.start(name)

    def _child(self, name: str, body: Callable[..., None], *arguments: Any,
               bug: str | None = None) -> Child:
        return children.run_in_child(self._context, name, rank.with_defect, bug, body, *arguments)

    # Processes

    def start_registry(self) -> None:
        """Start the registry, for the first time or again; always at the same port."""
        self._registry = self._child("the registry", registry, self._port)
        self._port = self._registry.hear()

    def kill_registry(self) -> None:
        self._registry.end()

    def start(self, name: str) -> None:
        """Start the process of a rank, for the first time or again, behind a listener of its own.

        Its first message is read later, within children.START_S.
        """
        self._starts += 1
        listener = f"{name}#{self._starts}"
        endpoint = self.net("open", listener)
        place = SoakRank(name, self._load, self._engine, f"127.0.0.1:{self._port}", endpoint,
                      self.sources)
        child = self._child(name, self.body(name), place, bug=self._bug)
        self.members[name] = SoakProcess(child, listener, endpoint)
        self._tell_ranks()
        self._where = {}

    def body(self, name: str) -> Callable[[SoakRank, Pipe], None]:
        """The function that the process of a rank runs."""
        return prefill if name in self.sources else decode

    def kill(self, name: str) -> None:
        """Send SIGKILL to a rank, at any moment, and take its open rooms off the books."""
        member = self.members[name]
        member.child.process.kill()
        member.child.process.join()
        with suppress(EOFError, OSError):
            while member.child.pipe.poll():  # its messages from before the kill
                self._take(member, member.child.pipe.recv())
        del self.members[name]
        self._tell_ranks()
        member.child.pipe.close()
        self.net("shut", member.listener)
        self.books.retire(member.listener)
        for room in set[int]().union(*(other.open for other in self.members.values())):
            self.books.killed.setdefault(room, set()).add(name)
        for room in member.open:
            self._close_books(room)

    def _tell_ranks(self) -> None:
        """Tell the network which processes it must kill if this one is killed."""
        self.net("ranks", {member.child.process.pid for member in self.members.values()})

    def stop(self, name: str) -> None:
        """Send SIGSTOP to a rank, which stops every thread of it."""
        self._signal(name, signal.SIGSTOP, stopped=True)

    def go_on(self, name: str) -> None:
        """SIGCONT."""
        self._signal(name, signal.SIGCONT, stopped=False)

    def drain(self, name: str) -> None:
        """Have a rank drain: it gets no request more, and another takes its place when it is empty.
        """
        self.members[name].leaves = True
        self.members[name].child.pipe.send(Leave())

    def _end_empty(self, member: SoakProcess, left: Left) -> None:
        """End the process of a rank that says that it is empty."""
        if left.early:
            self.books.complaints.append(f"{member.name} says that it is empty, and has "
                                         f"{left.early} open hand-overs")
        self.books.note_left(member.name, member.listener, left.sure_from)
        member.child.pipe.send(None)

    def _replace(self, member: SoakProcess, left: Mapping[str, int]) -> None:
        """Start another process in the place of one that has ended after a drain. left: the
        resources that it had at its end.
        """
        self.books.complaints.extend(f"{member.name} has ended with {count} {what} left"
                                     for what, count in left.items())
        self.books.totals.drained += 1
        self.kill(member.name)
        self.start(member.name)

    def _signal(self, name: str, number: signal.Signals, *, stopped: bool) -> None:
        member = self.members.get(name)
        if member is not None and member.child.process.pid is not None:
            os.kill(member.child.process.pid, number)
            member.stopped = stopped

    def net(self, what: str, *arguments: object) -> Any:
        """Call a function of the process that is the network between the nodes."""
        self._network.pipe.send((what, arguments))
        return self._network.hear()

    # The router

    def route(self, most: float) -> None:
        """Begin at most so many requests, while ranks have room for them and the registry knows all
        live ranks.
        """
        if self._find() is None:
            return
        begun: dict[str, list[Begin]] = {}
        free = self._free()
        while free and most > 0:
            most -= 1
            self._begin(free[self._random.randrange(len(free))], begun)
            free = self._free()
        self._send(begun)

    def _send(self, begun: Mapping[str, list[Begin]]) -> None:
        for name, begins in begun.items():
            self.members[name].child.pipe.send(begins)

    def greet(self, names: set[str]) -> None:
        """Begin a request for each of these decode ranks, and take its name out of the set.

        An engine holds memory in doubt until the successor of the sink has sent a message.
        """
        begun: dict[str, list[Begin]] = {}
        free = set(self._free()) & names if self._find() is not None else set()
        for name in sorted(free):
            if name in self._free():
                self._begin(name, begun)
                names.remove(name)
        self._send(begun)

    def _free(self) -> list[str]:
        """The decode ranks that can take one more, if every prefill rank can."""
        most = self._in_flight
        sources = [self.members.get(name) for name in self.sources]
        if not all(_has_room(source, most * len(self.sinks)) for source in sources):
            return []
        return [name for name in self.sinks if _has_room(self.members.get(name), most)]

    def _find(self) -> dict[str, str] | None:
        """The endpoints of the ranks in the registry; None until it has those of all live ranks."""
        wanted = {name: self.members[name].endpoint for name in self.sources
                  if name in self.members}
        if self._where == wanted and len(wanted) == len(self.sources):
            return wanted
        if monotonic() - self._looked > LOOK_UP_S:
            self._looked = monotonic()
            with suppress(NotFoundError, UnreachableError, RefusedError):
                self._where = {
                    f"prefill-{one.pp}-0-0": f"tcp://{one.address.rank_ip}:{one.address.rank_port}"
                    for one in self._client.look_up_all().ranks}
        return None

    def _begin(self, sink: str, begun: dict[str, list[Begin]]) -> None:
        """Begin a request at this decode rank. begun: gets the messages for the ranks."""
        room = self.books.totals.routed
        self.books.totals.routed += 1
        for name in (*self.sources, sink):
            member = self.members[name]
            member.open.add(room)
            member.taken += 1
            begun.setdefault(name, []).append(Begin(room, self._where if name == sink else {}))

    # The books

    def hear(self, seconds: float) -> None:
        """Read the messages of the ranks, for at most `seconds`. Raises ChildLostError."""
        pipes = {member.child.pipe: member for member in self.members.values()}
        for pipe in wait(list(pipes), seconds):
            member = pipes[pipe]  # type: ignore[index]
            try:
                while self.members.get(member.name) is member and member.child.pipe.poll():
                    self._take(member, member.child.pipe.recv())
            except (EOFError, ConnectionResetError):
                raise ChildLostError(f"{member.name} has ended by itself, with status "
                                       f"{member.child.process.exitcode}") from None
        for member in self.members.values():
            if not member.ready and monotonic() - member.begun > children.START_S:
                raise ChildLostError(f"{member.name} has not begun within {children.START_S:g} s")

    def _take(self, member: SoakProcess, said: Any) -> None:
        if isinstance(said, State):
            member.told = self.books.states[member.listener] = said
        elif isinstance(said, Left):
            self._end_empty(member, said)
        elif isinstance(said, dict):
            self._replace(member, said)
        elif isinstance(said, str):
            self.net("aim", member.listener, said)
            member.ready = True
        else:
            for ended in said:
                member.open.discard(ended.room)
                self.books.note(member.name, member.listener, ended,
                                is_sink=member.name in self.sinks)
                self._close_books(ended.room)

    def _close_books(self, room: int) -> None:
        self.books.close(
            room, self._load, is_open=any(room in member.open for member in self.members.values()))

    def ask(self) -> list[str]:
        """Ask all ranks for their resources in use; one line for each that is not zero."""
        for member in self.members.values():
            member.told = None
            member.child.pipe.send(True)
        deadline = monotonic() + ANSWER_S
        while any(member.told is None for member in self.members.values()):
            if monotonic() > deadline:
                raise ChildLostError(f"{', '.join(self._silent())}: no answer")
            self.hear(0.1)
        return [f"{name} holds {value:g} {what}" for name, member in self.members.items()
                if member.told is not None for what, value in member.told.held.items()]

    def _silent(self) -> Iterator[str]:
        return (name for name, member in self.members.items() if member.told is None)

    def memory(self) -> Iterator[tuple[str, str, int | None, int]]:
        """Kind and name of each child process, the hand-overs that it has had, and its resident
        bytes. None: it has to do with all hand-overs.
        """
        for kind, child in (("network", self._network), ("registry", self._registry)):
            if (pid := child.process.pid) is not None:
                yield kind, f"{kind} {pid}", None, resident_bytes(pid)
        for member in self.members.values():
            if member.told is not None:
                kind = member.name.partition("-")[0]
                yield kind, member.listener, member.taken, member.told.resident

    @property
    def unfinished(self) -> Mapping[str, str]:
        """For each rank that is not at rest, by name: what it has not done yet."""
        return {name: told for name, member in self.members.items() if (told := member.undone)}

    def ask_for_stacks(self, names: Iterable[str]) -> None:
        """Have these ranks, which are not stopped, write the stacks of their threads to stderr."""
        for name in names:
            self._signal(name, children.STACKS, stopped=False)

    def close(self) -> dict[str, dict[str, int]]:
        """End every process. Returns the left resources of those that ended in order, by name."""
        left = {}
        for name, member in self.members.items():
            if member.stopped:
                self.go_on(name)
            with suppress(OSError):
                member.child.pipe.send(None)
        for name, member in self.members.items():
            left[name] = self._last_word(member)
            member.child.end(END_S)
            self.books.retire(member.listener)
        self.kill_registry()
        self._network.end()
        self._client.close()
        return left

    @staticmethod
    def _last_word(member: SoakProcess) -> dict[str, int]:
        """The left resources of a process, from its last message."""
        with suppress(EOFError, OSError):
            while member.child.pipe.poll(END_S):
                said = member.child.pipe.recv()
                if isinstance(said, dict):
                    return said
        return {"word of its end": 1}
