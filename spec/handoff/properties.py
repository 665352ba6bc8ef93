"""The promises of the hand-over, one sentence each, and the checks that assure each of them.

S1-S19 must never be broken, L1-L11 must come about, and M1.1-M6.4 are the goals of the changes that
pdproto takes in. A promise is a model claim if named properties of the systems state it: `pdproto
check` explores those. A table of states cannot express clocks in seconds, threads, bytes or a GPU.
For those the promise says in words which test of the runtime or of the simulator it needs. The
systems that check a property are found by its name.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise.

    names: the properties that state it, also derived ones (`sending_edges`, `deadlock`). runtime,
    simulator: the result that a test of the runtime, or a simulated cluster, has to show; empty if
    none. assumes: the assumptions about things outside the tables.
    """

    id: str
    says: str
    names: tuple[str, ...] = ()
    runtime: str = ""
    simulator: str = ""
    assumes: str = ""


_EDGES: Final = (
    "sending_edges", "receiving_edges", "stage_edges", "status_edges", "phase_edges",
)

_SKIPS: Final = (
    "S11_a_failure_skips_a_chunk", "S11_a_failure_skips_a_posted_chunk",
    "S11_only_a_failure_skips",
)

_FENCE: Final = "no write comes from a source that an engine reports as fenced or ended"
_NAMES: Final = "no life, incarnation or decision number is used again"
_FAIR: Final = "due and enabled events happen, a message sent again arrives, faults end"
_CALM: Final = "every message arrives, faults end"
_DETECTOR: Final = "every death is noticed in the end, and only a death is"

