"""The asyncio form of a group: the client's side, awaited.

    answer = await answered(group, room, payload)

The methods for the scheduler return at once, so they have no asyncio form.
"""

import asyncio
from contextlib import suppress

from pdproto.group.entry import Answer, Submitted
from pdproto.group.group import Group


async def answered(
    group: Group, room: int, payload: bytes = b"", *, request_id: str = "",
) -> Answer:
    """Submit a request at the entry, and wait for its answer; see `Group.submit`.

    A cancelled wait aborts the request. Raises the errors of `Group.submit`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Answer] = loop.create_future()

    def note(submitted: Submitted) -> None:
        if not done.done() and submitted.answer is not None:
            done.set_result(submitted.answer)

    def tell(submitted: Submitted) -> None:
        with suppress(RuntimeError):  # the loop of the waiting task has been closed
            loop.call_soon_threadsafe(note, submitted)

    request = group.submit(room, payload, tell, request_id=request_id)
    try:
        return await done
    except asyncio.CancelledError:
        group.abort(request)
        raise
