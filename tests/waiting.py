"""Waiting in tests for what other threads and processes do: the one place that asks again.

A test waits for an event, not for a clock. `PATIENCE_S` only ends a test of something that will
never come, so it is long: a busy machine is slow.
"""

import asyncio
import linecache
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.001

What: TypeAlias = str | Callable[[], str] | None


def until(
    holds: Callable[[], object], what: What = None, *, within_s: float | None = None,
    look_s: float = LOOK_S, error: type[Exception] = AssertionError,
) -> float:
    """Wait until it holds. Returns after how many seconds it did.

    what: is awaited, or why it has not come; without it the error names the line of the test that
    waits. within_s: `PATIENCE_S` by default. look_s: between two looks. Raises the error when it
    does not come.
    """
    patience_s = PATIENCE_S if within_s is None else within_s
    began = time.monotonic()
    while not holds():
        if time.monotonic() > began + patience_s:
            awaited = what() if callable(what) else what or _line_of_caller()
            raise error(f"never: {awaited}")
        time.sleep(look_s)
    return time.monotonic() - began


class Ending(Protocol):
    """A thread, or a process of multiprocessing."""

    def join(self, timeout: float | None = None, /) -> None: ...

    def is_alive(self) -> bool: ...


def ended(one: Ending) -> None:
    """Wait until it has ended."""
    one.join(PATIENCE_S)
    assert not one.is_alive(), f"{one} goes on"


async def until_in_loop(holds: Callable[[], object]) -> None:
    """The same in an event loop, which goes on meanwhile. It has no end: see asyncio.timeout."""
    while not holds():
        await asyncio.sleep(LOOK_S)


def _line_of_caller() -> str:
    """The line of source that waits: the first one outside this module."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
