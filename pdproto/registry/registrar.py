"""A prefill rank at the registry: it registers, shows signs of life, drains, and says goodbye."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Final

import msgspec

from pdproto.net import threads
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.wire import Rank, RefusedError, Registration, Run
from pdproto.runtime.limits import ASKED_ROOMS_MAX
from pdproto.runtime.repeats import Repeats
from pdproto.runtime.store import Shared, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import bootstrap, registry_world
from pdproto.spec.handoff import registry as tables
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.keys import Keys
from pdproto.transport.nodes import RunningNode

log = logging.getLogger("pdproto.registry")

RETRY_S_MAX: Final = 10.0


class Registrar:
    """Keeps a rank registered, in a thread of its own: it registers the rank, and then sends signs
    of life.

    The rows of the source decide (SOURCE in spec/handoff/registry.py); their messages become HTTP
    requests, and the answers become messages. If the registry does not know a run that it has
    recorded, it has restarted, and the rows begin again. If the registry says that the run's number
    no longer counts, the run goes on under a greater number, with a new `registration`.

    sign_of_life_s, retry_s: seconds between signs of life, and between attempts to register. The
    time between attempts grows, while no registry answers up to the time between signs of life: so
    the rank is listed soon after the registry can be reached again.
    recorded: set while the registry has this run. refused: why the registry refuses this run, such
    as another version or configuration, or another run in its place; None if it does not.
    on_refused: called with each new reason. trace: records every row that fires. keys: see
    RegistryClient. Raises ValueError for a registration without an incarnation.
    """

    def __init__(
        self,
        address: str,
        registration: Registration,
        *,
        sign_of_life_s: float = WAITS["sign_of_life"].seconds,
        retry_s: float = WAITS["not_recorded"].seconds,
        on_refused: Callable[[str], None] | None = None,
        trace: SharedTrace | None = None,
        keys: Keys | None = None,
    ) -> None:
        if registration.incarnation is None:
            raise ValueError("registration: want an incarnation; signs of life need one")
        self.registration = registration
        self.recorded: Final = threading.Event()
        self.refused: str | None = None
        self._client: Final = RegistryClient(address, keys=keys)
        self._sign_of_life_s: Final = sign_of_life_s
        self._retry_s: Final = retry_s
        self._on_refused: Final = on_refused
        self._trace: Final = trace
        self._machine = self._begun("start")
        self._told: Registration | None = None  # the last that the registry has recorded
        self._repeats = Repeats()  # errors since the last answer
        self._leaving: tuple[int, ...] | None = None
        self._goodbye = True
        self._stopping: Final = threading.Event()
        self._woken: Final = threading.Event()
        self._thread: Final = threads.ServiceThread(self._loop, "pdproto-registrar")

    def start(self) -> None:
        """Start the thread. `recorded` is set when the registry has recorded this run.

        Raises OSError if no thread is to be had.
        """
        self._thread.start()

    def follow(self, node: RunningNode) -> None:
        """Drain with the node: its new requests then find this run no more, and when the node is
        empty, this run says goodbye.
        """
        node.on_leave(self._drain)

    def leave(self) -> None:
        """Remove this run from the registry, if it can be reached, and end the thread. Returns at
        once.
        """
        self._stopping.set()
        self._woken.set()

    def stop(self, *, goodbye: bool = True) -> None:
        """End the thread. goodbye: also remove this run from the registry, if it can be reached. A
        second call does nothing.
        """
        if not self._stopping.is_set():
            self._goodbye = goodbye
        self.leave()
        self._thread.join()
        self._client.close()

    def _drain(self, rooms: Sequence[int], emptied: Future[None]) -> None:
        if len(rooms) > ASKED_ROOMS_MAX:
            log.warning("%d rooms are open in this drain: the registry still names this run to "
                        "%d of them", len(rooms), ASKED_ROOMS_MAX)
        self._leaving = tuple(rooms[:ASKED_ROOMS_MAX])
        self._woken.set()
        emptied.add_done_callback(lambda _: self.leave())

    @property
    def _run(self) -> Run:
        return Run(*self.registration.rank, self.registration.incarnation or 0)

    @property
    def _self(self) -> tuple[Rank, tuple[int, Rank]]:
        run = self._run
        return run.rank, (run.incarnation, run.rank)

    def _begun(self, row: str) -> Shared:
        """A new machine for this run, before it has registered. row: of the operator, starts it."""
        machine = shared(tables.SOURCE, self._self, trace=self._trace)
        source, number = self._self
        machine.apply_fault(registry_world.OPERATOR, row, p=source, e=number, z=number)
        return machine

    def _renew(self, exceed: int) -> None:
        """Go on under a number greater than this one, as the registry demands."""
        source, number = self._self
        self._machine.receive(bootstrap.outdated, source, number, (exceed, source))
        self.recorded.clear()
        self.registration = msgspec.structs.replace(
            self.registration, incarnation=max(new_incarnation(), exceed + 1))
        self._machine = self._begun("come_back")

    def _loop(self) -> None:
        retry_s = self._retry_s
        while not self._stopping.is_set():
            began = monotonic()
            try:
                self._turn()
                self._repeats = Repeats()
                wait, retry_s = self._sign_of_life_s, self._retry_s
            except NotFoundError:
                wait = 0.0 if self.recorded.is_set() else retry_s
                self.recorded.clear()
                self._machine = self._begun("start")
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.exceed is not None:
                    log.warning("%s", error)
                    self._renew(error.exceed)
                    wait = 0.0
                else:
                    self._note(error)
                    longest = (RETRY_S_MAX if isinstance(error, RefusedError)
                               else max(self._retry_s, self._sign_of_life_s))
                    wait, retry_s = min(retry_s, longest), min(2 * retry_s, RETRY_S_MAX)
            self._woken.wait(max(0.0, wait - (monotonic() - began)))
            if not self._stopping.is_set():
                self._woken.clear()
        self._say_goodbye()

    def _say_goodbye(self) -> None:
        try:
            if self._goodbye:
                self._say(self._machine.call("stop"))
        except (NotFoundError, RefusedError, UnreachableError) as error:
            log.info("this run could not be removed from the registry: %s", error)
        self.recorded.clear()

    def _turn(self) -> None:
        """Register, or send a sign of life, as the rows say."""
        fire = self._machine.fire
        if self.registration.leaving != self._leaving:
            self.registration = msgspec.structs.replace(self.registration, leaving=self._leaving)
        if fire("show_sign_of_life") is not None:
            self._show_life()
            return
        step = fire("enroll") or fire("enroll_again")
        if step is not None:
            self._say(step)
            self.refused = None
            self._machine.receive(bootstrap.recorded, *self._self)
            self.recorded.set()

    def _show_life(self) -> None:
        """A sign of life is a registration, without its data if these are recorded."""
        if self._told is self.registration:
            self._client.keep_alive(self._run)
        else:
            self._register()

    def _register(self) -> None:
        self._client.register(self.registration)
        self._told = self.registration

    def _say(self, step: SharedStep) -> None:
        """Send the registry's messages of a step. Sinks learn of a goodbye from the registry."""
        for message, _ in step.sent:
            if message is bootstrap.register:
                self._register()
            elif message is bootstrap.goodbye:
                self._client.deregister(self._run)

    def _note(self, error: Exception) -> None:
        if count := self._repeats.told(str(error)):
            log.warning("%s (%d so far)", error, count)
        if isinstance(error, RefusedError) and self.refused != error.reason:
            self.refused = error.reason
            if self._on_refused is not None:
                threads.call_each(partial(self._on_refused, error.reason))
