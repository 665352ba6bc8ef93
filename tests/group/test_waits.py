"""What a group repeats, it repeats ever more seldom, and at once when a connection is back."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from socket import create_server

import msgspec

from pdproto.group.group import Group
from pdproto.node.link import Link
from pdproto.node.timers import DOUBLINGS_MAX, REPEATS_PER_S, WINDOW_S, Waits
from pdproto.runtime.wire import Life
from tests.group.groups import LINK, NEVER, Ranks, Scheduler, ranks
from tests.node.data_paths import OWN_HOST
from tests.transport.proxy import Proxy, proxy
from tests.waiting import until

LIFE, OTHER = Life(7, 1, 0), Life(8, 1, 1)


def test_a_rank_that_starts_late_is_awaited(tmp_path: Path) -> None:
    """Seen red where a first connection that is refused is an end for ranks, too."""
    link = replace(LINK, grace_s=0.1, silent_s=0.5)
    endpoints = {index: f"ipc://{tmp_path}/{index}" for index in range(2)}
    with ExitStack() as opened:
        groups = []
        for me in endpoints:
            groups.append(Group(
                "prefill", endpoints, me=me, slots=1, stop=lambda _: True, link=link))
            opened.callback(groups[-1].close)
            time.sleep(1.5 * (me == 0))  # for longer than a refusal takes
            assert groups[0].ended is None
        until(lambda: all(peer.incarnation for group in groups
                          for peer in group._core.peers.values()))
        assert [group.ended for group in groups] == [None, None]


def run(waits: Waits[Life], until: float, *names: str) -> list[tuple[float, str]]:
    """All that comes due for LIFE, when each wait that ends begins again."""
    ended: list[tuple[float, str]] = []
    while (due := waits.next()) is not None and due <= until:
        for name, life in waits.due(due):
            assert life == LIFE
            waits.follow(life, names, due)
            ended.append((due, name))
    return ended


def test_a_repeat_in_vain_waits_twice_as_long() -> None:
    waits: Waits[Life] = Waits({"no_votes": 1.0, "transfer_timeout": 70.0})
    waits.follow(LIFE, ("no_votes", "transfer_timeout"), 0.0)
    ended = run(waits, 69.0, "no_votes", "transfer_timeout")
    assert [due for due, _ in ended] == [1, 3, 7, 15, 31, 47, 63]
    assert {name for _, name in ended} == {"no_votes"}
    assert 2 ** DOUBLINGS_MAX == 47 - 31
    assert (70.0, "transfer_timeout") in run(waits, 70.0, "no_votes")
    assert len(waits) == 1


def test_a_step_further_makes_repeats_prompt_again_and_leaves_the_others() -> None:
    waits: Waits[Life] = Waits(
        {"no_votes": 1.0, "no_confirmation": 1.0, "transfer_timeout": 70.0})
    waits.follow(LIFE, ("no_votes", "transfer_timeout"), 0.0)
    assert len(run(waits, 10.0, "no_votes", "transfer_timeout")) == 3
    names = ("no_votes", "no_confirmation", "transfer_timeout")
    waits.follow(LIFE, names, 10.0, further=True)
    assert run(waits, 11.0, *names) == [(11.0, "no_votes"), (11.0, "no_confirmation")]
    assert (70.0, "transfer_timeout") in run(waits, 70.0, *names)


def test_a_life_without_a_wait_is_not_kept() -> None:
    waits: Waits[Life] = Waits({"no_votes": 1.0})
    waits.follow(LIFE, ("no_votes",), 0.0)
    assert len(run(waits, 3.0, "no_votes")) == 2
    waits.follow(LIFE, (), 3.0)
    assert (run(waits, 90.0), len(waits)) == ([], 0)
    waits.follow(LIFE, ("no_votes",), 100.0)
    assert run(waits, 101.0) == [(101.0, "no_votes")]


def test_a_wait_that_is_fired_now_is_due_at_once_and_once() -> None:
    waits: Waits[Life] = Waits({"no_votes": 1.0, "transfer_timeout": 70.0})
    waits.follow(LIFE, ("no_votes", "transfer_timeout"), 0.0)
    assert len(run(waits, 7.0, "no_votes", "transfer_timeout")) == 3
    waits.fire_now(8.0)
    waits.fire_now(8.5)
    assert list(waits.due(8.25)) == []
    assert list(waits.due(8.5)) == [("no_votes", LIFE)]
    waits.follow(LIFE, ("no_votes", "transfer_timeout"), 8.5)
    ended = run(waits, 11.0, "no_votes", "transfer_timeout")
    assert ended == [(9.5, "no_votes")], "the next wait is a short one again"


def test_repeats_of_many_are_rationed() -> None:
    waits: Waits[Life] = Waits({"no_votes": 1.0})
    many = 2 * REPEATS_PER_S
    for room in range(many):
        waits.follow(Life(room, 1, room), ("no_votes",), 0.0)
    fired: list[float] = []
    while (due := waits.next()) is not None and due < 2.95:
        fired += [due for _ in waits.due(due)]
    assert set(Counter(fired).values()) == {round(REPEATS_PER_S * WINDOW_S)}
    assert (len(fired), len(waits)) == (many, 0)


def test_a_connection_that_is_back_has_all_repeated_at_once() -> None:
    waits: Waits[Life] = Waits({"no_votes": 1.0})
    many = 2 * REPEATS_PER_S
    for room in range(many):
        waits.follow(Life(room, 1, room), ("no_votes",), 0.0)
    waits.fire_now(0.5)
    assert waits.next() == 0.5
    assert len(list(waits.due(0.5))) == many


def test_the_entry_asks_a_rank_that_does_not_vote_ever_more_seldom(tmp_path: Path) -> None:
    """Both ranks after 0.02 s, then twice, four times ... 16 times as long; and not every 0.02 s.
    """
    with ranks(tmp_path, 2, waits={"no_votes": 0.02}) as group:
        group.schedulers[1].holds.add(7)
        began = time.monotonic()
        request = group.submit(7)
        group.until(lambda: time.monotonic() > began + 1.0)
        group.schedulers[1].holds.clear()
        group.schedulers[1].vote(request.life)
        group.until_answered(request)
        lasted = time.monotonic() - began
        group.until_idle()
    repeated = (tmp_path / "rank-0.jsonl").read_text().count('"row":"submit_again"')
    assert 0 < repeated / 2 <= DOUBLINGS_MAX + 1 + lasted / (0.02 * 2 ** DOUBLINGS_MAX)


@contextmanager
def apart(link: Link) -> Iterator[tuple[Ranks, Proxy]]:
    """Two ranks. What the second says to the first, the entry, goes through a proxy."""
    with create_server((OWN_HOST, 0)) as one, create_server((OWN_HOST, 0)) as another:
        free = [f"tcp://{OWN_HOST}:{taken.getsockname()[1]}" for taken in (one, another)]
    with proxy(free[0]) as between:
        seen = ({0: free[0], 1: free[1]}, {0: between.endpoint, 1: free[1]})
        groups = [Group("apart", endpoints, me=me, slots=4, stop=lambda _: True, link=link,
                        waits=NEVER) for me, endpoints in enumerate(seen)]
        try:
            yield Ranks([Scheduler(group) for group in groups]), between
        finally:
            for group in groups:
                group.close()


def test_lost_messages_are_repeated_when_the_connection_is_back() -> None:
    """And not when some wait ends: here none ever does."""
    with apart(Link(sign_of_life_s=LINK.sign_of_life_s, silent_s=600.0, grace_s=600.0)) as (
        group, between
    ):
        second = group.schedulers[1]
        group.until_answered(group.submit(6))
        group.until_idle()
        second.holds.add(7)
        request = group.submit(7)
        group.until(lambda: request.life in second.queue)
        between.swallows = True
        second.holds.clear()
        second.vote(request.life)
        group.until(lambda: msgspec.msgpack.encode(request.life) in between.swallowed)
        made = between.made
        between.cut()
        group.until(lambda: between.made > made)
        assert request.answer is None
        between.swallows = False
        between.cut()
        group.until_answered(request)
        group.until_idle()
