"""The hand-over from end to end at its smallest: one room, one rank on each side.

A prefill rank registers, and computes before it knows where its KV goes. A decode rank looks it up,
introduces itself, publishes its memory, and gets the KV. Either may give up, and the prefill rank
may die and come back. The tables are those of the parts. Where a part waits for a call, another
part takes the step here. This module adds two rows: the run that is there takes a request.

These systems compose the parts that meet:

    registry x transfer              end-to-end-bootstrap, end-to-end, end-to-end-restart
    registry x optimistic prefill    end-to-end, end-to-end-restart
    optimistic prefill x transfer    end-to-end-attempts, end-to-end-contended, end-to-end
    dp rank x transfer               end-to-end-routing
    group's decisions x transfer     group-transfer, group-transfer-pair
    group's decisions x attempts     optimistic-group

Three pairs are not composed, because neither part could change the other. The dp rank is resolved
before a rank of that group is looked up, and before prefill takes the room. Later it learns of the
room only from the sender (end-to-end-routing). A group decides among ranks that have been found: a
rank that dies ends its group, whatever the registry says of it.
"""

from typing import Final

from pdproto.spec.handoff import end_to_end_attempts as passes
from pdproto.spec.handoff import end_to_end_bootstrap as lookup
from pdproto.spec.handoff import transfer, transfer_claims
from pdproto.spec.handoff.attempts import RunningSlot, Stage
from pdproto.spec.handoff.bootstrap import Phase, Reason, Run, e, f
from pdproto.spec.handoff.end_to_end_ends import RECEIVER
from pdproto.spec.handoff.ends import COMMITTED, Sending, d, h, p, sending
from pdproto.spec.handoff.engine import ENGINE
from pdproto.spec.handoff.hand_over import REFINED
from pdproto.spec.handoff.roles import Attempt, Incarnation
from pdproto.spec.handoff.sink import POOL
from pdproto.spec.language import (
    Call,
    Configuration,
    Fairness,
    LeadsTo,
    Machine,
    OnRow,
    ReplaceProperties,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    edited,
    forall,
    implies,
)
from pdproto.spec.language.properties import Property

host = Machine("host", host=True)

SUBMIT: Final = Row(
    "submit", on=Call("submit", p, e, h),
    when=[lookup.run(p, e) == Run.UP, passes.stage(h) == Stage.NEW,
          sending(p, h) == Sending.UNKNOWN],
    do=[passes.stage(h).to(Stage.QUEUED), sending(p, h).to(Sending.BOOTSTRAPPING),
        lookup.begun(p, e, h).to(True)])
HOST: Final = Table(host, rows=(
    SUBMIT, *passes.HOST.without("submit").rows, *lookup.HOST.without("open_own_sender").rows,
))

HOLDS_A_PLACE: Final = passes.HAS_SLOT | passes.HAS_RUNNING_SLOT
TOGETHER: Final[tuple[Property, ...]] = (
    OnRow("the_computing_run_was_looked_up", "begin_transfer",
          forall((d, e), implies(lookup.BOUND, lookup.begun(p, e, h))),
          why="no run sends a pass of another, or sends to a sink that has met another"),
    Sometimes("a_look_up_fails_while_a_pass_runs", all_of(
        lookup.reason(d, h) == Reason.NOT_FOUND, passes.stage(h) == Stage.RUNNING)),
    Sometimes("a_pass_ends_before_its_sink_has_looked_it_up", all_of(
        passes.stage(h) == Stage.PARKED, lookup.phase(d, h) == Phase.BOOTSTRAPPING)),
    Sometimes("everything_goes_well", COMMITTED & (passes.stage(h) == Stage.SUCCESS)),
)
RESTARTED: Final = Sometimes(
    "a_stale_address_leads_to_a_pass_that_is_sent",
    all_of(lookup.refuse(d, h, p, e, f), COMMITTED, passes.stage(h) == Stage.SUCCESS))
IN_TIME: Final[tuple[Property, ...]] = (
    LeadsTo("a_failed_look_up_gives_everything_back", lookup.NOT_FOUND & HOLDS_A_PLACE,
            ~HOLDS_A_PLACE, under=(Fairness.TIMERS,),
            why="prefill ends the request by its own clock, because no sink will introduce itself"),
    LeadsTo("a_run_that_ends_takes_its_passes_along",
            all_of(lookup.run(p, e) == Run.CRASHED, lookup.begun(p, e, h), HOLDS_A_PLACE),
            ~HOLDS_A_PLACE, under=(Fairness.NO_TIMERS,),
            why="a dead process keeps no place"),
    *(claim for claim in (*lookup.IN_TIME, *passes.IN_TIME)
      if claim.name != "a_failed_look_up_gives_everything_back"),
)
# These need a second run.
OF_TWO: Final = (
    "a_peer_restarts_under_a_look_up", "a_stale_address_reaches_a_new_source_and_all_is_well",
    "the_writing_run_is_not_older_than_the_answer", RESTARTED.name,
)
SIZES: Final[Sizes] = {**lookup.SIZES, RunningSlot: 1, Attempt: 1}

RESTART: Final = edited(
    System(
        "parts", "All tables, side by side.",
        tables=(passes.HANDED_OVER, RECEIVER, POOL, ENGINE, *passes.PASS.tables,
                *lookup.TABLES, HOST),
        properties=(
            *transfer.SAFETY, *lookup.OF_BOOTSTRAP, *lookup.TOGETHER, *passes.OF_THE_PASS,
            *passes.TOGETHER, *TOGETHER, RESTARTED,
            *transfer_claims.LIVENESS, *IN_TIME,
        ),
        final=all_of(passes.OVER, lookup.OVER),
        faults={"crash": (lookup.CRASH,)},
    ),
    "end-to-end-restart", *lookup.JOINED,
    about="Registration, look-up, optimistic prefill and transfer of one room; prefill restarts.",
    configurations={"deep": Configuration(SIZES, faults=("crash",), dead_bits=True)},
)

SYSTEM: Final = edited(
    RESTART, "end-to-end",
    ReplaceProperties((
        REFINED, *(claim for claim in RESTART.properties if claim.name not in OF_TWO))),
    about="Registration, look-up, optimistic prefill and transfer of one room.",
    # One run, and it may die. A second run takes minutes, so RESTART has it.
    configurations={"default": Configuration(
        {**SIZES, Incarnation: 1}, faults=("crash",), dead_bits=True)},
)
