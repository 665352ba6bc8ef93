"""The asyncio form of a hand-over: the same senders and receivers, awaited.

    sender = prefill.open(room)
    await until(sender, KVPoll.WAITING_FOR_INPUT)
    sender.send(pages)
    await until(sender, KVPoll.SUCCESS)        # raises HandoffFailedError with the reason
    sender.close()

All other methods of senders and receivers return at once, so they have no asyncio form: `send`,
`publish`, `poll`, `abort`, `close`, `failure`, `metrics`.
"""

import asyncio
from contextlib import suppress

from pdproto.node.handle import Handle
from pdproto.runtime import checked
from pdproto.spec.handoff.poll import KVPoll


class HandoffFailedError(Exception):
    """The hand-over has failed. The message is the reason, which may come from either side."""


async def until(handoff: Handle, *wanted: KVPoll) -> KVPoll:
    """Wait until `handoff.poll()` returns one of these, and return it.

    handoff: a sender or receiver. Raises HandoffFailedError when the hand-over fails and FAILED is
    not wanted. Any number of tasks may wait for one hand-over. Cancelling a wait does not change
    the hand-over.
    """
    checked.one_of("handoff", handoff, Handle, "a sender or a receiver")
    for one in wanted:
        checked.one_of("wanted", one, KVPoll)
    loop = asyncio.get_running_loop()
    stepped = asyncio.Event()

    def watcher() -> None:
        with suppress(RuntimeError):  # the loop of the waiting task has been closed
            loop.call_soon_threadsafe(stepped.set)

    handoff.watchers = (*handoff.watchers, watcher)
    try:
        while True:
            answer = handoff.poll()
            if answer in wanted:
                return answer
            if answer is KVPoll.FAILED:
                raise HandoffFailedError(handoff.failure or "failed")
            await stepped.wait()
            stepped.clear()
    finally:
        handoff.watchers = tuple(one for one in handoff.watchers if one is not watcher)
