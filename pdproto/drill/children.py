"""Processes that a verb starts: Ctrl-C and SIGTERM are for the verb, which then ends them all."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from tempfile import gettempdir
from typing import Any, Final

ENDING: Final = signal.SIGINT, signal.SIGTERM
SOCKET: Final = "/pymp-xxxxxxxx/listener-xxxxxxxx"  # as multiprocessing names it
SOCKET_PATH_MAX: Final = 107  # bytes, on Linux


def context(module: str) -> ForkServerContext | SpawnContext:
    """How to start processes that run functions of this module.

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


def start(process: BaseProcess) -> None:
    """Start it without Ctrl-C, which a terminal sends to the whole group of processes: the child
    would print a traceback, whatever it does at that time. Nor does a signal end the parent while
    the child reads from it what to do. SIGTERM ends the child as soon as its body has begun.
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
    """The life of such a process. It ends without a word when the parent does, whom it serves."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # Hand-overs of a drill fail on purpose, and its report says how many.
    logging.getLogger("pdproto").setLevel(logging.ERROR)
    try:
        body(*arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # there is nobody to give anything back to, and threads of its still run


def with_defect(name: str | None, body: Callable[..., None], *arguments: Any) -> None:
    """The life of such a process, whose tables have a historical defect if one is named."""
    if name is not None:
        from pdproto.sim import planted  # noqa: PLC0415 - reads every system

        planted.put_in(planted.named(name).system)
    while_parent_lives(body, *arguments)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends the verb as Ctrl-C does: what it has started and made goes with it."""
    before = signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _as_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
