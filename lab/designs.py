"""Designs of other systems that the explorer refutes, each described by tables of its own.

They are no edits of our tables, because their hand-over has another shape. `repaired` is the design
with a repair, and keeps the property. `source` names the material behind each statement.
"""

from dataclasses import dataclass
from typing import Final

from lab.peers import (
    dynamo_requests,
    nixl_release,
    trtllm_cancel,
    vllm_lease,
    vllm_lease_repaired,
    vllm_reports,
)
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.language import System


@dataclass(frozen=True, slots=True)
class Design(Bug):
    """A design that breaks a property.

    lacks: the missing part, in a sentence. steps: the length of the shortest run that shows it.
    repaired: systems that keep the property at the same sizes.
    """

    lacks: str = ""
    steps: int = 0
    repaired: tuple[System, ...] = ()


def _design(
    name: str, source: str, symptom: str, system: System, violates: str, steps: int,
    lacks: str, *repaired: System, note: str = "",
) -> Design:
    return Design(name, source, symptom, system, system.configurations["default"], violates, note,
                  lacks, steps, repaired)


DESIGNS: Final[tuple[Design, ...]] = (
    _design(
        "vllm-late-read",
        "vLLM #21570 (2025), open; #41383; seen with 0.27 and with 0.32.0",
        "Decode read blocks after prefill's lease had ended, and answered with another request's "
        "KV: HTTP 200, and a line in prefill's log.",
        vllm_lease.SYSTEM, "a_load_that_succeeds_is_of_its_own_request", 8,
        "An answer to the reader: a clock ends the lease, and the read succeeds all the same.",
        vllm_lease_repaired.CONFIRMED, vllm_lease_repaired.CONSENTED),
    _design(
        "vllm-head-first", "vLLM #58222, #50789 (0.27.1); 0.32.0 sweeps every lease",
        "Blocks whose lease had ended stayed allocated while an older lease was renewed.",
        vllm_lease.HEAD_FIRST, "a_lease_that_is_due_ends_or_is_renewed", 8,
        "A sweep of every lease: leases do not end in the order in which they began.",
        vllm_lease.SYSTEM),
    _design(
        "vllm-double-report",
        "vLLM #46240, #43226 (0.26 to 0.28, open); the same lines in 0.32.0",
        "A client left while its KV was loaded and stored; EngineCore died, and all requests "
        "with it.",
        vllm_reports.SYSTEM, "the_engine_lives", 7,
        "A count of pending transfers: one flag stands for a load and a store.",
        vllm_reports.LAST_FREES,
        note="#56089 (a draft) keeps both, and holds. The first end also frees the blocks under "
             "the other transfer."),
    _design(
        "nixl-release", "NIXL #2044, #2067 (2026)",
        "A transfer was released while it ran; its bytes landed in memory that was in use again.",
        nixl_release.SYSTEM, "S1_writes_stay_in_own_memory", 3,
        "An end that the device reports: a release returns while bytes still move.",
        nixl_release.CANCELLED),
    _design(
        "nixl-freed-request", "NIXL #2067, #1955 (2026)",
        "The process crashed: a completion was written to a freed request.",
        nixl_release.SYSTEM, "a_completion_finds_its_request", 2,
        "A request record that lives until the device has finished with it.",
        nixl_release.DEFERRED, nixl_release.CANCELLED),
    _design(
        "nixl-drained", "NIXL #2044 (a draft)",
        "A release that waits for the device, but only for ten seconds, leaves the same gap.",
        nixl_release.DRAINED, "S1_writes_stay_in_own_memory", 4,
        "An error at the end of the ten seconds: a clock proves nothing.",
        nixl_release.CANCELLED),
    _design(
        "nixl-deferred", "NIXL #2077 (closed)",
        "The request record lives until the device has finished with it, and the memory does not.",
        nixl_release.DEFERRED, "S1_writes_stay_in_own_memory", 3,
        "A report to the caller that the memory is still in use.",
        nixl_release.CANCELLED,
        note="#2209 (closed) frees nothing on a cancellation, lets the caller poll to the end, and "
             "holds."),
    _design(
        "trtllm-cancel-echo", "TensorRT-LLM #18517 (2026, open), in its review; #12734",
        "A cancelled session was answered during a write, and the answer freed the buffer.",
        trtllm_cancel.SYSTEM, "S1_writes_stay_in_own_memory", 6,
        "An answer that means quiescence: this one means only that the cancellation arrived.",
        trtllm_cancel.SILENT, trtllm_cancel.POISONED,
        note="#18517 answers with the end of the write. #15238 (merged, off by default) never uses "
             "the buffer again. Both hold."),
    _design(
        "dynamo-no-handler", "Dynamo #13088 (2026, open), #14271",
        "36 of 1,536 requests never ended: no error, no retry, no time-out.",
        dynamo_requests.SYSTEM, "L1_a_request_ends", 3,
        "A reply that states its kind: an unknown refusal counts as an acceptance.",
        dynamo_requests.REFUSED),
)
EVERY: Final[tuple[Bug, ...]] = (*BUGS, *DESIGNS)
