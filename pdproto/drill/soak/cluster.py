"""The parent of `pdproto soak`: it starts processes, routes requests to them, and counts results.

As the router it looks the prefill ranks up in the registry, and routes no request while one of them
is missing.
"""

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from random import Random
from time import monotonic
from typing import Any, Final

from pdproto.drill import children
from pdproto.drill.handoff.load import Load
from pdproto.drill.soak import rank
from pdproto.drill.soak.rank import (
    Begin,
    Ended,
    Leave,
    Left,
    Pipe,
    SoakRank,
    State,
    decode,
    network,
    prefill,
    registry,
)
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.wire import RefusedError

START_S: Final = 60.0
END_S: Final = 30.0
LOOK_UP_S: Final = 0.3  # between two questions to the registry
DRAINS: Final = "drains, and takes no new request"
NAMES: Final = re.compile(r"^prefill[-\d]+: |( to|, at)? (prefill|tcp)[-:/.\d]+")  # of ranks


class ProcessLostError(Exception):
    """A process has ended without being killed, or does not answer."""


@dataclass(slots=True, eq=False)
class SoakProcess:
    """The process of a rank. listener: its name in the network. ready: it has reported its address.
    open: the rooms that it has not ended yet. leaves: it drains.
    """

    name: str
    process: BaseProcess
    pipe: Pipe
    listener: str
    endpoint: str
    open: set[int] = field(default_factory=set)
    told: State | None = None
    ready: bool = False
    stopped: bool = False
    leaves: bool = False
    begun: float = field(default_factory=monotonic)


@dataclass(slots=True)
class Books:
    """The routed requests and their outcomes. drained: ranks that were empty after a drain.
    complaints: one line for each violated claim.
    """

    routed: int = 0
    succeeded: int = 0
    failed: int = 0
    drained: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)  # the last of each process, by listener
    decided: dict[int, tuple[str, bool]] = field(default_factory=dict)  # by decode, of the room
    refused: dict[int, set[str]] = field(default_factory=dict)  # ranks that say Failed, of the room


