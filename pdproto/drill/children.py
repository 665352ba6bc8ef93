"""Child processes of a verb. The verb alone handles Ctrl-C and SIGTERM, and then ends them all."""

import faulthandler
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from tempfile import gettempdir
from typing import Any, Final, TypeAlias

from pdproto.transport.watchdog import SLOW_TURNS

# For a process to begin. It imports for a second of a processor, which took over a minute where
# other programs kept every core busy. One that dies is noticed at once.
START_S: Final = 300.0
ENDING: Final = signal.SIGINT, signal.SIGTERM
STACKS: Final = signal.SIGUSR1  # has a child write the stacks of its threads to stderr
STDERR: Final = 2
SOCKET: Final = "/pymp-xxxxxxxx/listener-xxxxxxxx"  # as multiprocessing names it
ENDED_PIPE: Final = EOFError, BrokenPipeError, ConnectionResetError
SOCKET_PATH_MAX: Final = 107  # bytes, on Linux
Pipe: TypeAlias = "Connection[Any, Any]"


class ChildLostError(Exception):
    """A child process has ended by itself, or is silent. Its stderr may say why."""


@dataclass(slots=True, eq=False)
class Child:
    """A child process, and our end of its pipe. name: for errors."""

    name: str
    process: BaseProcess
    pipe: Pipe

    def hear(self) -> Any:
        """Its next message, which it has START_S to send. Raises ChildLostError."""
        try:
            if self.pipe.poll(START_S):
                return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise ChildLostError(f"{self.name} has ended by itself") from None
        raise ChildLostError(f"{self.name} has sent nothing for {START_S:g} s")

    def end(self, within_s: float = 0.0) -> None:
        """Kill the process, unless it ends by itself within this time. Close the pipe."""
        self.process.join(within_s)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def context(module: str) -> ForkServerContext | SpawnContext:
    """The context that starts processes which run functions of this module.

    They are copies of one process that has imported it: importing takes a second of a processor,
    and a drill has many ranks. All have the environment of the first start. That process listens
    at a socket in the folder for temporary files; where its path would be too long, each process
    imports the module by itself.
    """
    if len(os.fsencode(gettempdir())) + len(SOCKET) > SOCKET_PATH_MAX:
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([module])
    return found


def run_in_child(context: ForkServerContext | SpawnContext, name: str, body: Callable[..., None],
                 *arguments: Any) -> Child:
    """Start a child process that runs `body(*arguments, pipe)`, with its end of the pipe."""
    ours, theirs = context.Pipe()
    process = context.Process(target=while_parent_lives, daemon=True, name=name,
                              args=(body, *arguments, theirs))
    start(process)
    theirs.close()
    return Child(name, process, ours)


def start(process: BaseProcess) -> None:
    """Start the process with Ctrl-C blocked.

    A terminal sends Ctrl-C to the whole group of processes, so the child would print a traceback.
    No signal ends the parent while the child reads its task from the parent. SIGTERM ends the child
    as soon as its body has begun.
    """
    resource_tracker.ensure_running()  # `start` would, and unblock the signals again
    noted: list[int] = []
    # The child inherits the mask. It does not keep a signal from the parent, whose other threads
    # (NumPy's) take it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    handlers = {number: signal.signal(number, lambda number, _: noted.append(number))
                for number in ENDING}
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt


def while_parent_lives(body: Callable[..., None], *arguments: Any) -> None:
    """Run the body in a child process, which ends silently when its parent ends."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    faulthandler.register(STACKS, file=STDERR)
    # Hand-overs of a drill fail on purpose, and its report says how many. Of a slow turn, only the
    # log says which part of it was the longest.
    logging.getLogger("pdproto").setLevel(logging.ERROR)
    logging.getLogger(SLOW_TURNS).setLevel(logging.WARNING)
    try:
        body(*arguments)
    except Exception as error:
        # Another child may have seen the end of the parent first, and be missed by this one.
        parent = multiprocessing.parent_process()
        if not isinstance(error, ENDED_PIPE) and parent is not None and parent.is_alive():
            raise
        os._exit(1)  # no process waits for its resources, and its threads still run


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM end the verb as Ctrl-C does, with its processes and its files."""
    before = signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _as_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
