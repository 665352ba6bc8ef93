"""Which end-to-end test sees which defect: for each row of the mission and each safety promise.

    python -m tests.e2e.seen                 # run every test with its defect
    python -m tests.e2e.seen M3.4 S10        # only these
    python -m tests.e2e.seen --table > docs/tests-see-defects.md

A test sees its defect when it fails with the defect in the running nodes; that it passes without,
the ordinary run shows. seen_red.json records how it failed.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.drill import races
from tests.e2e.planted import VARIABLE

ROOT: Final = Path(__file__).resolve().parents[2]
RECORD: Final = Path(__file__).with_name("seen_red.json")
WORKERS: Final = 4  # most tests wait for clocks
SECONDS: Final = 240.0
SHOWN: Final = 160  # characters of a failure
FOLDER: Final = re.compile(r"/\S*/(?=[^/\s]+\.jsonl)")  # of a trace, for this run only


class Pair(NamedTuple):
    """A defect, by its name in defects.py, and the test that sees it. of: the rows and promises
    that it breaks.
    """

    of: tuple[str, ...]
    defect: str
    test: str

    @property
    def key(self) -> str:
        return f"{self.defect} {self.test}"


_M1 = "e2e/test_m1_bootstrap.py::"
_ABORT, _RANKS = "e2e/test_m3_abort.py::", "e2e/test_m2_ranks.py::"
_DESKS = "registry/test_desks.py::"
_GROUPS, _OPTIMISTIC = "e2e/test_m4_groups.py::", "e2e/test_m5_optimistic.py::"
_DEVICES = "pages/test_device_copies.py::"
_DIRECTORY = "e2e/test_handoff_directory.py::"
_CUT = ("hosts/test_registry_cut.py::"
        "test_a_rank_that_the_registry_wrongly_calls_lost_comes_back_by_itself")

PAIRS: Final = (
    Pair(("M1.1", "S3", "S18"), "failure-lifted",
         _M1 + "test_m1_1_m1_2_a_failed_hand_over_stays_failed_when_the_rank_comes_up_later"),
    Pair(("M1.2",), "look-up-untold",
         _DESKS + "test_m1_2_a_look_up_fails_its_request_for_its_reason"),
    Pair(("M1.3",), "half-cache-reused",
         _DIRECTORY + "test_m1_3_an_incomplete_list_of_addresses_is_not_used"),
    Pair(("M1.4",), "B28",
         "transport/test_lost.py::test_m1_4_a_killed_source_is_noticed"),
    Pair(("S12",), "stale-cache-kept",
         _DIRECTORY + "test_a_lost_rank_is_found_at_the_address_of_its_next_run"),
    Pair(("S12",), "struck-out-counts-again", _CUT),
    Pair(("L6",), "struck-out-for-good", _CUT),
    Pair(("L7",), "no-expiry", _CUT),
    Pair(("M2.1",), "name-ignored",
         "registry/test_lives.py::test_m2_1_the_rank_is_named_or_alone_or_by_rule_or_asked_for"),
    Pair(("M2.2", "S9"), "rank-guessed",
         _RANKS + "test_m2_3_a_room_on_the_wrong_rank_fails_both_processes_within_a_second"),
    Pair(("M2.3",), "conflict-unsaid",
         _RANKS + "test_m2_3_a_room_on_the_wrong_rank_fails_both_processes_within_a_second"),
    Pair(("M2.3",), "only-conflicts-published",
         _DESKS + "test_m2_3_decode_asks_until_the_room_is_published"),
    Pair(("M2.4",), "rule-published",
         _DESKS + "test_m2_4_a_room_that_keeps_to_the_rule_costs_one_look_up_of_the_server"),
    Pair(("M2.5",), "room-kept",
         "registry/test_lives.py::test_m2_5_a_room_that_never_comes_ends_by_the_clock"),
    Pair(("M3.1",), "B05", _ABORT + "test_m3_1_an_abort_tells_every_source_once"),
    Pair(("M3.2",), "B23",
         _ABORT + "test_m3_2_a_source_acknowledges_an_abort_and_says_when_it_has_drained"),
    Pair(("M3.2",), "R4", _ABORT + "test_m3_2_an_abort_fails_a_sender_that_is_opened_later"),
    Pair(("M3.2",), "success-aborted",
         _ABORT + "test_m3_2_a_source_that_has_succeeded_stays_successful"),
    Pair(("M3.3",), "worker-does-not-ask",
         "e2e/test_m3_skipped.py::test_the_worker_moves_no_chunk_of_a_failed_hand_over"),
    Pair(("M3.4", "S1"), "B22", "e2e/test_real_engines.py::"
         "test_m3_4_memory_is_leased_while_a_write_of_an_aborted_hand_over_is_under_way"),
    Pair(("M3.5",), "malformed-kills",
         _ABORT + "test_m3_5_malformed_frames_are_dropped_and_counted_and_the_peer_is_named"),
    Pair(("M3.6",), "never-forgets", _ABORT + "test_m3_6_nodes_forget_aborted_hand_overs"),
    Pair(("M4.1", "S5", "S7"), "admit-unasked",
         _GROUPS + "test_m4_1_all_ranks_admit_the_same_requests_in_the_same_order"),
    Pair(("M4.2",), "failed-not-drained",
         _GROUPS + "test_m4_2_a_failure_is_drained_on_every_rank_and_answered_once"),
    Pair(("M4.3",), "counted-twice",
         _GROUPS + "test_m4_3_failures_are_counted_once_by_each_rank_that_reports_them"),
    Pair(("M4.4",), "agreement-B08",
         _GROUPS + "test_m4_4_a_failed_request_holds_no_page_and_no_slot"),
    Pair(("M4.5", "S14"), "one-release",
         _GROUPS + "test_m4_5_a_release_follows_the_reports_of_all_ranks"),
    Pair(("M5.1",), "never-early",
         _OPTIMISTIC + "test_m5_1_requests_are_run_before_their_bootstrap"),
    Pair(("M5.2",), "O5",
         _OPTIMISTIC + "test_m5_2_a_pass_is_run_again_within_its_budget_and_every_byte_is_right"),
    Pair(("M5.3", "S11"), "O1",
         _OPTIMISTIC + "test_m5_3_a_request_is_finalized_once_and_before_its_pages_are_sent"),
    Pair(("M5.4",), "B32-slot-leak",
         _OPTIMISTIC + "test_m5_4_every_request_ends_while_both_sides_are_short_of_memory"),
    Pair(("S6",), "slot-given-twice", _OPTIMISTIC + "test_s6_a_slot_has_one_owner_at_a_time"),
    Pair(("M5.5",), "any-request",
         _OPTIMISTIC + "test_m5_5_a_forced_retry_follows_the_sample_of_the_id"),
    Pair(("M5.6",), "retries-uncounted", _OPTIMISTIC + "test_m5_6_retries_are_counted"),
    Pair(("M5.7",), "every-setting",
         "node/test_optimistic.py::test_m5_7_settings_that_do_not_go_together_are_refused"),
    Pair(("M5.8",), "faults-fixed",
         _OPTIMISTIC + "test_m5_8_faults_are_injected_by_rank_and_changed_while_running"),
    Pair(("S2",), "digest-ignored",
         "e2e/test_real_engines.py::test_a_write_that_did_not_land_fails_by_its_digest"),
    Pair(("S4",), "any-incarnation",
         "transport/test_faults.py::test_a_life_of_another_incarnation"),
    Pair(("S8",), "B62",
         "e2e/test_m3_skipped.py::test_s8_pages_are_not_free_while_the_worker_may_read_them"),
    Pair(("S10",), "B54",
         "e2e/test_real_engines.py::test_a_failed_write_that_lands_later_spoils_no_page"),
    Pair(("S1",), "unpack-not-awaited",
         _DEVICES + "test_pages_are_not_free_while_the_device_writes_them"),
    Pair(("S1",), "unpack-not-awaited",
         _DEVICES + "test_a_lease_does_not_end_while_the_device_reads_it"),
    Pair(("S1",), "settled-at-once",
         _DEVICES + "test_pages_are_not_free_while_the_device_writes_them"),
    Pair(("S8",), "pack-abandoned",
         _DEVICES + "test_pages_are_not_free_while_the_device_reads_them"),
    Pair(("S10",), "pack-abandoned",
         _DEVICES + "test_a_source_does_not_say_drained_while_its_device_packs"),
    Pair(("S19",), "prompts-unnamed",
         "node/test_prompts.py::test_each_life_gets_the_request_of_its_prompt_in_any_order"),
    Pair(("S13",), "chunks-overlap",
         "e2e/test_many_chunks.py::test_a_hand_over_in_64_chunks_replays_with_the_number_of_each"),
    Pair(("S16",), "layouts-uncompared",
         "pages/test_fit.py::test_pools_that_do_not_lie_alike_fail_the_request_at_both_ends"),
    Pair(("S17",), "uses-uncompared",
         "node/test_uses.py::test_ranks_that_bind_them_differently_fail_them"),
    Pair(("S15",), "pass-not-awaited",
         _DEVICES + "test_pages_that_are_computed_later_arrive_whole"),
    Pair(("S15",), "unpack-not-awaited",
         _DEVICES + "test_a_sink_does_not_commit_while_its_device_unpacks"),
    Pair(("S15",), "use-not-awaited",
         _DEVICES + "test_pages_are_filled_behind_the_steps_that_have_used_them"),
    Pair(("S2",), "pack-not-awaited",
         _DEVICES + "test_pages_that_are_computed_later_arrive_whole"),
)


def wanted() -> tuple[str, ...]:
    """Every row from M1.1 to M5.8, every safety promise, and the two about detectors."""
    rows = {1: 4, 2: 5, 3: 6, 4: 5, 5: 8}
    return (*(f"M{part}.{row}" for part, count in rows.items() for row in range(1, count + 1)),
            *(f"S{number}" for number in range(1, 20)), "L6", "L7")


def ran(pair: Pair) -> str | None:
    """Run the test of a pair with its defect. Returns the first line of its failure, or
    None if it has passed.

    Raises RuntimeError if it has neither passed nor failed, or if the defect cannot be put in.
    """
    environment = {**os.environ, VARIABLE: pair.defect}
    put = _run(environment, "tests.e2e.planted", pair.defect, "--version")
    if put.returncode != 0:
        raise RuntimeError(f"{pair.key}: {put.stderr[-2000:]}")
    done = _run(environment, "pytest", "-q", "-x", "-rf", "-p", "tests.e2e.planted",
                "-p", "no:cacheprovider", f"tests/{pair.test}")
    if done.returncode == 0:
        return None
    said = [line for line in done.stdout.splitlines()
            if line.startswith(("E  ", "FAILED", "ERROR"))]
    if done.returncode != 1 or not said:
        raise RuntimeError(f"{pair.key}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return FOLDER.sub("", said[0].removeprefix("E").strip())[:SHOWN]


def _run(environment: dict[str, str], *module: str) -> "subprocess.CompletedProcess[str]":
    """Run a module to its end, or end it with all processes that it has started."""
    words = [sys.executable, "-m", *module]
    with subprocess.Popen(words, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def recorded() -> dict[str, str]:
    """How each pair has been seen red, by its key."""
    found: dict[str, str] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def record(pairs: Collection[Pair]) -> Iterator[str]:
    """Run these tests with their defects, and note how each fails. Gives what is wrong."""
    red = {key: how for key, how in recorded().items() if key in {pair.key for pair in PAIRS}}

    with ThreadPoolExecutor(WORKERS) as pool:
        for pair, how in zip(pairs, pool.map(ran, pairs), strict=True):
            red.pop(pair.key, None)
            if how is None:
                yield f"{pair.key}: does not see its defect"
            else:
                red[pair.key] = how
            RECORD.write_text(json.dumps(red, indent=1, sort_keys=True) + "\n")


def page() -> str:
    """The table, in Markdown."""
    red = recorded()
    rows = []
    for name in wanted():
        rows += [f"| {name} | `{pair.defect}` | `{pair.test}` | "
                 f"`{red[pair.key].replace('|', '/').replace('`', '')}` | {_raced(pair.defect)} |"
                 for pair in PAIRS if name in pair.of]
    return "\n".join([
        "# Which end-to-end test sees which defect", "",
        "For every row M1.1 to M5.8, every safety promise S1 to S19, and the promises L6 and L7 "
        "about detectors", "([the promises](properties.md)): a defect that is put into running "
        "nodes, and the test that fails with it and", "passes without. `tests/e2e/defects.py` has "
        "the defects, most of them edits of the tables.", "`python -m tests.e2e.seen` runs every "
        "test with its defect; `python -m tests.e2e.seen --table` writes this page.", "",
        "| row | defect | test in `tests/` | how it failed | race |", "|---|---|---|---|---|",
        *rows, "", "## Which defects a drill shows", "",
        "`python -m lab race ID` arranges the race of a defect of the catalogue on nodes, in",
        "the order of the shortest counterexample. It ends with status 1 when nodes with the",
        "edited tables break a promise there, and those with the unedited tables break none. It",
        "refuses a defect whose race it cannot arrange, with status 3.",
        "The column `race` above says the same of the defects there that are in the catalogue.",
        "`python -m tests.drill.races` arranges them all, and records what was seen.", "",
        "| defect | system | promise | seen | broken on nodes, or why it is refused |",
        "|---|---|---|---|---|", *races.rows(), ""])


def _raced(defect: str) -> str:
    """Whether the drill shows this defect; a dash for one that the catalogue does not have."""
    seen = races.recorded().get(defect)
    return "-" if seen is None else "no" if seen.startswith(races.KEPT) else "yes"


def main(words: list[str]) -> int:
    if words == ["--table"]:
        sys.stdout.write(page())
        return 0
    chosen = [pair for pair in PAIRS if not words or {pair.defect, *pair.of} & {*words}]
    wrong = list(record(chosen))
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