class SoakCluster:
    """All processes. dead: how often ranks have been killed."""

    def __init__(
        self, *, prefill: int, decode: int, engine: str, load: Load, in_flight: int
    ) -> None:
        self.books: Final = Books()
        self.members: Final[dict[str, SoakProcess]] = {}
        self.sources: Final = tuple(f"prefill-{i}-0-0" for i in range(prefill))
        self.sinks: Final = tuple(f"decode-{i}" for i in range(decode))
        self._load: Final = load
        self._engine: Final = engine
        self._in_flight: Final = in_flight
        self._context: Final = children.context(rank.__name__)
        self._starts = 0
        self._port = 0
        self._random: Final = Random(load.seed)  # noqa: S311 - no secret
        self._where: dict[str, str] = {}
        self._looked = 0.0
        self._network, self._net = self._process(network)
        self.start_registry()
        self._client: Final = RegistryClient(f"127.0.0.1:{self._port}")
        for name in (*self.sources, *self.sinks):
            self.start(name)

    def _process(self, target: Any) -> tuple[BaseProcess, Pipe]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=children.while_parent_lives, daemon=True,
                                        args=(target, theirs))
        children.start(process)
        theirs.close()
        return process, ours

    # Processes

    def start_registry(self) -> None:
        """Start the registry, for the first time or again; always at the same port."""
        self._registry, self._registry_pipe = self._process(partial(registry, self._port))
        self._port = self._first_word(self._registry_pipe, "the registry")

    def kill_registry(self) -> None:
        self._registry.kill()
        self._registry.join()
        self._registry_pipe.close()

    def start(self, name: str) -> None:
        """Start the process of a rank, for the first time or again, behind a listener of its own.

        Its first message is read later, within START_S.
        """
        self._starts += 1
        listener = f"{name}#{self._starts}"
        endpoint = self.net("open", listener)
        place = SoakRank(name, self._load, self._engine, f"127.0.0.1:{self._port}", endpoint,
                      self.sources)
        process, pipe = self._process(partial(self.body(name), place))
        self.members[name] = SoakProcess(name, process, pipe, listener, endpoint)
        self._where = {}

    def body(self, name: str) -> Callable[[SoakRank, Pipe], None]:
        """The function that the process of a rank runs."""
        return prefill if name in self.sources else decode

    def kill(self, name: str) -> None:
        """Send SIGKILL to a rank, at any moment, and take its open rooms off the books."""
        member = self.members[name]
        member.process.kill()
        member.process.join()
        with suppress(EOFError, OSError):
            while member.pipe.poll():  # its messages from before the kill
                self._take(member, member.pipe.recv())
        del self.members[name]
        member.pipe.close()
        self.net("shut", member.listener)
        for room in member.open:
            self._close_books(room)

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
        self.members[name].pipe.send(Leave())

    def _replace(self, member: SoakProcess, left: Left) -> None:
        """End a rank that is empty, and start another in its place."""
        if left.early:
            self.books.complaints.append(f"{member.name} says that it is empty, and has "
                                         f"{left.early} open hand-overs")
        member.pipe.send(None)
        self.books.complaints += [f"{member.name} has ended with {count} {what} left"
                                  for what, count in self._last_word(member).items()]
        self.books.drained += 1
        self.kill(member.name)
        self.start(member.name)

    def _signal(self, name: str, number: signal.Signals, *, stopped: bool) -> None:
        member = self.members.get(name)
        if member is not None and member.process.pid is not None:
            os.kill(member.process.pid, number)
            member.stopped = stopped

    def net(self, what: str, *arguments: object) -> Any:
        """Call a function of the process that is the network between the nodes."""
        self._net.send((what, arguments))
        return self._first_word(self._net, "the network")

    @staticmethod
    def _first_word(pipe: Pipe, name: str) -> Any:
        try:
            if pipe.poll(START_S):
                return pipe.recv()
        except EOFError:
            raise ProcessLostError(f"{name} has ended") from None
        raise ProcessLostError(f"{name} has said nothing for {START_S:g} s")

    # The router

    def route(self) -> None:
        """Begin requests while ranks have room for them and the registry knows all live ranks."""
        if self._find() is None:
            return
        free = [name for name in self.sinks if self._has_room(name)]
        while free:
            name = free[self._random.randrange(len(free))]
            self._begin(self.members[name])
            free = [name for name in self.sinks if self._has_room(name)]

    def greet(self, names: set[str]) -> None:
        """Begin a request for each of these decode ranks, and take its name out of the set.

        An engine holds memory in doubt until the successor of the sink has sent a message.
        """
        for name in sorted(names) if self._find() is not None else ():
            if self._has_room(name):
                self._begin(self.members[name])
                names.remove(name)

    def _has_room(self, name: str) -> bool:
        """Whether this decode rank, and every prefill rank that feeds it, can take one more."""
        ranks = [self.members.get(other) for other in (name, *self.sources)]
        limits = [self._in_flight] + [self._in_flight * len(self.sinks)] * len(self.sources)
        return all(member is not None and member.ready and not member.leaves
                   and len(member.open) < limit
                   for member, limit in zip(ranks, limits, strict=True))

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

    def _begin(self, sink: SoakProcess) -> None:
        room = self.books.routed
        self.books.routed += 1
        for member in (*(self.members[source] for source in self.sources), sink):
            member.open.add(room)
            member.pipe.send(Begin(room, self._where if member is sink else {}))

    # The books

    def hear(self, seconds: float) -> None:
        """Read the messages of the ranks, for at most `seconds`. Raises ProcessLostError."""
        pipes = {member.pipe: member for member in self.members.values()}
        for pipe in wait(list(pipes), seconds):
            member = pipes[pipe]  # type: ignore[index]
            try:
                said = member.pipe.recv()
            except (EOFError, ConnectionResetError):
                raise ProcessLostError(f"{member.name} has ended by itself, with status "
                                       f"{member.process.exitcode}") from None
            self._take(member, said)
        for member in self.members.values():
            if not member.ready and monotonic() - member.begun > START_S:
                raise ProcessLostError(f"{member.name} has not begun within {START_S:g} s")

    def _take(self, member: SoakProcess, said: Any) -> None:
        if isinstance(said, State):
            member.told = self.books.states[member.listener] = said
        elif isinstance(said, Left):
            self._replace(member, said)
        elif isinstance(said, str):
            self.net("aim", member.listener, said)
            member.ready = True
        else:
            for ended in said:
                self._note(member, ended)

    def _note(self, member: SoakProcess, ended: Ended) -> None:
        """S14: a hand-over that succeeds at decode has not failed at any rank."""
        books, room = self.books, ended.room
        member.open.discard(room)
        if DRAINS in ended.reason and self._load.request(room).abort is None:
            books.complaints.append(f"{member.name}, room {room}: {ended.reason}")
        if ended.corrupt:
            books.complaints.append(f"{member.name}, room {room}: a page holds other bytes than "
                                    f"were sent")
        if member.name in self.sinks:
            books.decided[room] = member.name, ended.success
            books.succeeded += ended.success
            books.failed += not ended.success
            if not ended.success:
                books.reasons[NAMES.sub("", ended.reason).strip()] += 1
        elif not ended.success:
            books.refused.setdefault(room, set()).add(member.name)
        self._close_books(room)

    def _close_books(self, room: int) -> None:
        """Compare the outcomes of a room, when no rank has it open any more."""
        name, success = self.books.decided.get(room, ("", False))
        against = self.books.refused.get(room, set())
        if success and against:
            self.books.complaints.append(f"room {room}: {name} has succeeded, and "
                                         f"{', '.join(sorted(against))} failed")
        if not any(room in member.open for member in self.members.values()):
            self.books.decided.pop(room, None)
            self.books.refused.pop(room, None)

    def ask(self) -> list[str]:
        """Ask all ranks for their resources in use; one line for each that is not zero."""
        for member in self.members.values():
            member.told = None
            member.pipe.send(True)
        deadline = monotonic() + START_S
        while any(member.told is None for member in self.members.values()):
            if monotonic() > deadline:
                raise ProcessLostError(f"{', '.join(self._silent())}: no answer")
            self.hear(0.1)
        return [f"{name} holds {value:g} {what}" for name, member in self.members.items()
                if member.told is not None for what, value in member.told.held.items()]

    def _silent(self) -> Iterator[str]:
        return (name for name, member in self.members.items() if member.told is None)

    @property
    def unfinished(self) -> Sequence[str]:
        """The names of the ranks that have open rooms, that have not begun yet, or that drain."""
        return [name for name, member in self.members.items()
                if member.open or not member.ready or member.leaves]

    def close(self) -> dict[str, dict[str, int]]:
        """End every process. Returns the left resources of those that ended in order, by name."""
        left = {}
        for name, member in self.members.items():
            if member.stopped:
                self.go_on(name)
            with suppress(OSError):
                member.pipe.send(None)
        for name, member in self.members.items():
            left[name] = self._last_word(member)
            member.process.join(END_S)
            member.process.kill()
            member.process.join()
            member.pipe.close()
        self.kill_registry()
        self._network.kill()
        self._network.join()
        self._net.close()
        self._client.close()
        return left

    @staticmethod
    def _last_word(member: SoakProcess) -> dict[str, int]:
        """The left resources of a process, from its last message."""
        with suppress(EOFError, OSError):
            while member.pipe.poll(END_S):
                said = member.pipe.recv()
                if isinstance(said, dict):
                    return said
        return {"word of its end": 1}
