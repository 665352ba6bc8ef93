"""An entry that has many open requests forgets each in the same time."""

from time import perf_counter

from pdproto.group.entry import EntryPart, Submitted
from pdproto.node.metrics import Metrics
from pdproto.node.timers import Waits
from pdproto.runtime.wire import Closed, Life

OPEN = 10_000


def test_a_request_is_forgotten_in_the_same_time_after_many_others() -> None:
    """Seen red with a plain dict: it looks for the oldest one at the places of all others."""
    entry = EntryPart((0,), 4, say=lambda _rank, _frame: None, waits=Waits(None),
                      metrics=Metrics({}))
    lives = [Life(room, 1, room) for room in range(OPEN)]
    for life in lives:
        request = Submitted(life, b"")
        entry.submit(request, 0.0)
        entry.abort(request, "the client has left", 0.0)
    at_first = shortest_s(entry)
    for life in lives[:-1]:
        entry.hear(0, Closed(life), 0.0)
    assert entry.floor == OPEN - 1
    assert shortest_s(entry) < 10 * at_first


def shortest_s(entry: EntryPart) -> float:
    """How long the entry looks for its oldest request, in seconds."""
    times = []
    for _ in range(100):
        began = perf_counter()
        next(iter(entry._open))
        times.append(perf_counter() - began)
    return min(times)
