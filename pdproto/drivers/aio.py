"""Runs a process on an asyncio loop, over TCP; it needs no package beside pdproto's own.

    async with Asyncio(Process(SYSTEM, "client", "ann", among=addresses), addresses) as ann:
        ann.call("lock")
        await ann.until(lambda: holding(ann.machine), seconds=5.0)

Each process listens at one port, and opens a connection to each process that it sends to. A frame
is a line. Frames for a process that cannot be reached are dropped and counted.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing, suppress
from typing import Any, Final, Self

from pdproto.drivers.addresses import Addresses, listening_place, place
from pdproto.runtime import checked
from pdproto.runtime.own_clock import REST_S, OwnClock
from pdproto.runtime.process import FRAME_BYTES_MAX, Name, Process
from pdproto.runtime.store import Shared, SharedStep

QUEUE_MAX: Final = 10_000  # frames that wait for one peer
CONNECT_S: Final = 5.0  # how long a peer may take to listen
AGAIN_S: Final = 0.05  # between two attempts to connect
FAREWELL_S: Final = 0.5  # how long the last frames may take at the end


class Asyncio:
    """A process with its connections and its clock, between `async with` and its end. The clock
    stands still while the process does.

    dropped: frames without a receiver. Entering raises OSError if it cannot listen at its address,
    and ValueError for an address that other hosts can reach, unless `trusted_network`.
    """

    def __init__(
        self, process: Process, addresses: Addresses, *, trusted_network: bool = False
    ) -> None:
        self.process: Final = process
        self.dropped = 0
        self._addresses: Final = addresses
        self._own: Final = listening_place(process, addresses, trusted_network=trusted_network)
        self._changed: Final = asyncio.Event()
        self._outlets: Final[dict[Name, asyncio.Queue[bytes]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._callers: Final[set[asyncio.StreamWriter]] = set()
        self._server: asyncio.Server | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._clock: Final = OwnClock(2 * REST_S)

    @property
    def machine(self) -> Shared:
        """The machine, to read its state."""
        return self.process.machine

    def call(
        self, name: str, *arguments: Hashable, choose: Mapping[str, Any] | None = None
    ) -> SharedStep:
        """Call the machine, and send what its row sends. Raises LocalProtocolError if no row allows
        the call.
        """
        step = self.process.call(name, *arguments, now=self._now(), choose=choose)
        self._turn()
        return step

    async def until(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until the condition holds, for at most `seconds`. Returns whether it holds."""
        checked.function("condition", condition)
        with suppress(TimeoutError):
            async with asyncio.timeout(checked.seconds("seconds", seconds, or_0=True)):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        return condition()

    def _now(self) -> float:
        return self._clock.turn(asyncio.get_running_loop().time())

    def _turn(self) -> None:
        """Run the clocks, send, and come back when the next clock is due."""
        due = self.process.turn(self._now())
        for name, frame in self.process.outgoing():
            if name not in self._outlets:
                self._outlets[name] = asyncio.Queue(QUEUE_MAX)
                self._start(name)
            try:
                self._outlets[name].put_nowait(frame)
            except asyncio.QueueFull:
                self.dropped += 1
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if due is not None:
            self._alarm = asyncio.get_running_loop().call_later(min(due, REST_S), self._turn)
        self._changed.set()

    def _start(self, name: Name) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, name: Name) -> None:
        """Send the frames for one process, over a connection that is opened anew when it breaks."""
        queue = self._outlets[name]
        while True:
            frame = await queue.get()
            writer = await self._connected(name)
            if writer is None:
                self.dropped += 1
                queue.task_done()
                continue
            with closing(writer):
                while await self._written(writer, frame):
                    queue.task_done()
                    frame = await queue.get()
                queue.task_done()

    async def _written(self, writer: asyncio.StreamWriter, frame: bytes) -> bool:
        try:
            writer.write(frame + b"\n")
            await writer.drain()
        except OSError:
            self.dropped += 1
            return False
        return True

    async def _connected(self, name: Name) -> asyncio.StreamWriter | None:
        end = self._clock.now + CONNECT_S
        while self._now() < end:
            try:
                return (await asyncio.open_connection(*place(self._addresses[name])))[1]
            except OSError:
                await asyncio.sleep(AGAIN_S)
        return None

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the frames of one connection. A line that is too long ends it."""
        self._callers.add(writer)
        try:
            with suppress(OSError, ValueError):
                while frame := await reader.readline():
                    self.process.take(frame.rstrip(b"\n"), self._now())
                    self._turn()
        finally:
            self._callers.discard(writer)
            writer.close()

    async def __aenter__(self) -> Self:
        host, port = place(self._own)
        self._clock.begin(asyncio.get_running_loop().time())
        self._server = await asyncio.start_server(self._read, host, port, limit=FRAME_BYTES_MAX)
        self._turn()
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._server is not None:
            self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await asyncio.gather(*(queue.join() for queue in self._outlets.values()))
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The tasks that read are asyncio's own: they end with their connections.
        for writer in (callers := list(self._callers)):
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in callers), return_exceptions=True)
