"""Optimistic prefill that releases a pass at once, as SGLang #26780, between real processes."""

import pytest

from pdproto.runtime.sample import retry_is_forced
from tests.e2e.drill import Drill, handoff

PREFILL = "prefill-0-0-0"
REQUESTS, RETRIES, FORCED = 30, 2, 0.3
RELEASED = ("force_retry", "force_fall_back")
OPTIONS = ("--requests", str(REQUESTS), "--optimistic", str(RETRIES), "--force-retry", str(FORCED),
           "--publish-ms", "20", "--in-flight", "8", "--abort-rate", "0.1")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    """Decode takes longer to find memory than a pass takes."""
    return Drill(tmp_path_factory.mktemp("drill"), *OPTIONS, "--release-at-once")


def rows(drill: Drill) -> list[list[str]]:
    """The rows that have fired, of each request."""
    fired: dict[int, list[str]] = {}
    for line in drill.lines("optimistic-at-once-retracted", PREFILL, "prefill"):
        if "row" in line:
            fired.setdefault(line["with"]["h"], []).append(line["row"])
    return [fired[h] for h in range(REQUESTS)]


def test_m5_2_a_pass_without_its_bootstrap_is_released_when_it_ends(drill: Drill) -> None:
    """The replay holds each step to the tables. Every byte is compared by the drill."""
    drill.conforms("optimistic-at-once-retracted")
    after = [fired[i + 1] for fired in rows(drill) for i, row in enumerate(fired) if row == "park"]
    assert after
    assert set(after) <= set(RELEASED)
    assert drill.numbers["succeeded"] > REQUESTS / 2


def test_m5_2_a_pass_that_is_not_forced_runs_again_within_its_budget(drill: Drill) -> None:
    again = [sum(row in RELEASED for row in fired) for fired in rows(drill)]
    assert max(again) <= RETRIES + 1
    assert any(count for h, count in enumerate(again) if not retry_is_forced(f"r{h}", FORCED))


def test_m5_6_repeated_passes_are_counted_and_left_out_of_the_hit_rate(drill: Drill) -> None:
    """No two requests share a prefix, so only repeated passes find pages in the cache."""
    numbers = drill.numbers
    again = sum(row in (*RELEASED, "run_again", "fall_back")
                for fired in rows(drill) for row in fired)
    assert numbers["passes_run_again"] == again > 0
    assert numbers["hit_rate"] == 0
    assert numbers["of_these_in_the_prefix_cache"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("choice", [(), ("--release-at-once",)], ids=["keep", "at-once"])
def test_m5_2_a_rank_is_killed_on_the_way(choice: tuple[str, ...]) -> None:
    numbers = handoff(*OPTIONS, *choice, "--kill")
    assert numbers["restarted"] == [PREFILL]
    assert numbers["passes_run_again"] > 0
