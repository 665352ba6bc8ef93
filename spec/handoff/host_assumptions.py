"""The assumptions about callers of the hand-over, and the code that makes each of them true.

A row on a call fires when somebody calls. If it is fair, promises rest on that call. So each fair
row on a call, and each row on a call of the tables that answer a scheduler of SGLang or vLLM, is a
row of one assumption at least. docs/reference/host-assumptions.md is written from this list.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class By(StrEnum):
    """Who calls."""

    SGLANG = "SGLang"
    VLLM = "vLLM"
    NODES = "pdproto"
    ROUTER = "the router"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption.

    rows: `machine.row` of the tables. places: `file.py:Class.function`, below the package of `by`,
    which make it true; none for the router. tests: `tests/file.py::test` that show it, under SGLang
    and vLLM with their own classes. broken: what happens where it is false.
    """

    id: str
    by: By
    says: str
    rows: tuple[str, ...]
    places: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    broken: str = ""


_SGLANG: Final = "tests/sglang/test_host_assumptions.py::"
_VLLM: Final = "tests/vllm/test_host_assumptions.py::"
_DECODE: Final = "srt/disaggregation/decode.py:"
_PREFILL: Final = "srt/disaggregation/prefill.py:"
_SCHEDULER: Final = "v1/core/sched/scheduler.py:Scheduler."

OF_SGLANG: Final = (
    Assumption(
        "sglang-begins-each-request", By.SGLANG,
        "SGLang asks a receiver for its ranks until it knows them, in any state of the request.",
        rows=("view.find", "view.open"),
        places=(f"{_DECODE}DecodePreallocQueue._init_receiver",
                f"{_DECODE}DecodePreallocQueue._resolve_pending_reqs"),
        tests=(f"{_SGLANG}test_a_request_whose_ranks_are_not_known_is_asked_about_again",),
        broken="the request is aborted by its client, or by SGLang's own limit of attempts"),
    Assumption(
        "sglang-clears-what-fails-before-it-has-pages", By.SGLANG,
        "A request that has failed, or is aborted, before it has pages is cleared.",
        rows=("view.leave", "view.refuse", "view.give_back", "sink.clear", "directory.clear"),
        places=(f"{_DECODE}DecodePreallocQueue._update_handshake_waiters",
                f"{_DECODE}DecodePreallocQueue.pop_preallocated"),
        tests=(f"{_SGLANG}test_a_request_that_fails_before_it_has_pages_is_cleared",)),
    Assumption(
        "sglang-clears-what-fails", By.SGLANG,
        "A request that has pages is cleared when a poll has answered Failed, and not before.",
        rows=("view.give_back", "view.stop", "sink.finish", "decode.finish"),
        places=(f"{_DECODE}DecodeTransferQueue.pop_transferred",
                f"{_DECODE}DecodeTransferQueue._do_release"),
        tests=("tests/sglang/test_pages_kept.py::"
               "test_pages_that_no_write_can_reach_are_given_back_at_once",
               "tests/sglang/test_pages_kept.py::test_pages_of_a_request_that_another_rank_has_"
               "failed_are_kept_while_a_write_may_come")),
    Assumption(
        "sglang-ends-each-success", By.SGLANG,
        "A success is cleared when SGLang has read its metadata row, whether it takes it or not.",
        rows=("view.give_success_back", "sink.finish", "decode.finish"),
        places=(f"{_DECODE}DecodeTransferQueue._commit_transfer_to_req",),
        tests=(f"{_SGLANG}test_a_success_whose_row_is_of_another_room_is_cleared",)),
    Assumption(
        "sglang-aborts-a-success-that-it-does-not-take", By.SGLANG,
        "A success whose metadata row SGLang reads as not written stays in the queue, and is "
        "cleared when it is aborted and a poll answers Failed.",
        rows=("view.take_back", "view.give_back"),
        places=("srt/disaggregation/utils.py:_apply_metadata_gate",
                "srt/managers/scheduler.py:Scheduler.abort_request"),
        tests=(f"{_SGLANG}test_a_success_that_sglang_does_not_take_is_given_back_by_an_abort",
               "tests/sglang/test_receiver.py::test_room_0_is_refused_by_name_at_both_ends"),
        broken="a client that stays waits for its own time-out. Room 0, of which SGLang takes no "
               "success, is refused by name at both ends"),
    Assumption(
        "sglang-drops-no-queue-with-requests", By.SGLANG,
        "Queues are emptied without a call to their requests only when they have none.",
        rows=("view.leave", "view.give_back", "view.give_success_back"),
        places=("srt/managers/scheduler_components/weight_updater.py:"
                "SchedulerWeightUpdaterManager.release_memory_occupation",
                "srt/managers/scheduler.py:Scheduler.is_fully_idle"),
        tests=(f"{_SGLANG}test_memory_is_not_released_under_a_request",)),
    Assumption(
        "sglang-sends-each-chunk", By.SGLANG,
        "Prefill sends each chunk that it has computed, and keeps the pages of a request that it "
        "has sent whole until a poll answers an end.",
        rows=("source.send",),
        places=(f"{_PREFILL}SchedulerDisaggregationPrefillMixin.send_kv_chunk",
                f"{_PREFILL}SchedulerDisaggregationPrefillMixin."
                "process_disagg_prefill_inflight_queue"),
        tests=(f"{_SGLANG}test_prefill_keeps_the_pages_of_a_request_until_its_end",
               f"{_SGLANG}test_pages_of_a_request_that_is_aborted_between_chunks_reach_no_answer"),
        broken="a request that is aborted between two of its chunks loses its pages at once "
               "(release_aborted_prefill_waiting_req). It has not sent its last chunk, so decode "
               "answers Failed, whatever bytes are read"),
)

