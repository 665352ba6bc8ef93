"""Defects between the parts: no part shows them, only a composed system."""

from dataclasses import replace
from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import end_to_end_attempts as passes
from pdproto.spec.handoff import end_to_end_bootstrap as lookup
from pdproto.spec.handoff import end_to_end_routing as rooms
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.bootstrap import Phase
from pdproto.spec.handoff.end_to_end_ends import UNOPENED
from pdproto.spec.handoff.ends import d, h
from pdproto.spec.handoff.roles import Incarnation
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import (
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    ReplaceRow,
    edited,
)

ONE_PASS: Final = Configuration(passes.sizes(), dead_bits=True)
RESTART: Final = Configuration(lookup.SIZES, faults=("crash",), dead_bits=True)
ONE_RUN: Final = replace(RESTART, sizes={**lookup.SIZES, Incarnation: 1})
ROOM: Final = Configuration(rooms.SIZES, faults=("lossy",), dead_bits=True)

_LOOK_UP_FINAL: Final = (Phase.WAITING_FOR_INPUT, Phase.FAILED)

NOT_COMPUTED: Final = replace(
    passes.HOST.row("begin_transfer"),
    when=[passes.stage(h) == Stage.RUNNING, passes.FINALIZED,
          *passes.HOST.row("begin_transfer").conditions[1:]])
GOES_ON: Final = replace(
    lookup.HOST.row("open_receiver"),
    when=[lookup.phase(d, h).among(*_LOOK_UP_FINAL), UNOPENED])

BUGS: Final[tuple[Bug, ...]] = (
    Bug("B02-transfer", "sglang #24772",
        "A request whose look-up had failed took decode memory, and waited for ever.",
        edited(lookup.SYSTEM, "B02-transfer", ReplaceRow("open_receiver", GOES_ON)),
        ONE_RUN, "a_failed_look_up_begins_no_transfer",
        note="the constructor goes on after a failed look-up"),
    Bug("B28-transfer", "sglang #34692",
        "Transfers of a dead prefill server hang until a time-out, though decode knows of the "
        "death.",
        edited(lookup.SYSTEM, "B28-transfer", DropRow("notice"),
               DropProperty("a_sink_notices_for_an_open_receiver")),
        ONE_RUN, "a_run_that_ends_takes_its_transfers_along",
        note="the heartbeat reports to the bootstrap, and not to the transfer"),
    Bug("successor", "sglang 0.5.23, the rank number of every message",
        "A restarted rank goes on with rooms that its sink had agreed on with the earlier run.",
        edited(lookup.SYSTEM, "successor",
               DropEffect("crash", lookup.TAKEN_ALONG)),
        ONE_RUN, "the_writing_run_was_looked_up",
        note="the transfer knows ranks, and the registry knows runs"),
    Bug("B16", "sglang #31239, #31368",
        "KV was sent while the forward pass was still computing it.",
        edited(passes.SYSTEM, "B16", ReplaceRow("begin_transfer", NOT_COMPUTED)),
        ONE_PASS, "a_landed_write_was_computed",
        note="the bootstrap is there, and the sender does not wait for the batch"),
    Bug("B62-pass", "sglang #38961 item 5",
        "The place of an aborted request was freed when its batch had ended, and read later.",
        edited(passes.SYSTEM, "B62-pass", DropClause("release_places", UNREAD)),
        ONE_PASS, "a_landed_write_was_computed",
        note="prefill checks its own batch, and not the engine"),
    Bug("refused-late", "no report; sglang 0.5.23 leaves it to time-outs",
        "A room that had failed on prefill was still listed, and decode went on waiting for it.",
        edited(rooms.SYSTEM, "refused-late", DropRow("end_room"),
               DropProperty("only_a_failed_sender_ends_its_room")),
        ROOM, "a_failed_sender_ends_its_room",
        note="the transfer has failed, and the room does not learn of it"),
)
