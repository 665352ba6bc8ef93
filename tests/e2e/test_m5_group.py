"""Optimistic prefill on 2 stages x 2 tensor ranks in real processes (MISSION rows M5.1 to M5.5)."""

from collections import Counter

import pytest

from pdproto.runtime.sample import retry_is_forced
from tests.e2e.drill import Drill

RANKS = tuple(f"prefill-{stage}-{tensor}-0" for stage in (0, 1) for tensor in (0, 1))
REQUESTS, RETRIES, FORCED = 40, 2, 0.3
APPLYING = ("start", "launch_last", "finalize", "drop", "take_up", "drain")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    """Decode takes longer to find memory than passes take; 4 running slots are for 8 requests.

    500 ms: after a retry an entry runs a request again only while decode has no memory for it. At
    100 ms no request ran again in 2 of 3 runs beside 10 busy loops.
    """
    return Drill(tmp_path_factory.mktemp("drill"), "--requests", str(REQUESTS), "--pp", "2",
                 "--tp", "2", "--optimistic", str(RETRIES), "--force-retry", str(FORCED),
                 "--forward-ms", "2", "--publish-ms", "500", "--in-flight", "8",
                 "--abort-rate", "0.1")


def applied(drill: Drill, rank: str) -> list[tuple[int, str, int]]:
    """The decisions that a rank has applied: number, row, room."""
    return [(line["with"]["n"], line["row"], line["with"]["h"][0])
            for line in drill.lines("optimistic-group", rank, "rank")
            if line.get("row") in APPLYING]


def test_m5_1_every_rank_runs_the_same_passes_in_the_same_order_each_once(drill: Drill) -> None:
    """The replay holds each step to the tables; many a pass begins before decode has memory."""
    verified = drill.conforms("optimistic-group")
    assert verified.rows["decide_run"] > REQUESTS / 8
    order = [applied(drill, rank) for rank in RANKS]
    assert [number for number, _, _ in order[0]] == list(range(len(order[0])))
    assert all(of_one == order[0] for of_one in order[1:])


def test_m4_5_after_its_pass_a_request_follows_the_tables_of_every_group(drill: Drill) -> None:
    verified = drill.conforms("agreement")
    assert verified.rows["decide_release"] == drill.numbers["succeeded"] > REQUESTS / 2


def test_m5_2_a_request_runs_again_within_its_budget(drill: Drill) -> None:
    passes = Counter(room for _, row, room in applied(drill, RANKS[3]) if row == "start")
    assert 1 < max(passes.values()) <= RETRIES + 1
    again = sum(row == "drop" for _, row, _ in applied(drill, RANKS[0]))
    assert drill.numbers["ranks"][RANKS[0]]["group_prefill_retries"] == again


def test_m5_5_a_forced_retry_follows_the_sample_of_the_id_on_every_rank(drill: Drill) -> None:
    """The names of the requests are their rooms."""
    forced = [line["with"]["h"][0] for line in drill.lines("optimistic-group", RANKS[0], "entry")
              if line.get("row") == "force_retry"]
    assert forced
    assert len(forced) == len(set(forced))
    assert set(forced) <= {room for room in range(REQUESTS) if retry_is_forced(str(room), FORCED)}
    for rank in RANKS:
        dropped = {room for _, row, room in applied(drill, rank) if row == "drop"}
        assert set(forced) <= dropped
