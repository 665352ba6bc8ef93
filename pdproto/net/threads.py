"""Threads of this process: none may be to be had, and a forked child has none of its parent's.

Rule 1: a thread that cannot start is an OSError that names the limit. Libraries may end the process
        in its place (ZeroMQ does), so their threads are asked for first.
Rule 2: a forked child closes the files of the objects that it inherits, at once. Otherwise a port
        would stay taken, and peers would not notice the death of the parent.
Rule 3: every call of an inherited object says that another process has opened it, and a call that
        closes it does nothing.
Rule 4: nothing that a function of the application raises ends a thread of ours, SystemExit and
        asyncio.CancelledError included.
Rule 5: when the interpreter ends, in the `__del__` of an object of the program, nothing waits for a
        thread of ours: none runs any more.

A child that runs another program (`subprocess`, `spawn`) inherits none of these files.
"""

import errno
import logging
import os
import resource
import socket
import stat
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Final, Protocol
from weakref import WeakSet

log = logging.getLogger("pdproto")


class ServiceThread(Thread):
    """A thread that serves until it is told to end. It keeps no process alive.

    `join` may be interrupted (Ctrl-C) and repeated; the one of CPython 3.11 takes an interrupted
    thread for one that has ended. It returns at once on the thread itself, before the start, and
    in a forked child.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self._over: Final = Event()

    def start(self) -> None:
        """Start it. Raises OSError, with the limit, if there is no thread to be had."""
        try:
            super().start()
        except RuntimeError as error:  # "can't start new thread"
            why = f"no thread {self.name!r} can start: {_limits()}"
            raise OSError(errno.EAGAIN, why) from error
        watch(self)

    def run(self) -> None:
        """See Thread."""
        try:
            super().run()
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, for `timeout` seconds at most; not at all by rule 5."""
        if sys.is_finalizing():
            return
        if self.ident is not None and current_thread() is not self and self._over.wait(timeout):
            super().join(timeout)

    def leave_to_parent(self) -> None:
        """See Inherited."""
        self._over.set()


def require(count: int, name: str) -> None:
    """Raise OSError, with the limit, unless so many threads can start now. name: who needs them."""
    over = Event()
    started: list[ServiceThread] = []
    try:
        for _ in range(count):
            thread = ServiceThread(over.wait, name)
            thread.start()
            started.append(thread)
    finally:
        over.set()
        for thread in started:
            thread.join()


def _limits() -> str:
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    told = "no limit" if most == resource.RLIM_INFINITY else str(most)
    found = [f"RLIMIT_NPROC (ulimit -u) is {told}"]
    with suppress(OSError, IndexError):
        group = Path("/proc/self/cgroup").read_text().splitlines()[-1].partition("::")[2]
        pids = (Path("/sys/fs/cgroup") / group.lstrip("/") / "pids.max").read_text().strip()
        found.append(f"pids.max of the cgroup is {pids}")
    return f"{', '.join(found)}: raise the limit, or end other processes"


class Inherited(Protocol):
    """An object with files or threads of its own."""

    def leave_to_parent(self) -> None:
        """In a forked child, where no other thread runs: close the inherited files."""


_opened: Final[WeakSet[Inherited]] = WeakSet()


def watch(owner: Inherited) -> None:
    """Call `owner.leave_to_parent` in each child that this process forks."""
    _opened.add(owner)


def forget(owner: Inherited) -> None:
    """Call it in no child any more. Do so before the owner closes its files, because other files
    may get their numbers.
    """
    _opened.discard(owner)


def opened_elsewhere(name: str) -> str:
    """The reason for which an inherited object refuses its calls."""
    return f"{name} was opened in another process ({os.getppid()}): open one in this process"


def close_sockets(ours: Container[int | str], peers: Container[tuple[str, int] | str] = ()) -> None:
    """Close the sockets of this process at one of these places of its own, and those that are
    connected to one of these peers.

    ours: ports of TCP, and paths. peers: addresses and ports, and paths. For a library that does
    not show its sockets, in a child that has none of its threads.
    """
    for file in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if _is_at(file, ours, peers):
                os.close(file)


def _is_at(
    file: int, ours: Container[int | str], peers: Container[tuple[str, int] | str]
) -> bool:
    if not stat.S_ISSOCK(os.fstat(file).st_mode):
        return False
    with socket.socket(fileno=os.dup(file)) as seen:
        if seen.family == socket.AF_UNIX:
            return seen.getsockname() in ours or seen.getpeername() in peers
        if seen.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if seen.getsockname()[1] in ours:
            return True
        return seen.getpeername()[:2] in peers


def is_of_program(error: BaseException) -> bool:
    """Whether what a function has raised is for the program: Ctrl-C, or an exit, in the main
    thread. In another thread it would end that one alone, without a word, and all that it serves.
    """
    return not isinstance(error, Exception) and current_thread() is main_thread()


def call_each(*steps: Callable[[], object]) -> None:
    """Call each of these. The error of one is logged, and the others are called all the same."""
    for step in steps:
        try:
            step()
        except BaseException as error:
            if is_of_program(error):
                raise
            log.exception("%r has failed", step)


def _in_child() -> None:
    call_each(*(owner.leave_to_parent for owner in tuple(_opened)))
    _opened.clear()


os.register_at_fork(after_in_child=_in_child)
