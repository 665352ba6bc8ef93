"""Optimistic prefill between real processes (MISSION rows M5.1 to M5.9)."""

from collections import Counter

import pytest

from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, Ordered
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.sample import retry_is_forced
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.poll import KVPoll
from tests.e2e.drill import Drill
from tests.node.data_paths import cluster, polls, published
from tests.node.prefills import Toy
from tests.waiting import until

PREFILL = "prefill-0-0-0"
REQUESTS, RETRIES, FORCED = 60, 2, 0.3
AGAIN = ("run_again", "fall_back", "force_retry", "force_fall_back")


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    """Decode takes longer to find memory than a pass takes, and 4 running slots are for 8 requests.
    """
    return Drill(tmp_path_factory.mktemp("drill"), "--requests", str(REQUESTS), "--optimistic",
                 str(RETRIES), "--force-retry", str(FORCED), "--forward-ms", "2", "--publish-ms",
                 "20", "--in-flight", "8", "--abort-rate", "0.1")


def rows(drill: Drill) -> dict[int, list[str]]:
    """The rows that have fired, by request."""
    fired: dict[int, list[str]] = {}
    for line in drill.lines("optimistic-retracted", PREFILL, "prefill"):
        if "row" in line:
            fired.setdefault(line["with"]["h"], []).append(line["row"])
    return fired


@pytest.mark.slow
def test_m5_1_requests_are_run_before_their_bootstrap(drill: Drill) -> None:
    """The replay holds each step to the tables; many a pass begins before decode has memory."""
    verified = drill.conforms("optimistic-retracted")
    assert verified.rows["submit"] == REQUESTS
    assert verified.rows.get("reserve_early", 0) > REQUESTS / 4


@pytest.mark.slow
def test_m5_2_a_pass_is_run_again_within_its_budget_and_every_byte_is_right(drill: Drill) -> None:
    passes = {h: Counter(of) for h, of in rows(drill).items()}
    again = [sum(of[row] for row in AGAIN) for of in passes.values()]
    assert max(again) <= RETRIES + 1
    assert sum(again) > 0
    assert drill.numbers["succeeded"] > REQUESTS / 2


@pytest.mark.slow
def test_m5_3_a_request_is_finalized_once_and_before_its_pages_are_sent(drill: Drill) -> None:
    for fired in rows(drill).values():
        assert fired.count("finalize") <= 1
        if "send" in fired:
            assert "finalize" in fired[:fired.index("send")]


@pytest.mark.slow
def test_m5_4_every_request_ends_while_both_sides_are_short_of_memory(drill: Drill) -> None:
    assert len(rows(drill)) == REQUESTS
    metrics = drill.reported["ranks"][PREFILL]
    gauges = {k: v for k, v in metrics.items() if k.startswith("optimistic_num_")}
    assert {"slots_taken", "running_slots_taken"} <= {k.removeprefix("optimistic_num_optimistic_")
                                              for k in gauges}
    assert not any(gauges.values())


@pytest.mark.slow
def test_s6_a_slot_has_one_owner_at_a_time(drill: Drill) -> None:
    """The replay holds every slot to one owner."""
    drill.conforms("optimistic-retracted")


@pytest.mark.slow
def test_m5_5_a_forced_retry_follows_the_sample_of_the_id(drill: Drill) -> None:
    """On a first pass only; the names of the requests are r0, r1, ..."""
    sampled = {h for h in range(REQUESTS) if retry_is_forced(f"r{h}", FORCED)}
    forced = Counter(h for h, of in rows(drill).items() for row in of if row.startswith("force_"))
    assert forced
    assert set(forced) <= sampled
    assert set(forced.values()) == {1}


@pytest.mark.slow
def test_m5_6_retries_are_counted(drill: Drill) -> None:
    again = sum(row in AGAIN for of in rows(drill).values() for row in of)
    assert drill.numbers["ranks"][PREFILL]["optimistic_prefill_retries"] == again > 0


@pytest.mark.slow
def test_every_byte_is_right_and_everything_is_given_back(drill: Drill) -> None:
    assert 0 < drill.numbers["succeeded"] <= REQUESTS


def send(ordered: Ordered) -> None:
    for sender in ordered.request.senders:
        assert isinstance(sender, Sender)
        sender.send(list(ordered.chunks), last=ordered.last)


def test_m5_8_faults_are_injected_by_rank_and_changed_while_running() -> None:
    """Between real nodes: the sink hears of the fault, and what follows it is untouched."""
    prefill = OptimisticPrefill(OptimisticSettings(slots=2, running_slots=2, retries=1))
    toy = Toy(prefill, computes=True)
    toy.on_send = send
    with cluster(sources=2) as nodes:
        nodes.prefills[1].inject("bootstrap=1")
        receivers = published(nodes.receivers(1), 2)
        request = toy.submit("r1", *nodes.senders(1), chunks=2)

        def turn(*, until_polls: KVPoll) -> bool:
            toy.turn()
            return polls(receivers, until_polls)()

        until(lambda: turn(until_polls=KVPoll.FAILED))
        assert request.stage is Stage.FAILED
        assert receivers[0].failure in ("p0: a fault injected for a test: bootstrap",
                                        "p1: a fault injected for a test: bootstrap")
        nodes.prefills[1].inject("")
        receivers = published(nodes.receivers(2), 2)
        toy.submit("r2", *nodes.senders(2), chunks=2)
        until(lambda: turn(until_polls=KVPoll.SUCCESS))
        receivers[0].close()
        until(lambda: turn(until_polls=KVPoll.SUCCESS) and toy.idle())
        nodes.settled()


@pytest.mark.slow
def test_m5_9_a_drill_with_timed_forwards_measures_its_hand_overs(drill: Drill) -> None:
    """How much sooner the first token comes is the matter of a bench, and of the simulator."""
    assert 0 < drill.numbers["latency_p50_ms"] <= drill.numbers["latency_p99_ms"]
    before = [h for h, of in rows(drill).items()
              if "finalize" in of and of.index("finish_first") < of.index("finalize")]
    assert len(before) > REQUESTS / 4, "their forward had begun before their sink was there"
