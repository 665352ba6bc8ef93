"""Paxos with a mistake, to show a counterexample.

The mistake is to keep a promise and forget to report the vote. An acceptor still takes no part in
earlier ballots. But a proposer hears of no vote, thinks that it is free, and proposes a second
value after the first one was chosen.

Rule 2 of paxos.py forbids it: a promise reports the latest vote of the acceptor.
"""

from typing import Final

from pdproto.spec.examples.paxos import SYSTEM as PAXOS
from pdproto.spec.examples.paxos import latest, value
from pdproto.spec.examples.voting import a
from pdproto.spec.language import DropClause, DropRow, System, any_of, edited

SYSTEM: Final[System] = edited(
    PAXOS, "paxos-broken",
    DropRow("report"), DropClause("promise", any_of(latest(a).unset, value(a).unset)),
    about="Paxos whose acceptors promise without a report of their votes, which is a mistake.",
)
