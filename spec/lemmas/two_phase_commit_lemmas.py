"""Why two-phase commit agrees, however many participants: what its messages promise."""

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
           why="only the decision sends it, and it is made once"),
    Always("abort_is_decided", implies(abort(), decision() == Decision.ABORT),
           why="only the decision sends it, and it is made once"),
    Always("commit_has_heard_all", implies(commit(), heard(p)),
           why="the coordinator commits only when it has heard every vote, and forgets none"),
    Always("heard_has_been_said", implies(heard(p), prepared(p)),
           why="a vote is heard from its message, and messages stay"),
    Always("a_vote_ends_the_work", implies(prepared(p), vote(p) != Vote.WORKING),
           why="a participant votes as it leaves its work, and never returns to it"),
    Always("a_voter_aborts_on_word_only",
           implies(prepared(p) & (vote(p) == Vote.ABORTED), abort()),
           why="after a yes only the coordinator's word aborts"),
    Always("commits_on_word_only", implies(vote(p) == Vote.COMMITTED, commit()),
           why="nobody commits on its own"),
)
