"""The parent of `pdproto handoff`: it starts the ranks, reads their reports, and restarts a server.

It is the router as well: while the prefill server is down, it has decode begin nothing.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from pdproto.drill import children
from pdproto.drill.children import Child, ChildLostError
from pdproto.drill.handoff import ranks
from pdproto.drill.handoff.cut import RegistryCut
from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.rank import GoOn, Hold, RankTask, Reached, Report
from pdproto.drill.handoff.ranks import UNTRACED, decode_rank, prefill_rank, registry
from pdproto.net.hosts import LOOPBACK
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.keys import Keys

REGISTRY: Final = "registry"
END_S: Final = 30.0


@dataclass(slots=True)
class HandoffProcess:
    """The process of one rank. done: requests that have ended at this rank. upcoming: the first
    request that the rank had not begun when the router held it.
    """

    rank: RankTask
    child: Child
    done: int = 0
    upcoming: int | None = None
    report: Report | None = None
    leftovers: Mapping[str, int] | None = None


class HandoffCluster:
    """All ranks of both servers, on this machine."""

    def __init__(  # noqa: PLR0913 - all of it describes one drill
        self,
        topology: Topology,
        load: Load,
        *,
        engine: str,
        direct: bool = False,
        device: str = "cpu",
        waits: Mapping[str, float],
        trace: str | None,
        doomed: Mapping[str, int] = {},
        drains_at: int | None = None,
        cut_s: float | None = None,
        host: str = LOOPBACK,
        keys: Keys | None = None,
    ) -> None:
        """doomed: ranks to kill, each with the room during which it is killed. drains_at: the room
        before which the only prefill rank is drained, and replaced. cut_s: seconds for which the
        registry is cut off, after a third of the requests. host: the address at
        which all ranks listen. keys: of all ranks; needed when the ranks are on several hosts.
        """
        self.started: Final = monotonic()
        self._context: Final = children.context(ranks.__name__)
        incarnation = new_incarnation()  # of the decode ranks as a group
        self.members: Final[dict[str, HandoffProcess]] = {}
        self.survivors: Final[
            list[HandoffProcess]
        ] = []  # of a server that was taken down, all but one; the rank that was drained
        self.restarts = 0
        self.doomed: Final = doomed
        self.topology: Final = topology
        self.load: Final = load
        self._host: Final = host
        self._keys: Final = keys
        self._registry: Final = self.child(
            REGISTRY, registry, trace, self.host_of(REGISTRY), keys)
        where = str(self._registry.hear())
        self.cut: Final = None if cut_s is None else RegistryCut(
            self._registry.process.pid or 0, where, keys, seconds=cut_s, first=load.requests // 3)
        self._folder: Final = TemporaryDirectory(prefix="pdproto-")
        group = tuple(f"ipc://{self._folder.name}/{name}" for name in topology.prefill)
        for name in (*topology.prefill, *topology.decode):
            self._start(RankTask(name, topology, load, engine, where, incarnation, waits=waits,
                             trace=trace, group=group, direct=direct, dies_in=doomed.get(name),
                             drains_at=drains_at,
                             host=self.host_of(name), device=device, keys=keys))

    def host_of(self, _name: str) -> str:
        """The address at which a rank, or the registry, listens."""
        return self._host

    def child(self, name: str, body: Callable[..., None], *arguments: Any) -> Child:
        """Start the process in which a rank, or the registry, runs the body."""
        return children.run_in_child(self._context, name, body, *arguments)

    @property
    def untraced(self) -> tuple[str, ...]:
        """The processes that have ended, and could not write their trace to its end."""
        ranks = [member.child for member in (*self.members.values(), *self.survivors)]
        return tuple(child.name for child in (self._registry, *ranks)
                     if child.process.exitcode == UNTRACED)

    def begin(self) -> None:
        """Wait until every process is ready, and let all begin.

        Raises ChildLostError when a process does not become ready.
        """
        for member in self.members.values():
            member.child.hear()
        for member in self.members.values():
            member.child.pipe.send(True)

    def run(self, seconds: float, on_progress: Callable[[int], None]) -> None:
        """Run until every rank has reported.

        Raises TimeoutError when they take longer, ChildLostError when a process ends by itself.
        """
        deadline = monotonic() + seconds
        while any(member.report is None for member in self.members.values()):
            if monotonic() > deadline:
                waiting = [n for n, m in self.members.items() if m.report is None]
                raise TimeoutError(f"{', '.join(waiting)} did not finish within {seconds:g} s")
            pipes = {member.child.pipe: member for member in self.members.values()}
            for pipe in wait(list(pipes), timeout=0.5):
                member = pipes[pipe]  # type: ignore[index]
                try:
                    self._hear(member)
                except ChildLostError:
                    if member.rank.dies_in is None:
                        raise
                    self._start_anew(member, deadline)
                    break  # the pipes of its server are other ones now
                if member.report is not None and member.report.drained is not None:
                    self._replace(member, deadline)
                    break
            self._see_all_alive()
            if self.cut is not None:
                self.cut.note(min(self.members[name].done for name in self.topology.decode))
            on_progress(min(member.done for member in self.members.values()))
        if self.cut is not None:
            self.cut.wait()

    def close(self) -> None:
        """End every process: ask those that have reported to end, and kill the others."""
        if self.cut is not None:
            self.cut.close()
        self._end(self.members.values())
        self._registry.pipe.send(None)
        self._registry.end(END_S)
        self._folder.cleanup()

    @staticmethod
    def _end(members: Collection[HandoffProcess]) -> None:
        for member in members:
            if member.report is not None and member.child.process.is_alive():
                member.child.pipe.send(None)
        for member in members:
            if member.report is not None and member.child.pipe.poll(END_S):
                try:
                    member.leftovers = member.child.pipe.recv()
                except EOFError:
                    member.leftovers = None
            member.child.end(END_S if member.report is not None else 0.0)

    def _start(self, rank: RankTask) -> None:
        body = prefill_rank if rank.name.startswith("prefill") else decode_rank
        self.members[rank.name] = HandoffProcess(rank, self.child(rank.name, body, rank))

    def _hear(self, member: HandoffProcess) -> None:
        try:
            said = member.child.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise ChildLostError(f"{member.rank.name} has ended without a report") from None
        if isinstance(said, Report):
            member.report = said
            member.done = len(said.outcomes)
            member.upcoming = member.rank.load.requests
        elif isinstance(said, Reached):
            member.upcoming = said.upcoming
        else:
            member.done = said

    def _see_all_alive(self) -> None:
        for member in self.members.values():
            child = member.child
            if member.report is None and not child.process.is_alive() and not child.pipe.poll():
                raise ChildLostError(f"{child.name} has ended with status "
                                     f"{child.process.exitcode}")

    def _start_anew(self, killed: HandoffProcess, deadline: float) -> None:
        """After the kill of a rank, wait for the other ranks of its server, and restart them all.

        Nothing tells these ranks: they notice the loss, and end by themselves.
        """
        prefill = [self.members[other] for other in self.topology.prefill]
        decode = [self.members[other] for other in self.topology.decode]
        killed.child.end()
        for member in decode:
            member.child.pipe.send(Hold())
        survivors = [member for member in prefill if member is not killed]
        self._hear_until(deadline, survivors, lambda member: member.report is not None)
        self._hear_until(deadline, decode, lambda member: member.upcoming is not None)
        self._end(survivors)
        self.survivors.extend(survivors)
        self._go_on(prefill, decode)
        self.restarts += 1

    def _replace(self, drained: HandoffProcess, deadline: float) -> None:
        """End a rank that has said that it is empty, and start another in its place."""
        decode = [self.members[other] for other in self.topology.decode]
        self._hear_until(deadline, decode, lambda member: member.upcoming is not None)
        self._end([drained])
        self.survivors.append(drained)
        self._go_on([drained], decode)

    def _go_on(
        self, ended: Collection[HandoffProcess], decode: Collection[HandoffProcess]
    ) -> None:
        """Start the prefill server again, with the first room that no decode rank has begun."""
        first = max(member.upcoming or 0 for member in decode)
        for member in ended:
            self._start(replace(member.rank, first=first, dies_in=None, drains_at=None))
        for member in ended:
            self.members[member.rank.name].child.hear()
        for member in ended:
            self.members[member.rank.name].child.pipe.send(True)
        for member in decode:
            member.child.pipe.send(GoOn(first))

    def _hear_until(self, deadline: float, members: Collection[HandoffProcess],
                    holds: Callable[[HandoffProcess], bool]) -> None:
        """Read reports until `holds` is true of each. Raises TimeoutError, ChildLostError."""
        for member in members:
            while not holds(member):
                if not member.child.pipe.poll(max(0.0, deadline - monotonic())):
                    raise TimeoutError(f"{member.rank.name} has not noticed in time that its "
                                       f"server is down")
                self._hear(member)
