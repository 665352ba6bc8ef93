"""The asyncio form of a look-up.

    finder.start()
    addresses = await located(finder)
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from pdproto.registry.finder import Finder
from pdproto.registry.wire import Rank, RankAddress
from pdproto.runtime.errors import LocalProtocolError


async def located(finder: Finder) -> Mapping[Rank, RankAddress]:
    """Wait until the finder has the address of every rank, and return them; see `Finder.found`.

    It has no limit of its own: use `asyncio.timeout`, and `finder.problem` for the reason. Any
    number of tasks may wait. Raises LocalProtocolError when the finder is stopped.
    """
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()

    def watcher() -> None:
        with suppress(RuntimeError):  # the loop of the waiting task has been closed
            loop.call_soon_threadsafe(answered.set)

    finder.watchers = (*finder.watchers, watcher)
    try:
        while (addresses := finder.found) is None:
            if finder.stopped:
                raise LocalProtocolError(f"{finder!r} has been stopped; its last look-up: "
                                         f"{finder.problem or 'no answer'}")
            await answered.wait()
            answered.clear()
        return addresses
    finally:
        finder.watchers = tuple(one for one in finder.watchers if one is not watcher)
