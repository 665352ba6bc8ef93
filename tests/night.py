"""The tests that wait for the night, each with its reason: `make test` leaves them out.

Of some a few cases run by day too: always the same ones, chosen by the name, or those that are
written here. The questions of a proof that wait are named in its file (proofs/claim.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import pytest


@dataclass(frozen=True, slots=True)
class Wait:
    """why: which test sees by day what this one sees, or why it can wait. by_day: so many of the
    cases run by day, or those with these ids. among: only cases wait whose ids have this part.
    """

    why: str
    by_day: int | tuple[str, ...] = 0
    among: str = ""


NIGHT: Final[dict[str, Wait]] = {
    "proofs/variants_rest_on_the_same_lemmas.py::test_it_holds_for_all_sizes": Wait(
        "variants of systems that are proved by day, with the same lemmas",
        by_day=("transfer-restart",)),
    "tests/check/lint/test_lint.py::test_the_hand_over_is_free_of_errors": Wait(
        "variants of a composed system that is examined by day", by_day=0, among="end-to-end-"),
    "tests/check/opinions/test_random_exports.py::"
    "test_the_exports_refute_the_properties_that_our_engine_refutes": Wait(
        "TLC starts six times for a system; by day it counts the states of random systems, and "
        "refute properties of fixed ones"),
    "tests/check/opinions/test_tla.py::test_liveness_assumes_the_fairness_of_the_property": Wait(
        "TLC starts for each; one kind of fairness by day", by_day=1),
    "tests/check/opinions/test_tla.py::"
    "test_tlc_finds_the_published_states_of_two_phase_commit": Wait(
        "TLC counts the states of two other systems by day"),
    "tests/check/opinions/test_tla.py::test_tlc_finds_the_states_of_the_oracle": Wait(
        "TLC starts for each; by day the largest language and all names",
        by_day=("paxos-", "own-names-")),
    "tests/check/opinions/test_tla.py::test_tlc_refutes_each_kind_of_property_that_we_refute": Wait(
        "TLC takes 14 s for it; by day it counts states, refutes and tells a difference on "
        "smaller systems"),
    "tests/check/opinions/test_tla.py::"
    "test_tlc_tells_a_deadlock_in_a_state_that_violates_something_else_too": Wait(
        "a state with two violations is rare; TLC's other verdicts are compared by day"),
    "tests/check/opinions/test_tla.py::test_check_with_tlc_says_what_our_engine_says": Wait(
        "test_a_difference_is_told asks TLC about the same system by the command line by day"),
    "tests/check/stepping/test_browser.py::test_nothing_leaves_the_page_at_any_width": Wait(
        "two of the widths by day", by_day=2),
    "tests/check/stepping/test_browser.py::test_the_page_of_a_real_run_begins_at_its_end": Wait(
        "tests/drivers/test_drivers.py runs the same example by day, and "
        "test_the_page_of_one_life_shows_that_life_alone opens a page of traces"),
    "tests/check/test_cache.py::test_each_mutant_is_another_question": Wait(
        "an identity reads every field of a row; the small system has each kind of edit",
        by_day=("lock-server",)),
    "tests/check/test_executor.py::test_a_dask_worker_is_killed_in_mid_run": Wait(
        "test_a_broken_executor_is_made_anew and TestChild lose a process by day"),
    "tests/check/test_executor.py::test_a_worker_with_other_tables_is_refused": Wait(
        "both verbs ask the worker by the same function", by_day=("prove",)),
    "tests/check/test_mutate.py::test_a_kill_is_a_finding_of_a_check": Wait(
        "one of the systems by day", by_day=1),
    "tests/check/test_mutate.py::test_equivalent_mutants_have_the_same_graph": Wait(
        "one of the systems by day", by_day=1),
    "tests/cli/test_shards.py::test_together_they_say_what_the_whole_run_says": Wait(
        "one run of each verb by day",
        by_day=("check a violation", "prove", "mutate a sample", "bugs", "cluster")),
    "tests/cli/test_shards.py::test_without_one_of_them_nothing_holds": Wait(
        "the shards of the other verbs; all of them are merged by day", by_day=3),
    "tests/e2e/test_drill_ended.py::"
    "test_b7_a_drill_ends_without_tracebacks_and_leaves_nothing": Wait(
        "the other signals and moments; each signal but SIGKILL, and each moment, by day",
        by_day=("handoff-starting-Ctrl-C", "handoff-running-SIGTERM", "soak-running-SIGTERM")),
    "tests/e2e/test_handoff.py::test_pools_on_a_device_are_handed_over": Wait(
        "ranks that import torch take 8 s; by day the pages of one process are on the same device "
        "(tests/pages/test_simulated_devices.py)"),
    "tests/e2e/test_injected_faults.py::test_m5_8_ranks_fail_hand_overs_at_a_rate": Wait(
        "the rate in other kinds of drills; a sample by day", by_day=2),
    "tests/e2e/test_m2_ranks.py::test_m2_3_decode_waits_when_the_tables_have_the_defect": Wait(
        "that the rank test can fail is shown by one defect a day; the checker finds all by day "
        "(tests/handoff/test_registry.py)", by_day=("conflict unsaid-None",)),
    "tests/e2e/test_real_engines.py::test_a_killed_rank_is_noticed_and_comes_back": Wait(
        "the other library by night; each library drills by day", by_day=("mooncake",)),
    "tests/e2e/test_real_engines.py::test_stages_and_tensor_ranks_hand_over_their_parts": Wait(
        "the other library by night; each library drills by day", by_day=("nixl",)),
    "tests/e2e/test_releases.py::test_servers_are_upgraded_one_after_the_other": Wait(
        "batches of both releases are read and written by day (tests/runtime/test_versions.py)"),
    "tests/e2e/test_soak.py::test_a_soak_reports_a_defect": Wait(
        "that a soak can complain is shown with one defect", by_day=1),
    "tests/engine/test_carried.py::"
    "test_a_closed_sink_frees_memory_when_the_process_of_a_closed_connection_has_ended": Wait(
        "two ends of the same process; one by day", by_day=("carry_for_ever",)),
    "tests/engine/test_carried.py::test_the_process_of_a_closed_source_need_not_end": Wait(
        "the process imports torch for 4 s; "
        "test_memory_is_not_freed_while_the_process_of_a_closed_connection_lives runs by day"),
    "tests/engine/test_contract.py::"
    "test_a_lease_that_is_released_too_early_harms_nobody_else": Wait(
        "the process of the writer imports the engine's library for seconds; in-process tests "
        "have all engines", by_day=("shared-memory", "tcp")),
    "tests/engine/test_contract.py::test_a_writer_in_another_process_lands_its_bytes": Wait(
        "the process of the writer imports the engine's library for seconds; in-process tests "
        "have all engines", by_day=("shared-memory", "nixl", "tcp")),
    "tests/engine/test_contract.py::test_a_writer_killed_in_mid_write_departs": Wait(
        "the process of the writer imports the engine's library for seconds; in-process tests "
        "have all engines", by_day=("shared-memory", "tcp", "mooncake")),
    "tests/engine/test_contract.py::"
    "test_a_writer_stopped_in_mid_write_never_reaches_the_next_life": Wait(
        "the process of the writer imports the engine's library for seconds; in-process tests "
        "have all engines", by_day=("shared-memory", "tcp", "nixl")),
    "tests/engine/test_contract.py::"
    "test_memory_in_a_stopped_writers_reach_counts_until_it_is_gone": Wait(
        "the process of the writer imports the engine's library for seconds; in-process tests "
        "have all engines", by_day=("shared-memory", "tcp")),
    "tests/engine/test_contract.py::test_memory_that_is_not_given_up_would_show_the_old_life": Wait(
        "that the test above can fail is shown for one engine", by_day=("shared-memory",)),
    "tests/engine/test_nixl.py::test_a_sink_that_dies_in_mid_write_is_named": Wait(
        "the other transports of UCX by night; TCP by day", by_day=("tcp",)),
    "tests/engine/test_nixl.py::test_taking_memory_back_is_no_fence": Wait(
        "the other transports of UCX by night; TCP by day", by_day=("tcp",)),
    "tests/handoff/test_end_to_end.py::test_each_link_between_the_parts_is_needed": Wait(
        "a link that is not needed makes no answer wrong; a sample by day", by_day=3),
    "tests/handoff/test_group_attempts.py::test_the_defect_is_refuted": Wait(
        "the largest defects to explore; the simulator sees all by day "
        "(tests/sim/test_system_defects.py)", by_day=3),
    "tests/handoff/test_light.py::"
    "test_deferring_is_unsafe_with_its_clock_and_endless_without_it": Wait(
        "why a lighter protocol was not taken; no table that runs is asked"),
    "tests/handoff/test_optimistic.py::test_liveness_needs_the_row": Wait(
        "a row that is not needed makes no answer wrong; a sample by day", by_day=3),
    "tests/handoff/test_registry.py::test_a_message_about_a_rank_need_arrive_only_once": Wait(
        "a message that is not needed makes no answer wrong; a sample by day", by_day=3),
    "tests/handoff/test_registry.py::test_the_edit_alone_breaks_the_property": Wait(
        "the correct tables keep all properties at the sizes of the day (test_counts.py)",
        by_day=3),
    "tests/handoff/test_thirty_edits.py::test_it_is_refuted": Wait(
        "edits that a stranger could make; a sample by day", by_day=5),
    "tests/handoff/test_transfer.py::test_liveness_needs_the_row": Wait(
        "a row that is not needed makes no answer wrong; a sample by day", by_day=5),
    "tests/handoff/test_transfer.py::test_no_premise_is_empty_where_two_of_everything_meet": Wait(
        "it explores the transfer at five sizes; `check` tells an empty premise at the sizes of "
        "the day"),
    "tests/handoff/test_transfer.py::test_only_the_edit_breaks_the_property": Wait(
        "the correct tables keep all properties at the sizes of the day (test_counts.py)",
        by_day=6),
    "tests/handoff/test_transfer_two.py::"
    "test_each_row_is_needed_where_two_lives_share_one_chunk": Wait(
        "a row that is not needed makes no answer wrong; a sample by day", by_day=1),
    "tests/handoff/test_twenty_edits.py::test_it_is_refuted": Wait(
        "edits that a stranger could make; a sample by day", by_day=4),
    "tests/hosts/test_drill.py::test_a_drill_between_two_hosts": Wait(
        "each IP version and an engine of either kind by day; tests/hosts/test_addresses.py has "
        "both versions of each address", by_day=("tcp-6", "nixl-4")),
    "tests/hosts/test_drill.py::test_a_drill_over_a_wire_that_loses_and_delays": Wait(
        "the wire is the kernel's for every engine", by_day=("tcp",)),
    "tests/hosts/test_drill.py::test_direct_writes_between_two_hosts": Wait(
        "direct writes on one host by day (tests/e2e/test_direct.py)"),
    "tests/kernels/test_bench.py::TestCasesOfAGpu::test_cuda_s_own_ways_are_right": Wait(
        "baselines of a bench that only a GPU runs; a sample by day", by_day=6, among="cpu"),
    "tests/kernels/test_bench_whole.py::test_a_whole_run_measures_and_prints_everything": Wait(
        "the parts of the run are tested by day (test_bench.py, test_bench_many.py)"),
    "tests/kernels/test_cast.py::test_bad_pages_on_the_device_are_cast_to_zeros": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_cast.py::test_codes_and_scales_are_those_of_the_definition": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_cast.py::test_rows_may_be_apart_and_in_another_order": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_cast.py::test_scales_are_those_of_any_bits": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_digests_alone_equal_the_fused_ones": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_four_writers_merge_at_once_or_one_by_one": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_models_have_many_entries": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_one_flipped_bit_names_its_page": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_pack_is_the_reference": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::"
    "test_pages_that_changed_places_with_their_digests_are_found": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_round_trip_with_digests_in_the_chunk": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_several_geometries_share_a_chunk": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_slices_are_the_reference": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/kernels/test_chunk.py::test_unpack_is_the_reference": Wait(
        "the same kernel in Triton's interpreter at other shapes; the native and the NumPy form "
        "run all by day", by_day=1, among="interpreter"),
    "tests/node/test_memory.py::test_a_request_that_has_ended_takes_no_memory": Wait(
        "other ends of the same request; a sample by day", by_day=2),
    "tests/project/test_gpu.py::test_the_tests_for_a_gpu_are_found_without_one": Wait(
        "it collects the tests of a GPU, which run where there is one"),
    "tests/property/test_clusters.py::test_ends_that_run_other_tables_are_found_out": Wait(
        "that the fuzzer can fail is shown with two edits", by_day=2),
    "tests/property/test_nodes.py::test_a_defect_is_caught": Wait(
        "the defect by another engine; the explorer and the simulator see all by day "
        "(tests/sim/test_system_defects.py)", by_day=2),
    "tests/property/test_tours.py::test_a_row_that_says_or_does_something_else_is_found": Wait(
        "that a tour can fail is shown with one row", by_day=1),
    "tests/property/test_tours.py::test_every_transition_is_taken": Wait(
        "a larger group of the same tables",
        by_day=("agreement, two ranks that may die", "transfer, whoever dies")),
    "tests/prove/test_draining.py::test_the_explorer_says_the_same_of_tables_without_a_row": Wait(
        "other rows of the same proof; a sample by day",
        by_day=("finish_fence", "say_drained", "end_lease")),
    "tests/prove/test_coverage.py::test_lint_says_the_same_of_every_edited_table": Wait(
        "edits of two examples; a sample by day", by_day=12),
    "tests/prove/test_proving.py::test_cvc5_confirms_every_obligation": Wait(
        "cvc5 beside the two solvers that prove both by day", by_day=("two-phase-commit",)),
    "tests/prove/test_ranked.py::test_a_property_that_a_fair_run_violates_has_no_proof": Wait(
        "other rows of the same proofs; a sample by day",
        by_day=("dp-rank-tidy_up", "registry-miss", "registry-strike_out")),
    "tests/prove/test_rank_optimistic.py::"
    "test_the_explorer_says_the_same_of_tables_without_a_row": Wait(
        "the explorer and a ranking are compared by day on the transfer (test_draining.py) and on "
        "smaller systems (test_ranked.py)"),
    "tests/prove/test_ranked.py::test_no_helper_is_idle": Wait(
        "an idle helper makes no proof wrong", by_day=4),
    "tests/prove/test_second_solver.py::test_it_confirms_the_hand_over": Wait(
        "cvc5 beside the solver that proves all of them by day; a sample by day", by_day=4),
    "tests/runtime/test_automaton.py::test_every_row_in_every_reachable_state": Wait(
        "states of random walks through wider systems compare the source by day "
        "(test_more_peers_and_chunks)", by_day=("sink",)),
    "tests/prove/test_suggest.py::test_no_suggested_lemma_can_be_left_out": Wait(
        "a lemma that is not needed makes no proof wrong"),
    "tests/sim/test_checks.py::test_each_defect_is_found_at_the_same_step": Wait(
        "the judge of a run beside a slow one, with other defects; a sample by day", by_day=4),
    "tests/sim/test_defects.py::test_it_is_caught": Wait(
        "the defect by another engine; the explorer and the simulator see all by day "
        "(tests/sim/test_system_defects.py)", by_day=4),
    "tests/sim/test_runs.py::test_all_faults_together": Wait(
        "other seeds of the same run", by_day=4),
    "tests/sim/test_verb.py::test_a_study_elsewhere_says_the_same": Wait(
        "other verbs run elsewhere by day (tests/check/test_executor.py, "
        "tests/cli/test_own_processes.py)"),
    "tests/sim/test_verb.py::test_the_documented_figures_of_a_release_at_once": Wait(
        "the figures of the other study are made again by day, and a small study of this kind"),
    "tests/vllm/test_other_process.py::"
    "test_another_version_of_the_protocol_is_refused_with_both": Wait(
        "the other direction by night", by_day=("SGLang-vLLM",)),
    "tests/vllm/test_other_process.py::test_other_digests_are_noticed": Wait(
        "in one process by day (tests/items/test_data_path.py)"),
    "tests/vllm/test_other_process.py::"
    "test_pages_of_another_size_are_refused_with_both_sizes": Wait(
        "in one process by day (tests/items/test_layouts.py)"),
    "tests/vllm/test_other_process.py::"
    "test_pages_of_latent_attention_that_are_equal_are_handed_over": Wait(
        "the other direction by night", by_day=("vLLM-SGLang",)),
}


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that are listed as nightly, except the cases that run by day.

    Raises pytest.UsageError if a case that is written here is not among several that were found.
    """
    found: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        name, _, case = item.nodeid.removesuffix("]").partition("[")
        if name in NIGHT and NIGHT[name].among in case:
            found[name][case] = item
    for name, cases in found.items():
        kept = by_day(name, [*cases])
        if len(cases) > 1 and not kept <= cases.keys():
            raise pytest.UsageError(
                f"tests/night.py: {name} has no case {', '.join(sorted(kept - cases.keys()))}")
        for case in cases.keys() - kept:
            cases[case].add_marker(pytest.mark.nightly)


def by_day(name: str, cases: Sequence[str]) -> frozenset[str]:
    """Those of the cases that do not wait for the night."""
    chosen = NIGHT[name].by_day
    if isinstance(chosen, tuple):
        return frozenset(chosen)
    return frozenset(Random(name).sample(cases, min(chosen, len(cases))))  # noqa: S311 - no secret