SAFETY: Final = (
    Promise("S1", "A write lands only in memory that is leased to its own life.", (
        "S1_writes_stay_in_own_memory", "S1_writes_stay_in_own_pages",
        "S1_one_life_a_chunk", "S1_one_life_a_page", "S1_pages_are_held_past_a_failure",
        "S1_a_write_lands_after_the_failure", "S1_a_chunk_is_free_after_a_failure",
        "S1_a_page_is_free_while_a_write_is_under_way", "S1_a_page_is_used_again",
        "S1_a_published_sink_has_its_page", "S1_a_lease_is_ended_by_a_failure",
        "S1_no_write_outlives_its_memory"), assumes=_FENCE),
    Promise("S2", "A sink that answers Success has every part of this life, and nothing else.", (
        "S2_complete_when_committed", "S2_complete_while_the_memory_is_read",
        "S2_chunks_go_in_order",
        "S2_a_sink_commits", "S2_no_life_is_two_requests",
        "S2_no_success_has_parts_of_two_requests", "S2_a_success_is_of_the_named_request",
        "S2_a_life_has_all_its_parts", "S2_a_life_has_the_request_that_it_asks_for",
        "S2_a_success_has_every_part",
        "S2_ranks_bind_a_life_alike_while_nothing_fails",
        "S2_a_life_gets_the_request_of_its_place",
        "S2_only_a_mixed_life_fails_as_mixed", "S2_a_rank_binds_a_life_to_one_request"),
        runtime="the digest of the stored bytes refuses a chunk with one wrong byte",
        assumes="bytes with equal digests are equal"),
    Promise("S3", "Failed and Success are final.", ("S3_failed_stays_failed", *_EDGES)),
    Promise("S4", "Nothing of one life touches another life of the same room.", (
        "S1_one_life_a_chunk", "S1_one_life_a_page", "S6_one_life_a_slot",
        "S2_complete_when_committed", "no_peer_is_at_fault",
        "S4_no_request_is_bound_twice_on_a_rank", "S4_no_request_is_two_lives",
        "a_retry_is_not_failed_by_its_predecessor", "an_ended_life_takes_no_request"),
        runtime="a frame that names another life changes no state", assumes=_NAMES),
    Promise("S5", "Ranks that have applied the same decisions hold the same requests.", (
        "S5_same_decisions_same_batch", "S5_same_decisions_same_queue",
        "no_rank_is_a_pass_ahead", "no_rank_computes_a_dropped_pass",
        "two_ranks_run_one_request")),
    Promise("S6", "A metadata slot has at most one owner, and an owner at most one slot.", (
        "S6_slot_has_one_owner", "S6_request_has_one_slot", "S6_one_life_a_slot",
        "S6_slot_only_where_it_is_used", "S6_a_running_request_holds_its_slot",
        "S6_slot_is_kept_across_a_retry", "S6_a_slot_is_free_while_a_write_is_under_way"),
        assumes=_FENCE),
    Promise("S7", "A request is decided once, and decisions are applied in one order.", (
        "S7_in_order", "S7_one_number_one_decision", "S7_decided_once", "two_lives_are_decided",
        "S7_start_follows_its_decision", "S7_drain_follows_its_decision",
        "S7_free_follows_its_decision", "S7_free_broken_follows_its_decision"),
        assumes=_NAMES),
    Promise("S8", "Source pages are held for as long as a write may read or compute them.", (
        "S8_source_pages_are_held", "S8_source_pages_are_held_past_a_failure",
        "S8_pages_return_before_landing", "S8_a_running_slot_has_one_owner",
        "S8_kv_is_held_while_the_first_chunk_is_computed",
        "S8_kv_is_held_while_the_last_chunk_is_computed", "S8_a_failed_request_is_computed",
        "S8_kv_is_held_while_it_is_sent", "S8_kv_is_held_while_a_leg_reads_it"),
        assumes=_FENCE),
    Promise("S9", "Decode addresses the prefill rank that runs the room.", (
        "S9_decode_addresses_the_rank_of_the_room", "S9_a_met_room_runs_on_its_target",
        "S9_a_rank_that_met_was_asked", "one_rank_is_addressed",
        "S9_a_landed_write_comes_from_the_addressed_group",
        "S9_a_receiver_is_opened_for_the_addressed_group")),
    Promise("S10", "A source that has said DRAINED writes nothing of this life any more.", (
        "S10_drained_means_quiescent", "S10_a_write_is_drained"), assumes=_FENCE),
    Promise("S11", "A source sends nothing without a destination, before finalize, or after a "
                   "failure.", (
        "S11_no_send_before_finalize", "S11_a_failed_source_posts_no_write",
        "S11_a_request_is_sent",
        *_SKIPS)),
    Promise("S12", "A hand-over uses only addresses of the peer's current run.", (
        "every_source_is_known_before_memory_is_asked_for", "one_run_of_a_source_counts",
        "only_the_known_run_answers",
        "S12_only_current_addresses", "S12_a_stale_address_is_refused",
        "S12_no_call_to_a_dead_run", "S12_the_registry_answers_with_a_registered_run",
        "one_current_run_per_rank",
        "a_struck_out_run_was_silent_or_replaced", "a_number_given_up_never_counts")),
    Promise("S13", "Two writes never share bytes of a staging buffer.", (
        "S1_one_life_a_chunk", "S2_chunks_go_in_order"),
        runtime="the plan lays a chunk out once, so its parts do not overlap"),
    Promise("S14", "Each server answers its client once, and Success contradicts no source.", (
        "S14_no_success_after_a_failure", "S14_success_is_of_all_ranks",
        "S14_only_a_conflict_fails_a_room", "S14_a_drop_needs_a_broken_part",
        "S14_a_dropped_request_is_refused", "S14_a_request_being_sent_is_not_refused",
        "S14_a_rank_that_broke_off_is_not_done",
        "S14_both_succeed", "S14_a_source_may_succeed_alone", "S14_served_means_sent",
        "S14_the_servers_agree", "S14_both_serve", "S14_both_refuse",
        "S14_no_rank_commits_while_another_fails", "S14_served_means_complete",
        "S14_all_ranks_serve",
        "S14_prefill_may_serve_alone", "the_client_is_served", "the_client_is_refused")),
    Promise("S15", "The transport reads KV only after the pass that computed it.",
            runtime="packing waits for the event of the pass, and the commit for that of the "
                    "unpack; a table has no order of a GPU"),
    Promise("S16", "Two peers transfer only if their layouts were compared, and agree.",
            runtime="registration refuses another layout, version or dtype, with a reason"),
    Promise("S17", "A change to one request changes no other request.", (
        "S1_one_life_a_chunk", "S6_slot_has_one_owner", "S8_a_running_slot_has_one_owner",
        "S17_a_request_that_takes_part_holds_its_prefetch"),
        runtime="the runtime compares whole ids, never prefixes"),
    Promise("S18", "No poll answers with a state that its reader does not expect.", (
        *_EDGES, "no_peer_is_at_fault", "deadlock")),
    Promise("S19", "A sink that answers Success holds the KV of the prompt that its caller "
                   "named.", (
        "S19_a_success_has_the_prompt_of_its_life", "S19_a_running_life_has_its_prompt",
        "S19_only_other_prompts_differ", "S19_a_mix_up_ends_its_life",
        "S19_a_request_of_its_prompt_is_preferred", "S19_a_life_of_its_prompt_is_preferred",
        "S19_a_life_ends_one_request_of_another_prompt", "S19_a_mix_up_is_of_a_life_that_waits",
        "S19_a_leg_reads_the_kv_of_its_prompt",
        "a_room_has_two_prompts", "a_mix_up_is_found", "a_later_life_is_bound_first"),
        assumes="callers give one name to all that is computed alike, and to nothing else"),
)

