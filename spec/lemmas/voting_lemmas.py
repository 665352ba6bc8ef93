"""Why voting chooses one value at most, for any number of acceptors, quorums, ballots and values: a
vote excludes every other value from all earlier ballots.
"""

from typing import Final

from pdproto.spec.examples.voting import a, b, c, e, member, out, q, u, v, voted
from pdproto.spec.language import Always, all_of, exists, forall, implies

LEMMAS: Final = (
    Always("a_ballot_has_one_value", implies(all_of(voted(a, b, u), voted(e, b, v)), u.same(v)),
           why="an acceptor votes for the value that has votes in the ballot already"),
    Always("a_vote_excludes_other_values",
           implies(all_of(voted(e, b, v), c.before(b), u.differs(v)),
                   forall(q, exists(a, all_of(member(q, a), out(a, c), ~voted(a, c, u))))),
           why="of each quorum, an acceptor has left the earlier ballot without this vote"),
)
