"""Another process of a test, which the test stops or kills."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import psutil

from pdproto.drill import children
from pdproto.drill.handoff import ranks
from tests.waiting import ended, until


@contextmanager
def victim(
    target: Callable[..., None], *arguments: str
) -> Iterator[tuple[psutil.Process, Connection]]:
    """A process that is dead in the end, whatever becomes of the test."""
    context = children.context(ranks.__name__)
    ours, theirs = context.Pipe()
    place = 1 if arguments else 0
    process = context.Process(
        target=target, args=(*arguments[:place], theirs, *arguments[place:]), daemon=True)
    process.start()
    theirs.close()
    try:
        yield psutil.Process(process.pid), ours
    finally:
        process.kill()
        ended(process)
        process.close()
        ours.close()


def suspend(process: psutil.Process) -> None:
    """Stop it, and wait until it has: its other threads work for as long as the one that is told
    has no turn.
    """
    process.suspend()
    until(lambda: process.status() == psutil.STATUS_STOPPED)