LIVENESS: Final = (
    Promise("L1", "Every request that is accepted ends, on both servers.", (
        "L1_every_request_is_answered", "L1_a_source_ends", "L1_a_sink_ends", "L1_bootstrap_ends",
        "L1_bootstrap_ends_at_once", "L1_every_rank_enrolls", "L1_an_enrolled_rank_is_heard",
        "L1_prefill_ends", "L1_decode_ends", "L1_an_open_hand_over_is_told", "L1_a_load_is_told",
        "L1_a_request_that_a_source_lacks_ends", "L1_a_request_that_a_sink_lacks_ends",
        "L1_a_sink_with_all_parts_commits", "L1_a_look_up_is_answered",
        "L1_a_sink_with_all_parts_ends", "L1_both_ends_meet",
        "L1_a_life_and_a_request_of_its_prompt_are_bound",
        "L1_a_life_and_a_request_are_bound", "L1_a_sink_learns_its_request",
        "L1_a_life_ends", "L1_a_life_with_all_parts_ends",
        "L1_a_request_waits_no_longer",
        "L1_a_life_is_bound_to_the_request_of_its_place",
        "L1_a_request_on_both_servers_is_bound",
        "L1_a_life_that_has_ended_ends_a_request", "L1_a_kept_request_is_answered"),
        simulator="within the time-outs of the table of timers",
        assumes=f"{_FAIR}; a request does not wait for memory in quarantine"),
    Promise("L2", "Each side learns of a failure on the other by a message, without a clock.", (
        "L2_a_sink_hears_of_a_failure", "L2_a_source_hears_of_a_failure",
        "L2_a_source_hears_of_the_end_of_every_life", "L2_a_fenced_source_becomes_aware",
        "L2_a_conflict_reaches_decode", "L2_decode_is_turned_away",
        "L2_a_request_for_an_unlisted_rank_fails",
        "L2_a_rank_that_is_asked_answers", "L2_a_question_is_taken",
        "L2_decode_hears_that_a_room_is_gone", "L2_a_failure_is_decided",
        "L2_a_decision_reaches_all", "L2_each_vote_reaches_the_entry",
        "L2_a_computed_chunk_is_reported", "L2_a_look_up_is_answered_at_once",
        "L2_readiness_is_decided", "L2_an_end_is_decided", "L2_a_refusal_reaches_the_sink",
        "L2_a_refusal_reaches_every_sink", "L2_a_refusal_reaches_every_source",
        "L2_a_sinks_failure_is_decided", "L2_a_failure_reaches_the_sink",
        "L2_a_mix_up_ends_its_life", "L2_a_mix_up_ends_its_request",
        "L2_a_failure_reaches_every_rank", "L2_a_request_that_has_ended_ends_a_life",
        "L2_a_request_that_has_ended_ends_its_life",
        "L2_a_life_that_has_ended_ends_its_request", "L2_a_leg_is_answered_at_once",
        "L2_a_leg_of_an_ended_room_is_told_at_once"),
        simulator="within one message delay", assumes=_CALM),
    Promise("L3", "With no traffic every queue and every table becomes empty.", (
        "L3_no_orphan", "L3_every_claim_is_settled", "L3_a_published_room_is_listed",
        "L3_a_retired_room_is_struck_out", "L3_entries_are_cleaned_up", "L3_questions_are_closed"),
        runtime="every gauge returns to 0", assumes=_FAIR),
    Promise("L4", "The memory of an ended request comes back, or is in quarantine.", (
        "L4_every_chunk_comes_back", "L4_every_page_comes_back", "L4_every_slot_comes_back",
        "L4_source_pages_come_back", "L4_a_failed_sink_gets_its_chunk_back",
        "L4_an_ended_source_gets_its_pages_back", "L4_a_landed_part_needs_no_other_answer",
        "L4_slots_come_back", "L4_the_entry_may_forget",
        "L4_slots_and_running_slots_come_back", "L4_pages_come_back", "L4_kv_is_given_back",
        "L4_a_request_is_given_back",
        "L4_a_request_that_is_given_up_is_given_back", "L4_the_memory_comes_back",
        "L4_the_kv_of_a_room_is_given_back", "L4_a_pinned_block_comes_back"),
        assumes=_FAIR),
    Promise("L5", "With room for one request on each side, some request always makes progress.", (
        "L5_no_capacity_deadlock", "L5_the_two_sides_are_crossed",
        "L5_a_request_gets_memory_or_ends", "L5_a_request_that_waits_gets_memory_or_ends",
        "deadlock"), assumes=_FAIR),
    Promise("L6", "After a restart new requests succeed, without help from an operator.", (
        "L6_recovery", "L6_a_run_that_is_up_is_listed", "L6_a_run_told_to_exceed_comes_back",
        "L6_a_run_that_is_up_is_recorded", "L6_a_run_that_is_up_is_recorded_at_once",
        "L6_a_stale_address_is_refused_at_once", "L6_a_life_after_a_restart_succeeds",
        "L6_a_life_succeeds_after_a_restart"), assumes=_FAIR),
    Promise("L7", "The other side notices a dead peer.", (
        "L7_a_sink_notices_a_crash", "L7_a_source_notices_a_crash", "a_source_notices_a_crash",
        "L7_registrations_expire", "L7_sinks_hear_that_a_source_is_gone",
        "L7_a_dead_address_is_forgotten", "L7_a_landed_source_is_not_missed",
        "L7_only_a_dead_source_is_lost", "L7_only_a_source_of_this_sink_is_lost",
        "L7_silence_fails_a_request_that_needs_the_source",
        "L7_silence_fails_a_request_that_needs_the_sink",
        "L7_only_a_process_that_has_ended_is_said_to_have",
        "L7_a_request_waits_out_a_suspicion", "L7_the_end_of_a_process_is_noticed",
        "L7_only_a_host_that_refuses_loses_a_process", "L7_only_a_cut_is_a_reason_for_suspicion",
        "L7_no_request_is_given_up_without_a_clock", "L7_a_refusal_loses_a_process",
        "L7_a_proof_ends_a_process", "L7_a_suspected_process_goes_on",
        "L7_a_lost_process_goes_on", "L7_a_silent_process_is_overdue",
        "L7_no_clock_ends_during_a_suspicion", "L7_each_request_ends",
        "L7_a_suspicion_misses_no_request", "L7_no_request_waits_for_a_process_that_is_over"),
        simulator="within the heartbeat's time-out", assumes=_DETECTOR),
    Promise("L8", "No clock ends a lease: a time-out asks for a fence.", (
        "S1_writes_stay_in_own_memory", "L4_every_chunk_comes_back",
        "S8_kv_is_held_while_a_leg_reads_it", "no_clock_ends_a_room_that_is_read"),
        runtime="a timer that guards remote memory is renewed while the other side sends messages",
        assumes=_FENCE),
    Promise("L9", "No message and no error ends a thread.", ("no_row_is_busy",),
            runtime="any bytes decode to a message or raise RemoteProtocolError, and the loop goes "
                    "on"),
    Promise("L10", "A lost message is sent again, or the request fails.", (
        "L1_a_sink_ends", "L1_a_source_ends", "L1_every_request_is_answered", "L3_no_orphan"),
        assumes=_FAIR),
    Promise("L11", "A server in which no request can make progress reports that it is unhealthy.",
            runtime="/health fails when the I/O thread stands still, or quarantine is full"),
)

