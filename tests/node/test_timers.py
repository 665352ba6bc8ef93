"""Deadlines: which waits end when, and that what is in vain is repeated ever more seldom."""

from collections import Counter

from pdproto.node.timers import DOUBLINGS_MAX, REPEATS_PER_S, WINDOW_S, Timers
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.role import SINK_ROLE
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.timers import WAITS


def follow(timers: Timers[Endpoint], endpoint: Endpoint, now: float) -> None:
    """As a node does it after a step."""
    timers.follow(endpoint, endpoint.automaton.armed(endpoint.state), now)


def opened(timers: Timers[Endpoint], now: float = 0.0) -> Endpoint:
    """A sink's end that has introduced itself."""
    endpoint = Endpoint(SINK_ROLE.automaton_for(sources=1), Life(7, 1, 0), ("p0",), None)
    endpoint.take(endpoint.automaton.call("open_receiver"))
    follow(timers, endpoint, now)
    return endpoint


def run(timers: Timers[Endpoint], until: float) -> list[tuple[float, str]]:
    """All that comes due, in its order, when each wait that ends is answered by its rows."""
    ended: list[tuple[float, str]] = []
    while (due := timers.next()) is not None and due <= until:
        for name, endpoint in timers.due(due):
            endpoint.take(endpoint.automaton.timer(name))
            follow(timers, endpoint, due)
            ended.append((due, name))
    return ended


def test_a_repeat_in_vain_waits_twice_as_long() -> None:
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    opened(timers)
    ended = run(timers, 69.0)
    assert [due for due, _ in ended] == [1, 3, 7, 15, 31, 47, 63]
    assert {name for _, name in ended} == {"no_news"}
    assert 2 ** DOUBLINGS_MAX == 47 - 31


def test_other_waits_are_as_long_as_they_say() -> None:
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    endpoint = opened(timers)
    assert (70.0, "bootstrap_timeout") in run(timers, 70.0)
    assert endpoint.armed.keys() == {"no_answer"}, "it has failed, and asks its source to stop"


def test_progress_makes_repeats_prompt_again() -> None:
    """What an end waits for after its next step is asked for as soon as at first."""
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "no_answer": 0.5})
    endpoint = opened(timers)
    assert len(run(timers, 20.0)) == 4
    endpoint.take(endpoint.automaton.call("abort_receiver"))
    follow(timers, endpoint, 20.0)
    assert [due for due, name in run(timers, 22.0) if name == "no_answer"] == [20.5, 21.5]


def next_of_a_live_one(timers: Timers[Endpoint], now: float) -> float | None:
    """When the next wait ends. A turn looks at a part of the cancelled ones."""
    for _ in range(1_000):
        if (ends := timers.next()) is None or ends > now:
            return ends
        assert not list(timers.due(now))
    raise AssertionError("its turns have no end")


def test_repeats_of_many_are_rationed() -> None:
    """Without a ration, each of these closed hand-overs was repeated while its answer waited behind
    the repeats of the others: a hundred thousand needed five hundred thousand aborts.
    """
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    many = 3 * REPEATS_PER_S
    waiting = [opened(timers) for _ in range(many)]
    times = [due for due, _ in run(timers, 3.95)]
    window = round(REPEATS_PER_S * WINDOW_S)
    assert set(Counter(times).values()) == {window}, "none is lost, and the loop takes no idle turn"
    assert len(times) == many == len([one for one in waiting if one.repeats])
    assert times[0] == 1.0
    assert times[-1] < 4.0


def test_a_connection_that_is_back_has_all_repeated_at_once() -> None:
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    waiting = [opened(timers) for _ in range(2 * REPEATS_PER_S)]
    for endpoint in waiting:
        timers.fire_now(endpoint, 0.5)
    assert [due for due, _ in run(timers, 0.5)] == [0.5] * len(waiting)
    assert not any(one.repeats for one in waiting), "the next wait is a short one again"
    assert next_of_a_live_one(timers, 1.4) == 1.5


def test_a_repeat_that_a_step_has_made_needless_is_not_made_at_once() -> None:
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    endpoint = opened(timers)
    timers.fire_now(endpoint, 0.25)
    endpoint.take(endpoint.automaton.call("abort_receiver"))
    follow(timers, endpoint, 0.25)
    assert [name for _, name in run(timers, 0.75)] == ["no_answer"]


def test_a_cancelled_timer_is_not_kept() -> None:
    """Of ten thousand that ended before their time only a few entries are left."""
    timers: Timers[Endpoint] = Timers({"no_news": 600.0, "bootstrap_timeout": 600.0})
    for _ in range(10_000):
        endpoint = opened(timers)
        endpoint.take(endpoint.automaton.call("abort_receiver"))
        endpoint.take(endpoint.automaton.message(ends.abort_ack, (0, 0, 0)))
        follow(timers, endpoint, 0.0)
        assert endpoint.armed == {}
    kept = sum(len(queue) for queues in timers._queues.values() for queue in queues.values())
    assert kept <= 6_000
    assert next_of_a_live_one(timers, 601.0) is None


def test_every_repeat_is_bounded() -> None:
    """The longest wait before a lost message of a hand-over is sent again, in seconds."""
    longest = {name: wait.seconds * 2 ** DOUBLINGS_MAX
               for name, wait in WAITS.items() if wait.again}
    assert max(longest[name] for name in ("no_news", "no_bytes", "no_answer")) == 32.0


def test_after_a_wait_the_others_are_looked_at_also_where_the_next_state_has_none() -> None:
    """A node calls `follow` when the timers of a state are others than those of its endpoint."""
    timers: Timers[Endpoint] = Timers({"no_news": 1.0, "bootstrap_timeout": 70.0})
    endpoint = opened(timers)
    assert [name for name, _ in timers.due(1.0)] == ["no_news"]
    assert "bootstrap_timeout" in endpoint.armed
    assert endpoint.timers != (), "the other one would go on"
    timers.follow(endpoint, (), 1.0)
    assert not endpoint.armed
