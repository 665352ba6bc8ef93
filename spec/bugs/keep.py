"""Defects of rooms that are asked for more than once, each an edit of the table of keep.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.keep import (
    LEAVE_PLACES,
    NO_PLACE,
    SYSTEM,
    UNREAD,
    KeptRoom,
    h,
    m,
    of,
    place,
    refused,
    room,
)
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import (
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    edited,
)

ONE_LEG: Final = Configuration({KeptRoom: 1, Life: 1, Slot: 1})
TWO_LEGS: Final = Configuration({KeptRoom: 1, Life: 2, Slot: 1})
TWO_ROOMS: Final = Configuration({KeptRoom: 2, Life: 2, Slot: 1})

BUGS: Final[tuple[Bug, ...]] = (
    Bug("keep-ends-under-a-read", "vllm-project/vllm, NixlConnector: \"Potentially invalid KV "
        "blocks\"",
        "The lease of a prefill's blocks ran out while a slow decode server read them, and vLLM "
        "gave them to another request: the answer was made of two requests.",
        edited(SYSTEM, "keep-ends-under-a-read", DropClause("end_keep", UNREAD),
               DropClause("give_back", UNREAD)),
        TWO_LEGS, "S8_kv_is_held_while_a_leg_reads_it",
        note="without a second leg no clock runs under a read"),
    Bug("keep-without-a-clock", "pdproto, the first design of this table",
        "Prefill kept each room until its places were needed: an idle server never gave blocks "
        "back, and a drain waited for ever.",
        edited(SYSTEM, "keep-without-a-clock", DropRow("end_keep"),
               DropProperty("no_clock_ends_a_room_that_is_read")),
        ONE_LEG, "L4_the_kv_of_a_room_is_given_back"),
    Bug("keep-without-a-bound", "pdproto, the first design of this table",
        "Prefill kept every room for seconds: at a high rate its KV cache was full of requests "
        "that nobody would ask for again.",
        edited(SYSTEM, "keep-without-a-bound", DropClause("keep", place(m).unset),
               DropClause("keep_not", NO_PLACE)),
        TWO_ROOMS, "a_kept_room_has_a_place"),
    Bug("keep-loses-a-place", "an edit that no other defect of this table covers",
        "A place that a room did not leave was lost: after as many rooms as places, no room was "
        "kept any more.",
        edited(SYSTEM, "keep-loses-a-place", DropEffect("end_keep", LEAVE_PLACES[1])),
        ONE_LEG, "a_place_is_of_a_kept_room"),
    Bug("keep-waits-after-the-end", "pdproto, before a room was kept: two decode requests of one "
        "room under vLLM",
        "The second of two decode requests of one room came after the end of the first, and waited "
        "for 120 s, with its blocks.",
        edited(SYSTEM, "keep-waits-after-the-end", DropRow("refuse_late")),
        ONE_LEG, "L2_a_leg_is_answered_at_once"),
    Bug("keep-serves-another-prompt", "vllm-project/vllm, NixlConnector: a proxy gives decode the "
        "params of another prompt of the same length",
        "A request was answered from the KV of another prompt, and decode's prefix cache served "
        "its blocks afterwards.",
        edited(SYSTEM, "keep-serves-another-prompt", DropClause("serve", of(h, room)),
               DropRow("refuse_other")),
        ONE_LEG, "S19_a_leg_reads_the_kv_of_its_prompt"),
    Bug("keep-refuses-in-silence", "pdproto, before a room was kept: a life that no sender would "
        "ever take was not refused",
        "Prefill noted that it serves a decode request no longer, and did not say so.",
        edited(SYSTEM, "keep-refuses-in-silence", DropEffect("refuse_late", refused(h))),
        ONE_LEG, "L2_a_leg_is_answered_at_once"),
)
