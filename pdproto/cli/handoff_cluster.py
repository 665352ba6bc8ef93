"""The parent of `pdproto handoff`: it starts the ranks, kills one if asked, and hears them."""

import multiprocessing
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from pdproto.cli.handoff_load import Load, Topology
from pdproto.cli.handoff_ranks import Rank, Report, decode_rank, prefill_rank, registry
from pdproto.cli.options import UsageError

START_S: Final = 60.0
END_S: Final = 30.0


class RankDiedError(Exception):
    """A rank's process ended by itself: what it wrote to stderr says why."""


@dataclass(slots=True)
class Member:
    """One rank's process. done: requests that it has seen the end of."""

    rank: Rank
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    done: int = 0
    report: Report | None = None
    leftovers: Mapping[str, int] | None = None


class Cluster:
    """All ranks of both servers, on this machine."""

    def __init__(
        self,
        topology: Topology,
        load: Load,
        *,
        engine: str,
        waits: Mapping[str, float],
        trace: str | None,
    ) -> None:
        self._context: Final = multiprocessing.get_context("spawn")
        incarnation = secrets.randbits(62) | 1  # of the decode ranks as a group
        self.members: Final[dict[str, Member]] = {}
        self.restarts = 0
        self._pipe, theirs = self._context.Pipe()
        self._registry: Final = self._context.Process(target=registry, args=(theirs,))
        self._registry.start()
        theirs.close()
        where = self._said(self._pipe, "the registry")
        self._folder: Final = TemporaryDirectory(prefix="pdproto-")
        group = tuple(f"ipc://{self._folder.name}/{name}" for name in topology.prefill)
        for name in (*topology.prefill, *topology.decode):
            self._start(Rank(name, topology, load, engine, where, incarnation, waits=waits,
                             trace=trace, group=group))

    def begin(self) -> None:
        """Wait until every process is there, and let all begin.

        Raises TimeoutError or RankDiedError when one does not come.
        """
        for name, member in self.members.items():
            self._said(member.pipe, name)
        for member in self.members.values():
            member.pipe.send(True)

    def run(self, seconds: float, on_progress: Callable[[int], None],
            kill: tuple[str, int] | None = None) -> None:
        """Until every rank has reported. kill: a rank, and how many requests it may see before.

        Raises TimeoutError when they take longer, RankDiedError when a process ends by itself.
        """
        deadline = monotonic() + seconds
        while any(member.report is None for member in self.members.values()):
            if monotonic() > deadline:
                waiting = [n for n, m in self.members.items() if m.report is None]
                raise TimeoutError(f"{', '.join(waiting)} did not finish within {seconds:g} s")
            pipes = {member.pipe: member for member in self.members.values()}
            for pipe in wait(list(pipes), timeout=0.5):
                self._hear(pipes[pipe])  # type: ignore[index]
            self._see_all_alive()
            on_progress(min(member.done for member in self.members.values()))
            if kill is not None and self.members[kill[0]].done >= kill[1]:
                self._kill_and_restart(kill[0])
                kill = None

    def close(self) -> None:
        """End every process: those that have reported are asked to, the others are killed."""
        for member in self.members.values():
            if member.report is not None and member.process.is_alive():
                member.pipe.send(None)
        for member in self.members.values():
            if member.report is not None and member.pipe.poll(END_S):
                try:
                    member.leftovers = member.pipe.recv()
                except EOFError:
                    member.leftovers = None
            member.process.join(END_S if member.report is not None else 0)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()
            member.pipe.close()
        self._pipe.send(None)
        self._registry.join(END_S)
        self._registry.kill()
        self._registry.join()
        self._pipe.close()
        self._folder.cleanup()

    def _start(self, rank: Rank) -> None:
        ours, theirs = self._context.Pipe()
        body = prefill_rank if rank.name.startswith("prefill") else decode_rank
        process = self._context.Process(target=body, args=(rank, theirs), name=rank.name)
        process.start()
        theirs.close()
        self.members[rank.name] = Member(rank, process, ours)

    @staticmethod
    def _said(pipe: "Connection[Any, Any]", name: str) -> str:
        """What a process says first, when it is ready."""
        if not pipe.poll(START_S):
            raise TimeoutError(f"{name} did not start within {START_S:g} s")
        try:
            return str(pipe.recv())
        except EOFError:
            raise RankDiedError(f"{name} could not start") from None

    def _hear(self, member: Member) -> None:
        try:
            said = member.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise RankDiedError(f"{member.rank.name} has ended without a report") from None
        if isinstance(said, Report):
            member.report = said
            member.done = len(said.outcomes)
        else:
            member.done = said

    def _see_all_alive(self) -> None:
        for member in self.members.values():
            if member.report is None and not member.process.is_alive() and not member.pipe.poll():
                raise RankDiedError(f"{member.rank.name} has ended with status "
                               f"{member.process.exitcode}")

    def _kill_and_restart(self, name: str) -> None:
        """SIGKILL, in the middle of whatever it writes; then a new process under the old name."""
        member = self.members[name]
        if member.process.pid is None:
            raise UsageError(f"{name} does not run")
        os.kill(member.process.pid, signal.SIGKILL)
        member.process.join()
        member.pipe.close()
        # It takes up with the first room that no decode rank can have begun without it.
        begun = max(m.done for m in self.members.values()) + member.rank.load.in_flight
        self._start(replace(member.rank, first=min(begun, member.rank.load.requests)))
        self._said(self.members[name].pipe, name)
        self.members[name].pipe.send(True)
        self.restarts += 1
