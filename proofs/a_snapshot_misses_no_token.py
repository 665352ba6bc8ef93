"""Claim: a snapshot has each token once, for any number of processes and tokens, and channels of
any length.

Method: induction over every row, by Z3 with quantifiers (pdproto/check/prove/quantified.py), with
the messages of a channel at places that do not shift (pdproto/check/prove/places.py); the lemmas
are in spec/lemmas/snapshot_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: each token is dealt to one process. A marker waits behind the
tokens that were sent before it, which is part of the tables.
Vacuity: every row fires in a state that is reached and in which all claims hold. Mutants: a process
that counts tokens behind a marker, and one that counts none on their way.
"""

from pdproto.check.prove.proving import QUANTIFIED
from pdproto.spec.examples.snapshot import PROTOCOL, k, p, q
from pdproto.spec.language import DropClause, DropEffect
from proofs.claim import Safety

CLAIM = Safety(
    "snapshot", engine=QUANTIFIED, unasked=True, explored=True, slow=("holds",),
    nightly=("holds-snapshot",),  # half a minute; paxos is proved in this way by day
    defects=(
        DropClause("receive_on_the_way", ~PROTOCOL.heard(p, q)),
        DropEffect("receive_on_the_way", PROTOCOL.on_the_way(p, q, k).to(True)),
    ),
)
