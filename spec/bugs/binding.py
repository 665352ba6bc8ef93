"""Defects of the binding of a room to a life, each an edit of the tables that bind it."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import binding_named, binding_ordered
from pdproto.spec.handoff import binding_prompts as prompts
from pdproto.spec.handoff.binding import GUARDED
from pdproto.spec.handoff.binding_tables import LATEST, NONE_WAITS, OLDEST, h, p, u
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    AddClause,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    edited,
)

ONE_LIFE: Final = Configuration({Source: 2, Sink: 1, Life: 1, Use: 2}, dead_bits=True)

FIRST_COME: Final = edited(
    binding_ordered.NO_TIMERS, "first-come-on-each-rank",
    DropClause("bind", binding_ordered.ALL_EARLIER_MET),
    DropProperty("a_rank_binds_the_first_life_to_the_first_request"))

PREDECESSOR: Final = edited(
    GUARDED, "failed-by-its-predecessor",
    DropClause("pass_failure_on", LATEST), DropClause("pass_failure_on", NONE_WAITS))

DEAD_LIFE: Final = edited(
    binding_named.SYSTEM, "request-of-a-dead-life",
    DropClause("end_named", binding_named.named(p, h, u)))

NOT_PASSED_ON: Final = edited(
    binding_named.NO_TIMERS, "use-not-passed-on",
    DropEffect("begin", binding_named.NAMED_TO_ALL))

TWO_PROMPTS: Final = prompts.ORDERED.configurations["default"]

NOT_COMPARED: Final = edited(
    prompts.ORDERED, "prompt-not-compared", DropClause("bind", prompts.fits(h, u)))

NUMBER_ALONE: Final = edited(
    prompts.NAMED, "prompt-of-a-number-not-compared",
    DropClause("bind_named", prompts.fits(h, u)), DropRow("find_other_prompt"))

BY_ORDER: Final = edited(
    prompts.NO_TIMERS, "prompts-in-one-order",
    DropClause("bind", prompts.OLDEST_ALIKE), AddClause("bind", OLDEST))

TOLD_TO_ONE: Final = edited(
    prompts.NO_TIMEOUTS, "mix-up-told-to-decode-alone", DropRow("end_other_prompt"))

BUGS: Final[tuple[Bug, ...]] = (
    Bug("first-come", "pdproto itself; sglang #26486 has samples of one prompt in one room",
        "Two requests share a room, an introduction to one rank is lost, and a decode server "
        "generates from layers of both.", FIRST_COME, FIRST_COME.configurations["default"],
        "S2_a_life_gets_the_request_of_its_place",
        note="Each rank binds the lives of a room to its requests as they come."),
    Bug("retry-failed", "pdproto itself",
        "A client's retry fails at once with the reason for which its first request was aborted.",
        PREDECESSOR, ONE_LIFE, "a_retry_is_not_failed_by_its_predecessor"),
    Bug("retry-lost", "pdproto itself",
        "A retry waits for its time-out, because its half on prefill was given to the earlier "
        "life, which had ended.", DEAD_LIFE, ONE_LIFE, "an_ended_life_takes_no_request"),
    Bug("use-kept", "no report; a decode rank that knows the request and does not tell it",
        "The prefill ranks wait for their time-out.", NOT_PASSED_ON, ONE_LIFE,
        "L1_a_request_on_both_servers_is_bound"),
    Bug("prompt-by-room", "sglang 0.5.23: the room is all that the two halves have in common",
        "Three clients send three prompts of one length under one room at once, and two of them "
        "get the answer to another prompt, with status 200.", NOT_COMPARED, TWO_PROMPTS,
        "S19_a_running_life_has_its_prompt",
        note="Other backends of SGLang hang or end their schedulers (sglang #40125)."),
    Bug("prompt-by-params",
        "vllm #52234, comment of 2026-09-18 (the previous prompt's answer for the new prompt); "
        "vllm 0.32: kv_transfer_params of another prompt of the same length",
        "Decode answers a prompt from the KV of another, and keeps it in its prefix cache for "
        "everybody.", NUMBER_ALONE, prompts.NAMED.configurations["default"],
        "S19_a_running_life_has_its_prompt",
        note="NixlConnector does the same. The failed load of #52234 itself is B51."),
    Bug("prompt-in-order", "pdproto itself; a room whose requests are bound in one order",
        "A life and a request of one prompt wait, because an older request of the room waits for "
        "another prompt.", BY_ORDER, prompts.NO_TIMERS.configurations["default"],
        "L1_a_life_and_a_request_of_its_prompt_are_bound"),
    Bug("prompt-told-once", "pdproto itself; decode alone hears of the mix-up",
        "The client has its answer, and prefill keeps the request and its pages until the "
        "time-out.",
        TOLD_TO_ONE, TWO_PROMPTS, "L2_a_mix_up_ends_its_request"),
)
