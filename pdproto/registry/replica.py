"""A registry that shares its store with others, or has it alone.

A `Replica` puts its changes into a log, and applies those of all registries in the order of the log
(REPLICA in spec/handoff/replica.py). `Alone` applies each change at once.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import msgspec

from pdproto.registry import changes, kept
from pdproto.registry.log import Log, LogEntry, Start, Trimmed
from pdproto.registry.registry import Registry
from pdproto.registry.wire import RefusedError
from pdproto.runtime.limits import (
    CHANGE_BYTES_MAX,
    ORDER_S,
    STORE_WRITERS_MAX,
    WAITING_CHANGES_BYTES_MAX,
)
from pdproto.runtime.own_clock import REST_S, OwnClock
from pdproto.runtime.store import Shared
from pdproto.spec.handoff import replica as tables
from pdproto.transport.patience import within

log = logging.getLogger("pdproto.registry")

BEAT_S: Final = 0.5  # between two entries of a registry that has no change
TRIM_AFTER: Final = 1_024  # entries, before the log is replaced by a state
AGAIN_S: Final = 1.0  # before the log is followed again after an error


class Alone:
    """A registry without others: it applies each change at once. See Orderer.

    Its clock stands still with it: no rank counts as silent that had no chance to speak.
    """

    def __init__(self, registry: Registry, clock: Callable[[], float] = monotonic) -> None:
        self._registry: Final = registry
        self._outer: Final = clock
        self._own: Final = OwnClock(2 * REST_S)
        self._own.begin(clock())

    def _clock(self) -> float:
        return self._own.turn(self._outer())

    async def order(self, change: changes.Change) -> Any:
        """See Orderer."""
        return changes.apply(self._registry, change, self._clock())

    async def catch_up(self) -> None:
        """See Orderer."""

    def require_current(self) -> None:
        """See Orderer."""

    def tick(self) -> None:
        """See Orderer."""
        self._registry.tick(self._clock())


class Replica:
    """A registry that shares a log with others. See Orderer. Use it in one event loop."""

    def __init__(
        self, registry: Registry, store: Log, clock: Callable[[], float] = monotonic, *,
        order_s: float = ORDER_S,
    ) -> None:
        self.name: Final = uuid4().hex
        self._registry: Final = registry
        self._log: Final = store
        self._clock: Final = clock
        self._silent_s: Final = registry.limits.store_silent_s
        self._order_s: Final = order_s
        self._machine: Final = Shared(tables.REPLICA, (self.name,))
        self._waiting: list[tuple[bytes, asyncio.Future[Any]]] = []
        self._waiting_bytes = 0
        self._wanted: Final = asyncio.Event()
        self._number = 0
        # When each entry of ours was sent, with those who wait for its changes.
        self._sent: Final[dict[int, tuple[float, list[asyncio.Future[Any]]]]] = {}
        self._as_of = clock()  # the copy has all that was ordered before
        self.applied: OrderedDict[str, int] = OrderedDict()  # the last entry of each writer
        self._since = 0  # entries after the state
        self._trimming: asyncio.Task[None] | None = None
        self._trims = 0  # that were read in the log

    async def order(self, change: changes.Change) -> Any:
        """See Orderer."""
        body = msgspec.json.encode(change)
        if len(body) > CHANGE_BYTES_MAX:
            raise RefusedError(413, f"a change of {len(body):,} bytes: the store takes "
                                    f"{CHANGE_BYTES_MAX:,}")
        if self._waiting_bytes + len(body) > WAITING_CHANGES_BYTES_MAX:
            raise RefusedError(504, "too many changes wait for the store: ask another registry")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(body, answer)
        try:
            async with within(self._order_s):
                return await answer
        except TimeoutError:
            raise RefusedError(504, f"the store has not ordered it within {self._order_s:g} s: "
                                    f"repeat it") from None

    async def catch_up(self) -> None:
        """See Orderer."""
        await self.order(changes.CatchUp())

    def require_current(self) -> None:
        """See Orderer."""
        self._note_time()
        step = self._machine.receive(tables.look_up, None, self.name)
        if step.row == "turn_away":
            raise RefusedError(504, f"the store has shown nothing for "
                                    f"{self._clock() - self._as_of:.1f} s: ask another registry")

    def tick(self) -> None:
        """See Orderer."""
        try:
            self.require_current()
        except RefusedError:
            return  # the silence may be that of the store
        for change in changes.due(self._registry, self._clock()):
            self._put(msgspec.json.encode(change), asyncio.get_running_loop().create_future())

    async def run(self) -> None:
        """Write and read the log until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._for_ever(self._write))
            tasks.create_task(self._for_ever(self._read))

    async def running(self, _: object) -> AsyncIterator[None]:
        """Write and read the log while the application of the registry runs."""
        running = asyncio.create_task(self.run())
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await self._log.close()

    async def _for_ever(self, do: Callable[[], Any]) -> None:
        while True:
            try:
                await do()
            except Exception:
                log.exception("registry %s: its store", self.name)
            await asyncio.sleep(AGAIN_S)

    def _put(self, body: bytes, answer: asyncio.Future[Any]) -> None:
        self._waiting.append((body, answer))
        self._waiting_bytes += len(body)
        self._wanted.set()

    async def _write(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._wanted.wait()
            body, waiting = self._next_entry()
            self._number += 1
            self._sent[self._number] = self._clock(), waiting
            await self._log.append(self.name, self._number, body)

    def _next_entry(self) -> tuple[bytes, list[asyncio.Future[Any]]]:
        """The changes that wait, as many as one entry takes."""
        size = taken = 0
        for body, _ in self._waiting:
            if size and size + len(body) > CHANGE_BYTES_MAX:
                break
            size, taken = size + len(body), taken + 1
        now, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._waiting_bytes -= size
        if not self._waiting:
            self._wanted.clear()
        return b"[" + b",".join(body for body, _ in now) + b"]", [answer for _, answer in now]

    async def _read(self) -> None:
        async for item in self._log.follow():
            match item:
                case Start(state):
                    self._start(state)
                case LogEntry():
                    self._apply(item)
                case Trimmed():
                    self._since = 0
                    self._trims += 1

    def _start(self, state: bytes) -> None:
        """Become what the state says, in place of what the log has led to."""
        found = kept.decoded(state) if state else kept.Kept(0, {}, None)
        kept.restore(self._registry, found, self._clock())
        self.applied = OrderedDict(found.applied)
        self._since = 0
        for number in [one for one in self._sent if one <= self.applied.get(self.name, 0)]:
            for answer in self._sent.pop(number)[1]:
                if not answer.done():
                    answer.set_exception(RefusedError(504, "the answer was lost: repeat it"))

    def _apply(self, entry: LogEntry) -> None:
        """Apply the changes of an entry, unless it stands in the log a second time."""
        if self.applied.get(entry.writer, 0) >= entry.number:
            return
        self.applied[entry.writer] = entry.number
        self.applied.move_to_end(entry.writer)  # those before it go first
        if len(self.applied) > STORE_WRITERS_MAX:
            self.applied.popitem(last=False)
        self._since += 1
        answers = self._answers(entry)
        if entry.writer == self.name and entry.number in self._sent:
            self._come_back(entry.number, answers)
        if self._since >= (1 if entry.writer == self.name else 2) * TRIM_AFTER:
            self._trim()

    def _answers(self, entry: LogEntry) -> list[Any]:
        """Apply each change of an entry: its answer, or the exception."""
        try:
            found = changes.decoded(entry.body)
        except msgspec.MsgspecError as error:
            log.warning("the store has an entry that no registry wrote: %s", error)
            return []
        answers: list[Any] = []
        for change in found:
            try:
                answers.append(changes.apply(self._registry, change, self._clock()))
            except RefusedError as refusal:
                answers.append(refusal)
            except Exception as error:
                log.exception("registry: %r", change)
                answers.append(error)
        return answers

    def _come_back(self, number: int, answers: list[Any]) -> None:
        """An entry of ours is applied: those who wait get their answers."""
        sent_at, waiting = self._sent.pop(number)
        if self._clock() - sent_at <= self._silent_s:
            self._as_of = sent_at
            step = self._machine.receive(tables.came_back, self.name, number)
            self._machine.forget(tables.Beat, number)
            if step.row == "be_current":
                self._registry.hear_all(self._clock())
        for answer, value in zip(waiting, answers, strict=False):
            if answer.done():
                continue
            if isinstance(value, Exception):
                answer.set_exception(value)
                answer.exception()  # nobody may wait: a tick does not
            else:
                answer.set_result(value)

    def _note_time(self) -> None:
        if self._clock() - self._as_of > self._silent_s:
            self._machine.fire("fall_behind")

    def _trim(self) -> None:
        """Replace the log up to here by our state, in the background."""
        if self._trimming is None or self._trimming.done():
            state = kept.encoded(self._registry, dict(self.applied))
            self._since = 0
            self._trimming = asyncio.create_task(
                self._keep(state, dict(self.applied), self._trims))

    async def _keep(self, state: bytes, applied: dict[str, int], trims: int) -> None:
        if trims != self._trims:
            return  # the other state may be later than ours, and the entries between are gone
        try:
            await self._log.keep(state, applied)
        except OSError as error:
            log.warning("the log is not trimmed now: %s", error)
