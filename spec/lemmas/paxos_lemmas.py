"""Why one value at most is learned, for any number of acceptors, quorums, ballots and values: a
proposal excludes every other value from all earlier ballots, whose votes are then too few for ever.

After Padon, Losa, Sagiv and Shoham, "Paxos made EPR" (Proceedings of the ACM on Programming
Languages 1, OOPSLA, 2017).
"""

from typing import Final

from pdproto.spec.examples.paxos import (
    accept,
    latest,
    learned,
    left,
    promise,
    promised,
    proposal,
    report,
    value,
    vote,
)
from pdproto.spec.examples.voting import a, b, c, d, member, q, u, v
from pdproto.spec.language import Always, all_of, any_of, exists, forall, implies

LEMMAS: Final = (
    Always("a_proposal_is_kept", implies(accept(b, v), proposal(b) == v),
           why="a proposer proposes once"),
    Always("a_vote_follows_a_proposal", implies(vote(a, b, v), accept(b, v)),
           why="acceptors vote only as a proposer asks"),
    Always("ballots_before_a_promise_are_left",
           implies(all_of(promised(a) == b, c.before(b)), left(a, c)),
           why="an acceptor leaves them as it promises"),
    Always("ballots_before_a_left_one_are_left",
           implies(all_of(left(a, b), c.before(b)), left(a, c)),
           why="an acceptor leaves all ballots before one that it joins"),
    Always("a_voter_stays_or_leaves",
           implies(vote(a, b, v), any_of(promised(a) == b, left(a, b))),
           why="a vote promises its ballot, and only a later promise replaces it"),
    Always("the_latest_vote_is_a_vote",
           implies(all_of(latest(a) == c, value(a) == v), vote(a, c, v)),
           why="an acceptor notes its vote as it sends it"),
    Always("no_vote_is_later_than_the_latest",
           implies(all_of(vote(a, b, v), latest(a) == c), ~c.before(b)),
           why="an acceptor votes in ballots that grow"),
    Always("a_promise_excludes_earlier_votes",
           implies(all_of(promise(a, b), c.before(b)), all_of(left(a, c), ~vote(a, c, v))),
           why="the acceptor had not voted, and takes no part in earlier ballots since"),
    Always("a_report_is_of_an_earlier_vote",
           implies(report(a, b, c, v), all_of(vote(a, c, v), c.before(b))),
           why="an acceptor reports its own vote, and has not voted later than it promises"),
    Always("a_report_leaves_earlier_ballots",
           implies(all_of(report(a, b, c, v), d.before(b)), left(a, d)),
           why="a report is a promise too"),
    Always("a_report_excludes_later_votes",
           implies(all_of(report(a, b, c, v), c.before(d), d.before(b)), ~vote(a, d, u)),
           why="the vote was the latest, and the acceptor takes no part in earlier ballots since"),
    Always("a_proposal_excludes_other_values",
           implies(all_of(accept(b, v), c.before(b), u.differs(v)),
                   forall(q, exists(a, all_of(member(q, a), left(a, c), ~vote(a, c, u))))),
           why="of each quorum, an acceptor has left the earlier ballot without this vote"),
    Always("a_learned_value_has_a_quorum",
           implies(learned(b, v), exists(q, forall(a, implies(member(q, a), vote(a, b, v))))),
           why="votes are not taken back"),
    Always("a_voter_has_a_latest_vote", implies(vote(a, b, v), latest(a).is_set),
           why="an acceptor notes its vote as it sends it"),
    Always("a_latest_vote_has_a_value", implies(latest(a) == b, value(a).is_set),
           why="an acceptor notes the ballot and the value of a vote together"),
)
