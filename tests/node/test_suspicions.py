"""A clock of a hand-over stands still while its peer is suspected, however short it is set.

Seen red with clocks that go on (`Suspicions.stood` that returns 0): each test here but that of a
peer that is suspected again and again.
"""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pdproto.node.decode.node import Decode
from pdproto.node.link import Link
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.prefill.node import Prefill
from pdproto.node.suspicions import Suspicions
from pdproto.node.timers import STANDS
from pdproto.runtime.wire import Expecting, Introduce, Life
from pdproto.spec.handoff.attempts import ENDED
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.presence import Presence
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath
from tests.node.offline import Offline

D0, P0, P1 = (f"tcp://127.0.0.{n}:1" for n in (1, 2, 3))
WAIT_S: Final = 20.0
WAITS: Final = dict.fromkeys(STANDS, WAIT_S)
LINK: Final = Link()  # suspects after 5 s, and waits for 60 s
OPEN: Final = (KVPoll.BOOTSTRAPPING, KVPoll.WAITING_FOR_INPUT)


@given(some.lists(some.tuples(some.sampled_from("ab"), some.booleans(), some.integers(0, 3)),
                  max_size=20),
       some.sampled_from(["", "a", "ab"]), some.integers(0, 30))
def test_the_time_of_a_suspicion_is_counted_once(
    changes: list[tuple[str, bool, int]], peers: str, since: int
) -> None:
    """Against the same, second by second. Each peer is heard of where its change says so."""
    suspicions, now = Suspicions(), 0
    suspected, heard = {"a": set[int](), "b": set[int]()}, {"a": 0, "b": 0}
    begun: dict[str, int] = {}
    for peer, held, passed in changes:
        now += passed
        if held != (peer in begun):
            if held:
                begun[peer] = heard[peer]
            else:
                suspected[peer] |= set(range(begun.pop(peer), now))
                heard[peer] = now
            suspicions.note(peer, held=held, heard=heard[peer], now=now)
    since = min(since, now)
    for peer, began in begun.items():
        suspected[peer] |= set(range(began, now))
    counted = set().union(*(suspected[peer] for peer in peers or "ab")) & set(range(since, now))
    assert suspicions.stood([*peers], since, now) == len(counted)


@pytest.mark.parametrize("published", [False, True])
def test_decode_waits_for_a_source_that_stands_still(*, published: bool) -> None:
    node = Decode("d0", SinkDataPath("d0", Fabric()), link=LINK, incarnation=17, waits=WAITS)
    offline = Offline(node.core)
    receiver = node.open(7, {"p0": P0})
    offline.turn()
    offline.hear("p0", incarnation=5)
    if published:
        receiver.publish([1, 2])
        offline.hear("p0", Expecting(receiver.life), incarnation=5)
    wait = "transfer_timeout" if published else "bootstrap_timeout"
    offline.pass_time(10, ("p0", 5))
    offline.pass_time(50)
    assert node.core.peers["p0"].presence is Presence.SUSPECTED
    assert receiver.poll() in OPEN
    offline.hear("p0", incarnation=5)
    offline.pass_time(9, ("p0", 5))
    assert receiver.poll() in OPEN, "half of the wait is left"
    offline.pass_time(3, ("p0", 5))
    assert str(receiver.failure).startswith(f"{wait} after 20 s")


def test_decode_waits_for_one_of_two_sources_and_no_longer_than_for_it() -> None:
    node = Decode("d0", SinkDataPath("d0", Fabric()), link=LINK, incarnation=17, waits=WAITS)
    offline = Offline(node.core)
    receiver, other = node.open(7, {"p0": P0, "p1": P1}), node.open(8, {"p1": P1})
    offline.turn()
    for _ in range(50):
        offline.turn(after=1.0)
        offline.hear("p1", incarnation=6)
    assert receiver.poll() is KVPoll.BOOTSTRAPPING
    assert other.failure == "bootstrap_timeout after 20 s", "its source lives"
    offline.pass_time(12, ("p1", 6))
    assert receiver.failure == "p0: nothing heard for 60 s"


@pytest.mark.parametrize("met", [False, True])
def test_prefill_waits_for_a_sink_that_stands_still(*, met: bool) -> None:
    """One that it has not met may be of any decode rank that is suspected."""
    node = Prefill("p0", SourceDataPath("p0", Fabric()), link=LINK, incarnation=5, waits=WAITS)
    offline = Offline(node.core)
    sender, sinks = node.open(7), ("d0", "d1")
    offline.hear("d0", Introduce(Life(7 if met else 8, 17, 0), sinks, D0))
    offline.pass_time(50)
    assert sender.poll() is KVPoll.BOOTSTRAPPING
    offline.hear("d0", incarnation=17)
    offline.pass_time(18, ("d0", 17))
    assert sender.poll() is KVPoll.BOOTSTRAPPING
    offline.pass_time(4, ("d0", 17))
    assert sender.failure == "bootstrap_timeout after 20 s"


def test_optimistic_prefill_waits_for_a_decode_rank_that_stands_still() -> None:
    """By the clock of its scheduler, which is not that of the node. It failed after 20 s."""
    node = Prefill("p0", SourceDataPath("p0", Fabric()), link=LINK, incarnation=5)
    offline = Offline(node.core)
    offline.hear("d0", Introduce(Life(8, 17, 0), ("d0",), D0))
    prefill = OptimisticPrefill(OptimisticSettings(
        slots=1, running_slots=1, bootstrap_timeout_s=WAIT_S))
    request = prefill.create_sender("r", [node.open(7)], chunks=1, now=0.0)

    def pass_time(seconds: int, *signs: tuple[str, int]) -> None:
        for _ in range(seconds):
            offline.pass_time(1, *signs)
            prefill.turn(offline.now - 1_000.0)

    pass_time(50)
    assert request.stage not in ENDED
    offline.hear("d0", incarnation=17)
    pass_time(18, ("d0", 17))
    assert request.stage not in ENDED
    pass_time(4, ("d0", 17))
    assert request.reason == "bootstrap_timeout after 20 s"


def test_a_peer_that_is_suspected_again_and_again_holds_no_clock_for_ever() -> None:
    node = Decode("d0", SinkDataPath("d0", Fabric()), link=LINK, incarnation=17, waits=WAITS)
    offline = Offline(node.core)
    receiver = node.open(7, {"p0": P0})
    offline.turn()
    for _ in range(6):
        offline.pass_time(6)  # suspected after 5 s
        offline.pass_time(4, ("p0", 5))
    assert receiver.failure is not None


def test_nothing_is_kept_of_a_peer_that_is_known_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new peer takes its place. Seen red with its suspicion kept."""
    monkeypatch.setattr("pdproto.node.peer.PEERS_MAX", 1)
    node = Prefill("p0", SourceDataPath("p0", Fabric()), link=LINK, incarnation=5)
    offline, suspicions = Offline(node.core), node.core.connections.suspicions
    offline.hear("d0", Introduce(Life(7, 17, 0), ("d0",), D0))
    offline.pass_time(130)  # it is suspected after 5 s, and gone 60 s after it was overdue
    assert suspicions.stood(["d0"], 0.0, offline.now) > 50.0
    offline.hear("d1", Introduce(Life(8, 18, 0), ("d1",), P1), incarnation=18)
    assert set(node.core.peers) == {"d1"}
    assert suspicions.stood(["d0"], 0.0, offline.now) == 0.0
