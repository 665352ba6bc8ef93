"""Why two-phase commit agrees, for any number of participants: the guarantees of its messages."""

from typing import Final

from pdproto.spec.examples.two_phase_commit import (
    Decision,
    Vote,
    abort,
    commit,
    decision,
    heard,
    p,
    prepared,
    vote,
)
from pdproto.spec.language import Always, implies

LEMMAS: Final = (
    Always("commit_is_decided", implies(commit(), decision() == Decision.COMMIT),
           why="only the decision sends it, and there is one decision"),
    Always("abort_is_decided", implies(abort(), decision() == Decision.ABORT),
           why="only the decision sends it, and there is one decision"),
    Always("commit_has_heard_all", implies(commit(), heard(p)),
           why="the coordinator commits only when it has every vote, and forgets none"),
    Always("heard_has_been_said", implies(heard(p), prepared(p)),
           why="the coordinator counts a vote only from its message, and messages stay"),
    Always("a_vote_ends_the_work", implies(prepared(p), vote(p) != Vote.WORKING),
           why="a participant votes when it leaves its work, and never returns to it"),
    Always("a_voter_aborts_on_word_only",
           implies(prepared(p) & (vote(p) == Vote.ABORTED), abort()),
           why="after a yes only the coordinator's decision aborts"),
    Always("commits_on_word_only", implies(vote(p) == Vote.COMMITTED, commit()),
           why="no participant commits on its own"),
)
