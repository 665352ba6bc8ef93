"""Optimistic prefill on a group of ranks while messages between its processes are lost.

In optimistic_group.py every message arrives in the end. Here each may be lost, and clocks repeat
it. The entry notes each decision with its number, and repeats it. A rank repeats its
state: its vote, and the chunks of its pass that it has computed. A process runs these rows by
keeping its messages and sending all of them again, until agreement.py says that the request is over
on every rank (pdproto/group/repeats.py).

Every safety property holds as before. The effects of a decision wait for the clocks.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.attempts import Forward, Target, a
from pdproto.spec.handoff.group import Decision, Health, Rank, h, n, r
from pdproto.spec.handoff.group_attempts import (
    ACTIVE,
    CURRENT,
    ENDED,
    FORCED,
    MESSAGES,
    OPEN,
    Vote,
    admit,
    dead,
    entry,
    fail,
    finalize,
    finalized,
    forward,
    give_way,
    go_on,
    group,
    half,
    health,
    kv,
    link,
    rank,
    ready,
    run,
    stage,
    status,
    vote,
    whole,
    world,
)
from pdproto.spec.handoff.optimistic_group import LIVENESS, SAFETY, SYSTEM
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import (
    AddEffect,
    AddFaults,
    AddRow,
    Configuration,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Row,
    State,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    edited,
    forall,
    lose,
)
from pdproto.spec.language.edit import Edit
from pdproto.spec.language.properties import Property
from pdproto.spec.language.symbols import Message


class Said(State):
    """A decision of the entry. `said_run` has the attempt of the one to run a pass."""

    NOTHING = auto()
    RUN = auto()
    GO_ON = auto()
    FINALIZE = auto()
    GIVE_WAY = auto()
    ADMIT = auto()
    FAIL = auto()


said = entry.function("said", Said, Decision, Life)
said_run = entry.relation("said_run", Decision, Life, Attempt)

DECISIONS: Final[tuple[tuple[Said, Message[Rank, Decision, Life], tuple[str, ...]], ...]] = (
    (Said.GO_ON, go_on, ("decide_to_go_on",)),
    (Said.FINALIZE, finalize, ("decide_finalize",)),
    (Said.GIVE_WAY, give_way, ("decide_to_yield", "force_retry")),
    (Said.ADMIT, admit, ("decide_admit",)),
    (Said.FAIL, fail, ("decide_fail", "give_up", "abort")),
)
LOST: Final = "the decision may have been lost"
REPORT_LOST: Final = "the report may have been lost"

NOTED: Final[tuple[Edit, ...]] = (
    AddEffect("decide_run", said(n, h).to(Said.RUN)),
    AddEffect("decide_run", said_run(n, h, a).to(True)),
    *(AddEffect(row, said(n, h).to(value)) for value, _, rows in DECISIONS for row in rows),
)
REPEATED: Final[tuple[Edit, ...]] = (
    AddRow(entry, Row(
        "run_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h, a),
        when=[said(n, h) == Said.RUN, said_run(n, h, a)], send=[run(r, n, h, a)], why=LOST)),
    *(AddRow(entry, Row(
        f"{message.name}_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h),
        when=said(n, h) == value, send=[message(r, n, h)], why=LOST))
      for value, message, _ in DECISIONS),
    *(AddRow(rank, Row(
        f"{message.name}_again", on=Timer("no_decision"), at=Health.UP, choose=(h,),
        when=[stage(r, h).among(*ACTIVE), vote(r, h) == value], send=[message(r, h)],
        why=REPORT_LOST))
      for value, message in ((Vote.READY, ready), (Vote.DEAD, dead))),
    *(AddRow(rank, Row(
        f"{message.name}_again", on=Timer("no_release"), at=Health.UP, choose=(h, a),
        when=[forward(r, h) == value, CURRENT], send=[message(r, h, a)], why=REPORT_LOST))
      for value, message in ((Forward.HALF, half), (Forward.WHOLE, whole))),
)
# By the process of the row: the rows that repeat a message, and while it may.
REPEATS: Final[tuple[Property, ...]] = (
    *(OnRow(f"rule_6_an_ended_group_does_not_{message.name}_again", f"{message.name}_again",
            group() == Health.UP, why="its ranks have ended")
      for message in (run, *(decision for _, decision, _ in DECISIONS))),
    *(OnRow(f"rule_6_an_ended_rank_does_not_{message.name}_again", f"{message.name}_again",
            health(r) == Health.UP, why="its group has ended")
      for message in (half, whole)),
    *(OnRow(f"a_rank_that_has_ended_does_not_{message.name}_again", f"{message.name}_again",
            stage(r, h).among(*ACTIVE), why="the entry has decided, and needs no vote")
      for message in (ready, dead)),
)
LOSSY: Final = Table(world, rows=tuple(map(lose, MESSAGES.values())))


def _without_the_message(claim: Property) -> Property:
    """The property, if it does not read a message that may be lost after it was read."""
    if claim.name == "M5_3_finalized_once_and_surely":
        return OnRow(claim.name, "finalize", (link(r, h) == Target.PENDING) & kv(r, h),
                     why="once, and while the rank holds the KV")
    return claim


LOSS: Final[System] = edited(
    SYSTEM, "optimistic-group-loss", *NOTED, *REPEATED, AddFaults("lossy", LOSSY),
    ReplaceProperties((
        *map(_without_the_message, SAFETY), *REPEATS,
        *(replace(claim, under=(Fairness.TIMERS,)) for claim in LIVENESS),
    )),
    about="Prefill before its bootstrap on a group of ranks, where messages are lost.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Attempt: 1, Decision: 5},
                                 faults=("lossy", "crash"), symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 2, Life: 1, Attempt: 2, Decision: 7}, faults=("lossy",),
                              symmetry=True, dead_bits=True),
    },
)

# No request times out, and no rank dies: only a repeated message brings on what one that is lost
# would have.
_VOTED: Final = forall(r, vote(r, h) == Vote.READY)
REPEATED_ONLY: Final[System] = edited(
    LOSS, "optimistic-group-loss-no-timeouts", DropRow("give_up"),
    ReplaceRow("decide_to_go_on", replace(
        LOSS.table(entry).row("decide_to_go_on"), fair=False,
        why="another request may need the place first")),
    ReplaceProperties((
        *(replace(claim, under=(Fairness.TIMERS,)) for claim in LIVENESS
          if claim.name in ("L2_a_failure_is_decided", "L2_a_decision_reaches_all")),
        LeadsTo("L2_each_vote_reaches_the_entry", all_of(status(h).among(*OPEN), ~FORCED, _VOTED),
                any_of(status(h).among(*ENDED), finalized(h), ~_VOTED),
                under=(Fairness.TIMERS,), why="a rank repeats its vote until the entry decides"),
        LeadsTo("L2_a_computed_chunk_is_reported",
                all_of(forward(r, h) == Forward.HALF, CURRENT),
                any_of(half(r, h, a), forward(r, h) != Forward.HALF, status(h).among(*ENDED)),
                under=(Fairness.TIMERS,), why="a rank repeats which chunks it has computed"),
    )),
    about="Prefill before its bootstrap on a group of ranks: messages are lost, nobody gives up.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Attempt: 1, Decision: 5}, faults=("lossy",),
                                 symmetry=True, dead_bits=True),
    },
)