OF_VLLM: Final = (
    Assumption(
        "vllm-places-or-ends", By.VLLM,
        "Each request gets blocks for all its tokens from prefill, or ends.",
        rows=("load.place", "load.spare", "load.refuse", "request.place", "request.place_and_ask"),
        places=(f"{_SCHEDULER}schedule",),
        tests=(f"{_VLLM}test_a_request_that_waits_for_blocks_gets_them",
               "tests/vllm/test_scheduler.py::test_half_a_request_does_not_end_the_scheduler")),
    Assumption(
        "vllm-announces-each-request", By.VLLM,
        "The connector hears of each request when it comes, before it has blocks.",
        rows=("load.open", "load.decline", "offered.open"),
        places=(f"{_SCHEDULER}add_request",),
        tests=(f"{_VLLM}test_a_request_is_announced_before_it_has_blocks",)),
    Assumption(
        "vllm-tells-each-end", By.VLLM,
        "The connector hears of each end of a request once, in any state of it.",
        rows=("load.leave", "load.stop", "offered.keep", "offered.stop", "sink.finish",
              "decode.finish", "sink.clear", "directory.clear"),
        places=(f"{_SCHEDULER}_free_request", f"{_SCHEDULER}_connector_finished",
                f"{_SCHEDULER}finish_requests"),
        tests=(f"{_VLLM}test_each_end_is_told_once",
               "tests/vllm/test_scheduler.py::"
               "test_a_request_that_is_aborted_at_decode_leaves_nothing")),
    Assumption(
        "vllm-keeps-blocks-until-the-answer", By.VLLM,
        "Blocks of a load stay its own until `finished_recving` names it, also if it has ended.",
        rows=("load.stop", "load.refuse"),
        places=(f"{_SCHEDULER}finish_requests", f"{_SCHEDULER}_update_from_kv_xfer_finished"),
        tests=("tests/vllm/test_scheduler.py::test_an_abort_is_told_once_in_every_order",
               f"{_VLLM}test_blocks_of_a_load_that_has_ended_are_nobodys")),
    Assumption(
        "vllm-keeps-offered-blocks", By.VLLM,
        "Blocks of a request that has ended at prefill stay its own until `finished_sending` names "
        "it.",
        rows=("offered.keep", "offered.stop"),
        places=(f"{_SCHEDULER}_free_request", f"{_SCHEDULER}_update_from_kv_xfer_finished"),
        tests=(f"{_VLLM}test_offered_blocks_are_nobodys_until_they_are_sent",)),
    Assumption(
        "vllm-gives-no-pinned-block-away", By.VLLM,
        "A block that counts one use more is given to no other request, also if its own is "
        "preempted.",
        rows=("offered.grant", "offered.grant_nothing"),
        places=("v1/core/block_pool.py:BlockPool.touch",
                "v1/core/block_pool.py:BlockPool.free_blocks"),
        tests=("tests/vllm/test_early.py::"
               "test_a_request_that_is_preempted_before_its_blocks_are_read_is_served",),
        broken="no promise rests on when vLLM preempts a request, frees its blocks, or gives them "
               "to another: these rows are not fair"),
    Assumption(
        "vllm-steps-while-it-keeps-blocks", By.VLLM,
        "The engine makes steps for as long as a request waits for an answer of the connector, and "
        "each step reaches the worker.",
        rows=("keeper.open_room", "load.refuse"),
        places=(f"{_SCHEDULER}has_requests", f"{_SCHEDULER}has_finished_requests",
                "v1/engine/core.py:EngineCore.step",
                "v1/worker/kv_connector_model_runner_mixin.py:"
                "KVConnectorModelRunnerMixin.kv_connector_no_forward"),
        tests=(f"{_VLLM}test_the_engine_makes_steps_until_kept_blocks_are_answered",)),
)

