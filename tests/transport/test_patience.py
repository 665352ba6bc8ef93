"""A wait in an event loop ends by the clock of its process, which stands still with it."""

import asyncio
import time
from typing import Any, Final

import pytest

from pdproto.transport.patience import within

BOUND_S: Final = 1.5


async def waits(stands_s: float, answers_s: float) -> str:
    """Wait for an answer that comes in so many seconds, while the loop stands still at first."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    loop.call_soon(time.sleep, stands_s)
    loop.call_later(answers_s, _give, answer)
    async with within(BOUND_S):
        return await answer


def _give(answer: asyncio.Future[str]) -> None:
    if not answer.done():
        answer.set_result("here")


@pytest.mark.slow
def test_time_for_which_the_process_stands_still_counts_for_no_wait() -> None:
    """Seen red with `asyncio.timeout`."""
    assert asyncio.run(waits(stands_s=3.0, answers_s=3.2)) == "here"


def test_a_wait_ends_nevertheless() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(waits(stands_s=0.0, answers_s=600.0))


def test_a_wait_that_is_over_leaves_no_clock() -> None:
    async def over() -> int:
        async with within(600.0):
            pass
        loop: Any = asyncio.get_running_loop()
        return sum(not handle.cancelled() for handle in loop._scheduled)

    assert asyncio.run(over()) == 0
