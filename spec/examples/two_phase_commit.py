"""Two-phase commit: all participants commit, or none does.

After Gray and Lamport, "Consensus on Transaction Commit" (ACM TODS 31(1), 2006); the actions are
those of the TLA+ module TwoPhase, so its published state counts must come out.

Rule 1: A participant that has voted yes waits for the coordinator's decision, however long.
Rule 2: The coordinator commits only when it has every vote.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    forall,
    implies,
)


class Participant(Sort):
    """A process that votes, and then commits or aborts."""


class Vote(State):
    WORKING = auto()
    PREPARED = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Decision(State):
    OPEN = auto()
    COMMIT = auto()
    ABORT = auto()


p, q = Participant("p"), Participant("q")

participant = Machine("participant", p)
coordinator = Machine("coordinator")

vote = participant.function("vote", Vote)
decision = coordinator.function("decision", Decision)
heard = coordinator.relation("heard", Participant)

prepared = Message("prepared", p, sender=participant, receiver=coordinator)
commit = Message("commit", sender=coordinator, receiver=participant)
abort = Message("abort", sender=coordinator, receiver=participant)

PARTICIPANT: Final = Table(participant, state=vote, rows=(
    Row("prepare", on=Call("prepare"), at=Vote.WORKING, to=Vote.PREPARED, send=[prepared(p)]),
    Row("give_up", on=Call("abort"), at=Vote.WORKING, to=Vote.ABORTED,
        why="until it has voted yes, a participant may abort on its own"),
    Row("committed", on=commit(), to=Vote.COMMITTED),
    Row("aborted", on=abort(), to=Vote.ABORTED),
))

COORDINATOR: Final = Table(coordinator, state=decision, rows=(
    Row("hear", on=prepared(p), at=Decision.OPEN, do=[heard(p).to(True)]),
    Ignore(prepared(p), at=(Decision.COMMIT, Decision.ABORT), why="the coordinator has decided"),
    Row("decide_commit", at=Decision.OPEN, to=Decision.COMMIT, when=forall(p, heard(p)),
        send=[commit()]),
    Row("decide_abort", on=Call("abort"), at=Decision.OPEN, to=Decision.ABORT, send=[abort()],
        why="the coordinator may abort whenever it has not decided"),
))

PROPERTIES: Final = (
    Always("agreement", implies(vote(p) == Vote.COMMITTED, vote(q) != Vote.ABORTED),
           why="no participant commits while another aborts"),
    Sometimes("all_commit", forall(p, vote(p) == Vote.COMMITTED)),
    Sometimes("all_abort", forall(p, vote(p) == Vote.ABORTED)),
    LeadsTo("a_decision_arrives",
            all_of(decision() != Decision.OPEN, vote(p) == Vote.PREPARED),
            vote(p).among(Vote.COMMITTED, Vote.ABORTED)),
)

SYSTEM: Final = System(
    "two-phase-commit",
    "Two-phase commit: all participants commit, or none does.",
    tables=(PARTICIPANT, COORDINATOR),
    properties=PROPERTIES,
    final=any_of(
        forall(p, vote(p) == Vote.COMMITTED),
        forall(p, vote(p) == Vote.ABORTED),
    ),
    configurations={"default": Configuration({Participant: 3})},
)