OF_NODES: Final = (
    Assumption(
        "nodes-watch-their-peers", By.NODES,
        "The clock of a node tells its tables of a silent peer.",
        rows=("watcher.suspect", "watcher.give_up", "watcher.forget"),
        places=("node/connections.py:Connections.check_peers",),
        tests=("tests/transport/test_faults.py::test_a_silent_peer_is_suspected_and_then_lost",)),
    Assumption(
        "nodes-count-ends", By.NODES,
        "The end of each hand-over is counted, in a drain and in a kept room.",
        rows=("server.end", "keeper.keep", "keeper.keep_not", "keeper.note_end",
              "rooms.bind", "rooms.end_request"),
        places=("node/drain.py:Drain._look", "node/prefill/keeps.py:Keeps._look"),
        tests=("tests/node/test_drain.py::"
               "test_what_was_accepted_ends_well_and_then_the_node_is_empty",
               "tests/node/test_keeps.py::test_a_leg_is_repeated_after_success_and_after_failure")),
    Assumption(
        "nodes-try-the-queue", By.NODES,
        "A node tries in each turn to give memory to the first requests that wait for it.",
        rows=("queue.refuse", "queue.refuse_given_twice"),
        places=("node/decode/sink_memory.py:SinkMemory.serve",),
        tests=("tests/node/test_memory_refusals.py::"
               "test_a_request_is_refused_where_no_memory_comes_back",
               "tests/node/test_memory_refusals.py::"
               "test_a_request_is_refused_a_page_that_was_given_twice")),
    Assumption(
        "nodes-look-up", By.NODES, "A node asks the registry again until it has an answer.",
        rows=("client.ask",), places=("registry/finder.py:Finder._loop",),
        tests=("tests/registry/test_finder.py::"
               "test_m1_2_a_missing_rank_fails_the_look_up_and_the_next_begins",)),
)

OF_ROUTER: Final = (
    Assumption(
        "router-sends-both-halves", By.ROUTER,
        "A request goes to both servers, once to each.",
        rows=("decode.open", "prefill.submit", "host.submit", "sink.begin_receive", "sink.open",
              "directory.open", "client.begin", "leg.ask"),
        tests=("tests/vllm/test_early.py::test_a_decode_that_never_comes_leaves_nothing",
               "tests/vllm/test_early.py::test_a_prefill_that_is_never_asked_fails_the_request"),
        broken="the half that has come ends at `bootstrap_timeout`. Promises that are judged "
               "without that clock, as L5, do not cover it"),
)

ASSUMPTIONS: Final = (*OF_SGLANG, *OF_VLLM, *OF_NODES, *OF_ROUTER)