MISSION: Final = (
    Promise("M1.1", "A failed look-up fails the hand-over for good.", ("S3_failed_stays_failed",)),
    Promise("M1.2", "After a failed look-up every attribute is defined.", (
        "M1_2_every_attribute_is_defined", "M1_2_a_failed_look_up_has_no_info",
        "M1_2_a_failed_look_up_has_a_reason"), runtime="the failure is raised with its reason"),
    Promise("M1.3", "Every target rank is looked up; one missing rank fails the whole look-up.", (
        "M1_3_every_target_rank_is_met", "M1_3_an_empty_cache_is_empty",
        "M1_3_no_look_up_when_all_ranks_have_joined", "the_cache_is_whole", "a_rank_is_missing")),
    Promise("M1.4", "A prefill server that dies during bootstrap fails its hand-overs.", (
        "M1_4_lost_connection", "M1_4_a_lost_connection_was_welcomed",
        "M1_4_a_look_up_ends_with_a_run_that_had_welcomed_it"),
        simulator="within the heartbeat's time-out", assumes=_DETECTOR),
    Promise("M2.1", "The group of a room is the request's own, the only one, the rule's, or the "
                    "registry's answer.", (
        "one_rank_is_addressed", "a_named_room_is_met", "the_rule_serves",
        "the_rule_serves_a_room_of_its_own", "the_query_serves")),
    Promise("M2.2", "A source notices a room for which the rule names another group.", (
        "a_conflict_is_found", "M2_2_a_conflict_is_noted", "the_ranks_of_a_serving_server_agree")),
    Promise("M2.3", "With forced queries every room is found; otherwise a conflict fails at once.",
            ("M2_3_the_query_finds_the_room", "M2_3_no_routing_before_the_mode_is_known",
             "M2_3_no_routing_by_name_before_the_mode_is_known",
             "L2_a_conflict_reaches_decode", "all_ranks_share_the_mode", "the_mode_is_said_once",
             "M2_3_mismatched_ranks_are_refused", "M2_3_a_conflict_fails_the_room"),
            runtime="the error names both ranks and the switch"),
    Promise("M2.4", "Without a conflict the rule needs no registration and no query.", (
        "M2_4_the_rule_costs_nothing", "M2_4_the_only_rank_costs_nothing"),
        runtime="a benchmark measures the cost of forced queries"),
    Promise("M2.5", "Other methods always register; all entries and questions end.", (
        "L3_entries_are_cleaned_up", "L3_questions_are_closed"), runtime="queries go in batches"),
    Promise("M3.1", "Every source learns of its sink's failure, whatever the cause.", (
        "L2_a_source_hears_of_a_failure", "a_failure_is_told_to_each_sink_once")),
    Promise("M3.2", "The source then ends the request, acknowledges, and later drains.", (
        "L2_a_source_hears_of_a_failure", "M3_2_a_stopped_source_has_acknowledged",
        "S10_drained_means_quiescent", "L3_every_claim_is_settled", "sending_edges"),
        assumes=_FENCE),
    Promise("M3.3", "The source reads the state again before each chunk and each destination.", (
        "S11_a_failed_source_posts_no_write", *_SKIPS)),
    Promise("M3.4", "No write lands in memory that has a new owner.", (
        "S1_writes_stay_in_own_memory", "S2_complete_when_committed",
        "S2_complete_while_the_memory_is_read"),
        simulator="the cost of holding memory, compared with light notification", assumes=_FENCE),
    Promise("M3.5", "A malformed frame is dropped and counted.",
            runtime="any bytes are a message or a RemoteProtocolError that names the peer"),
    Promise("M3.6", "The memory for acknowledgements is bounded.", (
        "L3_every_claim_is_settled", "L4_the_entry_may_forget"),
        runtime="a floor and a bounded list stand for all lives that are over"),
    Promise("M4.1", "All ranks admit a request, in the same order.", (
        "M4_1_all_have_voted", "M4_1_nothing_is_sent_before_all_agree",
        "M4_1_nothing_is_published_before_all_agree", "M4_1_a_ready_rank_has_voted",
        "M4_1_a_ready_vote_has_its_bootstrap", "M4_1_a_ready_vote_has_pages",
        "M4_1_a_sink_that_waits_has_published", "M4_1_a_rank_that_waits_opens_its_sender",
        "M4_1_a_rank_that_waits_opens_its_receiver", "S7_in_order",
        "S5_same_decisions_same_batch", "two_ranks_send_at_once")),
    Promise("M4.2", "A request that failed on one rank is drained on every rank, and answered "
                    "once.", (
        "M4_2_failure_drains_everywhere", "M4_2_a_dead_vote_comes_from_a_failed_rank",
        "M4_2_a_dead_vote_follows_a_ready_one", "M4_2_a_dead_vote_has_a_failed_sender",
        "M4_2_a_dead_vote_has_a_failed_sink", "M4_2_a_rank_that_has_voted_may_fail",
        "M4_2_a_sender_obeys_a_decision",
        "M4_2_a_sink_obeys_a_decision", "L1_every_request_is_answered", "status_edges"),
        runtime="status 500 and the reason"),
    Promise("M4.3", "With no traffic every queue is empty on every rank.", (
        "L3_no_orphan", "a_failure_is_reported_once"),
            runtime="every gauge returns to 0; failures are counted once for each rank",
            assumes=_FAIR),
    Promise("M4.4", "A failure releases all that the request held.", (
        "M4_4_nothing_is_kept", "something_is_held")),
    Promise("M4.5", "Pages are freed when every rank agrees that the transfer has ended.", (
        "M4_5_freed_when_all_have_ended", "M4_5_no_rank_still_sends",
        "M4_5_no_page_is_free_while_a_write_to_it_is_possible",
        "M4_5_a_sink_ends_before_its_pages_are_free",
        "M4_5_a_source_ends_before_its_pages_are_free", "M4_5_a_rank_that_has_ended_has_reported",
        "M4_5_pages_wait_for_the_other_rank", "ranks_free_one_by_one")),
    Promise("M5.1", "Prefill may begin before bootstrap ends, and polls it chunk by chunk.", (
        "M5_1_finalized_between_chunks", "M5_1_finalized_while_parked",
        "M5_1_a_pass_is_finalized_by_a_poll",
        "M5_1_a_retracted_request_waits_for_its_bootstrap", "M5_1_a_retracted_request_runs_once",
        "M5_1_a_retracted_request_succeeds")),
    Promise("M5.2", "A request without its bootstrap runs again within a budget, then waits "
                    "without a slot.", (
        "M5_2_attempts_in_order", "M5_2_a_retracted_request_uses_no_attempt",
        "a_pass_is_an_attempt", "M5_2_a_request_runs_again",
        "M5_2_a_yielding_request_runs_again",
        "M5_2_fallen_back_after_the_last", "M5_2_forced_back_after_the_last",
        "M5_2_run_again_uses_the_next_attempt", "M5_2_force_retry_uses_the_next_attempt",
        "M5_2_a_request_yields_between_its_chunks", "M5_2_an_admitted_request_has_its_bootstrap",
        "M5_2_a_request_falls_back", "M5_2_a_bootstrapped_pass_finalizes_between_chunks",
        "M5_2_a_request_waits_without_an_early_pass", "M5_2_an_early_pass_uses_an_attempt",
        "M5_2_a_bootstrapped_pass_does_not_reserve_early", "M5_2_a_bootstrapped_pass_does_not_park",
        "M5_2_a_bootstrapped_pass_does_not_run_again",
        "M5_2_a_bootstrapped_pass_does_not_fall_back",
        "M5_2_a_bootstrapped_pass_does_not_force_retry",
        "M5_2_a_bootstrapped_pass_does_not_force_fall_back",
        "M5_2_a_ready_request_needs_a_place_at_run_again",
        "M5_2_a_ready_request_needs_a_place_at_fall_back",
        "S8_kv_is_held_while_the_last_chunk_is_computed"),
        runtime="tokens are the same as without a retry"),
    Promise("M5.3", "Nothing is sent before finalize, which happens once and cannot fail.", (
        "M5_3_finalized_once_and_surely", "M5_3_finalized_never_runs_again",
        "S11_no_send_before_finalize")),
    Promise("M5.4", "A lack of slots blocks no request for ever, and neither does a cycle across "
                    "both sides.", (
        "L5_no_capacity_deadlock", "L5_the_two_sides_are_crossed"), assumes=_FAIR),
    Promise("M5.5", "A sample of the request alone forces a retry, and only on its first pass.", (
        "M5_5_forced_on_the_first_pass_only", "M5_5_a_forced_request_is_not_finalized",
        "M5_5_a_forced_request_does_not_run_again", "M5_5_a_retried_request_is_not_forced",
        "M5_5_a_forced_request_does_not_fall_back", "M5_5_a_forced_request_runs_again",
        "M5_5_a_forced_request_falls_back", "M5_5_a_forced_request_does_not_yield",
        "M5_5_a_forced_request_is_not_admitted", "M5_5_only_a_forced_request_is_forced_back",
        "M5_5_only_a_new_request_is_retracted"),
        runtime="SHA-256 of the id, as all ranks compute"),
    Promise("M5.6", "A retry corrects the time statistics and the cache hit rate.",
            runtime="the numbers of a request that was run twice"),
    Promise("M5.7", "pdproto refuses contradictory settings at start-up, with a reason.",
            runtime="each pair of settings"),
    Promise("M5.8", "An operator can inject failures, with a probability that changes while "
                    "running.",
            runtime="hand-overs fail at the rate that is set over HTTP, and then no more"),
    Promise("M5.9", "Optimistic prefill gains time.",
            simulator="time to first token with and without, median and P99"),
    Promise("M6.1", "The tables are data, and two checkers check them.", ("deadlock",),
            runtime="pdproto check and pdproto prove run in CI"),
    Promise("M6.2", "Random runs of the runtime agree with the tables.",
            runtime="stateful tests drive endpoints against the tables"),
    Promise("M6.3", "The same tables drive sender and receiver.",
            runtime="two processes hand over through sockets"),
    Promise("M6.4", "Kernels pack and unpack the pages of a hand-over.",
            runtime="every page of a hand-over goes through them, and arrives bit for bit"),
)

PROMISES: Final[tuple[Promise, ...]] = (*SAFETY, *LIVENESS, *MISSION)
