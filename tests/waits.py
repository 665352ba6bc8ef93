"""Calls that wait, seen by the functions that they call: a busy machine makes no call slow enough
to fail, and an idle one none quick enough to pass. What calls compute is told in processor time.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from threading import Condition, Thread
from types import CodeType, FrameType
from typing import Any, Final

import pytest

# Functions of C, by how they name themselves. A lock that is held for microseconds is no wait: it
# is taken by `with`, which no profile shows, and another one by `acquire`; those of the log are the
# host's. Neither is a new thread, which gets the interpreter at once.
OF_C: Final = frozenset({
    "sleep", "getaddrinfo", "gethostbyname", "select", "poll.poll", "epoll.poll", "SimpleQueue.get",
    "socket.connect", "socket.accept", "socket.recv", "socket.recv_into", "socket.sendall",
    "socket.send", "waitpid",
    "lock.acquire", "RLock.acquire"})
OF_PYTHON: Final[frozenset[CodeType]] = frozenset(
    one.__code__ for one in (Condition.wait, Thread.join))
STARTING: Final = Thread.start.__code__
# Seconds of the processor that a call takes: 99 % of them, and all but two.
USUAL_S: Final = 0.001
LONGEST_S: Final = 0.010
FEW: Final = 20  # calls say nothing of 99 %


def assert_brief(seconds: Iterable[float], what: str = "") -> None:
    """Calls that took so long on the processor are no burden to the thread that makes them. A busy
    machine seldom lengthens them: one of 23 ms was seen beside three other tests.
    """
    spent = sorted(seconds)
    assert len(spent) > FEW, what
    assert spent[-3] < LONGEST_S, what
    assert spent[len(spent) * 99 // 100 - 1] < USUAL_S, what


class Waits:
    """The calls that are watched. called: those that were made. found: those that waited, each with
    the function in which it did.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: Final[set[str]] = set()
        self.found: Final[dict[str, str]] = {}
        self._monkeypatch: Final = monkeypatch
        self._now = ""

    def watch(self, owner: Any, names: Iterable[str]) -> None:
        """Watch these functions of a class or a module."""
        for name in names:
            self._monkeypatch.setattr(owner, name, self._watched(
                f"{owner.__name__}.{name}", getattr(owner, name)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            self.called.add(name)
            if sys.getprofile() is not None:
                return function(*given, **named)  # within another one
            self._now = name
            sys.setprofile(self._note)
            try:
                return function(*given, **named)
            finally:
                sys.setprofile(None)

        return call

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        waits = (frame.f_code in OF_PYTHON if event == "call"
                 else event == "c_call" and argument.__qualname__ in OF_C)
        if waits and frame.f_globals is not vars(logging) and not _starts(frame):
            self.found[self._now] = f"{frame.f_code.co_qualname}, {frame.f_lineno}"


def _starts(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not STARTING:
        frame = frame.f_back
    return frame is not None
