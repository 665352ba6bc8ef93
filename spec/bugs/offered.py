"""Defects of the answers to a prefill scheduler of vLLM, as edits of the table of offered.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.offered import SYSTEM, Passing, Told, h, passing, pinned, stopped, unread
from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import Call, Configuration, DropClause, ReplaceRow, Row, edited

ONE: Final = Configuration({Life: 1})

BUGS: Final[tuple[Bug, ...]] = (
    Bug("answer-while-it-computes", "pdproto, while blocks began to be sent before the answer",
        "Decode left while prefill computed, and vLLM freed the blocks that the request was still "
        "computed into.",
        edited(SYSTEM, "answer-while-it-computes", ReplaceRow("free", Row(
            "free", at=(Told.COMPUTING, Told.KEPT), to=Told.FREE,
            when=passing(h) == Passing.SETTLED, do=[pinned(h).to(False)]))),
        ONE, "rule_1_a_request_that_runs_is_not_answered"),
    Bug("read-after-preemption", "vllm, from _preempt_request of its scheduler (decision 038)",
        "A request was preempted while a chunk was read, and decode got what the next request "
        "computed into its blocks, under correct digests.",
        edited(SYSTEM, "read-after-preemption", DropClause("unpin", ~unread(h))),
        ONE, "rule_3_no_block_is_read_that_another_request_has",
        note="vLLM frees the blocks of a preempted request at once, and asks no connector"),
    Bug("freed-at-abort", "vllm, as request_finished of its connectors answers for an abort",
        "A client left while prefill computed: the blocks of the request were given to another "
        "while a chunk was read.",
        edited(SYSTEM, "freed-at-abort", ReplaceRow("stop", Row(
            "stop", on=Call("stop"), at=Told.COMPUTING, to=Told.FREE,
            do=[stopped(h).to(True), pinned(h).to(False)]))),
        ONE, "rule_2_an_answer_is_final"),
)
