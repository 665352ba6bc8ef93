"""Defects of registration and look-up, each an edit of the tables of registry.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import registry as bootstrap
from pdproto.spec.handoff.bootstrap import (
    Cache,
    Info,
    Phase,
    Ready,
    Reason,
    Record,
    cached,
    d,
    dead,
    e,
    entry,
    f,
    filler,
    goodbye,
    h,
    info,
    joined,
    outdated,
    p,
    phase,
    present,
    reason,
    recorded,
    register,
    sink,
    unlocated,
)
from pdproto.spec.handoff.registry import ALIVE, NOT_FILLING, failing, nobody_is_current
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddRow,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Ignore,
    ReplaceRow,
    Row,
    System,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.edit import Edit

ONE: Final = {Source: 1, Incarnation: 1, Sink: 1, Life: 1}
NO_FAULTS: Final = Configuration({**ONE, Source: 2})
CRASH: Final = Configuration(ONE, faults=("crash",))
OUTAGE: Final = Configuration(ONE, faults=("outage",))
RESTART: Final = Configuration({**ONE, Incarnation: 2, Life: 2}, dead_bits=True)
ONE_RESTART: Final = Configuration({**ONE, Incarnation: 2}, dead_bits=True)
ALARM: Final = Configuration(ONE, faults=("alarm",))
BEHIND: Final = Configuration(
    {**ONE, Incarnation: 2}, faults=("crash", "clocks"), dead_bits=True)
TWO_LIVES: Final = Configuration({**ONE, Source: 2, Life: 2}, dead_bits=True)


def wrong(name: str, *edits: Edit) -> System:
    """Registration and look-up with these edits."""
    return edited(bootstrap.SYSTEM, name, *edits)


LIFTED: Final = wrong(
    "failed-lookup-lifted",
    AddRow(sink, Row("go_on", choose=(h,),
        when=[phase(d, h) == Phase.FAILED, reason(d, h) == Reason.NOT_FOUND],
        do=[phase(d, h).to(Phase.WAITING_FOR_INPUT)],
        why="the constructor goes on after a failed look-up")),
)

UNDEFINED: Final = wrong(
    "bootstrap-info-undefined", DropEffect("miss", info(d, h).to(Info.NO_INFO))
)

RECREATED: Final = wrong(
    "concluded-room-recreated",
    ReplaceRow("ignore_unlocated_empty_whole_abandoned", Row("fail_late", on=unlocated(d, h, p),
        at=NOT_FILLING, do=failing(Reason.NOT_FOUND),
        why="a status message creates the room that it names")),
)

HALF_CACHE: Final = wrong(
    "half-cache-reused",
    ReplaceRow("miss", Row("miss", on=unlocated(d, h, p), at=Cache.FILLING, to=Cache.WHOLE,
        when=[filler(d, h), phase(d, h) == Phase.BOOTSTRAPPING],
        do=[*failing(Reason.NOT_FOUND), filler(d, ANY).to(False)],
        why="the addresses stay under the server's name, and look complete")),
    ReplaceRow("connect", Row("connect", choose=(h,),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, ~filler(d, h),
              exists(p, joined(d, h, p)),
              forall((p, e), implies(cached(d, p, e), joined(d, h, p)))],
        do=[phase(d, h).to(Phase.WAITING_FOR_INPUT), info(d, h).to(Info.FOUND)],
        why="the hand-over waits only for the ranks in the cache")),
)

LEFTOVERS: Final = wrong(
    "half-cache-kept", DropEffect("miss", cached(d, ANY, ANY).to(False))
)

COUNTED_TWICE: Final = wrong(
    "registrations-counted",
    ReplaceRow("record_again", Row("record_again", on=register(p, e), at=Ready.COLLECTING,
        to=Ready.READY, when=entry(p, e) == Record.CURRENT, send=[recorded(p, e)],
        why="two registrations have come for two ranks, but both from the same rank")),
)

STALE_CACHE: Final = wrong("stale-cache-kept", DropRow("forget"))

REFUSAL_IGNORED: Final = wrong(
    "send-failure-ignored",
    DropEffect("be_refused", dead(d, p, f).to(True)),
    DropRow("miss_heartbeat"),
)

BLACKLIST: Final = wrong("blacklist-never-shrinks", AddClause("learn", forall(f, ~dead(d, p, f))))

NO_INCARNATION: Final = wrong(
    "address-without-incarnation", DropClause("accept", f.same(e)), DropRow("decline")
)

NO_FAILURE_EDGE: Final = wrong(
    "handshake-cannot-fail",
    DropRow("miss"),
    ReplaceRow("ignore_unlocated_filling", Ignore(
        unlocated(d, h, p), at=Cache.FILLING, why="no code handles this answer")),
)

FOR_GOOD: Final = wrong(
    "struck-out-for-good", DropEffect("answer_outdated", outdated(p, e, f))
)
# The same missing answer, for a successor that was started with a lower number.
LOWER: Final = wrong("refused-for-its-clock", DropEffect("answer_outdated", outdated(p, e, f)))

ANOTHERS_GOODBYE: Final = wrong(
    "goodbye-of-an-earlier-run",
    ReplaceRow("strike_out", Row("strike_out", on=goodbye(p, e), at=ALIVE, to=Ready.COLLECTING,
        choose=(f,), when=[entry(p, e) != Record.NEVER, entry(p, f) == Record.CURRENT],
        do=[entry(p, f).to(Record.OVER), present(p).to(False)],
        why="the goodbye names a rank, and not its run")),
    ReplaceRow("ignore_goodbye_collecting_ready", Ignore(
        goodbye(p, e), at=ALIVE, when=[entry(p, e) == Record.OVER, nobody_is_current],
        why="this number is struck out already")),
)

BUGS: Final[tuple[Bug, ...]] = (
    Bug("B02", "sglang #24772", "A request whose bootstrap look-up failed waits for input.",
        LIFTED, NO_FAULTS, "S3_failed_stays_failed"),
    Bug("B02-info", "sglang #24772", "AttributeError on bootstrap_infos after a failed look-up.",
        UNDEFINED, NO_FAULTS, "M1_2_every_attribute_is_defined"),
    Bug("B09-lookup", "sglang #24522, #24539", "A concluded room comes back as failed.",
        RECREATED, NO_FAULTS, "phase_edges"),
    Bug("B28-heartbeat", "sglang #34692", "Requests of a dead prefill server hang: one backend "
        "has no heartbeat.", wrong("no-heartbeat", DropRow("miss_heartbeat")), CRASH,
        "M1_4_lost_connection"),
    Bug("B28-timer", "sglang #34692", "A request hangs in bootstrap while the registry is down.",
        wrong("no-bootstrap-timeout", DropRow("give_up")), OUTAGE, "L1_bootstrap_ends"),
    Bug("B29", "sglang #36029, #31144", "After prefill restarts, decode keeps its old address.",
        STALE_CACHE, RESTART, "L6_recovery"),
    Bug("B30", "sglang #13054, #25287, #35823", "One error bars a rank until decode restarts.",
        BLACKLIST, RESTART, "L6_recovery"),
    Bug("B57", "sglang #36029",
        "A refused message leaves the cache as it is; no hand-over recovers.", REFUSAL_IGNORED,
        RESTART, "L6_recovery"),
    Bug("B68", "vllm #26171", "A failed handshake leaves the request waiting.",
        NO_FAILURE_EDGE, NO_FAULTS, "L1_bootstrap_ends"),
    Bug("half-cache", "sglang #24772, hardened later",
        "A hand-over takes half a list of addresses for the whole, and only some ranks write.",
        HALF_CACHE, TWO_LIVES, "M1_3_every_target_rank_is_met"),
    Bug("half-cache-kept", "sglang #24772, hardened later",
        "Addresses of a failed look-up are still in the cache.", LEFTOVERS, NO_FAULTS,
        "M1_3_an_empty_cache_is_empty"),
    Bug("counted-twice", "sglang 0.5.23, the bootstrap server's _registered_count",
        "A rank that registers again makes the server ready one rank early.", COUNTED_TWICE,
        NO_FAULTS, "ready_means_every_rank"),
    Bug("no-expiry", "sglang 0.5.23, the bootstrap server's port table",
        "The server keeps entries of dead ranks.", wrong("no-expiry", DropRow("expire")), CRASH,
        "L7_registrations_expire"),
    Bug("no-incarnation", "sglang 0.5.23, the rank number of every message",
        "A restarted rank takes messages for its earlier run.", NO_INCARNATION, ONE_RESTART,
        "S12_a_stale_address_is_refused"),
    Bug("struck-out-for-good", "pdproto, before its tables had false alarms of the registry",
        "A rank that was silent for ten seconds is refused until it is restarted.", FOR_GOOD,
        ALARM, "L6_a_run_that_is_up_is_listed"),
    Bug("clock-behind", "pdproto, before the registry named the number to exceed",
        "A restarted rank whose clock is behind is refused for ever.", LOWER, BEHIND,
        "L6_a_run_that_is_up_is_listed"),
    Bug("goodbye-of-another", "sglang 0.5.23, a rank's port without the run of its process",
        "The goodbye of an earlier run strikes out the later one.", ANOTHERS_GOODBYE, ONE_RESTART,
        "a_struck_out_run_was_silent_or_replaced"),
)
