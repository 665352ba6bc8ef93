"""A bound of a wait in an event loop that stands still with its process.

`asyncio.timeout` ends with the first turn of a process that was stopped for longer, although
nobody could have answered, or the answer is there and has not been read.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pdproto.runtime import checked
from pdproto.runtime.own_clock import REST_S, OwnClock


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, on the clock of this process (OwnClock). Raises TimeoutError."""
    wait = checked.seconds("seconds", seconds, or_0=True)
    loop = asyncio.get_running_loop()
    clock = OwnClock(REST_S)
    until = clock.begin(loop.time()) + wait
    alarms: list[asyncio.TimerHandle] = []  # the last one

    def look() -> None:
        left = until - clock.turn(loop.time())
        if left <= 0:
            bound.reschedule(loop.time())
        else:
            alarms[:] = [loop.call_later(min(left, REST_S), look)]

    async with asyncio.timeout(None) as bound:
        look()
        try:
            yield
        finally:
            for alarm in alarms:
                alarm.cancel()
