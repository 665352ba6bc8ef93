"""Keeps the addresses of the prefill ranks that a decode rank needs, in a thread of its own.

It is the counterpart of the Registrar (client.py). The rows of the sink decide what to ask, and
which answers to use (sink.py). This module has the requests, the waits and the lock.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Final

from pdproto.net import threads
from pdproto.registry.client import (
    TIMEOUT_S,
    MissingError,
    NotFoundError,
    RegistryClient,
    UnreachableError,
)
from pdproto.registry.sink import SinkPart
from pdproto.registry.wire import Lookup, Rank, RankAddress, RefusedError
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.own_clock import OwnClock
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.keys import Keys

log = logging.getLogger("pdproto.registry")


class Finder:
    """Looks the ranks up, and again when one of them is lost.

    address: of the registry, "host:port". sink: the name of the decode rank. ranks: the ranks that
    it needs. problem: why the last look-up failed, or "". retry_s: seconds between two
    look-ups. given_up_s: seconds after which the look-up fails if the registry does not answer;
    time for which this process has stood still does not count.
    patience_s: seconds after a loss from which on the registry lists only runs that live. trace:
    records every row that fires. keys: see RegistryClient. watchers: called in the thread after
    each answer, and by `stop` (aio.py).
    """

    def __init__(
        self,
        address: str,
        sink: str,
        ranks: Collection[Rank],
        *,
        retry_s: float = WAITS["no_answer"].seconds,
        given_up_s: float = WAITS["registry_unreachable"].seconds,
        patience_s: float = WAITS["still_listed"].seconds,
        trace: SharedTrace | None = None,
        keys: Keys | None = None,
    ) -> None:
        if not ranks:
            raise ValueError(f"{sink}: no ranks to look up: want one or more")
        self.problem = ""
        self.watchers: tuple[Callable[[], None], ...] = ()
        self._sink: Final = sink
        self._ranks: Final = tuple(ranks)
        self._retry_s: Final = retry_s
        self._given_up_s: Final = given_up_s
        self._patience_s: Final = patience_s
        self._trace: Final = trace
        self._client: Final = RegistryClient(address, keys=keys)
        self._lock: Final = threading.Lock()
        self._part = SinkPart(sink, ranks, trace)
        self._epoch = 0
        self._lost_at = 0.0
        self._silent_since: float | None = None
        self._clock: Final = OwnClock(TIMEOUT_S + retry_s)
        self._clock.begin(monotonic())
        self._wanted: Final = threading.Event()
        self._stopping: Final = threading.Event()
        self._thread: Final = threads.ServiceThread(self._loop, "pdproto-finder")

    def start(self) -> None:
        """Start the thread, which looks the ranks up. Raises OSError if none is to be had."""
        self._wanted.set()
        self._thread.start()

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        self._stopping.set()
        self._wanted.set()
        self._thread.join()
        self._tell()
        self._client.close()

    @property
    def stopped(self) -> bool:
        """Whether `stop` has been called: nothing is found any more."""
        return self._stopping.is_set()

    @property
    def found(self) -> Mapping[Rank, RankAddress] | None:
        """The addresses of the ranks; None until they are found. Each look-up makes a new mapping.
        """
        with self._lock:  # so that `problem` is cleared before an answer can be read
            return self._part.found

    def lose(self, ranks: Collection[Rank], found: Mapping[Rank, RankAddress]) -> None:
        """Note that these ranks are gone from their addresses, and look up their next runs.

        found: the answer that had those addresses. Several hand-overs may notice the same loss,
        some of them after the next look-up. So a report about an old answer does not apply to a new
        one.
        """
        with self._lock:
            for rank in ranks:
                self._part.lose(rank, found[rank].incarnation)
            self._lost_at = self._clock.at(monotonic())
        self._wanted.set()

    def _loop(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()  # first, or the wish of `stop` would be cleared unseen
            if self._stopping.is_set():
                return
            while (question := self._part.question) is not None and not self._stopping.is_set():
                self._ask(question)
                self._tell()

    def _tell(self) -> None:
        threads.call_each(*self.watchers)

    def _ask(self, question: Lookup) -> None:
        """Ask the registry once, and take the answer."""
        self._clock.turn(monotonic())
        try:
            addresses = self._client.look_up(question).addresses()
            now = self._clock.turn(monotonic())
            with self._lock:
                self._silent_since = None
                self._part.hear_located(addresses)
                if now - self._lost_at > self._patience_s and self._part.abandon(addresses):
                    self._epoch += 1
                    self._part = SinkPart(
                        f"{self._sink}#{self._epoch}", self._ranks, self._trace)
                    return  # it has a question of its own
                lost = self._part.lost(addresses)
                self.problem = f"{lost[0]} is lost, and has not registered again" if lost else ""
        except UnreachableError as error:
            self._note(str(error))
            self._wait_for_registry()
        except MissingError as error:
            self._note(str(error))
            with self._lock:
                self._silent_since = None
                self._part.hear_unlocated()
        except (NotFoundError, RefusedError, RemoteProtocolError) as error:
            self._silent_since = None
            self._note(str(error))  # the answer does not fit the question, which is repeated
        if self._part.question is not None and not self._stopping.wait(self._retry_s):
            with self._lock:
                self._part.look_again()

    def _wait_for_registry(self) -> None:
        now = self._clock.turn(monotonic())
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since >= self._given_up_s:
            with self._lock:
                self._part.give_up()

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.info("%s: %s", self._sink, problem)
        self.problem = problem

    def __repr__(self) -> str:
        with self._lock:
            return f"<Finder of {self._part!r}>"
