"""A prefill server of 2 stages x 2 tensor ranks in real processes (MISSION rows M4.1 to M4.5)."""

import pytest

from tests.e2e.drill import Drill, applied

RANKS = tuple(f"prefill-{stage}-{tensor}-0" for stage in (0, 1) for tensor in (0, 1))
REQUESTS = 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    return Drill(tmp_path_factory.mktemp("drill"), "--requests", str(REQUESTS), "--pp", "2",
                 "--tp", "2", "--abort-rate", "0.3", "--in-flight", "16")


def test_m4_1_all_ranks_admit_the_same_requests_in_the_same_order(drill: Drill) -> None:
    """And only what all of them have voted for: the replay holds every row to the tables."""
    verified = drill.conforms("agreement")
    assert verified.rows["decide_admit"] >= drill.numbers["succeeded"] > 0
    order = [list(applied(drill.lines("agreement", rank, "rank"))) for rank in RANKS]
    assert [number for number, _, _ in order[0]] == list(range(len(order[0])))
    for of_one in order[1:]:
        assert [(n, room) for n, _, room in of_one] == [(n, room) for n, _, room in order[0]]


def test_m4_2_a_failure_is_drained_on_every_rank_and_answered_once(drill: Drill) -> None:
    entry = drill.lines("agreement", RANKS[0], "entry")
    refused = {line["with"]["h"][0] for line in entry
               if line.get("row") in ("abort", "decide_fail")}
    assert refused
    for rank in RANKS:
        drained = {room for _, row, room in applied(drill.lines("agreement", rank, "rank"))
                   if row in ("drain", "turn_away")}
        assert drained == refused, f"{rank} has not drained {sorted(refused - drained)}"
    answers = [line["with"]["h"][0] for line in entry if line.get("row") in
               ("abort", "decide_fail", "decide_release", "decide_drop")]
    assert sorted(answers) == list(range(REQUESTS))


def test_m4_3_failures_are_counted_once_by_each_rank_that_reports_them(drill: Drill) -> None:
    for rank in RANKS:
        metrics = drill.numbers["ranks"][rank]
        assert {name: value for name, value in metrics.items() if "num_" in name and value} == {}
        voted = [line["with"]["h"][0] for line in drill.lines("agreement", rank, "rank")
                 if line.get("row") in ("vote_dead", "give_up")]
        assert metrics["group_bootstrap_failed_reqs"] == len(set(voted)) == len(voted)


def test_m4_4_a_failed_request_holds_no_page_and_no_slot(drill: Drill) -> None:
    """No page, slot, prefetch or staging memory is held in the end: complaints of the drill say
    otherwise.
    """
    assert not drill.reported["complaints"], drill.reported["complaints"]
    assert drill.reported["failed"] > 0
    for rank in RANKS:
        assert drill.reported["ranks"][rank]["group_num_group_prefetches_held"] == 0
    assert drill.reported["ranks"][RANKS[0]]["group_num_group_slots_taken"] == 0


def test_m4_5_a_release_follows_the_reports_of_all_ranks(drill: Drill) -> None:
    entry = drill.lines("agreement", RANKS[0], "entry")
    ended: dict[int, set[int]] = {}
    for line in entry:
        if line.get("heard") in ("ended", "broke"):
            rank, (room, *_) = line["of"]
            ended.setdefault(room, set()).add(rank)
        elif line.get("row") in ("decide_release", "decide_drop"):
            assert ended[line["with"]["h"][0]] == set(range(len(RANKS)))
    assert len(ended) >= drill.numbers["succeeded"]


def test_every_byte_is_right_and_everything_is_given_back(drill: Drill) -> None:
    assert 0 < drill.numbers["succeeded"] < REQUESTS
