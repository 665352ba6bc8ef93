"""The one thread of an engine: it owns the sockets, and serves them and the calls of other threads.

No peer can end it: the code that serves a peer's socket handles all errors of the peer. Any other
exception is a bug of the engine. It is logged and ends the engine, and every later call raises
EngineError. So does every call in a forked child.
"""

import logging
import os
import selectors
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

from pdproto.engine.contract import EngineError
from pdproto.net import threads
from pdproto.net.rests import Rests

log = logging.getLogger(__name__)

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class Loop:
    """A thread around a selector.

    work: does a bounded piece of the work that needs no waiting, and returns whether there is more.
    end: called on the thread after `close`. stays: called behind that, and again after each turn:
    whether the thread stays, because it still has something to serve.
    """

    def __init__(
        self, name: str, work: Callable[[], bool], end: Callable[[], None],
        stays: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name: Final = name
        self._work: Final = work
        self._end: Final = end
        self._stays: Final = stays
        self._has_stayed = False  # the thread, after the end
        self._ended: Final = threading.Event()
        self._selector: Final = selectors.DefaultSelector()
        self._calls: Final[deque[Callable[[], None]]] = deque()
        self._eventfd: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._eventfd, READ, self._woken)
        self._rests: Final = Rests()
        self._failure: BaseException | None = None
        self._elsewhere = ""  # why no call works in this process
        self._closing = False
        self._closed = False
        self._lock: Final = threading.Lock()  # between a call and the end
        self._thread: Final = threads.ServiceThread(self._run, name)

    def start(self) -> None:
        """Start the thread. Raises EngineError, and gives everything back, if none is to be had."""
        threads.watch(self)
        try:
            self._thread.start()
        except OSError as error:
            self._run_to_end()
            raise EngineError(f"{self._name}: {error.strerror}") from error

    def leave_to_parent(self) -> None:
        """See threads.Inherited."""
        self._elsewhere = threads.opened_elsewhere(self._name)
        for key in tuple(self._selector.get_map().values()):
            with suppress(OSError):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
                else:
                    os.close(key.fd)
        self._selector.close()
        self._closing = self._closed = True
        self._ended.set()

    def check(self) -> None:
        """Raise EngineError if the engine cannot be used any more."""
        if self._elsewhere:
            raise EngineError(self._elsewhere)
        if self._failure is not None:
            raise EngineError(f"{self._name} has failed: {self._failure!r}") from self._failure
        if self._closing:
            raise EngineError(f"{self._name} is closed")

    def call(self, function: Callable[[], None]) -> None:
        """Call the function on the thread soon. For any thread. After the thread has ended, this
        does nothing.
        """
        with self._lock:
            if not self._closed:
                self._calls.append(function)
                os.eventfd_write(self._eventfd, 1)

    def watch(self, sock: socket.socket | int, events: int, serve: Callable[[int], None]) -> None:
        """Call `serve` on the thread with the events of the socket, or of the file descriptor. A
        second call replaces it.
        """
        if sock in self._selector.get_map():
            self._selector.modify(sock, events, serve)
        else:
            self._selector.register(sock, events, serve)

    def forget(self, sock: socket.socket | int) -> None:
        """Stop serving the socket, if it is served."""
        if sock in self._selector.get_map():
            self._selector.unregister(sock)

    def close(self) -> None:
        """Call `end` on the thread, and wait for it; and for the thread, unless it stays.

        Called on the thread itself (in a wake), it does not wait.
        """
        self._closing = True
        if sys.is_finalizing():
            return  # see Rule 5 of net/threads.py
        self.call(lambda: None)
        if threading.current_thread() is not self._thread:
            self._ended.wait()
            if not self._has_stayed:
                self._thread.join()

    def join(self, seconds: float) -> None:
        """After `close`: wait for a thread that stays, so long at most."""
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        except BaseException as error:  # this is a thread of ours: see Rule 4 of net/threads.py
            self._failure = error
            log.exception("%s has failed", self._name)
        self._run_to_end()

    def _run_to_end(self) -> None:
        self._closing = True
        try:
            self._end()
            self._has_stayed = self._stays()
            self._ended.set()
            while self._stays():
                self._turn()
        finally:
            with self._lock:
                self._closed = True
            self._ended.set()
            threads.forget(self)
            self._selector.close()
            os.close(self._eventfd)

    def _turn(self) -> None:
        is_working = self._work()
        timeout: Literal[0] | None = 0 if is_working else None
        self._rests.ask()
        ready = self._selector.select(timeout)
        if not is_working:  # a copy lets go of the interpreter for long
            self._rests.take()
        for key, events in ready:
            key.data(events)
        while self._calls:
            self._calls.popleft()()

    def _woken(self, _events: int) -> None:
        os.eventfd_read(self._eventfd)
