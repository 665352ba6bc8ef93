"""Keeps the addresses of prefill ranks that a decode rank needs, from a thread of its own.

The counterpart of the Registrar (client.py). The rows of the sink decide what is asked,
and which answers are of use (sink.py); here are the requests, the waits, and the lock.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Final

from pdproto.registry.client import (
    MissingError,
    NotFoundError,
    RegistryClient,
    UnreachableError,
)
from pdproto.registry.sink import SinkPart
from pdproto.registry.wire import Address, Lookup, Rank, RefusedError
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff.timers import WAITS

log = logging.getLogger("pdproto.registry")

# When the registry insists that a run is there which counts as gone here, that long after the last
# loss: by then it would have struck it out, so it was only silent.
PATIENCE_S: Final = WAITS["no_sign_of_life"].seconds + WAITS["not_recorded"].seconds


class Finder:
    """Looks the ranks up, and again when one of them is lost.

    sink: the name of the decode rank. ranks: those that it needs. problem: why the last look-up has
    failed, or "". retry_s: between two look-ups. given_up_s: for how long a registry that does not
    answer is asked before the look-up fails. trace: is told of every row that fires.
    """

    def __init__(
        self,
        address: str,
        sink: str,
        ranks: Collection[Rank],
        *,
        retry_s: float = WAITS["no_answer"].seconds,
        given_up_s: float = WAITS["registry_unreachable"].seconds,
        patience_s: float = PATIENCE_S,
        trace: SharedTrace | None = None,
    ) -> None:
        if not ranks:
            raise ValueError(f"{sink}: want one rank or more to look for")
        self.problem = ""
        self._sink: Final = sink
        self._ranks: Final = tuple(ranks)
        self._retry_s: Final = retry_s
        self._given_up_s: Final = given_up_s
        self._patience_s: Final = patience_s
        self._trace: Final = trace
        self._client: Final = RegistryClient(address)
        self._lock: Final = threading.Lock()
        self._part = SinkPart(sink, ranks, trace)
        self._epoch = 0
        self._lost_at = 0.0
        self._silent_since: float | None = None
        self._wanted: Final = threading.Event()
        self._stopping: Final = threading.Event()
        self._thread: Final = threading.Thread(
            target=self._loop, name="pdproto-finder", daemon=True
        )

    def start(self) -> None:
        """Begin to look them up."""
        self._wanted.set()
        self._thread.start()

    def stop(self) -> None:
        """End. It may be called twice."""
        self._stopping.set()
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._client.close()

    @property
    def found(self) -> Mapping[Rank, Address] | None:
        """Where the ranks are; None while they are looked for. Each look-up has its own answer."""
        with self._lock:  # who finds an answer finds nothing any more of the problem before it
            return self._part.found

    def lose(self, ranks: Collection[Rank], found: Mapping[Rank, Address]) -> None:
        """These ranks have gone from where that answer says they are: find their next runs.

        Several hand-overs notice the same loss, some after the next look-up: what they say of the
        answer before is not said of the new one.
        """
        with self._lock:
            for rank in ranks:
                self._part.lose(rank, found[rank].incarnation)
            self._lost_at = monotonic()
        self._wanted.set()

    def _loop(self) -> None:
        while True:
            self._wanted.wait()
            if self._stopping.is_set():
                return
            self._wanted.clear()
            while (question := self._part.question) is not None and not self._stopping.is_set():
                self._ask(question)

    def _ask(self, question: Lookup) -> None:
        """One request, and what follows from its answer."""
        try:
            addresses = self._client.look_up(question).addresses()
            with self._lock:
                self._silent_since = None
                self._part.hear_located(addresses)
                self.problem = "" if self._part.question is None else self._insist(addresses)
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
            self._note(str(error))  # an answer, and none to the question: that is repeated
        if self._part.question is not None and not self._stopping.wait(self._retry_s):
            with self._lock:
                self._part.look_again()

    def _wait_for_registry(self) -> None:
        now = monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since >= self._given_up_s:
            with self._lock:
                self._part.give_up()

    def _insist(self, addresses: Mapping[Rank, Address]) -> str:
        """The registry names runs that count as gone here. Returns what to say of that.

        The tables assume that a detector is never wrong. It was, if the registry still hears of
        such a run: then the sink begins anew, as another that has never missed anybody.
        """
        if monotonic() - self._lost_at <= self._patience_s:
            lost = [rank for rank in self._ranks
                    if self._part.holds_lost(rank, addresses[rank].incarnation)]
            return f"{lost[0]} is lost, and has not registered again"
        self._epoch += 1
        anew = SinkPart(f"{self._sink}#{self._epoch}", self._ranks, self._trace)
        anew.hear_located(addresses)
        self._part = anew
        return ""

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.info("%s: %s", self._sink, problem)
        self.problem = problem

    def __repr__(self) -> str:
        with self._lock:
            return f"<Finder of {self._part!r}>"
