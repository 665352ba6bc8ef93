"""The owners of pages, beside what the table decides: how long a grant takes."""

from time import perf_counter

from pdproto.node.decode.pool import Pool
from pdproto.runtime.wire import Life

RUSH = 200_000  # pages that were held at once


def shortest_grant_s(pool: Pool) -> float:
    """The shortest of some grants of a page, in seconds."""
    times = []
    for number in range(50):
        began = perf_counter()
        granted = pool.grant(Life(number, 1, number), frozenset((number,)), number)
        times.append(perf_counter() - began)
        assert granted
        pool.free_pages((number,))
        pool.free_slot(number)
    return min(times)


def test_a_grant_takes_no_longer_after_a_rush() -> None:
    """Its time follows the pages that are asked for, and not those that were held before."""
    pool, pages = Pool(), frozenset(range(RUSH))
    usual_s = shortest_grant_s(pool)
    assert pool.grant(Life(0, 1, 0), pages, 0)
    pool.free_pages(pages)
    pool.free_slot(0)
    assert shortest_grant_s(pool) < 10 * usual_s
