"""A cut of the registry in `pdproto handoff`: its process is stopped while hand-overs run."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.wire import RefusedError
from pdproto.transport.keys import Keys

BACK_S: Final = 60.0  # for all ranks to be listed again
AGAIN_S: Final = 0.1


@dataclass(slots=True)
class Cut:
    """A cut and its effects. seconds: how long it took. ended: hand-overs that ended in it.
    refusal, refused_s: why a look-up failed in it, and after so many seconds. back_s: seconds from
    its end until every rank was listed; None if that did not happen within BACK_S.
    """

    seconds: float = 0.0
    ended: int = 0
    refusal: str | None = None
    refused_s: float = 0.0
    back_s: float | None = None

    def complaints(self) -> list[str]:
        """The claims that do not hold."""
        return [told for fails, told in (
            (not self.ended, "no hand-over ended while the registry was cut off"),
            (self.refusal is None, "a look-up was answered while the registry was cut off"),
            (self.back_s is None, f"not every rank was listed within {BACK_S:g} s after the cut"),
        ) if fails]


class RegistryCut:
    """Stops a registry for a while, and looks the ranks up meanwhile and afterwards, in a thread.

    process: of the registry. seconds: of the cut at least: the look-up in it may take longer.
    first: so many requests have ended when it begins.
    """

    def __init__(self, process: int, address: str, keys: Keys | None, *, seconds: float,
                 first: int) -> None:
        self.cut: Final = Cut()
        self._process: Final = process
        self._look_up: Final[Callable[[], RegistryClient]] = lambda: RegistryClient(
            address, keys=keys)
        self._seconds: Final = seconds
        self._first: Final = first
        self._done = 0
        self._stopping: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="pdproto-cut", daemon=True)

    def note(self, done: int) -> None:
        """So many requests have ended: begin the cut, if that is enough."""
        self._done = max(self._done, done)
        if done >= self._first and self._thread.ident is None:
            self._thread.start()

    def wait(self) -> None:
        """Wait until the cut is over, and the registry has all ranks again."""
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """End the cut at once, if it has not ended."""
        self._stopping.set()
        self.wait()

    def _run(self) -> None:
        began, before = monotonic(), self._done
        os.kill(self._process, signal.SIGSTOP)
        try:
            with closing(self._look_up()) as client:
                try:
                    client.look_up_all()
                except UnreachableError as error:
                    self.cut.refusal, self.cut.refused_s = str(error), monotonic() - began
            self._stopping.wait(max(0.0, began + self._seconds - monotonic()))
        finally:
            os.kill(self._process, signal.SIGCONT)
        self.cut.seconds, self.cut.ended = monotonic() - began, self._done - before
        self._come_back()

    def _come_back(self) -> None:
        began = monotonic()
        with closing(self._look_up()) as client:
            while not self._stopping.is_set() and monotonic() - began < BACK_S:
                try:
                    client.look_up_all()
                except (NotFoundError, RefusedError, UnreachableError):
                    sleep(AGAIN_S)
                else:
                    self.cut.back_s = monotonic() - began
                    return
